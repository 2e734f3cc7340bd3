/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All of libvirt's domains, with the PCI functions of the host that each has: of one that runs as it runs, of one that is off as
 * it would start (virDomainGetXMLDesc). Functions are in <hostdev>, in <interface type='hostdev'>, which is also how the
 * interface of a pool of VFs is shown while it runs, and in <disk type='nvme'> (https://libvirt.org/formatdomain.html). */
#include "act/libvirt.h"

#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

AUTO_DEFINE(virConnectPtr, virConnectClose);

#define FUNCTIONS "/domain/devices/hostdev[@mode='subsystem' and @type='pci']/source/address" \
		  " | /domain/devices/interface[@type='hostdev']/source/address[@type='pci']" \
		  " | /domain/devices/disk[@type='nvme']/source/address"

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for libvirt's domains");
}

/* libvirt writes them with 0x; what is not there is 0. */
static bool read_part(xmlNodePtr node, const char *name, unsigned max, unsigned *ret)
{
	xmlChar *text = xmlGetProp(node, (const xmlChar *)name);
	char *end = NULL;
	unsigned long v = text ? strtoul((const char *)text, &end, 0) : 0;
	bool good = !text || (end != (const char *)text && !*end && v <= max);

	xmlFree(text);
	*ret = (unsigned)v;
	return good;
}

static bool read_address(xmlNodePtr node, struct bdf *ret)
{
	unsigned domain, bus, slot, function;

	if (!read_part(node, "domain", UINT32_MAX - 1, &domain) || !read_part(node, "bus", 0xff, &bus) ||
	    !read_part(node, "slot", 0x1f, &slot) || !read_part(node, "function", 7, &function))
		return false;
	*ret = (struct bdf){ .domain = domain, .bus = (uint8_t)bus, .devfn = (uint8_t)(slot << 3 | function) };
	return true;
}

/* False: it is not known what devices the domain has. */
static bool read_functions(struct act_guest *g, xmlXPathContextPtr ctx, struct arena *arena)
{
	xmlXPathObjectPtr found = xmlXPathEvalExpression((const xmlChar *)FUNCTIONS, ctx);
	xmlNodeSetPtr set = found ? found->nodesetval : NULL;
	size_t n = set && set->nodeNr > 0 ? (size_t)set->nodeNr : 0;
	struct bdf *device = arena_array(arena, n, sizeof(*device));
	bool good = found && device;

	for (size_t i = 0; good && i < n; i++)
		good = read_address(set->nodeTab[i], &device[i]);
	xmlXPathFreeObject(found);
	g->device = device;
	g->n = good ? n : 0;
	return good;
}

static void read_xml(struct act_guest *g, virDomainPtr dom, struct arena *arena)
{
	autofree char *xml = virDomainGetXMLDesc(dom, 0);
	xmlDocPtr doc = xml ? xmlReadMemory(xml, (int)strlen(xml), "domain", NULL, XML_PARSE_NONET | XML_PARSE_NOERROR |
								     XML_PARSE_NOWARNING) : NULL;
	xmlXPathContextPtr ctx = doc ? xmlXPathNewContext(doc) : NULL;

	g->known = ctx && read_functions(g, ctx, arena);
	g->loses = NULL;
	if (doc)
		(void)act_domain_loses(&g->loses, xml, arena); /* else it is unknown */
	xmlXPathFreeContext(ctx);
	xmlFreeDoc(doc);
}

/* 1: it is read; 0: it has gone since it was listed. */
static int read_domain(struct act_guest *g, virDomainPtr dom, struct arena *arena, struct error *err)
{
	int ours = act_virt_ours(dom, err), r;

	if (ours < 0)
		return ours;
	r = act_virt_state(dom, &g->state, err);
	if (r < 0)
		return r;
	if (virDomainGetUUIDString(dom, g->uuid) < 0)
		return error_set(err, -EREMOTEIO, "libvirt has a domain %s without a uuid", virDomainGetName(dom));
	g->name = arena_strdup(arena, virDomainGetName(dom));
	if (!g->name)
		return no_memory(err);
	g->ours = ours;
	read_xml(g, dom, arena);
	return g->known || virGetLastErrorCode() != VIR_ERR_NO_DOMAIN;
}

int act_virt_domains(struct act_virt *v, struct act_guest **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	virDomainPtr *list = NULL;
	struct act_guest *all = NULL;
	int r = act_virt_connection(v, &conn, err), count;
	size_t have = 0;

	if (r < 0)
		return r;
	count = virConnectListAllDomains(conn, &list, 0);
	if (count < 0)
		return error_set(err, -EREMOTEIO, "cannot list libvirt's domains: %s", virGetLastErrorMessage());
	all = arena_array(arena, (size_t)count, sizeof(*all));
	r = all ? 0 : no_memory(err);
	for (int i = 0; i < count; i++) {
		virResetLastError();
		if (r >= 0)
			r = read_domain(&all[have], list[i], arena, err);
		have += r > 0;
		(void)virDomainFree(list[i]);
	}
	free(list);
	*ret = all;
	*n = have;
	return r < 0 ? r : 0;
}
