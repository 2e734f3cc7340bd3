/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Augmenting paths (Ford and Fulkerson, 1956) on a small network: each VF that is wanted is a unit that goes to a NIC, as
 * far as the bundle may take of that NIC, and as far as the NIC has VFs. */
#include "plan/crowd.h"

#include <stdlib.h>
#include <string.h>

#define DEMANDS_MAX 1024
#define NOWHERE     0xff

struct demand {
	uint8_t  bundle, nic; /* NOWHERE: not yet */
	uint64_t will_do;     /* NICs */
};

struct crowd {
	struct demand d[DEMANDS_MAX];
	size_t        n, nbundles;
	uint32_t      node[SOLVE_NICS_MAX]; /* in the topology: bundles may number NICs differently */
	uint32_t      nnics;
	uint16_t      has[SOLVE_NICS_MAX], used[SOLVE_NICS_MAX];
	uint16_t      may[CROWD_MEMBERS_MAX][SOLVE_NICS_MAX], by[CROWD_MEMBERS_MAX][SOLVE_NICS_MAX];
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
	c->n = c->nbundles = c->nnics = 0;
}

static uint32_t number(const struct crowd *c, uint32_t node)
{
	uint32_t i = 0;

	while (i < c->nnics && c->node[i] != node)
		i++;
	return i;
}

static bool add_nics(struct crowd *c, const struct place *p, uint64_t to[SOLVE_NICS_MAX])
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
		if (p->want.per_nic && most > p->want.per_nic)
			most = p->want.per_nic;
		c->has[i] = p->free.vfs[n] > c->has[i] ? p->free.vfs[n] : c->has[i]; /* less where a bundle excludes some */
		c->may[c->nbundles][i] = (uint16_t)most;
		to[n] = UINT64_C(1) << i;
	}
	return true;
}

bool crowd_add(struct crowd *c, const struct place *p, uint64_t gpus)
{
	const struct solve_want *w = &p->want;
	uint64_t to[SOLVE_NICS_MAX] = { 0 };

	if (c->nbundles == CROWD_MEMBERS_MAX || !add_nics(c, p, to))
		return false;
	for (; gpus; gpus &= gpus - 1) {
		uint32_t g = (uint32_t)__builtin_ctzll(gpus);
		uint64_t will_do = 0;

		for (uint32_t n = 0; n < p->nnics; n++)
			if (p->host.path[g][n] <= w->max_path && p->host.path[g][n] < TOPO_UNKNOWN && (w->own[g] & w->nics) >> n & 1)
				will_do |= to[n];
		for (uint32_t v = 0; v < w->vfs_per_gpu; v++) {
			if (c->n == DEMANDS_MAX)
				return false;
			c->d[c->n++] = (struct demand){ .bundle = (uint8_t)c->nbundles, .nic = NOWHERE, .will_do = will_do };
		}
	}
	c->nbundles++;
	return true;
}

static bool move(struct crowd *c, struct demand *d);

static void put(struct crowd *c, struct demand *d, uint32_t nic)
{
	if (d->nic != NOWHERE) {
		c->used[d->nic]--;
		c->by[d->bundle][d->nic]--;
	}
	d->nic = (uint8_t)nic;
	c->used[nic]++;
	c->by[d->bundle][nic]++;
}

/* Somebody on the NIC goes elsewhere; bundle: only one of this one, -1 of any. */
static bool make_room(struct crowd *c, uint32_t nic, int bundle)
{
	for (size_t i = 0; i < c->n; i++) {
		struct demand *o = &c->d[i];

		if (o->nic != nic || (bundle >= 0 && o->bundle != bundle))
			continue;
		c->seen_by[o->bundle][nic] = true; /* where it comes from is no way to go */
		if (move(c, o))
			return true;
	}
	return false;
}

/* To another NIC than it has, if it has one. Each bundle's share of a NIC is tried once. */
static bool move(struct crowd *c, struct demand *d)
{
	for (uint64_t left = d->will_do; left; left &= left - 1) {
		uint32_t nic = (uint32_t)__builtin_ctzll(left);
		bool share = c->by[d->bundle][nic] < c->may[d->bundle][nic], ok;

		if (c->seen_by[d->bundle][nic])
			continue;
		c->seen_by[d->bundle][nic] = true;
		ok = share && c->used[nic] < c->has[nic];
		if (!ok && share && !c->seen[nic]) {
			c->seen[nic] = true;
			ok = make_room(c, nic, -1);
		} else if (!ok && !share) {
			ok = make_room(c, nic, d->bundle);
		}
		if (ok) {
			put(c, d, nic);
			return true;
		}
	}
	return false;
}

bool crowd_fits(struct crowd *c)
{
	memset(c->used, 0, sizeof(c->used));
	memset(c->by, 0, sizeof(c->by));
	for (size_t i = 0; i < c->n; i++)
		c->d[i].nic = NOWHERE;
	for (size_t i = 0; i < c->n; i++) {
		memset(c->seen, 0, sizeof(c->seen));
		memset(c->seen_by, 0, sizeof(c->seen_by));
		if (!move(c, &c->d[i]))
			return false;
	}
	return true;
}

unsigned crowd_share(const struct crowd *c, size_t bundle, const struct place *p, uint32_t n)
{
	uint32_t i = number(c, p->nic[n].node);

	return i < c->nnics ? c->by[bundle][i] : 0;
}
