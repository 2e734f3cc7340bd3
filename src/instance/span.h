/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* span — when something began, for people, and how long it took, by a clock that nobody sets. */

#include <stdint.h>
#include <time.h>

struct span {
	int64_t began; /* microseconds since 1970; 0 not yet */
	int64_t took;  /* microseconds; 0 while it lasts */
	int64_t from;  /* of the other clock */
};

static inline int64_t span_clock(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t); /* cannot fail for clocks that are there */
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline struct span span_begin(void)
{
	return (struct span){ .began = span_clock(CLOCK_REALTIME), .from = span_clock(CLOCK_MONOTONIC) };
}

static inline void span_end(struct span *s)
{
	s->took = span_clock(CLOCK_MONOTONIC) - s->from;
	if (s->took == 0)
		s->took = 1; /* 0 is: it lasts */
}
