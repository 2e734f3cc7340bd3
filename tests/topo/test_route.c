/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routes: invented trees with random ACS against a naive oracle, and the cases that people know by heart. */
#include "topo/route.h"

#include "trees.h"

/* ---- the oracle: two lists from the root, and what stands at the place where they part ----------------- */

struct list {
	int      node[TREE_NODES];
	unsigned n;
};

static struct list from_root(const struct tree *x, int i)
{
	struct list up = { 0 }, down = { 0 };

	for (; i >= 0; i = x->parent[i])
		up.node[up.n++] = i;
	while (up.n)
		down.node[down.n++] = up.node[--up.n];
	return down;
}

static bool has(const struct tree *x, int i, unsigned bit)
{
	return x->facts[i]->cap.acs.known == HOST_PRESENT && x->facts[i]->cap.acs.ctl & bit;
}

/* What bit n of i's Egress Control Vector is: 1, 0, or u not known. */
static char egress_bit(const struct tree *x, int i, int n)
{
	if (n < 0 || n >= x->egress[i])
		return 'u';
	return x->vector[i][n / 8] & 1 << n % 8 ? '1' : '0';
}

/* Which bit of a function's vector is that of another function of its device; -1 unknown. */
static int bit_of_function(const struct tree *x, int i, int to)
{
	unsigned first = x->bdf[i].bus, number = x->bdf[to].devfn;
	int zero = -1;

	if (x->facts[i]->cap.ari == HOST_UNKNOWN || !x->egress[i])
		return -1;
	if (x->facts[i]->cap.ari == HOST_ABSENT)
		return x->bdf[to].bus == first && number >> 3 == x->bdf[i].devfn >> 3 ? (int)(number & 7) : -1;
	for (int k = 0; k < (int)x->n; k++)
		if (x->bdf[k].bus == first && x->bdf[k].devfn == 0)
			zero = k;
	if (zero < 0 || x->group[zero] < 0)
		return -1;
	return x->grouped[zero] ? x->group[to] : (int)number % x->egress[i];
}

/* d straight, r to the root, b refused, u not known; by the letter of 6.12.1.1 and table 6-11, the bits written out.
 * named: the bit of the vector for where it would go. */
static char turned(const struct tree *x, int i, struct topo_tlp tlp, char named)
{
	const struct pcicap_acs *acs = &x->facts[i]->cap.acs;

	if (acs->known == HOST_PRESENT && !(acs->cap & 0x04)) /* no RR: no peer-to-peer, but what DT lets through */
		return tlp.type != TOPO_COMPLETION && tlp.translated && has(x, i, 0x40) ? 'd' : 'r';
	if (tlp.type == TOPO_COMPLETION)
		return has(x, i, 0x08) && !tlp.relaxed ? 'r' : 'd';
	if (has(x, i, 0x40) && tlp.translated)
		return 'd';
	if (!has(x, i, 0x20))
		return has(x, i, 0x04) ? 'r' : 'd';
	if (named == 'u')
		return 'u';
	if (named == '0')
		return 'd';
	return has(x, i, 0x04) ? 'r' : 'b';
}

/* Entering a bridge from below: 0 goes on, else the end. */
static char entering(const struct tree *x, int i, int a, struct topo_tlp tlp)
{
	const struct pcicap *cap = &x->facts[i]->cap;

	if (x->shape[i] == BLIND)
		return 'u';
	if (x->shape[i] != RP && x->shape[i] != DSP)
		return 0;
	if (cap->acs.known == HOST_UNKNOWN)
		return 'u';
	if (tlp.type != TOPO_COMPLETION && has(x, i, 0x01) && (x->bdf[a].bus < cap->secondary || x->bdf[a].bus > cap->subordinate))
		return 'b';
	return tlp.type != TOPO_COMPLETION && has(x, i, 0x02) && tlp.translated ? 'b' : 0;
}

