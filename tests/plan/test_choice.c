/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What requests get on known hosts: what users of other systems asked for in vain (named by the issue), and each wish
 * that a request can have. */
#include "base/file.h"
#include "guest/guest.h"
#include "plan/place.h"
#include "synth.h"

static const struct synth pairs = { .nodes = 2, .bridges = 1, .switches = 2, .gpus = 2, .nics = 1, .total_vfs = 8, .free_mib = 65536 };

static struct topo *synth_topo(const struct synth *s)
{
	autofree char *text = synth_text(s);

	return test_topo_text(text);
}

/* With every `from` in the text of the host replaced; of the same length. */
static struct topo *changed_topo(const char *host, const char *from, const char *to)
{
	autofree char *text = NULL;
	char path[512];
	size_t len = 0;
	unsigned n = 0;

	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", host);
	assert_int_equal(file_read(&text, &len, path, 16 << 20), 0);
	assert_int_equal(strlen(from), strlen(to));
	for (char *at = text; (at = strstr(at, from)); n++)
		memcpy(at, to, strlen(to));
	assert_true(n > 0);
	return test_topo_text(text);
}

static void fits_with(struct plan *p, const char *gpus)
{
	struct sbuf text = { 0 };
	char bdf[BDF_TEXT_MAX];

	if (!p->fits)
		fail_msg("it does not fit: %s, %s", p->reason[0].rule, p->reason[0].observed);
	for (size_t i = 0; i < p->ngpus; i++)
		sbuf_addf(&text, "%s%s", i ? " " : "", bdf_text(bdf, p->gpu[i]) + 5);
	assert_string_equal(text.text ? text.text : "", gpus);
	sbuf_done(&text);
	plan_free(p);
}

/* Case 31, NVIDIA/k8s-device-plugin#1193: 4 guests with one GPU, then 2 with two: these must still find pairs on one switch. */
static void case_31_singles_leave_pairs(void **state)
{
	struct topo *t = synth_topo(&pairs);
	struct plan_taken taken[8] = { 0 };
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct plan *p = test_plan(t, i < 4 ? "{\"gpus\":1,\"vfs_per_gpu\":1}" : "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}", taken, n);

		assert_true(p->fits);
		assert_int_equal(p->worst_path, TOPO_PIX);
		assert_int_equal(p->gpu_path, i < 4 ? TOPO_SELF : TOPO_PIX);
		for (size_t g = 0; g < p->ngpus; g++)
			taken[n++] = (struct plan_taken){ .bdf = p->gpu[g], .owner = "instance other" };
		plan_free(p);
	}
	assert_int_equal(n, 8);
	topo_unref(t);
}

/* Case 30, sriov-network-operator#736: a VF of the same NUMA node below another switch is not near. */
static void case_30_numa_is_not_near(void **state)
{
	struct synth s = { .nodes = 1, .bridges = 1, .switches = 2, .gpus = 1, .nics = 1, .total_vfs = 1, .free_mib = 8192 };
	struct topo *t = synth_topo(&s);
	struct plan *all = test_plan(t, "{\"vfs\":2}", NULL, 0);
	struct plan_taken taken = { .owner = "instance a" };
	struct plan *p;

	(void)state;
	assert_int_equal(all->nvfs, 2);
	taken.bdf = all->vf[0].bdf;
	p = test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"max_path\":\"PIX\"}", &taken, 1);
	assert_true(p->fits);
	assert_int_equal(p->worst_path, TOPO_PIX);
	assert_true(bdf_eq(p->vf[0].bdf, all->vf[1].bdf));
	taken.bdf = p->gpu[0];
	plan_free(p);
	p = test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":2,\"max_path\":\"PIX\"}", NULL, 0);
	assert_false(p->fits);
	assert_string_equal(p->reason[p->nreasons - 1].rule, "nearest");
	assert_string_equal(p->reason[p->nreasons - 1].needed, "max_path PHB");
	plan_free(p);
	plan_free(all);
	topo_unref(t);
}

