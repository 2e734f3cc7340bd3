/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NCCL's topology file, read back as NCCL reads it: what hangs below what, by the guest's addresses, with the host's links. */
#include "guest/fixture.h"

#include <errno.h>
#include <libxml/parser.h>

#include "base/auto.h"
#include "base/sbuf.h"
#include "guest/layout.h"

/* Node 0: a switch with a GPU and, cascaded, one with a GPU and a NIC. Node 1: a GPU at a root port. */
static const struct fx_function host[] = {
	{ "0000:00:01.0", NULL, HOST_ROOT_PORT, 0, 0, NULL },
	{ "0000:10:00.0", "0000:00:01.0", HOST_USP, 0, 0, NULL },
	{ "0000:11:00.0", "0000:10:00.0", HOST_DSP, 0, 0, NULL },
	{ "0000:11:01.0", "0000:10:00.0", HOST_DSP, 0, 0, NULL },
	{ "0000:12:00.0", "0000:11:00.0", HOST_USP, 0, 0, NULL },
	{ "0000:13:00.0", "0000:12:00.0", HOST_DSP, 0, 0, NULL },
	{ "0000:13:01.0", "0000:12:00.0", HOST_DSP, 0, 0, NULL },
	{ "0000:14:00.0", "0000:13:00.0", HOST_GPU, 0, GIB, NULL },
	{ "0000:15:00.0", "0000:13:01.0", HOST_NIC, 0, MIB, NULL },
	{ "0000:15:00.2", "0000:13:01.0", HOST_NIC, 0, MIB, "0000:15:00.0" },
	{ "0000:16:00.0", "0000:11:01.0", HOST_GPU, 0, GIB, NULL },
	{ "0000:80:01.0", NULL, HOST_ROOT_PORT, 1, 0, NULL },
	{ "0000:81:00.0", "0000:80:01.0", HOST_GPU, 1, GIB, NULL },
};

static void set_link(struct fx *f, const char *bdf, struct pcicap_link now, struct pcicap_link most)
{
	struct host_facts *facts = (struct host_facts *)topo_at(f->topo, topo_find(f->topo, fx_bdf(bdf)))->fn->facts;

	facts->link_now = now;
	facts->link_cap = most;
}

static void set_up(struct fx *f)
{
	fx_init(f, host, ARRAY_SIZE(host));
	fx_cell(f, 0, GIB, 1);
	fx_cell(f, 1, GIB, 1);
	for (size_t i = 0; i < ARRAY_SIZE(host); i++)
		set_link(f, host[i].bdf, (struct pcicap_link){ 5, 16 }, (struct pcicap_link){ 5, 16 });
}

static char *make(const struct fx *f)
{
	struct error err = ERROR_INIT;
	char *xml = NULL;

	if (guest_nccl_xml(&xml, f->plan, f->topo, &err) < 0)
		fail_msg("%s", err.text);
	return xml;
}

static void attr(struct sbuf *s, xmlNodePtr n, const char *name, const char *before)
{
	xmlChar *v = xmlGetProp(n, (const xmlChar *)name);

	if (v)
		sbuf_addf(s, "%s%s", before, (const char *)v);
	xmlFree(v);
}

/* "cpu 0(sw 60400 32.0 GT/s PCIe x16(...))" */
static void outline(struct sbuf *s, xmlNodePtr n)
{
	for (; n; n = n->next) {
		if (n->type != XML_ELEMENT_NODE)
			continue;
		sbuf_add(s, s->len && s->text[s->len - 1] != '(' ? " " : "");
		sbuf_add(s, (const char *)n->name);
		attr(s, n, "numaid", " ");
		attr(s, n, "busid", " ");
		attr(s, n, "link_speed", " ");
		attr(s, n, "link_width", " x");
		if (n->children) {
			sbuf_add(s, "(");
			outline(s, n->children);
			sbuf_add(s, ")");
		}
	}
}

