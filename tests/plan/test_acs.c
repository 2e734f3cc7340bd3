/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ACS plans: on invented trees, wanted pairs become direct with no write too many and no untranslated route
 * changed; on real machines, what operators are told. */
#include "plan/acs.h"

#include <unistd.h>

#include "topo/group.h"
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
		topo_gdr(&g, t, ctl, topo_gdr_ats(t, topo_find(t, p->pair[i].nic)), topo_find(t, p->pair[i].nic), topo_find(t, p->pair[i].gpu));
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
		topo_gdr(&g, t, ctl, topo_gdr_ats(t, topo_find(t, p->pair[i].nic)), topo_find(t, p->pair[i].nic), topo_find(t, p->pair[i].gpu));
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

		assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
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

/* ---- the kernel argument -------------------------------------------------------------------------------- */

/* What the kernel makes of it: pci_enable_acs() ORs its default onto firmware's word, which we take to be the live one
 * without DT, and then __pci_config_acs() writes what the argument says of a device. skip: entries as if they were not. */
static void booted(uint16_t *ctl, const struct topo *t, const char *arg, unsigned skip)
{
	unsigned entry = 0;

	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct pcicap_acs *acs = &topo_at(t, i)->fn->facts->cap.acs;

		ctl[i] = (uint16_t)((acs->ctl | (acs->cap & 0x1d)) & ~0x40);
	}
	if (!*arg)
		return;
	assert_int_equal(strncmp(arg, "pci=config_acs=", 15), 0);
	for (const char *p = arg + 15; *p; entry++) {
		char flags[8], bdf[BDF_TEXT_MAX];
		int n = 0;

		assert_int_equal(sscanf(p, "%7[01]@%19[0-9a-f:.]%n", flags, bdf, &n), 2);
		assert_true(strlen(flags) == 7 && (p[n] == ';' || !p[n]));
		assert_int_not_equal(topo_find(t, test_bdf(bdf)), TOPO_NONE);
		if (!(skip >> entry & 1))
			ctl[topo_find(t, test_bdf(bdf))] = (uint16_t)strtoul(flags, NULL, 2);
		p += n + (p[n] == ';');
	}
}

/* pci_acs_enabled(), drivers/pci/pci.c; what nobody could read is taken to isolate. */
static bool kernel_isolates(const struct topo *t, const uint16_t *ctl, uint32_t i)
{
	const struct host_facts *f = topo_at(t, i)->fn->facts;
	bool port = f->kind == HOST_ROOT_PORT || f->kind == HOST_DSP;

	if (f->cap.pcie != HOST_PRESENT)
		return true;
	if (f->cap.type == PCICAP_TO_PCI)
		return false;
	if (!port && !f->cap.multifunction)
		return true;
	if (f->cap.acs.known != HOST_PRESENT)
		return f->cap.acs.known == HOST_UNKNOWN;
	for (unsigned bit = 0; bit < 5; bit++) /* SV, RR, CR, UF; missing ones are hard-wired */
		if (bit != 1 && f->cap.acs.cap >> bit & 1 && !(ctl[i] >> bit & 1))
			return false;
	return true;
}

/* pci_device_group(), function by function in the order of discovery, with the groups that are there by then. */
static void kernel_groups(int *group, const struct topo *t, const uint16_t *ctl)
{
	int next = 0;

	for (uint32_t i = 0; i < topo_count(t); i++) {
		uint32_t dev = i, bus = topo_at(t, i)->parent;

		group[i] = -1;
		for (uint32_t up = bus; up != TOPO_NONE && group[i] < 0; up = topo_at(t, up)->parent)
			if (topo_at(t, up)->fn->facts->cap.type == PCICAP_TO_PCI) /* an alias */
				group[i] = group[up];
		for (; bus != TOPO_NONE && group[i] < 0; bus = topo_at(t, bus)->parent) {
			bool whole = true;

			for (uint32_t up = bus; up != TOPO_NONE; up = topo_at(t, up)->parent)
				whole = whole && kernel_isolates(t, ctl, up);
			if (whole)
				break;
			dev = bus;
			group[i] = group[dev];
		}
		for (uint32_t k = 0; k < i && group[i] < 0; k++)
			if (topo_at(t, dev)->fn->facts->cap.multifunction && !kernel_isolates(t, ctl, dev) && !kernel_isolates(t, ctl, k) &&
			    topo_at(t, k)->parent == topo_at(t, dev)->parent && !topo_at(t, k)->fn->facts->is_vf &&
			    bdf_same_device(topo_at(t, k)->fn->bdf, topo_at(t, dev)->fn->bdf))
				group[i] = group[k];
		if (group[i] < 0)
			group[i] = next++;
	}
}

