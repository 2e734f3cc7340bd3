/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl watch: a line for each change, until somebody stops it. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/feed.h"

/* A member of any type; null is "-". */
static void write_value(struct ctl_out *out, json_object *v)
{
	ctl_out_safe(out, v ? json_object_is_type(v, json_type_string) ? json_object_get_string(v) :
			       json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "-");
}

void ctl_change_line(struct ctl_out *out, const char *when, int64_t generation, json_object *item)
{
	const char *what = ctl_doc_text(item, "what"), *bdf = ctl_doc_text(item, "bdf"), *kind = ctl_doc_text(item, "kind");

	char clock[9];

	(void)snprintf(clock, sizeof(clock), "%s", when);
	ctl_out_cell(out, clock, 8);
	sbuf_addf(&out->text, " %6" PRId64 "  ", generation);
	ctl_out_cell(out, *bdf ? bdf : "host", 12);
	sbuf_add(&out->text, "  ");
	ctl_out_cell(out, *kind ? kind : "-", 9);
	sbuf_add(&out->text, "  ");
	if (strcmp(what, "changed") == 0) {
		ctl_out_safe(out, ctl_doc_text(item, "field"));
		sbuf_add(&out->text, "  ");
		write_value(out, ctl_doc_get(item, "old"));
		sbuf_add(&out->text, " -> ");
		write_value(out, ctl_doc_get(item, "new"));
	} else {
		ctl_out_safe(out, what);
	}
	ctl_out_end(out);
}

/* One document a line: the item, its generation and time. */
static void write_json(struct ctl_out *out, json_object *change, json_object *item)
{
	struct json_out o = json_out_new();

	json_add(&o, "generation", json_object_get(ctl_doc_get(change, "generation")));
	json_add(&o, "time", json_object_get(ctl_doc_get(change, "time")));
	json_object_object_foreach(item, key, value)
		json_add(&o, key, json_object_get(value));
	sbuf_add(&out->text, json_object_to_json_string_ext(o.obj, JSON_C_TO_STRING_PLAIN));
	sbuf_add(&out->text, "\n");
	json_object_put(o.obj);
}

static void write_change(struct ctl *c, json_object *change)
{
	json_object *items = ctl_doc_list(change, "items");
	const char *time = ctl_doc_text(change, "time"), *when = strchr(time, 'T');

	for (size_t i = 0; i < ctl_doc_count(items); i++) {
		json_object *item = json_object_array_get_idx(items, i);

		if (c->args.json && json_object_is_type(item, json_type_object))
			write_json(&c->out, change, item);
		else if (!c->args.json)
			ctl_change_line(&c->out, when ? when + 1 : "-", ctl_doc_int(change, "generation", 0), item);
	}
}

enum ctl_exit ctl_watch(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(feed_close) struct feed *feed = NULL;
	struct error err = ERROR_INIT;

	(void)arg, (void)n; /* it takes none */
	if (feed_open(&feed, c, &err) < 0)
		return ctl_fail(c, &err);
	while (!c->out.error) { /* nobody reads any more */
		auto_(json_object_put) json_object *changes = NULL;
		int r = feed_next(feed, &changes, &err);

		if (r < 0)
			return ctl_fail(c, &err);
		if (r == 1)
			(void)fputs("velactl: changes were missed: velad was started anew, or there were too many\n", stderr);
		for (size_t i = 0; i < ctl_doc_count(changes); i++)
			write_change(c, json_object_array_get_idx(changes, i));
		ctl_out_flush(&c->out);
	}
	return CTL_OK;
}
