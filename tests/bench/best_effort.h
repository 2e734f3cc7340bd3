/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* go-gpuallocator's objective, written anew: free GPUs, filled up with none, are parted into sets of the size; the parting
 * with the highest sum of pair scores wins, and in it the set with the highest. Scores as there: one switch 50, one CPU 20,
 * else 10; NVLink is the same between all here. It does not know NICs, links and partitions. */

#include <stdbool.h>
#include <stdint.h>

#include "topo/topo.h"

#define PARTED_MAX 16

struct parting {
	unsigned    size;
	const bool *good; /* by set: the policy may take it; NULL: any */
	const uint8_t (*pair)[PARTED_MAX];
	unsigned    best, best_sum, best_score;
};

static uint8_t pair_score(unsigned class)
{
	return class == TOPO_PIX ? 50 : class == TOPO_NODE ? 20 : 10;
}

struct parted { /* so far */
	unsigned left, pad, sum, pick, pick_score;
};

static void part(struct parting *p, struct parted d);

/* A set of n, and what its pairs are worth; then those with more of `from`. */
static void choose_set(struct parting *p, struct parted d, unsigned set, unsigned n, unsigned score, unsigned from)
{
	if (p->size - n <= d.pad) {
		bool take = n == p->size && (!p->good || p->good[set]) && (!d.pick || score > d.pick_score);

		part(p, (struct parted){ d.left & ~set, d.pad - (p->size - n), d.sum + score, take ? set : d.pick,
					 take ? score : d.pick_score });
	}
	for (; from && n < p->size; from &= from - 1) {
		unsigned more = score;

		for (unsigned in = set; in; in &= in - 1)
			more += p->pair[__builtin_ctz(in)][__builtin_ctz(from)];
		choose_set(p, d, set | (from & -from), n + 1, more, from & (from - 1));
	}
}

static void part(struct parting *p, struct parted d)
{
	if (d.left)
		choose_set(p, d, d.left & -d.left, 1, 0, d.left & (d.left - 1));
	else if (d.pick && (d.sum > p->best_sum || !p->best || (d.sum == p->best_sum && d.pick_score > p->best_score)))
		*p = (struct parting){ .size = p->size, .good = p->good, .pair = p->pair, .best = d.pick, .best_sum = d.sum,
				       .best_score = d.pick_score };
}

/* The set that it takes of `free`; 0: none. */
static unsigned best_effort(struct parting *p, unsigned free)
{
	unsigned over = (unsigned)__builtin_popcount(free) % p->size;

	p->best = p->best_sum = p->best_score = 0;
	part(p, (struct parted){ .left = free, .pad = over ? p->size - over : 0 });
	return p->best;
}
