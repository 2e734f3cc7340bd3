/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What libvirt's hypervisor offers: types of guests, and of firmware and TPM what is there, which depends on packages of the host
 * (https://libvirt.org/formatcaps.html, https://libvirt.org/formatdomaincaps.html). */
#include "act/libvirt.h"

#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "plan/request.h"

AUTO_DEFINE(virConnectPtr, virConnectClose);

/* Whether the document has such an element; what is no XML has none. */
static bool has(const char *xml, const char *path)
{
	xmlDocPtr doc = xmlReadMemory(xml, (int)strlen(xml), "capabilities", NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	xmlXPathContextPtr ctx = doc ? xmlXPathNewContext(doc) : NULL;
	xmlXPathObjectPtr found = ctx ? xmlXPathEvalExpression((const xmlChar *)path, ctx) : NULL;
	bool yes = found && !xmlXPathNodeSetIsEmpty(found->nodesetval);

	xmlXPathFreeObject(found);
	xmlXPathFreeContext(ctx);
	xmlFreeDoc(doc);
	return yes;
}

unsigned act_domain_lacks(const char *capabilities)
{
	static const struct {
		unsigned    lacks;
		const char *where;
	} looks[] = {
		{ PLAN_LACKS_UEFI, "/domainCapabilities/os/enum[@name='firmware' and not(value='efi')]" },
		{ PLAN_LACKS_SECURE_BOOT, "/domainCapabilities/os/loader/enum[@name='secure' and not(value='yes')]" },
		{ PLAN_LACKS_TPM, "/domainCapabilities/devices/tpm[not(enum[@name='backendModel']/value='emulator') or"
				  " enum[@name='backendVersion' and not(value='2.0')]]" },
	};
	unsigned lacks = 0;

	for (size_t i = 0; i < ARRAY_SIZE(looks); i++)
		lacks |= has(capabilities, looks[i].where) ? looks[i].lacks : 0;
	return lacks;
}

static const char *best_type(const char *capabilities)
{
	if (has(capabilities, "/capabilities/guest/arch[@name='x86_64']/domain[@type='kvm']"))
		return "kvm";
	return has(capabilities, "/capabilities/guest/arch[@name='x86_64']/domain[@type='qemu']") ? "qemu" : NULL;
}

int act_virt_offer(struct act_virt *v, struct act_offer *ret, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	autofree char *capabilities = NULL, *domain = NULL;
	const char *driver, *type;
	unsigned long version = 0;
	int r = act_virt_connection(v, &conn, err);

	if (r < 0)
		return r;
	driver = virConnectGetType(conn);
	capabilities = driver ? virConnectGetCapabilities(conn) : NULL;
	if (!capabilities)
		return error_set(err, -EREMOTEIO, "cannot read libvirt's capabilities: %s", virGetLastErrorMessage());
	type = strcasecmp(driver, "test") == 0 ? "test" : best_type(capabilities);
	if (!type)
		return error_set(err, -EREMOTEIO, "libvirt starts no x86_64 guest of type kvm or qemu; install qemu-system-x86 there");
	if (strcasecmp(driver, "qemu") == 0 && virConnectGetVersion(conn, &version) < 0)
		version = 0;
	if (strcasecmp(driver, "qemu") == 0)
		domain = virConnectGetDomainCapabilities(conn, NULL, "x86_64", "q35", type, 0);
	*ret = (struct act_offer){ .qemu = (unsigned)version, .lacks = domain ? act_domain_lacks(domain) : 0 };
	(void)snprintf(ret->type, sizeof(ret->type), "%s", type);
	return 0;
}
