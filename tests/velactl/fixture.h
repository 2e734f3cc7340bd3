/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What the tests of velactl share: JSON from text, and what was printed. */

#include "support.h"
#include "velactl/out.h"

static inline json_object *json_of(const char *text)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;

	if (json_parse(&o, text, strlen(text), 1 << 20, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return o;
}

/* The output must be this, and is forgotten. */
#define assert_printed(out, expected)                                                \
	do {                                                                         \
		assert_false((out)->text.failed);                                    \
		assert_string_equal((out)->text.text ? (out)->text.text : "", expected); \
		sbuf_done(&(out)->text);                                             \
	} while (0)

static inline size_t longest_line(const char *text)
{
	size_t most = 0;

	while (*text) {
		size_t len = strcspn(text, "\n");
		unsigned columns = 0;

		for (size_t i = 0; i < len; i++)
			columns += ((unsigned char)text[i] & 0xc0) != 0x80;
		most = columns > most ? columns : most;
		text += len + (text[len] == '\n');
	}
	return most;
}
