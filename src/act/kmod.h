/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/kmod — the vfio-pci driver: is it in the kernel, and bringing it there. The only file that knows
 * libkmod. */

#include <stdbool.h>

struct error;
struct host_root;

int act_vfio_loaded(struct host_root *root, bool *ret, struct error *err);
/* Loads it with its dependencies as modprobe -b would. Only on the machine itself: never for a root
 * elsewhere. */
int act_vfio_load(struct host_root *root, struct error *err);
