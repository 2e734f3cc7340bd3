/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The numbers of the guest's PCIe tree: who sits below whom, bus numbers, limits. */
#include "guest/fixture.h"

#include <errno.h>
#include <stdio.h>

#include "base/sbuf.h"
#include "guest/layout.h"
#include "synth.h"

/* The controller above, device by device, up to pcie-root: "dsp usp port pxb" */
static char *way_up(const struct guest_layout *l, uint8_t bus)
{
	static const char *const names[] = {
		[GUEST_PXB] = "pxb", [GUEST_ROOT_PORT] = "port", [GUEST_USP] = "usp", [GUEST_DSP] = "dsp",
	};
	struct sbuf s = { 0 };

	while (bus) {
		const struct guest_controller *c = &l->controller[bus - 1];

		assert_int_equal(c->index, bus);
		assert_true(c->at.bus < bus); /* no loop */
		sbuf_addf(&s, "%s%s", s.len ? " " : "", names[c->model]);
		bus = c->at.bus;
	}
	return sbuf_steal(&s);
}

static const struct guest_device *device(const struct guest_layout *l, const char *bdf)
{
	for (size_t i = 0; i < l->ndevices; i++)
		if (bdf_eq(l->device[i].bdf, fx_bdf(bdf)))
			return &l->device[i];
	fail_msg("%s is not in the layout", bdf);
	return NULL;
}

static void assert_way(const struct guest_layout *l, const char *bdf, const char *way)
{
	char *got = way_up(l, device(l, bdf)->at.bus);

	assert_string_equal(got, way);
	free(got);
}

/* The USP (or root port) two devices have in common, or 0 */
static uint8_t common_usp(const struct guest_layout *l, const char *a, const char *b)
{
	uint8_t ua = l->controller[device(l, a)->at.bus - 1].at.bus, ub = l->controller[device(l, b)->at.bus - 1].at.bus;

	return ua == ub ? ua : 0;
}

static void assert_sane(const struct guest_layout *l)
{
	uint8_t used[GUEST_BUSES][32][8] = { 0 };
	unsigned last = 0;

	for (size_t i = 0; i < l->ncontrollers; i++) {
		const struct guest_controller *c = &l->controller[i];

		assert_int_equal(c->index, i + 1);
		assert_int_equal(used[c->at.bus][c->at.slot][c->at.function]++, 0);
		if (c->model == GUEST_PXB) {
			assert_true(c->bus_nr > last);
			last = c->bus_nr;
		} else if (last) {
			last++; /* each bridge below it takes the next number */
			assert_true(last < GUEST_BUSES);
		}
	}
	for (size_t i = 0; i < l->ndevices; i++) {
		const struct guest_addr *a = &l->device[i].at;

		assert_int_equal(used[a->bus][a->slot][a->function]++, 0);
		assert_int_not_equal(a->bus, 0);
	}
}

static void build(struct fx *f, struct guest_layout *l)
{
	struct error err = ERROR_INIT;

	if (guest_layout_build(l, f->plan, f->topo, &err) < 0)
		fail_msg("%s", err.text);
	assert_sane(l);
}

static void test_one_switch(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 2);
	fx_gpu(&f, "0000:13:00.0");
	fx_gpu(&f, "0000:14:00.0");
	fx_vf(&f, "0000:15:00.2", "0000:15:00.0");
	fx_vf(&f, "0000:15:00.3", "0000:15:00.0"); /* does not exist yet */
	build(&f, &l);
	assert_way(&l, "0000:13:00.0", "dsp usp port pxb");
	assert_way(&l, "0000:15:00.3", "dsp usp port pxb");
	assert_int_not_equal(common_usp(&l, "0000:13:00.0", "0000:14:00.0"), 0);
	assert_int_not_equal(common_usp(&l, "0000:13:00.0", "0000:15:00.2"), 0);
	assert_int_not_equal(common_usp(&l, "0000:13:00.0", "0000:15:00.3"), 0);
	assert_int_equal(l.ncontrollers, 1 + 1 + 1 + 4);
	/* VFs have slots of their own, as function 0 */
	assert_int_equal(device(&l, "0000:15:00.2")->at.function, 0);
	assert_int_equal(device(&l, "0000:15:00.3")->at.function, 0);
	assert_string_equal(device(&l, "0000:15:00.3")->alias, "ua-vf1");
	guest_layout_done(&l);
	fx_done(&f);
}

