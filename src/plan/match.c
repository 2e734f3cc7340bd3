/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VFs for a set of GPUs. For each GPU its own: augmenting paths (Kuhn 1955); NICs that must give some are served
 * first from their side, which later augmenting does not take back (Mendelsohn and Dulmage 1958). For all GPUs
 * together: a cover of the GPUs by few NICs, then whatever is free. */
#include "plan/match.h"

#include <string.h>

static uint32_t lowest(uint64_t bits)
{
	return (uint32_t)__builtin_ctzll(bits);
}

static uint32_t need_of(const struct match *m, uint32_t n)
{
	return m->w->needed >> n & 1 ? m->w->need[n] : (uint32_t)(m->forced >> n & 1);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void put(struct match *m, uint32_t slot, uint32_t n, uint32_t vfs)
{
	m->give[slot][n] = (uint8_t)(m->give[slot][n] + vfs);
	m->has[slot] |= UINT64_C(1) << n;
	m->used[n] = (uint16_t)(m->used[n] + vfs);
	if (m->used[n] >= m->cap[n])
		m->room &= ~(UINT64_C(1) << n);
}

static void drop(struct match *m, uint32_t slot, uint32_t n, uint32_t vfs)
{
	m->give[slot][n] = (uint8_t)(m->give[slot][n] - vfs);
	if (!m->give[slot][n])
		m->has[slot] &= ~(UINT64_C(1) << n);
	m->used[n] = (uint16_t)(m->used[n] - vfs);
	m->room |= (uint64_t)(m->used[n] < m->cap[n]) << n; /* pull() puts one more first */
}

/* The shortest way on which slots give up a NIC for another one, until there is room: for how many VFs; 0: there is none. */
static uint32_t augment(struct match *m, uint32_t slot, uint32_t vfs)
{
	uint8_t way[SOLVE_CHOSEN_MAX] = { (uint8_t)slot }, from[SOLVE_CHOSEN_MAX], over[SOLVE_CHOSEN_MAX];
	uint32_t others = ((1u << m->slots) - 1) & ~(1u << slot), n = 1, i = 0, nic;
	uint64_t free;

	for (; !(free = m->adj[way[i]] & m->room); i++) {
		for (uint32_t left = others; left; left &= left - 1) {
			uint64_t gives = m->has[lowest(left)] & m->adj[way[i]];

			if (!gives)
				continue;
			others &= ~(left & -left);
			way[n] = (uint8_t)lowest(left);
			from[n] = (uint8_t)i;
			over[n++] = (uint8_t)lowest(gives);
		}
		if (i + 1 == n)
			return 0;
	}
	nic = lowest(free & m->like[way[i]] ? free & m->like[way[i]] : free);
	vfs = least(vfs, (uint32_t)m->cap[nic] - m->used[nic]);
	for (uint32_t k = i; k; k = from[k])
		vfs = least(vfs, m->give[way[k]][over[k]]);
	for (; i; i = from[i]) {
		drop(m, way[i], over[i], vfs);
		put(m, way[i], nic, vfs);
		nic = over[i];
	}
	put(m, slot, nic, vfs);
	return vfs;
}

/* How many of them it cannot have. */
static uint32_t fill(struct match *m, uint32_t slot, uint32_t vfs)
{
	for (uint32_t some; vfs && (some = augment(m, slot, vfs)); vfs -= some)
		;
	return vfs;
}

/* A VF for a NIC that must give one: for a slot that has none yet, or instead of another NIC's that gives more than it must or
 * finds another one. Each NIC is asked once, so the recursion is at most SOLVE_NICS_MAX deep. */
static bool pull(struct match *m, uint32_t n)
{
	m->seen |= UINT64_C(1) << n;
	for (uint32_t slot = 0; slot < m->slots; slot++) {
		if (!(m->adj[slot] >> n & 1))
			continue;
		if (m->lacks[slot]) {
			m->lacks[slot]--;
			put(m, slot, n, 1);
			return true;
		}
		for (uint64_t left; (left = m->has[slot] & ~m->seen);) {
			uint32_t from = lowest(left);

			if (m->used[from] <= need_of(m, from) && !pull(m, from))
				continue;
			drop(m, slot, from, 1);
			put(m, slot, n, 1);
			return true;
		}
	}
	return false;
}

static bool has_its_own(struct match *m, uint32_t n)
{
	bool found = true;

	while ((m->w->needed | m->forced) >> n & 1 && found && m->used[n] < need_of(m, n)) {
		m->seen = 0;
		found = pull(m, n);
	}
	return found;
}

static bool run_each(struct match *m)
{
	memset(m->give, 0, m->slots * sizeof(m->give[0]));
	memset(m->has, 0, m->slots * sizeof(m->has[0]));
	memset(m->lacks, (int)m->each, m->slots);
	for (uint64_t left = m->w->needed | m->forced; left; left &= left - 1)
		if (need_of(m, lowest(left)) > m->cap[lowest(left)] || !has_its_own(m, lowest(left)))
			return false;
	for (uint32_t slot = 0; slot < m->slots; slot++) {
		if (fill(m, slot, m->lacks[slot]))
			return false;
		m->lacks[slot] = 0;
	}
	return true;
}

uint64_t match_may_have(const struct match *m, uint32_t slot)
{
	uint32_t others = ((1u << m->slots) - 1) & ~(1u << slot);
	uint64_t may = m->room | m->has[slot], before;

	do {
		before = may;
		for (uint32_t left = others; left; left &= left - 1)
			if (m->adj[lowest(left)] & may) {
				may |= m->has[lowest(left)];
				others &= ~(left & -left);
			}
	} while (may != before);
	return may;
}

bool match_move(struct match *m, uint32_t slot, uint64_t nics, bool *would_have)
{
	uint64_t before = m->adj[slot], away = m->has[slot] & ~nics;
	uint32_t have = 0;
	bool moved;

	*would_have = false;
	for (uint64_t left = away ? nics : 0; left && have < m->each; left &= left - 1)
		have += m->cap[lowest(left)];
	moved = !away || have >= m->each;
	if (moved)
		m->adj[slot] = nics;
	for (; away && moved; away &= away - 1) {
		uint32_t was = lowest(away), vfs = m->give[slot][was], rest;

		drop(m, slot, was, vfs);
		rest = fill(m, slot, vfs);
		if (rest)
			put(m, slot, was, rest);
		moved = !rest && has_its_own(m, was);
		if (moved)
			continue;
		*would_have = !rest;
		m->adj[slot] = before;
		(void)has_its_own(m, was); /* the way back, if no other */
	}
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

/* What no GPU needs goes where the fewest VFs are: one to each that has as few. */
static bool fill_up(struct match *m, uint64_t nics, uint32_t left)
{
	while (left) {
		uint32_t fewest = UINT32_MAX;

		for (uint64_t rest = nics; rest; rest &= rest - 1) {
			uint32_t n = lowest(rest);

			if (m->used[n] >= m->cap[n])
				nics &= ~(rest & -rest);
			else
				fewest = least(fewest, (uint32_t)m->used[n] + m->f->load[n]);
		}
		if (!nics)
			return false;
		for (uint64_t rest = nics; rest && left; rest &= rest - 1) {
			uint32_t n = lowest(rest);

			if ((uint32_t)m->used[n] + m->f->load[n] > fewest)
				continue;
			m->used[n]++;
			m->touched |= rest & -rest;
			left--;
		}
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
		m->room |= (uint64_t)(m->cap[n] > 0) << n;
	}
	m->touched = 0;
	if (m->whole)
		return run_whole(m);
	if (!run_each(m))
		return false;
	for (uint32_t i = 0; i < m->slots; i++)
		m->touched |= m->has[i];
	return true;
}
