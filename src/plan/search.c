/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The search over GPU sets: depth first in BDF order, so that of two equal choices the one with the lower
 * addresses is met first and stays. A branch is left when what is chosen so far already is no better than
 * the best choice: every part of the score can only grow. Hence exact.
 *
 * Score, smaller is better, first difference decides: worst GPU-VF path, worst GPU-GPU path, NUMA nodes
 * spanned, most VFs on one NIC. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "plan/place.h"

#define VISITS_MAX 4000000 /* about a second; hosts of today need some hundreds */

static int compare(const struct place_choice *a, const struct place_choice *b)
{
	if (a->worst_path != b->worst_path)
		return a->worst_path < b->worst_path ? -1 : 1;
	if (a->gpu_path != b->gpu_path)
		return a->gpu_path < b->gpu_path ? -1 : 1;
	if (a->nodes != b->nodes)
		return a->nodes < b->nodes ? -1 : 1;
	if (a->shared != b->shared)
		return a->shared < b->shared ? -1 : 1;
	return 0;
}

static bool chosen_vf(const struct place *p, const struct place_choice *c, struct bdf b)
{
	uint16_t next[PLACE_NICS_MAX] = { 0 };

	for (uint32_t v = 0; v < c->nvfs; v++) {
		uint8_t n = c->vf_nic[v];

		if (bdf_eq(p->nic[n].vf[next[n]++], b))
			return true;
	}
	return false;
}

/* Every required device that can be had at all is in the choice. GPUs first: that is cheap. */
static bool has_required(const struct place *p, const struct place_choice *c)
{
	const struct plan_request *req = p->in->request;
	size_t n = 0;

	for (uint32_t g = 0; g < c->ngpus; g++)
		n += bdf_in(req->require, req->nrequire, topo_at(p->in->topo, p->gpu[c->gpu[g]].node)->fn->bdf);
	for (size_t i = 0; i < req->nrequire && n < req->nrequire; i++)
		n += chosen_vf(p, c, req->require[i]);
	return n == req->nrequire;
}

static int gpu_numa(const struct place *p, uint8_t g)
{
	return topo_at(p->in->topo, p->gpu[g].node)->fn->facts->numa_node;
}

static void leaf(struct place *p, const struct place_choice *partial)
{
	struct plan_cell cells[HOST_NODES_MAX];
	struct place_choice c = *partial;
	size_t ncells = 0;

	if (!place_vfs(p, &c) || !has_required(p, &c) || !place_cells(p, &c, cells, &ncells, false))
		return;
	c.nodes = (unsigned)ncells;
	if (!p->found || compare(&c, &p->best) < 0) {
		p->best = c;
		p->found = true;
	}
}

/* The score so far, with what is still to come at its best. */
static void extend(const struct place *p, struct place_choice *c, uint8_t g)
{
	bool new_node = true;

	for (uint32_t i = 0; i < c->ngpus; i++) {
		enum topo_class d = (enum topo_class)p->gpu_path[c->gpu[i]][g];

		if (d > c->gpu_path)
			c->gpu_path = d;
		new_node = new_node && gpu_numa(p, c->gpu[i]) != gpu_numa(p, g);
	}
	c->nodes += new_node;
	/* the bound of place_vfs starts at PIX; with `vfs` one VF may serve several GPUs, each near to it */
	if ((p->in->request->vfs_per_gpu || p->in->request->vfs) && p->gpu[g].nearest > c->worst_path)
		c->worst_path = p->gpu[g].nearest;
	c->gpu[c->ngpus++] = g;
}

static int descend(struct place *p, const struct place_choice *c, uint32_t from)
{
	uint32_t want = (uint32_t)p->in->request->gpus, left = want - c->ngpus;
	int r = 0;

	if (left == 0) {
		leaf(p, c);
		return 0;
	}
	for (uint32_t g = from; g + left <= p->ngpus && r == 0; g++) {
		struct place_choice next = *c;

		if (++p->visits > VISITS_MAX)
			return -E2BIG;
		extend(p, &next, (uint8_t)g);
		if (next.worst_path > p->in->request->max_path)
			continue;
		if (!p->found || compare(&next, &p->best) < 0)
			r = descend(p, &next, g + 1);
	}
	return r;
}

int place_search(struct place *p, struct error *err)
{
	struct place_choice none = { .worst_path = TOPO_SELF, .gpu_path = TOPO_SELF };

	if (descend(p, &none, 0) < 0)
		return error_set(err, -E2BIG,
				 "too many ways to choose %llu of %u GPUs; narrow the request with numa_node, require or exclude",
				 (unsigned long long)p->in->request->gpus, p->ngpus);
	return 0;
}
