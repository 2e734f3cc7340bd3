/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which VFs the best set of GPUs gets: as they were found, then the NICs of one GPU after the other become the nearest, the
 * widest, the first that leave the others theirs. */
#include "plan/search.h"

/* On each node that they have to be on, one of the NICs stays. */
static void hold(struct search *s, uint64_t extra)
{
	for (; extra; extra &= extra - 1) {
		uint64_t nics = s->h->on_node[lowest(extra)];

		if (!(nics & s->m.forced))
			s->m.forced |= nics & s->m.touched & -(nics & s->m.touched);
	}
}

/* Some of its NICs will do for the slot, and leave the others theirs. */
static bool only(struct search *s, uint32_t slot, uint64_t nics, uint64_t extra)
{
	uint64_t before = s->m.adj[slot];
	bool would_have = true;

	if (!s->chained) {
		hold(s, extra);
		if (match_move(&s->m, slot, nics, &would_have))
			return true;
	}
	if (!would_have || !(extra || s->chained))
		return false;
	s->m.adj[slot] = nics;
	if (!(s->m.has[slot] & ~nics) || search_match(s, extra))
		return true;
	s->m.adj[slot] = before;
	(void)search_match(s, extra);
	return false;
}

/* The NICs of one slot become the nearest, then the widest, then the first that can be. */
static bool pull_near(struct search *s, uint32_t slot, uint64_t extra)
{
	const struct solve_host *h = s->h;
	uint8_t g = s->best.gpu[slot];
	uint64_t may = s->m.adj[slot] & match_may_have(&s->m, slot), tried = 0;

	for (uint32_t path = s->nearest[g]; path <= s->best_bound.path; path++)
		for (uint32_t width = s->widest[path][g]; width <= s->best_bound.width; width++) {
			uint64_t level = may & h->near[path][g] & h->wide[width][g];

			for (uint64_t left = level & ~tried; left && s->m.each == 1; left &= left - 1)
				if (only(s, slot, left & -left, extra))
					return true;
			if (s->m.each > 1 && level & ~tried && only(s, slot, level, extra))
				return true;
			tried |= level;
		}
	return false;
}

/* VFs for all together: each is counted as that of a GPU that is near and has the fewest. */
static uint8_t slot_for(const struct search *s, uint32_t nic, const uint8_t *has)
{
	uint32_t best = SOLVE_NO_SLOT;

	for (uint32_t i = 0; i < s->best.n; i++)
		if ((s->m.adj[i] >> nic & 1) && (best == SOLVE_NO_SLOT || has[i] < has[best]))
			best = i;
	return (uint8_t)best;
}

static void give_vfs(struct search *s, struct solve_answer *a)
{
	const struct match *m = &s->m;
	uint8_t has[SOLVE_CHOSEN_MAX] = { 0 };

	a->nvfs = 0;
	for (uint32_t slot = 0; slot < m->slots && !m->whole; slot++)
		for (uint64_t left = m->has[slot]; left; left &= left - 1)
			for (uint32_t v = 0; v < m->give[slot][lowest(left)]; v++) {
				a->vf_nic[a->nvfs] = (uint8_t)lowest(left);
				a->vf_slot[a->nvfs++] = (uint8_t)slot;
			}
	if (!m->whole)
		return;
	for (uint64_t left = m->touched; left; left &= left - 1)
		for (uint32_t v = 0; v < m->used[lowest(left)]; v++) {
			uint8_t slot = slot_for(s, lowest(left), has);

			if (slot != SOLVE_NO_SLOT)
				has[slot]++;
			a->vf_nic[a->nvfs] = (uint8_t)lowest(left);
			a->vf_slot[a->nvfs++] = slot;
		}
}

void search_answer(struct search *s, struct solve_answer *a)
{
	uint64_t extra = s->held ? s->extra : 0;

	a->gpus = s->best.gpus;
	a->score = s->score;
	a->nvfs = 0;
	s->m.slots = s->best.n;
	if (s->vfs && !s->held) {
		(void)search_ties(s, &s->best);
		(void)search_again(s, &s->best, s->best_bound, &extra);
	}
	a->nodes = solve_nodes(s->h, s->w, s->best.home | extra);
	if (!s->vfs)
		return;
	for (uint64_t left = extra ? s->w->needed | s->forced : 0; left; left &= left - 1) /* they are there anyway */
		if (s->h->nic_node[lowest(left)] < s->h->nnodes)
			extra &= ~(UINT64_C(1) << s->h->nic_node[lowest(left)]);
	for (uint32_t i = 0; i < s->best.n && s->m.each; i++)
		(void)pull_near(s, i, extra);
	give_vfs(s, a);
}

void solve_take(struct solve_free *f, const struct solve_answer *a)
{
	f->gpus &= ~a->gpus;
	for (uint32_t v = 0; v < a->nvfs; v++) {
		f->vfs[a->vf_nic[v]]--;
		f->load[a->vf_nic[v]]++;
	}
}

void solve_give(struct solve_free *f, const struct solve_answer *a)
{
	f->gpus |= a->gpus;
	for (uint32_t v = 0; v < a->nvfs; v++) {
		f->vfs[a->vf_nic[v]]++;
		f->load[a->vf_nic[v]]--;
	}
}
