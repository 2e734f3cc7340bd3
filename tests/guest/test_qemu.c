/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Properties of QEMU's devices by its version, and the room that a guest's BARs need. */
#include "guest/fixture.h"

#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "guest/layout.h"
#include "guest/qemu.h"

#define TIB (UINT64_C(1) << 40)

static struct host_facts *facts(const struct fx *f, const char *bdf)
{
	return (struct host_facts *)topo_at(f->topo, topo_find(f->topo, fx_bdf(bdf)))->fn->facts;
}

static struct inventory *inventory(const struct fx *f)
{
	return (struct inventory *)topo_inventory(f->topo);
}

static char *make_xml(const struct fx *f)
{
	struct error err = ERROR_INIT;
	char *xml = NULL;

	if (guest_domain_xml(&xml, f->plan, &f->request, f->topo, &f->env, &err) < 0)
		fail_msg("%s", err.text);
	return xml;
}

/* What QEMU is told of a device: "NAME=VALUE NAME=VALUE", "" nothing. */
static const char *told(char out[256], const char *xml, const char *alias)
{
	autofree char *mark = NULL;
	const char *p, *end;
	size_t n = 0;

	assert_true(asprintf(&mark, "<qemu:device alias=\"%s\">", alias) > 0);
	out[0] = '\0';
	p = strstr(xml, mark);
	end = p ? strstr(p, "</qemu:device>") : NULL;
	while (p && (p = strstr(p, "<qemu:property name=\"")) && p < end) {
		char name[32], type[16], value[16];

		assert_int_equal(sscanf(p, "<qemu:property name=\"%31[^\"]\" type=\"%15[^\"]\" value=\"%15[^\"]\"/>", name, type, value), 3);
		n += (size_t)snprintf(out + n, 256 - n, "%s%s=%s", n ? " " : "", name, value);
		p++;
	}
	return out;
}

#define assert_told(xml, alias, wanted)                                  \
	do {                                                             \
		char told_[256];                                         \
		assert_string_equal(told(told_, xml, alias), wanted);    \
	} while (0)

/* ---- links ---------------------------------------------------------------------------------------------- */

static void set_link(const struct fx *f, const char *bdf, uint8_t now, uint8_t most, uint8_t width)
{
	facts(f, bdf)->link_now = (struct pcicap_link){ now, width };
	facts(f, bdf)->link_cap = (struct pcicap_link){ most, width };
}

/* pci.1 is the expander, pci.2 its first port, which has the switch of 12:xx below it. */
static void test_links(void **state)
{
	autofree char *old = NULL, *new = NULL, *flat = NULL;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	fx_gpu(&f, "0000:13:00.0");
	fx_vf(&f, "0000:15:00.2", "0000:15:00.0");
	f.env.type = "kvm";
	set_link(&f, "0000:10:01.0", 5, 5, 16);
	set_link(&f, "0000:11:00.0", 5, 5, 16);
	set_link(&f, "0000:12:00.0", 1, 5, 16); /* an idle GPU's */
	set_link(&f, "0000:13:00.0", 1, 5, 16);
	set_link(&f, "0000:12:02.0", 3, 5, 8); /* came up narrow and slow */
	set_link(&f, "0000:15:00.0", 3, 5, 8);
	old = make_xml(&f);
	assert_told(old, "pci.2", "x-speed=16 x-width=16"); /* QEMU 7.2 has no more */
	f.env.qemu = 9000000;
	new = make_xml(&f);
	assert_told(new, "pci.2", "x-speed=32 x-width=16");
	assert_told(new, "pci.4", ""); /* QEMU's switch has no such thing */
	f.plan->root_ports = true;
	flat = make_xml(&f);
	assert_told(flat, "pci.2", "x-speed=32 x-width=16");
	assert_told(flat, "pci.3", "x-speed=8 x-width=8");
	facts(&f, "0000:13:00.0")->bars_known = facts(&f, "0000:15:00.2")->bars_known = true;
	free(flat);
	flat = make_xml(&f);
	assert_told(flat, "pci.3", "x-speed=8 x-width=8 io-reserve=0");
	f.env.type = "test"; /* no QEMU there */
	free(flat);
	flat = make_xml(&f);
	assert_null(strstr(flat, "qemu"));
	fx_done(&f);
}

