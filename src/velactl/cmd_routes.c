/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl routes: for every GPU how NICs and other GPUs reach it; of two functions, port by port in words. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"

#define GPUS_MAX (CTL_COLUMNS_MAX - 2)

/* ---- the table: a column for each GPU, a row for each NIC and GPU ------------------------------------ */

struct grid {
	const char *gpu[GPUS_MAX], *nic[256], *peer[256]; /* peer: GPUs as requesters */
	size_t      ngpus, nnics, npeers;
	bool        planned;
};

static void seen(const char **list, size_t *n, size_t most, const char *bdf)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(list[i], bdf) == 0)
			return;
	if (*n < most)
		list[(*n)++] = bdf;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_object *pair_find(json_object *pairs, const char *from, const char *to)
{
	for (size_t i = 0; i < ctl_doc_count(pairs); i++) {
		json_object *p = json_object_array_get_idx(pairs, i);

		if (strcmp(ctl_doc_text(p, "from"), from) == 0 && strcmp(ctl_doc_text(p, "to"), to) == 0)
			return p;
	}
	return NULL;
}

static char letter(const char *verdict, const char *path)
{
	if (strcmp(verdict, "redirected") == 0)
		return strcmp(path, "SYS") == 0 ? 'S' : 'R';
	return strcmp(verdict, "direct") == 0 ? 'D' : strcmp(verdict, "blocked") == 0 ? 'B' : '?';
}

/* "R", or "R>D" where the ACS plan changes it. */
static const char *cell_text(struct arena *a, json_object *pair, bool planned)
{
	const char *path = ctl_doc_text(pair, "path");
	char now = letter(ctl_doc_text(pair, "verdict"), path), then = letter(ctl_doc_text(pair, "planned"), path);

	if (!pair)
		return "";
	return planned && now != then ? arena_printf(a, "%c>%c", now, then) : arena_printf(a, "%c", now);
}

/* "nic", or of VFs how many the row stands for: "vf x8". */
static const char *requester(struct arena *a, json_object *pair)
{
	int64_t n = ctl_doc_int(pair, "count", 1);

	return n == 1 ? ctl_doc_text(pair, "requester") : arena_printf(a, "%s x%lld", ctl_doc_text(pair, "requester"), (long long)n);
}

static const char *requester_of(struct arena *a, json_object *pairs, const char *from)
{
	for (size_t i = 0; i < ctl_doc_count(pairs); i++) {
		json_object *p = json_object_array_get_idx(pairs, i);

		if (strcmp(ctl_doc_text(p, "from"), from) == 0)
			return requester(a, p);
	}
	return "";
}

static bool add_row(struct libscols_table *t, struct arena *a, const struct grid *g, json_object *pairs, const char *from)
{
	const char *cell[CTL_COLUMNS_MAX] = { NULL };
	struct libscols_line *line;

	cell[0] = from;
	cell[1] = requester_of(a, pairs, from);
	for (size_t i = 0; i < g->ngpus; i++)
		cell[i + 2] = cell_text(a, pair_find(pairs, from, g->gpu[i]), g->planned);
	line = ctl_table_row(t, NULL, cell, g->ngpus + 2);
	for (size_t i = 2; line && i < g->ngpus + 2; i++)
		if (cell[i] && (strchr(cell[i], 'D') || strchr(cell[i], 'B')))
			ctl_table_colour(line, i, strchr(cell[i], 'D') ? "green" : "red");
	return line;
}

static void write_legend(struct ctl_out *out, const struct grid *g)
{
	sbuf_add(&out->text, "\n");
	for (size_t i = 0; i < g->ngpus; i++)
		sbuf_addf(&out->text, "G%zu=%s%s", i, g->gpu[i], (i + 1) % 4 && i + 1 < g->ngpus ? "  " : "\n");
	ctl_out_wrap(out, "D direct: below the root complex. R redirected: up to the root complex, through the IOMMU, and back, which costs "
		     "bandwidth. S the same, from NUMA node to NUMA node. B blocked. ? unknown.", 0);
	if (g->planned)
		ctl_out_wrap(out, "R>D: with the writes of velactl acs plan.", 0);
	ctl_out_wrap(out, "From the function of the row to the GPU: a NIC's writes and reads (translated where it has ATS) and the answers; "
		     "a GPU's untranslated writes. The first VF stands for those of its NIC on its bus.", 0);
}

