/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/pool — the threads that run operations: of one instance one at a time, of several side by side. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"

#define POOL_THREADS_MAX 32

struct error;
struct inst_manager;
struct job;

struct pool_thread {
	struct inst_manager *m; /* its owner */
	pthread_t            thread;
	uint64_t             op;       /* that it runs; 0 none */
	const char          *instance; /* of that operation; lives as long as it runs */
	struct job          *job;      /* likewise; NULL until it is marked as running */
};

struct pool { /* below: under the manager's lock */
	pthread_cond_t     cond;
	struct pool_thread thread[POOL_THREADS_MAX];
	size_t             n;
	unsigned           work;  /* POOL_* */
	struct backoff     retry; /* after a failure */
	uint64_t           retry_at; /* ms, CLOCK_MONOTONIC: not before, unless woken; 0 at once */
	struct backoff     silent;   /* until libvirt, which did not answer, is asked again, but by operations */
	uint64_t           look_at;  /* ms: when that is; 0 never */
	bool               waits;    /* an operation may wait for its next try */
	uint64_t           due_at;   /* ms: when that is; 0 never, or not known yet */
	uint64_t           rest_at;  /* ms: when memory is given back, if there was nothing to do until then; 0: it was, since something was done */
};

enum {
	POOL_QUEUE = 1, /* an operation waits */
	POOL_KEEP = 2,  /* look whether running guests have what their plans set */
	POOL_LOOK = 4,  /* compare the store with libvirt's domains */
	POOL_ADOPT = 16, /* and with the machine */
	POOL_UNDO = 8,  /* what hung has returned: give back what failed operations could not, and try again what waits */
};

int  pool_start(struct inst_manager *m, unsigned threads, struct error *err);
void pool_stop(struct inst_manager *m); /* waits for the operations that run */
struct job *pool_find(struct inst_manager *m, uint64_t op); /* that runs now; under the manager's lock. NULL: none */
void pool_wake(struct inst_manager *m, unsigned work);
void pool_waits(struct inst_manager *m); /* an operation waits for its next try */
void pool_look_within(struct inst_manager *m, unsigned ms); /* POOL_LOOK in so many; pool_asked() takes that back */
void pool_asked(struct inst_manager *m, bool answered); /* libvirt; where it did not answer, POOL_LOOK follows by itself */
