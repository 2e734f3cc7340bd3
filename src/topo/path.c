/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paths are walked from both ends up to the lowest bridge above both, or to the host bridges. */
#include "topo/path.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "host/inventory.h"

static uint32_t common_bridge(const struct topo *t, uint32_t a, uint32_t b)
{
	while (a != b) {
		if (topo_at(t, a)->depth < topo_at(t, b)->depth) {
			uint32_t swap = a;

			a = b;
			b = swap;
		}
		a = topo_at(t, a)->parent;
		if (a == TOPO_NONE)
			return TOPO_NONE;
	}
	return a;
}

/* Switches above i, as far up as `top` or, without it, as what is below it. */
static unsigned switches_up(const struct topo *t, uint32_t i, uint32_t top, bool with_top)
{
	unsigned n = 0;

	for (i = topo_at(t, i)->usp; i != TOPO_NONE && topo_at(t, i)->depth > topo_at(t, top)->depth; i = topo_at(t, i)->usp)
		n++;
	return n + (with_top && i == top);
}

static enum topo_class across_hosts(const struct topo *t, const struct host_function *a, const struct host_function *b)
{
	int na = a->facts->numa_node, nb = b->facts->numa_node;

	if (topo_inventory(t)->nnodes == 1) /* -1 is what firmware without SRAT says; with one node there is no other */
		return TOPO_NODE;
	if (na < 0 || nb < 0)
		return TOPO_UNKNOWN;
	return na == nb ? TOPO_NODE : TOPO_SYS;
}

static enum topo_class class_of(const struct topo *t, uint32_t a, uint32_t b, uint32_t top)
{
	const struct topo_node *na = topo_at(t, a), *nb = topo_at(t, b);

