/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl pool show, plan, apply and release. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"
#include "velactl/wait.h"

static const struct ctl_column columns[] = {
	{ "STEP", CTL_LEFT }, { "TARGET", CTL_LEFT }, { "FROM", CTL_LEFT }, { "TO", CTL_LEFT }, { "STATE", CTL_LEFT },
};

/* without: a step that is so already is left out. */
static bool write_steps(struct ctl_out *out, json_object *steps, bool without, size_t *n)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(columns, ARRAY_SIZE(columns));
	bool ok = t;

	*n = 0;
	for (size_t i = 0; ok && i < ctl_doc_count(steps); i++) {
		json_object *s = json_object_array_get_idx(steps, i);
		const char *from = ctl_doc_text(s, "from"), *to = ctl_doc_text(s, "to"), *state = ctl_doc_text(s, "state");
		const char *cell[] = { ctl_doc_text(s, "id"), ctl_doc_text(s, "target"), from, to,
				       *state ? state : strcmp(from, to) == 0 ? "is so" : "" };

		if (without && strcmp(from, to) == 0)
			continue;
		++*n;
		ok = ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));
	}
	if (ok && *n)
		ctl_table_print(out, t, columns, ARRAY_SIZE(columns));
	return ok;
}

static void write_skipped(struct ctl_out *out, json_object *skipped)
{
	for (size_t i = 0; i < ctl_doc_count(skipped); i++) {
		json_object *s = json_object_array_get_idx(skipped, i);
		struct ctl_out line = { 0 };

		sbuf_addf(&line.text, "%s: %s", ctl_doc_text(s, "device"), ctl_doc_text(s, "why"));
		sbuf_add(&out->text, "- ");
		ctl_out_wrap(out, line.text.text ? line.text.text : "", 2);
		sbuf_done(&line.text);
	}
}

static int write_plan(struct ctl *c, json_object *doc, struct error *err)
{
	size_t n;

	if (!write_steps(&c->out, ctl_doc_list(doc, "steps"), false, &n))
		return error_set(err, -ENOMEM, "no memory for the table");
	if (!n)
		sbuf_add(&c->out.text, "[pool] of velad.conf names no device of this host\n");
	write_skipped(&c->out, ctl_doc_list(doc, "skipped"));
	return 0;
}

static int write_show(struct ctl *c, json_object *doc, struct error *err)
{
	size_t n;

	if (!write_steps(&c->out, ctl_doc_list(doc, "held"), false, &n))
		return error_set(err, -ENOMEM, "no memory for the table");
	if (!n)
		sbuf_add(&c->out.text, "nothing is in the pool\n");
	if (*ctl_doc_text(doc, "error"))
		ctl_out_wrap(&c->out, ctl_doc_text(doc, "error"), 0);
	write_skipped(&c->out, ctl_doc_list(doc, "skipped"));
	return 0;
}

/* What a release would give back: the other way round. */
static int write_release(struct ctl *c, json_object *doc, struct error *err)
{
	size_t n;

	if (!write_steps(&c->out, ctl_doc_list(doc, "held"), true, &n))
		return error_set(err, -ENOMEM, "no memory for the table");
	sbuf_add(&c->out.text, n ? "of each, FROM comes back, unless a guest needs it\n" : "nothing to give back\n");
	return 0;
}

static enum ctl_exit show(struct ctl *c, int (*write)(struct ctl *, json_object *, struct error *))
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	int r = ctl_source_pool(&doc, c, &err);

	if (r < 0 || (!c->args.json && write(c, doc, &err) < 0))
		return ctl_fail(c, &err);
	if (c->args.json)
		ctl_out_json(&c->out, doc);
	return CTL_OK;
}

static enum ctl_exit change(struct ctl *c, const char *path)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;

	return ctl_remote(&doc, c, "POST", path, NULL, &err) < 0 ? ctl_fail(c, &err) : ctl_accepted(c, doc);
}

enum ctl_exit ctl_pool_show(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return show(c, write_show);
}

enum ctl_exit ctl_pool_plan(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return show(c, write_plan);
}

enum ctl_exit ctl_pool_apply(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return c->args.dry_run ? show(c, write_plan) : change(c, "/v1/pool/apply");
}

enum ctl_exit ctl_pool_release(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return c->args.dry_run ? show(c, write_release) : change(c, "/v1/pool/release");
}
