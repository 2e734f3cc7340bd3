/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The DOT language (graphviz.org/doc/info/lang.html): names are ours, labels are quoted. With
 * rankdir=LR dot stacks from the bottom to the top, hence the last comes first here. */
#include "velactl/dot.h"

#include <stdbool.h>

#include "base/sbuf.h"
#include "velactl/picture.h"

static const char *const fills[CTL_BOX_KINDS] = {
	[CTL_BOX_PAGE] = "white", [CTL_BOX_NODE] = "#f3f4f6", [CTL_BOX_BRIDGE] = "white",    [CTL_BOX_SWITCH] = "#e0e7ef",
	[CTL_BOX_PORT] = "white", [CTL_BOX_GPU] = "#c9e7a5",  [CTL_BOX_NVSWITCH] = "#e3d5f7", [CTL_BOX_NIC] = "#bfdcf7",
	[CTL_BOX_NVME] = "#fbe3b3", [CTL_BOX_OTHER] = "#f5f5f4", [CTL_BOX_VF] = "#e6f2fd",
};

/* In a label a backslash begins an escape and an ampersand an entity (graphviz.org/docs/attr-types/escString). */
static void quote(struct sbuf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			sbuf_addf(out, "\\%c", *text);
		else if (*text == '&')
			sbuf_add(out, "&amp;");
		else
			sbuf_add_bytes(out, text, 1);
	}
}

/* The lines of a box from `from` on; each ends left-aligned. */
static void label(struct sbuf *out, const struct ctl_box *b, unsigned from)
{
	sbuf_add(out, "label=\"");
	for (unsigned i = from; i < b->nlines; i++) {
		quote(out, b->line[i].left);
		sbuf_add(out, *b->line[i].left && *b->line[i].right ? "  " : "");
		quote(out, b->line[i].right);
		sbuf_add(out, "\\l");
	}
	sbuf_add(out, "\"");
}

static void open_cluster(struct sbuf *out, const struct ctl_box *b, int i, int depth)
{
	sbuf_addf(out, "%*ssubgraph cluster%d {\n%*sstyle=filled fillcolor=\"%s\" color=\"#6b7280\" ", depth, "", i, depth + 1,
		  "", fills[b->kind]);
	label(out, b, 0);
	sbuf_add(out, "\n");
}

static void node(struct sbuf *out, const struct ctl_box *b, int i, int depth)
{
	sbuf_addf(out, "%*sb%d [fillcolor=\"%s\"", depth, "", i, fills[b->kind]);
	if (b->kind == CTL_BOX_SWITCH) { /* the cluster around it has its words */
		sbuf_add(out, " shape=circle width=0.2 label=\"\"");
	} else {
		sbuf_add(out, " ");
		label(out, b, 0);
	}
	sbuf_add(out, "]\n");
}

static void boxes(struct sbuf *out, const struct ctl_picture *p, int i, int depth)
{
	const struct ctl_box *b = &p->box[i];
	bool cluster = b->kind == CTL_BOX_NODE || b->kind == CTL_BOX_SWITCH;

	if (cluster)
		open_cluster(out, b, i, depth);
	if (b->kind != CTL_BOX_PAGE && b->kind != CTL_BOX_NODE)
		node(out, b, i, depth + cluster);
	for (int c = b->last; c >= 0; c = p->box[c].prev)
		boxes(out, p, c, depth + cluster);
	if (cluster)
		sbuf_addf(out, "%*s}\n", depth, "");
}

static void edges(struct sbuf *out, const struct ctl_picture *p)
{
	for (int i = p->n - 1; i > 0; i--) {
		const struct ctl_box *b = &p->box[i];

		if (b->kind <= CTL_BOX_BRIDGE)
			continue;
		sbuf_addf(out, " b%d -> b%d [label=\"", b->parent, i);
		quote(out, b->link);
		sbuf_addf(out, "\"%s]\n", b->slow ? " color=\"#b91c1c\" fontcolor=\"#b91c1c\" style=dashed" : "");
	}
}

void ctl_dot_write(struct sbuf *out, const struct ctl_picture *p)
{
	sbuf_add(out, "digraph topology {\n rankdir=LR\n labeljust=l\n labelloc=t\n ranksep=1.2\n ordering=out\n fontname=\"sans-serif\"\n"
		      " node [shape=box style=filled fontname=\"sans-serif\" fontsize=10]\n"
		      " edge [dir=none fontname=\"sans-serif\" fontsize=9]\n ");
	label(out, &p->box[0], 0);
	sbuf_add(out, "\n");
	boxes(out, p, 0, 1);
	edges(out, p);
	sbuf_add(out, "}\n");
}
