/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/remote — velad-helper's client: each call has a connection of its own while it lasts, so that one that hangs in the kernel holds up no
 * other; velad's loop and its reader open files through one that is kept. A helper that went away is asked once more: each verb says what is
 * to be, so that saying it twice is no harm. Thread-safe. */

#include "act/wire.h"
#include "base/auto.h"

struct act_remote; /* opaque */
struct host_root;

int act_remote_new(struct act_remote **ret, const char *socket, struct error *err);
struct act_remote *act_remote_free(struct act_remote *r); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct act_remote *, act_remote_free);

/* -ENOTCONN: the helper cannot be reached, or went away; else what it answers. ret may be NULL. */
int act_remote_call(struct act_remote *r, struct wire_answer *ret, const struct wire_call *c, struct error *err);
/* A descriptor, which its answer brings. In the thread that called act_remote_new(), and in those that called act_remote_hasty(): through
 * the kept connection, -ETIMEDOUT if there was none within 2 s (5 s of a helper that ended and may be starting, 30 s of one that
 * has never been heard, also for its socket to be there), and for the next 10 s at once. In others, as act_remote_call(). */
int act_remote_fd(struct act_remote *r, const struct wire_call *c, struct error *err);
void act_remote_patience(struct act_remote *r, int seconds); /* instead of 30 s; before it is asked */
/* -ENOTCONN, and why: it could not be asked when that was tried last. */
int act_remote_away(struct act_remote *r, struct error *why);
void act_remote_hasty(void); /* of the calling thread */
/* As host_root_set_opener wants it; self is the act_remote. */
int act_remote_open(void *self, const char *path);
