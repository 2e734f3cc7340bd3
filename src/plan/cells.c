/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA cells of the guest: memory and vCPUs split evenly over its nodes, each checked against what the node has. Of CPUs,
 * whole cores count: two guests on the threads of one core would share its caches and its time. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "plan/place.h"

#define MIB (UINT64_C(1) << 20)

static const struct host_node *node_at(const struct place *p, uint32_t i)
{
	return host_node_find(topo_inventory(p->in->topo), p->node[i]);
}

static bool within(const struct host_core *core, const struct cpuset *cpus)
{
	for (unsigned i = 0; i < core->ncpus; i++)
		if (!cpuset_has(cpus, core->cpu[i]))
			return false;
	return core->ncpus > 0;
}

/* The CPUs that guests may have: those of the node's whole cores but the first few, which stay the host's. Where nobody
 * knows which CPUs share a core, each counts as one. */
static void guest_cpus(const struct place *p, const struct host_node *n, struct cpuset *ret)
{
	const struct host_cpus *cpus = &topo_inventory(p->in->topo)->system.cpus;
	unsigned kept = 0;

	*ret = (struct cpuset){ 0 };
	for (size_t i = 0; i < cpus->ncores; i++) {
		if (!within(&cpus->core[i], &n->cpus) || kept++ < p->in->policy.host_cores)
			continue;
		for (unsigned k = 0; k < cpus->core[i].ncpus; k++)
			cpuset_add(ret, cpus->core[i].cpu[k]);
	}
	for (int c = cpuset_next(&n->cpus, -1); c >= 0 && !cpus->ncores; c = cpuset_next(&n->cpus, c))
		if (kept++ >= p->in->policy.host_cores)
			cpuset_add(ret, (unsigned)c);
}

static uint64_t unit(const struct place *p) /* of memory */
{
	return p->in->request->hugepages ? p->in->request->hugepages : MIB;
}

/* In units; the pool of the pages that were asked for, or plain memory. */
static uint64_t free_memory(const struct place *p, const struct host_node *n)
{
	uint64_t reserve = p->in->policy.memory_reserve;

	for (size_t i = 0; i < n->npools; i++)
		if (n->pool[i].page_size == p->in->request->hugepages)
			return n->pool[i].free;
	if (p->in->request->hugepages || !n->memory_known)
		return 0;
	return n->mem_free > reserve ? (n->mem_free - reserve) / MIB : 0;
}

void place_rooms(struct place *p)
{
	uint64_t memory[SOLVE_NODES_MAX] = { 0 }, cpus[SOLVE_NODES_MAX] = { 0 };

	for (uint32_t i = 0; i < p->host.nnodes; i++) {
		const struct host_node *n = node_at(p, i);
		struct cpuset set;

		if (!n)
			continue;
		guest_cpus(p, n, &set);
		memory[i] = free_memory(p, n);
		cpus[i] = n->cpus_known ? cpuset_count(&set) : 0;
	}
	solve_split_make(&p->want.memory, p->in->request->memory / unit(p), memory, p->host.nnodes);
	solve_split_make(&p->want.cpus, p->in->request->vcpus, cpus, p->host.nnodes);
}

/* One more for the first few that can. */
static uint64_t share(const struct solve_split *s, uint64_t *more, uint32_t i, uint32_t n)
{
	bool one = *more && (s->more[n] >> i & 1);

	*more -= one;
	return s->all / n + one;
}

uint64_t place_node_memory(const struct place *p, int node)
{
	const struct host_node *n = host_node_find(topo_inventory(p->in->topo), node);

	return n ? free_memory(p, n) * unit(p) : 0;
}

uint64_t place_cell_memory(const struct place *p, uint64_t nodes, int node)
{
	uint32_t n = (uint32_t)__builtin_popcountll(nodes);
	uint64_t more = n ? p->want.memory.all % n : 0;

	for (; nodes; nodes &= nodes - 1) {
		uint64_t units = share(&p->want.memory, &more, (uint32_t)__builtin_ctzll(nodes), n);

		if (p->node[__builtin_ctzll(nodes)] == node)
			return units * unit(p);
	}
	return 0;
}