/* As asked: each device at a port of its cell's expander, though the host has switches. */
static void test_root_ports(void **state)
{
	struct guest_layout l = { 0 };
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	fx_gpu(&f, "0000:13:00.0");
	fx_gpu(&f, "0000:14:00.0");
	fx_companion(&f, "0000:13:00.1", "0000:13:00.0");
	fx_vf(&f, "0000:15:00.3", "0000:15:00.0");
	f.plan->root_ports = true;
	build(&f, &l);
	assert_int_equal(l.ncontrollers, 4); /* an expander and three ports */
	for (size_t i = 0; i < l.ncontrollers; i++)
		assert_int_equal(l.controller[i].model, i ? GUEST_ROOT_PORT : GUEST_PXB);
	assert_true(l.device[0].at.bus == l.device[1].at.bus && l.device[1].at.function == 1); /* a device stays whole */
	assert_true(l.device[2].at.bus != l.device[0].at.bus && l.device[3].at.bus != l.device[2].at.bus);
	guest_layout_done(&l);
	fx_done(&f);
}

static void test_two_switches_two_cells(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	fx_cell(&f, 1, GIB, 1);
	fx_gpu(&f, "0000:13:00.0");
	fx_gpu(&f, "0000:83:00.0");
	fx_gpu(&f, "0000:93:00.0");
	fx_vf(&f, "0000:94:00.2", "0000:94:00.0");
	fx_vf(&f, "0000:84:00.2", "0000:84:00.0");
	build(&f, &l);
	assert_int_not_equal(common_usp(&l, "0000:83:00.0", "0000:84:00.2"), 0);
	assert_int_not_equal(common_usp(&l, "0000:93:00.0", "0000:94:00.2"), 0);
	assert_int_equal(common_usp(&l, "0000:83:00.0", "0000:93:00.0"), 0);
	/* pxb, port, usp, dsp | pxb, (port, usp, 2 dsp) x 2 */
	assert_int_equal(l.ncontrollers, 4 + 9);
	assert_int_equal(l.controller[0].model, GUEST_PXB);
	assert_int_equal(l.controller[0].cell, 0);
	assert_int_equal(l.controller[4].model, GUEST_PXB);
	assert_int_equal(l.controller[4].cell, 1);
	assert_true(l.controller[4].bus_nr - l.controller[0].bus_nr >= 4);
	assert_true(GUEST_BUSES - l.controller[4].bus_nr >= 9);
	assert_string_equal(device(&l, "0000:93:00.0")->alias, "ua-gpu2");
	guest_layout_done(&l);
	fx_done(&f);
}

static void test_no_switch(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	fx_gpu(&f, "0000:21:00.0");
	fx_vf(&f, "0000:22:00.1", "0000:22:00.0");
	fx_vf(&f, "0000:22:00.2", "0000:22:00.0");
	build(&f, &l);
	assert_way(&l, "0000:21:00.0", "port pxb");
	assert_way(&l, "0000:22:00.1", "port pxb");
	assert_way(&l, "0000:22:00.2", "port pxb");
	assert_int_equal(l.ncontrollers, 4);
	guest_layout_done(&l);
	fx_done(&f);
}

/* No cell with the device's node, or no node: below pcie-root. Its buses come before the PXB's. */
static void test_unknown_node(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 1, GIB, 1);
	fx_gpu(&f, "0000:00:1f.0");
	fx_gpu(&f, "0000:13:00.0");
	fx_gpu(&f, "0000:83:00.0");
	build(&f, &l);
	assert_way(&l, "0000:00:1f.0", "port");
	assert_way(&l, "0000:13:00.0", "dsp usp port");
	assert_way(&l, "0000:83:00.0", "dsp usp port pxb");
	assert_true(l.controller[0].model == GUEST_PXB && l.controller[0].bus_nr >= 1 + 4);
	guest_layout_done(&l);

	f.plan->cell[0].host_node = -1; /* -1 is no node that two could have in common */
	build(&f, &l);
	assert_way(&l, "0000:83:00.0", "dsp usp port");
	guest_layout_done(&l);
	fx_done(&f);
}

static void test_companion(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	fx_gpu(&f, "0000:14:00.0");
	fx_gpu(&f, "0000:13:00.0");
	fx_companion(&f, "0000:13:00.1", "0000:13:00.0");
	build(&f, &l);
	assert_int_equal(device(&l, "0000:13:00.0")->at.bus, device(&l, "0000:13:00.1")->at.bus);
	assert_int_equal(device(&l, "0000:13:00.0")->at.slot, device(&l, "0000:13:00.1")->at.slot);
	assert_int_equal(device(&l, "0000:13:00.0")->at.function, 0);
	assert_int_equal(device(&l, "0000:13:00.1")->at.function, 1);
	assert_true(device(&l, "0000:13:00.0")->multifunction);
	assert_false(device(&l, "0000:13:00.1")->multifunction);
	assert_false(device(&l, "0000:14:00.0")->multifunction);
	assert_string_equal(device(&l, "0000:13:00.1")->alias, "ua-gpu1-1");
	guest_layout_done(&l);

	/* without its function 0, function 1 must still be found by the guest */
	f.plan->ngpus = 1;
	f.plan->ncompanions = 0;
	f.plan->gpu[0] = fx_bdf("0000:13:00.1");
	build(&f, &l);
	assert_int_equal(device(&l, "0000:13:00.1")->at.function, 0);
	assert_false(device(&l, "0000:13:00.1")->multifunction);
	guest_layout_done(&l);
	fx_done(&f);
}

