/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* cpuset — a set of host CPUs, in the kernel's list form "0-3,8,10-11". */

#include <stdbool.h>
#include <stdint.h>

#define CPUSET_MAX 8192 /* NR_CPUS of the distribution kernels with MAXSMP */

struct cpuset {
	uint64_t word[CPUSET_MAX / 64];
};

struct sbuf;

int      cpuset_parse(struct cpuset *ret, const char *list); /* 0, -EINVAL, -ERANGE; "" is the empty set */
void     cpuset_write(struct sbuf *out, const struct cpuset *s);
unsigned cpuset_count(const struct cpuset *s);
int      cpuset_next(const struct cpuset *s, int after); /* the next CPU above `after`, or -1; start with -1 */

static inline bool cpuset_has(const struct cpuset *s, unsigned cpu)
{
	return cpu < CPUSET_MAX && s->word[cpu / 64] >> (cpu % 64) & 1;
}

static inline void cpuset_add(struct cpuset *s, unsigned cpu)
{
	if (cpu < CPUSET_MAX)
		s->word[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}
