/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/table — libsmartcols for our purposes: tables and trees that never are wider than the output. */

#include <libsmartcols/libsmartcols.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

struct ctl_out;
struct error;
struct json_object;

#define CTL_COLUMNS_MAX 16

enum ctl_column_kind { CTL_LEFT, CTL_RIGHT, CTL_TREE };

struct ctl_column {
	const char          *name;
	#define CTL_COLUMNS_MAX 16

enum ctl_column_kind kind;
	unsigned             drop; /* a column that is too much for a narrow terminal: 1 goes first; 0 never */
	unsigned             cut;  /* long values may be cut to so many columns instead; 0: no */
};

AUTO_DEFINE(struct libscols_table *, scols_unref_table);

/* NULL: no memory */
struct libscols_table *ctl_table_new(const struct ctl_column *column, size_t n);
/* A row; cells NULL or "" stay empty. parent NULL: a top row. */
struct libscols_line *ctl_table_row(struct libscols_table *t, struct libscols_line *parent,
				    const char *const *cell, size_t n);
/* colour: of libsmartcols, "red" or "bold" */
void ctl_table_colour(struct libscols_line *row, size_t cell, const char *colour);
/* One row for each of a list, by add, which fails without memory. An empty list: none, on standard error, because scripts
 * count lines. -ENOMEM. */
int ctl_table_list(struct ctl_out *o, struct json_object *list, const struct ctl_column *column, size_t n,
		   bool (*add)(struct libscols_table *t, struct json_object *item), const char *none, struct error *err);
/* Drops empty columns that may be dropped, and those there is no room for; lines have no blanks at their end. */
void ctl_table_print(struct ctl_out *o, struct libscols_table *t, const struct ctl_column *column, size_t n);
