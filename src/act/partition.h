/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/partition — partitions of NVSwitches, active or not, through NVIDIA's fmpm. */

#include <stdbool.h>

#include "act/act.h"

struct error;
struct host_root;

/* As act_ops.partition. */
int act_partition(struct host_root *root, const char *fmpm, bool *ret, unsigned id, enum act_want want, struct error *err);
