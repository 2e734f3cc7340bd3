/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cells of guests on NUMA nodes: whole cores, and pages of each node. */
#include "plan/place.h"
#include "support.h"

/* Nodes without CPUs are no place for a cell; cells that are asked for beyond the devices' are the nearest. */
static void cells_and_pages(void **state)
{
	struct topo *t = test_topo_host("snc4");
	struct plan *p = test_plan(t, "{\"gpus\":1,\"cells\":2,\"vcpus\":7,\"memory\":\"2G\"}", NULL, 0);

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->ncells, 2);
	assert_true(p->cell[0].host_node == 0 && p->cell[1].host_node == 1);
	assert_true(p->cell[0].vcpus == 4 && p->cell[1].vcpus == 3);
	assert_true(p->cell[0].memory == 1u << 30 && p->cell[1].memory == 1u << 30);
	plan_free(p);
	test_refused_with(test_plan(t, "{\"gpus\":2,\"cells\":1,\"vcpus\":4}", NULL, 0), "cells.fewer");
	test_refused_with(test_plan(t, "{\"gpus\":1,\"memory\":\"64G\",\"hugepages\":\"512M\"}", NULL, 0), "hugepages.short");
	topo_unref(t);
}

static struct plan *plan_keeping(const struct topo *t, unsigned host_cores, const char *json)
{
	struct plan_request req = test_request(json);
	struct plan_input in = { .topo = t, .request = &req, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	in.policy.host_cores = host_cores;
	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

/* snc4: eight nodes of 14 cores with two threads, core i of node 0 is CPUs i and 112 + i; and two nodes without CPUs. */
static void cpus_are_whole_cores(void **state)
{
	struct topo *t = test_topo_host("snc4");
	struct plan *p = plan_keeping(t, 2, "{\"vcpus\":3,\"numa_node\":0}");

	(void)state;
	assert_true(p->fits && p->ncells == 1 && p->cell[0].host_node == 0 && p->cell[0].vcpus == 3);
	for (unsigned c = 0; c < 2; c++) /* the host's */
		assert_false(cpuset_has(p->cell[0].cpus, c) || cpuset_has(p->cell[0].cpus, c + 112));
	for (unsigned c = 2; c < 4; c++) /* siblings go together */
		assert_true(cpuset_has(p->cell[0].cpus, c) && cpuset_has(p->cell[0].cpus, c + 112));
	plan_free(p);
	p = plan_keeping(t, 0, "{\"vcpus\":28,\"numa_node\":0}");
	assert_true(p->fits);
	plan_free(p);
	test_refused_with(plan_keeping(t, 0, "{\"vcpus\":29,\"numa_node\":0}"), "cpus.short");
	test_refused_with(plan_keeping(t, 1, "{\"vcpus\":27,\"numa_node\":0}"), "cpus.short");
	test_refused_with(plan_keeping(t, 14, "{\"vcpus\":1,\"numa_node\":0}"), "cpus.short");
	test_refused_with(plan_keeping(t, 0, "{\"vcpus\":1,\"numa_node\":8}"), "numa.no-cpus");
	p = plan_keeping(t, 0, "{\"vcpus\":8,\"cells\":8,\"memory\":\"1G\"}");
	assert_true(p->fits && p->ncells == 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(p->cell[i].host_node, i);
	plan_free(p);
	topo_unref(t);
}

/* Pages are those of the cell's node, whatever others have. */
static void pages_are_of_the_node(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	const struct host_node *n = &topo_inventory(t)->node[1];
	uint64_t free = 0;
	char json[160];
	struct plan *p;

	(void)state;
	for (size_t i = 0; i < n->npools; i++)
		free = n->pool[i].page_size == 1u << 30 ? n->pool[i].free : free;
	assert_true(free > 1);
	(void)snprintf(json, sizeof(json), "{\"gpus\":1,\"numa_node\":%d,\"hugepages\":\"1G\",\"memory\":\"%lluG\"}", n->id, (unsigned long long)free);
	p = test_plan(t, json, NULL, 0);
	assert_true(p->fits && p->hugepages == 1u << 30 && p->cell[0].memory == free << 30);
	plan_free(p);
	(void)snprintf(json, sizeof(json), "{\"gpus\":1,\"numa_node\":%d,\"hugepages\":\"1G\",\"memory\":\"%lluG\"}", n->id, (unsigned long long)free + 1);
	test_refused_with(test_plan(t, json, NULL, 0), "hugepages.short");
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_and_pages), cmocka_unit_test(cpus_are_whole_cores), cmocka_unit_test(pages_are_of_the_node),
	};

	return cmocka_run_group_tests_name("cells", tests, NULL, NULL);
}
