/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/cpuset.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/sbuf.h"

/* One CPU number at *p; -1 if there is none or it is too large. */
static int cpu_at(const char **p)
{
	int v = 0;

	if (!isdigit((unsigned char)**p))
		return -1;
	for (; isdigit((unsigned char)**p); (*p)++) {
		v = v * 10 + (**p - '0');
		if (v >= CPUSET_MAX)
			return -1;
	}
	return v;
}

int cpuset_parse(struct cpuset *ret, const char *list)
{
	struct cpuset s = { 0 };
	const char *p = list;

	while (*p) {
		int from = cpu_at(&p), to = from;

		if (from >= 0 && *p == '-') {
			p++;
			to = cpu_at(&p);
		}
		if (from < 0 || to < from)
			return -EINVAL;
		for (int c = from; c <= to; c++)
			cpuset_add(&s, (unsigned)c);
		if (*p == ',' && p[1])
			p++;
		else if (*p)
			return -EINVAL;
	}
	*ret = s;
	return 0;
}

int cpuset_next(const struct cpuset *s, int after)
{
	for (unsigned c = (unsigned)(after + 1); c < CPUSET_MAX; c++) {
		uint64_t rest = s->word[c / 64] >> (c % 64);

		if (rest)
			return (int)c + __builtin_ctzll(rest);
		c |= 63;
	}
	return -1;
}

unsigned cpuset_count(const struct cpuset *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CPUSET_MAX / 64; i++)
		n += (unsigned)__builtin_popcountll(s->word[i]);
	return n;
}

void cpuset_write(struct sbuf *out, const struct cpuset *s)
{
	const char *sep = "";

	for (int c = cpuset_next(s, -1); c >= 0;) {
		int end = c;

		while (cpuset_has(s, (unsigned)end + 1))
			end++;
		if (end == c)
			sbuf_addf(out, "%s%d", sep, c);
		else
			sbuf_addf(out, "%s%d-%d", sep, c, end);
		sep = ",";
		c = cpuset_next(s, end);
	}
}
