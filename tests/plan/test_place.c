/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Placement against an independent brute force on invented hosts, and by hand on the XE9680. */
#include "base/file.h"
#include "synth.h"

#define MAX_DEVICES 64

/* What the oracle knows: path classes from topo_path, capacities counted here anew. */
struct oracle {
	uint32_t gpu[MAX_DEVICES], nic[MAX_DEVICES];
	unsigned cap[MAX_DEVICES], load[MAX_DEVICES];
	unsigned ngpus, nnics;
	int      best[4]; /* worst path, gpu path, nodes, shared */
	unsigned best_mask;
};

static bool is_taken(const struct plan_taken *taken, size_t n, struct bdf b)
{
	for (size_t i = 0; i < n; i++)
		if (bdf_eq(taken[i].bdf, b))
			return true;
	return false;
}

static void oracle_read(struct oracle *o, const struct topo *t, const struct plan_taken *taken, size_t n)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct host_function *fn = topo_at(t, i)->fn;

		if (fn->facts->kind == HOST_GPU && !is_taken(taken, n, fn->bdf))
			o->gpu[o->ngpus++] = i;
		if (fn->facts->kind != HOST_NIC)
			continue;
		o->nic[o->nnics] = i;
		for (unsigned v = 0; v < (fn->facts->numvfs ? fn->facts->numvfs : 8u) && v < fn->facts->cap.sriov.total; v++) {
			struct bdf vf = fn->bdf;

			vf.devfn = (uint8_t)(16 + v);
			o->cap[o->nnics] += !is_taken(taken, n, vf);
			o->load[o->nnics] += is_taken(taken, n, vf);
		}
		o->nnics++;
	}
}

/* Every way to give each of the k GPUs one VF; the least (worst path, sharing) of all. */
static void assign(const struct oracle *o, const struct topo *t, const unsigned *set, unsigned k, unsigned at,
		   unsigned *used, int worst, int shared, int best[2])
{
	if (at == k) {
		if (worst < best[0] || (worst == best[0] && shared < best[1])) {
			best[0] = worst;
			best[1] = shared;
		}
		return;
	}
	for (unsigned n = 0; n < o->nnics; n++) {
		int c = (int)topo_path(t, o->gpu[set[at]], o->nic[n]);

		if (used[n] == o->cap[n] || c > TOPO_SYS)
			continue;
		used[n]++;
		assign(o, t, set, k, at + 1, used, c > worst ? c : worst,
		       (int)(used[n] + o->load[n]) > shared ? (int)(used[n] + o->load[n]) : shared, best);
		used[n]--;
	}
}

static void try_mask(struct oracle *o, const struct topo *t, unsigned mask, int max_path)
{
	unsigned set[8] = { 0 }, k = 0, used[MAX_DEVICES] = { 0 }, nodes = 0;
	int best[2] = { 99, 99 }, score[4], gpu_path = 0;

	for (unsigned g = 0; g < o->ngpus; g++)
		if (mask >> g & 1)
			set[k++] = g;
	assign(o, t, set, k, 0, used, TOPO_PIX, 0, best);
	if (best[0] > max_path)
		return;
	for (unsigned i = 0; i < k; i++) {
		bool fresh = true;

		for (unsigned j = 0; j < i; j++) {
			int c = (int)topo_path(t, o->gpu[set[i]], o->gpu[set[j]]);

			gpu_path = c > gpu_path ? c : gpu_path;
			fresh = fresh && topo_at(t, o->gpu[set[i]])->fn->facts->numa_node != topo_at(t, o->gpu[set[j]])->fn->facts->numa_node;
		}
		nodes += fresh;
	}
	score[0] = best[0];
	score[1] = gpu_path;
	score[2] = (int)nodes;
	score[3] = best[1];
	for (int i = 0; i < 4; i++) {
		if (score[i] > o->best[i])
			return;
		if (score[i] < o->best[i])
			break;
		if (i == 3)
			return; /* equal: the earlier set stays */
	}
	memcpy(o->best, score, sizeof(score));
	o->best_mask = mask;
}

