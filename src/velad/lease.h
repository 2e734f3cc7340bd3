/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/lease — plans that hold their devices for a while, until an instance is made of them. In memory only, on the
 * loop's thread: a daemon that starts anew has none, and whoever had one plans again. The clock is the caller's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/auto.h"

struct arena;
struct error;
struct json_object;
struct plan;
struct plan_input;

#define LEASES_MAX        64
#define LEASES_UID_MAX    16 /* of one user */
#define LEASE_SECONDS_MAX 300
#define LEASE_BUNDLES_MAX 16
#define LEASE_ID_MAX      17 /* 16 hex digits */

struct lease_bundle {
	struct json_object *request; /* owned; plan_request_json() */
	struct plan        *plan;    /* owned; NULL: used, an instance has it */
};

struct lease {
	char                id[LEASE_ID_MAX];
	uid_t               uid;
	uint64_t            until;   /* usec of the caller's clock */
	int64_t             expires; /* seconds of the epoch, for people */
	unsigned            seconds;
	struct lease_bundle bundle[LEASE_BUNDLES_MAX];
	size_t              n;
};

struct leases {
	struct lease *at[LEASES_MAX]; /* owned; oldest first */
	size_t        n;
};

void leases_done(struct leases *l);
/* Whether this user may have one more now; -EBUSY says what to do. */
int leases_room(struct leases *l, uid_t uid, uint64_t now, struct error *err);
/* Takes the bundles on success. -EBUSY, -ENOMEM. */
int leases_add(struct leases *l, struct lease **ret, uid_t uid, uint64_t now, unsigned seconds,
	       struct lease_bundle *bundle, size_t n, struct error *err);
/* A user's own, root every one. -ENOENT: there is none, it is somebody else's, or its time is over. */
int leases_find(struct leases *l, struct lease **ret, const char *id, uid_t uid, uint64_t now, struct error *err);
void leases_drop(struct leases *l, struct lease *lease);
/* An instance has this bundle now; with the last one the lease goes. */
void leases_use(struct leases *l, struct lease *lease, size_t bundle);
/* Appends devices, CPUs and memory of leases to what instances hold (taken, room); all in the arena. One bundle may be left out: the one that is about to be used. -ENOMEM. */
int leases_hold(struct leases *l, uint64_t now, const struct lease *except, size_t bundle, struct plan_input *in, struct arena *arena,
		struct error *err);
/* {"id", "uid", "expires", "seconds", "bundles": [{"gpus", "vfs", "used"}...]}; NULL: no memory. */
struct json_object *lease_json(const struct lease *lease);
/* {"leases": [...]}, of this user, for root of all. */
struct json_object *leases_json(struct leases *l, uid_t uid, uint64_t now);
