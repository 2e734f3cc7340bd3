/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl doctor: the checks of a host. Findings that differ only in their component are shown as one. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "check/check.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"

#define SHOWN 6 /* components of a group that are named in its text */

struct group {
	json_object *first;
	const char  *key;  /* id, result and texts, the component's name taken out */
	const char **component;
	size_t       n, size;
	const char  *observed, *needed, *fix; /* as shown: of several, with BDF for the component */
};

struct groups {
	struct arena  arena;
	struct group *group;
	size_t        n;
	bool          oom;
};

/* text with each `name` in it as BDF */
static const char *nameless(struct groups *g, const char *text, const char *name)
{
	struct sbuf b = { 0 };
	const char *hit, *ret;
	size_t len = strlen(name);

	for (; len && (hit = strstr(text, name)); text = hit + len) {
		sbuf_add_bytes(&b, text, (size_t)(hit - text));
		sbuf_add(&b, "BDF");
	}
	sbuf_add(&b, text);
	ret = b.failed ? NULL : arena_strdup(&g->arena, b.text ? b.text : "");
	sbuf_done(&b);
	g->oom = g->oom || !ret;
	return ret ? ret : "";
}

static void add_component(struct groups *g, struct group *to, const char *name)
{
	if (to->n == to->size) {
		size_t size = to->size ? to->size * 2 : 8;
		const char **c = arena_array(&g->arena, size, sizeof(*c));

		if (!c) {
			g->oom = true;
			return;
		}
		if (to->n)
			memcpy(c, to->component, to->n * sizeof(*c));
		to->component = c;
		to->size = size;
	}
	to->component[to->n++] = name;
}

static void add_check(struct groups *g, json_object *check)
{
	const char *name = ctl_doc_text(check, "component"), *key;
	struct group now = { .first = check };

	now.observed = nameless(g, ctl_doc_text(check, "observed"), name);
	now.needed = nameless(g, ctl_doc_text(check, "needed"), name);
	now.fix = nameless(g, ctl_doc_text(check, "fix"), name);
	key = arena_printf(&g->arena, "%s\n%s\n%s\n%s\n%s", ctl_doc_text(check, "id"), ctl_doc_text(check, "result"), now.observed,
			   now.needed, now.fix);
	g->oom = g->oom || !key;
	if (g->oom)
		return;
	for (size_t i = g->n; i-- > 0 && strcmp(ctl_doc_text(g->group[i].first, "id"), ctl_doc_text(check, "id")) == 0;)
		if (strcmp(g->group[i].key, key) == 0) {
			add_component(g, &g->group[i], name);
			return;
		}
	now.key = key;
	add_component(g, &now, name);
	g->group[g->n++] = now;
}

static bool is_result(json_object *check, const char *result)
{
	return strcmp(ctl_doc_text(check, "result"), result) == 0;
}

static bool is_bad(json_object *check)
{
	return !is_result(check, "pass") && !is_result(check, "not-applicable");
}

static int make_groups(struct groups *g, json_object *checks, bool all)
{
	g->group = arena_array(&g->arena, ctl_doc_count(checks) + 1, sizeof(*g->group));
	g->oom = !g->group;
	for (size_t i = 0; !g->oom && i < ctl_doc_count(checks); i++) {
		json_object *check = json_object_array_get_idx(checks, i);

		if (all || is_bad(check))
			add_check(g, check);
	}
	for (size_t i = 0; i < g->n; i++)
		if (g->group[i].n == 1) {
			g->group[i].observed = ctl_doc_text(g->group[i].first, "observed");
			g->group[i].needed = ctl_doc_text(g->group[i].first, "needed");
			g->group[i].fix = ctl_doc_text(g->group[i].first, "fix");
		}
	return g->oom ? -ENOMEM : 0;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

static const struct ctl_column columns[] = {
	{ "SEVERITY", CTL_LEFT }, { "CHECK", CTL_LEFT }, { "COMPONENT", CTL_LEFT }, { "WHAT", CTL_LEFT, .drop = 1, .cut = 20 },
};

/* What cannot be told is shown as that, whatever it would be. */
static const char *word_of(json_object *check)
{
	if (is_result(check, "not-applicable"))
		return "-";
	return is_result(check, "fail") ? ctl_doc_text(check, "severity") : ctl_doc_text(check, "result");
}

static const char *colour_of(const char *word)
{
	static const char *const colours[][2] = { { "error", "red" }, { "warning", "brown" }, { "unknown", "magenta" }, { "pass", "green" } };

	for (size_t i = 0; i < sizeof(colours) / sizeof(*colours); i++)
		if (strcmp(colours[i][0], word) == 0)
			return colours[i][1];
	return NULL;
}

static bool add_row(struct libscols_table *t, struct groups *g, const struct group *group)
{
	const char *word = word_of(group->first);
	const char *what = is_bad(group->first) ? ctl_doc_text(group->first, "title") : group->observed;
	const char *cell[] = { word, ctl_doc_text(group->first, "id"), group->component[0], what };
	struct libscols_line *row;

	if (group->n > 1)
		cell[2] = arena_printf(&g->arena, "%s +%zu", group->component[0], group->n - 1);
	row = ctl_table_row(t, NULL, cell, 4);
	if (row && colour_of(word))
		ctl_table_colour(row, 0, colour_of(word));
	return row;
}

static bool write_table(struct ctl_out *out, struct groups *g)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(columns, ARRAY_SIZE(columns));
	bool ok = t;

	for (size_t i = 0; ok && i < g->n; i++)
		ok = add_row(t, g, &g->group[i]);
	if (ok && g->n)
		ctl_table_print(out, t, columns, ARRAY_SIZE(columns));
	return ok;
}

