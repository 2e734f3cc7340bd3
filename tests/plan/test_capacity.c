/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What keeps more bundles out is called by its name: it alone, both where there are two, and neither where it is only that they are not
 * in the same places. */
#include "plan/capacity.h"

#include "host/inventory.h"
#include "support.h"
#include "synth.h"

#define SHAPE 1 /* two GPUs */

struct fx {
	struct plan_input in;
	json_object      *doc;
};

static void fx_init(struct fx *fx, const char *more)
{
	*fx = (struct fx){ .in = { .topo = test_topo_host("xe9680"), .policy = TEST_POLICY } };
	(void)snprintf(fx->in.policy.shape_more[SHAPE], PLAN_SHAPE_TEXT, "%s", more);
}

static void fx_done(struct fx *fx)
{
	json_object_put(fx->doc);
	topo_unref((struct topo *)fx->in.topo);
}

static json_object *shape(struct fx *fx)
{
	struct error err = ERROR_INIT;

	json_object_put(fx->doc);
	fx->doc = NULL;
	if (plan_capacity_json(&fx->doc, &fx->in, &err) < 0)
		fail_msg("%s", err.text);
	return json_object_array_get_idx(json_object_object_get(fx->doc, "shapes"), SHAPE);
}

/* So many bundles, and exactly these rules of capacity. */
static void expect(struct fx *fx, int bundles, const char *rules)
{
	json_object *s = shape(fx), *list = json_object_object_get(s, "blocked");
	char said[200] = "";

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		const char *rule = json_object_get_string(json_object_object_get(json_object_array_get_idx(list, i), "rule"));

		if (strncmp(rule, "capacity.", 9) == 0 && !strstr(said, rule + 9))
			(void)snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s%s", *said ? " " : "", rule + 9);
	}
	assert_string_equal(said, rules);
	assert_int_equal(json_object_get_int(json_object_object_get(s, "bundles")), bundles);
}

static double fragmentation(struct fx *fx)
{
	(void)shape(fx);
	return json_object_get_double(json_object_object_get(fx->doc, "fragmentation"));
}

static struct plan_room room(struct fx *fx, int node, bool cpus, uint64_t pages)
{
	static const struct cpuset none = { 0 };

	return (struct plan_room){ .node = node, .memory = pages << 30, .hugepages = UINT64_C(1) << 30, .owner = "instance x", .backed = false,
				   .cpus = cpus ? &host_node_find(topo_inventory(fx->in.topo), node)->cpus : &none };
}

/* One node's CPUs are all somebody's: two of four pairs. */
static void cpus(void **state)
{
	struct plan_room held;
	struct fx fx;
	double before;

	(void)state;
	fx_init(&fx, "vcpus=32");
	expect(&fx, 4, "");
	before = fragmentation(&fx);
	held = room(&fx, 0, true, 0);
	fx.in.room = &held;
	fx.in.nrooms = 1;
	expect(&fx, 2, "cpus");
	assert_true(before == 0 && fragmentation(&fx) > 0.4); /* all shapes want CPUs: half of the host can be nobody's */
	fx_done(&fx);
}

static void hugepages(void **state)
{
	struct plan_room held;
	struct fx fx;

	(void)state;
	fx_init(&fx, "memory=400G,hugepages=1G");
	expect(&fx, 4, "");
	held = room(&fx, 1, false, 300); /* 600 of 900 are left there */
	fx.in.room = &held;
	fx.in.nrooms = 1;
	expect(&fx, 3, "hugepages");
	assert_true(fragmentation(&fx) > 0); /* CPUs and devices would do */
	fx_done(&fx);
}

static void plain_memory(void **state)
{
	struct fx fx;

	(void)state;
	fx_init(&fx, "memory=90G");
	expect(&fx, 2, "memory");
	fx_done(&fx);
}

static void both(void **state)
{
	struct plan_room held;
	struct fx fx;

	(void)state;
	fx_init(&fx, "vcpus=32,memory=400G,hugepages=1G");
	held = room(&fx, 1, true, 900);
	fx.in.room = &held;
	fx.in.nrooms = 1;
	expect(&fx, 2, "cpus hugepages");
	fx_done(&fx);
}

/* CPUs only on one node, pages only on the other: each alone would be enough for two. */
static void not_in_the_same_places(void **state)
{
	struct plan_room held[2];
	struct fx fx;

	(void)state;
	fx_init(&fx, "vcpus=32,memory=400G,hugepages=1G");
	held[0] = room(&fx, 0, true, 0);
	held[1] = room(&fx, 1, false, 900);
	fx.in.room = held;
	fx.in.nrooms = 2;
	expect(&fx, 0, "together left");
	fx_done(&fx);
}