static bool known_platform(const struct tree *x, int a, int b)
{
	const char *bus = x->facts[a]->root_bus;

	if (strstr(x->inv->cpu_model, "Xeon") || strstr(x->inv->cpu_model, "EPYC"))
		return true;
	return x->bridge >= 0 && x->facts[x->bridge]->device == 0x2f00 && strcmp(bus, x->facts[b]->root_bus) == 0 &&
	       strcmp(bus, x->facts[x->bridge]->root_bus) == 0;
}

static char between_roots(const struct tree *x, int ra, int rb, struct topo_tlp tlp)
{
	bool one = strcmp(x->facts[ra]->root_bus, x->facts[rb]->root_bus) == 0;
	char way = turned(x, ra, tlp, one ? egress_bit(x, ra, x->port[rb]) : 'u');
	bool request = tlp.type != TOPO_COMPLETION;

	if (x->shape[ra] != RP || x->shape[rb] != RP || x->facts[ra]->cap.acs.known == HOST_ABSENT || way == 'u')
		return 'u';
	if (request && way == 'd' && !has(x, ra, 0x40))
		return 'u';
	if (request && way == 'd' && !tlp.translated)
		return 'u';
	if (way == 'b')
		return 'b';
	return known_platform(x, ra, rb) ? way : 'u';
}

/* Where the lists part, among functions of one device. */
static char between_functions(const struct tree *x, int fa, int fb, struct topo_tlp tlp)
{
	int pf = x->owner[fa];
	const struct pcicap_acs *acs = &x->facts[pf]->cap.acs;

	if (acs->known == HOST_UNKNOWN)
		return 'u';
	if (acs->known == HOST_ABSENT)
		return pf == x->owner[fb] ? 'r' : 'u';
	if (!(acs->cap & 0x6c))
		return 'r';
	return turned(x, pf, tlp, pf == fa ? egress_bit(x, pf, bit_of_function(x, pf, fb)) : 'u');
}

static char oracle(const struct tree *x, int a, int b, struct topo_tlp tlp)
{
	struct list la = from_root(x, a), lb = from_root(x, b);
	unsigned part = 0;
	char way;

	while (la.node[part] == lb.node[part])
		part++;
	for (unsigned i = la.n - 1; i-- > part;)
		if ((way = entering(x, la.node[i], a, tlp)))
			return way;
	if (part == 0)
		return between_roots(x, la.node[0], lb.node[0], tlp);
	if (x->shape[la.node[part - 1]] == PCI)
		return 'd';
	if (x->shape[la.node[part]] == DSP)
		way = turned(x, la.node[part], tlp, egress_bit(x, la.node[part], x->port[lb.node[part]]));
	else if (x->shape[la.node[part - 1]] == USP || x->shape[la.node[part - 1]] == BLIND)
		return 'u'; /* an unreadable port, or below one */
	else
		way = between_functions(x, la.node[part], lb.node[part], tlp);
	if (way != 'r')
		return way;
	for (unsigned i = part; i-- > 0;) { /* back up */
		if ((way = entering(x, la.node[i], a, tlp)))
			return way;
		if (x->shape[la.node[i]] == DSP && !has(x, la.node[i], 0x10))
			return 'b';
	}
	return has(x, la.node[0], 0x10) && known_platform(x, a, b) ? 'r' : 'u';
}

static void one_tree(uint64_t seed)
{
	static const struct topo_tlp tlps[] = { { TOPO_WRITE, false, false }, { TOPO_WRITE, true, false }, { TOPO_READ, true, false },
						{ TOPO_COMPLETION, false, false }, { TOPO_COMPLETION, false, true } };
	static const char letter[] = "drbu";
	struct tree x;
	struct topo *t = tree_make(&x, seed);

	for (unsigned k = 0; k < 12; k++) {
		int a = (int)tree_random(&x, x.n), b = (int)tree_random(&x, x.n);

		if (x.shape[a] != END || x.shape[b] != END || a == b)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(tlps); i++) {
			char want = oracle(&x, a, b, tlps[i]), ta[BDF_TEXT_MAX], tb[BDF_TEXT_MAX];
			struct topo_route r;

			topo_route(&r, t, NULL, topo_find(t, x.bdf[a]), topo_find(t, x.bdf[b]), tlps[i]);
			if (letter[r.verdict] != want)
				fail_msg("seed %llu, %s to %s, TLP %zu: %s by rule %s, the oracle says %c", (unsigned long long)seed,
					 bdf_text(ta, x.bdf[a]), bdf_text(tb, x.bdf[b]), i, topo_verdict_text(r.verdict),
					 topo_rule_id(r.rule), want);
			assert_true(r.verdict != TOPO_REDIRECTED || (r.iommu && r.turn != TOPO_NONE));
			assert_true(r.verdict != TOPO_DIRECT || !r.iommu);
		}
	}
	topo_unref(t);
}

