/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/watch — hears of changes: kernel uevents and link events of network interfaces. Names functions only; what
 * became of them is for host_inventory_update() to read. Has no loop and no thread: whoever has one waits for
 * the descriptors to be readable. */

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

struct error;
struct host_changes;
struct host_root;
struct host_watch; /* opaque */

enum host_watch_source {
	HOST_WATCH_UEVENT, /* NETLINK_KOBJECT_UEVENT, the kernel's group; or a Unix socket that gives the same */
	HOST_WATCH_LINK,   /* NETLINK_ROUTE, RTNLGRP_LINK */
	HOST_WATCH_FDS,
};

/* socket NULL: this machine's kernel, asked through root's opener if it has one. Else a Unix SOCK_SEQPACKET socket that gives
 * one uevent a message, or "ENOBUFS" where some are lost: a simulated kernel's. root may be NULL. */
int host_watch_open(struct host_watch **ret, struct host_root *root, const char *socket, struct error *err);
int host_watch_socket(enum host_watch_source source); /* one of the kernel's, or -errno */
int host_devlink_socket(void);                        /* devlink.c's, for another process; or -errno */
struct host_watch *host_watch_close(struct host_watch *w); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct host_watch *, host_watch_close);
/* Of descriptors that are open; takes them over; -1: none. NULL: no memory. */
struct host_watch *host_watch_of(int uevents, int links);

int host_watch_fd(const struct host_watch *w, size_t i); /* i < HOST_WATCH_FDS; -1: there is none */
/* Takes all that has come, without waiting: what has happened before this call is in *c. Messages that were lost
 * or are not understood set c->lost. A negative errno: a source has ended, and nothing will come any more. */
int host_watch_read(struct host_watch *w, struct host_changes *c);
