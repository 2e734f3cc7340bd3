/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The goldens of domain XML, one for each text host and request: libvirt's schema and its test driver take them, and who
 * reads the tree from the XML alone finds the host's switches again. NCCL's files name no function of the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <glob.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/file.h"
#include "support.h"

extern char **environ;

#define BUSES   256
#define DEVICES 64

struct tree { /* by the index of a controller, which is the number of the bus below it */
	struct {
		bool     there, usp, pxb;
		unsigned up, slot, nr; /* nr: of the bus below it, as firmware numbers it */
		unsigned cell;         /* of an expander */
	} bus[BUSES];
	struct {
		struct bdf host;
		unsigned   bus, slot, function;
	} dev[DEVICES];
	size_t ndevs;
	int    node[16]; /* of the host, by cell; -1 */
};

__attribute__((noinline)) static char *read_golden(const char *path)
{
	char *text = NULL;
	size_t len;

	assert_int_equal(file_read(&text, &len, path, 1 << 20), 0);
	return text;
}

/* A plan that does not fit has no XML: its golden is the reason, and the exit status. */
static bool is_xml(const char *text)
{
	return strncmp(text, "<domain", 7) == 0 || strncmp(text, "<system", 7) == 0;
}

/* ---- libvirt ------------------------------------------------------------------------------------------ */

static void assert_valid(const char *path)
{
	char *const argv[] = { (char[]){ "virt-xml-validate" }, (char *)path, (char[]){ "domain" }, NULL };
	posix_spawn_file_actions_t quiet;
	int status = 0;
	pid_t pid;

	assert_int_equal(posix_spawn_file_actions_init(&quiet), 0);
	for (int out = 1; out <= 2; out++)
		assert_int_equal(posix_spawn_file_actions_addopen(&quiet, out, "/dev/null", O_WRONLY, 0), 0);
	if (posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) != 0)
		fail_msg("virt-xml-validate is not installed: make deps");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)posix_spawn_file_actions_destroy(&quiet);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("%s is not valid", path);
}

/* Its own type: other drivers' are not its to define. And it adds no bus and moves nothing. */
static void assert_defined(virConnectPtr conn, const char *path, const char *xml)
{
	const char *rest = strchr(xml, '>'), *space = strstr(xml, " type=\"");
	autofree char *own = NULL, *back = NULL;
	virDomainPtr dom;
	size_t before = 0, after = 0;

	assert_true(space && space < rest);
	assert_true(asprintf(&own, "<domain type=\"test\"%s", strchr(space + 7, '"') + 1) > 0);
	dom = virDomainDefineXMLFlags(conn, own, VIR_DOMAIN_DEFINE_VALIDATE);
	if (!dom)
		fail_msg("%s: %s", path, virGetLastErrorMessage());
	back = virDomainGetXMLDesc(dom, 0);
	for (const char *p = own; (p = strstr(p, "type=\"pci\" index=\"")); p++)
		before++;
	for (const char *p = back; (p = strstr(p, "type='pci' index='")); p++)
		after++;
	if (before != after)
		fail_msg("%s has %zu PCI controllers, and libvirt makes %zu of them", path, before, after);
	assert_int_equal(virDomainUndefine(dom), 0);
	(void)virDomainFree(dom);
}

/* ---- the tree in it ------------------------------------------------------------------------------------- */

static unsigned number(xmlNodePtr n, const char *attr)
{
	xmlChar *v = xmlGetProp(n, (const xmlChar *)attr);
	unsigned u = v ? (unsigned)strtoul((const char *)v, NULL, 0) : UINT32_MAX;

	xmlFree(v);
	return u;
}

static bool has(xmlNodePtr n, const char *attr, const char *value)
{
	xmlChar *v = xmlGetProp(n, (const xmlChar *)attr);
	bool is = v && strcmp((const char *)v, value) == 0;

	xmlFree(v);
	return is;
}

static xmlNodePtr child(xmlNodePtr n, const char *name)
{
	for (n = n->children; n; n = n->next)
		if (n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, name) == 0)
			return n;
	return NULL;
}

static unsigned busnr(xmlNodePtr controller)
{
	return number(child(controller, "target"), "busNr");
}

