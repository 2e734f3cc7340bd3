/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nodes are linked by their BDF texts. A document may be broken in any way: a function whose parent is not
 * there hangs below its host bridge, and what hangs below itself is never reached. */
#include "velactl/tree.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "velactl/doc.h"

#define DEPTH_MAX 256 /* a bus has one bridge above, and there are 256 buses */

struct node {
	json_object *doc;
	const char  *bdf;
	int          up, first, next; /* -1: none */
	bool         shown, vf;
};

struct build {
	struct ctl_tree *tree;
	struct node     *node; /* sorted by BDF text */
	int              n;
	size_t           added, folded; /* functions with a row; VFs in a row for many */
	unsigned         show;
	bool             failed; /* no memory */
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->bdf, ((const struct node *)b)->bdf);
}

static int find(const struct build *b, const char *bdf)
{
	const struct node key = { .bdf = bdf };
	const struct node *n = b->n ? bsearch(&key, b->node, (size_t)b->n, sizeof(key), compare) : NULL;

	return n ? (int)(n - b->node) : -1;
}

static const char *print_int(struct arena *a, int64_t v)
{
	return v < 0 ? "" : arena_printf(a, "%lld", (long long)v);
}

const char *ctl_speed_text(struct arena *a, const char *text)
{
	const char *space = strchr(text, ' ');
	int len = space ? (int)(space - text) : (int)strlen(text);

	if (len > 2 && strncmp(text + len - 2, ".0", 2) == 0)
		len -= 2;
	return arena_printf(a, "%.*s%s", len, text, space ? space + 1 : "");
}

/* "16.0 GT/s" -> 160 */
static int speed_tenths(const char *text)
{
	unsigned whole = 0, tenth = 0;

	return sscanf(text, "%3u.%1u", &whole, &tenth) >= 1 ? (int)(whole * 10 + tenth) : 0;
}

/* A link can do what the weaker of its ends can. */
static void link_limit(json_object *link, const char **max, int64_t *max_width)
{
	const char *other = ctl_doc_text(link, "max_speed");
	int64_t width = ctl_doc_int(link, "max_width", 0);

	if (speed_tenths(other) && (!speed_tenths(*max) || speed_tenths(other) < speed_tenths(*max)))
		*max = other;
	if (width && (!*max_width || width < *max_width))
		*max_width = width;
}

const char *ctl_link_text(struct arena *a, json_object *link, json_object *other_end, bool *slow)
{
	const char *now = ctl_doc_text(link, "speed"), *max = "", *best;
	int64_t width = ctl_doc_int(link, "width", 0), max_width = 0;
	bool slower, narrower;

	*slow = false;
	if (!link)
		return "";
	link_limit(link, &max, &max_width);
	link_limit(other_end, &max, &max_width);
	slower = speed_tenths(now) < speed_tenths(max);
	narrower = width < max_width;
	if (!width) /* that alone does not say that the link is down: guests see it on links that work */
		return ctl_doc_no(link, "up") ? "down" : max_width || *max ? "?" : "";
	now = *now ? ctl_speed_text(a, now) : "?";
	if (!slower && !narrower)
		return now ? arena_printf(a, "%s x%lld", now, (long long)width) : NULL;
	*slow = true;
	best = arena_printf(a, "%s%s%s", slower ? ctl_speed_text(a, max) : "", slower && narrower ? " " : "",
			    narrower ? arena_printf(a, "x%lld", (long long)max_width) : "");
	return now && best ? arena_printf(a, "%s x%lld (of %s)", now, (long long)width, best) : NULL;
}

static const char *owner_text(const char *owner)
{
	return strncmp(owner, "instance ", 9) == 0 ? owner + 9 : owner;
}

/* The link of what is at the other end: of a port that of the function below it, else of the one above. */
static json_object *other_end(const struct build *b, int i)
{
	const char *kind = ctl_doc_text(b->node[i].doc, "kind");
	int at = b->node[i].up;

	if (strcmp(kind, "dsp") == 0 || strcmp(kind, "root-port") == 0)
		at = b->node[i].first;
	return at >= 0 ? ctl_doc_get(b->node[at].doc, "link") : NULL;
}

