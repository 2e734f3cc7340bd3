/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/matrix — the path classes between devices, as `nvidia-smi topo -m` shows them. Pure. */

#include <stdbool.h>

#include "base/bdf.h"

struct ctl_names;
struct ctl_out;
struct error;
struct json_object;

/* In blocks of columns where the output is narrow; below them what each label and each class is.
 * all: NVSwitches too. names NULL: numbers. -EPROTO: not a topology. */
int ctl_matrix_write(struct ctl_out *out, struct json_object *topology, bool all, struct ctl_names *names,
		     struct error *err);
/* The device that the matrix calls "GPU0", in any case. -ENOENT. */
int ctl_matrix_find(struct bdf *ret, struct json_object *topology, const char *label);