	if (a == b)
		return TOPO_SELF;
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

enum topo_class topo_path(const struct topo *t, uint32_t a, uint32_t b)
{
	return class_of(t, a, b, common_bridge(t, a, b));
}

/* ---- the walk ----------------------------------------------------------------------------------- */

static uint32_t device_of(const struct topo *t, uint32_t i) /* its PF, which has a device number */
{
	const struct host_facts *f = topo_at(t, i)->fn->facts;
	uint32_t pf = f->is_vf ? topo_find(t, f->pf) : TOPO_NONE;

	return pf == TOPO_NONE ? i : pf;
}

static bool same_device(const struct topo *t, uint32_t a, uint32_t b)
{
	uint32_t da = device_of(t, a), db = device_of(t, b);

	return topo_at(t, da)->parent == topo_at(t, db)->parent && bdf_same_device(topo_at(t, da)->fn->bdf, topo_at(t, db)->fn->bdf);
}

/* How function i and the bridge above it are joined. */
static void join_up(const struct topo *t, struct topo_hop *hop, uint32_t i)
{
	const struct topo_node *n = topo_at(t, i);

	if (topo_link_above(t, &hop->link, i))
		hop->via = TOPO_VIA_LINK;
	else
		hop->via = n->usp != TOPO_NONE && n->usp == n->parent ? TOPO_VIA_SWITCH : TOPO_VIA_BUS;
}

static struct topo_hop hop_of(const struct topo *t, uint32_t node)
{
	return (struct topo_hop){ .node = node, .root_bus = "", .numa_node = topo_at(t, node)->fn->facts->numa_node };
}

static struct topo_hop *hop_add(struct topo_walk *w, const struct topo *t, uint32_t node)
{
	w->hop[w->n] = hop_of(t, node);
	return &w->hop[w->n++];
}

/* From a up to what is below top; what stands at the end leads on by `via` of the caller's. */
static void add_up(struct topo_walk *w, const struct topo *t, uint32_t a, uint32_t top)
{
	for (; a != top && a != TOPO_NONE; a = topo_at(t, a)->parent)
		join_up(t, hop_add(w, t, a), a);
}

/* From what is below top down to b. */
static void add_down(struct topo_walk *w, const struct topo *t, uint32_t b, uint32_t top)
{
	size_t first = w->n, at;

	for (uint32_t i = b; i != top && i != TOPO_NONE; i = topo_at(t, i)->parent)
		w->n++;
	at = w->n;
	for (uint32_t i = b; i != top && i != TOPO_NONE; i = topo_at(t, i)->parent)
		w->hop[--at] = hop_of(t, i);
	for (at = first ? first : 1; at < w->n; at++) /* what is above it leads to it */
		join_up(t, &w->hop[at - 1], w->hop[at].node);
}

/* Up, over a bridge, and down. Inside a switch it goes from one downstream port to the other: the upstream
 * port is passed only by what leaves the switch. */
static void walk_below(struct topo_walk *w, const struct topo *t, uint32_t a, uint32_t b, uint32_t top)
{
	bool inside = top != a && top != b && topo_at(t, a)->usp != TOPO_NONE;
	size_t turn;

	add_up(w, t, a, top);
	turn = w->n;
	inside = inside && turn && topo_at(t, w->hop[turn - 1].node)->usp == top;
	if (!inside)
		(void)hop_add(w, t, top);
	else
		w->hop[turn - 1].via = TOPO_VIA_SWITCH;
	add_down(w, t, b, top);
}

static void add_host_bridge(struct topo_walk *w, const struct topo *t, uint32_t i, enum topo_via via)
{
	struct topo_hop *hop = hop_add(w, t, i); /* its NUMA node is that of what is below */

	hop->node = TOPO_NONE;
	hop->root_bus = topo_at(t, i)->fn->facts->root_bus;
	hop->via = via;
}

static void walk_roots(struct topo_walk *w, const struct topo *t, uint32_t a, uint32_t b)
{
	enum topo_via across = w->class == TOPO_NODE ? TOPO_VIA_ROOT : w->class == TOPO_SYS ? TOPO_VIA_NODES : TOPO_VIA_UNKNOWN;
	size_t before;

	w->root = true;
	add_up(w, t, a, TOPO_NONE);
	w->hop[w->n - 1].via = TOPO_VIA_ROOT;
	add_host_bridge(w, t, a, w->class == TOPO_PHB ? TOPO_VIA_ROOT : across);
	if (w->class != TOPO_PHB)
		add_host_bridge(w, t, b, TOPO_VIA_ROOT);
	before = w->n;
	add_down(w, t, b, TOPO_NONE);
	w->hop[before - 1].via = TOPO_VIA_ROOT;
}

static void measure(struct topo_walk *w)
{
	bool known = true, known_most = true;

	w->narrowest = w->n;
	for (size_t i = 0; i < w->n; i++) {
		uint64_t now = topo_link_bandwidth(w->hop[i].link.now), most = topo_link_bandwidth(w->hop[i].link.most);

		known = known && w->hop[i].via != TOPO_VIA_BUS;
		if (w->hop[i].via != TOPO_VIA_LINK)
			continue;
		known = known && now;
		known_most = known_most && most;
		if (now && (!w->bandwidth || now < w->bandwidth)) {
			w->bandwidth = now;
			w->narrowest = i;
		}
		if (most && (!w->most || most < w->most))
			w->most = most;
	}
	if (!known) {
		w->bandwidth = 0;
		w->narrowest = w->n;
	}
	if (!known || !known_most)
		w->most = 0;
}

/* least, or less: what the links from i up to below top carry. 0: one is not known. */
static uint64_t least_up(const struct topo *t, uint32_t i, uint32_t top, uint64_t least)
{
	for (; i != top && topo_at(t, i)->parent != TOPO_NONE; i = topo_at(t, i)->parent) {
		struct topo_hop hop;
		uint64_t now;

		join_up(t, &hop, i);
		if (hop.via == TOPO_VIA_BUS)
			return 0;
		now = hop.via == TOPO_VIA_LINK ? topo_link_bandwidth(hop.link.now) : least;
		least = now < least ? now : least;
	}
	return least;
}

uint64_t topo_path_bandwidth(const struct topo *t, uint32_t a, uint32_t b, bool root)
{
	uint32_t top = root ? TOPO_NONE : common_bridge(t, a, b);
	uint64_t least;

	if (!root && same_device(t, a, b))
		return 0;
	least = least_up(t, b, top, least_up(t, a, top, UINT64_MAX));
	return least == UINT64_MAX ? 0 : least;
}

static int distance(const struct inventory *inv, int a, int b)
{
	const struct host_node *na = host_node_find(inv, a), *nb = host_node_find(inv, b);

	return na && nb ? na->distance[nb - inv->node] : 0;
}

/* The socket that has all CPUs of a NUMA node; -1: no CPUs, several sockets (one node for a whole machine), unknown. */
static int socket_of(const struct inventory *inv, int node)
{
	const struct host_node *n = host_node_find(inv, node);
	int found = -1;

	for (int cpu = n ? cpuset_next(&n->cpus, -1) : -1; cpu >= 0; cpu = cpuset_next(&n->cpus, cpu)) {
		size_t p = 0;

		while (p < inv->system.cpus.npackages && !cpuset_has(&inv->system.cpus.package[p].cpus, (unsigned)cpu))
			p++;
		if (p == inv->system.cpus.npackages || (found >= 0 && found != (int)p))
			return -1;
		found = (int)p;
	}
	return found;
}

int topo_same_socket(const struct topo *t, uint32_t a, uint32_t b)
{
	int na = topo_at(t, a)->fn->facts->numa_node, nb = topo_at(t, b)->fn->facts->numa_node, sa, sb;
	const struct inventory *inv = topo_inventory(t);

	if (inv->system.cpus.npackages == 1)
		return 1;
	sa = socket_of(inv, na);
	sb = socket_of(inv, nb);
	return sa < 0 || sb < 0 ? -1 : sa == sb;
}

int topo_path_walk(struct topo_walk *ret, const struct topo *t, uint32_t a, uint32_t b, struct arena *arena)
{
	const struct topo_node *na = topo_at(t, a), *nb = topo_at(t, b);
	uint32_t top = common_bridge(t, a, b);
	struct topo_walk w = { .class = class_of(t, a, b, top) };

	/* both chains, and two host bridges */
	w.hop = arena_array(arena, (size_t)na->depth + nb->depth + 4, sizeof(*w.hop));
	if (!w.hop)
		return -ENOMEM;
	w.distance = distance(topo_inventory(t), na->fn->facts->numa_node, nb->fn->facts->numa_node);
	if (a == b) {
		(void)hop_add(&w, t, a);
	} else if (same_device(t, a, b)) {
		hop_add(&w, t, a)->via = TOPO_VIA_DEVICE;
		(void)hop_add(&w, t, b);
	} else if (top != TOPO_NONE) {
		walk_below(&w, t, a, b, top);
	} else {
		walk_roots(&w, t, a, b);
	}
	w.hop[w.n - 1].via = TOPO_VIA_NONE;
	measure(&w);
	*ret = w;
	return 0;
}
