/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA nodes on which a guest can have no cell: without memory (no DIMM on their channels), or without CPUs (a CXL device, HBM of a
 * GPU, cores that are off). What is there belongs to a home, the nearest node that has what they lack: devices get their cell there, and
 * cores of a node without memory are cores of its home, which is where the kernel gives them memory from, too (node zonelists,
 * mm/page_alloc.c). Nobody guesses: where no distances say which is nearest, there is no home, and nothing fits. */
#include <string.h>

#include "plan/place.h"

static const struct host_node *node_at(const struct place *p, uint32_t i)
{
	return host_node_find(topo_inventory(p->in->topo), p->node[i]);
}

/* Known to have none, of any kind. */
static bool no_memory(const struct host_node *n)
{
	bool none = n->memory_known && !n->mem_total;

	for (size_t i = 0; i < n->npools; i++)
		none = none && !n->pool[i].total;
	return none;
}

static bool no_cpus(const struct host_node *n)
{
	return n->cpus_known && !cpuset_count(&n->cpus);
}

/* Of those in the set; from itself if it has none: no distance says, or there is no such node. Of equals the first. */
static uint32_t nearest(const struct place *p, uint64_t set, uint32_t from)
{
	const struct host_node *n = node_at(p, from);
	uint32_t best = from;
	unsigned least = UINT8_MAX + 1;

	if (set >> from & 1)
		return from;
	if (set && !(set & (set - 1)))
		return (uint32_t)__builtin_ctzll(set);
	for (uint64_t left = set; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		unsigned d = n->distance[i];

		if (!d)
			return from;
		if (d < least)
			best = i;
		least = d < least ? d : least;
	}
	return best;
}

void place_homes(struct place *p)
{
	uint64_t memory = 0, cells = 0;
	uint32_t n = p->host->nnodes;

	for (uint32_t i = 0; i < n; i++)
		memory |= (uint64_t)!no_memory(node_at(p, i)) << i;
	for (uint32_t i = 0; i < n; i++)
		if (!no_cpus(node_at(p, i)))
			cells |= memory & UINT64_C(1) << nearest(p, memory, i); /* its own CPUs, or those of a node without memory */
	for (uint32_t i = 0; i < SOLVE_NODES_MAX; i++)
		p->home[i] = (uint8_t)(i < n ? nearest(p, cells, i) : i);
}

void place_home_cpus(const struct place *p, uint32_t i, struct cpuset *ret)
{
	*ret = (struct cpuset){ 0 };
	for (uint32_t k = 0; k < p->host->nnodes; k++) {
		const struct host_node *n = p->home[k] == i ? node_at(p, k) : NULL;

		for (size_t w = 0; n && w < ARRAY_SIZE(ret->word); w++)
			ret->word[w] |= n->cpus.word[w];
	}
}

uint32_t place_node_index(const struct place *p, int id)
{
	uint32_t i = 0;

	while (i < p->host->nnodes && p->node[i] != id)
		i++;
	return i;
}

/* ---- what is said of it --------------------------------------------------------------------------- */

static const char *where(struct place *p, uint32_t from, struct bdf device)
{
	char text[BDF_TEXT_MAX];

	return arena_printf(&p->plan->arena, "NUMA node %d%s%s%s", p->node[from], bdf_is_none(device) ? "" : ", where ",
			    bdf_is_none(device) ? "" : bdf_text(text, device), bdf_is_none(device) ? "" : " is,");
}

static const char *distance(struct place *p, unsigned d)
{
	const char *text = d ? arena_printf(&p->plan->arena, " (distance %u)", d) : "";

	return text ? text : "";
}

bool place_home_say(struct place *p, struct plan_reason *ret, uint32_t from, struct bdf device)
{
	const struct host_node *n = from < p->host->nnodes ? node_at(p, from) : NULL;
	bool memory = n && no_memory(n), cpus = n && no_cpus(n);
	struct arena *arena = &p->plan->arena;
	const char *lacks = memory && cpus ? "has neither memory nor CPUs" : memory ? "has no memory" : "has no CPUs", *at;
	uint32_t home = n ? p->home[from] : from;

	if (!memory && (!cpus || home == from))
		return false;
	at = where(p, from, device);
	*ret = (struct plan_reason){ .rule = memory ? "numa.no-memory" : "numa.no-cpus", .device = "", .needed = memory ? "memory on that node's own channels" :
				     "CPUs of that node's own" };
	if (home == from)
		ret->observed = arena_printf(arena, "%s %s, and no distances say which node that has is nearest", at ? at : "", lacks);
	else
		ret->observed = arena_printf(arena, "%s %s; %s that has is node %d%s%s", at ? at : "", lacks, n->distance[home] ? "the nearest" : "the only one",
					     p->node[home], distance(p, n->distance[home]), p->plan->fits ? ", and the cell is there" : "");
	return ret->observed != NULL;
}
