/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/sets — sets of sets of up to eight GPUs: a bit for each of the 256 (room-private, few.c's). */

#include <string.h>

#include "plan/search.h"

#define ALL 0xff /* GPUs */

static const uint64_t with_word[6] = { UINT64_C(0xaaaaaaaaaaaaaaaa), UINT64_C(0xcccccccccccccccc), UINT64_C(0xf0f0f0f0f0f0f0f0),
				       UINT64_C(0xff00ff00ff00ff00), UINT64_C(0xffff0000ffff0000), UINT64_C(0xffffffff00000000) };

static inline struct sets both(struct sets a, struct sets b)
{
	return (struct sets){ { a.w[0] & b.w[0], a.w[1] & b.w[1], a.w[2] & b.w[2], a.w[3] & b.w[3] } };
}

static inline struct sets either(struct sets a, struct sets b)
{
	return (struct sets){ { a.w[0] | b.w[0], a.w[1] | b.w[1], a.w[2] | b.w[2], a.w[3] | b.w[3] } };
}

static inline struct sets but_not(struct sets a, struct sets b)
{
	return (struct sets){ { a.w[0] & ~b.w[0], a.w[1] & ~b.w[1], a.w[2] & ~b.w[2], a.w[3] & ~b.w[3] } };
}

static inline bool any(struct sets a)
{
	return (a.w[0] | a.w[1] | a.w[2] | a.w[3]) != 0;
}

static inline struct sets none(void)
{
	return (struct sets){ { 0 } };
}

static inline struct sets every(void)
{
	return (struct sets){ { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };
}

/* Sets that have this GPU. */
static inline struct sets with(uint32_t g)
{
	uint64_t w = g < 6 ? with_word[g] : 0;

	return (struct sets){ { w, w | (uint64_t)-(g == 6), w | (uint64_t)-(g == 7), w | (uint64_t)-(g >= 6) } };
}

/* Sets with all of `least`, any of `more` or none, and no others. */
static inline struct sets between(uint32_t least, uint32_t more)
{
	uint64_t w = UINT64_C(1) << (least & 63);
	struct sets ret;

#pragma GCC unroll 6
	for (uint32_t d = 0; d < 6; d++)
		w |= w << (1u << d) & -(uint64_t)(more >> d & 1);
#pragma GCC unroll 4
	for (uint32_t i = 0; i < 4; i++)
		ret.w[i] = (i & ~(more >> 6)) == least >> 6 ? w : 0;
	return ret;
}

static inline struct sets of_these(uint32_t gpus)
{
	return between(0, gpus);
}

static inline struct sets with_all(uint32_t gpus)
{
	return between(gpus, ALL & ~gpus);
}

static inline struct sets with_any(uint32_t gpus)
{
	return but_not(every(), of_these(ALL & ~gpus));
}

/* Sets with so many of these at least. */
static inline struct sets at_least(const struct solve_few *few, uint32_t gpus, uint32_t n)
{
	const uint64_t *many = few->many[gpus & 63];
	uint32_t six = gpus >> 6 & 1, seven = gpus >> 7 & 1;

	n = (n > SOLVE_FEW ? SOLVE_FEW + 1 : n) + 2; /* many[0] is of -2 */
	return (struct sets){ { many[n], many[n - six], many[n - seven], many[n - six - seven] } };
}

/* And those that have some of these GPUs more. */
static inline struct sets with_more(struct sets a, uint32_t gpus)
{
	for (; gpus & 63; gpus &= gpus - 1) {
		uint32_t d = lowest(gpus), by = 1u << d;

		for (uint32_t w = 0; w < 4; w++)
			a.w[w] |= (a.w[w] & ~with_word[d]) << by;
	}
	if (gpus & 64) {
		a.w[1] |= a.w[0];
		a.w[3] |= a.w[2];
	}
	if (gpus & 128) {
		a.w[2] |= a.w[0];
		a.w[3] |= a.w[1];
	}
	return a;
}

/* And those that lack one of these GPUs. */
static inline struct sets with_one_less(struct sets a, uint32_t gpus)
{
	struct sets ret = a;

	for (uint32_t left = gpus & 63; left; left &= left - 1)
#pragma GCC unroll 4
		for (uint32_t w = 0; w < 4; w++)
			ret.w[w] |= (a.w[w] & with_word[lowest(left)]) >> (left & -left);
	if (gpus & 64) {
		ret.w[0] |= a.w[1];
		ret.w[2] |= a.w[3];
	}
	if (gpus & 128) {
		ret.w[0] |= a.w[2];
		ret.w[1] |= a.w[3];
	}
	return ret;
}

/* All with one of these in them. */
static inline struct sets with_all_more(struct sets a)
{
#pragma GCC unroll 6
	for (uint32_t d = 0; d < 6; d++)
#pragma GCC unroll 4
		for (uint32_t w = 0; w < 4; w++)
			a.w[w] |= (a.w[w] & ~with_word[d]) << (1u << d);
	a.w[1] |= a.w[0];
	a.w[3] |= a.w[2];
	a.w[2] |= a.w[0];
	a.w[3] |= a.w[1];
	return a;
}
