/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/table.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "velactl/doc.h"
#include "velactl/out.h"

struct libscols_table *ctl_table_new(const struct ctl_column *column, size_t n)
{
	auto_(scols_unref_table) struct libscols_table *t = scols_new_table();

	if (t && n && column[0].kind != CTL_TREE)
		(void)scols_table_set_column_separator(t, "  "); /* trees are wide enough */
	for (size_t i = 0; t && i < n; i++) {
		int flags = (column[i].kind == CTL_RIGHT ? SCOLS_FL_RIGHT : 0) |
			    (column[i].kind == CTL_TREE ? SCOLS_FL_TREE : 0) | (column[i].cut ? SCOLS_FL_TRUNC : 0);

		if (!scols_table_new_column(t, column[i].name, 0, flags))
			return NULL;
	}
	return steal(t);
}

struct libscols_line *ctl_table_row(struct libscols_table *t, struct libscols_line *parent, const char *const *cell,
				    size_t n)
{
	struct libscols_line *row = scols_table_new_line(t, parent);

	for (size_t i = 0; row && i < n; i++)
		if (cell[i] && *cell[i] && scols_line_set_data(row, i, cell[i]) < 0)
			return NULL;
	return row;
}

void ctl_table_colour(struct libscols_line *row, size_t cell, const char *colour)
{
	(void)scols_cell_set_color(scols_line_get_cell(row, cell), colour); /* a colour less is no loss */
}

static void hide(struct libscols_table *t, size_t i, bool yes)
{
	struct libscols_column *c = scols_table_get_column(t, i);
	int flags = scols_column_get_flags(c);

	(void)scols_column_set_flags(c, yes ? flags | SCOLS_FL_HIDDEN : flags & ~SCOLS_FL_HIDDEN);
}

static bool hidden(struct libscols_table *t, size_t i)
{
	return scols_column_is_hidden(scols_table_get_column(t, i));
}

static size_t widest(struct libscols_table *t, size_t i)
{
	struct libscols_iter *at = scols_new_iter(SCOLS_ITER_FORWARD);
	struct libscols_line *line;
	size_t most = 0;

	while (at && scols_table_next_line(t, at, &line) == 0) {
		const char *text = scols_cell_get_data(scols_line_get_cell(line, i));
		size_t n = text ? ctl_out_columns(text) : 0;

		most = n > most ? n : most;
	}
	scols_free_iter(at);
	return most;
}

/* As text; escape sequences and blanks at the ends of lines do not count. */
static bool too_wide(const char *text, unsigned width)
{
	unsigned column = 0;

	for (; *text; text++) {
		if (*text == '\033')
			text += strcspn(text, "m");
		else if (*text == '\n')
			column = 0;
		else if (((unsigned char)*text & 0xc0) != 0x80 && ++column > width && *text != ' ')
			return true;
	}
	return false;
}

/* Is there a value that was cut too short? */
static bool cut_short(struct libscols_table *t, const struct ctl_column *column, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t most = widest(t, i);

		if (column[i].cut && !hidden(t, i) &&
		    scols_column_get_width(scols_table_get_column(t, i)) < (most < column[i].cut ? most : column[i].cut))
			return true;
	}
	return false;
}

/* The next column to go; n: there is none. */
static size_t next_to_drop(struct libscols_table *t, const struct ctl_column *column, size_t n)
{
	size_t found = n;

	for (size_t i = 0; i < n; i++)
		if (column[i].drop && !hidden(t, i) && (found == n || column[i].drop < column[found].drop))
			found = i;
	return found;
}

/* scols pads cells even when nothing follows */
static void add_trimmed(struct ctl_out *o, const char *text)
{
	while (*text) {
		size_t line = strcspn(text, "\n"), len = line;

		while (len && text[len - 1] == ' ')
			len--;
		sbuf_add_bytes(&o->text, text, len);
		sbuf_add(&o->text, "\n");
		text += line + (text[line] == '\n');
	}
}

/* The table as text, if it can be read at this width; NULL: it cannot, or no memory. */
static char *render(struct ctl_out *o, struct libscols_table *t, const struct ctl_column *column, size_t n, bool force)
{
	autofree char *text = NULL;

	if (scols_print_table_to_string(t, &text) < 0 || !text) {
		o->text.failed = true;
		return NULL;
	}
	if (!force && o->width && (too_wide(text, o->width) || cut_short(t, column, n)))
		return NULL;
	return steal(text);
}

/* Columns come back, the last dropped first, where another one that went later made room. */
static char *refill(struct ctl_out *o, struct libscols_table *t, const struct ctl_column *column, size_t n,
		    const size_t *dropped, size_t ndropped, char *text)
{
	while (ndropped--) {
		char *more;

		hide(t, dropped[ndropped], false);
		more = render(o, t, column, n, false);
		hide(t, dropped[ndropped], !more);
		if (more) {
			free(text);
			text = more;
		}
	}
	return text;
}

void ctl_table_print(struct ctl_out *o, struct libscols_table *t, const struct ctl_column *column, size_t n)
{
	size_t dropped[CTL_COLUMNS_MAX], ndropped = 0, next;
	autofree char *text = NULL;

	(void)scols_table_enable_colors(t, o->colour);
	(void)scols_table_set_termforce(t, o->width ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
	(void)scols_table_set_termwidth(t, o->width ? o->width : 4096);
	for (size_t i = 0; i < n; i++)
		if (column[i].drop && widest(t, i) == 0)
			hide(t, i, true);
	text = render(o, t, column, n, false);
	while (!text && !o->text.failed) {
		next = ndropped < CTL_COLUMNS_MAX ? next_to_drop(t, column, n) : n;
		if (next < n) {
			hide(t, next, true);
			dropped[ndropped++] = next;
		}
		text = render(o, t, column, n, next == n);
	}
	if (text && ndropped)
		text = refill(o, t, column, n, dropped, ndropped - 1, text);
	add_trimmed(o, text ? text : "");
}

int ctl_table_list(struct ctl_out *o, json_object *list, const struct ctl_column *column, size_t n,
		   bool (*add)(struct libscols_table *t, json_object *item), const char *none, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(column, n);
	bool ok = t;

	for (size_t i = 0; ok && i < ctl_doc_count(list); i++)
		ok = add(t, json_object_array_get_idx(list, i));
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for a table");
	if (ctl_doc_count(list))
		ctl_table_print(o, t, column, n);
	else if (none)
		(void)fprintf(stderr, "%s\n", none);
	return 0;
}