static bool is_endpoint(const struct topo *t, uint32_t i)
{
	return !host_kind_is_bridge(topo_at(t, i)->fn->facts->kind);
}

static enum topo_verdict untranslated(const struct topo *t, const uint16_t *ctl, uint32_t a, uint32_t b, enum topo_tlp_type type)
{
	struct topo_route r;

	topo_route(&r, t, ctl, a, b, (struct topo_tlp){ .type = type });
	return r.verdict;
}

/* Whether a untranslated request of a reaches b as it would not without the argument, or by a port that it opens. */
static bool opened(const struct topo *t, const uint16_t *base, const uint16_t *ctl, uint32_t a, uint32_t b)
{
	struct topo_route r;

	topo_route(&r, t, ctl, a, b, (struct topo_tlp){ .type = TOPO_WRITE });
	return r.verdict == TOPO_DIRECT && (untranslated(t, base, a, b, TOPO_WRITE) != TOPO_DIRECT ||
					    base[r.decided] & (uint16_t)~ctl[r.decided] & 0x04);
}

/* By the argument nothing reaches a function of another group without the IOMMU. */
static bool keeps_apart(const struct topo *t, const uint16_t *base, const uint16_t *ctl)
{
	int group[TREE_NODES];

	kernel_groups(group, t, ctl);
	for (uint32_t a = 0; a < topo_count(t); a++)
		for (uint32_t b = 0; b < topo_count(t); b++)
			if (a != b && is_endpoint(t, a) && is_endpoint(t, b) && group[a] != group[b] && opened(t, base, ctl, a, b))
				return false;
	return true;
}

/* Every pair that is to be direct is, and where requests are let across untranslated, their answers are in any order. */
static bool keeps_promise(const struct topo *t, const struct plan_acs *p, const uint16_t *base, const uint16_t *ctl)
{
	for (size_t i = 0; i < p->npairs; i++) {
		uint32_t nic = topo_find(t, p->pair[i].nic), gpu = topo_find(t, p->pair[i].gpu);
		const struct topo_route *ask;
		struct topo_gdr g;

		topo_gdr(&g, t, ctl, topo_gdr_ats(t, nic), nic, gpu);
		ask = &g.part[TOPO_GDR_READ];
		if (p->pair[i].boot != TOPO_DIRECT)
			continue;
		if (g.part[g.worst].verdict != TOPO_DIRECT)
			return false;
		if (ask->rule != TOPO_RULE_DT && base[ask->decided] & (uint16_t)~ctl[ask->decided] & 0x04 &&
		    untranslated(t, ctl, gpu, nic, TOPO_COMPLETION) != TOPO_DIRECT)
			return false;
	}
	return keeps_apart(t, base, ctl);
}

/* Groups with more than one endpoint that only the argument makes. */
static void shared_is_true(const struct topo *t, const struct plan_acs *p, const uint16_t *base, const uint16_t *ctl)
{
	int with[TREE_NODES], without[TREE_NODES];
	size_t members = 0;

	kernel_groups(with, t, ctl);
	kernel_groups(without, t, base);
	for (size_t s = 0; s < p->nshared; s++)
		for (size_t k = 0; k < p->shared[s].n; k++)
			assert_int_equal(with[topo_find(t, p->shared[s].fn[k])], with[topo_find(t, p->shared[s].fn[0])]);
	for (uint32_t i = 0; i < topo_count(t); i++) {
		bool listed = false, grew = false;

		if (!is_endpoint(t, i) || topo_at(t, i)->fn->facts->is_vf)
			continue;
		for (size_t s = 0; s < p->nshared; s++)
			listed = listed || bdf_in(p->shared[s].fn, p->shared[s].n, topo_at(t, i)->fn->bdf);
		for (uint32_t a = 0; a < topo_count(t); a++)
			grew = grew || (with[a] == with[i] && without[a] != without[i] && is_endpoint(t, a) && !topo_at(t, a)->fn->facts->is_vf);
		assert_int_equal(listed, grew);
		members += listed;
	}
	for (size_t s = 0; s < p->nshared; s++)
		members -= p->shared[s].n;
	assert_int_equal(members, 0);
}