/* A GPU whose node the firmware forgot stays below the switch of its neighbours. */
static void test_switch_is_not_split(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	fx_gpu(&f, "0000:14:00.0");
	fx_gpu(&f, "0000:13:00.0");
	build(&f, &l);
	assert_int_not_equal(common_usp(&l, "0000:13:00.0", "0000:14:00.0"), 0);
	assert_way(&l, "0000:14:00.0", "dsp usp port pxb");
	guest_layout_done(&l);
	fx_done(&f);
}

static void set_root(struct fx *f, const char *bdf, const char *root)
{
	((struct host_facts *)topo_at(f->topo, topo_find(f->topo, fx_bdf(bdf)))->fn->facts)->root_bus = root;
}

static unsigned expander(const struct guest_layout *l, const char *bdf)
{
	unsigned at = device(l, bdf)->at.bus;

	while (l->controller[at - 1].model != GUEST_PXB)
		at = l->controller[at - 1].at.bus;
	return at;
}

/* One node with three host bridges (kubevirt 19103): a GPU and a NIC of different ones are not below one in the guest. */
static void test_root_complexes(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	set_root(&f, "0000:21:00.0", "pci0000:20");
	set_root(&f, "0000:22:00.0", "pci0000:22");
	fx_gpu(&f, "0000:13:00.0");
	fx_gpu(&f, "0000:21:00.0");
	fx_vf(&f, "0000:15:00.2", "0000:15:00.0");
	fx_vf(&f, "0000:22:00.2", "0000:22:00.0");
	build(&f, &l);
	assert_int_equal(expander(&l, "0000:13:00.0"), expander(&l, "0000:15:00.2"));
	assert_int_not_equal(expander(&l, "0000:13:00.0"), expander(&l, "0000:21:00.0"));
	assert_int_not_equal(expander(&l, "0000:13:00.0"), expander(&l, "0000:22:00.2"));
	assert_int_not_equal(expander(&l, "0000:21:00.0"), expander(&l, "0000:22:00.2"));
	for (size_t i = 0; i < l.ncontrollers; i++)
		assert_true(l.controller[i].model != GUEST_PXB || l.controller[i].cell == 0);
	guest_layout_done(&l);
	fx_done(&f);
}

static void set_bar(struct fx *f, const char *bdf, unsigned i, struct host_bar bar)
{
	struct host_facts *facts = (struct host_facts *)topo_at(f->topo, topo_find(f->topo, fx_bdf(bdf)))->fn->facts;

	facts->bars_known = true;
	facts->bar[i] = bar;
}

/* Ports of I/O ports; above what may have some no window is taken away. */
static void test_io(void **state)
{
	static const char *const gpus[] = { "0000:13:00.0", "0000:14:00.0", "0000:83:00.0" };
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	fx_cell(&f, 1, GIB, 1);
	for (size_t i = 0; i < ARRAY_SIZE(gpus); i++) {
		fx_gpu(&f, gpus[i]);
		set_bar(&f, gpus[i], 1, (struct host_bar){ .size = 0 });
	}
	set_bar(&f, "0000:14:00.0", 5, (struct host_bar){ .start = 0x3000, .size = 128, .flags = 0x101 });
	fx_vf(&f, "0000:84:00.2", "0000:84:00.0");
	set_bar(&f, "0000:84:00.0", 2, (struct host_bar){ .start = 0x4000, .size = 32, .flags = 0x101 }); /* its PF's, not its own */
	build(&f, &l);
	assert_int_equal(l.io_ports, 1);
	for (size_t i = 0; i < l.ncontrollers; i++)
		if (l.controller[i].model == GUEST_ROOT_PORT)
			assert_int_equal(l.controller[i].io, topo_at(f.topo, l.controller[i].host)->fn->bdf.bus == 0x11);
	guest_layout_done(&l);
	fx_done(&f);
}

