/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A read of sysfs can sleep in the kernel behind a driver that is stuck in its device_lock(), uninterruptibly, and a call of
 * libvirt can wait for a daemon that does not answer. No such call can be taken back: it can only be left alone.
 *
 * Threads are made when there is work for them, and end when there was none for a while. One that hangs does not count. */
#include "instance/crew.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

#define IDLE_MS     5000 /* then a thread ends */
#define HANGING_MAX 16   /* of a group: more calls are not begun */
#define POLL_MS     20   /* while a task is in no call: it may enter one */

struct crew {
	pthread_mutex_t lock; /* of all below, and of all tasks */
	pthread_cond_t  work, done;
	void (*returned)(void *self, const char *target);
	void           *self;
	unsigned        max;
	unsigned        threads, idle, queued; /* threads: without those that hang */
	unsigned        hanging[TASK_GROUP_MAX_];
	unsigned        returning; /* threads that are in returned() */
	struct task    *first, **last; /* the queue */
	struct task    *hangs;
	uint64_t        hurry; /* ms: the end of all waiting; 0 none */
	bool            stop, orphan; /* orphan: the last that hung frees it */
};

/* ETIMEDOUT at `at`, ms. */
static int wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at)
{
	struct timespec until = { .tv_sec = (time_t)(at / 1000), .tv_nsec = (long)(at % 1000) * 1000000 };

	return pthread_cond_timedwait(cond, lock, &until);
}

int crew_new(struct crew **ret, unsigned threads, void (*returned)(void *self, const char *target), void *self, struct error *err)
{
	struct crew *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return error_set(err, -ENOMEM, "no memory for threads");
	/* glibc: these fail for no argument that is given here */
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->work, &attr);
	(void)pthread_cond_init(&c->done, &attr);
	(void)pthread_condattr_destroy(&attr);
	c->returned = returned;
	c->self = self;
	c->max = threads;
	c->last = &c->first;
	*ret = c;
	return 0;
}

static unsigned hanging(const struct crew *c)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->hanging); i++)
		n += c->hanging[i];
	return n;
}

