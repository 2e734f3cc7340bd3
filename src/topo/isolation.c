/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Isolation means that untranslated requests pass the root complex; and that the kernel's IOMMU groups, which it
 * formed once from the ACS bits of that moment (drivers/iommu/iommu.c), say no more than that. */
#include "topo/isolation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "host/inventory.h"

static bool is_endpoint(const struct topo *t, uint32_t i)
{
	return !host_kind_is_bridge(topo_at(t, i)->fn->facts->kind) && topo_at(t, i)->parent != TOPO_NONE;
}

static bool leaks(const struct topo *t, const uint16_t *ctl, uint32_t from, uint32_t to, struct topo_leak *leak)
{
	struct topo_route r;

	topo_route(&r, t, ctl, from, to, (struct topo_tlp){ .type = TOPO_WRITE });
	*leak = (struct topo_leak){ from, to, r.verdict == TOPO_DIRECT, r.rule, r.decided };
	return r.verdict == TOPO_DIRECT || (r.verdict == TOPO_UNDECIDED && !r.iommu);
}

static bool in_set(const uint32_t *set, size_t n, uint32_t i)
{
	while (n && set[n - 1] != i)
		n--;
	return n;
}

/* VFs of one PF with the same bus number, which Source Validation looks at, below another bridge than m: what is on the way between
 * m and one of them is on the way between m and the other. */
static bool are_alike(const struct topo_node *m, const struct topo_node *a, const struct topo_node *b)
{
	return a->fn->facts == b->fn->facts && a->parent == b->parent && a->fn->bdf.bus == b->fn->bdf.bus &&
	       a->fn->bdf.domain == b->fn->bdf.domain && m->parent != a->parent;
}