static int write_grid(struct ctl *c, json_object *doc, struct error *err)
{
	struct ctl_column column[CTL_COLUMNS_MAX] = { { "FROM", CTL_LEFT }, { "TO", CTL_LEFT } };
	json_object *pairs = ctl_doc_list(doc, "pairs");
	struct grid g = { .planned = c->args.with };
	struct libscols_table *t;
	struct arena a = { 0 };
	bool ok;

	for (size_t i = 0; i < ctl_doc_count(pairs); i++) {
		json_object *p = json_object_array_get_idx(pairs, i);

		seen(g.gpu, &g.ngpus, ARRAY_SIZE(g.gpu), ctl_doc_text(p, "to"));
		if (strcmp(ctl_doc_text(p, "kind"), "gdr") == 0)
			seen(g.nic, &g.nnics, ARRAY_SIZE(g.nic), ctl_doc_text(p, "from"));
		else
			seen(g.peer, &g.npeers, ARRAY_SIZE(g.peer), ctl_doc_text(p, "from"));
	}
	if (!g.ngpus)
		return error_set(err, -ENOENT, "this host has no GPU with a NIC or another GPU");
	qsort(g.gpu, g.ngpus, sizeof(*g.gpu), compare);
	qsort(g.nic, g.nnics, sizeof(*g.nic), compare);
	qsort(g.peer, g.npeers, sizeof(*g.peer), compare);
	for (size_t i = 0; i < g.ngpus; i++)
		column[i + 2] = (struct ctl_column){ arena_printf(&a, "G%zu", i), CTL_LEFT };
	t = ctl_table_new(column, g.ngpus + 2);
	ok = t;
	for (size_t i = 0; ok && i < g.nnics; i++)
		ok = add_row(t, &a, &g, pairs, g.nic[i]);
	for (size_t i = 0; ok && i < g.npeers; i++)
		ok = add_row(t, &a, &g, pairs, g.peer[i]);
	if (ok)
		ctl_table_print(&c->out, t, column, g.ngpus + 2);
	scols_unref_table(t);
	arena_done(&a);
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for the table");
	write_legend(&c->out, &g);
	return 0;
}

/* ---- one GPU: a line for each NIC and GPU, with what decides ------------------------------------------ */

static const struct ctl_column gpu_columns[] = {
	{ "FROM", CTL_LEFT }, { "KIND", CTL_LEFT }, { "PATH", CTL_LEFT }, { "ROUTE", CTL_LEFT }, { "PLANNED", CTL_LEFT, .drop = 3 },
	{ "GB/s", CTL_RIGHT, .drop = 2 }, { "RULE", CTL_LEFT, .drop = 1 }, { "AT", CTL_LEFT, .drop = 1 },
};

static bool add_line(struct libscols_table *t, struct arena *a, json_object *p, bool planned)
{
	int64_t rate = ctl_doc_int(p, "bandwidth", 0);
	const char *cell[] = { ctl_doc_text(p, "from"), requester(a, p), ctl_doc_text(p, "path"), ctl_doc_text(p, "verdict"),
			       planned ? ctl_doc_text(p, "planned") : "", rate ? arena_printf(a, "%.1f", (double)rate / 1e9) : "",
			       ctl_doc_text(p, "rule"), ctl_doc_text(p, "port") };
	struct libscols_line *line = ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));

	if (line && (*cell[3] == 'd' || *cell[3] == 'b'))
		ctl_table_colour(line, 3, *cell[3] == 'd' ? "green" : "red");
	return line;
}

static int write_gpu(struct ctl *c, json_object *doc, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(gpu_columns, ARRAY_SIZE(gpu_columns));
	json_object *pairs = ctl_doc_list(doc, "pairs");
	struct arena a = { 0 };
	size_t n = 0;
	bool ok = t;

	for (size_t i = 0; ok && i < ctl_doc_count(pairs); i++) {
		json_object *p = json_object_array_get_idx(pairs, i);

		if (strcmp(ctl_doc_text(p, "to"), c->args.gpu) == 0 && ++n)
			ok = add_line(t, &a, p, c->args.with);
	}
	if (ok && n)
		ctl_table_print(&c->out, t, gpu_columns, ARRAY_SIZE(gpu_columns));
	arena_done(&a);
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for the table");
	if (!n)
		return error_set(err, -ENOENT, "there is no GPU %.40s with a NIC or another GPU; velactl topo lists them", c->args.gpu);
	sbuf_add(&c->out.text, "\n");
	ctl_out_wrap(&c->out, "GB/s: of the narrowest link on the route that is really taken, in one direction; others share what leads to the "
			      "root complex, and what that carries is not known.", 0);
	return 0;
}