static int add_row(struct build *b, int i, int parent)
{
	json_object *doc = b->node[i].doc;
	struct arena *a = &b->tree->arena;
	bool slow = false;
	struct ctl_row r = {
		.parent = parent,
		.device = ctl_doc_text(doc, "bdf"),
		.kind = ctl_doc_text(doc, "kind"),
		.id = ctl_doc_text(doc, "id"),
		.link = ctl_link_text(a, ctl_doc_get(doc, "link"), other_end(b, i), &slow),
		.slow = slow,
		.numa = print_int(a, ctl_doc_int(doc, "numa_node", -1)),
		.group = print_int(a, ctl_doc_int(doc, "iommu_group", -1)),
		.driver = ctl_doc_driver(doc),
		.owner = owner_text(ctl_doc_text(doc, "owner")),
	};

	b->added++;
	b->failed = b->failed || !r.link || !r.numa || !r.group;
	b->tree->row[b->tree->n] = r;
	return (int)b->tree->n++;
}

/* A row that stands for no single function. */
static struct ctl_row *add_plain(struct build *b, int parent, const char *device, const char *kind)
{
	struct ctl_row *r = &b->tree->row[b->tree->n++];

	b->failed = b->failed || !device;
	*r = (struct ctl_row){ .parent = parent, .device = device ? device : "", .kind = kind, .id = "", .link = "",
			       .numa = "", .group = "", .driver = "", .owner = "" };
	return r;
}

static void add_node(struct build *b, int i, int parent, int depth);

#define OWNERS_MAX 4 /* names in one cell */

/* Names of owners, none twice. */
static const char *owners_text(struct build *b, const char *const *owner, size_t n)
{
	const char *all = "";

	for (size_t i = 0; i < n && all; i++)
		all = arena_printf(&b->tree->arena, "%s%s%s", all, i ? ", " : "", i < OWNERS_MAX ? owner[i] : "...");
	b->failed = b->failed || !all;
	return all ? all : "";
}

static size_t owner_add(const char **owner, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(owner[i], name) == 0)
			return n;
	if (*name && n <= OWNERS_MAX)
		owner[n++] = name;
	return n;
}

/* The VFs of a PF as one row: how many, their driver if it is the same, and who has some of them. */
static void add_vfs(struct build *b, int pf, int parent)
{
	const char *driver = NULL, *owner[OWNERS_MAX + 1];
	size_t n = 0, used = 0, owners = 0;
	struct ctl_row *r;

	for (int i = b->node[pf].first; i >= 0; i = b->node[i].next) {
		const char *d = ctl_doc_driver(b->node[i].doc), *o = ctl_doc_text(b->node[i].doc, "owner");

		if (!b->node[i].vf || b->node[i].shown)
			continue;
		n++;
		used += *o != '\0';
		owners = owner_add(owner, owners, owner_text(o));
		driver = !driver || strcmp(driver, d) == 0 ? d : "(mixed)";
	}
	b->folded += n;
	if (!n)
		return;
	r = add_plain(b, parent, used ? arena_printf(&b->tree->arena, "%zu VF%s, %zu in use", n, n == 1 ? "" : "s", used)
				      : arena_printf(&b->tree->arena, "%zu VF%s", n, n == 1 ? "" : "s"), "vf");
	r->driver = driver;
	r->owner = owners_text(b, owner, owners);
}

static void add_below(struct build *b, int i, int row, int depth)
{
	for (int k = b->node[i].first; k >= 0; k = b->node[k].next)
		add_node(b, k, row, depth + 1);
	add_vfs(b, i, row);
}

static void add_node(struct build *b, int i, int parent, int depth)
{
	if (b->node[i].shown && depth < DEPTH_MAX)
		add_below(b, i, add_row(b, i, parent), depth);
}

static bool interesting(const struct build *b, const struct node *n)
{
	static const char *const kinds[] = { "gpu", "nvswitch", "nic", "data-direct", "nvme" };
	const char *kind = ctl_doc_text(n->doc, "kind");

	if (n->vf)
		return b->show & CTL_SHOW_VFS;
	if (b->show & CTL_SHOW_ALL || *ctl_doc_text(n->doc, "owner") || strcmp(kind, "vf") == 0)
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	return false;
}

