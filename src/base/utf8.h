/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* utf8 — whether foreign bytes are text that JSON and a terminal can take. */

#include <stdbool.h>
#include <stddef.h>

/* The length of the character at s (RFC 3629): 1 to 4, also for the NUL at the end; 0: there is none. */
size_t utf8_len(const char *s);
/* UTF-8 without control characters, C1 included. */
bool   utf8_printable(const char *text);