/* Leaving out any entries, or one bit of one, breaks the promise. */
static void nothing_too_much(const struct topo *t, const struct plan_acs *p, const uint16_t *base, const uint16_t *all, uint64_t seed)
{
	uint16_t ctl[TREE_NODES];

	for (unsigned skip = 1; p->nboot <= 6 && skip < 1u << p->nboot; skip++) {
		booted(ctl, t, p->boot, skip);
		if (keeps_promise(t, p, base, ctl))
			fail_msg("seed %llu: %s is longer than needed by 0x%x", (unsigned long long)seed, p->boot, skip);
	}
	for (uint32_t i = 0; i < topo_count(t); i++)
		for (unsigned bit = 1; bit < 0x80; bit <<= 1) {
			if (!((base[i] ^ all[i]) & bit) || bit & 0x22)
				continue;
			memcpy(ctl, all, topo_count(t) * sizeof(*ctl));
			ctl[i] ^= (uint16_t)bit;
			if (keeps_promise(t, p, base, ctl))
				fail_msg("seed %llu: bit 0x%x of node %u in %s is not needed", (unsigned long long)seed, bit, i, p->boot);
		}
}

static void words_are_legal(const struct plan_acs *p)
{
	for (size_t i = 0; i < p->nboot; i++) {
		assert_int_equal(p->at_boot[i].to & (uint16_t)~p->at_boot[i].cap, 0);
		assert_int_equal(p->at_boot[i].to & (TOPO_ACS_TB | TOPO_ACS_EC), 0);
		assert_int_equal(p->at_boot[i].regroups, (p->at_boot[i].to & p->at_boot[i].cap & 0x1d) != (p->at_boot[i].cap & 0x1d));
	}
}

struct boot_counts {
	uint64_t named, opened, several;
};

static void boot_on_a_tree(struct boot_counts *n, struct topo *t, uint64_t seed, bool exclusive)
{
	uint16_t base[TREE_NODES], ctl[TREE_NODES];
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;
	bool may = exclusive;

	assert_int_equal(plan_acs_all(&p, t, exclusive, &err), 0);
	booted(base, t, "", 0);
	booted(ctl, t, p->boot, 0);
	words_are_legal(p);
	for (size_t i = 0; i < p->nboot; i++)
		assert_int_equal(ctl[topo_find(t, p->at_boot[i].port)], p->at_boot[i].to);
	if (!keeps_promise(t, p, base, ctl))
		fail_msg("seed %llu: %s does not do what it should", (unsigned long long)seed, p->boot);
	shared_is_true(t, p, base, ctl);
	for (size_t i = 0; i < p->npairs; i++) {
		may = may || topo_at(t, topo_find(t, p->pair[i].nic))->fn->facts->kind == HOST_DATA_DIRECT;
		assert_true(p->pair[i].state != PLAN_ACS_BOOT || p->pair[i].boot == TOPO_DIRECT);
	}
	assert_true(may || !p->nshared);
	nothing_too_much(t, p, base, ctl, seed);
	n->named += p->nboot > 0;
	n->several += p->nboot > 3;
	n->opened += p->nshared > 0;
	plan_acs_free(p);
}

