/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA cells of the guest: memory and vCPUs split evenly over its nodes, each checked against what the node has. Of CPUs,
 * whole cores count: two guests on the threads of one core would share its caches and its time. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "plan/place.h"

#define MIB     (UINT64_C(1) << 20)
#define ENDLESS (UINT64_C(1) << 32) /* pages, MiB */

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

/* CPUs that are another guest's. */
static void others_cpus(const struct place *p, struct cpuset *ret)
{
	for (size_t i = 0; i < p->in->nrooms && !p->in->policy.cpus_shared; i++) {
		const struct plan_room *o = &p->in->room[i];
		const struct host_node *n = host_node_find(topo_inventory(p->in->topo), o->node);
		const struct cpuset *cpus = place_gone(p, o->owner) ? NULL : o->cpus ? o->cpus : n ? &n->cpus : NULL;

		for (size_t w = 0; cpus && w < ARRAY_SIZE(ret->word); w++)
			ret->word[w] |= cpus->word[w];
	}
}

static bool has_any(const struct cpuset *cpus, const struct host_core *core)
{
	for (unsigned i = 0; i < core->ncpus; i++)
		if (cpuset_has(cpus, core->cpu[i]))
			return true;
	return false;
}

/* Of one node's CPUs. */
static void node_cpus(const struct place *p, const struct host_node *n, const struct cpuset *others, uint64_t *want, struct cpuset *ret)
{
	const struct host_cpus *cpus = &topo_inventory(p->in->topo)->system.cpus;
	unsigned kept = 0;

	for (size_t i = 0; i < cpus->ncores && *want; i++) {
		const struct host_core *core = &cpus->core[i];

		if (!within(core, &n->cpus) || kept++ < p->in->policy.host_cores || has_any(others, core))
			continue;
		for (unsigned k = 0; k < core->ncpus; k++)
			cpuset_add(ret, core->cpu[k]);
		*want -= *want < core->ncpus ? *want : core->ncpus;
	}
	for (int c = cpuset_next(&n->cpus, -1); c >= 0 && !cpus->ncores && *want; c = cpuset_next(&n->cpus, c)) {
		if (kept++ < p->in->policy.host_cores || cpuset_has(others, (unsigned)c))
			continue;
		cpuset_add(ret, (unsigned)c);
		(*want)--;
	}
}

/* CPUs that a guest may have, at least `want` if there are as many: whole cores of the node and of those without memory that it is home
 * of, those of `first` before others; but not of the first few of each, which stay the host's, nor of those that others have. Where nobody
 * knows which CPUs share a core, each counts as one. */
static void guest_cpus(const struct place *p, uint32_t home, uint64_t first, uint64_t want, struct cpuset *ret)
{
	struct cpuset others = { 0 };

	others_cpus(p, &others);
	*ret = (struct cpuset){ 0 };
	for (unsigned pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < p->host->nnodes; i++) {
			const struct host_node *n = p->home[i] == home && (first >> i & 1) == !pass ? node_at(p, i) : NULL;

			if (n)
				node_cpus(p, n, &others, &want, ret);
		}
}

static uint64_t unit(const struct place *p) /* of memory */
{
	return p->in->request->hugepages ? p->in->request->hugepages : MIB;
}

static uint64_t without(uint64_t all, uint64_t less)
{
	return all > less ? all - less : 0;
}

/* Of what there is free, what guests that do not have their memory yet will take; and all together never more than there
 * is, whatever is free now. */
static uint64_t not_promised(const struct place *p, const struct host_node *n, uint64_t total, uint64_t free)
{
	uint64_t all = 0, to_come = 0, by_total, by_free;

	for (size_t i = 0; i < p->in->nrooms; i++) {
		const struct plan_room *o = &p->in->room[i];

		if (o->node != n->id || o->hugepages != p->in->request->hugepages)
			continue;
		if (place_gone(p, o->owner)) {
			free += o->backed ? o->memory : 0;
			continue;
		}
		all += o->memory;
		to_come += o->backed ? 0 : o->memory;
	}
	by_total = without(total, all);
	by_free = without(p->in->vacant ? total : free, to_come);
	return by_total < by_free ? by_total : by_free;
}