static void add_controller(struct tree *t, xmlNodePtr n)
{
	unsigned i = number(n, "index");
	xmlNodePtr at = child(n, "address");

	if (!has(n, "type", "pci"))
		return;
	assert_true(i < BUSES && !t->bus[i].there);
	t->bus[i].there = true;
	t->bus[i].usp = has(n, "model", "pcie-switch-upstream-port");
	t->bus[i].pxb = has(n, "model", "pcie-expander-bus");
	t->bus[i].up = at ? number(at, "bus") : 0;
	t->bus[i].slot = at ? number(at, "slot") : 0;
	t->bus[i].nr = t->bus[i].pxb ? busnr(n) : 0;
	if (t->bus[i].pxb) {
		xmlChar *cell = xmlNodeGetContent(child(child(n, "target"), "node"));

		t->bus[i].cell = (unsigned)strtoul((const char *)cell, NULL, 10);
		xmlFree(cell);
	}
}

static void read_nodes(struct tree *t, xmlNodePtr numatune)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->node); i++)
		t->node[i] = -1;
	for (xmlNodePtr n = numatune ? numatune->children : NULL; n; n = n->next)
		if (n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, "memnode") == 0) {
			assert_true(number(n, "cellid") < ARRAY_SIZE(t->node));
			t->node[number(n, "cellid")] = (int)number(n, "nodeset");
		}
}

static void add_device(struct tree *t, xmlNodePtr n)
{
	xmlNodePtr at = child(n, "address"), source = child(child(n, "source"), "address");

	assert_true(t->ndevs < DEVICES && at && source);
	t->dev[t->ndevs].host = (struct bdf){ number(source, "domain"), (uint8_t)number(source, "bus"),
					      (uint8_t)(number(source, "slot") << 3 | number(source, "function")) };
	t->dev[t->ndevs].bus = number(at, "bus");
	t->dev[t->ndevs].function = number(at, "function");
	t->dev[t->ndevs++].slot = number(at, "slot");
}

/* Firmware gives each bridge the next number, depth first; an expander's is given, and pcie-root's come first. */
static void number_buses(struct tree *t)
{
	unsigned next = 1, below_root = 1;

	for (unsigned i = 1; i < BUSES && t->bus[i].there; i++) {
		unsigned top = i;

		while (t->bus[top].up)
			top = t->bus[top].up;
		if (!t->bus[i].pxb)
			t->bus[i].nr = t->bus[top].pxb ? next : below_root++;
		next = t->bus[i].nr + 1;
	}
}

static void read_tree(struct tree *t, const char *xml)
{
	xmlDocPtr doc = xmlReadMemory(xml, (int)strlen(xml), "domain", NULL, XML_PARSE_NONET);
	xmlNodePtr devices;

	assert_non_null(doc);
	*t = (struct tree){ 0 };
	read_nodes(t, child(xmlDocGetRootElement(doc), "numatune"));
	devices = child(xmlDocGetRootElement(doc), "devices");
	for (xmlNodePtr n = devices->children; n; n = n->next) {
		if (n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, "controller") == 0)
			add_controller(t, n);
		if (n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, "hostdev") == 0)
			add_device(t, n);
	}
	xmlFreeDoc(doc);
	number_buses(t);
}

/* Whether a switch is above both. */
static bool guest_shares(const struct tree *t, size_t a, size_t b)
{
	for (unsigned x = t->dev[a].bus; x; x = t->bus[x].up)
		for (unsigned y = t->dev[b].bus; y; y = t->bus[y].up)
			if (x == y && t->bus[x].usp)
				return true;
	return false;
}

/* ---- the host's ----------------------------------------------------------------------------------------- */

/* Of a VF that is not there yet, its PF's place (PCIe 9.2.1.2). */
static uint32_t host_place(const struct topo *t, struct bdf b)
{
	uint32_t at = topo_find(t, b);

	for (uint32_t i = 0; at == TOPO_NONE && i < topo_count(t); i++) {
		const struct host_function *fn = topo_at(t, i)->fn;
		const struct pcicap_sriov *s = &fn->facts->cap.sriov;

		for (unsigned n = 0; s->known == HOST_PRESENT && n < s->total && at == TOPO_NONE; n++) {
			struct bdf vf;

			if (bdf_add(&vf, fn->bdf, s->offset + n * s->stride) && bdf_eq(vf, b))
				at = i;
		}
	}
	assert_true(at != TOPO_NONE);
	return at;
}

