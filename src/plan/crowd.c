/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Augmenting paths (Ford and Fulkerson, 1956) on a small network: each VF that is wanted is a unit that goes to a NIC, as
 * far as the bundle may take of that NIC, and as far as the NIC has VFs. Of VFs for a bundle as a whole some have to be near
 * to each of its GPUs: which ones is tried out, and what is left of the flow says early where that leads to nothing. */
#include "plan/crowd.h"

#include <stdlib.h>
#include <string.h>

#define DEMANDS_MAX 1024
#define NOWHERE     0xff

struct demand {
	uint8_t  bundle, nic; /* NOWHERE: not yet */
	bool     seen;
	uint64_t will_do;     /* NICs */
};

struct whole { /* a bundle whose VFs are for all of its GPUs */
	uint32_t first, n, given; /* demands; given: that have their NIC, because one of it was asked for by name */
	uint64_t near[SOLVE_CHOSEN_MAX], had; /* by GPU; had: NICs of the given */
	uint32_t ngpus;
};

struct crowd {
	struct demand d[DEMANDS_MAX];
	size_t        n, nbundles;
	uint32_t      node[SOLVE_NICS_MAX]; /* in the topology: bundles may number NICs differently */
	uint32_t      nnics;
	uint16_t      has[SOLVE_NICS_MAX], used[SOLVE_NICS_MAX];
	uint16_t      may[CROWD_MEMBERS_MAX][SOLVE_NICS_MAX], by[CROWD_MEMBERS_MAX][SOLVE_NICS_MAX];
	struct whole  whole[CROWD_MEMBERS_MAX];
	size_t        nwhole;
	bool          seen[SOLVE_NICS_MAX], seen_by[CROWD_MEMBERS_MAX][SOLVE_NICS_MAX];
};

struct crowd *crowd_new(void)
{
	return calloc(1, sizeof(struct crowd));
}

struct crowd *crowd_free(struct crowd *c)
{
	free(c);
	return NULL;
}

void crowd_clear(struct crowd *c)
{
	c->n = c->nbundles = c->nwhole = c->nnics = 0;
}

static uint32_t number(const struct crowd *c, uint32_t node)
{
	uint32_t i = 0;

	while (i < c->nnics && c->node[i] != node)
		i++;
	return i;
}

static bool add_nics(struct crowd *c, const struct place *p, const struct solve_want *w, uint64_t to[SOLVE_NICS_MAX])
{
	for (uint32_t n = 0; n < p->nnics; n++) {
		uint32_t i = number(c, p->nic[n].node), most = p->free.vfs[n];

		if (i == SOLVE_NICS_MAX)
			return false;
		if (i == c->nnics) {
			c->node[c->nnics++] = p->nic[n].node;
			c->has[i] = 0;
			for (size_t b = 0; b < CROWD_MEMBERS_MAX; b++)
				c->may[b][i] = 0;
		}
		if (w->per_nic && most > w->per_nic)
			most = w->per_nic;
		c->has[i] = p->free.vfs[n] > c->has[i] ? p->free.vfs[n] : c->has[i]; /* less where a bundle excludes some */
		c->may[c->nbundles][i] = (uint16_t)most;
		to[n] = UINT64_C(1) << i;
	}
	return true;
}

static bool add_demand(struct crowd *c, uint64_t will_do)
{
	if (c->n == DEMANDS_MAX)
		return false;
	c->d[c->n++] = (struct demand){ .bundle = (uint8_t)c->nbundles, .nic = NOWHERE, .will_do = will_do };
	return true;
}

/* NICs that will do for a GPU, as the crowd numbers them. */
static uint64_t near_of(const struct place *p, const struct solve_want *w, uint32_t g, const uint64_t to[SOLVE_NICS_MAX])
{
	uint64_t near = 0;

	for (uint32_t n = 0; n < p->nnics; n++)
		if (p->host->path[g][n] <= w->max_path && p->host->path[g][n] < TOPO_UNKNOWN && (w->own[g] & w->nics) >> n & 1)
			near |= to[n];
	return near;
}

static bool add_whole(struct crowd *c, const struct place *p, const struct solve_want *w, uint64_t gpus, uint64_t nics,
		      const uint64_t to[SOLVE_NICS_MAX])
{
	struct whole *b = &c->whole[c->nwhole++];
	uint64_t any = 0;

	*b = (struct whole){ .first = (uint32_t)c->n };
	for (; gpus; gpus &= gpus - 1) {
		b->near[b->ngpus] = near_of(p, w, (uint32_t)__builtin_ctzll(gpus), to);
		any |= b->near[b->ngpus++];
	}
	for (uint32_t n = 0; n < p->nnics; n++) {
		if (!b->ngpus && (nics & w->nics) >> n & 1)
			any |= to[n];
		for (uint32_t k = 0; k < w->need[n] && b->n < w->vfs; k++, b->n++) {
			if (!add_demand(c, to[n]))
				return false;
			b->had |= to[n];
		}
	}
	for (b->given = b->n; b->n < w->vfs; b->n++)
		if (!add_demand(c, any))
			return false;
	return true;
}

