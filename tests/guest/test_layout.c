/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The numbers of the guest's PCIe tree: who sits below whom, bus numbers, limits. */
#include "guest/fixture.h"

#include <errno.h>
#include <stdio.h>

#include "base/sbuf.h"
#include "guest/layout.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_switch),
		cmocka_unit_test(test_two_switches_two_cells),
		cmocka_unit_test(test_no_switch),
		cmocka_unit_test(test_unknown_node),
		cmocka_unit_test(test_companion),
		cmocka_unit_test(test_switch_is_not_split),
		cmocka_unit_test(test_mmio),
		cmocka_unit_test(test_too_many_below_a_switch),
		cmocka_unit_test(test_too_many_buses),
		cmocka_unit_test(test_stale_plan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