/* Case 33, go-gpuallocator#17: no two GPUs are near; then two of one node. */
static void case_33_far_but_one_node(void **state)
{
	struct synth s = { .nodes = 2, .bridges = 2, .switches = 1, .gpus = 1, .nics = 0, .free_mib = 8192 };
	struct topo *t = synth_topo(&s);
	struct plan *one = test_plan(t, "{\"gpus\":1}", NULL, 0);
	struct plan_taken taken = { .bdf = one->gpu[0], .owner = "instance a" };
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vcpus\":2}", &taken, 1);

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->gpu_path, TOPO_NODE);
	assert_int_equal(p->gpu_node[0], p->gpu_node[1]);
	assert_int_equal(p->ncells, 1);
	plan_free(p);
	plan_free(one);
	topo_unref(t);
}

/* Case 37, nccl#1755: GPU i gets rail i, and the VF on a NIC of that rail. */
static void case_37_rails_are_kept(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan *p = test_plan(t, "{\"gpus\":4,\"vfs_per_gpu\":1,\"rails\":true,\"vcpus\":4}", NULL, 0);

	(void)state;
	assert_true(p->fits);
	for (size_t v = 0; v < p->nvfs; v++)
		assert_int_equal(topo_at(t, topo_find(t, p->vf[v].pf))->rail, topo_at(t, topo_find(t, p->vf[v].gpu))->rail);
	plan_free(p);
	topo_unref(t);
	t = synth_topo(&pairs); /* two GPUs and one port per switch: nobody says which pairs */
	test_refused_with(test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"rails\":true}", NULL, 0), "rail.none");
	topo_unref(t);
}

/* Case 42, nova 2098496: as many VFs as were asked for, in the domain too. */
static void case_42_as_many_as_asked(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan_request req = test_request("{\"gpus\":2,\"vfs_per_gpu\":2,\"vcpus\":2}");
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":2,\"vcpus\":2}", NULL, 0);
	struct error err = ERROR_INIT;
	unsigned n = 0;

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->nvfs, 4);
	assert_int_equal(guest_plan_xml(p, &req, t, "kvm", NULL, &(struct guest_dirs){ "/var/log", "/var/lib", NULL }, &err), 0);
	for (const char *at = p->domain_xml; (at = strstr(at, "<hostdev ")); at++)
		n++;
	assert_int_equal(n, 6);
	plan_free(p);
	plan_request_done(&req);
	topo_unref(t);
}

/* ---- wishes ------------------------------------------------------------------------------------- */

/* One device that could be either model serves one of them. */
static void models_count_once(void **state)
{
	struct synth s = { .nodes = 1, .bridges = 1, .switches = 1, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 8192 };
	autofree char *text = synth_text(&s);
	char *second = strstr(strstr(text, "PCI_ID=10DE:2330") + 1, "PCI_ID=10DE:2330");
	struct topo *t;

	(void)state;
	memcpy(second, "PCI_ID=10DE:26B3", 16);
	t = test_topo_text(text);
	fits_with(test_plan(t, "{\"gpus\":2,\"models\":[\"10de:*\",\"10de:2330\"]}", NULL, 0), "13:00.0 14:00.0");
	fits_with(test_plan(t, "{\"gpus\":1,\"model\":\"10de:26b3\"}", NULL, 0), "14:00.0");
	test_refused_with(test_plan(t, "{\"gpus\":2,\"models\":[\"10de:2330\",\"10de:2330\"]}", NULL, 0), "gpu.count");
	test_refused_with(test_plan(t, "{\"gpus\":2,\"models\":[\"10de:2330\",\"10de:2331\"]}", NULL, 0), "gpu.model");
	test_refused_with(test_plan(t, "{\"gpus\":1,\"model\":\"1002:*\"}", NULL, 0), "gpu.model");
	topo_unref(t);
	t = synth_topo(&s);
	test_refused_with(test_plan(t, "{\"gpus\":2,\"models\":[\"10de:*\",\"10de:26b3\"]}", NULL, 0), "models.none");
	test_refused_with(test_plan(t, "{\"gpus\":1,\"model\":\"h1000\"}", NULL, 0), "model.unknown");
	topo_unref(t);
}

/* Of two VFs on one port the second goes to another, farther one. */
static void spread_takes_ports(void **state)
{
	struct topo *t = synth_topo(&pairs);
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}", NULL, 0);

	(void)state;
	assert_true(p->fits && bdf_eq(p->vf[0].pf, p->vf[1].pf));
	plan_free(p);
	p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2,\"spread\":\"pf\"}", NULL, 0);
	assert_true(p->fits && !bdf_eq(p->vf[0].pf, p->vf[1].pf));
	assert_int_equal(p->worst_path, TOPO_PIX);
	assert_int_equal(p->gpu_path, TOPO_PHB);
	plan_free(p);
	test_refused_with(test_plan(t, "{\"vfs\":5,\"spread\":\"pf\"}", NULL, 0), "bundle.none");
	topo_unref(t);
}

