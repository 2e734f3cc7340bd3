/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/out — what goes to standard output, and how wide and how colourful it may be. */

#include <stdbool.h>

#include "base/sbuf.h"

struct json_object;

struct ctl_out {
	struct sbuf text;   /* not written yet */
	unsigned    width;  /* of a line; 0: no limit */
	bool        colour; /* escape sequences are welcome */
	bool        moves;  /* a line may be written over: a terminal that can */
	int         error;  /* errno of the first failed write */
};

/* A terminal: its width, and colours unless NO_COLOR is set (no-color.org). Else COLUMNS, and none. */
void ctl_out_init(struct ctl_out *o);
/* Writes what is there. A failure is kept; later ones do nothing. */
void ctl_out_flush(struct ctl_out *o);
/* Flushes, frees, and returns 0 or the errno of the first failure. */
int ctl_out_done(struct ctl_out *o);

/* Foreign text: control characters, which could move the cursor or more, become "?". */
void ctl_out_safe(struct ctl_out *o, const char *text);
/* A paragraph of foreign text, wrapped between words; lines after the first begin with `hang` blanks. */
void ctl_out_wrap(struct ctl_out *o, const char *text, unsigned hang);
/* text, padded with blanks to n columns; one that is longer is cut and ends with "..." */
void ctl_out_cell(struct ctl_out *o, const char *text, unsigned n);
void ctl_out_end(struct ctl_out *o); /* a newline, in the place of blanks */
/* "name       value", wrapped; nothing for "" and for what is no number */
void ctl_field_write(struct ctl_out *out, const char *name, const char *value);
void ctl_number_write(struct ctl_out *out, const char *name, struct json_object *doc, const char *key);
void ctl_out_json(struct ctl_out *o, struct json_object *doc); /* pretty, with a newline */

unsigned ctl_out_columns(const char *utf8); /* that a text takes on a terminal */