static void link_nodes(struct build *b)
{
	for (int i = b->n - 1; i >= 0; i--) { /* backwards, so that children are in order */
		struct node *n = &b->node[i];
		int pf = n->vf ? find(b, ctl_doc_text(n->doc, "pf")) : -1;

		n->up = pf >= 0 ? pf : find(b, ctl_doc_text(n->doc, "parent"));
		n->vf = n->vf && pf >= 0; /* without its PF it is shown as a function of its own */
		n->shown = interesting(b, n);
		if (n->up < 0)
			continue;
		n->next = b->node[n->up].first;
		b->node[n->up].first = i;
	}
	for (int i = 0; i < b->n; i++) {
		bool holds = b->node[i].shown || *ctl_doc_text(b->node[i].doc, "owner");

		for (int up = holds ? b->node[i].up : -1; up >= 0 && !b->node[up].shown; up = b->node[up].up)
			b->node[up].shown = true;
	}
}

struct root {
	const char *bus;
	int         node, first; /* first: that of its host bridge */
};

static int compare_bus(const void *a, const void *b)
{
	const struct root *ra = a, *rb = b;
	int c = strcmp(ra->bus, rb->bus);

	return c ? c : ra->node - rb->node;
}

static int compare_first(const void *a, const void *b)
{
	const struct root *ra = a, *rb = b;

	return ra->first != rb->first ? ra->first - rb->first : ra->node - rb->node;
}

/* The shown functions with no bridge above, by host bridge, those in the order of their first function. */
static size_t list_roots(const struct build *b, struct root *root)
{
	size_t n = 0;

	for (int i = 0; i < b->n; i++)
		if (b->node[i].up < 0 && b->node[i].shown)
			root[n++] = (struct root){ .bus = ctl_doc_text(b->node[i].doc, "root_bus"), .node = i };
	if (n)
		qsort(root, n, sizeof(*root), compare_bus);
	for (size_t i = 0; i < n; i++)
		root[i].first = i && strcmp(root[i - 1].bus, root[i].bus) == 0 ? root[i - 1].first : root[i].node;
	if (n)
		qsort(root, n, sizeof(*root), compare_first);
	return n;
}

static void add_bridges(struct build *b)
{
	struct root *root = arena_array(&b->tree->arena, (size_t)b->n + 1, sizeof(*root));
	size_t n = root ? list_roots(b, root) : 0;
	int row = -1;

	b->failed = b->failed || !root;
	for (size_t i = 0; i < n; i++) {
		if (!i || root[i].first != root[i - 1].first) {
			row = (int)b->tree->n;
			(void)add_plain(b, -1, *root[i].bus ? root[i].bus : "(unknown)", "host");
		}
		add_node(b, root[i].node, row, 0);
	}
}

int ctl_tree_build(struct ctl_tree *ret, json_object *topology, unsigned show, struct error *err)
{
	json_object *nodes = ctl_doc_list(topology, "nodes");
	size_t n = ctl_doc_count(nodes);
	struct ctl_tree tree = { 0 };
	struct build b = { .tree = &tree, .n = (int)n, .show = show };

	if (!nodes || n > 1000000)
		return error_set(err, -EPROTO, "the answer is not a topology");
	b.node = arena_array(&tree.arena, n + 1, sizeof(*b.node));
	/* a row per function, per host bridge and per PF's VFs */
	tree.row = arena_array(&tree.arena, 3 * n + 1, sizeof(*tree.row));
	if (!b.node || !tree.row) {
		arena_done(&tree.arena);
		return error_set(err, -ENOMEM, "no memory for a tree");
	}
	for (size_t i = 0; i < n; i++) {
		json_object *doc = json_object_array_get_idx(nodes, i);

		b.node[i] = (struct node){ .doc = doc, .bdf = ctl_doc_text(doc, "bdf"), .up = -1, .first = -1, .next = -1,
					   .vf = *ctl_doc_text(doc, "pf") };
	}
	if (n)
		qsort(b.node, n, sizeof(*b.node), compare);
	link_nodes(&b);
	add_bridges(&b);
	tree.hidden = n - b.added - b.folded;
	if (b.failed) {
		arena_done(&tree.arena);
		return error_set(err, -ENOMEM, "no memory for a tree");
	}
	*ret = tree;
	return 0;
}

void ctl_tree_done(struct ctl_tree *t)
{
	arena_done(&t->arena);
	*t = (struct ctl_tree){ 0 };
}
