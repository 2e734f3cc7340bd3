/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/storage — the directory of images, disks and seeds, which is a libvirt storage pool. Disks are made through libvirt; what
 * velad writes there itself (images, seeds) libvirt is told of. Thread-safe: one call at a time. */

#include <pthread.h>

#include "act/act.h"

struct act_virt;

struct act_storage {
	pthread_mutex_t   lock;
	struct act_virt  *virt; /* borrowed, like all below */
	struct act_images at;
};

int act_storage_file(struct act_storage *s, struct act_file *ret, const char *name, struct error *err);
int act_storage_drop(struct act_storage *s, const char *name, struct error *err);
int act_storage_disk(struct act_storage *s, const struct act_disk *disk, struct error *err);
int act_storage_seed(struct act_storage *s, const char *name, const struct act_seed *seed, struct error *err);
int act_storage_pool(struct act_storage *s, struct error *err); /* made if it is not there, and as new as the directory */
