/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* base/backoff — how long to wait after a failure: twice as long after each. What fails before that time is over fails for the same reason,
 * and makes nobody wait for longer. */

#include <stdint.h>

struct backoff { /* all 0: nothing failed */
	unsigned ms;    /* to wait */
	uint64_t until; /* of clock_ms() */
};

/* first, then doubled until it is max, ms. */
static inline void backoff_failed(struct backoff *b, uint64_t now, unsigned first, unsigned max)
{
	if (b->ms && now < b->until)
		return;
	b->ms = b->ms == 0 ? first : b->ms < max ? 2 * b->ms : b->ms;
	b->until = now + b->ms;
}

/* Whole seconds from now on, for sentences. */
static inline unsigned backoff_seconds(const struct backoff *b, uint64_t now)
{
	return (unsigned)((b->until - now + 999) / 1000);
}
