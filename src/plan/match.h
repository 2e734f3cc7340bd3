/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/match — VFs for a set of GPUs: bipartite matching on bits (room-private, solve.c's). */

#include "plan/solve.h"

/* The slots are the positions in a set of GPUs. */
struct match {
	const struct solve_free *f;
	const struct solve_want *w;
	uint32_t slots, each, whole; /* VFs for each slot; or in all, each slot near to one of them */
	uint64_t adj[SOLVE_CHOSEN_MAX]; /* NICs that will do, by slot; and ... */
	uint64_t like[SOLVE_CHOSEN_MAX]; /* ... those that it gets if it makes no difference to others */
	uint64_t nics;    /* without slots: NICs that will do */
	uint32_t limit;   /* most VFs on one NIC, those of others too */
	uint64_t forced;  /* NICs that give one at least, beside want.need */
	/* the result */
	uint16_t used[SOLVE_NICS_MAX];
	uint64_t touched; /* NICs with used > 0 */
	uint8_t  give[SOLVE_CHOSEN_MAX][SOLVE_NICS_MAX]; /* each: VFs of a NIC that a slot has; and ... */
	uint64_t has[SOLVE_CHOSEN_MAX];                  /* ... NICs of which it has some */
	uint16_t cap[SOLVE_NICS_MAX];
	uint64_t room; /* NICs with used < cap */
	uint8_t  lacks[SOLVE_CHOSEN_MAX]; /* each: VFs that a slot is still to get */
	uint64_t seen; /* NICs that pull() has asked */
};

/* VFs that the NIC may give, so that none has more than the limit. */
static inline uint32_t match_cap(const struct solve_free *f, const struct solve_want *w, uint32_t n, uint32_t limit)
{
	uint32_t cap = f->vfs[n], load = f->load[n];

	if (limit < load + cap)
		cap = limit > load ? limit - load : 0;
	return w->per_nic && cap > w->per_nic ? w->per_nic : cap;
}

bool match_run(struct match *m);
/* After match_run() with VFs for each slot: NICs of which the slot may have one so that the others keep theirs or find another. */
uint64_t match_may_have(const struct match *m, uint32_t slot);
/* Then: all of the slot's come from these NICs now, and the others keep theirs or find
 * another; false: that cannot be, and what each slot has is still one of its NICs. would_have: a NIC that must give some was
 * against it. */
bool match_move(struct match *m, uint32_t slot, uint64_t nics, bool *would_have);
