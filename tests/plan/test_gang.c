/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gangs against an independent brute force on invented hosts, and by hand where greed would fail. */
#include <errno.h>

#include "base/error.h"
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
	if (plan_gang_make(&g, &in, request, n, &err) < 0) {
		for (size_t i = 0; i < n; i++)
			print_message("%s\n", json[i]);
		fail_msg("%s", err.text);
	}
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

#define NODE_CPUS   16 /* tests/synth.h */
#define NODE_MEMORY 64 /* GiB that guests can have */

struct bundle {
	unsigned gpus, vfs; /* vfs: of each GPU */
	unsigned whole;     /* or for all of them */
	int      max_path;
	int      gpu; /* that must be in; -1 none */
	bool     loose;
	unsigned vcpus, gib; /* of each node; 0: as good as nothing */
};

struct oracle {
	const struct topo *t;
	uint32_t gpu[16], nic[16];
	int      left[16];
	unsigned ngpus, nnics;
	unsigned cpus[8], gib[8]; /* of nodes, that are had */
	const struct bundle *b;
	size_t   n;
};

static bool bundles(struct oracle *o, size_t i, unsigned used);

static bool near(const struct oracle *o, size_t i, unsigned g, unsigned n)
{
	return o->b[i].loose || (int)topo_path(o->t, o->gpu[g], o->nic[n]) <= o->b[i].max_path;
}

/* VFs for the GPUs of set, `want` for the lowest of them; then the bundles after i. */
static bool vfs(struct oracle *o, size_t i, unsigned used, unsigned set, unsigned want)
{
	unsigned g = set ? (unsigned)__builtin_ctz(set) : 0;

	if (!set)
		return bundles(o, i + 1, used);
	if (!want)
		return vfs(o, i, used, set & (set - 1), o->b[i].vfs);
	for (unsigned n = 0; n < o->nnics; n++) {
		if (!o->left[n] || !near(o, i, g, n))
			continue;
		o->left[n]--;
		if (vfs(o, i, used, set, want - 1))
			return true;
		o->left[n]++;
	}
	return false;
}

/* `want` VFs of NICs from n on, each near to a GPU of set; those of `bare` have none yet. */
static bool whole(struct oracle *o, size_t i, unsigned used, unsigned set, unsigned bare, unsigned want, unsigned n)
{
	unsigned served = 0;

	if (!want)
		return !bare && bundles(o, i + 1, used);
	if (n == o->nnics)
		return false;
	for (unsigned left = set; left; left &= left - 1)
		served |= near(o, i, (unsigned)__builtin_ctz(left), n) ? left & -left : 0;
	for (unsigned k = 0; k <= want && k <= (unsigned)o->left[n] && (!k || served); k++) {
		o->left[n] -= (int)k;
		if (whole(o, i, used, set, k ? bare & ~served : bare, want - k, n + 1))
			return true;
		o->left[n] += (int)k;
	}
	return false;
}

/* Takes (sign 1) or gives back what the cells of set have; false: a node has too little. */
static bool rooms(struct oracle *o, size_t i, unsigned set, int sign)
{
	bool fits = true;
	unsigned nodes = 0;

	for (; set; set &= set - 1)
		nodes |= 1u << topo_at(o->t, o->gpu[__builtin_ctz(set)])->fn->facts->numa_node;
	for (; nodes; nodes &= nodes - 1) {
		unsigned n = (unsigned)__builtin_ctz(nodes);

		o->cpus[n] += (unsigned)sign * o->b[i].vcpus;
		o->gib[n] += (unsigned)sign * o->b[i].gib;
		fits = fits && o->cpus[n] <= NODE_CPUS && o->gib[n] <= NODE_MEMORY;
	}
	return fits;
}

