/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ACS plans: on invented trees, wanted pairs become direct with no write too many and no untranslated route
 * changed; on real machines, what operators are told. */
#include "plan/acs.h"

#include "topo/trees.h"

/* The plan's writes as control words; skip: bit i leaves write i out. */
static void words(uint16_t *ctl, const struct topo *t, const struct plan_acs *p, unsigned skip)
{
	for (uint32_t i = 0; i < topo_count(t); i++)
		ctl[i] = topo_at(t, i)->fn->facts->cap.acs.ctl;
	for (size_t i = 0; i < p->nwrites; i++)
		if (!(skip >> i & 1))
			ctl[topo_find(t, p->write[i].port)] = p->write[i].to;
}

static bool pairs_are_direct(const struct topo *t, const struct plan_acs *p, const uint16_t *ctl)
{
	bool all = true;

	for (size_t i = 0; i < p->npairs; i++) {
		struct topo_gdr g;

		if (p->pair[i].state != PLAN_ACS_DIRECT && p->pair[i].state != PLAN_ACS_PLANNED)
			continue;
		topo_gdr(&g, t, ctl, topo_find(t, p->pair[i].nic), topo_find(t, p->pair[i].gpu));
		all = all && g.part[g.worst].verdict == TOPO_DIRECT;
	}
	return all;
}

/* DT set or TB cleared, nothing else, and only what the port has. */
static void only_these_bits(const struct plan_acs *p)
{
	for (size_t i = 0; i < p->nwrites; i++) {
		uint16_t set = p->write[i].to & (uint16_t)~p->write[i].from, cleared = p->write[i].from & (uint16_t)~p->write[i].to;

		assert_true((set & ~TOPO_ACS_DT) == 0 && (cleared & ~TOPO_ACS_TB) == 0 && (set | cleared));
		assert_int_equal(set & ~p->write[i].cap, 0);
	}
}

static void untranslated_as_before(const struct topo *t, const uint16_t *ctl, struct tree *x)
{
	for (unsigned k = 0; k < 20; k++) {
		uint32_t a = tree_random(x, topo_count(t)), b = tree_random(x, topo_count(t));
		struct topo_tlp tlp = { .type = (enum topo_tlp_type)tree_random(x, 3) };
		struct topo_route now, then;

		topo_route(&now, t, NULL, a, b, tlp);
		topo_route(&then, t, ctl, a, b, tlp);
		assert_int_equal(now.verdict, then.verdict);
		assert_int_equal(now.iommu, then.iommu);
	}
}

/* Pairs that are said to be impossible: no DT and TB bits of any ports would do. */
static void impossible_is_impossible(const struct topo *t, const struct plan_acs *p, uint16_t *ctl)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct pcicap_acs *acs = &topo_at(t, i)->fn->facts->cap.acs;

		ctl[i] = (uint16_t)((acs->ctl | (acs->cap & TOPO_ACS_DT)) & ~TOPO_ACS_TB);
	}
	for (size_t i = 0; i < p->npairs; i++) {
		struct topo_gdr g;

		if (p->pair[i].state != PLAN_ACS_IMPOSSIBLE)
			continue;
		topo_gdr(&g, t, ctl, topo_find(t, p->pair[i].nic), topo_find(t, p->pair[i].gpu));
		if (g.part[g.worst].verdict == TOPO_DIRECT)
			fail_msg("a pair with ATS %d, rule %s could be direct", g.ats, topo_rule_id(p->pair[i].rule));
	}
}

static bool is_direct(const struct plan_acs_pair *pair)
{
	return pair->state == PLAN_ACS_DIRECT || pair->state == PLAN_ACS_PLANNED;
}

/* From a base on which nothing is set yet: the writes name every port that a route needs, on the words that are there
 * they make direct what they say, and what is taken back leaves the rest. */
