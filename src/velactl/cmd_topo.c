/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl topo: the topology as a tree or a matrix, and below it what is wrong with the machine; or a picture. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/dot.h"
#include "velactl/matrix.h"
#include "velactl/names.h"
#include "velactl/picture.h"
#include "velactl/save.h"
#include "velactl/source.h"
#include "velactl/svg.h"
#include "velactl/table.h"
#include "velactl/tree.h"

enum { DEVICE, KIND, NAME, LINK, NUMA, GROUP, DRIVER, OWNER, COLUMNS };

#define FINDINGS_ALIKE 8 /* lines per id: a thousand VFs may have the same trouble */

static const struct ctl_column columns[COLUMNS] = {
	[DEVICE] = { "DEVICE", CTL_TREE },
	[KIND] = { "KIND", CTL_LEFT },
	[NAME] = { "NAME", CTL_LEFT, .drop = 2, .cut = 14 },
	[LINK] = { "LINK", CTL_LEFT, .drop = 6 },
	[NUMA] = { "NUMA", CTL_RIGHT, .drop = 4 },
	[GROUP] = { "GROUP", CTL_RIGHT, .drop = 1 },
	[DRIVER] = { "DRIVER", CTL_LEFT, .drop = 3 },
	[OWNER] = { "USED BY", CTL_LEFT, .drop = 5, .cut = 12 },
};

static void colour(struct libscols_line *line, const struct ctl_row *r)
{
	if (r->slow)
		ctl_table_colour(line, LINK, "yellow");
	if (*r->owner)
		ctl_table_colour(line, OWNER, "cyan");
	if (strcmp(r->kind, "gpu") == 0)
		ctl_table_colour(line, KIND, "green");
}

static int write_tree(struct ctl_out *out, const struct ctl_tree *tree, struct ctl_names *names, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(columns, COLUMNS);
	autofree struct libscols_line **line = calloc(tree->n + 1, sizeof(struct libscols_line *));
	char name[256];

	for (size_t i = 0; t && line && i < tree->n; i++) {
		const struct ctl_row *r = &tree->row[i];
		const char *cell[COLUMNS] = { r->device, r->kind, names ? ctl_names_find(names, name, sizeof(name), r->id) : r->id,
					      r->link, r->numa, r->group, r->driver, r->owner };

		line[i] = ctl_table_row(t, r->parent < 0 ? NULL : line[r->parent], cell, COLUMNS);
		if (!line[i])
			return error_set(err, -ENOMEM, "no memory for a table");
		colour(line[i], r);
	}
	if (!t || !line)
		return error_set(err, -ENOMEM, "no memory for a table");
	if (tree->n)
		ctl_table_print(out, t, columns, COLUMNS);
	else
		sbuf_add(&out->text, "no GPUs, NICs or NVMe drives\n");
	if (tree->hidden)
		sbuf_addf(&out->text, "\n%zu other function%s not shown (--all)\n", tree->hidden, tree->hidden == 1 ? "" : "s");
	return 0;
}

/* How many of the findings [from, to) have this id; stops counting at most. */
static size_t findings_of(json_object *list, const char *id, size_t from, size_t to, size_t most)
{
	size_t n = 0;

	for (size_t i = from; i < to && n < most; i++)
		n += strcmp(ctl_doc_text(json_object_array_get_idx(list, i), "id"), id) == 0;
	return n;
}

