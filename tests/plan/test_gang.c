/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gangs against an independent brute force on invented hosts, and by hand where greed would fail. */
#include "plan/capacity.h"
#include "plan/gang.h"
#include "synth.h"

#define MOST 3

static struct plan_gang *gang(const struct topo *t, const char *const *json, size_t n, const struct plan_taken *taken, size_t ntaken)
{
	struct plan_input in = { .topo = t, .taken = taken, .ntaken = ntaken, .policy = TEST_POLICY };
	const struct plan_request *request[PLAN_GANG_MAX];
	struct plan_request r[PLAN_GANG_MAX];
	struct error err = ERROR_INIT;
	struct plan_gang *g = NULL;

	for (size_t i = 0; i < n; i++) {
		r[i] = test_request(json[i]);
		request[i] = &r[i];
	}
	if (plan_gang_make(&g, &in, request, n, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < n; i++)
		plan_request_done(&r[i]);
	assert_int_equal(g->n, n);
	return g;
}

static bool has_reason(const struct plan_gang *g, const char *rule)
{
	return test_has_reason(g->all, rule);
}

/* ---- brute force ---------------------------------------------------------------------------------- */

struct bundle {
	unsigned gpus, vfs;
	int      max_path;
	int      gpu; /* that must be in; -1 none */
};

struct oracle {
	const struct topo *t;
	uint32_t gpu[16], nic[16];
	int      left[16];
	unsigned ngpus, nnics;
	const struct bundle *b;
	size_t   n;
};

static bool bundles(struct oracle *o, size_t i, unsigned used);

/* VFs for the GPUs of set, `want` for the lowest of them; then the bundles after i. */
static bool vfs(struct oracle *o, size_t i, unsigned used, unsigned set, unsigned want)
{
	unsigned g = set ? (unsigned)__builtin_ctz(set) : 0;

	if (!set)
		return bundles(o, i + 1, used);
	if (!want)
		return vfs(o, i, used, set & (set - 1), o->b[i].vfs);
	for (unsigned n = 0; n < o->nnics; n++) {
		if (!o->left[n] || (int)topo_path(o->t, o->gpu[g], o->nic[n]) > o->b[i].max_path)
			continue;
		o->left[n]--;
		if (vfs(o, i, used, set, want - 1))
			return true;
		o->left[n]++;
	}
	return false;
}

static bool bundles(struct oracle *o, size_t i, unsigned used)
{
	if (i == o->n)
		return true;
	for (unsigned s = 1; s < 1u << o->ngpus; s++) {
		if ((unsigned)__builtin_popcount(s) == o->b[i].gpus && !(s & used) && (o->b[i].gpu < 0 || s >> o->b[i].gpu & 1) && vfs(o, i, used | s, s, o->b[i].vfs))
			return true;
	}
	return false;
}

static void oracle_read(struct oracle *o)
{
	for (uint32_t i = 0; i < topo_count(o->t); i++) {
		const struct host_facts *f = topo_at(o->t, i)->fn->facts;
		unsigned vfs = f->numvfs ? f->numvfs : f->cap.sriov.total < 8 ? f->cap.sriov.total : 8;

		if (f->kind == HOST_GPU)
			o->gpu[o->ngpus++] = i;
		if (f->kind == HOST_NIC) {
			o->left[o->nnics] = (int)vfs;
			o->nic[o->nnics++] = i;
		}
	}
}

static bool twice(const struct plan_gang *g)
{
	struct bdf seen[256];
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++) {
		for (size_t k = 0; k < g->plan[i]->ngpus; k++) {
			if (bdf_in(seen, n, g->plan[i]->gpu[k]))
				return true;
			seen[n++] = g->plan[i]->gpu[k];
		}
		for (size_t k = 0; k < g->plan[i]->nvfs; k++) {
			if (bdf_in(seen, n, g->plan[i]->vf[k].bdf))
				return true;
			seen[n++] = g->plan[i]->vf[k].bdf;
		}
	}
	return false;
}

/* How many fit one after the other, each getting its best of what is left. */
static size_t greedy(const struct topo *t, const char *const *json, size_t n)
{
	struct plan_taken taken[256];
	size_t ntaken = 0, fit = 0;

	for (size_t i = 0; i < n; i++) {
		struct plan *p = test_plan(t, json[i], taken, ntaken);

		for (size_t k = 0; k < p->ngpus; k++)
			taken[ntaken++] = (struct plan_taken){ p->gpu[k], "greed" };
		for (size_t k = 0; k < p->nvfs; k++)
			taken[ntaken++] = (struct plan_taken){ p->vf[k].bdf, "greed" };
		fit += p->fits;
		plan_free(p);
	}
	return fit;
}

static unsigned better; /* gangs that greed does not find */

