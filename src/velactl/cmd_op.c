/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl op list, show, wait, cancel. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/parse.h"
#include "plan/request.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/spans.h"
#include "velactl/table.h"
#include "velactl/wait.h"

static int parse_id(uint64_t *ret, const char *text, struct error *err)
{
	if (parse_uint(ret, text, 10, INT64_MAX) < 0)
		return error_set(err, -EINVAL, "\"%.40s\" is not the number of an operation", text);
	return 0;
}

/* ---- list --------------------------------------------------------------------------------------- */

enum { ID, KIND, GUEST, STATE, STEPS, CREATED, FINISHED, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[ID] = { "ID", CTL_RIGHT },	  [KIND] = { "KIND", CTL_LEFT },
	[GUEST] = { "GUEST", CTL_LEFT, .drop = 4 }, [STATE] = { "STATE", CTL_LEFT },
	[STEPS] = { "STEPS", CTL_RIGHT, .drop = 3 },	  [CREATED] = { "CREATED", CTL_LEFT, .drop = 2 },
	[FINISHED] = { "FINISHED", CTL_LEFT, .drop = 1 },
};

static bool add_op(struct libscols_table *t, json_object *op)
{
	json_object *progress = ctl_doc_get(op, "progress");
	const char *state = ctl_doc_text(op, "state");
	int64_t tries = ctl_doc_int(op, "tries", 0);
	char id[24], steps[48], again[48];
	const char *cell[COLUMNS] = { id, ctl_doc_text(op, "kind"), ctl_doc_text(op, "instance"), again, steps,
				      ctl_doc_text(op, "created"), ctl_doc_text(op, "finished") };
	struct libscols_line *line;

	(void)snprintf(id, sizeof(id), "%" PRId64, ctl_doc_int(op, "id", 0));
	(void)snprintf(steps, sizeof(steps), "%" PRId64 "/%" PRId64, ctl_doc_int(progress, "done", 0), ctl_doc_int(progress, "total", 0));
	(void)snprintf(again, sizeof(again), tries && !ctl_doc_get(op, "finished") ? "%s, try %" PRId64 : "%s", state, tries + 1);
	line = ctl_table_row(t, NULL, cell, COLUMNS);
	if (line && (strcmp(state, "failed") == 0 || strchr(again, ',')))
		ctl_table_colour(line, STATE, "red");
	return line;
}

static int write_list(struct ctl_out *out, json_object *doc, struct error *err)
{
	return ctl_table_list(out, ctl_doc_list(doc, "operations"), columns, COLUMNS, add_op, "no operations", err);
}

/* The newest; all of them is what -o json and the API's pages are for. */
enum ctl_exit ctl_op_list(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	char path[96];

	if (n && strspn(arg[0], "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(arg[0])) {
		(void)error_set(&err, -EINVAL, "\"%.60s\" cannot be a guest's name", arg[0]);
		return ctl_fail(c, &err);
	}
	(void)snprintf(path, sizeof(path), "/v1/operations%s%.*s", n ? "?instance=" : "", PLAN_NAME_MAX, n ? arg[0] : "");
	return ctl_show_doc(c, path, write_list);
}

/* ---- one ---------------------------------------------------------------------------------------- */

static int write_operation(struct ctl_out *out, json_object *op, struct error *err)
{
	json_object *error = ctl_doc_get(op, "error");

	ctl_number_write(out, "operation", op, "id");
	ctl_field_write(out, "kind", ctl_doc_text(op, "kind"));
	ctl_field_write(out, "guest", ctl_doc_text(op, "instance"));
	ctl_field_write(out, "state", ctl_doc_text(op, "state"));
	ctl_field_write(out, "error", ctl_doc_text(error, "detail"));
	if (ctl_doc_int(op, "tries", 0) > 0)
		ctl_number_write(out, "tries", op, "tries");
	ctl_field_write(out, "next try", ctl_doc_text(op, "next_try"));
	ctl_field_write(out, "scrub", ctl_doc_text(op, "scrub"));
	ctl_field_write(out, "created", ctl_doc_text(op, "created"));
	ctl_field_write(out, "started", ctl_doc_text(op, "started"));
	ctl_field_write(out, "finished", ctl_doc_text(op, "finished"));
	return ctl_spans_write(out, op, err);
}

enum ctl_exit ctl_op_show(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	uint64_t id = 0;
	char path[96];

	(void)n;
	if (parse_id(&id, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	(void)snprintf(path, sizeof(path), "/v1/operations/%" PRIu64, id);
	return ctl_show_doc(c, path, write_operation);
}

enum ctl_exit ctl_op_wait(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	uint64_t id = 0;

	(void)n;
	if (parse_id(&id, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	return ctl_wait(c, id, CTL_WAIT_LOOK);
}

enum ctl_exit ctl_op_cancel(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	uint64_t id = 0;
	char path[96];

	(void)n;
	if (parse_id(&id, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	(void)snprintf(path, sizeof(path), "/v1/operations/%" PRIu64 "/cancel", id);
	if (ctl_remote(&op, c, "POST", path, NULL, &err) < 0)
		return ctl_fail(c, &err);
	if (!c->args.no_wait)
		return ctl_wait(c, id, CTL_WAIT_CANCEL);
	return ctl_accepted(c, op);
}
