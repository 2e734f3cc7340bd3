/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* arena — memory for things that die together. Objects in it have no free function. */

#include <stdarg.h>
#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *last; /* owned, newest first */
};

/* Zeroed memory, aligned for any type; NULL when memory is out. arena_done() frees everything and
 * leaves an empty arena. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_array(struct arena *a, size_t n, size_t size); /* NULL on overflow of n * size too */
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void  arena_done(struct arena *a);