/* ---- each in words -------------------------------------------------------------------------------------- */

static void write_line(struct ctl_out *out, const char *name, const char *text)
{
	if (!*text)
		return;
	sbuf_addf(&out->text, "  %-9s ", name);
	ctl_out_wrap(out, text, 12);
}

static void write_components(struct ctl_out *out, struct groups *g, const struct group *group)
{
	const char *text = "";

	for (size_t i = 0; text && i < group->n && i < SHOWN; i++)
		text = arena_printf(&g->arena, "%s%s%s", text, i ? " " : "", group->component[i]);
	if (text && group->n > SHOWN)
		text = arena_printf(&g->arena, "%s and %zu more", text, group->n - SHOWN);
	write_line(out, "at", text ? text : "");
}

static void write_group(struct ctl_out *out, struct groups *g, const struct group *group)
{
	sbuf_addf(&out->text, "\n%s %s: ", word_of(group->first), ctl_doc_text(group->first, "id"));
	ctl_out_wrap(out, ctl_doc_text(group->first, "title"), 2);
	write_components(out, g, group);
	write_line(out, "observed", group->observed);
	write_line(out, "needed", group->needed);
	write_line(out, "fix", group->fix);
}

static void write_counts(struct ctl_out *out, json_object *counts)
{
	static const char *const name[][3] = { { "error", "error", "errors" },	    { "warning", "warning", "warnings" },
					       { "info", "info", "infos" },	    { "unknown", "unknown", "unknown" },
					       { "pass", "passes", "pass" }, { "not_applicable", "does not apply", "do not apply" } };

	for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
		long long n = (long long)ctl_doc_int(counts, name[i][0], 0);

		sbuf_addf(&out->text, "%s%lld %s", i ? ", " : "", n, name[i][n == 1 ? 1 : 2]);
	}
	sbuf_add(&out->text, "\n");
}

static int write_checks(struct ctl *c, json_object *doc, struct error *err)
{
	struct groups g = { 0 };
	bool ok = make_groups(&g, ctl_doc_list(doc, "checks"), c->args.all) == 0 && write_table(&c->out, &g);

	for (size_t i = 0; ok && i < g.n; i++)
		if (is_bad(g.group[i].first))
			write_group(&c->out, &g, &g.group[i]);
	if (ok && g.n)
		sbuf_add(&c->out.text, "\n");
	write_counts(&c->out, ctl_doc_get(doc, "counts"));
	if (*ctl_doc_text(doc, "helper"))
		sbuf_addf(&c->out.text, "velad works without its helper: config space is not known, and nothing can be changed: %s\n",
			  ctl_doc_text(doc, "helper"));
	if (*ctl_doc_text(doc, "scrub")) /* of velad only */
		sbuf_addf(&c->out.text, "between guests, scrub: %s\n", ctl_doc_text(doc, "scrub"));
	arena_done(&g.arena);
	return ok ? 0 : error_set(err, -ENOMEM, "no memory for the table");
}

/* 100: an error; 101: none, but whether there is one could not be told everywhere. */
static enum ctl_exit judge(json_object *doc)
{
	json_object *checks = ctl_doc_list(doc, "checks");
	enum ctl_exit ret = CTL_OK;

	for (size_t i = 0; i < ctl_doc_count(checks); i++) {
		json_object *check = json_object_array_get_idx(checks, i);

		if (strcmp(ctl_doc_text(check, "severity"), "error") != 0)
			continue;
		if (is_result(check, "fail"))
			return CTL_CHECK_FAILED;
		if (is_result(check, "unknown"))
			ret = CTL_CHECK_UNKNOWN;
	}
	return ret;
}

/* ---- one rule ------------------------------------------------------------------------------------------- */

static enum ctl_exit explain(struct ctl *c, const char *id)
{
	const struct check_rule *rule = check_rule_find(id);
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;

	if (!rule) {
		(void)error_set(&err, -ENOENT, "there is no check %.60s; velactl doctor --all lists them", id);
		return ctl_fail(c, &err);
	}
	if (c->args.json) {
		doc = check_rule_json(rule);
		ctl_out_json(&c->out, doc);
		return CTL_OK;
	}
	sbuf_addf(&c->out.text, "%s (%s): ", rule->id, check_severity_text(rule->severity));
	ctl_out_wrap(&c->out, rule->title, 2);
	write_line(&c->out, "why", rule->why);
	write_line(&c->out, "needed", rule->needed);
	write_line(&c->out, "fix", rule->fix);
	write_line(&c->out, "source", rule->source);
	return CTL_OK;
}

enum ctl_exit ctl_doctor(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;

	if (c->args.explain != (n == 1)) {
		(void)error_set(&err, -EINVAL, "to explain a check say: velactl doctor --explain ID");
		return ctl_fail(c, &err);
	}
	if (n)
		return explain(c, arg[0]);
	if (ctl_source_checks(&doc, c, &err) < 0)
		return ctl_fail(c, &err);
	if (c->args.json)
		ctl_out_json(&c->out, doc);
	else if (write_checks(c, doc, &err) < 0)
		return ctl_fail(c, &err);
	return judge(doc);
}