/* Sets in the order of their sorted addresses: {0,1} before {0,2} before {1,2}. */
static void try_sets(struct oracle *o, const struct topo *t, unsigned from, unsigned left, unsigned mask, int max_path)
{
	if (left == 0) {
		try_mask(o, t, mask, max_path);
		return;
	}
	for (unsigned g = from; g < o->ngpus; g++)
		try_sets(o, t, g + 1, left - 1, mask | 1u << g, max_path);
}

static void check_bundle(const struct topo *t, const struct plan *p, const struct plan_taken *taken, size_t n)
{
	for (size_t i = 0; i < p->nvfs; i++) {
		const struct plan_vf *v = &p->vf[i];
		uint32_t vf = topo_find(t, v->bdf), pf = topo_find(t, v->pf);

		assert_false(is_taken(taken, n, v->bdf));
		assert_int_equal(v->exists, vf != TOPO_NONE);
		assert_int_equal(topo_path(t, topo_find(t, v->gpu), pf), v->path);
		for (size_t j = 0; j < i; j++)
			assert_false(bdf_eq(p->vf[j].bdf, v->bdf));
	}
	for (size_t i = 0; i < p->ngpus; i++)
		assert_false(is_taken(taken, n, p->gpu[i]));
}

/* Leftovers are tests/plan/test_solve.c's. */
static struct plan *plan_without_shapes(const struct topo *t, const char *json, const struct plan_taken *taken, size_t n)
{
	struct plan_request req = test_request(json);
	struct plan_input in = { .topo = t, .request = &req, .taken = taken, .ntaken = n,
				 .policy = { .vfs_per_pf = 8, .memory_reserve = 512u << 20 } };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

static void check_seed(uint64_t seed)
{
	uint64_t s = seed;
	struct synth host = {
		.nodes = 1 + synth_random(&s, 2), .bridges = 1 + synth_random(&s, 2), .switches = 1 + synth_random(&s, 2),
		.gpus = 1 + synth_random(&s, 2), .nics = synth_random(&s, 3), .cascade = synth_random(&s, 2),
		.total_vfs = synth_random(&s, 3), .free_mib = 65536, .seed = seed,
	};
	autofree char *text = synth_text(&host);
	struct topo *t = test_topo_text(text);
	struct plan_taken taken[MAX_DEVICES];
	struct oracle o = { .best = { 99, 99, 99, 99 } };
	unsigned k = 1 + synth_random(&s, 3);
	int max_path = TOPO_PIX + (int)synth_random(&s, 5);
	char json[128];
	struct plan *p;
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(t) && n < MAX_DEVICES; i++) {
		enum host_kind kind = topo_at(t, i)->fn->facts->kind;

		if ((kind == HOST_GPU || kind == HOST_VF) && synth_random(&s, 3) == 0)
			taken[n++] = (struct plan_taken){ .bdf = topo_at(t, i)->fn->bdf, .owner = "instance other" };
	}
	(void)snprintf(json, sizeof(json), "{\"gpus\":%u,\"vfs_per_gpu\":1,\"vcpus\":8,\"max_path\":\"%s\"}", k,
		       topo_class_text((enum topo_class)max_path));
	p = plan_without_shapes(t, json, taken, n);
	oracle_read(&o, t, taken, n);
	try_sets(&o, t, 0, k, 0, max_path);
	if (p->fits != (o.best_mask != 0))
		fail_msg("seed %llu: fits is %d, the oracle's mask %x", (unsigned long long)seed, p->fits, o.best_mask);
	if (!p->fits)
		assert_true(p->nreasons > 0);
	for (size_t i = 0, g = 0; i < p->ngpus; i++, g++) {
		while (!(o.best_mask >> g & 1))
			g++;
		if (!bdf_eq(p->gpu[i], topo_at(t, o.gpu[g])->fn->bdf))
			fail_msg("seed %llu: GPU %zu differs from the oracle's", (unsigned long long)seed, i);
	}
	if (p->fits)
		assert_int_equal(p->worst_path <= (enum topo_class)o.best[0], true);
	check_bundle(t, p, taken, n);
	plan_free(p);
	topo_unref(t);
}