/* Some NICs are data-direct functions. */
static void argument_on_invented_trees(void **state)
{
	const char *n = getenv("ACS_SEEDS");
	uint64_t seeds = n ? strtoull(n, NULL, 10) : 100000;
	struct boot_counts plain = { 0 }, exclusive = { 0 };

	(void)state;
	for (uint64_t seed = 0; seed < seeds; seed++) {
		uint32_t group[TREE_NODES];
		int kernel[TREE_NODES];
		uint16_t ctl[TREE_NODES];
		struct tree x;
		struct topo *t = tree_make(&x, seed);

		for (unsigned i = 0; i < x.n; i++)
			if (x.facts[i]->kind == HOST_NIC && tree_random(&x, 3) == 0)
				x.facts[i]->kind = HOST_DATA_DIRECT;
		words(ctl, t, &(struct plan_acs){ 0 }, 0);
		topo_groups(group, t, NULL);
		kernel_groups(kernel, t, ctl);
		for (uint32_t i = 0; i < topo_count(t); i++)
			assert_int_equal(kernel[i], kernel[group[i]]);
		boot_on_a_tree(&plain, t, seed, false);
		boot_on_a_tree(&exclusive, t, seed, true);
		topo_unref(t);
	}
	assert_true(plain.named > seeds / 20 && plain.opened > seeds / 500);
	assert_true(exclusive.opened > plain.opened && exclusive.several > seeds / 500);
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
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
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
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
	assert_int_equal(pair_of(p, "0000:4c:00.0", TOPO_PIX)->state, PLAN_ACS_PLANNED);
	assert_int_equal(p->nwrites, 10); /* 8 ports with a ConnectX-7, 2 with a dual-port ConnectX-6 */
	for (size_t i = 0; i < p->nwrites; i++) {
		assert_int_equal(p->write[i].from, 0x1d);
		assert_int_equal(p->write[i].to, 0x5d);
		assert_int_equal(topo_at(t, test_at(t, "0000:4c:00.0"))->fn->facts->is_vf, false);
	}
	assert_int_equal(strncmp(p->boot, "pci=config_acs=1011101@", 23), 0);
	assert_int_equal(p->nboot, 10);
	assert_int_equal(p->nshared, 0);
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
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
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

static const struct plan_acs_boot *at_boot(const struct plan_acs *p, const char *port)
{
	for (size_t i = 0; i < p->nboot; i++)
		if (bdf_eq(p->at_boot[i].port, test_bdf(port)))
			return &p->at_boot[i];
	return NULL;
}

static struct topo *direct_nic(void)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct topo *t;

	assert_int_equal(host_root_open_text(&root, TEST_SOURCE "/tests/hosts/rdma-topo-direct-nic/rdma_topo.json", &err), 0);
	t = test_topo_of(root);
	host_root_close(root);
	return t;
}

/* Its argument is what rdma_topo (rdma-core, kernel-boot) writes for the same machine, with the bits said that it leaves:
 * xx111x0 for the root port, xx110x1 above the DMA function, xx101x1 towards the GPU; all else is the kernel's default. */
static void data_direct_as_rdma_topo(void **state)
{
	static const char *const root[] = { "0000:00:00.0", "0002:00:00.0", "0004:00:00.0", "0006:00:00.0" };
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;
	struct topo *t = direct_nic();

	(void)state;
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
	assert_int_equal(p->nboot, 12);
	assert_int_equal(p->nshared, 4);
	for (size_t i = 0; i < 4; i++) {
		char dma[BDF_TEXT_MAX], gpu[BDF_TEXT_MAX];

		(void)snprintf(dma, sizeof(dma), "%.5s02:00.0", root[i]);
		(void)snprintf(gpu, sizeof(gpu), "%.5s02:03.0", root[i]);
		assert_int_equal(at_boot(p, root[i])->to, 0x1c);
		assert_int_equal(at_boot(p, dma)->to, 0x19);
		assert_int_equal(at_boot(p, gpu)->to, 0x15);
		assert_true(at_boot(p, root[i])->regroups && at_boot(p, dma)->regroups && at_boot(p, gpu)->regroups);
		assert_int_equal(p->shared[i].n, 2);
	}
	assert_non_null(strstr(p->boot, "pci=config_acs=0011100@0000:00:00.0;0011001@0000:02:00.0;0010101@0000:02:03.0;"));
	plan_acs_free(p);
	topo_unref(t);
}

/* The ports as the kernel sets them: nothing that is written at run time makes it direct, the argument does. */
static void data_direct_needs_a_boot(void **state)
{
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;
	struct topo *t = direct_nic();

	(void)state;
	for (uint32_t i = 0; i < topo_count(t); i++) {
		struct host_facts *f = (struct host_facts *)topo_at(t, i)->fn->facts;

		f->cap.acs.ctl |= f->cap.acs.cap & 0x1d;
		f->cap.ats.known = HOST_ABSENT;
	}
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
	assert_int_equal(p->nwrites, 0);
	for (size_t i = 0; i < p->npairs; i++) {
		assert_int_equal(p->pair[i].now, TOPO_REDIRECTED);
		assert_int_equal(p->pair[i].state, PLAN_ACS_BOOT);
		assert_non_null(strstr(p->pair[i].fix, "for one tenant only"));
	}
	assert_int_equal(p->nboot, 12);
	plan_acs_free(p);
	topo_unref(t);
}

