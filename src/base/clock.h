/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* clock — the time since some moment, by a clock of the kernel's: CLOCK_MONOTONIC for how long something takes. */

#include <stdint.h>
#include <time.h>

/* In microseconds. clock_gettime(2) cannot fail for clocks that are there. */
static inline uint64_t clock_usec(clockid_t clock)
{
	struct timespec t = { 0 };

	(void)clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* In milliseconds, CLOCK_MONOTONIC. */
static inline uint64_t clock_ms(void)
{
	return clock_usec(CLOCK_MONOTONIC) / 1000;
}

/* What pthread_cond_timedwait(3) wants of clock_ms(). */
static inline struct timespec clock_at(uint64_t ms)
{
	return (struct timespec){ .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };
}
