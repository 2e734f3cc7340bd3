/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of the tree become boxes. Ports have none where a function below them says the same: a link has two
 * ends and one state. */
#include "velactl/picture.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "velactl/doc.h"
#include "velactl/names.h"
#include "velactl/tree.h"

struct build {
	struct ctl_picture *p;
	struct ctl_tree     tree;
	struct ctl_names   *names;
	int                *box;   /* of each row; a port's is that of what is above it */
	bool               *leaf;  /* rows with nothing below */
	const char        **label; /* "GPU0" of each row; NULL: none */
	unsigned            count[CTL_BOX_KINDS];
	const char         *numa;  /* of the node whose boxes are being made */
	bool                failed; /* no memory */
};

static const struct {
	const char       *kind; /* in the document */
	enum ctl_box_kind box;
	const char       *label, *one, *many;
} devices[] = {
	{ "gpu", CTL_BOX_GPU, "GPU", "GPU", "GPUs" },
	{ "nic", CTL_BOX_NIC, "NIC", "NIC", "NICs" },
	{ "nvswitch", CTL_BOX_NVSWITCH, "NVSW", "NVSwitch", "NVSwitches" },
	{ "nvme", CTL_BOX_NVME, "NVME", "NVMe drive", "NVMe drives" },
};

static bool is(const struct ctl_row *r, const char *kind)
{
	return strcmp(r->kind, kind) == 0;
}

static size_t device_of(const char *kind)
{
	size_t d = 0;

	while (d < ARRAY_SIZE(devices) && strcmp(devices[d].kind, kind) != 0)
		d++;
	return d;
}

/* Bytes of the character at s if XML 1.0 (2.2) and a terminal take it, else 0. */
static size_t good(const unsigned char *s)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* RFC 3629, 3: no longer than needed */
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	unsigned c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	if ((s[0] >= 0x80 && s[0] < 0xc0) || s[0] >= 0xf8)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || c == 0xfffe || c == 0xffff)
		return 0;
	return c < 0x20 || (c >= 0x7f && c < 0xa0) ? 0 : n;
}

