/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/crew — threads for calls that may never return. A task runs on one of them; who waits for it gives up at the
 * deadline of the call that it is in. What hangs keeps its thread, its task and the memory of that, and nothing else:
 * a task owns all that it uses. Threads for calls and those that copy images are not the same ones, for these need other system
 * calls; each kind is started by a thread of its own, so that who asks for it need not have them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "instance/span.h"

struct crew; /* opaque */
struct error;

struct task;
typedef int task_fn(struct task *t, void *arg, struct error *err);

enum task_group { TASK_MACHINE, TASK_LIBVIRT, TASK_GROUP_MAX_ }; /* what hangs of one does not use up the other's limit */

enum task_kind { TASK_CALLS, TASK_IMAGES, TASK_KIND_MAX_ };

struct task_call {
	const char     *what, *target; /* of the task's arena, or constant */
	enum task_group group;
	unsigned        ms; /* it may take */
};

struct task {
	struct arena     arena; /* dies with the task: what fn uses lives in it */
	struct crew     *crew;
	enum task_kind   kind; /* TASK_CALLS, unless set before it is started */
	task_fn         *fn;
	void            *arg;
	struct span      span; /* when fn ran */
	struct task     *next; /* of the queue, or of those that hang */
	bool             ended, given_up, awaited;
	struct task_call call;   /* that it is in; what NULL: none */
	uint64_t         due;    /* of that call: ms, CLOCK_MONOTONIC */
	int              r;
	struct error    *err; /* of fn; in the arena */
};

struct crew_env {
	unsigned threads; /* of each kind, at most */
	void (*begins)(void *self, enum task_kind kind); /* first of all, by who starts the threads of a kind, who inherit from it */
	void (*returned)(void *self, const char *target); /* what hung has returned at last; on its thread, which must not be kept */
	void    *self;
	void    *own; /* of malloc(3); NULL: nothing. From crew_new() on the crew's, which frees it with its last thread: one that hangs may come later than
	               * crew_free() */
};

int crew_new(struct crew **ret, const struct crew_env *env, struct error *err);
/* Waits for all tasks but those that hang; where one hangs, the memory is left to it. NULL is fine; returns NULL. */
struct crew *crew_free(struct crew *c);
/* From now on nobody waits longer than ms for a task. */
void crew_hurry(struct crew *c, unsigned ms);
bool crew_late(struct crew *c); /* that time is over */
unsigned crew_hanging(struct crew *c); /* how many tasks */

/* NULL: no memory. */
struct task *task_new(struct crew *c);
void task_start(struct task *t, task_fn *fn, void *arg);
/* What fn returned, and in span when it ran. -ETIMEDOUT where it hangs: then *t becomes NULL, and is not the caller's any more. */
int task_wait(struct task **t, struct span *span, struct error *err);
struct task *task_free(struct task *t); /* never started, or waited for; NULL is fine; returns NULL */

/* Around a call that may hang, by fn. task_enter: -ETIMEDOUT if an earlier call on this target hangs still, or too many do.
 * task_leave: r, or -ETIMEDOUT if nobody waits any more: then fn returns and does nothing else. */
int task_enter(struct task *t, const struct task_call *call, struct error *err);
int task_leave(struct task *t, int r, struct error *err);
/* By fn: the longest that one of its calls might have taken since this was asked last; ms, 0: there was none. */
unsigned task_limit(struct task *t);
