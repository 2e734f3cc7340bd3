/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl show BDF: all that is known of one PCI function. Whatever members its node of the topology document has
 * are printed, so that this file has no list of them; only some are put in words. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "host/vpd.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/names.h"
#include "velactl/source.h"
#include "velactl/tree.h"

#define LABEL     18 /* columns of the left side */
#define CHAIN_MAX 256

/* The node of this address; NULL: there is none. */
static json_object *node_of(json_object *doc, const char *bdf)
{
	json_object *nodes = ctl_doc_list(doc, "nodes");

	for (size_t i = 0; *bdf && i < ctl_doc_count(nodes); i++)
		if (strcmp(ctl_doc_text(json_object_array_get_idx(nodes, i), "bdf"), bdf) == 0)
			return json_object_array_get_idx(nodes, i);
	return NULL;
}

/* "max_payload" -> "max payload" */
static void label(struct ctl_out *out, const char *key, unsigned width)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s", key);
	for (char *p = text; *p; p++)
		*p = *p == '_' ? ' ' : *p;
	if (width)
		ctl_out_cell(out, text, width);
	else
		ctl_out_safe(out, text);
}

static void value_text(struct sbuf *to, const char *key, json_object *v);

static void size_text(struct sbuf *to, uint64_t n)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	size_t u = 0;

	while (n && n % 1024 == 0 && u + 1 < ARRAY_SIZE(unit)) {
		n /= 1024;
		u++;
	}
	sbuf_addf(to, "%" PRIu64 " %s", n, unit[u]);
}

/* ACS bits by the names that lspci has for them. */
static void acs_text(struct sbuf *to, const char *hex)
{
	static const char *const bit[] = { "SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl",
					   "DirectTrans" };
	unsigned v = 0;

	sbuf_add(to, hex);
	if (sscanf(hex, "0x%x", &v) == 1)
		for (size_t i = 0; i < ARRAY_SIZE(bit); i++)
			if (v >> i & 1)
				sbuf_addf(to, " %s", bit[i]);
}

static void object_text(struct sbuf *to, json_object *o)
{
	const char *state = ctl_doc_text(o, "state");
	bool first = true;

	sbuf_add(to, state);
	json_object_object_foreach(o, key, v) {
		if (*state && strcmp(key, "state") == 0)
			continue;
		sbuf_add(to, !first ? ", " : *state ? ": " : "");
		first = false;
		for (const char *p = key; *p; p++)
			sbuf_addf(to, "%c", *p == '_' ? ' ' : *p);
		sbuf_add(to, " ");
		value_text(to, key, v);
	}
}

static void list_text(struct sbuf *to, const char *key, json_object *list)
{
	if (!ctl_doc_count(list))
		sbuf_add(to, "none");
	for (size_t i = 0; i < ctl_doc_count(list); i++) {
		sbuf_add(to, i == 0 ? "" : json_object_is_type(json_object_array_get_idx(list, 0), json_type_object) ? "; " : " ");
		value_text(to, key, json_object_array_get_idx(list, i));
	}
}

static void value_text(struct sbuf *to, const char *key, json_object *v)
{
	const char *text = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;

	if (!v)
		sbuf_add(to, "-");
	else if (json_object_is_type(v, json_type_object))
		object_text(to, v);
	else if (json_object_is_type(v, json_type_array))
		list_text(to, key, v);
	else if (json_object_is_type(v, json_type_boolean))
		sbuf_add(to, json_object_get_boolean(v) ? "yes" : "no");
	else if (text && (strcmp(key, "cap") == 0 || strcmp(key, "ctl") == 0))
		acs_text(to, text);
	else if (text)
		sbuf_add(to, text);
	else if (strncmp(key, "size", 4) == 0)
		size_text(to, json_object_get_uint64(v));
	else
		sbuf_add(to, json_object_get_string(v));
}

static void line(struct ctl_out *out, const char *name, const char *key, json_object *v)
{
	struct sbuf text = { 0 };

	value_text(&text, key, v);
	out->text.failed = out->text.failed || text.failed;
	label(out, name, LABEL);
	ctl_out_wrap(out, text.text ? text.text : "", LABEL);
	sbuf_done(&text);
}

/* A list of objects takes a line for each. */
static void member(struct ctl_out *out, const char *key, json_object *v)
{
	bool rows = ctl_doc_count(v) && json_object_is_type(json_object_array_get_idx(v, 0), json_type_object);

	if (!rows)
		line(out, key, key, v);
	for (size_t i = 0; rows && i < ctl_doc_count(v); i++)
		line(out, i ? "" : key, key, json_object_array_get_idx(v, i));
}

static void id_text(struct sbuf *to, struct ctl_names *names, json_object *node)
{
	const char *id = ctl_doc_text(node, "id");
	char name[256];

	sbuf_addf(to, "%s  %s", ctl_doc_text(node, "bdf"), ctl_doc_text(node, "kind"));
	if (names && *id)
		sbuf_addf(to, "  %s", ctl_names_find(names, name, sizeof(name), id));
	if (*id)
		sbuf_addf(to, "  [%s]", id);
}