static bool host_shares(const struct topo *t, uint32_t a, uint32_t b)
{
	for (uint32_t x = topo_at(t, a)->usp; x != TOPO_NONE; x = topo_at(t, x)->usp)
		for (uint32_t y = topo_at(t, b)->usp; y != TOPO_NONE; y = topo_at(t, y)->usp)
			if (x == y)
				return true;
	return false;
}

static void assert_mirrors(const char *path, const struct topo *host, const struct tree *t, bool flat)
{
	char one[BDF_TEXT_MAX], other[BDF_TEXT_MAX];

	for (size_t a = 0; a < t->ndevs; a++)
		for (size_t b = a + 1; b < t->ndevs; b++) {
			bool guest = guest_shares(t, a, b), wanted = !flat && host_shares(host, host_place(host, t->dev[a].host),
											    host_place(host, t->dev[b].host));

			if (guest != wanted)
				fail_msg("%s: %s and %s are %sbelow one switch", path, bdf_text(one, t->dev[a].host),
					 bdf_text(other, t->dev[b].host), guest ? "" : "not ");
		}
}

/* The expander above; 0: below pcie-root. */
static unsigned expander_of(const struct tree *t, size_t dev)
{
	unsigned at = t->dev[dev].bus;

	while (t->bus[at].up)
		at = t->bus[at].up;
	return t->bus[at].pxb ? at : 0;
}

/* The node that a device is on, or where that has no memory none nearer that has memory and CPUs. */
static bool is_its_cell(const struct topo *host, int device, int cell)
{
	const struct inventory *inv = topo_inventory(host);
	const struct host_node *n = host_node_find(inv, device);
	bool least = device != cell && n && n->memory_known && !n->mem_total;

	for (size_t i = 0; least && i < inv->nnodes; i++)
		least = !inv->node[i].mem_total || !cpuset_count(&inv->node[i].cpus) ||
			n->distance[i] >= n->distance[host_node_find(inv, cell) - inv->node];
	return device == cell || least;
}

/* Devices share an expander exactly if they share a host bridge and a cell; and the cell is of the node that the host has
 * them on, but where its firmware says different things of one switch. */
static void assert_roots(const char *path, const struct topo *host, const struct tree *t)
{
	bool odd = strstr(path, "/hosts/odd/");

	for (size_t a = 0; a < t->ndevs; a++) {
		const struct host_facts *f = topo_at(host, host_place(host, t->dev[a].host))->fn->facts;
		unsigned x = expander_of(t, a);

		if (x && !odd && f->numa_node >= 0 && !is_its_cell(host, f->numa_node, t->node[t->bus[x].cell]))
			fail_msg("%s: device %zu is of node %d, and its cell of %d", path, a, f->numa_node, t->node[t->bus[x].cell]);
		for (size_t b = a + 1; b < t->ndevs; b++) {
			const struct host_facts *g = topo_at(host, host_place(host, t->dev[b].host))->fn->facts;
			unsigned y = expander_of(t, b);
			bool wanted = strcmp(f->root_bus, g->root_bus) == 0 && t->bus[x].cell == t->bus[y].cell;

			if (x && y && (x == y) != wanted)
				fail_msg("%s: devices %zu and %zu are of %s and %s, and share %s expander", path, a, b, f->root_bus, g->root_bus,
					 x == y ? "an" : "no");
		}
	}
}

/* No GPU is on a root bus, pcie-root's or an expander's; nothing but functions of one device share a port. */
static void assert_ports(const char *path, const struct tree *t)
{
	for (size_t a = 0; a < t->ndevs; a++) {
		if (t->dev[a].bus == 0 || t->bus[t->dev[a].bus].pxb)
			fail_msg("%s: a device is on a root bus", path);
		for (size_t b = a + 1; b < t->ndevs; b++)
			assert_true(t->dev[a].bus != t->dev[b].bus || (t->dev[a].slot == t->dev[b].slot &&
				    bdf_same_device(t->dev[a].host, t->dev[b].host)));
	}
}

