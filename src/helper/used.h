/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* helper/used — does the host itself use a PCI function? Decided from files: file systems and swap on disks below it,
 * what is stacked on these (device mapper, md, bcache), and network interfaces with an address, a route, or a master.
 * What no file says is not seen: a program that has a device node open, a ZFS pool, a GPU that computes. */

#include "base/bdf.h"
#include "host/root.h"

struct error;

/* path: "sys/devices/.../0000:17:00.0". -EBUSY: it does, and how; -EIO: it cannot be told. */
int used_by_host(struct host_root *root, const char *path, struct bdf fn, struct error *err);