void ctl_findings_write(struct ctl_out *out, json_object *doc)
{
	json_object *list = ctl_doc_list(doc, "findings");
	size_t n = ctl_doc_count(list);

	if (n)
		sbuf_add(&out->text, "\n");
	for (size_t i = 0; i < n; i++) {
		json_object *f = json_object_array_get_idx(list, i);
		const char *id = ctl_doc_text(f, "id");
		size_t before = findings_of(list, id, 0, i, FINDINGS_ALIKE + 1);

		if (before > FINDINGS_ALIKE)
			continue;
		sbuf_add(&out->text, out->colour ? "\033[31m!\033[0m " : "! ");
		ctl_out_safe(out, id);
		if (before == FINDINGS_ALIKE) {
			sbuf_addf(&out->text, " on %zu more (-o json has all)\n", findings_of(list, id, i, n, n));
			continue;
		}
		sbuf_add(&out->text, " ");
		ctl_out_safe(out, ctl_doc_text(f, "component"));
		sbuf_add(&out->text, ": ");
		ctl_out_wrap(out, ctl_doc_text(f, "text"), 4);
	}
}

/* The picture as text; the caller frees. */
static int draw(char **ret, struct ctl_picture *p, bool svg, struct error *err)
{
	struct sbuf dot = { 0 };

	if (svg)
		return ctl_layout(p, err) < 0 ? err->code : ctl_svg_write(ret, p, err);
	ctl_dot_write(&dot, p);
	*ret = sbuf_steal(&dot);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for a picture");
}

static unsigned shown(const struct ctl_args *a)
{
	return (a->all ? CTL_SHOW_ALL : 0) | (a->unfold ? CTL_SHOW_VFS : 0);
}

static int write_picture(struct ctl *c, json_object *doc, struct ctl_names *names, const char *file, struct error *err)
{
	autofree char *text = NULL;
	struct ctl_picture p;
	int r = ctl_picture_build(&p, doc, shown(&c->args), names, err);

	if (r < 0)
		return r;
	r = draw(&text, &p, c->args.svg, err);
	ctl_picture_done(&p);
	if (r < 0)
		return r;
	if (strcmp(file, "-") != 0)
		return ctl_save(file, text, strlen(text), err);
	sbuf_add(&c->out.text, text);
	return 0;
}

static int write_text(struct ctl *c, json_object *doc, struct ctl_names *names, struct error *err)
{
	struct ctl_tree tree;
	int r;

	if (c->args.matrix)
		return ctl_matrix_write(&c->out, doc, c->args.all, names, err);
	r = ctl_tree_build(&tree, doc, shown(&c->args), err);
	if (r == 0) {
		r = write_tree(&c->out, &tree, names, err);
		ctl_tree_done(&tree);
	}
	return r;
}

/* *ret: the picture's file, NULL for none. The word is the FILE of a --dot that has none of its own. */
static int picture_file(const char **ret, const struct ctl_args *a, const char *word, struct error *err)
{
	const char *dot = a->dot && !*a->dot ? (word ? word : "-") : a->dot;

	if (word && dot != word)
		return error_set(err, -EINVAL, "topo: too many arguments at \"%.40s\"; only --dot takes one", word);
	if (word && !*word)
		return error_set(err, -EINVAL, "--dot needs a FILE, it is empty");
	if (a->svg && dot)
		return error_set(err, -EINVAL, "--svg and --dot are two pictures; say one of them");
	*ret = a->svg ? a->svg : dot;
	if (*ret && (a->matrix || a->json))
		return error_set(err, -EINVAL, "%s is no picture; say it without --%s", a->json ? "-o json" : "--matrix",
				 a->svg ? "svg" : "dot");
	return 0;
}

enum ctl_exit ctl_topo(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(ctl_names_free) struct ctl_names *names = c->args.numeric ? NULL : ctl_names_new();
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	const char *file = NULL;
	int r;

	if (picture_file(&file, &c->args, n ? arg[0] : NULL, &err) < 0 || ctl_source_topology(&doc, c, &err) < 0)
		return ctl_fail(c, &err);
	if (c->args.json) {
		ctl_out_json(&c->out, doc);
		return CTL_OK;
	}
	r = file ? write_picture(c, doc, names, file, &err) : write_text(c, doc, names, &err);
	if (r < 0)
		return ctl_fail(c, &err);
	if (!file)
		ctl_findings_write(&c->out, doc);
	return CTL_OK;
}