/* 504 Gb/s is PCIe 5.0 x16 (docs of topo/path.h); strict refuses more, loose says what is lost. */
static void limits_strict_and_loose(void **state)
{
	static const char *const rules[] = { "loose.gpu-path", "loose.bandwidth" };
	struct topo *t = test_topo_host("xe9680");
	struct plan *p;

	(void)state;
	fits_with(test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"min_bandwidth\":504}", NULL, 0), "19:00.0");
	test_refused_with(test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"min_bandwidth\":505}", NULL, 0), "pair.none");
	test_refused_with(test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_gpu_path\":\"PIX\",\"vcpus\":2}", NULL, 0), "nearest");
	p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_gpu_path\":\"PIX\",\"min_bandwidth\":800,\"policy\":\"loose\",\"gdr\":\"off\"}", NULL, 0);
	assert_true(p->fits);
	assert_int_equal(p->nnotes, 2);
	for (size_t i = 0; i < p->nnotes; i++)
		assert_string_equal(p->note[i].rule, rules[i]);
	plan_free(p);
	p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_gpu_path\":\"NODE\",\"min_bandwidth\":400,\"policy\":\"loose\",\"gdr\":\"off\"}", NULL, 0);
	assert_true(p->fits);
	assert_int_equal(p->nnotes, 0);
	plan_free(p);
	topo_unref(t);
}

/* 91:00.0 and the NIC 32:00.0 run at a quarter of what they could. */
static void degraded_links(void **state)
{
	struct topo *t = test_topo_host("cascade");

	(void)state;
	test_refused_with(test_plan(t, "{\"gpus\":3,\"numa_node\":1}", NULL, 0), "link.degraded");
	test_refused_with(test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"max_path\":\"PHB\",\"require\":[\"0000:31:00.0\"]}", NULL, 0), "link.degraded");
	fits_with(test_plan(t, "{\"gpus\":2,\"numa_node\":0}", NULL, 0), "13:00.0 17:00.0");
	topo_unref(t);
}

/* They count for no bundle of later guests: that is known of the ways, not of the devices alone. */
static void ways_over_degraded_links(void **state)
{
	struct topo *t = test_topo_host("cascade");
	struct plan_request req = test_request("{\"gpus\":1,\"vfs_per_gpu\":1}");
	struct plan_input in = { .topo = t, .request = &req, .policy = TEST_POLICY };
	auto_(plan_free) struct plan *plan = calloc(1, sizeof(*plan));
	auto_(place_close) struct place *p = NULL;
	struct error err = ERROR_INIT;
	bool seen = false;

	(void)state;
	assert_non_null(plan);
	assert_int_equal(place_open(&p, plan, &in, &err), 0);
	assert_true(p->nnics > 0);
	for (uint32_t g = 0; g < p->ngpus; g++) {
		bool slow = p->gpu[g].node == test_at(t, "0000:91:00.0");

		seen = seen || slow;
		assert_int_equal(p->host->narrow[g], slow ? (UINT64_C(1) << p->nnics) - 1 : 0);
	}
	assert_true(seen);
	plan_request_done(&req);
	topo_unref(t);
}

static void ports_without_a_link(void **state)
{
	struct topo *t = changed_topo("xe9680", "/carrier\t1", "/carrier\t0");

	(void)state;
	test_refused_with(test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1}", NULL, 0), "nic.no-link");
	fits_with(test_plan(t, "{\"gpus\":1}", NULL, 0), "19:00.0");
	topo_unref(t);
}

