/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builds the graph: parents by BDF, children in BDF order, the nearest switch above each function, rails; and
 * says which links are trained down. The result is checked in full before anyone sees it, and never changes
 * after that. */
#include "topo/topo.h"

#include <assert.h>
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strtab.h"
#include "host/inventory.h"
#include "topo/isolation.h"
#include "topo/missing.h"
#include "topo/path.h"
#include "topo/rail.h"

struct topo {
	atomic_uint       refs;
	uint64_t          generation;
	struct inventory *inv; /* owned */
	struct topo_node *node;
	uint32_t          n;
	struct arena      arena;
	struct topo      *graph; /* a reference: whose nodes these are; NULL: its own */
};

static const char *const class_names[TOPO_CLASS_MAX_] = {
	[TOPO_SELF] = "X",     [TOPO_PIX] = "PIX", [TOPO_PXB] = "PXB",     [TOPO_PHB] = "PHB",
	[TOPO_NODE] = "NODE", [TOPO_SYS] = "SYS", [TOPO_UNKNOWN] = "?",
};

const char *topo_class_text(enum topo_class c)
{
	return strtab_text(class_names, TOPO_CLASS_MAX_, (int)c);
}

int topo_class_parse(const char *text)
{
	int c = strtab_find(class_names, TOPO_CLASS_MAX_, text);

	return c >= TOPO_PIX && c <= TOPO_SYS ? c : -1;
}

struct topo *topo_ref(struct topo *t)
{
	atomic_fetch_add(&t->refs, 1);
	return t;
}

struct topo *topo_unref(struct topo *t)
{
	if (t && atomic_fetch_sub(&t->refs, 1) == 1) {
		host_inventory_free(t->inv);
		arena_done(&t->arena);
		topo_unref(t->graph);
		free(t);
	}
	return NULL;
}

void topo_number(struct topo *t, uint64_t generation)
{
	assert(t->refs == 1);
	t->generation = generation;
}

uint64_t topo_generation(const struct topo *t)
{
	return t->generation;
}

const struct inventory *topo_inventory(const struct topo *t)
{
	return t->inv;
}

size_t topo_count(const struct topo *t)
{
	return t->n;
}

const struct topo_node *topo_at(const struct topo *t, uint32_t i)
{
	assert(i < t->n);
	return &t->node[i];
}

uint32_t topo_find(const struct topo *t, struct bdf bdf)
{
	const struct host_function *fn = host_function_find(t->inv, bdf);

	return fn ? (uint32_t)(fn - t->inv->fn) : TOPO_NONE;
}

#define DEPTH_MAX 256 /* a PCI domain has 256 buses, so no chain of bridges is longer */

static bool has_no_bus(const struct host_facts *f)
{
	return pcicap_answers(&f->cap) && f->cap.header == PCI_HEADER_TYPE_NORMAL;
}

static int link_parents(struct topo *t)
{
	char name[BDF_TEXT_MAX];
	int r = 0;

	for (uint32_t i = 0; i < t->n && r == 0; i++) {
		struct topo_node *node = &t->node[i];

		node->fn = &t->inv->fn[i];
		node->parent = bdf_is_none(node->fn->facts->parent) ? TOPO_NONE : topo_find(t, node->fn->facts->parent);
		if (node->parent == TOPO_NONE && !bdf_is_none(node->fn->facts->parent)) {
			r = host_finding_add(t->inv, "topo.parent-missing", node->fn->bdf,
					     "the bridge above it is not among the PCI functions");
		} else if (node->parent != TOPO_NONE && has_no_bus(t->inv->fn[node->parent].facts)) {
			r = host_finding_add(t->inv, "topo.parent-no-bridge", node->fn->bdf,
					     "what stands above it in sysfs, %s, has a header without a bus below it",
					     bdf_text(name, node->fn->facts->parent));
			node->parent = TOPO_NONE;
		}
	}
	return r;
}

/* A hostile tree must not make a loop: whoever's chain of parents does not end is cut off. */
static int cut_loops(struct topo *t)
{
	int r = 0;

	for (uint32_t i = 0; i < t->n && r == 0; i++) {
		uint32_t up = t->node[i].parent;

		for (unsigned steps = 0; up != TOPO_NONE && steps < DEPTH_MAX; steps++)
			up = t->node[up].parent;
		if (up == TOPO_NONE)
			continue;
		t->node[i].parent = TOPO_NONE;
		r = host_finding_add(t->inv, "topo.parent-loop", t->node[i].fn->bdf,
				     "the bridges above it form a loop, or a chain longer than %d", DEPTH_MAX);
	}
	return r;
}

/* The top of a switch. Without its PCIe capability (config space is for root only beyond 64 bytes) the shape
 * tells: below a root port, ports come as upstream, downstream, upstream, ... (PCIe 1.3.3), and only an
 * upstream port has bridges below it on an odd level; a bridge to conventional PCI has none. */
static bool is_switch_top(const struct topo *t, const struct topo_node *node)
{
	if (node->fn->facts->kind == HOST_USP)
		return true;
	if (node->fn->facts->cap.pcie != HOST_UNKNOWN || !host_kind_is_bridge(node->fn->facts->kind) || node->depth % 2 == 0)
		return false;
	for (uint32_t c = node->first_child; c != TOPO_NONE; c = t->node[c].next_sibling)
		if (host_kind_is_bridge(t->node[c].fn->facts->kind))
			return true;
	return false;
}

