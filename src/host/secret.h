/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/secret — where a text host names the machine that it comes from (room-private): notations and keys. */

#include <stdbool.h>
#include <stddef.h>

#include "host/anonymize.h"

struct secret_shape {
	const char          *form; /* h: a hex digit; others stand for themselves */
	enum anonymize_class class;
	size_t               keep; /* leading digits that name nothing */
	bool                 gid;  /* 32 digits: subnet prefix and GUID */
	bool                 whole; /* only as the whole value of a key */
};

/* What begins at s and ends before end, at a word boundary; NULL: none. */
const struct secret_shape *secret_shape_at(const char *s, const char *end);
const struct secret_shape *secret_shape_whole(const char *s, size_t len);
size_t secret_ipv4(const char *s, const char *end); /* its length; 0: none */
size_t secret_ipv6(const char *s, const char *end);
bool   secret_is_version(const char *path); /* dotted numbers there are no addresses */

/* A part of a file that its key says to be secret. Start with an empty one; false: there is none further on. */
struct secret_span {
	size_t               at, len;
	enum anonymize_class class;
	size_t               next; /* where to look on */
};
bool secret_span_next(struct secret_span *span, const char *path, const char *text);