static struct plan *plan_of(struct plan_input in, const char *json, bool shared)
{
	struct plan_request req = test_request(json);
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	in.request = &req;
	in.policy = (struct plan_policy)TEST_POLICY;
	in.policy.cpus_shared = shared;
	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

static struct plan *plan_in(struct plan_input in, const char *json)
{
	return plan_of(in, json, false);
}

static struct plan *with_rooms(const struct topo *t, const char *json, const struct plan_room *room, size_t n, bool shared)
{
	return plan_of((struct plan_input){ .topo = t, .room = room, .nrooms = n }, json, shared);
}

static void assert_fits(struct plan *p)
{
	if (!p->fits)
		fail_msg("%s", p->reason[0].observed);
	plan_free(p);
}

static unsigned common(const struct cpuset *a, const struct cpuset *b)
{
	unsigned n = 0;

	for (int c = cpuset_next(a, -1); c >= 0; c = cpuset_next(a, c))
		n += cpuset_has(b, (unsigned)c);
	return n;
}

/* Of the 12 cores with two threads each of a node; the first guest has three of them, because threads of one core go to one. */
static void cores_are_exclusive(void **state)
{
	struct topo *t = test_topo_host("snc4");
	const struct host_node *node = host_node_find(topo_inventory(t), 0);
	unsigned all = cpuset_count(&node->cpus), threads = topo_inventory(t)->system.cpus.core[0].ncpus;
	char json[96];
	struct plan *p = test_plan(t, "{\"gpus\":1,\"numa_node\":0,\"vcpus\":5}", NULL, 0), *next;
	struct plan_room room[1];

	(void)state;
	assert_true(p->fits && threads == 2 && p->ncells == 1);
	assert_int_equal(cpuset_count(p->cell[0].cpus), 6);
	assert_int_equal(plan_rooms(room, p, "instance a"), 1);
	(void)snprintf(json, sizeof(json), "{\"numa_node\":0,\"vcpus\":%u}", all - 6);
	next = with_rooms(t, json, room, 1, false);
	assert_true(next->fits);
	assert_int_equal(common(p->cell[0].cpus, next->cell[0].cpus), 0);
	plan_free(next);
	(void)snprintf(json, sizeof(json), "{\"numa_node\":0,\"vcpus\":%u}", all - 5);
	test_refused_with(with_rooms(t, json, room, 1, false), "cpus.short");
	next = with_rooms(t, json, room, 1, true);
	assert_true(next->fits);
	assert_int_equal(cpuset_count(next->cell[0].cpus), all);
	plan_free(next);
	room[0].cpus = NULL; /* of a guest that floats over all of the node */
	test_refused_with(with_rooms(t, "{\"numa_node\":0,\"vcpus\":1}", room, 1, false), "cpus.short");
	plan_free(p);
	topo_unref(t);
}

/* Memory that a stopped guest will want is not given; that of a running one is not free anyway, but counts of all there is. */
static void memory_is_promised(void **state)
{
	struct topo *t = test_topo_host("snc4");
	const struct host_node *node = host_node_find(topo_inventory(t), 0);
	uint64_t free = (node->mem_free - (512u << 20)) >> 20, total = (node->mem_total - (512u << 20)) >> 20;
	const struct cpuset none = { 0 };
	struct plan_room room = { .node = 0, .memory = UINT64_C(1) << 30, .cpus = &none, .owner = "instance a" };
	char json[96];

	(void)state;
	for (int backed = 0; backed < 2; backed++) {
		room.backed = backed;
		(void)snprintf(json, sizeof(json), "{\"numa_node\":0,\"memory\":\"%lluM\"}", (unsigned long long)(free - (backed ? 0 : 1024)));
		assert_fits(with_rooms(t, json, &room, 1, false));
		(void)snprintf(json, sizeof(json), "{\"numa_node\":0,\"memory\":\"%lluM\"}", (unsigned long long)(free - (backed ? 0 : 1024) + 1));
		test_refused_with(with_rooms(t, json, &room, 1, false), "memory.short");
	}
	room.memory = (total - 100) << 20;
	test_refused_with(with_rooms(t, "{\"numa_node\":0,\"memory\":\"101M\"}", &room, 1, false), "memory.short");
	room.hugepages = 2u << 20; /* another pool */
	assert_fits(with_rooms(t, "{\"numa_node\":0,\"memory\":\"101M\"}", &room, 1, false));
	topo_unref(t);
}

/* All or nothing: with another guest there, be it without devices, the host is not to be had; and after that nobody gets
 * anything. */
static void exclusive_is_the_host(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	const struct cpuset none = { 0 };
	struct plan_room room = { .owner = "instance a", .cpus = &none };
	struct plan *p = test_plan(t, "{\"exclusive\":true,\"vfs_per_gpu\":1,\"vcpus\":8}", NULL, 0);

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->ngpus, 8);
	assert_int_equal(p->nvfs, 8);
	plan_free(p);
	test_refused_with(with_rooms(t, "{\"exclusive\":true,\"vcpus\":8}", &room, 1, false), "host.shared");
	room.exclusive = true;
	test_refused_with(with_rooms(t, "{\"vfs\":1}", &room, 1, false), "host.exclusive");
	test_refused_with(with_rooms(t, "{}", &room, 1, false), "host.exclusive");
	topo_unref(t);
}

