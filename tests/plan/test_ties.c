/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bundles whose routes decide: where the best one would leak, the search goes on to one that does not, and finds it if
 * there is one. Against every bundle that can be named device by device, each planned by itself. */
#include "synth.h"
#include "topo/isolation.h"

static struct host_facts *facts_at(struct topo *t, uint32_t i)
{
	return (struct host_facts *)topo_at(t, i)->fn->facts; /* a test may make a machine worse */
}

static struct topo *synth_topo(const struct synth *s)
{
	autofree char *text = synth_text(s);

	return test_topo_text(text);
}

/* The port above it turns nothing away: what is below reaches its siblings untranslated. */
static void open_port(struct topo *t, struct bdf bdf)
{
	facts_at(t, topo_at(t, topo_find(t, bdf))->parent)->cap.acs.ctl = 0;
}

static struct bdf nth(const struct topo *t, enum host_kind kind, unsigned n)
{
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (topo_at(t, i)->fn->facts->kind == kind && n-- == 0)
			return topo_at(t, i)->fn->bdf;
	return BDF_NONE;
}

/* GPUs 0 and 1 and a NIC are below the first switch. Together they are alone, each by itself is not. */
static void leaks_choose_others(void **state)
{
	struct synth s = { .nodes = 1, .bridges = 1, .switches = 2, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 8192 };
	struct topo *t = synth_topo(&s);
	struct bdf gpu[4], nic[2];
	struct plan *p;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		gpu[i] = nth(t, HOST_GPU, i);
	nic[0] = nth(t, HOST_NIC, 0);
	nic[1] = nth(t, HOST_NIC, 1);
	open_port(t, gpu[0]);
	p = test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1}", NULL, 0); /* GPU 0 would reach GPU 1 */
	assert_true(p->fits && p->ngpus == 1 && bdf_eq(p->gpu[0], gpu[2]));
	assert_true(bdf_eq(p->vf[0].pf, nic[1]) && p->nreasons == 0);
	plan_free(p);
	p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}", NULL, 0);
	assert_true(p->fits && bdf_eq(p->gpu[0], gpu[0]) && bdf_eq(p->gpu[1], gpu[1]) && bdf_eq(p->vf[0].pf, nic[0]));
	plan_free(p);
	p = test_plan(t, "{\"gpus\":2,\"vcpus\":2}", NULL, 0); /* without a VF, GPU 0 would reach the NIC */
	assert_true(p->fits && bdf_eq(p->gpu[0], gpu[2]) && bdf_eq(p->gpu[1], gpu[3]));
	plan_free(p);
	p = test_plan(t, "{\"gpus\":3,\"vfs_per_gpu\":1,\"vcpus\":3}", NULL, 0);
	assert_true(p->fits && bdf_eq(p->gpu[0], gpu[0]) && bdf_eq(p->gpu[1], gpu[1]));
	plan_free(p);
	p = test_plan(t, "{\"gpus\":4,\"vcpus\":4}", NULL, 0); /* it cannot be without GPU 0 */
	assert_false(p->fits);
	assert_true(p->ngpus == 0 && p->nsteps == 0 && p->ncells == 0);
	assert_true(test_has_reason(p, "isolation.leak"));
	assert_string_equal(p->reason[p->nreasons - 1].rule, "nearest");
	assert_string_equal(p->reason[p->nreasons - 1].needed, "2 GPUs"); /* three, without a VF, would be with GPU 0 */
	plan_free(p);
	p = test_plan(t, "{\"gpus\":3,\"vcpus\":4}", NULL, 0);
	assert_false(p->fits);
	plan_free(p);
	topo_unref(t);
}

static unsigned leaks_of(const struct topo *t, const struct plan *p)
{
	uint32_t set[PLAN_GPUS_MAX + PLAN_VFS_MAX];
	struct topo_leak leak[256];
	unsigned n = 0, bad = 0;
	size_t all;

	for (size_t i = 0; i < p->ngpus; i++)
		set[n++] = topo_find(t, p->gpu[i]);
	for (size_t i = 0; i < p->nvfs; i++)
		set[n++] = topo_find(t, p->vf[i].exists ? p->vf[i].bdf : p->vf[i].pf);
	all = topo_leaks(leak, ARRAY_SIZE(leak), t, NULL, set, n);
	for (size_t i = 0; i < all && i < ARRAY_SIZE(leak); i++) {
		bool mine = false;

		for (unsigned k = 0; k < n; k++)
			mine = mine || set[k] == leak[i].from;
		bad += leak[i].certain && *host_driver_of(topo_inventory(t), topo_at(t, mine ? leak[i].to : leak[i].from)->fn);
	}
	return bad;
}