/* ---- cliques -------------------------------------------------------------------------------------------- */

/* All GPUs are NVIDIA's, all ports as they say: without ACS, so that what is below one switch is direct. */
static void set_up(struct fx *f)
{
	static const char *const gpus[] = { "0000:13:00.0", "0000:14:00.0", "0000:83:00.0", "0000:93:00.0" };

	fx_init(f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(f, 0, GIB, 1);
	fx_cell(f, 1, GIB, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fx_host); i++) {
		struct pcicap *c = &facts(f, fx_host[i].bdf)->cap;
		enum host_kind k = fx_host[i].kind;

		c->readable = true;
		c->pcie = HOST_PRESENT;
		c->type = k == HOST_ROOT_PORT ? PCICAP_ROOT_PORT : k == HOST_USP ? PCICAP_USP : k == HOST_DSP ? PCICAP_DSP : PCICAP_ENDPOINT;
		c->acs.known = HOST_ABSENT;
	}
	for (size_t i = 0; i < ARRAY_SIZE(gpus); i++) {
		fx_gpu(f, gpus[i]);
		facts(f, gpus[i])->vendor = 0x10de;
		facts(f, gpus[i])->class = 0x030200;
	}
	f->env.type = "kvm";
	f->env.qemu = 8001000;
}

/* gpu0 and gpu1 are below one switch; gpu2 and gpu3 below one each, and this CPU is not known to pass requests on. */
static void test_clique(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	set_up(&f);
	xml = make_xml(&f);
	assert_told(xml, "ua-gpu0", "x-nv-gpudirect-clique=0");
	assert_told(xml, "ua-gpu1", "x-nv-gpudirect-clique=0");
	assert_told(xml, "ua-gpu2", "");
	assert_told(xml, "ua-gpu3", "");
	fx_done(&f);
}

static void assert_none(const struct fx *f)
{
	autofree char *xml = make_xml(f);

	assert_null(strstr(xml, "clique"));
}

static void test_no_clique(void **state)
{
	struct fx f;

	(void)state;
	set_up(&f);
	f.env.qemu = 8000005; /* it would put the capability over one that GPUs have, and not start */
	assert_none(&f);
	f.env.qemu = 0;
	assert_none(&f);
	f.env.qemu = 8001000;
	facts(&f, "0000:14:00.0")->vendor = 0x1002; /* QEMU refuses it */
	assert_none(&f);
	facts(&f, "0000:14:00.0")->vendor = 0x10de;
	facts(&f, "0000:14:00.0")->class = 0x120000;
	assert_none(&f);
	facts(&f, "0000:14:00.0")->class = 0x030200;
	facts(&f, "0000:12:01.0")->cap.acs.known = HOST_UNKNOWN; /* who knows where requests go */
	assert_none(&f);
	f.env.type = "test";
	facts(&f, "0000:12:01.0")->cap.acs.known = HOST_ABSENT;
	assert_none(&f);
	fx_done(&f);
}

/* ---- addresses ------------------------------------------------------------------------------------------ */

static int check(const struct fx *f, uint64_t window, uint64_t memory, struct error *err)
{
	const struct guest_layout l = { .mmio64 = window };

	*err = ERROR_INIT;
	return guest_window_check(&l, inventory(f), memory, true, &f->env, err);
}

static void assert_refused(const struct fx *f, uint64_t window, uint64_t memory, const char *text)
{
	struct error err;

	assert_int_equal(check(f, window, memory, &err), -E2BIG);
	if (!strstr(err.text, text))
		fail_msg("%s", err.text);
}

