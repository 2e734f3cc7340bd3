/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/missing — what functions refer to and what is not there (room-private). */

struct inventory;
struct topo;

/* For topo_build(): NUMA nodes and VFs that are missing become findings. -ENOMEM. */
int topo_missing_check(const struct topo *t, struct inventory *inv);