/* ---- two functions, in words -------------------------------------------------------------------------- */

static void write_title(struct ctl_out *out, json_object *r)
{
	const char *kind = ctl_doc_text(r, "kind"), *verdict = ctl_doc_text(r, "verdict");
	bool completion = strcmp(kind, "completion") == 0;
	const char *through = ctl_doc_text(r, "through");
	int64_t rate = ctl_doc_int(r, "bandwidth", 0);
	const char *colour = !out->colour ? "" : *verdict == 'd' ? "\033[32m" : *verdict == 'b' ? "\033[31m" : "\033[33m";

	sbuf_addf(&out->text, "%s %s: %s", completion ? (ctl_doc_bool(r, "relaxed") ? "relaxed-ordered" : "ordered")
						      : (ctl_doc_bool(r, "translated") ? "translated" : "untranslated"),
		  kind, colour);
	ctl_out_safe(out, verdict);
	if (*colour)
		sbuf_add(&out->text, "\033[m");
	if (*through) {
		sbuf_add(&out->text, ", through the ");
		ctl_out_safe(out, strcmp(through, "root-complex") == 0 ? "root complex" : through);
	}
	if (rate)
		sbuf_addf(&out->text, ", %s%.1f GB/s", strcmp(through, "switch") == 0 ? "" : "at most ", (double)rate / 1e9);
	sbuf_add(&out->text, "\n");
}

static void write_route(struct ctl_out *out, json_object *r)
{
	json_object *ports = ctl_doc_list(r, "ports");

	write_title(out, r);
	for (size_t i = 0; i < ctl_doc_count(ports); i++) {
		json_object *p = json_object_array_get_idx(ports, i);
		struct ctl_out line = { 0 };

		sbuf_addf(&line.text, "%s %s", ctl_doc_text(p, "bdf"), ctl_doc_text(p, "text"));
		sbuf_add(&out->text, "  ");
		ctl_out_wrap(out, line.text.text ? line.text.text : "", 4);
		sbuf_done(&line.text);
	}
	if (!ctl_doc_count(ports)) {
		sbuf_add(&out->text, "  ");
		ctl_out_wrap(out, ctl_doc_text(r, "text"), 4);
	}
}

static enum ctl_exit explain(struct ctl *c, const char *from, const char *to)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	json_object *routes;
	struct bdf a, b;

	if (!bdf_parse(&a, from) || !bdf_parse(&b, to))
		(void)error_set(&err, -EINVAL, "\"%.40s\" is no PCI address: say 0000:4c:00.0", bdf_parse(&a, from) ? to : from);
	else
		(void)ctl_source_route(&doc, c, a, b, &err);
	if (err.code)
		return ctl_fail(c, &err);
	if (c->args.json) {
		ctl_out_json(&c->out, doc);
		return CTL_OK;
	}
	routes = ctl_doc_list(doc, "routes");
	if (ctl_doc_count(routes)) {
		sbuf_addf(&c->out.text, "%s to %s, path class ", from, to);
		ctl_out_safe(&c->out, ctl_doc_text(json_object_array_get_idx(routes, 0), "path"));
		sbuf_add(&c->out.text, "\n");
	}
	for (size_t i = 0; i < ctl_doc_count(routes); i++)
		write_route(&c->out, json_object_array_get_idx(routes, i));
	return CTL_OK;
}

enum ctl_exit ctl_routes(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	int r = 0;

	if (n == 1 || (n == 2 && (c->args.gpu || c->args.with)) || (n == 0 && c->args.explain))
		r = error_set(&err, -EINVAL, "routes takes two functions, or --gpu and --with and none");
	else if (c->args.with && strcmp(c->args.with, "acs-plan") != 0)
		r = error_set(&err, -EINVAL, "--with takes acs-plan, not \"%.40s\"", c->args.with);
	if (r == 0 && n == 2)
		return explain(c, arg[0], arg[1]);
	if (r == 0)
		r = ctl_source_routes(&doc, c, &err);
	if (r == 0 && c->args.json)
		ctl_out_json(&c->out, doc);
	else if (r == 0)
		r = c->args.gpu ? write_gpu(c, doc, &err) : write_grid(c, doc, &err);
	return r < 0 ? ctl_fail(c, &err) : CTL_OK;
}