static void equals_brute_force(void **state)
{
	const char *many = getenv("PLACE_SEEDS");
	uint64_t n = many ? strtoull(many, NULL, 10) : 3000;

	(void)state;
	for (uint64_t seed = 1; seed <= n; seed++)
		check_seed(seed);
}

static void same_input_same_plan(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan *a = test_plan(t, "{\"gpus\":3,\"vfs_per_gpu\":1}", NULL, 0);
	struct plan *b = test_plan(t, "{\"gpus\":3,\"vfs_per_gpu\":1}", NULL, 0);
	json_object *ja = plan_json(a), *jb = plan_json(b);

	(void)state;
	assert_string_equal(json_object_to_json_string(ja), json_object_to_json_string(jb));
	json_object_put(ja);
	json_object_put(jb);
	plan_free(a);
	plan_free(b);
	topo_unref(t);
}

static void xe9680_pairs_gpu_and_nic(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}", NULL, 0);

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->ngpus, 2);
	assert_int_equal(p->nvfs, 2);
	assert_true(bdf_eq(p->gpu[0], test_bdf("0000:19:00.0")));
	assert_true(bdf_eq(p->gpu[1], test_bdf("0000:3b:00.0")));
	assert_true(bdf_eq(p->vf[0].pf, test_bdf("0000:1a:00.0")));
	assert_true(bdf_eq(p->vf[0].bdf, test_bdf("0000:1a:00.1"))); /* offset 1, stride 1 */
	assert_true(bdf_eq(p->vf[1].pf, test_bdf("0000:3c:00.0")));
	assert_int_equal(p->worst_path, TOPO_PIX);
	assert_int_equal(p->gpu_path, TOPO_NODE);
	assert_int_equal(p->ncells, 1);
	/* vfio, 2 vf-count, power of 8 ports and 2 PFs, 4 bind, 4 lend, 4 reset, 2 vf, power and tags of 2 GPUs, domain */
	assert_int_equal(p->nsteps, 32);
	assert_int_equal(p->step[0].kind, PLAN_STEP_VFIO);
	assert_string_equal(p->step[1].from, "0");
	assert_string_equal(p->step[1].to, "8");
	for (size_t i = 3; i < 13; i++)
		assert_int_equal(p->step[i].kind, PLAN_STEP_POWER);
	for (size_t i = 13; i < 17; i++)
		assert_int_equal(p->step[i].kind, PLAN_STEP_BIND);
	assert_int_equal(p->step[25].kind, PLAN_STEP_VF); /* a VF is set while no driver of the host has it */
	assert_string_equal(p->step[26].to, "mac=auto");
	assert_true(bdf_eq(p->step[27].bdf, p->gpu[0]) && bdf_eq(p->step[28].bdf, p->gpu[1]));
	assert_string_equal(p->step[27].from, "auto,1"); /* vfio-pci's doing */
	assert_int_equal(p->step[29].kind, PLAN_STEP_DEVCTL2);
	assert_string_equal(p->step[31].to, "running");
	plan_free(p);
	p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2,\"gdr\":\"off\"}", NULL, 0);
	assert_int_equal(p->nsteps, 18); /* settings are left alone */
	plan_free(p);
	topo_unref(t);
}

