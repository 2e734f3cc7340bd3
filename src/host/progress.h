/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/progress — which file a thread reads at this moment, and files that are not read any more. A driver that hangs keeps its device locked,
 * and so does one that takes minutes to make VFs; who reads a file that wants the same lock waits as long (driver_override_show(),
 * drivers/pci/pci-sysfs.c; sriov_numvfs_show(), drivers/pci/iov.c). No time ends such a read, but another thread can go on without the file. */

#include <pthread.h>
#include <stdint.h>

#include "host/root.h"

struct host_progress {
	pthread_mutex_t lock; /* of the rest */
	uint64_t        files; /* that were begun with */
	char            path[HOST_PATH_MAX]; /* below the root, of the one that is being read; "": none */
};

void host_progress_init(struct host_progress *p);
void host_progress_done(struct host_progress *p);
/* What this thread reads through any root is told to p (borrowed) from now on; NULL: to nobody. */
void host_progress_here(struct host_progress *p);
/* By any thread: its path, and the number of it. */
uint64_t host_progress_get(struct host_progress *p, char path[HOST_PATH_MAX]);

/* From now on the file, and with a file that waits for its device's lock the others of that device that do, fails with -ETIMEDOUT instead of
 * being read, by any thread. -ENOMEM. */
int  host_avoid(struct host_root *r, const char *path);
void host_forgive(struct host_root *r, const char *path); /* it is read again, as are the others that were avoided with it */
