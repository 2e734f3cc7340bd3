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
	const char *device; /* "pci0000:15", a BDF, or "16 VFs"; this and all below never NULL */
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

/* Without `all`: no functions of kind "other", no ports with nothing to show below, and a PF's VFs in one
 * row, but for those that somebody has. -ENOMEM; -EPROTO: not a topology. */
int  ctl_tree_build(struct ctl_tree *ret, struct json_object *topology, bool all, struct error *err);
void ctl_tree_done(struct ctl_tree *t);

/* "32GT/s x16", or "8GT/s x16 (of 32GT/s)" with *slow where both ends of the link could do better: a slow
 * device in a fast slot is no fault. other_end NULL: not known. The text is the arena's; NULL: no memory. */
const char *ctl_link_text(struct arena *a, struct json_object *link, struct json_object *other_end, bool *slow);