/* One line for a function beside the one that is shown: what it is, its link, its driver. */
static void neighbour(struct ctl_out *out, struct ctl_names *names, const char *what, json_object *node, json_object *above)
{
	struct arena arena = { 0 };
	struct sbuf text = { 0 };
	bool slow;
	const char *link = ctl_link_text(&arena, ctl_doc_get(node, "link"), ctl_doc_get(above, "link"), &slow);

	id_text(&text, names, node);
	if (link && *link)
		sbuf_addf(&text, "  %s", link);
	if (*ctl_doc_text(ctl_doc_get(node, "acs"), "ctl")) {
		sbuf_add(&text, "  ACS ");
		acs_text(&text, ctl_doc_text(ctl_doc_get(node, "acs"), "ctl"));
	}
	if (*ctl_doc_driver(node))
		sbuf_addf(&text, "  %s", ctl_doc_driver(node));
	label(out, what, LABEL);
	ctl_out_wrap(out, text.text ? text.text : "", LABEL);
	sbuf_done(&text);
	arena_done(&arena);
}

/* The ports above, from the root down, as the bus goes. */
static void write_chain(struct ctl_out *out, struct ctl_names *names, json_object *doc, json_object *node)
{
	json_object *chain[CHAIN_MAX];
	size_t n = 0;

	for (json_object *up = node_of(doc, ctl_doc_text(node, "parent")); up && n < CHAIN_MAX;
	     up = node_of(doc, ctl_doc_text(up, "parent")))
		chain[n++] = up;
	for (size_t i = n; i-- > 0;)
		neighbour(out, names, i == n - 1 ? "below" : "", chain[i], i + 1 < n ? chain[i + 1] : NULL);
}

static void write_others(struct ctl_out *out, struct ctl_names *names, json_object *doc, const char *what, const char *key,
			 const char *bdf)
{
	json_object *nodes = ctl_doc_list(doc, "nodes");

	for (size_t i = 0; i < ctl_doc_count(nodes); i++) {
		json_object *other = json_object_array_get_idx(nodes, i);

		if (strcmp(ctl_doc_text(other, key), bdf) != 0)
			continue;
		neighbour(out, names, what, other, NULL);
		what = "";
	}
}

static void write_findings(struct ctl_out *out, json_object *doc, const char *bdf)
{
	json_object *list = ctl_doc_list(doc, "findings");

	for (size_t i = 0; i < ctl_doc_count(list); i++) {
		json_object *f = json_object_array_get_idx(list, i);

		if (strcmp(ctl_doc_text(f, "component"), bdf) != 0)
			continue;
		sbuf_add(&out->text, out->colour ? "\033[31m!\033[0m " : "! ");
		ctl_out_safe(out, ctl_doc_text(f, "id"));
		sbuf_add(&out->text, ": ");
		ctl_out_wrap(out, ctl_doc_text(f, "text"), 4);
	}
}

static void write_node(struct ctl_out *out, struct ctl_names *names, json_object *doc, json_object *node)
{
	const char *bdf = ctl_doc_text(node, "bdf");
	struct sbuf head = { 0 };

	id_text(&head, names, node);
	ctl_out_wrap(out, head.text ? head.text : "", 2);
	sbuf_done(&head);
	write_findings(out, doc, bdf);
	sbuf_add(&out->text, "\n");
	write_chain(out, names, doc, node);
	write_others(out, names, doc, "companions", "companion_of", bdf);
	json_object_object_foreach(node, key, v) {
		if (strcmp(key, "bdf") != 0 && strcmp(key, "kind") != 0 && strcmp(key, "id") != 0 && strcmp(key, "parent") != 0)
			member(out, key, v);
	}
	write_others(out, names, doc, "VFs", "pf", bdf);
}

/* ---- VPD ---------------------------------------------------------------------------------------- */

static json_object *fields_json(struct json_out *o, const struct vpd *v)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < v->n; i++) {
		struct json_out f = json_out_new();

		json_add_string(&f, "key", v->field[i].key);
		json_add_string(&f, "value", v->field[i].text);
		json_add_bool(&f, "writable", v->field[i].writable);
		json_append_out(o, a, &f);
	}
	return a;
}

/* Into the node: {"name", "fields": [{"key", "value", "writable"}], "checksum"} */
static int add_vpd(struct ctl *c, json_object *node, struct bdf bdf, struct error *err)
{
	static const char *const sums[] = { [VPD_SUM_ABSENT] = "absent", [VPD_SUM_OK] = "ok", [VPD_SUM_BAD] = "bad" };
	struct json_out o = json_out_new(), to = { .obj = node };
	struct arena arena = { 0 };
	struct vpd vpd;
	int r = ctl_source_vpd(&vpd, c, bdf, &arena, err);

	if (r == 0) {
		json_add_string(&o, "name", vpd.name);
		json_add(&o, "fields", fields_json(&o, &vpd));
		json_add_string(&o, "checksum", sums[vpd.sum]);
		json_add_out(&to, "vpd", &o);
		r = to.failed ? error_set(err, -ENOMEM, "no memory for the VPD") : 0;
	} else {
		json_object_put(o.obj);
	}
	arena_done(&arena);
	return r;
}

enum ctl_exit ctl_show_function(struct ctl *c, struct bdf bdf)
{
	auto_(ctl_names_free) struct ctl_names *names = c->args.numeric ? NULL : ctl_names_new();
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	json_object *node = NULL;
	char name[BDF_TEXT_MAX];

	if (ctl_source_topology(&doc, c, &err) < 0)
		return ctl_fail(c, &err);
	node = node_of(doc, bdf_text(name, bdf));
	if (!node)
		(void)error_set(&err, -ENOENT, "there is no PCI function %s; velactl topo --all has all", name);
	if (!node || (c->args.vpd && add_vpd(c, node, bdf, &err) < 0))
		return ctl_fail(c, &err);
	if (c->args.json)
		ctl_out_json(&c->out, node);
	else
		write_node(&c->out, names, doc, node);
	return CTL_OK;
}