static void test_mmio(void **state)
{
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	build(&f, &l);
	assert_int_equal(l.mmio64, 0);
	assert_int_equal(l.ncontrollers, 0);
	guest_layout_done(&l);
	fx_gpu(&f, "0000:21:00.0"); /* 64 MiB */
	build(&f, &l);
	assert_int_equal(l.mmio64, 2 * GIB);
	guest_layout_done(&l);
	fx_gpu(&f, "0000:13:00.0"); /* 128 GiB */
	fx_gpu(&f, "0000:14:00.0"); /* 3 GiB counts as 4 */
	build(&f, &l);
	assert_int_equal(l.mmio64, 512 * GIB); /* (128 + 4 + 1/16) x 2, rounded up */
	guest_layout_done(&l);
	fx_done(&f);
}

static void assert_too_big(struct fx *f, const char *text)
{
	struct error err = ERROR_INIT;
	struct guest_layout l;

	assert_int_equal(guest_layout_build(&l, f->plan, f->topo, &err), -E2BIG);
	assert_non_null(strstr(err.text, text));
}

/* Exactly as many VFs below one switch as it has ports fit; one more does not. */
static void test_too_many_below_a_switch(void **state)
{
	struct guest_layout l;
	char bdf[BDF_TEXT_MAX];
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 1);
	for (unsigned i = 0; i < 32; i++) {
		(void)snprintf(bdf, sizeof(bdf), "0000:15:%02x.%u", 1 + i / 8, i % 8);
		fx_vf(&f, bdf, "0000:15:00.0");
	}
	build(&f, &l);
	guest_layout_done(&l);
	fx_vf(&f, "0000:15:10.0", "0000:15:00.0");
	assert_too_big(&f, "more than 32 devices below one switch");
	for (size_t i = 0; i < f.plan->nvfs; i++)
		f.plan->vf[i].pf = fx_bdf("0000:22:00.0");
	assert_too_big(&f, "more than 32 devices below one pcie-expander-bus");
	f.plan->ncells = 0;
	assert_too_big(&f, "more than 28 devices below one pcie-root");
	fx_done(&f);
}

/* 96 host switches on three nodes: each root bus has room, the 256 buses have not. */
static void test_too_many_buses(void **state)
{
	struct fx_function *fn = calloc(96 * 4, sizeof(*fn));
	char (*text)[4][BDF_TEXT_MAX] = calloc(96, sizeof(*text));
	struct fx f;

	(void)state;
	for (unsigned i = 0; i < 96; i++) {
		static const enum host_kind kinds[] = { HOST_ROOT_PORT, HOST_USP, HOST_DSP, HOST_GPU };

		for (unsigned k = 0; k < 4; k++) {
			(void)snprintf(text[i][k], BDF_TEXT_MAX, "%04x:%02x:00.0", i, k);
			fn[i * 4 + k] = (struct fx_function){
				text[i][k], k ? text[i][k - 1] : NULL, kinds[k], (int)(i % 3), 0, NULL,
			};
		}
	}
	fx_init(&f, fn, 96 * 4);
	for (int node = 0; node < 3; node++)
		fx_cell(&f, node, GIB, 1);
	for (unsigned i = 0; i < 96; i++)
		fx_companion(&f, text[i][3], text[0][3]);
	assert_too_big(&f, "more than the 256 PCIe buses");
	fx_done(&f);
	free(text);
	free(fn);
}

static void test_stale_plan(void **state)
{
	struct error err = ERROR_INIT;
	struct guest_layout l;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_gpu(&f, "0000:77:00.0");
	assert_int_equal(guest_layout_build(&l, f.plan, f.topo, &err), -ESTALE);
	assert_non_null(strstr(err.text, "0000:77:00.0"));
	fx_done(&f);
}

/* ---- trees of any shape ------------------------------------------------------------------------------ */

#define GROWN_MAX 120

struct grown {
	uint64_t           seed;
	struct fx_function fn[GROWN_MAX];
	char               name[GROWN_MAX][BDF_TEXT_MAX];
	size_t             n;
	uint8_t            bus[256]; /* in the order they are given out: not that of the tree */
	unsigned           nbus;
};

static const char *grow(struct grown *g, const char *parent, enum host_kind kind, unsigned bus, unsigned slot, int node)
{
	(void)snprintf(g->name[g->n], BDF_TEXT_MAX, "0000:%02x:%02x.0", bus, slot);
	g->fn[g->n] = (struct fx_function){ g->name[g->n], parent, kind, node, kind == HOST_GPU ? MIB : 0, NULL };
	return g->name[g->n++];
}

