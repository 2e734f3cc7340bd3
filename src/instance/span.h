/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* span — when something began, for people, and how long it took, by a clock that nobody sets. */

#include <stdint.h>
#include <time.h>

#include "base/clock.h"

struct span {
	int64_t began; /* microseconds since 1970; 0 not yet */
	int64_t took;  /* microseconds; 0 while it lasts */
	int64_t from;  /* of the other clock */
	unsigned limit; /* ms: the longest that one of its calls may take; 0 none had a deadline */
};

static inline struct span span_begin(void)
{
	return (struct span){ .began = (int64_t)clock_usec(CLOCK_REALTIME), .from = (int64_t)clock_usec(CLOCK_MONOTONIC) };
}

static inline void span_end(struct span *s)
{
	s->took = (int64_t)clock_usec(CLOCK_MONOTONIC) - s->from;
	if (s->took == 0)
		s->took = 1; /* 0 is: it lasts */
}