static void equals_the_oracle(void **state)
{
	const char *n = getenv("ROUTE_SEEDS");
	uint64_t seeds = n ? strtoull(n, NULL, 10) : 100000;

	(void)state;
	for (uint64_t seed = 0; seed < seeds; seed++)
		one_tree(seed);
}

/* Every verdict and every rule that a tree can have occurs, or the test above proves little. */
static void oracle_sees_everything(void **state)
{
	bool rule[TOPO_RULE_MAX_] = { false };

	(void)state;
	for (uint64_t seed = 0; seed < 3000; seed++) {
		struct tree x;
		struct topo *t = tree_make(&x, seed);

		for (uint32_t a = 0; a < topo_count(t); a++)
			for (unsigned k = 0; k < 3; k++) {
				struct topo_tlp tlp = { (enum topo_tlp_type)tree_random(&x, 3), tree_random(&x, 2), tree_random(&x, 2) };
				struct topo_route r;

				topo_route(&r, t, NULL, a, tree_random(&x, topo_count(t)), tlp);
				for (size_t p = 0; p < r.nports; p++)
					rule[r.port[p].rule] = true;
				rule[r.rule] = true;
			}
		topo_unref(t);
	}
	for (int r = 0; r < TOPO_RULE_MAX_; r++)
		if (!rule[r] && r != TOPO_RULE_ATS) /* that one is topo/gdr's */
			fail_msg("no tree met rule %s", topo_rule_id((enum topo_rule)r));
}

/* ---- a real machine ------------------------------------------------------------------------------------ */

static struct topo_route route(struct topo *t, const uint16_t *ctl, const char *a, const char *b, struct topo_tlp tlp)
{
	struct topo_route r;

	topo_route(&r, t, ctl, test_at(t, a), test_at(t, b), tlp);
	return r;
}

/* The XE9680 as Linux sets it up: SV RR CR UF on every port, no DT. GPU 4c:00.0 and NIC 4b:00.0 below one switch. */
static void xe9680_needs_direct_translated(void **state)
{
	const struct topo_tlp write = { TOPO_WRITE, true, false };
	struct topo *t = test_topo_host("xe9680");
	uint32_t gpu = test_at(t, "0000:4c:00.0"), nic = TOPO_NONE;
	uint16_t *ctl = calloc(topo_count(t), sizeof(*ctl));
	char name[BDF_TEXT_MAX];
	struct topo_route r;

	(void)state;
	for (uint32_t i = 0; i < topo_count(t); i++) {
		ctl[i] = topo_at(t, i)->fn->facts->cap.acs.ctl;
		if (topo_at(t, i)->fn->facts->kind == HOST_NIC && topo_path(t, i, gpu) == TOPO_PIX)
			nic = i;
	}
	assert_int_not_equal(nic, TOPO_NONE);
	(void)bdf_text(name, topo_at(t, nic)->fn->bdf);
	r = route(t, ctl, name, "0000:4c:00.0", write);
	assert_int_equal(r.verdict, TOPO_REDIRECTED);
	assert_int_equal(r.rule, TOPO_RULE_RR);
	assert_int_equal(r.decided, topo_at(t, nic)->parent);
	assert_int_equal(topo_at(t, r.turn)->fn->facts->kind, HOST_ROOT_PORT);
	ctl[r.decided] |= TOPO_ACS_DT; /* the whole remedy */
	r = route(t, ctl, name, "0000:4c:00.0", write);
	assert_int_equal(r.verdict, TOPO_DIRECT);
	assert_int_equal(r.rule, TOPO_RULE_DT);
	assert_int_equal(r.nports, 2); /* the NIC's port and the GPU's */
	r = route(t, ctl, name, "0000:4c:00.0", (struct topo_tlp){ TOPO_WRITE, false, false });
	assert_int_equal(r.verdict, TOPO_REDIRECTED); /* nothing untranslated comes through */
	r = route(t, ctl, "0000:4c:00.0", name, (struct topo_tlp){ TOPO_COMPLETION, false, true });
	assert_int_equal(r.rule, TOPO_RULE_RO);
	r = route(t, ctl, "0000:4c:00.0", name, (struct topo_tlp){ TOPO_COMPLETION, false, false });
	assert_int_equal(r.rule, TOPO_RULE_CR);
	ctl[topo_at(t, nic)->parent] |= TOPO_ACS_TB; /* folklore's 0x7f */
	r = route(t, ctl, name, "0000:4c:00.0", write);
	assert_int_equal(r.verdict, TOPO_BLOCKED);
	free(ctl);
	topo_unref(t);
}

