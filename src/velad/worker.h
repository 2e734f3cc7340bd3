/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/worker — a thread that does one job after the other for the loop, which goes on meanwhile. What a job uses is the thread's from
 * worker_start() until the worker is not busy any more; nobody else touches it. Lives on the loop's thread. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/auto.h"
#include "velad/sandbox.h"

struct error;
struct worker; /* opaque */

struct worker_does {
	const char *what; /* "that reads the machine", for errors */
	enum sandbox_thread is;  /* its system calls are that's */
	enum seccomp_how    how; /* unless this is SECCOMP_OFF */
	void      (*work)(void *self); /* on the thread */
	void      (*done)(void *self); /* on the loop, once the job is through; also of one that was awaited, or is it already */
	void       *self;
};

/* The thread is made here, while this process still may make any (velad/sandbox). */
int worker_new(struct worker **ret, sd_event *event, const struct worker_does *does, struct error *err);
/* Waits for the job that is under way; done is not called any more. NULL is fine; returns NULL. */
struct worker *worker_free(struct worker *w);
AUTO_DEFINE(struct worker *, worker_free);

void worker_start(struct worker *w); /* not while it is busy */
bool worker_busy(struct worker *w);
bool worker_await_for(struct worker *w, uint64_t usec); /* until it is not, at most so long: false if it still is */