/* As sh reads it, so that GRUB gets one word in quotes: a bare semicolon would end its command. */
static void grub_file_is_one_word(void **state)
{
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;
	struct topo *t = direct_nic();
	char name[] = "/tmp/velad-grub-XXXXXX", command[128], line[2048] = "";
	int fd = mkstemp(name);
	FILE *f;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
	assert_int_equal(write(fd, p->grub, strlen(p->grub)), strlen(p->grub));
	assert_int_equal(close(fd), 0);
	(void)snprintf(command, sizeof(command), "GRUB_CMDLINE_LINUX=quiet; . %s && printf %%s \"$GRUB_CMDLINE_LINUX\"", name);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_int_equal(pclose(f), 0);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(strncmp(line, "quiet \"pci=config_acs=", 22), 0);
	assert_int_equal(strlen(line), strlen(p->boot) + strlen("quiet \"\""));
	assert_int_equal(strncmp(line + 7, p->boot, strlen(p->boot)), 0);
	plan_acs_free(p);
	topo_unref(t);
}

/* One tenant has the whole of a machine whose NICs have no ATS: redirects are cleared below each common switch, and what is
 * there becomes one group. Below different root ports nothing helps. */
static void exclusive_host(void **state)
{
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;
	struct topo *t = test_topo_host("xe9680");

	(void)state;
	assert_int_equal(plan_acs_all(&p, t, true, &err), 0);
	assert_int_equal(pair_of(p, "0000:4c:00.0", TOPO_PIX)->state, PLAN_ACS_BOOT);
	assert_int_equal(p->nwrites, 0);
	assert_int_equal(at_boot(p, "0000:48:01.0")->to, 0x1c); /* the root port: SV */
	assert_int_equal(at_boot(p, "0000:4a:01.0")->to, 0x15); /* towards the GPU: CR */
	assert_int_equal(at_boot(p, "0000:4a:02.0")->to, 0x19); /* above the NIC: RR */
	assert_int_equal(p->nshared, 8);
	assert_non_null(strstr(p->warning, "has no config_acs=, which came with 6.11")); /* it runs 6.8 */
	plan_acs_free(p);
	topo_unref(t);

	t = test_topo_host("l40s-4u"); /* two of its GPUs are on other root ports than the NIC, which has ATS */
	assert_int_equal(plan_acs_all(&p, t, true, &err), 0);
	assert_int_equal(pair_of(p, "0000:3d:00.0", TOPO_PIX)->state, PLAN_ACS_PLANNED);
	assert_int_equal(pair_of(p, "0000:5b:00.0", TOPO_NODE)->state, PLAN_ACS_IMPOSSIBLE);
	assert_string_equal(pair_of(p, "0000:5b:00.0", TOPO_NODE)->through, "root-complex");
	assert_non_null(strstr(pair_of(p, "0000:5b:00.0", TOPO_NODE)->why, "different root ports"));
	assert_int_equal(pair_of(p, "0000:bb:00.0", TOPO_PIX)->state, PLAN_ACS_BOOT);
	plan_acs_free(p);
	topo_unref(t);
}

/* Inline: the GPU is behind a switch of its own below the NIC's (MI300X). One port, Direct Translated P2P, no regrouping. */
static void inline_switch(void **state)
{
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;
	struct topo *t = test_topo_host("mi300x-8gpu-cx7-inline");

	(void)state;
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
	assert_int_equal(p->nboot, 8);
	assert_int_equal(p->nshared, 0);
	for (size_t i = 0; i < p->nboot; i++)
		assert_true(p->at_boot[i].to == 0x5d && !p->at_boot[i].regroups);
	plan_acs_free(p);
	topo_unref(t);
}