static void assert_outline(const char *xml, const char *wanted)
{
	xmlDocPtr doc = xmlReadMemory(xml, (int)strlen(xml), "nccl", NULL, XML_PARSE_NONET);
	struct sbuf s = { 0 };

	assert_non_null(doc);
	outline(&s, xmlDocGetRootElement(doc));
	assert_string_equal(s.text, wanted);
	sbuf_done(&s);
	xmlFreeDoc(doc);
}

/* Of the layout, which the domain XML is written from: pcie-root has buses up to the first PXB's. */
static char *guest_name(char buf[BDF_TEXT_MAX], const struct fx *f, const char *bdf)
{
	struct error err = ERROR_INIT;
	struct guest_layout l;

	assert_int_equal(guest_layout_build(&l, f->plan, f->topo, &err), 0);
	for (size_t i = 0; i < l.ndevices; i++)
		if (bdf_eq(l.device[i].bdf, fx_bdf(bdf)))
			(void)bdf_text(buf, guest_bdf(&l, l.device[i].at));
	guest_layout_done(&l);
	return buf;
}

static void test_cascaded(void **state)
{
	char upper[BDF_TEXT_MAX], lower[BDF_TEXT_MAX], vf[BDF_TEXT_MAX], alone[BDF_TEXT_MAX];
	struct bdf up, low;
	autofree char *xml = NULL, *wanted = NULL;
	struct fx f;

	(void)state;
	set_up(&f);
	fx_gpu(&f, "0000:14:00.0");
	fx_gpu(&f, "0000:16:00.0");
	fx_gpu(&f, "0000:81:00.0");
	fx_vf(&f, "0000:15:00.2", "0000:15:00.0");
	/* its PF trained down; an idle GPU's link is as fast as it can be */
	set_link(&f, "0000:15:00.0", (struct pcicap_link){ 4, 8 }, (struct pcicap_link){ 5, 16 });
	set_link(&f, "0000:14:00.0", (struct pcicap_link){ 1, 16 }, (struct pcicap_link){ 5, 16 });
	set_link(&f, "0000:13:00.0", (struct pcicap_link){ 1, 16 }, (struct pcicap_link){ 5, 16 });
	xml = make(&f);
	/* one bus below each: root port, switch, port, switch, port (GPU 14), port (VF), port (GPU 16) */
	assert_true(bdf_parse(&up, guest_name(upper, &f, "0000:16:00.0")));
	assert_true(bdf_parse(&low, guest_name(lower, &f, "0000:14:00.0")));
	assert_int_equal(up.bus, low.bus + 2);
	assert_true(asprintf(&wanted,
			     "system(cpu 0(pci 0000:%02x:00.0 32.0 GT/s PCIe x16("
			     "pci 0000:%02x:00.0 32.0 GT/s PCIe x16(pci %s 32.0 GT/s PCIe x16 pci %s 16.0 GT/s PCIe x8)"
			     " pci %s 32.0 GT/s PCIe x16)) cpu 1(pci %s 32.0 GT/s PCIe x16))",
			     low.bus - 4, low.bus - 2, lower, guest_name(vf, &f, "0000:15:00.2"), upper,
			     guest_name(alone, &f, "0000:81:00.0")) > 0);
	assert_outline(xml, wanted);
	fx_done(&f);
}

/* A switch of switches with one of them below it has no port in the guest: its address is of no bus there. */
static void test_invented(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	set_up(&f);
	fx_gpu(&f, "0000:14:00.0");
	xml = make(&f);
	assert_non_null(strstr(xml, "busid=\"ffff:ff:01.0\" class=\"0x060400\""));
	fx_done(&f);
}

/* NCCL's own reader takes spaces and newlines between elements, and no declaration (src/graph/xml.cc, xmlGetNode()). */
static void test_text(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	set_up(&f);
	fx_gpu(&f, "0000:14:00.0");
	fx_vf(&f, "0000:15:00.2", "0000:15:00.0");
	xml = make(&f);
	assert_true(strncmp(xml, "<system version=\"1\">", 20) == 0);
	assert_null(strpbrk(xml, "\t&?!'"));
	for (const char *p = xml; (p = strchr(p, '/')); p++) /* "/>" or "</name>", and no space in either */
		assert_true(p[1] == '>' ? p[-1] == '"' : p[-1] == '<' || (p[-1] == 'T' && p[1] == 's'));
	fx_done(&f);
}