/* One row per refusal: the request, a device that is taken, the rule that must be among the reasons. */
static void refusals_name_the_rule(void **state)
{
	static const struct {
		const char *host, *request, *taken, *rule;
	} cases[] = {
		{ "xe9680-iommu-off", "{\"gpus\":1}", NULL, "iommu.off" },
		{ "xe9680", "{\"gpus\":9}", NULL, "gpu.count" },
		{ "xe9680", "{\"gpus\":1,\"require\":[\"0000:19:00.0\"]}", "0000:19:00.0", "device.taken" },
		{ "xe9680", "{\"gpus\":1,\"require\":[\"0000:ee:00.0\"]}", NULL, "device.unknown" },
		{ "xe9680", "{\"gpus\":1,\"require\":[\"0000:17:00.0\"]}", NULL, "device.kind" },
		{ "xe9680", "{\"gpus\":5,\"numa_node\":1}", NULL, "gpu.count" },
		{ "xe9680", "{\"gpus\":1,\"memory\":\"2T\"}", NULL, "memory.short" },
		{ "xe9680", "{\"memory\":\"2T\"}", NULL, "memory.short" },
		{ "xe9680", "{\"gpus\":1,\"vcpus\":500}", NULL, "cpus.short" },
		{ "xe9680", "{\"gpus\":8,\"vcpus\":1}", NULL, "cpus.cells" },
		{ "xe9680", "{\"gpus\":1,\"vfs\":1,\"mtu\":9001}", NULL, "nic.mtu" },
		{ "lab", "{\"vfs\":1,\"mtu\":1500}", NULL, "nic.mtu" },
		{ "dgx-a100", "{\"gpus\":1,\"vfs\":1,\"max_path\":\"PIX\",\"vf\":{\"vlan\":5}}", NULL, "nic.infiniband" },
		/* 4d:00.0 is the only NIC of its switch; a host that gives 8 VFs per port has these */
		{ "xe9680", "{\"gpus\":1,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"require\":[\"0000:4c:00.0\"],"
			    "\"exclude\":[\"0000:4d:00.1\",\"0000:4d:00.2\",\"0000:4d:00.3\",\"0000:4d:00.4\","
			    "\"0000:4d:00.5\",\"0000:4d:00.6\",\"0000:4d:00.7\",\"0000:4d:01.0\"]}", NULL, "nic.no-free-vf" },
		{ "hpe-gen9-sriov", "{\"gpus\":1}", NULL, "gpu.has-vfs" },
		{ "gb200-oci-4gpu", "{\"gpus\":1}", NULL, "group.shared" },
		{ "snc4", "{\"numa_node\":8}", NULL, "numa.no-cpus" },
		{ "odd", "{\"gpus\":1,\"vfs\":1,\"max_path\":\"PIX\"}", NULL, "device.dead" },
		{ "odd", "{\"gpus\":1,\"vfs\":1,\"max_path\":\"PIX\"}", NULL, "device.no-group" },
		{ "odd", "{\"gpus\":1,\"vfs\":1,\"max_path\":\"PIX\"}", NULL, "nic.vfs-unknown" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct topo *t = test_topo_host(cases[i].host);
		struct plan_taken taken = { .owner = "instance a" };
		struct plan *p;

		if (cases[i].taken)
			taken.bdf = test_bdf(cases[i].taken);
		p = test_plan(t, cases[i].request, &taken, cases[i].taken ? 1 : 0);
		if (p->fits || !test_has_reason(p, cases[i].rule))
			fail_msg("case %zu: fits %d, first reason %s, not %s", i, p->fits,
				 p->nreasons ? p->reason[0].rule : "-", cases[i].rule);
		plan_free(p);
		topo_unref(t);
	}
}

/* One VF for two GPUs: enough where both sit near the NIC, refused where they cannot. */
static void one_vf_for_the_bundle(void **state)
{
	struct synth two = { .nodes = 1, .bridges = 1, .switches = 1, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 8192 };
	struct synth apart = { .nodes = 1, .bridges = 2, .switches = 1, .gpus = 1, .nics = 1, .total_vfs = 4, .free_mib = 8192 };
	autofree char *a = synth_text(&two), *b = synth_text(&apart);
	struct topo *ta = test_topo_text(a), *tb = test_topo_text(b);
	struct plan *p = test_plan(ta, "{\"gpus\":2,\"vfs\":1,\"max_path\":\"PIX\"}", NULL, 0);

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->nvfs, 1);
	assert_int_equal(p->vf[0].path, TOPO_PIX);
	plan_free(p);
	p = test_plan(tb, "{\"gpus\":2,\"vfs\":1,\"max_path\":\"PIX\"}", NULL, 0);
	assert_false(p->fits);
	assert_true(test_has_reason(p, "bundle.none"));
	plan_free(p);
	p = test_plan(tb, "{\"gpus\":2,\"vfs\":1,\"max_path\":\"NODE\"}", NULL, 0);
	assert_true(p->fits);
	plan_free(p);
	topo_unref(ta);
	topo_unref(tb);
}