static void from_base(const struct topo *t, const struct plan_acs *now, struct tree *x)
{
	struct plan_acs_held held = { topo_at(t, tree_random(x, topo_count(t)))->fn->bdf, TOPO_ACS_TB };
	uint32_t port = topo_find(t, held.port);
	const struct pcicap_acs *acs = &topo_at(t, port)->fn->facts->cap.acs;
	bool clear = acs->cap & TOPO_ACS_TB && !(acs->ctl & TOPO_ACS_TB);
	struct plan_acs_want want[TREE_NODES * TREE_NODES];
	struct arena arena = { 0 };
	struct error err = ERROR_INIT;
	uint16_t ctl[TREE_NODES], *base = plan_acs_base(t, &held, clear ? 1 : 0, &arena);
	struct plan_acs *p = NULL;

	for (size_t i = 0; i < now->npairs; i++)
		want[i] = (struct plan_acs_want){ now->pair[i].nic, now->pair[i].gpu };
	assert_int_equal(plan_acs_make(&p, t, base, want, now->npairs, &err), 0);
	for (size_t i = 0; i < now->npairs; i++)
		if (now->pair[i].ats != HOST_UNKNOWN) /* else what blocks translated requests makes it unknown, too */
			assert_int_equal(is_direct(&p->pair[i]), is_direct(&now->pair[i]));
	words(ctl, t, p, 0);
	assert_true(pairs_are_direct(t, p, ctl));
	for (size_t skip = 0; skip < p->nwrites; skip++) { /* as if nobody else held it, and this one step were not */
		memcpy(ctl, base, topo_count(t) * sizeof(*ctl));
		for (size_t i = 0; i < p->nwrites; i++)
			if (i != skip)
				ctl[topo_find(t, p->write[i].port)] = p->write[i].to;
		assert_false(pairs_are_direct(t, p, ctl));
	}
	plan_acs_free(p);
	arena_done(&arena);
}

static void minimal_on_invented_trees(void **state)
{
	const char *n = getenv("ACS_SEEDS");
	uint64_t seeds = n ? strtoull(n, NULL, 10) : 100000, planned = 0, several = 0;

	(void)state;
	for (uint64_t seed = 0; seed < seeds; seed++) {
		uint16_t ctl[TREE_NODES];
		struct error err = ERROR_INIT;
		struct plan_acs *p = NULL;
		struct tree x;
		struct topo *t = tree_make(&x, seed);

		assert_int_equal(plan_acs_all(&p, t, &err), 0);
		words(ctl, t, p, 0);
		only_these_bits(p);
		assert_true(pairs_are_direct(t, p, ctl));
		untranslated_as_before(t, ctl, &x);
		planned += p->nwrites > 0;
		several += p->nwrites > 1;
		for (unsigned skip = 1; p->nwrites && p->nwrites <= 6 && skip < 1u << p->nwrites; skip++) {
			words(ctl, t, p, skip);
			if (pairs_are_direct(t, p, ctl))
				fail_msg("seed %llu: writes 0x%x of %zu are not needed", (unsigned long long)seed, skip, p->nwrites);
		}
		impossible_is_impossible(t, p, ctl);
		from_base(t, p, &x);
		plan_acs_free(p);
		topo_unref(t);
	}
	assert_true(planned > seeds / 50 && several > seeds / 500);
}

static const struct plan_acs_pair *pair_of(const struct plan_acs *p, const char *gpu, enum topo_class path)
{
	for (size_t i = 0; i < p->npairs; i++)
		if (bdf_eq(p->pair[i].gpu, test_bdf(gpu)) && p->pair[i].path == path)
			return &p->pair[i];
	fail_msg("no pair of %s at %s", gpu, topo_class_text(path));
	return NULL;
}

