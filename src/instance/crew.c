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

struct squad { /* the threads of one kind, and what is for them */
	struct crew    *crew;
	enum task_kind  kind;
	pthread_cond_t  work, wanted;
	pthread_t       starter;
	bool            has_starter;
	unsigned        threads, idle, queued; /* threads: without those that hang, with those that are to be started */
	unsigned        starting;
	struct task    *first, **last; /* the queue */
};

struct crew {
	pthread_mutex_t lock; /* of all below, and of all tasks */
	pthread_cond_t  done;
	struct crew_env env;
	struct squad    squad[TASK_KIND_MAX_];
	unsigned        hanging[TASK_GROUP_MAX_];
	unsigned        returning; /* threads that are in returned() */
	struct task    *hangs;
	uint64_t        hurry; /* ms: the end of all waiting; 0 none */
	bool            stop, orphan; /* orphan: the last that hung frees it */
};

/* ETIMEDOUT at `at`, ms. */
static int wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at)
{
	struct timespec until = clock_at(at);

	return pthread_cond_timedwait(cond, lock, &until);
}

static void *starter_main(void *arg);

int crew_new(struct crew **ret, const struct crew_env *env, struct error *err)
{
	struct crew *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;
	int r = 0;

	if (!c)
		return error_set(err, -ENOMEM, "no memory for threads");
	c->env = *env;
	/* glibc: these fail for no argument that is given here */
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->done, &attr);
	for (size_t i = 0; i < ARRAY_SIZE(c->squad); i++) {
		struct squad *q = &c->squad[i];

		*q = (struct squad){ .crew = c, .kind = (enum task_kind)i, .last = &q->first };
		(void)pthread_cond_init(&q->work, &attr);
		(void)pthread_cond_init(&q->wanted, NULL);
		r = r ? r : thread_start(&q->starter, starter_main, q);
		q->has_starter = r == 0;
	}
	(void)pthread_condattr_destroy(&attr);
	if (r) {
		c->env.own = NULL; /* still the caller's */
		(void)crew_free(c);
		return error_set(err, -r, "cannot start a thread: %s", strerror(r));
	}
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
	for (size_t i = 0; i < ARRAY_SIZE(c->squad); i++) {
		(void)pthread_cond_destroy(&c->squad[i].work);
		(void)pthread_cond_destroy(&c->squad[i].wanted);
	}
	(void)pthread_cond_destroy(&c->done);
	(void)pthread_mutex_destroy(&c->lock);
	free(c->env.own);
	free(c);
}

/* Afterwards no thread is started any more. */
static void stop_starters(struct crew *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->stop = true;
	for (size_t i = 0; i < ARRAY_SIZE(c->squad); i++) {
		assert(!c->squad[i].first); /* who began a task has waited for it */
		(void)pthread_cond_broadcast(&c->squad[i].work);
		(void)pthread_cond_signal(&c->squad[i].wanted);
	}
	(void)pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; i < ARRAY_SIZE(c->squad); i++)
		if (c->squad[i].has_starter)
			(void)pthread_join(c->squad[i].starter, NULL);
}

static unsigned threads(const struct crew *c)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->squad); i++)
		n += c->squad[i].threads;
	return n;
}

struct crew *crew_free(struct crew *c)
{
	unsigned left;

	if (!c)
		return NULL;
	stop_starters(c);
	(void)pthread_mutex_lock(&c->lock);
	while (threads(c) > 0 || c->returning > 0)
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
static struct task *next_task(struct squad *q)
{
	struct crew *c = q->crew;
	uint64_t until = clock_ms() + IDLE_MS;
	struct task *t;

	q->idle++;
	while (!q->first && !c->stop && wait_until(&q->work, &c->lock, until) == 0)
		;
	q->idle--;
	t = q->first;
	if (t) {
		q->first = t->next;
		t->next = NULL;
		q->queued--;
		if (!q->first)
			q->last = &q->first;
	}
	return t;
}

/* The task's fn ended, after it was given up. The thread ends with it: another may have its place. */
static void end_given_up(struct crew *c, struct task *t)
{
	struct task **at = &c->hangs;
	bool tell = !c->stop && c->env.returned, last;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	c->hanging[t->call.group]--;
	c->returning++;
	(void)pthread_mutex_unlock(&c->lock);
	log_warning("%s: %s has returned at last", t->call.target, t->call.what);
	if (tell)
		c->env.returned(c->env.self, t->call.target);
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
	if (t->awaited) /* who waits for another one of a wave is not woken for it */
		(void)pthread_cond_broadcast(&c->done);
	return true;
}

static void *thread_main(void *arg)
{
	struct squad *q = arg;
	struct crew *c = q->crew;
	struct task *t;

	(void)pthread_mutex_lock(&c->lock);
	while ((t = next_task(q)))
		if (!run_task(c, t))
			return NULL;
	q->threads--;
	(void)pthread_cond_broadcast(&c->done);
	(void)pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* If there is more work than threads for it. The lock is held. */
static void add_thread(struct squad *q)
{
	if (q->queued <= q->idle || q->threads >= q->crew->env.threads)
		return;
	q->threads++;
	q->starting++;
	(void)pthread_cond_signal(&q->wanted);
}

/* Not one thread: it fails instead of waiting for ever. The lock is held. */
static void fail_all(struct squad *q, int r)
{
	for (struct task *t = q->first, *next; t; t = next) {
		next = t->next;
		t->next = NULL;
		t->r = error_set(t->err, r, "cannot start a thread: %s", strerror(-r));
		t->ended = true;
	}
	q->first = NULL;
	q->last = &q->first;
	q->queued = 0;
	(void)pthread_cond_broadcast(&q->crew->done);
}

/* One that hangs cannot be joined. */
static void *starter_main(void *arg)
{
	struct squad *q = arg;
	struct crew *c = q->crew;
	int r;

	if (c->env.begins)
		c->env.begins(c->env.self, q->kind);
	(void)pthread_mutex_lock(&c->lock);
	for (;;) {
		while (!c->stop && q->starting == 0)
			(void)pthread_cond_wait(&q->wanted, &c->lock);
		if (c->stop)
			break;
		q->starting--;
		(void)pthread_mutex_unlock(&c->lock);
		r = thread_start(NULL, thread_main, q);
		(void)pthread_mutex_lock(&c->lock);
		q->threads -= r != 0;
		if (r != 0 && q->threads == 0) /* else the others do it, later */
			fail_all(q, -r);
	}
	q->threads -= q->starting;
	(void)pthread_mutex_unlock(&c->lock);
	return NULL;
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
	struct squad *q = &c->squad[t->kind];

	t->fn = fn;
	t->arg = arg;
	(void)pthread_mutex_lock(&c->lock);
	*q->last = t;
	q->last = &t->next;
	q->queued++;
	add_thread(q);
	(void)pthread_cond_signal(&q->work);
	(void)pthread_mutex_unlock(&c->lock);
}

/* The lock is held. */
static int give_up(struct crew *c, struct task *t, struct error *err)
{
	const struct task_call *call = &t->call;
	struct squad *q = &c->squad[t->kind];

	t->given_up = true;
	t->next = c->hangs;
	c->hangs = t;
	c->hanging[call->group]++;
	q->threads--; /* another may take its place */
	if (q->first)
		add_thread(q);
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
	t->awaited = true;
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

unsigned task_limit(struct task *t)
{
	struct crew *c = t->crew;
	unsigned ms;

	(void)pthread_mutex_lock(&c->lock);
	ms = t->span.limit;
	t->span.limit = 0;
	(void)pthread_mutex_unlock(&c->lock);
	return ms;
}