static void vfs(void **state)
{
	struct fx fx;

	(void)state;
	fx_init(&fx, "vfs_per_gpu=3,max_path=SYS");
	fx.in.policy.vfs_per_pf = 1;
	expect(&fx, 2, "vfs left"); /* twelve ports */
	fx_done(&fx);
}

/* Ports that are near are in quarantine, far ones would do. */
static void paths(void **state)
{
	struct plan_sick sick[2];
	struct fx fx;

	(void)state;
	fx_init(&fx, "vcpus=2");
	sick[0] = (struct plan_sick){ test_bdf("0000:1a:00.0"), "its reset failed" };
	sick[1] = (struct plan_sick){ test_bdf("0000:3c:00.0"), "its reset failed" };
	fx.in.sick = sick;
	fx.in.nsick = 2;
	expect(&fx, 3, "path no-nic");
	fx_done(&fx);
}

static void routes(void **state)
{
	struct fx fx;

	(void)state;
	fx_init(&fx, "gdr=required"); /* its NICs have no ATS */
	expect(&fx, 0, "routes");
	fx_done(&fx);
}

/* Fabric Manager's pairs: 4c with 5d, 19 with 3b, bb with 9b, cb with db. */
static void partitions(void **state)
{
	struct plan_taken taken[4] = { { test_bdf("0000:4c:00.0"), "instance a" }, { test_bdf("0000:19:00.0"), "instance b" },
				       { test_bdf("0000:bb:00.0"), "instance c" }, { test_bdf("0000:cb:00.0"), "instance d" } };
	struct fx fx;

	(void)state;
	fx_init(&fx, "vcpus=2");
	fx.in.policy.boards.shared = 0;
	fx.in.taken = taken;
	fx.in.ntaken = 4;
	expect(&fx, 0, "partition left"); /* four GPUs are free, and no two are a pair */
	assert_int_equal(json_object_get_int(json_object_object_get(shape(&fx), "empty")), 4);
	fx_done(&fx);
}

static void gpus(void **state)
{
	struct plan_taken taken[5];
	struct fx fx;

	(void)state;
	fx_init(&fx, "vcpus=2");
	for (size_t i = 0; i < 5; i++)
		taken[i] = (struct plan_taken){ test_bdf((const char *[]){ "0000:4c:00.0", "0000:19:00.0", "0000:bb:00.0", "0000:cb:00.0", "0000:3b:00.0" }[i]),
						"instance a" };
	fx.in.taken = taken;
	fx.in.ntaken = 5;
	expect(&fx, 1, "gpus left");
	fx_done(&fx);
}

static void limits(void **state)
{
	struct fx fx;

	(void)state;
	fx_init(&fx, "max_gpu_path=PIX"); /* each is below a switch of its own */
	expect(&fx, 0, "limits left");
	fx_done(&fx);
}

/* More GPUs than all ways to give them are looked at: one bundle after the other fits at least, and is the number if there are no
 * GPUs for more. */
static void more_than_sixteen(void **state)
{
	static const struct { unsigned bridges, gpus; int bundles, at_least; } cases[] = { { 2, 3, 24, 24 }, { 3, 3, -1, 32 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct synth host = { .nodes = 2, .bridges = cases[i].bridges, .switches = 2, .gpus = cases[i].gpus, .nics = 1, .total_vfs = 8,
				      .free_mib = 65536 };
		autofree char *text = synth_text(&host);
		struct fx fx = { .in = { .topo = test_topo_text(text), .policy = TEST_POLICY } };
		json_object *s, *n, *list;
		size_t said = 0;

		fx.in.policy.nshapes = 1;
		(void)shape(&fx);
		s = json_object_array_get_idx(json_object_object_get(fx.doc, "shapes"), 0);
		n = json_object_object_get(s, "bundles");
		list = json_object_object_get(s, "blocked");
		assert_int_equal(n ? json_object_get_int(n) : -1, cases[i].bundles);
		assert_int_equal(json_object_get_int(json_object_object_get(s, "bundles_at_least")), cases[i].at_least);
		assert_int_equal(json_object_get_int(json_object_object_get(s, "empty_at_least")), cases[i].at_least);
		for (size_t k = 0; k < json_object_array_length(list); k++)
			said += strcmp(json_object_get_string(json_object_object_get(json_object_array_get_idx(list, k), "rule")),
				       "capacity.not-decided") == 0;
		assert_int_equal(said, cases[i].bundles < 0);
		fx_done(&fx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpus), cmocka_unit_test(hugepages), cmocka_unit_test(plain_memory), cmocka_unit_test(both),
		cmocka_unit_test(not_in_the_same_places), cmocka_unit_test(vfs), cmocka_unit_test(paths), cmocka_unit_test(routes),
		cmocka_unit_test(partitions), cmocka_unit_test(gpus), cmocka_unit_test(limits),
		cmocka_unit_test(more_than_sixteen),
	};

	return cmocka_run_group_tests_name("capacity", tests, NULL, NULL);
}
