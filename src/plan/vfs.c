/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VFs for a set of GPUs. For a bound on the path class and on the VFs per NIC, a bipartite matching
 * (augmenting paths, Kuhn 1955) says whether every demand can be met; the least bounds that work win.
 * NICs are tried nearest first, then by BDF, so the result is deterministic. */
#include <string.h>

#include "plan/place.h"

#define NO_GPU 0xff

struct match {
	const struct place  *p;
	struct place_choice *c;
	enum topo_class      bound; /* farthest path allowed */
	unsigned             limit; /* most VFs per NIC */
	uint8_t              used[PLACE_NICS_MAX];
	uint8_t              seen[PLACE_NICS_MAX];
};

static enum topo_class path_of(const struct match *m, uint32_t slot, uint32_t nic)
{
	return slot == NO_GPU ? TOPO_SELF : (enum topo_class)m->p->path[m->c->gpu[slot]][nic];
}

static unsigned capacity(const struct match *m, uint32_t nic)
{
	return m->p->nic[nic].nvfs < m->limit ? m->p->nic[nic].nvfs : m->limit;
}

static bool place_one(struct match *m, uint32_t demand);

/* Room on this NIC for one more: free, or made by moving one of its VFs' demands elsewhere. */
static bool make_room(struct match *m, uint32_t nic, uint32_t before)
{
	if (m->used[nic] < capacity(m, nic))
		return true;
	for (uint32_t d = 0; d < before; d++)
		if (m->c->vf_nic[d] == nic && place_one(m, d)) {
			m->used[nic]--;
			return true;
		}
	return false;
}

/* Gives demand d (a VF for GPU slot vf_gpu[d]) a NIC within the bound. Each NIC is tried once per
 * augmentation, so the recursion is at most PLACE_NICS_MAX deep. */
static bool place_one(struct match *m, uint32_t d)
{
	for (int class = TOPO_SELF; class <= (int)m->bound; class++) {
		for (uint32_t nic = 0; nic < m->p->nnics; nic++) {
			if ((int)path_of(m, m->c->vf_gpu[d], nic) != class || m->seen[nic])
				continue;
			m->seen[nic] = 1;
			if (!make_room(m, nic, m->c->nvfs))
				continue;
			m->c->vf_nic[d] = (uint8_t)nic;
			m->used[nic]++;
			return true;
		}
	}
	return false;
}

/* One VF for each demand in vf_gpu[0..n). */
static bool match_all(struct match *m, uint32_t n)
{
	memset(m->used, 0, sizeof(m->used));
	m->c->nvfs = 0;
	for (uint32_t d = 0; d < n; d++) {
		memset(m->seen, 0, sizeof(m->seen));
		if (!place_one(m, d))
			return false;
		m->c->nvfs = d + 1;
	}
	return true;
}

/* The demands: vfs_per_gpu for each GPU; or `vfs` in all, of which each GPU is to be near to one. */
static uint32_t demands_each(const struct place *p, struct place_choice *c)
{
	uint32_t n = 0;

	for (uint32_t g = 0; g < c->ngpus; g++)
		for (uint64_t k = 0; k < p->in->request->vfs_per_gpu; k++)
			c->vf_gpu[n++] = (uint8_t)g;
	return n;
}

/* GPUs that no earlier demand's NIC would reach within the bound get a demand of their own: with path
 * classes, "within the bound" sorts GPUs into disjoint sets, so counting sets is exact. */
static uint32_t demands_whole(const struct match *m)
{
	const struct place_choice *c = m->c;
	uint32_t n = 0, want = (uint32_t)m->p->in->request->vfs;

	for (uint32_t g = 0; g < c->ngpus; g++) {
		bool covered = false;

		for (uint32_t d = 0; d < n && !covered; d++)
			for (uint32_t nic = 0; nic < m->p->nnics && !covered; nic++)
				covered = path_of(m, m->c->vf_gpu[d], nic) <= m->bound && path_of(m, g, nic) <= m->bound;
		if (covered)
			continue;
		if (n == want)
			return UINT32_MAX;
		m->c->vf_gpu[n++] = (uint8_t)g;
	}
	for (uint32_t g = 0; n < want; n++, g++) /* what is left goes round the GPUs */
		m->c->vf_gpu[n] = (uint8_t)(c->ngpus ? g % c->ngpus : NO_GPU);
	return n;
}

static bool try_bound(struct match *m)
{
	const struct plan_request *req = m->p->in->request;
	uint32_t n = req->vfs ? demands_whole(m) : demands_each(m->p, m->c);

	if (n == UINT32_MAX)
		return false;
	m->limit = PLAN_VFS_MAX;
	if (!match_all(m, n))
		return false;
	for (m->limit = n ? 1 : 0; !match_all(m, n); m->limit++)
		; /* ends: at limit n it is the match that was just found */
	m->c->shared = m->limit;
	return true;
}

bool place_vfs(const struct place *p, struct place_choice *c)
{
	struct match m = { .p = p, .c = c };

	for (int bound = TOPO_PIX; bound <= (int)p->in->request->max_path; bound++) {
		m.bound = (enum topo_class)bound;
		if (!try_bound(&m))
			continue;
		c->worst_path = c->nvfs && c->ngpus ? m.bound : TOPO_SELF;
		return true;
	}
	return false;
}
