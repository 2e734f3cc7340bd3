/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What in a domain's XML makes its devices lose peer-to-peer without a word, whoever put it there. QEMU maps a BAR for a device's
 * peers by the address where it has mapped it itself (hw/vfio/listener.c, vfio_listener_region_add()): with x-no-mmap there is
 * none. iommufd takes no BARs before Linux has VFIO_PCI_DMABUF (6.19) and QEMU uses it. */
#include <errno.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <libxml/xpathInternals.h>
#include <string.h>

#include "act/libvirt.h"
#include "base/arena.h"
#include "base/auto.h"
#include "base/sbuf.h"

#define QEMU "http://libvirt.org/schemas/domain/qemu/1.0"

/* What names it, and in what words; the string of the second expression, in the context of each, says which device. */
static const struct {
	const char *where, *whose, *what;
} losses[] = {
	{ "//q:override/q:device[q:frontend/q:property[@name='x-no-mmap' and not(@type='remove' or @value='false' or @value='0')]]",
	  "string(@alias)", "x-no-mmap" },
	{ "//q:override/q:device[q:frontend/q:property[@name='iommufd' and not(@type='remove')]]", "string(@alias)", "iommufd" },
	{ "//q:commandline/q:arg[contains(@value, 'x-no-mmap') and not(contains(@value, 'x-no-mmap=off') or"
	  " contains(@value, 'x-no-mmap=false') or contains(@value, '\"x-no-mmap\":false'))]", "string(@value)", "x-no-mmap" },
	{ "//q:commandline/q:arg[contains(@value, 'iommufd')]", "string(@value)", "iommufd" },
	{ "/domain/devices/hostdev[driver/@iommufd='yes']", "string(alias/@name)", "iommufd" },
	{ "/domain/iommufd[@enabled='yes']", "'all devices'", "iommufd" },
};

static bool add(struct sbuf *text, xmlXPathContextPtr ctx, size_t i)
{
	xmlXPathObjectPtr found = xmlXPathEvalExpression((const xmlChar *)losses[i].where, ctx);
	xmlNodePtr root = ctx->node;
	bool good = found;

	for (int k = 0; good && found->nodesetval && k < found->nodesetval->nodeNr; k++) {
		xmlXPathObjectPtr whose;

		ctx->node = found->nodesetval->nodeTab[k];
		whose = xmlXPathEvalExpression((const xmlChar *)losses[i].whose, ctx);
		good = whose && whose->type == XPATH_STRING;
		if (good)
			sbuf_addf(text, "%s%s (%.64s)", text->len ? ", " : "", losses[i].what, (const char *)whose->stringval);
		xmlXPathFreeObject(whose);
	}
	ctx->node = root;
	xmlXPathFreeObject(found);
	return good;
}

int act_domain_loses(const char **ret, const char *xml, struct arena *arena)
{
	xmlDocPtr doc = xmlReadMemory(xml, (int)strlen(xml), "domain", NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	xmlXPathContextPtr ctx = doc ? xmlXPathNewContext(doc) : NULL;
	bool good = ctx && xmlXPathRegisterNs(ctx, (const xmlChar *)"q", (const xmlChar *)QEMU) == 0;
	struct sbuf text = { 0 };
	int r = doc ? -ENOMEM : -EBADMSG;

	for (size_t i = 0; good && i < ARRAY_SIZE(losses); i++)
		good = add(&text, ctx, i);
	if (good && !text.failed) {
		*ret = arena_strdup(arena, text.text ? text.text : "");
		r = *ret ? 0 : -ENOMEM;
	}
	sbuf_done(&text);
	xmlXPathFreeContext(ctx);
	xmlFreeDoc(doc);
	return r;
}
