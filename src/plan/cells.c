/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA cells of the guest: one per host node that its devices sit on, memory and vCPUs split evenly, each
 * cell checked against what its node has. */
#include <inttypes.h>

#include "plan/place.h"

#define MIB (UINT64_C(1) << 20)

static int node_of(const struct place *p, uint32_t at)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	int node = topo_at(p->in->topo, at)->fn->facts->numa_node;

	return node < 0 && inv->nnodes == 1 ? inv->node[0].id : node;
}

static void add_node(struct plan_cell *cells, size_t *n, int node)
{
	size_t at = 0;

	while (at < *n && cells[at].host_node < node)
		at++;
	if (node < 0 || *n == HOST_NODES_MAX || (at < *n && cells[at].host_node == node))
		return;
	for (size_t i = (*n)++; i > at; i--)
		cells[i] = cells[i - 1];
	cells[at] = (struct plan_cell){ .host_node = node };
}

static bool node_fits(const struct place *p, const struct plan_cell *cell, bool say)
{
	const struct host_node *n = host_node_find(topo_inventory(p->in->topo), cell->host_node);
	uint64_t reserve = p->in->policy.memory_reserve;
	uint64_t free = n && n->memory_known && n->mem_free > reserve ? n->mem_free - reserve : 0;
	unsigned cpus = n ? cpuset_count(&n->cpus) : 0;

	if (p->any_cells)
		return true;
	if (!n) {
		if (say)
			place_reason(p->plan, "numa.node-missing", BDF_NONE, "a device on a node that is there, or its numa_node set right",
				     "NUMA node %d of its devices is not there", cell->host_node);
		return false;
	}
	if (!n->memory_known) {
		if (say)
			place_reason(p->plan, "memory.unknown", BDF_NONE, "a readable meminfo of the node",
				     "the memory of NUMA node %d is unknown", cell->host_node);
		return false;
	}
	if (cell->memory > free) {
		if (say)
			place_reason(p->plan, "memory.short", BDF_NONE, "less memory, another node, or memory freed there",
				     "NUMA node %d has %" PRIu64 " MiB free (%" PRIu64 " MiB kept for the host), its cell "
				     "needs %" PRIu64 " MiB", cell->host_node, free / MIB, reserve / MIB, cell->memory / MIB);
		return false;
	}
	if (!n->cpus_known) {
		if (say)
			place_reason(p->plan, "cpus.unknown", BDF_NONE, "a readable cpulist of the node, or another node",
				     "the CPUs of NUMA node %d are unknown", cell->host_node);
		return false;
	}
	if (cell->vcpus > cpus) {
		if (say)
			place_reason(p->plan, "cpus.short", BDF_NONE, "fewer vCPUs or another node",
				     "NUMA node %d has %u CPUs, its cell needs %" PRIu32, cell->host_node, cpus, cell->vcpus);
		return false;
	}
	return true;
}

/* A guest without devices goes to the requested node, or to the first that fits. */
static bool cell_alone(const struct place *p, struct plan_cell *cell, bool say)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	int64_t want = p->in->request->numa_node;

	*cell = (struct plan_cell){ .memory = p->in->request->memory, .vcpus = (uint32_t)p->in->request->vcpus };
	for (size_t i = 0; i < inv->nnodes; i++) {
		cell->host_node = inv->node[i].id;
		if ((want < 0 || want == cell->host_node) && node_fits(p, cell, false))
			return true;
	}
	for (size_t i = 0; say && i < inv->nnodes; i++) {
		cell->host_node = inv->node[i].id;
		if (want < 0 || want == cell->host_node)
			(void)node_fits(p, cell, true);
	}
	return false;
}

bool place_cells(const struct place *p, const struct place_choice *c, struct plan_cell cells[HOST_NODES_MAX],
		 size_t *ncells, bool say)
{
	const struct plan_request *req = p->in->request;
	uint64_t mib = req->memory / MIB;
	size_t n = 0;

	for (uint32_t g = 0; g < c->ngpus; g++)
		add_node(cells, &n, node_of(p, p->gpu[c->gpu[g]].node));
	for (uint32_t v = 0; v < c->nvfs; v++)
		add_node(cells, &n, node_of(p, p->nic[c->vf_nic[v]].node));
	if (n == 0) {
		*ncells = 1;
		return cell_alone(p, cells, say);
	}
	if (!p->any_cells && (req->vcpus < n || mib < n)) {
		if (say)
			place_reason(p->plan, "cpus.cells", BDF_NONE, "at least one vCPU per NUMA node of the devices",
				     "the devices span %zu NUMA nodes, the request has %" PRIu64 " vCPUs", n, req->vcpus);
		return false;
	}
	*ncells = n;
	for (size_t i = 0; i < n; i++) {
		cells[i].memory = (mib / n + (i < mib % n)) * MIB;
		cells[i].vcpus = (uint32_t)(req->vcpus / n + (i < req->vcpus % n));
		if (!node_fits(p, &cells[i], say))
			return false;
	}
	return true;
}
