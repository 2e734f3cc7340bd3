/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/score — what makes one bundle better than another: numbers, smaller is better, the first that differs
 * decides. docs/placement.md says why in this order. */

#include <stdbool.h>
#include <stdint.h>

enum score_term {
	SCORE_PATH,      /* enum topo_class: the farthest GPU from its NIC */
	SCORE_BANDWIDTH, /* rank of the narrowest GPU-NIC way of the bundle; 0: the widest that the host has */
	SCORE_GPU_PATH,  /* enum topo_class: the two GPUs farthest from each other */
	SCORE_NODES,     /* NUMA nodes that the guest spans */
	SCORE_SHARING,   /* VFs on the fullest PF that the bundle uses, those of others too */
	SCORE_LEFTOVER,  /* what cannot become bundles any more: solve_leftover() */
	SCORE_WEAR,      /* sum over the GPUs */
	SCORE_TERMS,
};

struct score {
	uint32_t term[SCORE_TERMS];
};

static inline bool score_less(const struct score *a, const struct score *b)
{
	for (int i = 0; i < SCORE_TERMS; i++)
		if (a->term[i] != b->term[i])
			return a->term[i] < b->term[i];
	return false;
}

/* The first term in which the two differ; SCORE_TERMS: none. */
enum score_term score_differ(const struct score *a, const struct score *b);