/* The published machine has ATS off in its NICs' firmware: no register write helps, and the plan says what does. */
static void xe9680_wants_ats(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	const struct plan_acs_pair *pair;
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;

	(void)state;
	assert_int_equal(plan_acs_all(&p, t, &err), 0);
	assert_int_equal(p->nwrites, 0);
	assert_string_equal(p->boot, "");
	pair = pair_of(p, "0000:4c:00.0", TOPO_PIX);
	assert_int_equal(pair->state, PLAN_ACS_IMPOSSIBLE);
	assert_int_equal(pair->then, TOPO_REDIRECTED);
	assert_non_null(strstr(pair->why, "no ATS capability"));
	assert_non_null(strstr(pair->fix, "mlxconfig"));
	plan_acs_free(p);
	topo_unref(t);
}

/* The same machine with ATS on: DT at the eight (or ten) NICs' ports, nothing else. */
static void xe9680_with_ats(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;

	(void)state;
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (topo_at(t, i)->fn->facts->kind == HOST_NIC)
			((struct host_facts *)topo_at(t, i)->fn->facts)->cap.ats.known = HOST_PRESENT;
	assert_int_equal(plan_acs_all(&p, t, &err), 0);
	assert_int_equal(pair_of(p, "0000:4c:00.0", TOPO_PIX)->state, PLAN_ACS_PLANNED);
	assert_int_equal(p->nwrites, 10); /* 8 ports with a ConnectX-7, 2 with a dual-port ConnectX-6 */
	for (size_t i = 0; i < p->nwrites; i++) {
		assert_int_equal(p->write[i].from, 0x1d);
		assert_int_equal(p->write[i].to, 0x5d);
		assert_int_equal(topo_at(t, test_at(t, "0000:4c:00.0"))->fn->facts->is_vf, false);
	}
	assert_int_equal(strncmp(p->boot, "pci=config_acs=1011101@", 23), 0);
	plan_acs_free(p);
	topo_unref(t);
}

/* DirectNIC (GB300): the ports of each GPU and data-direct function are set up for them, and the NICs' own way, which
 * crosses root ports, needs nothing. */
static void data_direct_needs_no_writes(void **state)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct plan_acs *p = NULL;
	struct topo *t;

	(void)state;
	assert_int_equal(host_root_open_text(&root, TEST_SOURCE "/tests/hosts/rdma-topo-direct-nic/rdma_topo.json", &err), 0);
	t = test_topo_of(root);
	host_root_close(root);
	assert_int_equal(plan_acs_all(&p, t, &err), 0);
	assert_int_equal(p->npairs, 4);
	for (size_t i = 0; i < p->npairs; i++) {
		assert_int_equal(topo_at(t, topo_find(t, p->pair[i].nic))->fn->facts->kind, HOST_DATA_DIRECT);
		assert_int_equal(p->pair[i].path, TOPO_PXB);
		assert_int_equal(p->pair[i].state, PLAN_ACS_DIRECT);
	}
	assert_int_equal(p->nwrites, 0);
	plan_acs_free(p);
	topo_unref(t);
}

static void wrong_functions_are_named(void **state)
{
	static const struct {
		const char *nic, *gpu, *says;
		int         r;
	} bad[] = { { "0000:ff:00.0", "0000:4c:00.0", "ff:00.0", -ENOENT },
		    { "0000:4c:00.0", "0000:4c:00.0", "not a NIC, VF or data-direct function", -EINVAL },
		    { "0000:1a:00.0", "0000:1a:00.0", "not a GPU", -EINVAL } };
	struct topo *t = test_topo_host("xe9680");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct plan_acs_want want = { test_bdf(bad[i].nic), test_bdf(bad[i].gpu) };
		struct error err = ERROR_INIT;
		struct plan_acs *p = NULL;

		assert_int_equal(plan_acs_make(&p, t, NULL, &want, 1, &err), bad[i].r);
		assert_non_null(strstr(err.text, bad[i].says));
		assert_null(p);
	}
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(minimal_on_invented_trees), cmocka_unit_test(xe9680_wants_ats),
		cmocka_unit_test(xe9680_with_ats),           cmocka_unit_test(wrong_functions_are_named),
		cmocka_unit_test(data_direct_needs_no_writes),
	};

	return cmocka_run_group_tests_name("acs", tests, NULL, NULL);
}