/* Every text of a picture comes through here. */
static const char *text(struct build *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static const char *text(struct build *b, const char *fmt, ...)
{
	va_list ap;
	char *t;

	va_start(ap, fmt);
	t = arena_vprintf(&b->p->arena, fmt, ap);
	va_end(ap);
	b->failed = b->failed || !t;
	for (char *at = t; at && *at;) {
		size_t n = good((const unsigned char *)at);

		if (!n)
			*at = '?';
		at += n ? n : 1;
	}
	return t ? t : "";
}

static int add(struct build *b, int parent, enum ctl_box_kind kind)
{
	int i = b->p->n++;
	struct ctl_box *box = &b->p->box[i], *up = parent < 0 ? NULL : &b->p->box[parent];

	*box = (struct ctl_box){ .kind = kind, .parent = parent, .first = -1, .last = -1,
				 .prev = up ? up->last : -1, .next = -1, .tip = "", .link = "" };
	b->count[kind]++;
	if (up && up->last >= 0)
		b->p->box[up->last].next = i;
	else if (up)
		up->first = i;
	if (up)
		up->last = i;
	return i;
}

static void line(struct build *b, int i, const char *left, enum ctl_tone tone, const char *right,
		 enum ctl_tone right_tone)
{
	struct ctl_box *box = &b->p->box[i];

	if (box->nlines < CTL_BOX_LINES && (*left || *right))
		box->line[box->nlines++] = (struct ctl_line){ .left = left, .tone = tone, .right = right,
							      .right_tone = right_tone };
}

static const char *name_of(struct build *b, const struct ctl_row *r)
{
	char name[256];

	if (!*r->id)
		return "";
	return text(b, "%s", b->names ? ctl_names_find(b->names, name, sizeof(name), r->id) : r->id);
}

static const char *driver_text(const struct ctl_row *r)
{
	return !*r->driver ? "no driver" : strcmp(r->driver, "?") == 0 ? "driver not known" : r->driver;
}

/* Link, group, driver: what a person compares from box to box. */
static void facts(struct build *b, int i, const struct ctl_row *r)
{
	const char *link = text(b, "%s", *r->link ? r->link : "no link");

	if (r->slow) /* a line of its own: it must not be cut */
		line(b, i, link, CTL_WARN, "", CTL_PLAIN);
	line(b, i, r->slow ? "" : link, CTL_PLAIN,
	     text(b, "%s%s \u00b7 %s", *r->group ? "group " : "no group", r->group, driver_text(r)),
	     CTL_PLAIN);
	if (*b->numa && strcmp(r->numa, b->numa) != 0)
		line(b, i, *r->numa ? text(b, "on NUMA node %s", r->numa) : "NUMA node not known", CTL_WARN, "", CTL_PLAIN);
	if (*r->owner)
		line(b, i, text(b, "used by %s", r->owner), CTL_OWNER, "", CTL_PLAIN);
}

static int add_device(struct build *b, size_t row, int parent)
{
	const struct ctl_row *r = &b->tree.row[row];
	size_t d = device_of(r->kind);
	int i = add(b, parent, d < ARRAY_SIZE(devices) ? devices[d].box : is(r, "vf") ? CTL_BOX_VF : CTL_BOX_OTHER);
	const char *label = b->label[row] ? b->label[row] : text(b, "%s", is(r, "vf") ? "VF" : r->kind);

	line(b, i, label, CTL_STRONG, text(b, "%s", r->device), CTL_PLAIN);
	if (b->p->box[i].kind == CTL_BOX_VF) { /* many: two lines each */
		line(b, i, *r->owner ? text(b, "used by %s", r->owner) : "", CTL_OWNER,
		     text(b, "%s%s \u00b7 %s", *r->group ? "group " : "no group", r->group, driver_text(r)),
		     CTL_PLAIN);
	} else {
		line(b, i, name_of(b, r), CTL_PLAIN, "", CTL_PLAIN);
		facts(b, i, r);
	}
	return i;
}

static int add_switch(struct build *b, size_t row, int parent)
{
	const struct ctl_row *r = &b->tree.row[row];
	const struct ctl_row *up = r->parent < 0 ? NULL : &b->tree.row[r->parent];
	int i = add(b, parent, CTL_BOX_SWITCH);

	line(b, i, text(b, "%s %s", is(r, "usp") ? "Switch" : r->kind, r->device), CTL_STRONG,
	     r->slow ? "" : text(b, "%s", r->link), CTL_PLAIN);
	if (r->slow)
		line(b, i, text(b, "%s", r->link), CTL_WARN, "", CTL_PLAIN);
	line(b, i, name_of(b, r), CTL_PLAIN, "", CTL_PLAIN);
	if (up && (is(up, "root-port") || is(up, "dsp")))
		line(b, i, text(b, "below %s", up->device), CTL_PLAIN, "", CTL_PLAIN);
	if (*r->owner)
		line(b, i, text(b, "used by %s", r->owner), CTL_OWNER, "", CTL_PLAIN);
	return i;
}

static bool is_summary(const struct ctl_row *r, const struct ctl_row *up)
{
	return up && is(r, "vf") && !*r->id && !is(up, "host"); /* tree.c's "16 VFs": a row of no function */
}

static int add_row(struct build *b, size_t row, int parent)
{
	const struct ctl_row *r = &b->tree.row[row], *up = r->parent < 0 ? NULL : &b->tree.row[r->parent];
	bool port = is(r, "root-port") || is(r, "dsp");
	int i;

	if (port && !b->leaf[row])
		return parent;
	if (is_summary(r, up)) {
		line(b, parent, text(b, "%s%s%s", r->device, *r->driver ? " \u00b7 " : "", r->driver), CTL_PLAIN,
		     *r->owner ? text(b, "used by %s", r->owner) : "", CTL_OWNER);
		return parent;
	}
	if (port) {
		i = add(b, parent, CTL_BOX_PORT);
		line(b, i, text(b, "%s, empty", r->kind), CTL_PLAIN, text(b, "%s", r->device), CTL_PLAIN);
	} else if (is(r, "usp") || (device_of(r->kind) == ARRAY_SIZE(devices) && !b->leaf[row])) {
		i = add_switch(b, row, parent);
	} else {
		i = add_device(b, row, parent);
	}
	b->p->box[i].link = text(b, "%s", r->link);
	b->p->box[i].slow = r->slow;
	b->p->box[i].tip = text(b, "%s %s %s %s", r->device, r->kind, name_of(b, r), r->id);
	return i;
}

static size_t bridge_end(const struct ctl_tree *t, size_t row)
{
	for (row++; row < t->n && t->row[row].parent >= 0;)
		row++;
	return row;
}

/* Where firmware says it for a host bridge, it says it for all below: the first that has one. */
static const char *numa_of(const struct ctl_tree *t, size_t row)
{
	for (size_t i = row, end = bridge_end(t, row); i < end; i++)
		if (*t->row[i].numa)
			return t->row[i].numa;
	return "";
}

static void add_bridge(struct build *b, size_t row, int node)
{
	const struct ctl_row *r = &b->tree.row[row];

	b->box[row] = add(b, node, CTL_BOX_BRIDGE);
	line(b, b->box[row], text(b, "%s", r->device), CTL_STRONG, "", CTL_PLAIN);
	for (size_t i = row + 1, end = bridge_end(&b->tree, row); i < end; i++)
		b->box[i] = add_row(b, i, b->box[b->tree.row[i].parent]);
}

/* The CPUs of a node, as the matrix has them for a device there. */
static const char *cpus_of(json_object *topology, const char *numa)
{
	json_object *matrix = ctl_doc_get(topology, "matrix"), *nodes = ctl_doc_list(matrix, "numa");
	json_object *cpus = ctl_doc_list(matrix, "cpus");

	for (size_t i = 0; *numa && i < ctl_doc_count(nodes) && i < ctl_doc_count(cpus); i++) {
		json_object *at = json_object_array_get_idx(nodes, i), *list = json_object_array_get_idx(cpus, i);

		if (at && json_object_is_type(list, json_type_string) && strcmp(json_object_get_string(at), numa) == 0)
			return json_object_get_string(list);
	}
	return "";
}

static long number_of(const char *numa)
{
	return *numa ? strtol(numa, NULL, 10) : LONG_MAX; /* unknown comes last */
}

/* The next NUMA node after `last` that a host bridge is on; NULL: none. */
static const char *next_numa(const struct build *b, const char *last)
{
	const char *best = NULL;

	for (size_t i = 0; i < b->tree.n; i = bridge_end(&b->tree, i)) {
		const char *numa = numa_of(&b->tree, i);

		if (last && number_of(numa) <= number_of(last))
			continue;
		if (!best || number_of(numa) < number_of(best))
			best = numa;
	}
	return best;
}

static void add_nodes(struct build *b, json_object *topology)
{
	for (const char *numa = next_numa(b, NULL); numa; numa = next_numa(b, numa)) {
		int node = add(b, 0, CTL_BOX_NODE);
		const char *cpus = cpus_of(topology, numa);

		b->numa = numa;
		line(b, node, *numa ? text(b, "NUMA node %s", numa) : "NUMA node not known", *numa ? CTL_STRONG : CTL_WARN,
		     *cpus ? text(b, "CPUs %s", cpus) : "", CTL_PLAIN);
		for (size_t i = 0; i < b->tree.n; i = bridge_end(&b->tree, i))
			if (number_of(numa_of(&b->tree, i)) == number_of(numa))
				add_bridge(b, i, node);
	}
}

static size_t row_of(const struct ctl_tree *t, const char *bdf)
{
	size_t i = 0;

	while (i < t->n && strcmp(t->row[i].device, bdf) != 0)
		i++;
	return i;
}

/* The matrix counts in its own order, and the picture must say the same; the matrix may lack some. */
static void label_rows(struct build *b, json_object *topology)
{
	json_object *list = ctl_doc_list(ctl_doc_get(topology, "matrix"), "devices");
	unsigned next[ARRAY_SIZE(devices)] = { 0 };

	for (size_t i = 0; i < ctl_doc_count(list) + b->tree.n; i++) {
		bool listed = i < ctl_doc_count(list);
		const char *bdf = listed ? json_object_get_string(json_object_array_get_idx(list, i)) : NULL;
		size_t row = listed ? row_of(&b->tree, bdf ? bdf : "") : i - ctl_doc_count(list), d;

		if (row == b->tree.n || b->label[row])
			continue;
		d = device_of(b->tree.row[row].kind);
		if (d < ARRAY_SIZE(devices))
			b->label[row] = text(b, "%s%u", devices[d].label, next[d]++);
	}
}

static void add_words(struct build *b, json_object *topology)
{
	size_t findings = ctl_doc_count(ctl_doc_list(topology, "findings"));
	const char *title = "", *hidden = "", *wrong = "";

	for (size_t d = 0; d < ARRAY_SIZE(devices); d++) {
		unsigned n = b->count[devices[d].box];

		if (!n)
			continue;
		title = text(b, "%s%s%u %s", title, *title ? " \u00b7 " : "", n, n == 1 ? devices[d].one : devices[d].many);
		b->p->chip[b->p->nchips++] = (struct ctl_chip){ .kind = devices[d].box, .text = devices[d].one };
	}
	if (b->count[CTL_BOX_SWITCH])
		b->p->chip[b->p->nchips++] = (struct ctl_chip){ .kind = CTL_BOX_SWITCH, .text = "PCIe switch" };
	line(b, 0, *title ? title : "no GPUs, NICs or NVMe drives", CTL_STRONG, "", CTL_PLAIN);
	if (b->tree.hidden)
		hidden = text(b, "%zu other function%s not shown (--all)", b->tree.hidden, b->tree.hidden == 1 ? "" : "s");
	if (findings)
		wrong = text(b, "%zu finding%s, see velactl topo", findings, findings == 1 ? "" : "s");
	b->p->note = text(b, "%s%s%s", hidden, *hidden && *wrong ? " \u00b7 " : "", wrong);
}

int ctl_picture_build(struct ctl_picture *ret, json_object *topology, unsigned show, struct ctl_names *names,
		      struct error *err)
{
	struct ctl_picture p = { .note = "" };
	struct build b = { .p = &p, .names = names, .numa = "" };
	size_t n;
	int r = ctl_tree_build(&b.tree, topology, show, err);

	if (r < 0)
		return r;
	n = b.tree.n;
	p.box = arena_array(&p.arena, 2 * n + 1, sizeof(*p.box)); /* a box per row, a node per bridge, the page */
	b.box = arena_array(&b.tree.arena, n + 1, sizeof(*b.box));
	b.leaf = arena_array(&b.tree.arena, n + 1, sizeof(*b.leaf));
	b.label = arena_array(&b.tree.arena, n + 1, sizeof(*b.label));
	b.failed = !p.box || !b.box || !b.leaf || !b.label;
	if (!b.failed) {
		for (size_t i = 0; i < n; i++) {
			b.leaf[i] = true;
			if (b.tree.row[i].parent >= 0)
				b.leaf[b.tree.row[i].parent] = false;
		}
		(void)add(&b, -1, CTL_BOX_PAGE);
		label_rows(&b, topology);
		add_nodes(&b, topology);
		add_words(&b, topology);
	}
	ctl_tree_done(&b.tree); /* texts were copied */
	if (b.failed) {
		arena_done(&p.arena);
		return error_set(err, -ENOMEM, "no memory for a picture");
	}
	*ret = p;
	return 0;
}

void ctl_picture_done(struct ctl_picture *p)
{
	arena_done(&p->arena);
	*p = (struct ctl_picture){ 0 };
}