static bool bundles(struct oracle *o, size_t i, unsigned used)
{
	if (i == o->n)
		return true;
	for (unsigned s = 1; s < 1u << o->ngpus; s++) {
		bool may = (unsigned)__builtin_popcount(s) == o->b[i].gpus && !(s & used) && (o->b[i].gpu < 0 || s >> o->b[i].gpu & 1);

		if (may && rooms(o, i, s, 1) && (o->b[i].whole ? whole(o, i, used | s, s, s, o->b[i].whole, 0) : vfs(o, i, used | s, s, o->b[i].vfs)))
			return true;
		if (may)
			(void)rooms(o, i, s, -1);
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

static struct bundle any_bundle(uint64_t *s, unsigned ngpus)
{
	struct bundle b = { .gpus = 1 + synth_random(s, 2), .vfs = synth_random(s, 3), .max_path = TOPO_PIX + (int)synth_random(s, 5) };

	b.gpu = synth_random(s, 2) ? -1 : (int)synth_random(s, ngpus);
	if (synth_random(s, 3) == 0) {
		b.whole = 1 + synth_random(s, 3);
		b.vfs = 0;
	}
	b.loose = synth_random(s, 4) == 0;
	/* NICs of other nodes bring cells there, which the oracle does not follow */
	if (!b.loose && synth_random(s, 2) && (b.max_path < TOPO_NODE || !(b.vfs + b.whole))) {
		b.vcpus = 6 * (1 + synth_random(s, 2)); /* beside any of them there is room for those with 2 */
		b.gib = 8 * (1 + synth_random(s, 5));
	}
	return b;
}

static bool spans_two(const struct oracle *o)
{
	for (unsigned g = 0; g < o->ngpus; g++)
		if (topo_at(o->t, o->gpu[g])->fn->facts->numa_node > 0)
			return true;
	return false;
}

/* What each node gets is asked for per node: a bundle of one GPU is on one, of two GPUs only on hosts with one. */
static void write_request(char json[300], const struct oracle *o, const struct bundle *b)
{
	char bdf[BDF_TEXT_MAX];

	(void)snprintf(json, 300, "{\"gpus\":%u,\"%s\":%u,\"max_path\":\"%s\",\"policy\":\"%s\",\"vcpus\":%u,\"memory\":\"%uM\",\"gdr\":\"off\",\"require\":[%s%s%s]}",
		       b->gpus, b->whole ? "vfs" : "vfs_per_gpu", b->whole ? b->whole : b->vfs, topo_class_text((enum topo_class)b->max_path),
		       b->loose ? "loose" : "strict", b->vcpus ? b->vcpus : 2, b->gib ? b->gib * 1024 : 64, b->gpu < 0 ? "" : "\"",
		       b->gpu < 0 ? "" : bdf_text(bdf, topo_at(o->t, o->gpu[b->gpu])->fn->bdf), b->gpu < 0 ? "" : "\"");
}

static void check_plan(const struct plan *p, const struct bundle *b)
{
	assert_true(p->fits);
	assert_int_equal(p->ngpus, b->gpus);
	assert_int_equal(p->nvfs, b->whole ? b->whole : b->gpus * b->vfs);
	for (size_t v = 0; v < p->nvfs && !b->loose; v++)
		assert_true((int)p->vf[v].path <= b->max_path);
}

static bool fits_by_oracle(const struct oracle *o)
{
	struct oracle fresh = *o;

	return bundles(&fresh, 0, 0);
}

static bool within_limits(const struct plan *p, const struct bundle *b)
{
	bool all = true;

	for (size_t v = 0; v < p->nvfs; v++)
		all = all && (int)p->vf[v].path <= b->max_path;
	return all;
}

static void check_seed(uint64_t seed)
{
	uint64_t s = seed;
	struct synth host = {
		.nodes = 1 + synth_random(&s, 2), .bridges = 1, .switches = 1 + synth_random(&s, 2), .gpus = 1 + synth_random(&s, 2),
		.nics = 1 + synth_random(&s, 2), .total_vfs = 1 + synth_random(&s, 2), .free_mib = NODE_MEMORY * 1024 + 1024, .seed = seed,
	};
	autofree char *text = synth_text(&host);
	struct topo *t = test_topo_text(text);
	struct oracle o = { .t = t };
	struct bundle b[MOST];
	char json[MOST][300];
	const char *list[MOST];
	size_t n = 1 + synth_random(&s, MOST);
	struct plan_gang *g;
	bool fits;

	oracle_read(&o);
	for (size_t i = 0; i < n; i++) {
		b[i] = i && synth_random(&s, 3) == 0 ? b[i - 1] : any_bundle(&s, o.ngpus);
		if (b[i].gpus > 1 && spans_two(&o))
			b[i].vcpus = b[i].gib = 0;
		write_request(json[i], &o, &b[i]);
		list[i] = json[i];
	}
	o.b = b;
	o.n = n;
	fits = fits_by_oracle(&o);
	g = gang(t, list, n, NULL, 0);
	if (g->fits != fits)
		fail_msg("seed %llu: fits is %d, the oracle says %d", (unsigned long long)seed, g->fits, fits);
	for (size_t i = 0; i < n && fits; i++)
		check_plan(g->plan[i], &b[i]);
	if (fits)
		assert_false(twice(g));
	else
		assert_true(g->all->nreasons > 0);
	better += fits && greedy(t, list, n) < n;
	if (fits && b[0].loose && !within_limits(g->plan[0], &b[0])) { /* then it could not be */
		b[0].loose = false;
		if (fits_by_oracle(&o))
			fail_msg("seed %llu: the first bundle is not within its limits, and could be", (unsigned long long)seed);
	}
	plan_gang_free(g);
	topo_unref(t);
}

static void equals_brute_force(void **state)
{
	const char *many = getenv("GANG_SEEDS");
	uint64_t n = many ? strtoull(many, NULL, 10) : 1000;

	(void)state;
	for (uint64_t seed = 1; seed <= n; seed++)
		check_seed(seed);
	print_message("# %u of %llu gangs fit only because they were planned together\n", better, (unsigned long long)n);
	assert_true(better > 0);
}

/* ---- by hand -------------------------------------------------------------------------------------- */

/* Case 38, kubernetes#138765: the first would take the GPU that the second needs. */
static void case_38_greed_fails(void **state)
{
	static const char *const list[] = { "{\"gpus\":1}", "{\"gpus\":1,\"require\":[\"0000:19:00.0\"]}" };
	static const char *const held[] = { "{\"gpus\":2}", "{\"gpus\":1,\"require\":[\"0000:5d:00.0\"]}" };
	const struct plan_taken lease[] = { { test_bdf("0000:19:00.0"), "lease x" }, { test_bdf("0000:3b:00.0"), "lease x" } };
	struct topo *t = test_topo_host("xe9680");
	struct plan_gang *g = gang(t, list, 2, NULL, 0);

	(void)state;
	assert_true(g->fits);
	assert_true(bdf_eq(g->plan[1]->gpu[0], test_bdf("0000:19:00.0")));
	assert_false(twice(g));
	assert_true(greedy(t, list, 2) == 1);
	plan_gang_free(g);
	g = gang(t, held, 2, lease, 2); /* beside what is leased, too: of 4c and 5d, which are the best pair left, one is needed */
	assert_true(g->fits);
	assert_false(twice(g));
	assert_false(bdf_in(g->plan[0]->gpu, 2, test_bdf("0000:5d:00.0")) || bdf_in(g->plan[0]->gpu, 2, lease[0].bdf));
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

/* 16 GPUs and a VF too few for the last of eight unequal bundles: whichever way the others are given, so that all ways have
 * to be looked at; without remembering which were in vain there are more than can be. */
static void all_ways_in_vain(void **state)
{
	struct synth host = { .nodes = 2, .bridges = 1, .switches = 4, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 65536 };
	autofree char *text = synth_text(&host);
	struct topo *t = test_topo_text(text);
	char json[8][160];
	const char *list[8];
	struct plan_gang *g;

	(void)state;
	for (size_t i = 0; i < 8; i++) { /* 3 + 6 x 4 + 6 of 32 VFs */
		(void)snprintf(json[i], sizeof(json[i]), "{\"gpus\":2,\"%s\":%u,\"vcpus\":2,\"memory\":\"%zuM\",\"gdr\":\"off\"}", i == 0 || i == 7 ? "vfs" : "vfs_per_gpu",
			       i == 0 ? 3 : i == 7 ? 6 : 2, 128 + i);
		list[i] = json[i];
	}
	g = gang(t, list, 8, NULL, 0);
	assert_false(g->fits);
	assert_true(has_reason(g, "gang.apart"));
	plan_gang_free(g);
	topo_unref(t);
}

/* A search that is given up says so: neither that the bundles fit nor that they do not. */
static void given_up_is_not_decided(void **state)
{
	struct synth host = { .nodes = 2, .bridges = 1, .switches = 4, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 65536 };
	autofree char *text = synth_text(&host);
	struct topo *t = test_topo_text(text);
	struct plan_request two = test_request("{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2,\"memory\":\"128M\",\"gdr\":\"off\"}");
	const struct plan_request *request[] = { &two, &two, &two };
	struct plan_input in = { .topo = t, .policy = TEST_POLICY, .patience = 2 };
	struct error err = ERROR_INIT;
	struct plan_gang *g = NULL;

	(void)state;
	assert_int_equal(plan_gang_make(&g, &in, request, ARRAY_SIZE(request), &err), -ETIME);
	assert_null(g);
	assert_string_equal(error_name(err.code), "not_decided");
	assert_non_null(strstr(err.text, "not decided"));
	in.patience = 0;
	err = ERROR_INIT;
	assert_int_equal(plan_gang_make(&g, &in, request, ARRAY_SIZE(request), &err), 0);
	assert_true(g->fits);
	plan_gang_free(g);
	plan_request_done(&two);
	topo_unref(t);
}

/* Case 39, openstack/placement's bug 2126751: eight GPUs, each asked for as a group of its own, were 8^8 combinations
 * there. Here they are one set, and a gang of eight equal bundles takes no more steps than it has bundles. */
static void case_39_eight_groups_are_one_way(void **state)
{
	struct synth host = { .nodes = 2, .bridges = 1, .switches = 2, .gpus = 2, .nics = 1, .total_vfs = 8, .free_mib = 65536 };
	autofree char *text = synth_text(&host);
	struct topo *t = test_topo_text(text);
	struct plan_request one = test_request("{\"gpus\":1,\"vfs_per_gpu\":1,\"vcpus\":1,\"memory\":\"64M\",\"gdr\":\"off\"}");
	const struct plan_request *request[9];
	struct plan_input in = { .topo = t, .policy = TEST_POLICY, .patience = 8 };
	struct error err = ERROR_INIT;
	struct plan_gang *g = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(request); i++)
		request[i] = &one;
	assert_int_equal(plan_gang_make(&g, &in, request, 8, &err), 0);
	assert_true(g->fits);
	g = plan_gang_free(g);
	assert_int_equal(plan_gang_make(&g, &in, request, 9, &err), 0); /* and that a ninth does not fit takes none at all */
	assert_false(g->fits);
	plan_gang_free(g);
	plan_request_done(&one);
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

static int bundles_of(json_object *doc, size_t shape)
{
	return json_object_get_int(json_object_object_get(json_object_array_get_idx(json_object_object_get(doc, "shapes"), shape), "bundles"));
}

/* What a shape asks for counts: of 112 CPUs of each node. And what is sick keeps out what it is in. */
static void capacity_of_more(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct cpuset two = { { 3 } };
	const struct plan_room room = { .node = 0, .cpus = &two, .owner = "instance x", .backed = true };
	const struct plan_sick sick = { .bdf = test_bdf("0000:bb:00.0"), .reason = "fell off the bus" };
	struct plan_input in = { .topo = t, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	json_object *doc = NULL, *four;

	(void)state;
	(void)strcpy(in.policy.shape_more[2], "vcpus=112");
	(void)strcpy(in.policy.shape_more[3], "vfs=8,max_path=SYS,memory=10T");
	assert_int_equal(plan_capacity_json(&doc, &in, &err), 0);
	assert_int_equal(bundles_of(doc, 2), 2);
	assert_int_equal(bundles_of(doc, 3), 0);
	assert_true(blocks(json_object_array_get_idx(json_object_object_get(doc, "shapes"), 3), "capacity.memory", ""));
	json_object_put(doc);
	in.room = &room;
	in.nrooms = 1;
	assert_int_equal(plan_capacity_json(&doc, &in, &err), 0);
	four = json_object_array_get_idx(json_object_object_get(doc, "shapes"), 2);
	assert_int_equal(bundles_of(doc, 2), 1);
	assert_int_equal(json_object_get_int(json_object_object_get(four, "empty")), 2);
	assert_true(blocks(four, "capacity.cpus", ""));
	json_object_put(doc);
	in.nrooms = 0;
	in.sick = &sick;
	in.nsick = 1;
	assert_int_equal(plan_capacity_json(&doc, &in, &err), 0);
	assert_int_equal(bundles_of(doc, 0), 7);
	assert_int_equal(bundles_of(doc, 2), 1);
	assert_true(blocks(json_object_array_get_idx(json_object_object_get(doc, "shapes"), 0), "device.quarantined", "0000:bb:00.0"));
	json_object_put(doc);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force), cmocka_unit_test(case_38_greed_fails), cmocka_unit_test(memory_is_shared),
		cmocka_unit_test(all_ways_in_vain), cmocka_unit_test(given_up_is_not_decided), cmocka_unit_test(case_39_eight_groups_are_one_way),
		cmocka_unit_test(refusals_name_the_bundle), cmocka_unit_test(counting), cmocka_unit_test(capacity), cmocka_unit_test(capacity_of_more),
	};

	return cmocka_run_group_tests_name("gang", tests, NULL, NULL);
}
