/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nodes without memory or without CPUs: dgx-a100-sparse has GPUs on 1, 3 and 7, which have no memory; 2 has no CPUs. */
#include "guest/layout.h"
#include "host/inventory.h"
#include "support.h"

#define ONE_G (UINT64_C(1) << 30)

static struct host_node *node(struct topo *t, int id)
{
	return (struct host_node *)host_node_find(topo_inventory(t), id); /* a test may make another machine */
}

static struct plan *plan_of(struct topo *t, const char *json, const struct plan_room *room, size_t n)
{
	struct plan_request req = test_request(json);
	struct plan_input in = { .topo = t, .request = &req, .room = room, .nrooms = n, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

static const char *note(const struct plan *p, const char *rule)
{
	for (size_t i = 0; i < p->nnotes; i++)
		if (strcmp(p->note[i].rule, rule) == 0)
			return p->note[i].observed;
	return "";
}

static bool all_in(const struct cpuset *some, const struct cpuset *all)
{
	for (int c = cpuset_next(some, -1); c >= 0; c = cpuset_next(some, c))
		if (!cpuset_has(all, (unsigned)c))
			return false;
	return cpuset_count(some) > 0;
}

/* Memory of the nearest node, cores of the GPU's own; in the guest all of it is one cell. */
static void nearest_memory_own_cores(void **state)
{
	struct topo *t = test_topo_host("dgx-a100-sparse");
	struct plan *p = plan_of(t, "{\"gpus\":1,\"numa_node\":3,\"vcpus\":8,\"memory\":\"64G\",\"hugepages\":\"1G\"}", NULL, 0);
	struct guest_layout l = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_true(p->fits && p->ncells == 1 && p->cell[0].host_node == 0 && p->cell[0].memory == 64 * ONE_G);
	assert_true(all_in(p->cell[0].cpus, &node(t, 3)->cpus) && p->gpu_node[0] == 3);
	assert_string_equal(note(p, "numa.no-memory"), "NUMA node 3, where 0000:07:00.0 is, has no memory; the nearest that has is node 0 "
						       "(distance 12), and the cell is there");
	assert_int_equal(guest_layout_build(&l, p, t, &err), 0);
	assert_int_equal(l.device[0].cell, 0);
	guest_layout_done(&l);
	plan_free(p);
	topo_unref(t);
}

/* Node 0 and those that it is home of have three times its CPUs, and its pages are counted once. */
static void a_home_is_shared(void **state)
{
	struct topo *t = test_topo_host("dgx-a100-sparse");
	struct plan *a = plan_of(t, "{\"gpus\":1,\"numa_node\":3,\"vcpus\":40,\"memory\":\"60G\",\"hugepages\":\"1G\"}", NULL, 0), *b;
	struct plan_room room[SOLVE_NODES_MAX];
	size_t n;

	(void)state;
	assert_true(a->fits && a->ncells == 1 && cpuset_count(a->cell[0].cpus) == 40);
	n = plan_rooms(room, a, "instance a");
	b = plan_of(t, "{\"gpus\":1,\"numa_node\":1,\"vcpus\":40,\"memory\":\"40G\",\"hugepages\":\"1G\"}", room, n);
	assert_true(b->fits && cpuset_count(b->cell[0].cpus) == 40);
	for (int c = cpuset_next(a->cell[0].cpus, -1); c >= 0; c = cpuset_next(a->cell[0].cpus, c))
		assert_false(cpuset_has(b->cell[0].cpus, (unsigned)c));
	plan_free(b);
	b = plan_of(t, "{\"gpus\":1,\"numa_node\":1,\"vcpus\":4,\"memory\":\"41G\",\"hugepages\":\"1G\"}", room, n);
	assert_true(!b->fits && test_has_reason(b, "hugepages.short") && test_has_reason(b, "numa.no-memory"));
	plan_free(b);
	b = plan_of(t, "{\"gpus\":1,\"numa_node\":1,\"vcpus\":57,\"memory\":\"1G\"}", room, n); /* 96 less 40 */
	assert_true(!b->fits && test_has_reason(b, "cpus.short"));
	plan_free(b);
	plan_free(a);
	topo_unref(t);
}

/* Node 2 has memory, and no CPUs but those of a node that it is home of. */
static void distance_decides(void **state)
{
	struct topo *t = test_topo_host("dgx-a100-sparse");
	struct plan *p;

	(void)state;
	p = plan_of(t, "{\"numa_node\":2,\"vcpus\":4,\"memory\":\"1G\"}", NULL, 0);
	assert_true(!p->fits && test_has_reason(p, "numa.no-cpus")); /* without devices it is named for its CPUs and memory */
	assert_string_equal(p->reason[0].observed, "NUMA node 2 has no CPUs; the nearest that has is node 0 (distance 12)");
	plan_free(p);
	node(t, 3)->distance[2] = 11;
	p = plan_of(t, "{\"gpus\":1,\"numa_node\":3,\"vcpus\":4,\"memory\":\"1G\"}", NULL, 0);
	assert_true(p->fits && p->ncells == 1 && p->cell[0].host_node == 2 && all_in(p->cell[0].cpus, &node(t, 3)->cpus));
	plan_free(p);
	p = plan_of(t, "{\"gpus\":1,\"numa_node\":1,\"vcpus\":4,\"memory\":\"1G\"}", NULL, 0); /* as far from 0 as from 2 */
	assert_true(p->fits && p->cell[0].host_node == 0 && all_in(p->cell[0].cpus, &node(t, 1)->cpus));
	plan_free(p);
	topo_unref(t);
}

static void nobody_guesses(void **state)
{
	struct topo *t = test_topo_host("dgx-a100-sparse");
	struct plan *p;

	(void)state;
	memset(node(t, 3)->distance, 0, sizeof(node(t, 3)->distance));
	p = plan_of(t, "{\"gpus\":1,\"numa_node\":3,\"vcpus\":4,\"memory\":\"1G\"}", NULL, 0);
	assert_true(!p->fits && test_has_reason(p, "numa.no-memory") && test_has_reason(p, "memory.short"));
	plan_free(p);
	node(t, 7)->memory_known = false; /* not known is not none */
	p = plan_of(t, "{\"gpus\":1,\"numa_node\":7,\"vcpus\":4,\"memory\":\"1G\"}", NULL, 0);
	assert_true(!p->fits && test_has_reason(p, "memory.unknown") && !test_has_reason(p, "numa.no-memory"));
	plan_free(p);
	topo_unref(t);
}

/* A guest of two quadrants: GPUs on 1 and 3 are in one cell, those on 5 in another. */
static void cells_are_homes(void **state)
{
	struct topo *t = test_topo_host("dgx-a100-sparse");
	struct plan *p = plan_of(t, "{\"gpus\":6,\"vcpus\":12,\"memory\":\"12G\",\"exclude\":[\"0000:87:00.0\",\"0000:90:00.0\"]}", NULL, 0);

	(void)state;
	assert_true(p->fits && p->ncells == 2 && p->cell[0].host_node == 0 && p->cell[1].host_node == 5);
	assert_true(p->nmoved == 2 && p->moved[0].node == 1 && p->moved[1].node == 3 && p->moved[1].home == 0);
	plan_free(p);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearest_memory_own_cores), cmocka_unit_test(a_home_is_shared), cmocka_unit_test(distance_decides),
		cmocka_unit_test(nobody_guesses), cmocka_unit_test(cells_are_homes),
	};

	return cmocka_run_group_tests_name("home", tests, NULL, NULL);
}
