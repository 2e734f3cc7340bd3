/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* error — a number to branch on, a sentence to read.
 *
 * A failing function returns a negative errno and fills the caller's struct error exactly once, at the
 * origin (error_set); callers on the way up may add what they were doing (error_prefix). It lives on the
 * stack and never allocates, so it can report -ENOMEM. */

struct error {
	int  code;      /* negative errno; 0 while unset */
	char text[508]; /* what failed and on what, and the fix; no newline, no full stop */
};

#define ERROR_INIT ((struct error){ 0 })

/* Both return the code, so that `return error_set(...)` reads well. Text that does not fit is cut. */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The names of errors on the wire and in the store: a closed set, "internal" for the rest. */
const char *error_name(int code);
int         error_named(const char *name); /* the first code of that name; 0 if it is none */