static void check_seed(uint64_t seed)
{
	uint64_t s = seed;
	struct synth host = {
		.nodes = 1 + synth_random(&s, 2), .bridges = 1, .switches = 1 + synth_random(&s, 2), .gpus = 1 + synth_random(&s, 2),
		.nics = 1 + synth_random(&s, 2), .total_vfs = 1 + synth_random(&s, 2), .free_mib = 65536, .seed = seed,
	};
	autofree char *text = synth_text(&host);
	struct topo *t = test_topo_text(text);
	struct oracle o = { .t = t };
	struct bundle b[MOST];
	char json[MOST][240], bdf[BDF_TEXT_MAX];
	const char *list[MOST];
	size_t n = 1 + synth_random(&s, MOST);
	struct plan_gang *g;
	bool fits;

	oracle_read(&o);
	for (size_t i = 0; i < n; i++) {
		b[i] = (struct bundle){ 1 + synth_random(&s, 2), synth_random(&s, 3), TOPO_PIX + (int)synth_random(&s, 5),
					synth_random(&s, 2) ? -1 : (int)synth_random(&s, o.ngpus) };
		if (i && synth_random(&s, 3) == 0)
			b[i] = b[i - 1];
		(void)snprintf(json[i], sizeof(json[i]), "{\"gpus\":%u,\"vfs_per_gpu\":%u,\"max_path\":\"%s\",\"vcpus\":4,\"gdr\":\"off\",\"require\":[%s%s%s]}",
			       b[i].gpus, b[i].vfs, topo_class_text((enum topo_class)b[i].max_path),
			       b[i].gpu < 0 ? "" : "\"", b[i].gpu < 0 ? "" : bdf_text(bdf, topo_at(t, o.gpu[b[i].gpu])->fn->bdf),
			       b[i].gpu < 0 ? "" : "\"");
		list[i] = json[i];
	}
	o.b = b;
	o.n = n;
	fits = bundles(&o, 0, 0);
	g = gang(t, list, n, NULL, 0);
	if (g->fits != fits)
		fail_msg("seed %llu: fits is %d, the oracle says %d", (unsigned long long)seed, g->fits, fits);
	for (size_t i = 0; i < n && fits; i++) {
		assert_true(g->plan[i]->fits);
		assert_int_equal(g->plan[i]->ngpus, b[i].gpus);
		assert_int_equal(g->plan[i]->nvfs, b[i].gpus * b[i].vfs);
		for (size_t v = 0; v < g->plan[i]->nvfs; v++)
			assert_true((int)g->plan[i]->vf[v].path <= b[i].max_path);
	}
	if (fits)
		assert_false(twice(g));
	else
		assert_true(g->all->nreasons > 0);
	better += fits && greedy(t, list, n) < n;
	plan_gang_free(g);
	topo_unref(t);
}

static void equals_brute_force(void **state)
{
	const char *many = getenv("GANG_SEEDS");
	uint64_t n = many ? strtoull(many, NULL, 10) : 1500;

	(void)state;
	for (uint64_t seed = 1; seed <= n; seed++)
		check_seed(seed);
	print_message("# %u of %llu gangs fit only because they were planned together\n", better, (unsigned long long)n);
	assert_true(better > 0);
}

/* ---- by hand -------------------------------------------------------------------------------------- */

/* The first would take the GPU that the second needs. */
static void greed_fails(void **state)
{
	static const char *const list[] = { "{\"gpus\":1}", "{\"gpus\":1,\"require\":[\"0000:19:00.0\"]}" };
	struct topo *t = test_topo_host("xe9680");
	struct plan_gang *g = gang(t, list, 2, NULL, 0);

	(void)state;
	assert_true(g->fits);
	assert_true(bdf_eq(g->plan[1]->gpu[0], test_bdf("0000:19:00.0")));
	assert_false(twice(g));
	assert_true(greedy(t, list, 2) == 1);
	plan_gang_free(g);
	topo_unref(t);
}

/* Two guests want more than half of a node's memory each, one after the other both would seem to fit there. */
static void memory_is_shared(void **state)
{
	static const char *const two[] = { "{\"memory\":\"40G\",\"vcpus\":2}", "{\"memory\":\"40G\",\"vcpus\":2}", "{\"memory\":\"40G\",\"vcpus\":2}" };
	struct synth host = { .nodes = 2, .bridges = 1, .switches = 1, .gpus = 1, .nics = 1, .total_vfs = 2, .free_mib = 65536 };
	autofree char *text = synth_text(&host);
	struct topo *t = test_topo_text(text);
	struct plan_gang *g = gang(t, two, 2, NULL, 0);

	(void)state;
	assert_true(g->fits);
	assert_int_not_equal(g->plan[0]->cell[0].host_node, g->plan[1]->cell[0].host_node);
	plan_gang_free(g);
	g = gang(t, two, 3, NULL, 0);
	assert_false(g->fits);
	assert_true(has_reason(g, "gang.apart"));
	assert_true(g->plan[2]->fits); /* by itself */
	plan_gang_free(g);
	topo_unref(t);
}

