/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/picture — a topology as nested boxes: NUMA nodes, host bridges, switches, devices. Its words come
 * from picture.c, its geometry from layout.c; svg.c and dot.c only draw. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct ctl_names;
struct error;
struct json_object;

enum ctl_box_kind {
	CTL_BOX_PAGE,
	CTL_BOX_NODE,   /* NUMA */
	CTL_BOX_BRIDGE, /* host bridge */
	CTL_BOX_SWITCH, /* its upstream port, or another bridge */
	CTL_BOX_PORT,   /* with nothing below; other ports have no box */
	CTL_BOX_GPU,
	CTL_BOX_NVSWITCH,
	CTL_BOX_NIC,
	CTL_BOX_NVME,
	CTL_BOX_OTHER,
	CTL_BOX_VF,
	CTL_BOX_KINDS,
};

enum ctl_tone { CTL_PLAIN, CTL_STRONG, CTL_WARN, CTL_OWNER };

struct ctl_line {
	const char   *left, *right; /* never NULL */
	enum ctl_tone tone, right_tone;
};

#define CTL_BOX_LINES 7 /* label, name, slow link, group, NUMA, owner, VFs */

struct ctl_box {
	enum ctl_box_kind kind;
	int               parent, first, last, prev, next; /* boxes; -1: none */
	struct ctl_line   line[CTL_BOX_LINES];
	unsigned          nlines;
	const char       *tip;  /* in full what may be cut in the lines; "" for boxes of no function */
	const char       *link; /* to what is above; "" if there is none */
	bool              slow; /* it is trained down */
	int               x, y, w, h; /* from ctl_layout() */
};

struct ctl_chip { /* of the legend */
	enum ctl_box_kind kind;
	const char       *text;
	int               x, y;
};

struct ctl_picture {
	struct arena    arena;
	struct ctl_box *box; /* the first is the page; parents before children */
	int             n;
	const char     *note; /* below all; "" if there is none */
	struct ctl_chip chip[CTL_BOX_KINDS];
	size_t          nchips;
};

/* show: of enum ctl_show. All text in it is UTF-8 without control characters. names NULL: numbers. -ENOMEM; -EPROTO: not a topology. */
int  ctl_picture_build(struct ctl_picture *ret, struct json_object *topology, unsigned show, struct ctl_names *names,
		       struct error *err);
void ctl_picture_done(struct ctl_picture *p);

/* Geometry, in pixels; cuts lines that do not fit into their box. -ENOMEM. */
#define CTL_PAD    8  /* between a box and what is in it */
#define CTL_LINE   15 /* of text */
#define CTL_SWATCH 12 /* the legend's coloured squares */
int ctl_layout(struct ctl_picture *p, struct error *err);
