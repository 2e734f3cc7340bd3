/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/readers — the threads that read the machine: one reading at a time, by one of them. Where a single file has not returned for as long as
 * one may take, its thread is left with it, the file is avoided (host/progress), and the next thread does the reading anew without it; when it
 * has returned at last, that is told, and the thread is as good as the others. Lives on the loop's thread. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/bdf.h"
#include "base/error.h"
#include "host/change.h"
#include "host/root.h"

struct current_env;
struct host_watch;
struct json_object;
struct readers; /* opaque */
struct topo;

struct reading {
	/* what it is to do; nobody changes it until it is through */
	struct topo        *old;    /* a reference; NULL: there is none yet */
	struct host_changes what;   /* owned */
	bool                check;  /* that the bus has what old has, and no more */
	bool                helper; /* velad-helper was away: is it there again? */
	bool                hears;  /* there is a watch */
	/* what came of it */
	bool                lost;   /* everything was to be read */
	bool                whole;  /* everything was */
	struct topo        *fresh;  /* NULL: there was nothing to read */
	struct json_object *items;  /* what differs from old; NULL: no old, nothing fresh, or no memory */
	struct host_watch  *watch;  /* one that there can be now; NULL none */
	int                 r;
	struct error        err;
};

void reading_done(struct reading *r); /* all 0 then */

struct stuck { /* a file whose reading has not returned */
	char       path[HOST_PATH_MAX]; /* below the root */
	struct bdf bdf;   /* of the function that it belongs to; BDF_NONE: none */
	uint64_t   since; /* CLOCK_MONOTONIC, us */
};

struct readers_env {
	const struct current_env *env; /* borrowed, and outlives the threads */
	void (*through)(void *self);   /* readers_take() has something; also if that was taken already */
	void (*returned)(void *self, const struct stuck *file); /* it may be read again */
	void *self;
};

int readers_new(struct readers **ret, const struct readers_env *env, struct error *err);
/* Waits for a reading that is under way, as long as a file may take. False: one hangs, and what its thread uses has to stay until the process
 * ends. NULL is fine. */
bool readers_free(struct readers *rs);

bool readers_may_hear(const struct current_env *env); /* of changes of this root, from the kernel or a simulated machine */

/* Takes what is in it. Not while one is under way or was not taken. Without a thread that is left it is through at once, with an error.
 * readers_await() is to follow. */
void readers_start(struct readers *rs, struct reading *r);
/* Until it is through, at most so long. False: it is not, and is watched over from now on. */
bool readers_await(struct readers *rs, uint64_t usec);
void readers_look(struct readers *rs); /* whether it moves: without a loop that runs, to be called every now and then */
/* The reading that is through; the caller's from then on, until reading_done(). NULL: none is. */
struct reading *readers_take(struct readers *rs);
bool readers_under_way(const struct readers *rs); /* or through, and not taken */

/* The i-th file that hangs; NULL: there are no more. */
const struct stuck *readers_stuck(const struct readers *rs, unsigned i);
int readers_too_slow(struct readers *rs, struct error *err); /* -ETIMEDOUT, and the file that the reading is at */
