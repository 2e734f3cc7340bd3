/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/svg — a picture that has its layout, as SVG. */

struct ctl_picture;
struct error;

int ctl_svg_write(char **ret, const struct ctl_picture *p, struct error *err); /* the caller frees */
