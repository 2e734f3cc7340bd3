/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A growing list of blocks; allocation is a pointer bump. Not thread-safe: one owner at a time. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 16384

struct arena_block {
	struct arena_block *prev;
	size_t              used, size;
	alignas(max_align_t) unsigned char data[];
};

static struct arena_block *block_new(struct arena *a, size_t need)
{
	size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
	struct arena_block *b;

	if (size > SIZE_MAX - sizeof(*b))
		return NULL;
	b = calloc(1, sizeof(*b) + size);
	if (!b)
		return NULL;
	b->size = size;
	b->prev = a->last;
	a->last = b;
	return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
	const size_t align = alignof(max_align_t);
	struct arena_block *b = a->last;
	void *p;

	if (size > SIZE_MAX - align)
		return NULL;
	size = (size + align - 1) & ~(align - 1);
	if (!b || b->size - b->used < size)
		b = block_new(a, size);
	if (!b)
		return NULL;
	p = b->data + b->used;
	b->used += size;
	return p;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(n, size, &total))
		return NULL;
	return arena_alloc(a, total ? total : 1);
}

char *arena_strdup(struct arena *a, const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = arena_alloc(a, n);

	return p ? memcpy(p, s, n) : NULL;
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
{
	va_list again;
	char *p;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		return NULL;
	p = arena_alloc(a, (size_t)n + 1);
	if (p)
		(void)vsnprintf(p, (size_t)n + 1, fmt, ap);
	return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *p;

	va_start(ap, fmt);
	p = arena_vprintf(a, fmt, ap);
	va_end(ap);
	return p;
}

void arena_done(struct arena *a)
{
	while (a->last) {
		struct arena_block *b = a->last;

		a->last = b->prev;
		free(b);
	}
}