/* The chosen one is better than the next in what is said to decide. */
static void the_next_best(void **state)
{
	struct topo *t = test_topo_host("dgx-a100");
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"memory\":\"2G\",\"vcpus\":4}", NULL, 0);

	(void)state;
	assert_true(p->fits && p->chosen.known && p->next.known);
	assert_false(score_less(&p->next.score, &p->chosen.score));
	assert_true(p->chosen.ngpus == 2 && p->next.ngpus == 2);
	assert_false(bdf_eq(p->chosen.gpu[0], p->next.gpu[0]) && bdf_eq(p->chosen.gpu[1], p->next.gpu[1]));
	plan_free(p);
	p = test_plan(t, "{\"gpus\":8,\"vcpus\":8,\"memory\":\"2G\"}", NULL, 0);
	assert_true(p->fits && p->chosen.known && !p->next.known);
	plan_free(p);
	topo_unref(t);
}

/* What it takes: the path class, the device, the number. */
static void the_nearest_miss(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan_taken taken = { .bdf = test_bdf("0000:4c:00.0"), .owner = "instance a" };
	struct plan *p = test_plan(t, "{\"gpus\":4,\"numa_node\":0,\"vcpus\":4}", &taken, 1);

	(void)state;
	assert_false(p->fits);
	assert_string_equal(p->reason[p->nreasons - 1].rule, "nearest");
	assert_string_equal(p->reason[p->nreasons - 1].device, "0000:4c:00.0");
	assert_string_equal(p->reason[p->nreasons - 1].needed, "it given back by instance a");
	plan_free(p);
	p = test_plan(t, "{\"gpus\":9,\"vcpus\":9}", NULL, 0);
	assert_false(p->fits);
	assert_string_equal(p->reason[p->nreasons - 1].needed, "8 GPUs");
	plan_free(p);
	topo_unref(t);
}

/* Nobody gets them, each with its reason, and what is nearest says that they would do. */
static void quarantined_are_not_given(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan_sick sick[] = { { test_bdf("0000:4c:00.0"), "its reset failed" }, { test_bdf("0000:3c:00.0"), "it lost its link" } };
	struct plan_input in = { .topo = t, .sick = sick, .nsick = 1 };
	struct plan *p = plan_in(in, "{\"gpus\":4,\"numa_node\":0,\"vcpus\":4}");
	bool said = false;

	(void)state;
	assert_false(p->fits);
	for (size_t i = 0; i < p->nreasons; i++)
		said = said || (!strcmp(p->reason[i].rule, "device.quarantined") && !strcmp(p->reason[i].device, "0000:4c:00.0") &&
				strstr(p->reason[i].observed, "its reset failed"));
	assert_true(said);
	assert_string_equal(p->reason[p->nreasons - 1].rule, "nearest");
	assert_string_equal(p->reason[p->nreasons - 1].device, "0000:4c:00.0");
	assert_non_null(strstr(p->reason[p->nreasons - 1].observed, "quarantined"));
	plan_free(p);
	test_refused_with(plan_in(in, "{\"gpus\":1,\"require\":[\"0000:4c:00.0\"]}"), "device.quarantined");
	test_refused_with(plan_in(in, "{\"exclusive\":true,\"vcpus\":8}"), "device.quarantined");
	fits_with(plan_in(in, "{\"gpus\":7,\"vcpus\":8,\"memory\":\"4G\"}"), "19:00.0 3b:00.0 5d:00.0 9b:00.0 bb:00.0 cb:00.0 db:00.0");
	in = (struct plan_input){ .topo = t, .sick = &sick[1], .nsick = 1 };
	p = plan_in(in, "{\"gpus\":1,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"require\":[\"0000:3b:00.0\"]}");
	assert_true(!p->fits && test_has_reason(p, "device.quarantined"));
	plan_free(p);
	p = plan_in(in, "{\"vfs\":1,\"require\":[\"0000:3c:00.1\"]}"); /* a VF of it */
	assert_true(!p->fits && test_has_reason(p, "device.quarantined"));
	plan_free(p);
	sick[0] = (struct plan_sick){ test_bdf("0000:19:00.0"), "both were taken" };
	p = plan_in((struct plan_input){ .topo = t, .sick = sick, .nsick = 1, .taken = &(struct plan_taken){ sick[0].bdf, "instance a" }, .ntaken = 1 },
		    "{\"gpus\":8,\"vcpus\":8}");
	assert_true(!p->fits && test_has_reason(p, "device.quarantined") && !test_has_reason(p, "device.taken"));
	assert_string_equal(p->reason[p->nreasons - 1].needed, "7 GPUs"); /* no single thing would help */
	plan_free(p);
	topo_unref(t);
}

