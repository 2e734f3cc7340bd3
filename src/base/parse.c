/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Without ctype.h: a big host has some 100,000 digits to read. */
static inline int digit(char c, int base)
{
	unsigned d = (unsigned char)c - (unsigned)'0', letter = ((unsigned char)c | 0x20u) - 'a';

	if (d > 9)
		d = letter < 6 ? letter + 10 : 16;
	return (int)d < base ? (int)d : -1;
}

/* The number at *text; *text moves past its digits. */
static int scan_uint(uint64_t *ret, const char **text, int base, uint64_t max)
{
	uint64_t v = 0;
	bool over = false;
	const char *p = *text;
	int d;

	if (base == 16 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && digit(p[2], 16) >= 0)
		p += 2;
	if (digit(*p, base) < 0)
		return -EINVAL;
	for (; (d = digit(*p, base)) >= 0; p++)
		over = over || __builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, (uint64_t)d, &v);
	*text = p;
	if (over || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_uint(uint64_t *ret, const char *text, int base, uint64_t max)
{
	uint64_t v = 0;
	int r = scan_uint(&v, &text, base, max);

	if (r == -EINVAL || *text)
		return -EINVAL;
	if (r == 0)
		*ret = v;
	return r;
}

int parse_int(int64_t *ret, const char *text, int64_t min, int64_t max)
{
	bool neg = *text == '-';
	uint64_t v = 0;
	int64_t n;
	int r = parse_uint(&v, text + neg, 10, INT64_MAX);

	if (r < 0)
		return r;
	n = neg ? -(int64_t)v : (int64_t)v;
	if (n < min || n > max)
		return -ERANGE;
	*ret = n;
	return 0;
}

int parse_size(uint64_t *ret, const char *text)
{
	static const char units[] = "KMGT";
	uint64_t v = 0;
	const char *u;
	int r = scan_uint(&v, &text, 10, UINT64_MAX);

	if (r < 0)
		return r;
	if (!*text || strcasecmp(text, "b") == 0) {
		*ret = v;
		return 0;
	}
	u = strchr(units, toupper((unsigned char)*text));
	if (!u || (text[1] && strcasecmp(text + 1, "ib") != 0 && strcasecmp(text + 1, "b") != 0))
		return -EINVAL;
	if (__builtin_mul_overflow(v, UINT64_C(1) << (10 * (u - units + 1)), &v))
		return -ERANGE;
	*ret = v;
	return 0;
}

const char *size_text(char buf[SIZE_TEXT_MAX], uint64_t bytes)
{
	static const char units[] = "\0KMGT";
	int i = 0;

	while (bytes && bytes % 1024 == 0 && i < 4) {
		bytes /= 1024;
		i++;
	}
	(void)snprintf(buf, SIZE_TEXT_MAX, "%" PRIu64 "%.1s", bytes, units + i);
	return buf;
}