static void destroy(struct crew *c)
{
	(void)pthread_cond_destroy(&c->work);
	(void)pthread_cond_destroy(&c->done);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

struct crew *crew_free(struct crew *c)
{
	unsigned left;

	if (!c)
		return NULL;
	(void)pthread_mutex_lock(&c->lock);
	assert(!c->first); /* who began a task has waited for it */
	c->stop = true;
	(void)pthread_cond_broadcast(&c->work);
	while (c->threads > 0 || c->returning > 0)
		(void)pthread_cond_wait(&c->done, &c->lock);
	left = hanging(c);
	c->orphan = left > 0;
	(void)pthread_mutex_unlock(&c->lock);
	if (left == 0)
		destroy(c);
	return NULL;
}

void crew_hurry(struct crew *c, unsigned ms)
{
	(void)pthread_mutex_lock(&c->lock);
	c->hurry = clock_ms() + ms;
	(void)pthread_cond_broadcast(&c->done);
	(void)pthread_mutex_unlock(&c->lock);
}

bool crew_late(struct crew *c)
{
	bool late;

	(void)pthread_mutex_lock(&c->lock);
	late = c->hurry && clock_ms() >= c->hurry;
	(void)pthread_mutex_unlock(&c->lock);
	return late;
}

unsigned crew_hanging(struct crew *c)
{
	unsigned n;

	(void)pthread_mutex_lock(&c->lock);
	n = hanging(c);
	(void)pthread_mutex_unlock(&c->lock);
	return n;
}

/* ---- threads -------------------------------------------------------------------------------------------- */

/* NULL: the thread is to end. */
static struct task *next_task(struct crew *c)
{
	uint64_t until = clock_ms() + IDLE_MS;
	struct task *t;

	c->idle++;
	while (!c->first && !c->stop && wait_until(&c->work, &c->lock, until) == 0)
		;
	c->idle--;
	t = c->first;
	if (t) {
		c->first = t->next;
		t->next = NULL;
		c->queued--;
		if (!c->first)
			c->last = &c->first;
	}
	return t;
}

/* The task's fn ended, after it was given up. The thread ends with it: another may have its place. */
static void end_given_up(struct crew *c, struct task *t)
{
	struct task **at = &c->hangs;
	bool tell = !c->stop && c->returned, last;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	c->hanging[t->call.group]--;
	c->returning++;
	(void)pthread_mutex_unlock(&c->lock);
	log_warning("%s: %s has returned at last", t->call.target, t->call.what);
	if (tell)
		c->returned(c->self, t->call.target);
	arena_done(&t->arena);
	free(t);
	(void)pthread_mutex_lock(&c->lock);
	c->returning--;
	last = c->orphan && c->returning == 0 && hanging(c) == 0;
	(void)pthread_cond_broadcast(&c->done);
	(void)pthread_mutex_unlock(&c->lock);
	if (last)
		destroy(c);
}

/* False: it was given up, and the thread ends. The lock is held before and, if true, after. */
static bool run_task(struct crew *c, struct task *t)
{
	int r;

	t->span = span_begin();
	(void)pthread_mutex_unlock(&c->lock);
	r = t->fn(t, t->arg, t->err);
	(void)pthread_mutex_lock(&c->lock);
	span_end(&t->span);
	if (t->given_up) {
		end_given_up(c, t);
		return false;
	}
	t->r = r;
	t->ended = true;
	(void)pthread_cond_broadcast(&c->done);
	return true;
}

static void *thread_main(void *arg)
{
	struct crew *c = arg;
	struct task *t;

	(void)pthread_mutex_lock(&c->lock);
	while ((t = next_task(c)))
		if (!run_task(c, t))
			return NULL;
	c->threads--;
	(void)pthread_cond_broadcast(&c->done);
	(void)pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* If there is more work than threads for it. The lock is held. */
static int add_thread(struct crew *c)
{
	int r;

	if (c->queued <= c->idle || c->threads >= c->max)
		return 0;
	r = thread_start(NULL, thread_main, c); /* one that hangs cannot be joined */
	if (r == 0)
		c->threads++;
	return c->threads > 0 ? 0 : -r; /* without a new one, the others do it, later */
}

/* ---- tasks ---------------------------------------------------------------------------------------------- */

struct task *task_new(struct crew *c)
{
	struct task *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->crew = c;
	t->err = arena_alloc(&t->arena, sizeof(*t->err));
	return t->err ? t : task_free(t);
}

struct task *task_free(struct task *t)
{
	if (t)
		arena_done(&t->arena);
	free(t);
	return NULL;
}

void task_start(struct task *t, task_fn *fn, void *arg)
{
	struct crew *c = t->crew;
	struct task **last;
	int r;

	t->fn = fn;
	t->arg = arg;
	(void)pthread_mutex_lock(&c->lock);
	last = c->last;
	*c->last = t;
	c->last = &t->next;
	c->queued++;
	r = add_thread(c);
	if (r < 0) { /* not one thread: it fails instead of waiting for ever */
		*last = NULL;
		c->last = last;
		c->queued--;
		t->r = error_set(t->err, r, "cannot start a thread: %s", strerror(-r));
		t->ended = true;
	}
	(void)pthread_cond_signal(&c->work);
	(void)pthread_mutex_unlock(&c->lock);
}

/* The lock is held. */
static int give_up(struct crew *c, struct task *t, struct error *err)
{
	const struct task_call *call = &t->call;

	t->given_up = true;
	t->next = c->hangs;
	c->hangs = t;
	c->hanging[call->group]++;
	c->threads--; /* another may take its place */
	if (c->first)
		(void)add_thread(c);
	log_err("%s: %s has not returned; its thread is left alone, %u hang now", call->target, call->what, hanging(c));
	if (c->hurry && c->hurry < t->due)
		return error_set(err, -ETIMEDOUT, "velad stops, and %s of %s has not returned yet", call->what, call->target);
	return error_set(err, -ETIMEDOUT, "%s of %s did not return within %u s; its state is unknown until it does", call->what,
			 call->target, (call->ms + 999) / 1000);
}

/* When the task has to be back from its call; 0: it is in none. */
static uint64_t due(const struct crew *c, const struct task *t)
{
	if (!t->call.what)
		return 0;
	return c->hurry && c->hurry < t->due ? c->hurry : t->due;
}

int task_wait(struct task **tp, struct span *span, struct error *err)
{
	struct task *t = *tp;
	struct crew *c = t->crew;
	int r = 0;

	(void)pthread_mutex_lock(&c->lock);
	while (!t->ended && r == 0) {
		uint64_t at = due(c, t), now = clock_ms();

		if (at && now >= at)
			r = give_up(c, t, err);
		else
			(void)wait_until(&c->done, &c->lock, at ? at : now + POLL_MS);
	}
	*span = t->span;
	if (r == 0) {
		r = t->r;
		if (r < 0)
			*err = *t->err;
	} else {
		*tp = NULL;
		span_end(span);
	}
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}

/* ---- calls ---------------------------------------------------------------------------------------------- */

static int check(const struct crew *c, const struct task_call *call, struct error *err)
{
	for (const struct task *t = c->hangs; t; t = t->next)
		if (strcmp(t->call.target, call->target) == 0)
			return error_set(err, -ETIMEDOUT, "%s of %s hangs since an earlier operation; %s is not begun before it returns",
					 t->call.what, call->target, call->what);
	if (c->hanging[call->group] >= HANGING_MAX)
		return error_set(err, -ETIMEDOUT, "%u calls hang already (the last: %s of %s); %s is not begun before some return",
				 c->hanging[call->group], c->hangs->call.what, c->hangs->call.target, call->what);
	return 0;
}

int task_enter(struct task *t, const struct task_call *call, struct error *err)
{
	struct crew *c = t->crew;
	int r;

	(void)pthread_mutex_lock(&c->lock);
	r = check(c, call, err);
	if (r == 0) {
		t->call = *call;
		t->due = clock_ms() + call->ms;
		if (t->span.limit < call->ms)
			t->span.limit = call->ms;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}

int task_leave(struct task *t, int r, struct error *err)
{
	struct crew *c = t->crew;

	(void)pthread_mutex_lock(&c->lock);
	if (t->given_up)
		r = error_set(err, -ETIMEDOUT, "nobody waits for it any more");
	else
		t->call = (struct task_call){ 0 };
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}