size_t topo_leaks(struct topo_leak *ret, size_t most, const struct topo *t, const uint16_t *ctl, const uint32_t *set,
		  size_t n)
{
	const struct topo_node *node = n ? topo_at(t, 0) : NULL;
	size_t found = 0;

	for (size_t m = 0; m < n; m++) {
		struct topo_leak there, back;
		uint32_t last = TOPO_NONE; /* of which they are */
		bool goes = false, comes = false;

		for (uint32_t i = 0; i < topo_count(t); i++) {
			if (!is_endpoint(t, i) || in_set(set, n, i))
				continue;
			if (last == TOPO_NONE || !are_alike(&node[set[m]], &node[last], &node[i])) {
				goes = leaks(t, ctl, set[m], i, &there);
				comes = leaks(t, ctl, i, set[m], &back);
			}
			there.to = back.from = last = i;
			if (goes && found++ < most)
				ret[found - 1] = there;
			if (comes && found++ < most)
				ret[found - 1] = back;
		}
	}
	return found;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

/* For each function: an endpoint at or below it, and for each bus (by the bridge above it) the endpoints below two
 * of its children whose groups differ. So every child has a peer of another group without a search. */
struct reps {
	uint32_t *endpoint, *first, *second; /* TOPO_NONE: there is none */
};

static int group_of(const struct topo *t, uint32_t i)
{
	return topo_at(t, i)->fn->iommu_group;
}

static void find_endpoints(const struct topo *t, struct reps *r)
{
	for (uint32_t i = 0; i < topo_count(t); i++)
		r->endpoint[i] = r->first[i] = r->second[i] = TOPO_NONE;
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (is_endpoint(t, i) && group_of(t, i) >= 0)
			for (uint32_t up = i; up != TOPO_NONE && r->endpoint[up] == TOPO_NONE; up = topo_at(t, up)->parent)
				r->endpoint[up] = i;
	for (uint32_t i = 0; i < topo_count(t); i++) {
		uint32_t bus = topo_at(t, i)->parent, e = r->endpoint[i];

		if (bus == TOPO_NONE || e == TOPO_NONE)
			continue;
		if (r->first[bus] == TOPO_NONE)
			r->first[bus] = e;
		else if (r->second[bus] == TOPO_NONE && group_of(t, e) != group_of(t, r->first[bus]))
			r->second[bus] = e;
	}
}

static bool leaks_to(const struct topo *t, uint32_t from, uint32_t to, struct topo_leak *leak)
{
	return to != TOPO_NONE && group_of(t, from) != group_of(t, to) && leaks(t, NULL, from, to, leak) && leak->certain;
}

/* The route from below c to a sibling of another group should pass the root complex. One sibling is as good as another,
 * but where Egress Control tells them apart. */
static bool leaks_across(const struct topo *t, const struct reps *reps, uint32_t c, struct topo_leak *leak)
{
	uint32_t bus = topo_at(t, c)->parent, from = reps->endpoint[c];

	if (from == TOPO_NONE)
		return false;
	if (!(topo_at(t, c)->fn->facts->cap.acs.ctl & TOPO_ACS_EC))
		return leaks_to(t, from, reps->first[bus], leak) || leaks_to(t, from, reps->second[bus], leak);
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (topo_at(t, i)->parent == bus && leaks_to(t, from, reps->endpoint[i], leak))
			return true;
	return false;
}

static int check_claim(const struct topo *t, struct inventory *inv, const struct reps *reps, uint32_t c)
{
	char a[BDF_TEXT_MAX], b[BDF_TEXT_MAX], port[BDF_TEXT_MAX], ctl[20] = "";
	struct topo_leak leak;
	uint32_t from, to, at;

	if (!leaks_across(t, reps, c, &leak))
		return 0;
	from = leak.from;
	to = leak.to;
	at = leak.decided != TOPO_NONE ? leak.decided : c;
	if (topo_at(t, at)->fn->facts->cap.acs.known == HOST_PRESENT)
		(void)snprintf(ctl, sizeof(ctl), ", ACSCtl 0x%02x,", topo_at(t, at)->fn->facts->cap.acs.ctl);
	return host_finding_add(inv, "group.claims-more", topo_at(t, c)->fn->bdf,
				"a request of %s (IOMMU group %d) for %s (group %d) does not pass the IOMMU: at %s%s it %s; "
				"give them to one tenant only, or set ACS by pci=config_acs= and reboot",
				bdf_text(a, topo_at(t, from)->fn->bdf), group_of(t, from), bdf_text(b, topo_at(t, to)->fn->bdf),
				group_of(t, to), bdf_text(port, topo_at(t, at)->fn->bdf), ctl, topo_rule_text(leak.rule));
}

static int check_claims(const struct topo *t, struct inventory *inv)
{
	struct arena arena = { 0 };
	struct reps reps = { .endpoint = arena_array(&arena, topo_count(t), sizeof(uint32_t)),
			     .first = arena_array(&arena, topo_count(t), sizeof(uint32_t)),
			     .second = arena_array(&arena, topo_count(t), sizeof(uint32_t)) };
	int r = reps.endpoint && reps.first && reps.second ? 0 : -ENOMEM;

	if (r == 0)
		find_endpoints(t, &reps);
	for (uint32_t i = 0; i < topo_count(t) && r == 0; i++)
		if (topo_at(t, i)->parent != TOPO_NONE && !topo_at(t, i)->fn->facts->is_vf)
			r = check_claim(t, inv, &reps, i);
	arena_done(&arena);
	return r;
}

struct member {
	int      group;
	uint32_t node;
};

static int by_group(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return x->group != y->group ? (x->group > y->group) - (x->group < y->group) : (x->node > y->node) - (x->node < y->node);
}

/* Both ways through the IOMMU, whatever the group says. */
static bool apart(const struct topo *t, uint32_t a, uint32_t b)
{
	struct topo_route there, back;

	topo_route(&there, t, NULL, a, b, (struct topo_tlp){ .type = TOPO_WRITE });
	topo_route(&back, t, NULL, b, a, (struct topo_tlp){ .type = TOPO_WRITE });
	return there.verdict == TOPO_REDIRECTED && back.verdict == TOPO_REDIRECTED;
}

/* Endpoints of one group, side by side in the list, that today's bits keep apart. VFs are never alone in theirs. */
static int check_coarse(const struct topo *t, struct inventory *inv, const struct member *m, size_t n)
{
	char a[BDF_TEXT_MAX];

	for (size_t i = 1; i < n; i++)
		if (!apart(t, m[0].node, m[i].node))
			return 0;
	return host_finding_add(inv, "group.coarse", topo_at(t, m[0].node)->fn->bdf,
				"IOMMU group %d holds it together with %s and %zu more, though today's ACS bits keep all of them "
				"apart: the group was formed from other bits; reboot to form it anew", m[0].group,
				bdf_text(a, topo_at(t, m[1].node)->fn->bdf), n - 2);
}

static int check_groups(const struct topo *t, struct inventory *inv)
{
	autofree struct member *m = calloc(topo_count(t) + 1, sizeof(*m));
	size_t n = 0, from = 0;
	int r = m ? 0 : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < topo_count(t); i++)
		if (is_endpoint(t, i) && !topo_at(t, i)->fn->facts->is_vf && group_of(t, i) >= 0)
			m[n++] = (struct member){ group_of(t, i), i };
	if (n)
		qsort(m, n, sizeof(*m), by_group);
	for (size_t i = 1; r == 0 && i <= n; i++) {
		if (i < n && m[i].group == m[from].group)
			continue;
		if (i - from > 1)
			r = check_coarse(t, inv, &m[from], i - from);
		from = i;
	}
	return r;
}

int topo_groups_check(const struct topo *t, struct inventory *inv)
{
	int r = check_claims(t, inv);

	return r < 0 ? r : check_groups(t, inv);
}
