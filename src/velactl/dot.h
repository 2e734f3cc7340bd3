/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/dot — a picture for graphviz, which does the layout itself. Pure. */

struct ctl_picture;
struct sbuf;

void ctl_dot_write(struct sbuf *out, const struct ctl_picture *p);
