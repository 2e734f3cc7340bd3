/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builds the graph: parents by BDF, children in BDF order, the nearest switch above each function. The
 * result is checked in full before anyone sees it, and never changes after that. */
#include "topo/topo.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strtab.h"
#include "host/inventory.h"

struct topo {
	atomic_uint       refs;
	uint64_t          generation;
	struct inventory *inv; /* owned */
	struct topo_node *node;
	uint32_t          n;
	struct arena      arena;
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

static int link_parents(struct topo *t)
{
	int r = 0;

	for (uint32_t i = 0; i < t->n && r == 0; i++) {
		struct topo_node *node = &t->node[i];

		node->fn = &t->inv->fn[i];
		node->parent = bdf_is_none(node->fn->facts->parent) ? TOPO_NONE : topo_find(t, node->fn->facts->parent);
		if (node->parent == TOPO_NONE && !bdf_is_none(node->fn->facts->parent))
			r = host_finding_add(t->inv, "topo.parent-missing", node->fn->bdf,
					     "the bridge above it is not among the PCI functions");
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
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t up = t->node[i].parent;

		while (up != TOPO_NONE && !is_switch_top(t, &t->node[up]))
			up = t->node[up].parent;
		t->node[i].usp = up;
	}
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
	r = link_parents(t);
	if (r == 0)
		r = cut_loops(t);
	if (r < 0) {
		t->inv = NULL; /* still the caller's */
		return error_set(err, r, "no memory for a topology");
	}
	settle(t);
	verify(t);
	*ret = steal(t);
	return 0;
}

/* ---- path classes ------------------------------------------------------------------------------- */

static uint32_t common_bridge(const struct topo *t, uint32_t a, uint32_t b)
{
	while (a != b) {
		if (t->node[a].depth < t->node[b].depth) {
			uint32_t swap = a;

			a = b;
			b = swap;
		}
		a = t->node[a].parent;
		if (a == TOPO_NONE)
			return TOPO_NONE;
	}
	return a;
}

/* Switches above i, as far up as `top` or, without it, as what is below it. */
static unsigned switches_up(const struct topo *t, uint32_t i, uint32_t top, bool with_top)
{
	unsigned n = 0;

	for (i = t->node[i].usp; i != TOPO_NONE && t->node[i].depth > t->node[top].depth; i = t->node[i].usp)
		n++;
	return n + (with_top && i == top);
}

static enum topo_class across_hosts(const struct topo *t, const struct host_function *a, const struct host_function *b)
{
	int na = a->facts->numa_node, nb = b->facts->numa_node;

	if (t->inv->nnodes == 1) /* -1 is what firmware without SRAT says; with one node there is no other */
		return TOPO_NODE;
	if (na < 0 || nb < 0)
		return TOPO_UNKNOWN;
	return na == nb ? TOPO_NODE : TOPO_SYS;
}

enum topo_class topo_path(const struct topo *t, uint32_t a, uint32_t b)
{
	const struct topo_node *na = topo_at(t, a), *nb = topo_at(t, b);
	uint32_t top;

	if (a == b)
		return TOPO_SELF;
	top = common_bridge(t, a, b);
	if (top == TOPO_NONE) {
		if (!*na->fn->facts->root_bus || !*nb->fn->facts->root_bus)
			return TOPO_UNKNOWN;
		if (strcmp(na->fn->facts->root_bus, nb->fn->facts->root_bus) == 0)
			return TOPO_PHB;
		return across_hosts(t, na->fn, nb->fn);
	}
	if (top == a || top == b || (na->parent == top && nb->parent == top))
		return TOPO_PIX; /* one bridge, or a bridge and what is below it */
	return switches_up(t, a, top, true) + switches_up(t, b, top, false) <= 1 ? TOPO_PIX : TOPO_PXB;
}