static void test_address_bits(void **state)
{
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	f.env.type = "kvm";
	assert_int_equal(guest_address_bits(inventory(&f), &f.env), 0);
	inventory(&f)->phys_bits = 46;
	assert_int_equal(guest_address_bits(inventory(&f), &f.env), 46);
	inventory(&f)->iommu_bits = 48;
	assert_int_equal(guest_address_bits(inventory(&f), &f.env), 46);
	inventory(&f)->iommu_bits = 39;
	assert_int_equal(guest_address_bits(inventory(&f), &f.env), 39);
	f.env.type = "qemu";
	assert_int_equal(guest_address_bits(inventory(&f), &f.env), 40);
	fx_done(&f);
}

/* Eight B200 with BARs of 256 GiB take a window of 4 TiB: 43 bits, and beside 5 TiB of memory 44. */
static void test_window(void **state)
{
	struct error err;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	f.env.type = "kvm";
	assert_int_equal(check(&f, 4 * TIB, TIB, &err), 0); /* how wide addresses are is not known */
	inventory(&f)->phys_bits = 43;
	assert_int_equal(check(&f, 4 * TIB, TIB, &err), 0); /* from 4 to 8 TiB */
	assert_refused(&f, 4 * TIB, 5 * TIB, "window of 4096 GiB of addresses, beside 5120 GiB of memory: 44 bits, and guests have 43 here, as the CPU");
	inventory(&f)->phys_bits = 46;
	inventory(&f)->iommu_bits = 39;
	assert_refused(&f, 512 * GIB, 16 * GIB, "window of 512 GiB of addresses, beside 16 GiB of memory: 40 bits, and guests have 39 here, as the IOMMU");
	assert_int_equal(check(&f, 256 * GIB, 250 * GIB, &err), 0);
	inventory(&f)->cpu_vendor = "AuthenticAMD"; /* its memory begins at 1 TiB then */
	inventory(&f)->iommu_bits = 0;
	inventory(&f)->phys_bits = 40;
	assert_refused(&f, 512 * GIB, 600 * GIB, "42 bits"); /* 1 TiB and 598 GiB, the window from 2 TiB on */
	assert_int_equal(check(&f, 256 * GIB, 250 * GIB, &err), 0);
	f.env.type = "qemu";
	assert_refused(&f, 2 * TIB, GIB, "42 bits, and guests have 40 here, as TCG");
	inventory(&f)->phys_bits = 0;
	f.env.type = "kvm";
	assert_refused(&f, UINT64_C(1) << 62, GIB, "guests have 52 here");
	fx_done(&f);
}

static void test_address_bits_xml(void **state)
{
	autofree char *wide = NULL, *narrow = NULL;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	f.env.type = "kvm";
	inventory(&f)->phys_bits = 46;
	inventory(&f)->iommu_bits = 48;
	wide = make_xml(&f);
	assert_non_null(strstr(wide, "<maxphysaddr mode=\"passthrough\"/>"));
	inventory(&f)->iommu_bits = 39;
	narrow = make_xml(&f);
	assert_non_null(strstr(narrow, "<maxphysaddr mode=\"emulate\" bits=\"39\"/>"));
	fx_done(&f);
}

static void test_io_ports(void **state)
{
	struct guest_layout l = { .io_ports = 8 };
	struct error err = ERROR_INIT;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	assert_int_equal(guest_window_check(&l, inventory(&f), GIB, false, &f.env, &err), 0);
	l.io_ports = 9;
	assert_int_equal(guest_window_check(&l, inventory(&f), GIB, false, &f.env, &err), -E2BIG);
	assert_non_null(strstr(err.text, "9 of the devices have I/O ports, each a window of 4 KiB, and SeaBIOS has room for 8"));
	assert_int_equal(guest_window_check(&l, inventory(&f), GIB, true, &f.env, &err), 0);
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_clique),
		cmocka_unit_test(test_no_clique),
		cmocka_unit_test(test_address_bits),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_address_bits_xml),
		cmocka_unit_test(test_io_ports),
	};

	return cmocka_run_group_tests_name("qemu", tests, NULL, NULL);
}
