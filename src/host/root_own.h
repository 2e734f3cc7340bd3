/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/root_own — what root.c and config.c share (room-private). */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/path.h"
#include "host/record.h"
#include "host/root.h"

struct vpd_known;

struct vpd_seen { /* src/host/vpd.c: serial numbers that were read before */
	pthread_mutex_t   lock; /* of the next two */
	struct vpd_known *known; /* owned */
	size_t            n, size;
	bool              wanted;
};

struct kept_file;

struct kept { /* src/host/kept.c: files that stay open */
	pthread_mutex_t   lock; /* of the rest */
	struct kept_file *at; /* owned */
	size_t            n;
};

struct avoided { /* src/host/progress.c: files that are not read */
	pthread_mutex_t lock; /* of the rest, but that n may be looked at */
	char          **path; /* owned, each of them, too */
	atomic_uint     n;
};

struct host_root {
	int               fd;   /* the directory; -1 for a text host */
	bool              machine;
	struct text_host *text; /* owned; NULL for a directory */
	struct recorder   record;
	int (*opener)(void *self, const char *path); /* NULL: nobody else opens files */
	void             *opener_self;               /* borrowed */
	struct vpd_seen   vpd;
	struct kept       kept;
	struct avoided    avoided;
	atomic_uint_fast64_t syscalls, config_dwords;
};

/* A file that may be another's to open. */
int root_open_asked(struct host_root *r, const char *path);
int root_open(struct host_root *r, const char *path, uint64_t flags); /* a descriptor, or -errno */
/* What is in a file, as much of it as there is room for; of a directory, not of a text host. 0 or -errno. */
int root_read(struct host_root *r, char *buf, size_t size, size_t *len, const char *path, uint64_t resolve);
int kept_read(struct host_root *r, char *buf, size_t size, size_t *len, const char *path); /* the same, and it stays open */
/* Around the reading of a file. -ETIMEDOUT: it is avoided (host/progress), and there is nothing to end. */
int  progress_begin(struct host_root *r, const char *path);
void progress_end(void);
void avoided_done(struct avoided *a);
void kept_init(struct kept *k);
void kept_done(struct kept *k);