/* Below a port: a GPU, or a switch with such ports. */
static void grow_below(struct grown *g, const char *port, int node, unsigned depth)
{
	bool is_switch = depth < 4 && synth_random(&g->seed, 5) < 3 && g->n + 20 < GROWN_MAX;
	const char *usp;
	unsigned ports, bus;

	if (!is_switch) {
		(void)grow(g, port, HOST_GPU, g->bus[g->nbus++], 0, node);
		return;
	}
	usp = grow(g, port, HOST_USP, g->bus[g->nbus++], 0, node);
	bus = g->bus[g->nbus++];
	ports = 1 + synth_random(&g->seed, 3);
	for (unsigned i = 0; i < ports; i++)
		grow_below(g, grow(g, usp, HOST_DSP, bus, i, node), node, depth + 1);
}

static void grow_host(struct grown *g, uint64_t seed)
{
	*g = (struct grown){ .seed = seed };
	for (unsigned i = 0; i < 256; i++)
		g->bus[i] = (uint8_t)i;
	for (unsigned i = 255; i > 1; i--) { /* bus 0 is the root's */
		unsigned k = 1 + synth_random(&g->seed, i);
		uint8_t b = g->bus[i];

		g->bus[i] = g->bus[k];
		g->bus[k] = b;
	}
	g->nbus = 1;
	for (unsigned i = 0; i < 4; i++)
		grow_below(g, grow(g, NULL, HOST_ROOT_PORT, 0, i + 1, (int)(i / 2)), (int)(i / 2), 0);
}

/* Switches between two devices of the guest; 0: they meet at no switch. */
static unsigned switches_between(const struct guest_layout *l, const struct guest_device *a, const struct guest_device *b)
{
	for (unsigned at = a->at.bus, n = 0; at; at = l->controller[at - 1].at.bus) {
		n += l->controller[at - 1].model == GUEST_USP;
		for (unsigned to = b->at.bus, m = 0; to && l->controller[at - 1].model == GUEST_USP; to = l->controller[to - 1].at.bus) {
			if (to == at)
				return n + m;
			m += l->controller[to - 1].model == GUEST_USP;
		}
	}
	return 0;
}

static void assert_paths(const struct fx *f, const struct guest_layout *l, uint64_t seed)
{
	for (size_t i = 0; i < l->ndevices; i++)
		for (size_t j = 0; j < l->ndevices; j++) {
			const struct guest_device *a = &l->device[i], *b = &l->device[j];
			enum topo_class c = topo_path(f->topo, topo_find(f->topo, a->bdf), topo_find(f->topo, b->bdf));
			unsigned n = switches_between(l, a, b);

			if (i != j && (n == 0 ? TOPO_PHB : n == 1 ? TOPO_PIX : TOPO_PXB) != (c > TOPO_PHB ? TOPO_PHB : c))
				fail_msg("seed %llu: %u switches between guest's %s and %s, the host has %s", (unsigned long long)seed, n,
					 a->alias, b->alias, topo_class_text(c));
		}
}

/* Whatever is below one switch, or several, on the host is so in the guest, of any bundle. */
static void test_any_tree(void **state)
{
	unsigned cascades = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct guest_layout l;
		struct grown g;
		struct fx f;

		grow_host(&g, seed);
		fx_init(&f, g.fn, g.n);
		fx_cell(&f, 0, GIB, 1);
		fx_cell(&f, 1, GIB, 1);
		for (size_t i = 0; i < g.n && f.plan->ngpus < PLAN_GPUS_MAX; i++)
			if (g.fn[i].kind == HOST_GPU && synth_random(&g.seed, 3))
				fx_gpu(&f, g.fn[i].bdf);
		build(&f, &l);
		assert_paths(&f, &l, seed);
		for (size_t i = 0; i < l.ncontrollers; i++)
			cascades += l.controller[i].model == GUEST_USP && l.controller[l.controller[i].at.bus - 1].model == GUEST_DSP;
		guest_layout_done(&l);
		fx_done(&f);
	}
	assert_true(cascades > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_switch),
		cmocka_unit_test(test_two_switches_two_cells),
		cmocka_unit_test(test_root_ports),
		cmocka_unit_test(test_no_switch),
		cmocka_unit_test(test_unknown_node),
		cmocka_unit_test(test_companion),
		cmocka_unit_test(test_switch_is_not_split),
		cmocka_unit_test(test_root_complexes),
		cmocka_unit_test(test_io),
		cmocka_unit_test(test_mmio),
		cmocka_unit_test(test_too_many_below_a_switch),
		cmocka_unit_test(test_too_many_buses),
		cmocka_unit_test(test_stale_plan),
		cmocka_unit_test(test_any_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