/* Some ports are open, some functions nobody's. */
static void spoil(struct topo *t, uint64_t *s)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		enum host_kind k = topo_at(t, i)->fn->facts->kind;

		if (host_kind_is_bridge(k) && synth_random(s, 3) == 0)
			facts_at(t, i)->cap.acs.ctl = 0;
		if ((k == HOST_GPU || k == HOST_VF) && synth_random(s, 2))
			((struct host_function *)topo_at(t, i)->fn)->driver = 0;
	}
}

/* The best of all bundles that have these GPUs, and first VFs of two ports; NULL: none fits. */
static struct plan *best_named(const struct topo *t, unsigned ngpus, unsigned nnics, const struct bdf *vf)
{
	struct plan *best = NULL;

	for (unsigned mask = 0; mask < 1u << ngpus; mask++)
		for (unsigned a = 0; a < nnics * nnics && __builtin_popcount(mask) == 2; a++) {
			char json[512], g[2][BDF_TEXT_MAX], v[2][BDF_TEXT_MAX];
			unsigned low = (unsigned)__builtin_ctz(mask), x = a / nnics, y = a % nnics;
			struct plan *p;

			bdf_text(g[0], nth(t, HOST_GPU, low));
			bdf_text(g[1], nth(t, HOST_GPU, (unsigned)__builtin_ctz(mask & (mask - 1))));
			bdf_text(v[0], vf[2 * x]);
			bdf_text(v[1], vf[2 * y + (x == y)]);
			(void)snprintf(json, sizeof(json), "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":4,\"require\":[\"%s\",\"%s\",\"%s\",\"%s\"]}",
				       g[0], g[1], v[0], v[1]);
			p = test_plan(t, json, NULL, 0);
			if (p->fits && (!best || score_less(&p->chosen.score, &best->chosen.score))) {
				plan_free(best);
				best = p;
			} else {
				plan_free(p);
			}
		}
	return best;
}

/* With unmade VFs and with made ones; the two first of each port, where there are two. */
static unsigned find_vfs(const struct topo *t, struct bdf *vf)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++)
		for (unsigned v = 0; v < 2 && topo_at(t, i)->fn->facts->kind == HOST_NIC; v++)
			(void)bdf_add(&vf[n++], topo_at(t, i)->fn->bdf, 16 + v);
	return n / 2;
}

static void finds_it_if_there_is_one(void **state)
{
	unsigned fit = 0, none = 0, moved = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct synth s = { .nodes = 1, .bridges = 1, .switches = 2, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 8192 };
		uint64_t r = seed * 7919;
		struct plan *p, *best, *plain;
		struct topo *t;
		struct bdf vf[4];
		unsigned nics;

		s.cascade = seed % 3 == 0;
		s.seed = seed % 2 ? seed : 0;
		t = synth_topo(&s);
		plain = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":4}", NULL, 0);
		spoil(t, &r);
		nics = find_vfs(t, vf);
		best = best_named(t, 4, nics, vf);
		p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":4}", NULL, 0);
		if (p->fits != (best != NULL))
			fail_msg("seed %llu: fits %d, and bundles by name %d", (unsigned long long)seed, p->fits, best != NULL);
		fit += p->fits;
		none += !p->fits;
		if (p->fits && memcmp(&p->chosen.score, &best->chosen.score, sizeof(struct score)) != 0)
			fail_msg("seed %llu: not the best", (unsigned long long)seed);
		assert_int_equal(p->fits ? leaks_of(t, p) : 0, 0);
		moved += p->fits && !bdf_eq(p->gpu[0], plain->gpu[0]);
		plan_free(plain);
		plan_free(best);
		plan_free(p);
		topo_unref(t);
	}
	print_message("# %u fit, %u of them not the first choice; %u do not\n", fit, moved, none);
	assert_true(fit > 100 && none > 20 && moved > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaks_choose_others),
		cmocka_unit_test(finds_it_if_there_is_one),
	};

	return cmocka_run_group_tests_name("ties", tests, NULL, NULL);
}
