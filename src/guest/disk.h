/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* guest/disk — the disks of the domain XML (room-private). They share one slot, so that what hangs beside them does not move with
 * their number: the boot disk, the seed, data disks, as functions from 0; and one I/O thread, GUEST_IOTHREAD. */

#define GUEST_IOTHREAD "1"

struct guest_env;
struct plan_request;
struct xml;

unsigned guest_disks(const struct plan_request *r); /* how many */
void guest_disks_write(struct xml *x, const struct plan_request *r, const struct guest_env *env);
