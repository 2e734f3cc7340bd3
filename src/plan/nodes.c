/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which NUMA nodes a guest's cells can be on: those of its devices, and others where it has more cells. Memory and CPUs
 * are split evenly, so that only the number of nodes matters, not which cell is where. */
#include <string.h>

#include "plan/search.h"

void solve_split_make(struct solve_split *ret, uint64_t all, const uint64_t *room, uint32_t nnodes)
{
	memset(ret, 0, sizeof(*ret));
	ret->all = all;
	for (uint32_t n = 1; n <= nnodes && n <= all; n++)
		for (uint32_t i = 0; i < nnodes; i++) {
			ret->base[n] |= (uint64_t)(room[i] >= all / n) << i;
			ret->more[n] |= (uint64_t)(room[i] > all / n) << i;
		}
}

static bool split_fits(const struct solve_split *s, uint64_t nodes, uint32_t n)
{
	return !(nodes & ~s->base[n]) && count(nodes & s->more[n]) >= s->all % n;
}

/* Whether `left` more of `from` can be had so that there are as many with more memory and more CPUs as needed. */
static bool can_join(const struct solve_want *w, uint64_t nodes, uint64_t from, uint32_t left, uint32_t n)
{
	uint64_t m = w->memory.more[n], c = w->cpus.more[n];
	uint32_t has_m = count(nodes & m), has_c = count(nodes & c), both = count(from & m & c);
	uint32_t want_m = (uint32_t)(w->memory.all % n), want_c = (uint32_t)(w->cpus.all % n);
	uint32_t only_m = count(from & m & ~c), only_c = count(from & c & ~m);

	if (count(from) < left)
		return false;
	for (uint32_t b = 0; b <= both && b <= left; b++) {
		uint32_t need_m = has_m + b < want_m ? want_m - has_m - b : 0;
		uint32_t need_c = has_c + b < want_c ? want_c - has_c - b : 0;

		if (need_m <= only_m && need_c <= only_c && b + need_m + need_c <= left)
			return true;
	}
	return false;
}

/* The nearest nodes to `first` join until there are n; 0: they do not fit. */
static uint64_t join(const struct solve_host *h, const struct solve_want *w, uint64_t nodes, uint32_t first, uint32_t n)
{
	uint64_t from = w->memory.base[n] & w->cpus.base[n] & w->nodes & ~nodes;
	uint32_t left = n - count(nodes);

	if ((nodes & ~(w->memory.base[n] & w->cpus.base[n])) || !can_join(w, nodes, from, left, n))
		return 0;
	for (uint32_t i = 0; i < h->nnodes && left; i++) {
		uint64_t bit = UINT64_C(1) << (w->node_order ? w->node_order[first * h->nnodes + i] : i);

		if (!(from & bit))
			continue;
		from &= ~bit;
		if (can_join(w, nodes | bit, from, left - 1, n)) {
			nodes |= bit;
			left--;
		}
	}
	return left ? 0 : nodes;
}

uint64_t solve_nodes(const struct solve_host *h, const struct solve_want *w, uint64_t touched)
{
	uint32_t n = count(touched);
	uint64_t all = 0;

	if (w->any_nodes)
		return touched ? touched : 1;
	if (touched & ~w->nodes || (w->cells && n > w->cells))
		return 0;
	if (n && (!w->cells || n == w->cells))
		return split_fits(&w->memory, touched, n) && split_fits(&w->cpus, touched, n) ? touched : 0;
	n = w->cells ? w->cells : 1;
	if (n > h->nnodes)
		return 0;
	if (touched)
		return join(h, w, touched, lowest(touched), n);
	for (uint32_t first = 0; first < h->nnodes && !all; first++)
		if (w->nodes >> first & w->memory.base[n] >> first & w->cpus.base[n] >> first & 1)
			all = join(h, w, UINT64_C(1) << first, first, n);
	return all;
}