/* A GPU whose group holds a NIC below another port cannot be given; with the NIC in a group of its own, the
 * GPU's audio function goes along with it: case 22, dra-driver-nvidia-gpu#1191. */
static void case_22_groups_go_whole(void **state)
{
	struct topo *t = test_topo_host("consumer-no-acs");
	struct plan *p = test_plan(t, "{\"gpus\":1}", NULL, 0);
	char *text = NULL, *at;
	size_t len = 0;

	(void)state;
	assert_false(p->fits);
	assert_true(test_has_reason(p, "group.shared"));
	plan_free(p);
	topo_unref(t);
	assert_int_equal(file_read(&text, &len, TEST_SOURCE "/tests/hosts/consumer-no-acs/sys.txt", 1 << 20), 0);
	at = strstr(text, "0000:02:00.0/iommu_group -> ");
	assert_non_null(at);
	*(strchr(at, '\n') - 1) = '2';
	t = test_topo_text(text);
	p = test_plan(t, "{\"gpus\":1}", NULL, 0);
	assert_true(p->fits);
	assert_int_equal(p->ncompanions, 1);
	assert_true(bdf_eq(p->companion[0].bdf, test_bdf("0000:01:00.1")));
	assert_int_equal(p->nsteps, 7); /* vfio, two binds, two lends, a reset, domain */
	assert_string_equal(p->step[2].from, "snd_hda_intel");
	plan_free(p);
	topo_unref(t);
	at = strstr(text, "PCI_CLASS=40300"); /* were it a disk, it would be somebody's */
	assert_non_null(at);
	memcpy(at, "PCI_CLASS=10601", 15);
	t = test_topo_text(text);
	p = test_plan(t, "{\"gpus\":1}", NULL, 0);
	assert_false(p->fits);
	assert_true(test_has_reason(p, "group.shared"));
	assert_non_null(strstr(p->reason[0].observed, "0000:01:00.1 (other, held by snd_hda_intel)"));
	plan_free(p);
	topo_unref(t);
	free(text);
}

/* Memory is what is short, also where the node has few CPUs and other GPUs were left out before. */
static void short_memory_is_said(void **state)
{
	struct synth s = { .nodes = 2, .bridges = 1, .switches = 1, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 2048 };
	autofree char *text = synth_text(&s);
	struct topo *t = test_topo_text(text);
	struct plan *p = test_plan(t, "{\"gpus\":1,\"numa_node\":1,\"memory\":\"64G\"}", NULL, 0);

	(void)state;
	assert_false(p->fits);
	assert_string_equal(p->reason[p->nreasons - 1].rule, "memory.short");
	plan_free(p);
	topo_unref(t);
}

