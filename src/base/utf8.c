/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/utf8.h"

#include <stdint.h>

/* Overlong forms and surrogates are none. */
size_t utf8_len(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t n = u[0] < 0x80 ? 1 : u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
	uint32_t c = n == 1 ? u[0] : u[0] & (0x7fu >> n);
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	if ((u[0] >= 0x80 && u[0] < 0xc0) || u[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++) { /* the NUL at the end is no continuation, either */
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (u[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

bool utf8_printable(const char *text)
{
	for (size_t n; *text; text += n) {
		const unsigned char *u = (const unsigned char *)text;

		n = utf8_len(text);
		if (n == 0 || u[0] < 0x20 || u[0] == 0x7f || (u[0] == 0xc2 && u[1] < 0xa0))
			return false;
	}
	return true;
}