/* Case 35, kubevirt-gpu-device-plugin#133: of Fabric Manager's {all}, 2 x 4, 4 x 2, 8 x 1 no pair is free, though two GPUs are: module
 * ids 1 and 2 (4c, 19), whose pairs are {1,3} and {2,4}. */
static void case_35_a_pair_is_a_partition(void **state)
{
	static const char *const held[] = { "0000:3b:00.0", "0000:5d:00.0", "0000:9b:00.0", "0000:bb:00.0", "0000:cb:00.0", "0000:db:00.0" };
	struct topo *t = test_topo_host("xe9680");
	struct plan_request req = test_request("{\"gpus\":2,\"vcpus\":2}");
	struct plan_taken taken[ARRAY_SIZE(held)];
	struct plan_input in = { .topo = t, .request = &req, .taken = taken, .ntaken = ARRAY_SIZE(held), .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		taken[i] = (struct plan_taken){ test_bdf(held[i]), "instance a" };
	in.policy.boards.shared = 0; /* as Fabric Manager says */
	assert_int_equal(plan_make(&p, &in, &err), 0);
	test_refused_with(p, "partition.held");
	in.ntaken--; /* db comes free: of no help */
	assert_int_equal(plan_make(&p, &in, &err), 0);
	assert_false(p->fits);
	plan_free(p);
	taken[0].bdf = test_bdf("0000:db:00.0"); /* 3b comes free instead: 19 and 3b have 2 and 4 */
	assert_int_equal(plan_make(&p, &in, &err), 0);
	fits_with(p, "19:00.0 3b:00.0");
	plan_request_done(&req);
	topo_unref(t);
}

/* Of equals the one that was given out least often. */
static void the_least_worn(void **state)
{
	struct topo *t = synth_topo(&pairs);
	struct plan *first = test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1}", NULL, 0);
	struct plan_wear wear[] = { { first->gpu[0], 2 }, { BDF_NONE, 9 } };
	struct plan_input in = { .topo = t, .wear = wear, .nwear = 2 };
	struct plan *p = plan_in(in, "{\"gpus\":1,\"vfs_per_gpu\":1}");

	(void)state;
	assert_true(p->fits && !bdf_eq(p->gpu[0], first->gpu[0]));
	assert_int_equal(p->chosen.score.term[SCORE_WEAR], 0);
	plan_free(p);
	wear[0].times = UINT64_MAX; /* no more than a score can hold */
	p = plan_in(in, "{\"gpus\":8,\"vfs_per_gpu\":1,\"vcpus\":8}");
	assert_int_equal(p->chosen.score.term[SCORE_WEAR], UINT32_MAX / SOLVE_CHOSEN_MAX);
	plan_free(p);
	plan_free(first);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_31_singles_leave_pairs), cmocka_unit_test(case_30_numa_is_not_near), cmocka_unit_test(case_33_far_but_one_node),
		cmocka_unit_test(case_37_rails_are_kept), cmocka_unit_test(case_42_as_many_as_asked), cmocka_unit_test(models_count_once),
		cmocka_unit_test(spread_takes_ports), cmocka_unit_test(limits_strict_and_loose), cmocka_unit_test(degraded_links), cmocka_unit_test(ways_over_degraded_links),
		cmocka_unit_test(ports_without_a_link), cmocka_unit_test(exclusive_is_the_host),
		cmocka_unit_test(cores_are_exclusive), cmocka_unit_test(memory_is_promised),
		cmocka_unit_test(the_next_best), cmocka_unit_test(the_nearest_miss),
		cmocka_unit_test(quarantined_are_not_given), cmocka_unit_test(the_least_worn), cmocka_unit_test(case_35_a_pair_is_a_partition),
	};

	return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
