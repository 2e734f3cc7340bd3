/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VFs for a set of GPUs. For each GPU its own: augmenting paths (Kuhn 1955); NICs that must give some are served
 * first from their side, which later augmenting does not take back (Mendelsohn and Dulmage 1958). For all GPUs
 * together: a cover of the GPUs by few NICs, then whatever is free. */
#include "plan/match.h"

#include <string.h>

#define NO_NIC 0xff

static uint32_t lowest(uint64_t bits)
{
	return (uint32_t)__builtin_ctzll(bits);
}

static uint32_t need_of(const struct match *m, uint32_t n)
{
	return m->w->needed >> n & 1 ? m->w->need[n] : (uint32_t)(m->forced >> n & 1);
}

static void put(struct match *m, uint32_t demand, uint32_t n)
{
	m->nic[demand] = (uint8_t)n;
	m->on[n] |= UINT64_C(1) << demand;
	if (++m->used[n] >= m->cap[n])
		m->room &= ~(UINT64_C(1) << n);
}

static void drop(struct match *m, uint32_t demand)
{
	uint32_t n = m->nic[demand];

	m->on[n] &= ~(UINT64_C(1) << demand);
	if (--m->used[n] < m->cap[n])
		m->room |= UINT64_C(1) << n;
}

static uint32_t slot_of(const struct match *m, uint32_t demand)
{
	return demand * m->per_each >> 16;
}

static bool augment(struct match *m, uint32_t demand, uint32_t slot);

/* Some demand on this NIC finds another one; of a slot's, one is like another. */
static bool make_room(struct match *m, uint32_t n)
{
	for (uint64_t left = m->on[n], of_slot = UINT64_MAX >> (64 - m->each); left;) {
		uint32_t d = lowest(left), slot = slot_of(m, d);

		left &= ~(of_slot << (slot * m->each));
		if (!(m->adj[slot] & ~m->seen) || !augment(m, d, slot))
			continue;
		m->on[n] &= ~(UINT64_C(1) << d);
		m->used[n]--;
		m->room |= UINT64_C(1) << n;
		return true;
	}
	return false;
}

/* Each NIC is tried once, so the recursion is at most SOLVE_NICS_MAX deep. */
static bool augment(struct match *m, uint32_t demand, uint32_t slot)
{
	uint64_t adj = m->adj[slot];

	if (adj & m->room & ~m->seen) {
		put(m, demand, lowest(adj & m->room & ~m->seen));
		return true;
	}
	for (uint64_t left; (left = adj & ~m->seen);) {
		uint32_t n = lowest(left);

		m->seen |= UINT64_C(1) << n;
		if (make_room(m, n)) {
			put(m, demand, n);
			return true;
		}
	}
	return false;
}

/* A demand for a NIC that must have one: a free one, or one of another NIC that has more than it must or finds another. */
static bool pull(struct match *m, uint32_t n)
{
	for (uint32_t slot = 0, d = 0; slot < m->slots; slot++)
		for (uint32_t end = d + m->each; d < end; d++) {
			uint32_t from = m->nic[d];

			if ((m->seen >> d & 1) || !(m->adj[slot] >> n & 1) || from == n)
				continue;
			m->seen |= UINT64_C(1) << d;
			if (from == NO_NIC) {
				put(m, d, n);
				return true;
			}
			if (m->used[from] > need_of(m, from) || pull(m, from)) {
				drop(m, d);
				put(m, d, n);
				return true;
			}
		}
	return false;
}

static bool serve_needs(struct match *m, uint64_t nics)
{
	for (; nics; nics &= nics - 1) {
		uint32_t n = lowest(nics), need = need_of(m, n);

		if (need > m->cap[n])
			return false;
		for (uint32_t i = 0; i < need; i++) {
			m->seen = 0;
			if (!pull(m, n))
				return false;
		}
	}
	return true;
}

static bool run_each(struct match *m)
{
	memset(m->nic, NO_NIC, m->slots * m->each);
	m->per_each = 65536 / m->each + 1;
	if (!serve_needs(m, m->w->needed | m->forced))
		return false;
	for (uint32_t slot = 0, d = 0; slot < m->slots; slot++)
		for (uint32_t end = d + m->each; d < end; d++) {
			m->seen = 0;
			if (m->nic[d] == NO_NIC && !augment(m, d, slot))
				return false;
		}
	return true;
}

/* A demand leaves its NIC for one of its slot's. */
static bool move(struct match *m, uint32_t d, uint32_t slot)
{
	uint32_t was = m->nic[d];

	drop(m, d);
	m->seen = 0;
	if (augment(m, d, slot))
		return true;
	put(m, d, was);
	return false;
}

static bool has_its_own(struct match *m, uint32_t n)
{
	m->seen = 0;
	return m->used[n] >= need_of(m, n) || pull(m, n);
}