bool crowd_add(struct crowd *c, const struct place *p, const struct solve_want *w, uint64_t gpus, uint64_t nics)
{
	uint64_t to[SOLVE_NICS_MAX] = { 0 };

	if (c->nbundles == CROWD_MEMBERS_MAX || !add_nics(c, p, w, to))
		return false;
	if (w->vfs && !add_whole(c, p, w, gpus, nics, to))
		return false;
	for (; gpus && w->vfs_per_gpu; gpus &= gpus - 1)
		for (uint32_t v = 0; v < w->vfs_per_gpu; v++)
			if (!add_demand(c, near_of(p, w, (uint32_t)__builtin_ctzll(gpus), to)))
				return false;
	c->nbundles++;
	return true;
}

bool crowd_add_any(struct crowd *c, const struct place *p, const struct solve_want *w, uint64_t gpus, uint64_t nics)
{
	uint64_t to[SOLVE_NICS_MAX] = { 0 }, any = 0;

	if (c->nbundles == CROWD_MEMBERS_MAX || !add_nics(c, p, w, to))
		return false;
	for (; gpus; gpus &= gpus - 1)
		any |= near_of(p, w, (uint32_t)__builtin_ctzll(gpus), to);
	for (uint32_t n = 0; n < p->nnics && !p->gpus; n++)
		any |= (nics & w->nics) >> n & 1 ? to[n] : 0;
	for (uint32_t v = 0; v < (w->vfs ? w->vfs : w->vfs_per_gpu * p->gpus); v++)
		if (!add_demand(c, any))
			return false;
	c->nbundles++;
	return true;
}

/* ---- the flow: from demands through shares (what a bundle has of a NIC) to NICs ------------------------- */

static bool from_demand(struct crowd *c, struct demand *d);

/* Another demand leaves the share. */
static bool from_share_back(struct crowd *c, size_t bundle, uint32_t nic)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->d[i].nic == nic && c->d[i].bundle == bundle && from_demand(c, &c->d[i]))
			return true;
	return false;
}

static bool from_nic(struct crowd *c, uint32_t nic)
{
	if (c->seen[nic])
		return false;
	c->seen[nic] = true;
	if (c->used[nic] < c->has[nic]) {
		c->used[nic]++;
		return true;
	}
	for (size_t b = 0; b < c->nbundles; b++) {
		if (!c->by[b][nic] || c->seen_by[b][nic])
			continue;
		c->seen_by[b][nic] = true;
		if (from_share_back(c, b, nic)) {
			c->by[b][nic]--;
			return true;
		}
	}
	return false;
}

static bool from_share(struct crowd *c, size_t bundle, uint32_t nic)
{
	if (c->seen_by[bundle][nic])
		return false;
	c->seen_by[bundle][nic] = true;
	if (c->by[bundle][nic] < c->may[bundle][nic] && from_nic(c, nic)) {
		c->by[bundle][nic]++;
		return true;
	}
	return from_share_back(c, bundle, nic);
}

/* To another NIC than it has, if it has one. Everything is passed once, so that the way has no loop. */
static bool from_demand(struct crowd *c, struct demand *d)
{
	if (d->seen)
		return false;
	d->seen = true;
	for (uint64_t left = d->will_do; left; left &= left - 1) {
		uint32_t nic = (uint32_t)__builtin_ctzll(left);

		if (from_share(c, d->bundle, nic)) {
			d->nic = (uint8_t)nic;
			return true;
		}
	}
	return false;
}

static bool flow(struct crowd *c)
{
	memset(c->used, 0, sizeof(c->used));
	memset(c->by, 0, sizeof(c->by));
	for (size_t i = 0; i < c->n; i++)
		c->d[i].nic = NOWHERE;
	for (size_t i = 0; i < c->n; i++) {
		memset(c->seen, 0, sizeof(c->seen));
		memset(c->seen_by, 0, sizeof(c->seen_by));
		for (size_t k = 0; k < c->n; k++)
			c->d[k].seen = false;
		if (!from_demand(c, &c->d[i]))
			return false;
	}
	return true;
}

/* The GPUs of whole bundles from b on have a VF near to them: k demands of b have their NIC, all of them `had`. The flow
 * with the rest undecided is an upper bound. */
static bool cover(struct crowd *c, size_t b, uint32_t k, uint64_t had)
{
	const struct whole *w = &c->whole[b];
	uint32_t g = 0;

	if (b == c->nwhole)
		return flow(c);
	while (g < w->ngpus && w->near[g] & had)
		g++;
	if (g == w->ngpus)
		return b + 1 == c->nwhole ? flow(c) : cover(c, b + 1, c->whole[b + 1].given, c->whole[b + 1].had);
	for (uint64_t left = k < w->n ? w->near[g] : 0; left; left &= left - 1) {
		struct demand *d = &c->d[w->first + k];
		uint64_t any = d->will_do;

		d->will_do = left & -left;
		if (flow(c) && cover(c, b, k + 1, had | d->will_do))
			return true;
		d->will_do = any;
	}
	return false;
}

bool crowd_fits(struct crowd *c)
{
	return flow(c) && (!c->nwhole || cover(c, 0, c->whole[0].given, c->whole[0].had));
}

unsigned crowd_share(const struct crowd *c, size_t bundle, const struct place *p, uint32_t n)
{
	uint32_t i = number(c, p->nic[n].node);

	return i < c->nnics ? c->by[bundle][i] : 0;
}
