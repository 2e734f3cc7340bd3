/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/tree — which functions of a topology document are shown, below what, and with which words. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct error;
struct json_object;

struct ctl_row {
	int         parent; /* row above; -1: a host bridge */
	const char *device; /* "pci0000:15", a BDF, or "16 VFs, 3 in use"; this and all below never NULL */
	const char *kind, *id; /* "gpu", "10de:2330" */
	const char *link;   /* "32GT/s x16" */
	bool        slow;   /* the link is trained down */
	const char *numa, *group, *driver, *owner;
};

struct ctl_tree {
	struct arena    arena;
	struct ctl_row *row; /* parents before children */
	size_t          n, hidden; /* functions that have no row, VFs of a "16 VFs" row not counted */
};

enum ctl_show {
	CTL_SHOW_ALL = 1 << 0, /* functions of kind "other" that nobody uses, and ports with nothing to show below */
	CTL_SHOW_VFS = 1 << 1, /* each VF in a row of its own; else those of a PF in one, a host may have thousands */
};

/* show: of enum ctl_show. -ENOMEM; -EPROTO: not a topology. */
int  ctl_tree_build(struct ctl_tree *ret, struct json_object *topology, unsigned show, struct error *err);
void ctl_tree_done(struct ctl_tree *t);

const char *ctl_speed_text(struct arena *a, const char *speed); /* "32.0 GT/s" -> "32GT/s"; NULL: no memory */
/* "32GT/s x16", or "8GT/s x16 (of 32GT/s)" with *slow where both ends of the link could do better: a slow
 * device in a fast slot is no fault. other_end NULL: not known. The text is the arena's; NULL: no memory. */
const char *ctl_link_text(struct arena *a, struct json_object *link, struct json_object *other_end, bool *slow);
