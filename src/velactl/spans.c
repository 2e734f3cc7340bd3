/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/spans.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "velactl/doc.h"
#include "velactl/out.h"
#include "velactl/table.h"

#define TEXT_MAX 32

enum { STEP, TARGET, FROM, TO, BEGAN, TOOK, UNDO, DEADLINE, RESULT, NOTE, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[STEP] = { "STEP", CTL_LEFT },
	[TARGET] = { "TARGET", CTL_LEFT },
	[FROM] = { "FROM", CTL_LEFT, .drop = 2 },
	[TO] = { "TO", CTL_LEFT, .drop = 1 },
	[BEGAN] = { "BEGAN", CTL_RIGHT, .drop = 5 },
	[TOOK] = { "TOOK", CTL_RIGHT },
	[UNDO] = { "UNDO", CTL_RIGHT, .drop = 6 },
	[DEADLINE] = { "DEADLINE", CTL_RIGHT, .drop = 4 },
	[RESULT] = { "RESULT", CTL_LEFT },
	[NOTE] = { "NOTE", CTL_LEFT, .drop = 7 },
};

/* Three digits are enough to compare by; "" for what is no time. */
static const char *took_text(char buf[TEXT_MAX], int64_t us)
{
	*buf = '\0';
	if (us >= 0 && us < 1000)
		(void)snprintf(buf, TEXT_MAX, "%" PRId64 " us", us);
	else if (us >= 0 && us < 1000000)
		(void)snprintf(buf, TEXT_MAX, "%.*f ms", us < 10000, (double)us / 1e3);
	else if (us >= 0)
		(void)snprintf(buf, TEXT_MAX, "%.*f s", us < 100000000, (double)us / 1e6);
	return buf;
}

/* Microseconds since 1970 of "2026-03-01T10:00:00.123456Z"; -1: it is none. */
static int64_t moment(const char *text)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	char *end;
	long us;

	if (!rest || *rest != '.')
		return -1;
	us = strtol(rest + 1, &end, 10);
	return strcmp(end, "Z") == 0 && end - rest == 7 && us >= 0 ? (int64_t)timegm(&tm) * 1000000 + us : -1;
}

static int64_t step_us(json_object *step)
{
	return ctl_doc_int(step, "duration_us", 0) + ctl_doc_int(step, "undo_us", 0);
}

/* That nobody has to look for it; among one there is nothing to look for. */
static json_object *slowest(json_object *steps)
{
	json_object *found = NULL;
	size_t timed = 0;

	for (size_t i = 0; i < ctl_doc_count(steps); i++) {
		json_object *s = json_object_array_get_idx(steps, i);

		timed += step_us(s) > 0;
		if (step_us(s) > (found ? step_us(found) : 0))
			found = s;
	}
	return timed > 1 ? found : NULL;
}

static bool add_step(struct libscols_table *t, json_object *s, int64_t from, bool is_slowest)
{
	char began[TEXT_MAX] = "", took[TEXT_MAX], undo[TEXT_MAX], deadline[TEXT_MAX];
	const char *state = ctl_doc_text(s, "state");
	const char *cell[COLUMNS] = { ctl_doc_text(s, "id"), ctl_doc_text(s, "target"), ctl_doc_text(s, "from"), ctl_doc_text(s, "to"),
				      began, took, undo, deadline, state, is_slowest ? "slowest" : "" };
	int64_t at = moment(ctl_doc_text(s, "started")), ms = ctl_doc_int(s, "deadline_ms", -1);
	struct libscols_line *line;

	if (from >= 0 && at >= from)
		(void)snprintf(began, sizeof(began), "+%.3f s", (double)(at - from) / 1e6);
	(void)took_text(took, ctl_doc_int(s, "duration_us", -1));
	(void)took_text(undo, ctl_doc_int(s, "undo_us", -1));
	*deadline = '\0';
	if (ms >= 0)
		(void)snprintf(deadline, sizeof(deadline), "%g s", (double)ms / 1e3);
	line = ctl_table_row(t, NULL, cell, COLUMNS);
	if (line && is_slowest) {
		ctl_table_colour(line, TOOK, "bold");
		ctl_table_colour(line, NOTE, "bold");
	}
	if (line && strcmp(state, "failed") == 0)
		ctl_table_colour(line, RESULT, "red");
	else if (line && strcmp(state, "begun") == 0)
		ctl_table_colour(line, RESULT, "yellow");
	return line;
}

int ctl_spans_write(struct ctl_out *out, json_object *op, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(columns, COLUMNS);
	json_object *steps = ctl_doc_list(op, "steps"), *most = slowest(steps);
	int64_t from = moment(ctl_doc_text(op, "started"));
	char took[TEXT_MAX];
	bool ok = t;

	ctl_field_write(out, "took", took_text(took, ctl_doc_int(op, "duration_us", -1)));
	for (size_t i = 0; ok && i < ctl_doc_count(steps); i++) {
		json_object *s = json_object_array_get_idx(steps, i);

		ok = add_step(t, s, from, s == most);
	}
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for a table");
	if (ctl_doc_count(steps)) {
		sbuf_add(&out->text, "\n");
		ctl_table_print(out, t, columns, COLUMNS);
	}
	return 0;
}
