/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/root_own — what root.c and config.c share (room-private). */

#include <stdatomic.h>

#include "host/path.h"
#include "host/record.h"
#include "host/root.h"

struct host_root {
	int               fd;   /* the directory; -1 for a text host */
	bool              machine;
	struct text_host *text; /* owned; NULL for a directory */
	struct recorder   record;
	atomic_uint_fast64_t syscalls, config_dwords;
};

int root_open(struct host_root *r, const char *path, uint64_t flags); /* a descriptor, or -errno */