static void test_unknown_link(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	set_up(&f);
	set_link(&f, "0000:81:00.0", (struct pcicap_link){ 0 }, (struct pcicap_link){ 0 });
	set_link(&f, "0000:80:01.0", (struct pcicap_link){ 0 }, (struct pcicap_link){ 0 });
	fx_gpu(&f, "0000:81:00.0");
	xml = make(&f);
	assert_non_null(strstr(xml, "link_speed=\"\" link_width=\"\""));
	fx_done(&f);
}

/* NCCL takes 256 elements and adds its own: past 128 there is no file. 62 switches with a VF each and two CPUs are 126. */
static void test_too_many(void **state)
{
	struct fx_function *fn = calloc(64 * 4, sizeof(*fn));
	char (*text)[4][BDF_TEXT_MAX] = calloc(64, sizeof(*text));
	static const enum host_kind kinds[] = { HOST_ROOT_PORT, HOST_USP, HOST_DSP, HOST_NIC };
	struct error err = ERROR_INIT;
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		for (unsigned k = 0; k < 4; k++) {
			(void)snprintf(text[i][k], BDF_TEXT_MAX, "%04x:%02x:00.0", i, k);
			fn[i * 4 + k] = (struct fx_function){ text[i][k], k ? text[i][k - 1] : NULL, kinds[k], (int)(i % 2), 0, NULL };
		}
	fx_init(&f, fn, 64 * 4);
	fx_cell(&f, 0, GIB, 1);
	fx_cell(&f, 1, GIB, 1);
	for (unsigned i = 0; i < 62; i++)
		fx_vf(&f, text[i][3], text[i][3]);
	assert_int_equal(guest_nccl_xml(&xml, f.plan, f.topo, &err), 0);
	for (unsigned i = 62; i < 64; i++)
		fx_vf(&f, text[i][3], text[i][3]);
	assert_int_equal(guest_nccl_xml(&xml, f.plan, f.topo, &err), -E2BIG);
	assert_non_null(strstr(err.text, "would have 131 elements"));
	fx_done(&f);
	free(text);
	free(fn);
}

/* ---- the environment ------------------------------------------------------------------------------------ */

static void assert_environment(const struct fx *f, const char *wanted)
{
	struct error err = ERROR_INIT;
	autofree char *text = NULL;

	assert_int_equal(guest_environment(&text, f->plan, f->topo, &err), 0);
	assert_string_equal(text, wanted);
}

static void test_environment(void **state)
{
	struct host_facts *nic;
	struct fx f;

	(void)state;
	set_up(&f);
	nic = (struct host_facts *)topo_at(f.topo, topo_find(f.topo, fx_bdf("0000:15:00.0")))->fn->facts;
	nic->vendor = 0x15b3;
	assert_environment(&f, ""); /* no GPU, no NCCL */
	fx_vf(&f, "0000:15:00.2", "0000:15:00.0");
	assert_environment(&f, "");
	fx_gpu(&f, "0000:14:00.0");
	assert_environment(&f, "NCCL_TOPO_FILE=/etc/nccl-topology.xml\nNCCL_IB_PCI_RELAXED_ORDERING=2\n"
			       "NCCL_IB_HCA=mlx5,rocep,ibp\n");
	nic->vendor = 0x14e4; /* its devices have names that are not known: NCCL takes all */
	assert_environment(&f, "NCCL_TOPO_FILE=/etc/nccl-topology.xml\nNCCL_IB_PCI_RELAXED_ORDERING=2\n");
	f.plan->nvfs = 0;
	assert_environment(&f, "NCCL_TOPO_FILE=/etc/nccl-topology.xml\n");
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cascaded),
		cmocka_unit_test(test_invented),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_unknown_link),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