bool match_move(struct match *m, uint32_t slot, uint64_t nics, bool *would_have)
{
	uint64_t before = m->adj[slot];
	uint32_t have = 0;
	bool moved;

	*would_have = false;
	for (uint64_t left = nics; left && have < m->each; left &= left - 1)
		have += m->cap[lowest(left)];
	moved = have >= m->each;
	if (!moved)
		return false;
	m->adj[slot] = nics;
	for (uint32_t d = slot * m->each; d < (slot + 1) * m->each && moved; d++) {
		uint32_t was = m->nic[d];

		if (nics >> was & 1)
			continue;
		moved = move(m, d, slot);
		if (moved && !has_its_own(m, was)) {
			moved = false;
			*would_have = true;
			m->adj[slot] = before;
			(void)has_its_own(m, was); /* the way back, if no other */
		}
	}
	if (!moved)
		m->adj[slot] = before;
	return moved;
}

/* ---- VFs for all together ----------------------------------------------------------------------- */

/* Some NIC before n covers all the slots that n does. */
static bool beaten(const uint16_t *covers, uint64_t before, uint32_t n)
{
	for (; before; before &= before - 1)
		if (!(covers[n] & ~covers[lowest(before)]))
			return true;
	return false;
}

/* Adds to *chosen, at most `left` of `nics`, so that every slot is near to one. */
static bool cover(const struct match *m, const uint16_t *covers, uint64_t nics, uint32_t left, uint64_t *chosen)
{
	uint64_t adj;
	uint32_t slot = 0;

	while (slot < m->slots && m->adj[slot] & *chosen)
		slot++;
	if (slot == m->slots)
		return true;
	adj = m->adj[slot] & nics;
	for (uint64_t rest = left ? adj : 0; rest; rest &= rest - 1) {
		uint64_t n = rest & -rest;

		if (beaten(covers, adj & (n - 1), lowest(n)))
			continue;
		*chosen |= n;
		if (cover(m, covers, nics, left - 1, chosen))
			return true;
		*chosen &= ~n;
	}
	return false;
}

static uint32_t serve_whole_needs(struct match *m, uint64_t nics)
{
	uint32_t given = 0;

	for (uint64_t left = m->w->needed | m->forced; left; left &= left - 1) {
		uint32_t n = lowest(left), need = need_of(m, n);

		if (need > m->cap[n] || !(nics >> n & 1))
			return UINT32_MAX;
		m->used[n] = (uint16_t)need;
		m->touched |= UINT64_C(1) << n;
		given += need;
	}
	return given;
}

/* What no GPU needs goes where the fewest VFs are. */
static bool fill_up(struct match *m, uint64_t nics, uint32_t left)
{
	for (; left; left--) {
		uint32_t best = SOLVE_NICS_MAX;

		for (uint64_t rest = nics; rest; rest &= rest - 1) {
			uint32_t n = lowest(rest);

			if (m->used[n] < m->cap[n] &&
			    (best == SOLVE_NICS_MAX || m->used[n] + m->f->load[n] < m->used[best] + m->f->load[best]))
				best = n;
		}
		if (best == SOLVE_NICS_MAX)
			return false;
		m->used[best]++;
		m->touched |= UINT64_C(1) << best;
	}
	return true;
}

static bool run_whole(struct match *m)
{
	uint16_t covers[SOLVE_NICS_MAX] = { 0 };
	uint64_t nics = m->slots ? 0 : m->nics, before;
	uint32_t given;

	for (uint32_t i = 0; i < m->slots; i++)
		nics |= m->adj[i];
	nics &= m->room;
	given = serve_whole_needs(m, nics);
	if (given > m->whole)
		return false;
	for (uint32_t i = 0; i < m->slots; i++)
		for (uint64_t adj = m->adj[i] & nics; adj; adj &= adj - 1)
			covers[lowest(adj)] |= (uint16_t)(1u << i);
	before = m->touched;
	if (!cover(m, covers, nics, m->whole - given, &m->touched))
		return false;
	for (uint64_t fresh = m->touched & ~before; fresh; fresh &= fresh - 1) {
		m->used[lowest(fresh)] = 1;
		given++;
	}
	return fill_up(m, nics, m->whole - given);
}

bool match_run(struct match *m)
{
	uint64_t nics = m->slots ? 0 : m->nics;

	m->room = 0;
	for (uint32_t i = 0; i < m->slots; i++)
		nics |= m->adj[i];
	for (uint64_t left = nics | m->forced | m->w->needed; left; left &= left - 1) {
		uint32_t n = lowest(left);

		m->cap[n] = (uint16_t)match_cap(m->f, m->w, n, m->limit);
		m->used[n] = 0;
		m->on[n] = 0;
		m->room |= (uint64_t)(m->cap[n] > 0) << n;
	}
	m->touched = 0;
	if (m->whole)
		return run_whole(m);
	if (!run_each(m))
		return false;
	for (uint32_t d = 0; d < m->slots * m->each; d++)
		m->touched |= UINT64_C(1) << m->nic[d];
	return true;
}