static void refusals_name_the_bundle(void **state)
{
	static const char *const list[] = { "{\"gpus\":4}", "{\"gpus\":9}" };
	static const char *const many[] = { "{\"gpus\":4}", "{\"gpus\":4}", "{\"gpus\":1}" };
	struct topo *t = test_topo_host("xe9680");
	struct plan_gang *g = gang(t, list, 2, NULL, 0);
	json_object *doc = plan_gang_json(g);

	(void)state;
	assert_false(g->fits);
	assert_true(has_reason(g, "gang.member"));
	assert_non_null(strstr(g->all->reason[0].observed, "bundle 1 "));
	assert_true(test_has_reason(g->plan[1], "gpu.count"));
	assert_int_equal(json_object_array_length(json_object_object_get(doc, "plans")), 2);
	json_object_put(doc);
	plan_gang_free(g);
	g = gang(t, many, 3, NULL, 0);
	assert_true(has_reason(g, "gang.apart"));
	plan_gang_free(g);
	topo_unref(t);
}

static unsigned count(const struct topo *t, const char *json, const struct plan_taken *taken, size_t n, unsigned *left)
{
	struct plan_request r = test_request(json);
	struct plan_input in = { .topo = t, .request = &r, .taken = taken, .ntaken = n, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	uint64_t mask = 0;
	unsigned found = 0;

	in.policy.boards.shared = 0; /* as its Fabric Manager says */
	if (plan_gang_count(&found, &mask, &in, 8, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&r);
	*left = (unsigned)__builtin_popcountll(mask);
	return found;
}

static void counting(void **state)
{
	struct topo *t = test_topo_host("xe9680"); /* its partitions: 19 3b, 4c 5d, 9b bb, cb db */
	struct plan_taken taken[] = { { test_bdf("0000:19:00.0"), "x" }, { test_bdf("0000:4c:00.0"), "x" } };
	unsigned left;

	(void)state;
	assert_int_equal(count(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}", NULL, 0, &left), 4);
	assert_int_equal(left, 0);
	assert_int_equal(count(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}", taken, 2, &left), 2);
	assert_int_equal(left, 2);
	assert_int_equal(count(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"max_path\":\"PIX\"}", taken, 1, &left), 7);
	assert_int_equal(count(t, "{\"gpus\":8,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}", taken, 1, &left), 0);
	topo_unref(t);
}

static bool blocks(json_object *shape, const char *rule, const char *device)
{
	json_object *list = json_object_object_get(shape, "blocked");

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *r = json_object_array_get_idx(list, i);

		if (strcmp(json_object_get_string(json_object_object_get(r, "rule")), rule) == 0 &&
		    strcmp(json_object_get_string(json_object_object_get(r, "device")), device) == 0)
			return true;
	}
	return false;
}

/* Of the six free GPUs two pairs and a four are left. Fragmentation: 5 x (6 - 2 x 2) + 4 x (6 - 4) + 11 x 6 of 100 x 6. */
static void capacity(void **state)
{
	struct plan_taken taken[] = { { test_bdf("0000:19:00.0"), "instance x" }, { test_bdf("0000:4c:00.0"), "lease y" } };
	struct topo *t = test_topo_host("xe9680");
	struct plan_input in = { .topo = t, .taken = taken, .ntaken = 2, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	json_object *doc = NULL, *shapes;
	const int now[] = { 6, 2, 1, 0 }, empty[] = { 8, 4, 2, 1 };

	(void)state;
	in.policy.boards.shared = 0;
	assert_int_equal(plan_capacity_json(&doc, &in, &err), 0);
	shapes = json_object_object_get(doc, "shapes");
	assert_int_equal(json_object_get_int(json_object_object_get(doc, "gpus")), 8);
	assert_int_equal(json_object_get_int(json_object_object_get(doc, "free")), 6);
	assert_string_equal(json_object_to_json_string(json_object_object_get(doc, "fragmentation")), "0.140");
	for (size_t i = 0; i < 4; i++) {
		json_object *s = json_object_array_get_idx(shapes, i);

		assert_int_equal(json_object_get_int(json_object_object_get(s, "bundles")), now[i]);
		assert_int_equal(json_object_get_int(json_object_object_get(s, "empty")), empty[i]);
		assert_true(blocks(s, "device.taken", "0000:19:00.0") && blocks(s, "device.taken", "0000:4c:00.0"));
		assert_int_equal(blocks(s, "capacity.left", "0000:3b:00.0"), i > 0);
	}
	assert_true(blocks(json_object_array_get_idx(shapes, 1), "partition.held", ""));
	json_object_put(doc);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force), cmocka_unit_test(greed_fails), cmocka_unit_test(memory_is_shared),
		cmocka_unit_test(refusals_name_the_bundle), cmocka_unit_test(counting), cmocka_unit_test(capacity),
	};

	return cmocka_run_group_tests_name("gang", tests, NULL, NULL);
}
