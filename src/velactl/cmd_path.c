/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl path: the way between two functions, hop by hop, with what each link carries and which carries least. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/matrix.h"
#include "velactl/names.h"
#include "velactl/source.h"
#include "velactl/table.h"
#include "velactl/tree.h"

enum { HOP, KIND, NAME, NUMA, NEXT, RATE, MARK, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[HOP] = { "HOP", CTL_LEFT },
	[KIND] = { "KIND", CTL_LEFT, .drop = 3 },
	[NAME] = { "NAME", CTL_LEFT, .drop = 1, .cut = 14 },
	[NUMA] = { "NUMA", CTL_RIGHT, .drop = 2 },
	[NEXT] = { "TO THE NEXT", CTL_LEFT },
	[RATE] = { "GB/s", CTL_RIGHT },
	[MARK] = { "", CTL_LEFT, .drop = 4 },
};

static const struct {
	const char *via, *text;
} ways[] = {
	{ "switch", "in the switch" },
	{ "device", "in the device" },
	{ "bus", "no PCIe link" },
	{ "root-complex", "root complex" },
	{ "interconnect", "interconnect" },
	{ "unknown", "not known" },
};

/* Bytes per second, as people say it; "" unknown. */
static const char *rate(struct arena *a, json_object *o, const char *key)
{
	int64_t v = ctl_doc_int(o, key, 0);

	return v > 0 ? arena_printf(a, "%.1f", (double)v / 1e9) : "";
}

/* A link with its state, else in words what joins the two hops. */
static const char *next_text(struct arena *a, json_object *hop, bool *slow)
{
	const char *via = ctl_doc_text(hop, "via");

	*slow = false;
	if (strcmp(via, "link") == 0)
		return ctl_link_text(a, ctl_doc_get(hop, "link"), NULL, slow);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (strcmp(ways[i].via, via) == 0)
			return ways[i].text;
	return via;
}

static const char *name_of(struct ctl_names *names, char *buf, size_t size, json_object *hop)
{
	const char *id = ctl_doc_text(hop, "id");

	return names && *id ? ctl_names_find(names, buf, size, id) : id;
}

/* crowded: the narrowest link is narrower than another. */
static bool add_hop(struct libscols_table *t, struct arena *a, json_object *hop, struct ctl_names *names, bool crowded)
{
	json_object *link = ctl_doc_get(hop, "link");
	const char *bdf = ctl_doc_text(hop, "bdf"), *bus = ctl_doc_text(hop, "root_bus");
	int64_t node = ctl_doc_int(hop, "numa_node", -1);
	bool least = ctl_doc_bool(link, "bottleneck"), slow;
	char name[256];
	const char *cell[COLUMNS] = {
		[HOP] = *bdf ? bdf : *bus ? bus : "(unknown)",
		[KIND] = ctl_doc_text(hop, "kind"),
		[NAME] = name_of(names, name, sizeof(name), hop),
		[NUMA] = node < 0 ? "" : arena_printf(a, "%lld", (long long)node),
		[NEXT] = next_text(a, hop, &slow),
		[RATE] = rate(a, link, "bandwidth"),
		[MARK] = least && crowded ? "bottleneck" : "",
	};
	struct libscols_line *row = ctl_table_row(t, NULL, cell, COLUMNS);

	if (!row || !cell[NUMA] || !cell[NEXT] || !cell[RATE])
		return false;
	if (slow)
		ctl_table_colour(row, NEXT, "yellow");
	if (least && crowded) {
		ctl_table_colour(row, RATE, "red");
		ctl_table_colour(row, MARK, "red");
	}
	return true;
}

/* Is the narrowest link narrower than another? */
static bool uneven(json_object *hops, int64_t least)
{
	for (size_t i = 0; i < ctl_doc_count(hops); i++)
		if (ctl_doc_int(ctl_doc_get(json_object_array_get_idx(hops, i), "link"), "bandwidth", least) > least)
			return true;
	return false;
}

static void write_sum(struct ctl_out *out, json_object *doc, struct arena *a)
{
	const char *now = rate(a, doc, "bandwidth"), *most = rate(a, doc, "max_bandwidth");
	bool root = ctl_doc_bool(doc, "root_complex");
	int64_t distance = ctl_doc_int(doc, "numa_distance", 0);
	struct sbuf text = { 0 };

	sbuf_addf(&text, "%s", ctl_doc_text(doc, "class"));
	if (root && distance)
		sbuf_addf(&text, ", NUMA distance %lld", (long long)distance);
	if (*now)
		sbuf_addf(&text, ": %s%s GB/s in each direction", root ? "at most " : "", now);
	else
		sbuf_add(&text, strcmp(ctl_doc_text(doc, "class"), "X") == 0 ? ": the same function" : ": bandwidth not known");
	if (*now && *most && strcmp(now, most) != 0)
		sbuf_addf(&text, ", %s if every link did what both of its ends can do", most);
	if (*now)
		sbuf_addf(&text, "; after line coding, TLP headers still in it%s",
			  root ? "; what the root complex carries is not known" : "");
	out->text.failed = out->text.failed || text.failed;
	sbuf_add(&out->text, "\n");
	ctl_out_wrap(out, text.text ? text.text : "", 0);
	sbuf_done(&text);
}

static int write_path(struct ctl_out *out, json_object *doc, struct ctl_names *names, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(columns, COLUMNS);
	json_object *hops = ctl_doc_list(doc, "hops");
	bool crowded = uneven(hops, ctl_doc_int(doc, "bandwidth", 0));
	struct arena a = { 0 };
	bool done = t;

	if (!ctl_doc_count(hops))
		return error_set(err, -EPROTO, "the answer is not a path");
	for (size_t i = 0; done && i < ctl_doc_count(hops); i++)
		done = add_hop(t, &a, json_object_array_get_idx(hops, i), names, crowded);
	if (done) {
		ctl_table_print(out, t, columns, COLUMNS);
		write_sum(out, doc, &a);
	}
	arena_done(&a);
	return done ? 0 : error_set(err, -ENOMEM, "no memory for a table");
}

/* An address, or a label of the matrix; *topology is read for the first of those. */
static int parse(struct bdf *ret, struct ctl *c, json_object **topology, const char *text, struct error *err)
{
	int r = 0;

	if (bdf_parse(ret, text))
		return 0;
	if (!*topology)
		r = ctl_source_topology(topology, c, err);
	if (r == 0 && ctl_matrix_find(ret, *topology, text) < 0)
		r = error_set(err, -EINVAL, "path: \"%.40s\" is not a PCI address such as 0000:4c:00.0, and no label of velactl topo -m",
			      text);
	return r;
}

enum ctl_exit ctl_path(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(ctl_names_free) struct ctl_names *names = c->args.numeric ? NULL : ctl_names_new();
	auto_(json_object_put) json_object *topology = NULL;
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	struct bdf a, b;

	(void)n; /* 2, says the verb table */
	if (parse(&a, c, &topology, arg[0], &err) < 0 || parse(&b, c, &topology, arg[1], &err) < 0 ||
	    ctl_source_path(&doc, c, a, b, &err) < 0)
		return ctl_fail(c, &err);
	if (c->args.json)
		ctl_out_json(&c->out, doc);
	else if (write_path(&c->out, doc, names, &err) < 0)
		return ctl_fail(c, &err);
	return CTL_OK;
}
