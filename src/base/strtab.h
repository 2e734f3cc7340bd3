/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* strtab — one table per enum, so that the names on the wire cannot drift from the code.
 *
 *   static const char *const names[FOO_MAX_] = { [FOO_A] = "a", ... };
 *   const char *foo_text(enum foo v) { return strtab_text(names, FOO_MAX_, v); }
 *   int foo_parse(const char *s)     { return strtab_find(names, FOO_MAX_, s); } */

#include <string.h>

static inline const char *strtab_text(const char *const *names, int n, int v)
{
	return v >= 0 && v < n && names[v] ? names[v] : "?";
}

static inline int strtab_find(const char *const *names, int n, const char *text)
{
	for (int i = 0; i < n; i++)
		if (names[i] && strcmp(names[i], text) == 0)
			return i;
	return -1;
}