int place_cells(struct place *p, uint64_t nodes)
{
	struct plan *plan = p->plan;
	uint32_t n = (uint32_t)__builtin_popcountll(nodes);
	uint64_t more_memory = p->want.memory.all % n, more_cpus = p->want.cpus.all % n;

	plan->hugepages = p->in->request->hugepages;
	plan->cell = arena_array(&plan->arena, n, sizeof(*plan->cell));
	for (; nodes && plan->cell; nodes &= nodes - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(nodes);
		struct plan_cell *c = &plan->cell[plan->ncells++];
		struct cpuset *cpus = arena_alloc(&plan->arena, sizeof(*cpus));

		if (!cpus)
			return -ENOMEM;
		guest_cpus(p, node_at(p, i), cpus);
		*c = (struct plan_cell){ .host_node = p->node[i], .memory = share(&p->want.memory, &more_memory, i, n) * unit(p),
					 .vcpus = (uint32_t)share(&p->want.cpus, &more_cpus, i, n), .cpus = cpus };
	}
	return plan->cell ? 0 : -ENOMEM;
}

/* ---- why not ------------------------------------------------------------------------------------ */

static void say_memory(struct place *p, const struct host_node *n, uint64_t need)
{
	uint64_t free = free_memory(p, n), page = p->in->request->hugepages;

	if (page)
		place_reason(p->plan, "hugepages.short", BDF_NONE, "less memory, other pages, another node, or more pages there",
			     "NUMA node %d has %" PRIu64 " free pages of %" PRIu64 " KiB, its cell needs %" PRIu64, n->id, free,
			     page / 1024, need);
	else
		place_reason(p->plan, "memory.short", BDF_NONE, "less memory, another node, or memory freed there",
			     "NUMA node %d has %" PRIu64 " MiB free (%" PRIu64 " MiB kept for the host), its cell "
			     "needs %" PRIu64 " MiB", n->id, free, p->in->policy.memory_reserve / MIB, need);
}

/* One reason for a node; false: a cell of this size would fit on it. */
static bool say_node(struct place *p, uint32_t i, uint64_t memory, uint64_t vcpus)
{
	const struct host_node *n = node_at(p, i);
	struct cpuset cpus = { 0 };

	if (n)
		guest_cpus(p, n, &cpus);
	if (!n)
		place_reason(p->plan, "numa.node-missing", BDF_NONE, "a device on a node that is there, or its numa_node set right",
			     "NUMA node %d, which devices name, is not there", p->node[i]);
	else if (!n->memory_known && !p->in->request->hugepages)
		place_reason(p->plan, "memory.unknown", BDF_NONE, "a readable meminfo of the node",
			     "the memory of NUMA node %d is unknown", n->id);
	else if (memory > free_memory(p, n))
		say_memory(p, n, memory);
	else if (!n->cpus_known)
		place_reason(p->plan, "cpus.unknown", BDF_NONE, "a readable cpulist of the node, or another node",
			     "the CPUs of NUMA node %d are unknown", n->id);
	else if (vcpus > cpuset_count(&cpus))
		place_reason(p->plan, "cpus.short", BDF_NONE, "fewer vCPUs or another node",
			     "NUMA node %d has %u CPUs for guests, its cell needs %" PRIu64, n->id, cpuset_count(&cpus), vcpus);
	else
		return false;
	return true;
}

void place_cells_say(struct place *p, uint64_t nodes)
{
	const struct solve_want *w = &p->want;
	uint64_t all = p->host.nnodes < 64 ? (UINT64_C(1) << p->host.nnodes) - 1 : UINT64_MAX;
	uint32_t n = (uint32_t)__builtin_popcountll(nodes), cells = w->cells ? w->cells : n ? n : 1;

	if (n > cells) {
		place_reason(p->plan, "cells.fewer", BDF_NONE, "more cells, or devices nearer to each other",
			     "the devices span %u NUMA nodes, the request has %u cell%s", n, cells, cells == 1 ? "" : "s");
		return;
	}
	if (w->cpus.all < cells || w->memory.all < cells) {
		place_reason(p->plan, "cpus.cells", BDF_NONE, "at least one vCPU and one page per NUMA node of the guest",
			     "the guest spans %u NUMA nodes, the request has %" PRIu64 " vCPU%s", cells, w->cpus.all,
			     w->cpus.all == 1 ? "" : "s");
		return;
	}
	for (uint64_t left = n == cells ? nodes : all & w->nodes; left; left &= left - 1)
		(void)say_node(p, (uint32_t)__builtin_ctzll(left), (w->memory.all + cells - 1) / cells, (w->cpus.all + cells - 1) / cells);
}
