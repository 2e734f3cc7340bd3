/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/sbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool room_for(struct sbuf *b, size_t n)
{
	size_t size = b->size ? b->size : 256;
	char *p;

	if (b->failed)
		return false;
	while (size - b->len <= n && !__builtin_mul_overflow(size, 2, &size))
		;
	if (size == b->size)
		return true;
	p = size - b->len > n ? realloc(b->text, size) : NULL;
	if (!p) {
		b->failed = true;
		return false;
	}
	b->text = p;
	b->size = size;
	return true;
}

void sbuf_add_bytes(struct sbuf *b, const void *s, size_t n)
{
	if (!room_for(b, n))
		return;
	memcpy(b->text + b->len, s, n);
	b->len += n;
	b->text[b->len] = '\0';
}

void sbuf_add(struct sbuf *b, const char *s)
{
	sbuf_add_bytes(b, s, strlen(s));
}

void sbuf_addf(struct sbuf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !room_for(b, (size_t)n)) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(b->text + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

char *sbuf_steal(struct sbuf *b)
{
	char *p = NULL;

	if (!b->failed)
		p = b->text ? b->text : strdup("");
	if (p == b->text)
		b->text = NULL;
	sbuf_done(b);
	return p;
}

void sbuf_done(struct sbuf *b)
{
	free(b->text);
	*b = (struct sbuf){ 0 };
}