/* Cascaded switches: each pair's port is the one where it turns, whichever switch that is of. */
static void cascaded_switches(void **state)
{
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL;
	struct topo *t = test_topo_host("cascade");

	(void)state;
	assert_int_equal(plan_acs_all(&p, t, true, &err), 0);
	assert_int_equal(at_boot(p, "0000:12:01.0")->to, 0x5d);
	assert_int_equal(at_boot(p, "0000:12:02.0")->to, 0x5d);
	assert_int_equal(at_boot(p, "0000:16:01.0")->to, 0x5d);
	assert_int_equal(pair_of(p, "0000:31:00.0", TOPO_PHB)->state, PLAN_ACS_IMPOSSIBLE);
	assert_int_equal(pair_of(p, "0000:83:00.0", TOPO_PIX)->state, PLAN_ACS_DIRECT); /* its switch has no ACS at all */
	assert_null(strstr(p->warning, "only the first device"));                       /* it runs 6.12.48 */
	assert_true(host_kernel_config_acs_mended("6.12.23") && host_kernel_config_acs_mended("6.15.0-rc1") && host_kernel_config_acs_mended("7.0"));
	assert_false(host_kernel_config_acs_mended("6.12.22") || host_kernel_config_acs_mended("6.14.0-24-generic") || host_kernel_config_acs_mended("6.11"));
	plan_acs_free(p);
	topo_unref(t);
}

/* The same words of firmware and kernel give other words when the argument is there already. */
static void booted_with_it(void **state)
{
	struct error err = ERROR_INIT;
	struct plan_acs *p = NULL, *again = NULL;
	struct topo *t = test_topo_host("mi300x-8gpu-cx7-inline");
	struct inventory *inv = (struct inventory *)topo_inventory(t);

	(void)state;
	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
	assert_false(p->booted);
	inv->cmdline = arena_printf(&inv->arena, "quiet %s ro", p->boot);
	inv->kernel = "6.16.3";
	assert_int_equal(plan_acs_all(&again, t, false, &err), 0);
	assert_true(again->booted);
	assert_string_equal(again->warning, "");
	plan_acs_free(again);
	inv->cmdline = "pci=config_acs=1xxxxxx@0000:06:00.0";
	assert_int_equal(plan_acs_all(&again, t, false, &err), 0);
	assert_false(again->booted);
	assert_non_null(strstr(again->warning, "another config_acs="));
	plan_acs_free(again);
	plan_acs_free(p);
	topo_unref(t);
}

/* Pairs of functions that a host's kernel put into one group, and topo/group would not, or the other way round. */
static unsigned groups_differ(const char *host)
{
	struct topo *t = test_topo_host(host);
	uint32_t *group = calloc(topo_count(t), sizeof(*group));
	unsigned n = 0;

	topo_groups(group, t, NULL);
	for (uint32_t a = 0; a < topo_count(t); a++)
		for (uint32_t b = 0; b < a; b++) {
			int ga = topo_at(t, a)->fn->iommu_group, gb = topo_at(t, b)->fn->iommu_group;

			n += ga >= 0 && gb >= 0 && (ga == gb) != (group[a] == group[b]);
		}
	free(group);
	topo_unref(t);
	return n;
}

/* The last is a real kernel's, which sets two ports of the PCH apart with what is below them, and the functions of an 82599,
 * although they have no ACS: quirks (drivers/pci/quirks.c). */
static void groups_of_hosts(void **state)
{
	static const char *const hosts[] = { "xe9680", "cascade", "snc4", "l40s-4u", "dgx-a100", "h20-genoa-pex890xx", "hgx-b200-8gpu",
					     "mi300x-8gpu-cx7-inline", "gb200-oci-4gpu" };

	(void)state;
	for (size_t h = 0; h < ARRAY_SIZE(hosts); h++)
		assert_int_equal(groups_differ(hosts[h]), 0);
	assert_int_equal(groups_differ("hpe-gen9-sriov"), 10);
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
		cmocka_unit_test(data_direct_needs_no_writes), cmocka_unit_test(data_direct_as_rdma_topo),
		cmocka_unit_test(data_direct_needs_a_boot),  cmocka_unit_test(grub_file_is_one_word),
		cmocka_unit_test(exclusive_host),            cmocka_unit_test(inline_switch),
		cmocka_unit_test(cascaded_switches),         cmocka_unit_test(booted_with_it),
		cmocka_unit_test(groups_of_hosts),           cmocka_unit_test(argument_on_invented_trees),
	};

	return cmocka_run_group_tests_name("acs", tests, NULL, NULL);
}