/* ---- all of them ---------------------------------------------------------------------------------------- */

/* "…/hosts/NAME/golden/…" -> NAME */
static void host_of(char name[64], const char *path)
{
	const char *at = strstr(path, "/hosts/") + strlen("/hosts/");

	(void)snprintf(name, 64, "%.*s", (int)strcspn(at, "/"), at);
}

static struct topo *topo_of(const char *path)
{
	char name[64];

	host_of(name, path);
	return strncmp(name, "rdma-topo", 9) == 0 ? NULL : test_topo_host(name);
}

static void domains(void **state)
{
	virConnectPtr conn = virConnectOpen("test:///default");
	size_t valid = 0, mirrored = 0;
	glob_t g;

	(void)state;
	assert_non_null(conn);
	assert_int_equal(glob(TEST_SOURCE "/tests/hosts/*/golden/domain-*.xml", 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		autofree char *xml = read_golden(g.gl_pathv[i]);
		struct topo *host;
		struct tree t;

		if (!is_xml(xml))
			continue;
		assert_valid(g.gl_pathv[i]);
		assert_defined(conn, g.gl_pathv[i], xml);
		read_tree(&t, xml);
		assert_ports(g.gl_pathv[i], &t);
		host = topo_of(g.gl_pathv[i]);
		if (host) {
			assert_mirrors(g.gl_pathv[i], host, &t, strstr(g.gl_pathv[i], "domain-flat"));
			assert_roots(g.gl_pathv[i], host, &t);
			mirrored++;
		}
		topo_unref(host);
		valid++;
	}
	globfree(&g);
	(void)virConnectClose(conn);
	assert_true(valid >= 20 && mirrored >= 20); /* of more than 20 hosts, those with an IOMMU */
}

/* Functions and ports of the guest; and invented ones, of switches that it has no port for. */
static bool guest_has(const struct tree *t, struct bdf b)
{
	bool is = b.domain == 0xffff;

	for (size_t i = 0; i < t->ndevs; i++)
		is |= bdf_eq(b, (struct bdf){ 0, (uint8_t)t->bus[t->dev[i].bus].nr, (uint8_t)(t->dev[i].slot << 3 | t->dev[i].function) });
	for (unsigned i = 1; i < BUSES && t->bus[i].there; i++)
		is |= bdf_eq(b, (struct bdf){ 0, (uint8_t)t->bus[t->bus[i].up].nr, (uint8_t)(t->bus[i].slot << 3) });
	return is;
}

static void nccl(void **state)
{
	size_t files = 0;
	glob_t g;

	(void)state;
	assert_int_equal(glob(TEST_SOURCE "/tests/hosts/*/golden/nccl-*.xml", 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		autofree char *xml = read_golden(g.gl_pathv[i]), *path = strdup(g.gl_pathv[i]), *domain = NULL, *of = NULL;
		unsigned nodes = 0;
		struct tree t;

		if (!is_xml(xml))
			continue;
		*strstr(path, "/nccl-") = '\0';
		assert_true(asprintf(&of, "%s/domain-%s", path, strstr(g.gl_pathv[i], "/nccl-") + strlen("/nccl-")) > 0);
		domain = read_golden(of);
		read_tree(&t, domain);
		for (const char *p = xml; (p = strstr(p, "busid=\"")); p++, nodes++) {
			char name[BDF_TEXT_MAX];
			struct bdf b;

			(void)snprintf(name, sizeof(name), "%.12s", p + 7);
			assert_true(bdf_parse(&b, name));
			if (!guest_has(&t, b))
				fail_msg("%s names %s, which the guest does not have", g.gl_pathv[i], name);
		}
		assert_true(nodes > 0 && nodes < 128);
		files++;
	}
	globfree(&g);
	assert_true(files >= 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(domains), cmocka_unit_test(nccl) };

	return cmocka_run_group_tests_name("goldens", tests, NULL, NULL);
}
