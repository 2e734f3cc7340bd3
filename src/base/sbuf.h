/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* sbuf — a growing string with a sticky out-of-memory flag: append freely, check once at the end. */

#include <stdbool.h>
#include <stddef.h>

struct sbuf {
	char  *text; /* owned, NUL-terminated once something was added; NULL while empty */
	size_t len, size;
	bool   failed;
};

void  sbuf_add(struct sbuf *b, const char *s);
void  sbuf_add_bytes(struct sbuf *b, const void *s, size_t n);
void  sbuf_addf(struct sbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *sbuf_steal(struct sbuf *b); /* the text ("" if empty); NULL if memory ran out; the caller frees */
void  sbuf_done(struct sbuf *b);