/* Each bridge looks through its children once, however many there are. */
static bool find_switches(struct topo *t)
{
	autofree bool *top = calloc(t->n + 1, sizeof(*top));

	for (uint32_t i = 0; top && i < t->n; i++)
		top[i] = is_switch_top(t, &t->node[i]);
	for (uint32_t i = 0; top && i < t->n; i++) {
		uint32_t up = t->node[i].parent;

		while (up != TOPO_NONE && !top[up])
			up = t->node[up].parent;
		t->node[i].usp = up;
	}
	return top != NULL;
}

static void settle(struct topo *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		t->node[i].first_child = t->node[i].next_sibling = TOPO_NONE;
	for (uint32_t i = t->n; i-- > 0;) { /* backwards, so that lists come out in BDF order */
		struct topo_node *node = &t->node[i];

		if (node->parent == TOPO_NONE)
			continue;
		node->next_sibling = t->node[node->parent].first_child;
		t->node[node->parent].first_child = i;
	}
	for (uint32_t i = 0; i < t->n; i++)
		for (uint32_t up = t->node[i].parent; up != TOPO_NONE; up = t->node[up].parent)
			t->node[i].depth++;
}

/* Lists of the groups' functions, from a table by their numbers: twice as large as it is full, and a number that is met with goes to the
 * next place that is free. */
static bool index_groups(struct topo *t)
{
	size_t size = 64;
	autofree uint32_t *last = NULL; /* of each group so far, + 1 */

	while (size < 2 * (size_t)t->n)
		size *= 2;
	last = calloc(size, sizeof(*last));
	for (uint32_t i = 0; last && i < t->n; i++) {
		struct topo_node *node = &t->node[i];
		int group = node->fn->iommu_group;
		size_t at = (uint32_t)group * 2654435761u & (size - 1); /* Knuth's multiplier */

		node->group_first = node->group_next = TOPO_NONE;
		if (group < 0)
			continue;
		while (last[at] && t->node[last[at] - 1].fn->iommu_group != group)
			at = (at + 1) & (size - 1);
		node->group_first = last[at] ? t->node[last[at] - 1].group_first : i;
		if (last[at])
			t->node[last[at] - 1].group_next = i;
		last[at] = i + 1;
	}
	return last;
}

static void verify(const struct topo *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct topo_node *node = &t->node[i];

		assert(i == 0 || bdf_cmp(t->node[i - 1].fn->bdf, node->fn->bdf) < 0);
		assert(node->parent == TOPO_NONE || node->parent < t->n);
		assert(node->depth == (node->parent == TOPO_NONE ? 0 : t->node[node->parent].depth + 1));
		for (uint32_t c = node->first_child; c != TOPO_NONE; c = t->node[c].next_sibling)
			assert(t->node[c].parent == i);
	}
}

static int build(struct topo *t)
{
	int r = link_parents(t);

	if (r == 0)
		r = cut_loops(t);
	if (r < 0)
		return r;
	settle(t);
	if (!find_switches(t) || !index_groups(t))
		return -ENOMEM;
	r = topo_links_check(t, t->inv);
	if (r == 0)
		r = topo_groups_check(t, t->inv);
	if (r == 0)
		r = topo_missing_check(t, t->inv);
	return r < 0 ? r : topo_rails_set(t, t->node);
}

int topo_build(struct topo **ret, struct inventory *inv, uint64_t generation, struct error *err)
{
	auto_(topo_unref) struct topo *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return error_set(err, -ENOMEM, "no memory for a topology");
	t->refs = 1;
	t->generation = generation;
	t->n = (uint32_t)inv->nfn;
	t->node = arena_array(&t->arena, inv->nfn, sizeof(*t->node));
	if (!t->node)
		return error_set(err, -ENOMEM, "no memory for a topology of %zu functions", inv->nfn);
	t->inv = inv;
	r = build(t);
	if (r < 0) {
		t->inv = NULL; /* still the caller's */
		return error_set(err, r, "no memory for a topology");
	}
	verify(t);
	*ret = steal(t);
	return 0;
}

static bool same_nodes(const struct inventory *a, const struct inventory *b)
{
	bool same = a->nnodes == b->nnodes;

	for (size_t i = 0; same && i < a->nnodes; i++)
		same = a->node[i].id == b->node[i].id && a->node[i].cpus_known == b->node[i].cpus_known && memcmp(&a->node[i].cpus, &b->node[i].cpus, sizeof(a->node[i].cpus)) == 0 &&
		       memcmp(a->node[i].distance, b->node[i].distance, sizeof(a->node[i].distance)) == 0;
	return same;
}

/* What the topology itself has found. */
static int copy_findings(struct inventory *inv, const struct inventory *old)
{
	int r = 0;

	for (size_t i = old->nread; i < old->nfindings && r == 0; i++)
		r = host_finding_add(inv, old->finding[i].id, old->finding[i].bdf, "%s", old->finding[i].text);
	return r;
}

int topo_build_upon(struct topo **ret, const struct topo *old, struct inventory *inv, struct error *err)
{
	auto_(topo_unref) struct topo *t = NULL;

	if (!inv->memory_only || inv->fn != old->inv->fn || inv->nfn != old->inv->nfn || !same_nodes(inv, old->inv))
		return topo_build(ret, inv, old->generation, err);
	t = calloc(1, sizeof(*t));
	if (!t || copy_findings(inv, old->inv) < 0)
		return error_set(err, -ENOMEM, "no memory for a topology");
	t->refs = 1;
	t->generation = old->generation;
	t->inv = inv;
	t->n = old->n;
	t->node = old->node;
	t->graph = topo_ref(old->graph ? old->graph : (struct topo *)old); /* its reference is no part of what never changes */
	*ret = steal(t);
	return 0;
}