/* A node whose CPUs cannot be read is not one without CPUs. */
static void unknown_cpus_are_said(void **state)
{
	struct synth s = { .nodes = 1, .bridges = 1, .switches = 1, .gpus = 1, .nics = 1, .total_vfs = 4, .free_mib = 8192 };
	autofree char *text = synth_text(&s);
	struct topo *t;
	struct plan *p;

	(void)state;
	memcpy(strstr(text, "/cpulist\t"), "/cpuless\t", 9);
	t = test_topo_text(text);
	p = test_plan(t, "{\"gpus\":1,\"memory\":\"1G\"}", NULL, 0);
	assert_false(p->fits);
	assert_string_equal(p->reason[p->nreasons - 1].rule, "cpus.unknown");
	plan_free(p);
	topo_unref(t);
}

/* Without an uevent nobody knows the driver, which is not to have none: it could not be given back. */
static void an_unknown_driver_is_no_driver(void **state)
{
	static const char uevent[] = "/uevent\tPCI_CLASS=30200\\nPCI_ID=10DE:2330\\nDRIVER=nvidia";
	struct synth s = { .nodes = 1, .bridges = 1, .switches = 1, .gpus = 1, .nics = 1, .total_vfs = 4, .free_mib = 8192 };
	autofree char *text = synth_text(&s), *other = NULL;
	char *at = strstr(text, uevent), *dir = at;
	struct topo *t;
	struct plan *p;

	(void)state;
	*at = '\0';
	while (dir[-1] != '\n')
		dir--;
	assert_true(asprintf(&other, "%s/vendor\t0x10de\n%s/device\t0x2330\n%s/class\t0x030200\n%s", text, dir, dir,
			     strchr(at + 1, '\n') + 1) > 0);
	t = test_topo_text(other);
	p = test_plan(t, "{\"gpus\":1,\"memory\":\"1G\"}", NULL, 0);
	assert_false(p->fits);
	assert_string_equal(p->reason[0].rule, "device.driver-unknown");
	plan_free(p);
	topo_unref(t);
}

/* Eight nodes, and on each that has GPUs one of its two with a NIC of its own switch: near NICs, far GPUs, and it says so. */
static void nearer_nics_cost_nearer_gpus(void **state)
{
	struct topo *t = test_topo_host("dgx-a100");
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"memory\":\"2G\",\"vcpus\":4}", NULL, 0);

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->worst_path, TOPO_PIX);
	assert_int_equal(p->gpu_path, TOPO_SYS);
	assert_int_equal(p->nreasons, 1);
	assert_string_equal(p->reason[0].rule, "gpus.apart");
	plan_free(p);
	p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"memory\":\"2G\",\"numa_node\":3}", NULL, 0);
	assert_true(p->fits);
	assert_int_equal(p->worst_path, TOPO_PXB);
	assert_int_equal(p->gpu_path, TOPO_PXB);
	assert_int_equal(p->nreasons, 0);
	plan_free(p);
	topo_unref(t);
}

/* Two GPUs and two NICs below one switch: a NIC each, not both on the first. */
static void nics_are_not_shared_without_need(void **state)
{
	struct synth s = { .nodes = 1, .bridges = 1, .switches = 1, .gpus = 2, .nics = 2, .total_vfs = 4, .free_mib = 8192 };
	autofree char *text = synth_text(&s);
	struct topo *t = test_topo_text(text);
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1}", NULL, 0);

	(void)state;
	assert_true(p->fits);
	assert_false(bdf_eq(p->vf[0].pf, p->vf[1].pf));
	plan_free(p);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force),     cmocka_unit_test(same_input_same_plan),
		cmocka_unit_test(xe9680_pairs_gpu_and_nic), cmocka_unit_test(refusals_name_the_rule),
		cmocka_unit_test(one_vf_for_the_bundle),  cmocka_unit_test(nics_are_not_shared_without_need),
		cmocka_unit_test(short_memory_is_said),
		cmocka_unit_test(an_unknown_driver_is_no_driver),
		cmocka_unit_test(nearer_nics_cost_nearer_gpus),
		cmocka_unit_test(unknown_cpus_are_said),  cmocka_unit_test(case_22_groups_go_whole),
	};

	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