/* In units; the pool of the pages that were asked for, or plain memory. */
static uint64_t free_memory(const struct place *p, const struct host_node *n)
{
	uint64_t reserve = p->in->policy.memory_reserve, page = p->in->request->hugepages;

	if (p->in->boundless & PLAN_BOUNDLESS_MEMORY)
		return ENDLESS;
	for (size_t i = 0; i < n->npools && page; i++)
		if (n->pool[i].page_size == page)
			return not_promised(p, n, n->pool[i].total * page, n->pool[i].free * page) / page;
	if (page || !n->memory_known)
		return 0;
	return not_promised(p, n, without(n->mem_total, reserve), without(n->mem_free, reserve)) / MIB;
}

void place_rooms(struct place *p)
{
	uint64_t memory[SOLVE_NODES_MAX] = { 0 }, cpus[SOLVE_NODES_MAX] = { 0 };

	for (uint32_t i = 0; i < p->host->nnodes; i++) {
		const struct host_node *n = node_at(p, i);

		if (!n)
			continue;
		memory[i] = free_memory(p, n);
		cpus[i] = place_node_cpus(p, n->id);
	}
	solve_split_make(&p->want.memory, p->in->request->memory / unit(p), memory, p->host->nnodes);
	solve_split_make(&p->want.cpus, p->in->request->vcpus, cpus, p->host->nnodes);
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

/* Of a guest on these nodes, what the cell on this one gets. */
static uint64_t share_of(const struct place *p, const struct solve_split *s, uint64_t nodes, int node)
{
	uint32_t n = (uint32_t)__builtin_popcountll(nodes);
	uint64_t more = n ? s->all % n : 0;

	for (; nodes; nodes &= nodes - 1) {
		uint64_t units = share(s, &more, (uint32_t)__builtin_ctzll(nodes), n);

		if (p->node[__builtin_ctzll(nodes)] == node)
			return units;
	}
	return 0;
}

uint64_t place_cell_memory(const struct place *p, uint64_t nodes, int node)
{
	return share_of(p, &p->want.memory, nodes, node) * unit(p);
}

unsigned place_node_cpus(const struct place *p, int node)
{
	uint32_t i = place_node_index(p, node);
	const struct host_node *n = host_node_find(topo_inventory(p->in->topo), node);
	struct cpuset cpus = { 0 };

	if (n && p->in->boundless & PLAN_BOUNDLESS_CPUS)
		return UINT_MAX;
	if (n && n->cpus_known)
		guest_cpus(p, i, 0, UINT64_MAX, &cpus);
	return cpuset_count(&cpus);
}

unsigned place_cell_cpus(const struct place *p, uint64_t nodes, int node)
{
	const struct host_cpus *cpus = &topo_inventory(p->in->topo)->system.cpus;
	unsigned want = (unsigned)share_of(p, &p->want.cpus, nodes, node), least = cpus->ncores ? UINT_MAX : 1;

	for (size_t i = 0; i < cpus->ncores; i++)
		if (cpus->core[i].ncpus && cpus->core[i].ncpus < least)
			least = cpus->core[i].ncpus;
	return p->in->policy.cpus_shared || least == UINT_MAX ? want : (want + least - 1) / least * least;
}

static uint64_t node_bit(const struct place *p, struct bdf bdf)
{
	uint32_t at = topo_find(p->in->topo, bdf), i = at == TOPO_NONE ? p->host->nnodes : place_node_index(p, topo_at(p->in->topo, at)->fn->facts->numa_node);

	return i < p->host->nnodes ? UINT64_C(1) << i : 0;
}

/* Where the bundle's devices are, themselves. */
static uint64_t device_nodes(const struct place *p)
{
	uint64_t nodes = 0;

	for (size_t i = 0; i < p->plan->ngpus; i++)
		nodes |= node_bit(p, p->plan->gpu[i]);
	for (size_t i = 0; i < p->plan->nvfs; i++)
		nodes |= node_bit(p, p->plan->vf[i].pf);
	for (size_t i = 0; i < p->plan->nextras; i++)
		nodes |= node_bit(p, p->plan->extra[i].bdf);
	return nodes;
}

static void take_moved(struct place *p, uint64_t devices, uint64_t cells)
{
	p->plan->nmoved = 0;
	for (; devices; devices &= devices - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(devices);

		if (p->home[i] != i && (cells >> p->home[i] & 1))
			p->plan->moved[p->plan->nmoved++] = (struct plan_moved){ p->node[i], p->node[p->home[i]] };
	}
}

int place_cells(struct place *p, uint64_t nodes)
{
	struct plan *plan = p->plan;
	uint32_t n = (uint32_t)__builtin_popcountll(nodes);
	uint64_t more_memory = p->want.memory.all % n, more_cpus = p->want.cpus.all % n, devices = device_nodes(p);

	take_moved(p, devices, nodes);
	plan->hugepages = p->in->request->hugepages;
	plan->cell = arena_array(&plan->arena, n, sizeof(*plan->cell));
	for (; nodes && plan->cell; nodes &= nodes - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(nodes);
		struct plan_cell *c = &plan->cell[plan->ncells++];
		struct cpuset *cpus = arena_alloc(&plan->arena, sizeof(*cpus));

		if (!cpus)
			return -ENOMEM;
		*c = (struct plan_cell){ .host_node = p->node[i], .memory = share(&p->want.memory, &more_memory, i, n) * unit(p),
					 .vcpus = (uint32_t)share(&p->want.cpus, &more_cpus, i, n), .cpus = cpus };
		guest_cpus(p, i, devices, p->in->policy.cpus_shared ? UINT64_MAX : c->vcpus, cpus);
	}
	return plan->cell ? 0 : -ENOMEM;
}

size_t plan_rooms(struct plan_room *ret, const struct plan *p, const char *owner)
{
	for (size_t i = 0; i < p->ncells; i++)
		ret[i] = (struct plan_room){ .node = p->cell[i].host_node, .memory = p->cell[i].memory, .hugepages = p->hugepages,
					     .cpus = p->cell[i].cpus, .owner = owner, .exclusive = p->exclusive };
	return p->ncells;
}

/* ---- why not ------------------------------------------------------------------------------------ */

static void say_memory(struct place *p, const struct host_node *n, uint64_t need)
{
	uint64_t free = free_memory(p, n), page = p->in->request->hugepages;
	char size[SIZE_TEXT_MAX];

	if (page)
		place_reason(p->plan, "hugepages.short", BDF_NONE, "less memory, other pages, another node, or more pages there",
			     "NUMA node %d has %" PRIu64 " page%s of %s that %s free and promised to nobody, its cell needs %" PRIu64, n->id, free,
			     free == 1 ? "" : "s", size_text(size, page), free == 1 ? "is" : "are", need);
	else
		place_reason(p->plan, "memory.short", BDF_NONE, "less memory, another node, or memory freed there",
			     "NUMA node %d has %" PRIu64 " MiB that is free and promised to nobody (%" PRIu64 " MiB kept for the "
			     "host), its cell needs %" PRIu64 " MiB", n->id, free, p->in->policy.memory_reserve / MIB, need);
}

/* One reason for a node; false: a cell of this size would fit on it. */
static bool say_node(struct place *p, uint32_t i, uint64_t memory, uint64_t vcpus)
{
	const struct host_node *n = node_at(p, i);
	struct cpuset cpus = { 0 };

	if (n)
		guest_cpus(p, i, 0, UINT64_MAX, &cpus);
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
		place_reason(p->plan, "cpus.short", BDF_NONE, "fewer vCPUs, another node, or guests deleted",
			     "NUMA node %d has %u CPUs for it in whole cores that no other guest has, its cell needs %" PRIu64,
			     n->id, cpuset_count(&cpus), vcpus);
	else
		return false;
	return true;
}

/* Whose GPUs it could have, or which it names. */
static void say_homes(struct place *p)
{
	for (uint32_t i = 0; i < p->host->nnodes; i++) {
		struct plan_reason r;
		bool mine = p->in->request->numa_node == p->node[i];
		struct bdf device = BDF_NONE;

		for (uint32_t g = 0; g < p->ngpus; g++) {
			const struct host_function *fn = topo_at(p->in->topo, p->gpu[g].node)->fn;

			if (p->gpus && p->allowed >> g & 1 && fn->facts->numa_node == p->node[i] && bdf_is_none(device))
				device = fn->bdf;
		}
		if ((mine || !bdf_is_none(device)) && place_home_say(p, &r, i, device))
			place_reason(p->plan, r.rule, BDF_NONE, r.needed, "%s", r.observed);
	}
}

void place_cells_say(struct place *p, uint64_t nodes)
{
	const struct solve_want *w = &p->want;
	uint64_t all = p->host->nnodes < 64 ? (UINT64_C(1) << p->host->nnodes) - 1 : UINT64_MAX;
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
	say_homes(p);
	for (uint64_t left = n == cells ? nodes : all & w->nodes; left; left &= left - 1)
		(void)say_node(p, (uint32_t)__builtin_ctzll(left), (w->memory.all + cells - 1) / cells, (w->cpus.all + cells - 1) / cells);
}