/* The same two functions: across their switch they have their own links, by way of the root complex its link as well,
 * here at half speed. Several NUMA nodes may be one socket. */
static void bandwidth_of_the_way_taken(void **state)
{
	const struct topo_tlp ordered = { TOPO_COMPLETION, false, false }, relaxed = { TOPO_COMPLETION, false, true };
	const char *gpu = "0000:4c:00.0", *nic = "0000:4d:00.0", *far = "0000:9b:00.0";
	struct topo *t = test_topo_host("xe9680");
	uint32_t a = test_at(t, gpu), b = test_at(t, nic), c = test_at(t, far);
	struct host_cpus *cpus = &((struct inventory *)topo_inventory(t))->system.cpus;
	struct topo_route r;

	(void)state;
	for (uint32_t i = a; i != TOPO_NONE; i = topo_at(t, i)->parent)
		if (topo_at(t, i)->fn->facts->kind == HOST_ROOT_PORT)
			((struct host_facts *)topo_at(t, i)->fn->facts)->link_now.speed = 4;
	r = route(t, NULL, gpu, nic, relaxed);
	assert_string_equal(topo_route_through(&r, t, a, b), "switch");
	assert_int_equal(topo_route_bandwidth(&r, t, a, b), 63015384615);
	r = route(t, NULL, gpu, nic, ordered);
	assert_string_equal(topo_route_through(&r, t, a, b), "root-complex");
	assert_int_equal(topo_route_bandwidth(&r, t, a, b), 31507692307);
	r = route(t, NULL, gpu, far, ordered);
	assert_string_equal(topo_route_through(&r, t, a, c), "sockets");
	assert_int_equal(topo_route_bandwidth(&r, t, a, c), 31507692307);
	cpus->npackages = 1;
	assert_string_equal(topo_route_through(&r, t, a, c), "root-complex");
	cpus->npackages = 0;
	assert_null(topo_route_through(&r, t, a, c));
	((struct host_facts *)topo_at(t, b)->fn->facts)->link_now.width = 0;
	((struct host_facts *)topo_at(t, topo_at(t, b)->parent)->fn->facts)->link_now.width = 0;
	r = route(t, NULL, gpu, nic, relaxed);
	assert_int_equal(topo_route_bandwidth(&r, t, a, b), 0);
	r.verdict = TOPO_BLOCKED;
	assert_null(topo_route_through(&r, t, a, b));
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_oracle),
		cmocka_unit_test(oracle_sees_everything),
		cmocka_unit_test(xe9680_needs_direct_translated),
		cmocka_unit_test(bandwidth_of_the_way_taken),
	};

	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
