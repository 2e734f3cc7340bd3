/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads, and the queue, which is the store's table of operations: what is not finished there is work.
 *
 * Nothing but "who runs what" is kept in memory. An operation that is found "running" and that no thread runs, or that is
 * older than this process, was interrupted. */
#include "instance/pool.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "instance/gate.h"
#include "instance/jobs.h"
#include "instance/manager.h"
#include "instance/undo.h"
#include "instance/state.h"
#include "instance/store.h"

/* After a failure of the store; doubled as long as it lasts. */
#define RETRY_MS     5000
#define RETRY_MS_MAX 80000

/* Likewise, where libvirt did not answer: that it comes back is an event, but not that its connection lived on. */
#define WAITING_MAX 64 /* operations that wait for their next try, of which the queue knows by name */

#define REST_MS 1000 /* so long nothing is to be done: what comes one after the other would need again what is given back */

#define SILENT_MS     1000
#define SILENT_MS_MAX 64000

/* Of two times, where 0 is never. */
static uint64_t first(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

/* ---- the queue ------------------------------------------------------------------------------------------ */

/* False: another thread runs it, or another operation of its instance. */
static bool claim(struct pool_thread *t, const struct op *op)
{
	struct pool *p = &t->m->pool;
	bool is_free = true;

	(void)pthread_mutex_lock(&t->m->lock);
	for (size_t i = 0; i < p->n; i++)
		if (p->thread[i].op && (p->thread[i].op == op->id || strcmp(p->thread[i].instance, op->instance) == 0))
			is_free = false;
	if (is_free) {
		t->op = op->id;
		t->instance = op->instance;
	}
	(void)pthread_mutex_unlock(&t->m->lock);
	return is_free;
}

static void show(struct pool_thread *t, struct job *j)
{
	(void)pthread_mutex_lock(&t->m->lock);
	t->job = j;
	(void)pthread_mutex_unlock(&t->m->lock);
}

struct job *pool_find(struct inst_manager *m, uint64_t op)
{
	for (size_t i = 0; i < m->pool.n; i++)
		if (m->pool.thread[i].job && m->pool.thread[i].op == op)
			return m->pool.thread[i].job;
	return NULL;
}

/* Another operation of its instance may have waited for that. */
static void unclaim(struct pool_thread *t)
{
	(void)pthread_mutex_lock(&t->m->lock);
	if (t->op)
		t->m->pool.work |= POOL_QUEUE;
	t->op = 0;
	t->instance = NULL;
	t->job = NULL;
	(void)pthread_mutex_unlock(&t->m->lock);
}

static int load_job(struct inst_manager *m, struct store_tx *tx, struct job *j, struct error *err)
{
	j->interrupted = j->op->state == OP_RUNNING || j->op->id <= m->inherited;
	j->steps = (struct steps){ .store = m->store, .act = m->env.act, .guard = m->guard, .targets = &m->targets,
				  .kept = &m->keep.lock, .shown = &m->lock, .cancel = &j->cancel,
				  .release = &m->env.release, .instance = j->in->name,
				  .domain = j->in->domain, .again = j->op->tries, .vf_may_refuse = m->env.vf_may_refuse };
	return rows_steps(tx, &j->steps.step, &j->steps.n, j->in->name, &j->arena, err);
}

/* Nothing in here makes such an operation, but a damaged store must not stop the queue for ever. */
static int finish_orphan(struct store_tx *tx, struct op *op, struct error *err)
{
	op->span = span_begin();
	log_err("operation %llu is for instance %s, which the store does not have", (unsigned long long)op->id,
		op->instance);
	op->state = OP_FAILED;
	op->code = -ENOENT;
	op->detail = "the store lost its instance";
	op->steps = "[]";
	op->finished = time(NULL);
	span_end(&op->span);
	return op_finish(tx, op, err);
}

/* What came before it has ended otherwise: the guest that was to be started runs. */
static int finish_late(struct store_tx *tx, struct job *j, struct error *err)
{
	j->op->detail = arena_printf(&j->arena, "instance %s is %s", j->in->name, inst_state_text(j->in->state));
	j->op->state = OP_FAILED;
	j->op->code = -EBUSY;
	j->op->steps = "[]";
	j->op->finished = time(NULL);
	span_end(&j->op->span);
	j->in = NULL; /* it does not run */
	return op_finish(tx, j->op, err);
}

static int mark_job(struct inst_manager *m, struct store_tx *tx, struct job *j, struct error *err)
{
	const struct job_kind *kind = &job_kinds[j->op->kind];
	int r;

	if (kind->alone)
		return op_run(tx, j->op, err);
	r = rows_instance_find(tx, &j->in, j->op->instance, &j->arena, err);
	if (r == 0 && !j->in)
		return finish_orphan(tx, j->op, err);
	if (r == 0)
		r = load_job(m, tx, j, err);
	if (r == 0)
		r = op_run(tx, j->op, err);
	if (r < 0 || kind->enters == INST_PLANNED || j->interrupted)
		return r;
	return inst_state_may(j->in->state, kind->enters) ? inst_enter(tx, j->in, kind->enters, NULL, err) : finish_late(tx, j, err);
}

/* Whether it waits for its next try, or comes after one of its instance that does. Those that do are in `waiting`. */
static bool is_held_up(const struct op *op, const char **waiting, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(waiting[i], op->instance) == 0)
			return true;
	if (!op_waits(op))
		return false;
	if (*n < WAITING_MAX) /* else one that comes after it finds its instance in a state that it is not for */
		waiting[(*n)++] = op->instance;
	return true;
}

/* 1: j is the oldest unfinished operation that may run now, and marked as running; 0: there is none. more: there are younger ones, or
 * some that wait for their next try. Claims are made within the transaction, so that two threads never take the same. Without the mark it
 * would wait, as one that velad did not come to: so nobody waits for the disk here, and what it does first to the machine does. */
static int take_job(struct pool_thread *t, struct job *j, bool *more, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct op *next = NULL;
	const char *waiting[WAITING_MAX];
	size_t nwaiting = 0;
	uint64_t after = 0;
	int r = store_begin_lazy(&tx, t->m->store, err);

	while (r == 0) {
		r = op_next(tx, &j->op, after, &j->arena, err);
		if (r < 0 || !j->op)
			return r;
		if (!is_held_up(j->op, waiting, &nwaiting) && claim(t, j->op))
			break;
		after = j->op->id;
	}
	if (r == 0)
		r = mark_job(t->m, tx, j, err);
	if (r == 0)
		r = op_next(tx, &next, j->op->id, &j->arena, err);
	if (r == 0)
		r = store_commit(tx, err);
	(void)pthread_mutex_lock(&t->m->lock);
	*more = next || t->m->pool.waits;
	(void)pthread_mutex_unlock(&t->m->lock);
	return r < 0 ? r : 1;
}

/* There is nothing to run: when is there? before: when it was looked for. */
static int set_due(struct inst_manager *m, int64_t before, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct pool *p = &m->pool;
	int64_t due = 0, now;
	bool waits;
	int r;

	(void)pthread_mutex_lock(&m->lock);
	waits = p->waits;
	p->waits = false;
	(void)pthread_mutex_unlock(&m->lock);
	r = waits ? store_begin(&tx, m->store, err) : 0;
	if (r == 0 && waits)
		r = op_due(tx, &due, before, err);
	now = (int64_t)clock_usec(CLOCK_REALTIME);
	(void)pthread_mutex_lock(&m->lock);
	p->waits = p->waits || (waits && (r < 0 || due));
	if (due)
		p->due_at = first(p->due_at, clock_ms() + (uint64_t)(due > now ? due - now : 0) / 1000 + 1);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

/* 1: one operation was brought to its end; 0: there was none. */
static int run_next(struct pool_thread *t, struct error *err)
{
	struct inst_manager *m = t->m;
	int64_t before = (int64_t)clock_usec(CLOCK_REALTIME);
	struct job j = { 0 };
	bool more = false;
	int r = take_job(t, &j, &more, err);

	if (r > 0 && more)
		pool_wake(m, POOL_QUEUE); /* for another thread; this one looks again when it has done this */
	if (r > 0 && (j.in || job_kinds[j.op->kind].alone)) {
		show(t, &j);
		r = job_kinds[j.op->kind].run(m, &j, err);
		if (r == 0) {
			job_look_after(m, &j);
			r = 1;
		}
	}
	unclaim(t);
	j.rest = steps_rest_free(j.rest);
	arena_done(&j.arena);
	return r == 0 ? set_due(m, before, err) : r;
}

/* ---- threads -------------------------------------------------------------------------------------------- */

/* What operations had of the heap goes back, between what stays it is in pieces; and what of the programs they had needed. The lock is held. */
static void rest(struct inst_manager *m)
{
	m->pool.rest_at = 0;
	(void)pthread_mutex_unlock(&m->lock);
	memory_give_back();
	(void)pthread_mutex_lock(&m->lock);
}

void inst_rest(struct inst_manager *m)
{
	(void)pthread_mutex_lock(&m->lock);
	if (!m->pool.rest_at) /* else one waits for an earlier time, and then looks again */
		(void)pthread_cond_signal(&m->pool.cond);
	m->pool.rest_at = clock_ms() + REST_MS;
	(void)pthread_mutex_unlock(&m->lock);
}

/* The queue first: what is looked at is more worth when operations are through. 0: stop. */
static unsigned wait_for_work(struct inst_manager *m)
{
	struct pool *p = &m->pool;
	unsigned work = 0;

	(void)pthread_mutex_lock(&m->lock);
	while (!m->stop && !work) {
		uint64_t at = first(first(p->work ? p->retry_at : p->look_at, p->due_at), p->rest_at), now = clock_ms();
		struct timespec until = clock_at(at);

		if (p->due_at && now >= p->due_at)
			work = POOL_QUEUE;
		else if (p->work && now >= p->retry_at)
			work = p->work & POOL_QUEUE ? POOL_QUEUE : p->work;
		else if (!p->work && p->look_at && now >= p->look_at)
			work = POOL_LOOK;
		else if (p->rest_at && now >= p->rest_at)
			rest(m);
		else if (at)
			(void)pthread_cond_timedwait(&p->cond, &m->lock, &until);
		else
			(void)pthread_cond_wait(&p->cond, &m->lock);
	}
	p->work &= ~work;
	if (work & (POOL_LOOK | POOL_ADOPT))
		p->look_at = 0;
	if (work & POOL_QUEUE)
		p->due_at = 0; /* set_due() does that again */
	if (p->work)
		(void)pthread_cond_signal(&p->cond); /* for another thread */
	(void)pthread_mutex_unlock(&m->lock);
	return work;
}

/* What is kept and seen beside operations; *work: what of it is still to be done. */
static int look_round(struct inst_manager *m, unsigned *work, struct error *err)
{
	int r = *work & (POOL_LOOK | POOL_ADOPT) ? adopt_look(m, *work & POOL_ADOPT, err) : 0;

	if (r == 0)
		*work &= ~(unsigned)(POOL_LOOK | POOL_ADOPT);
	if (r == 0 && *work & POOL_KEEP)
		r = keep_look(m, KEEP_ALL, err);
	if (r == 0 && *work & POOL_KEEP)
		m->adopt.settled = true;
	if (r == 0)
		*work &= ~(unsigned)POOL_KEEP;
	if (r == 0 && *work & POOL_UNDO)
		r = undo_queue(m, err);
	if (r == 0 && *work & POOL_UNDO)
		r = gate_look_again(m, err);
	if (r == 0)
		*work = 0;
	return r;
}

static void try_later(struct inst_manager *m, unsigned work, const struct error *why)
{
	struct pool *p = &m->pool;
	uint64_t now = clock_ms();

	(void)pthread_mutex_lock(&m->lock);
	p->work |= work;
	if (m->stop) {
		log_warning("%s", why->text);
		(void)pthread_mutex_unlock(&m->lock);
		return;
	}
	backoff_failed(&p->retry, now, RETRY_MS, RETRY_MS_MAX);
	p->retry_at = p->retry.until;
	log_err("%s; trying again in %u s", why->text, backoff_seconds(&p->retry, now));
	(void)pthread_mutex_unlock(&m->lock);
}

static void *thread_main(void *arg)
{
	struct pool_thread *t = arg;
	unsigned work;

	manager_begins(t->m, INST_THREAD_OPERATIONS);
	while ((work = wait_for_work(t->m))) {
		struct error err = ERROR_INIT;
		int r = work & POOL_QUEUE ? run_next(t, &err) : look_round(t->m, &work, &err);

		if (r < 0) {
			try_later(t->m, work, &err);
			continue;
		}
		(void)pthread_mutex_lock(&t->m->lock);
		t->m->pool.retry = (struct backoff){ 0 };
		(void)pthread_mutex_unlock(&t->m->lock);
		inst_rest(t->m);
		store_tidy(t->m->store);
	}
	return NULL;
}

int pool_start(struct inst_manager *m, unsigned threads, struct error *err)
{
	struct pool *p = &m->pool;
	int r = 0;

	(void)pthread_mutex_lock(&m->lock); /* those that run already look at p->n */
	while (r == 0 && p->n < threads && p->n < POOL_THREADS_MAX) {
		struct pool_thread *t = &p->thread[p->n];

		t->m = m;
		r = thread_start(&t->thread, thread_main, t);
		p->n += r == 0;
	}
	(void)pthread_mutex_unlock(&m->lock);
	return r == 0 ? 0 : error_set(err, -r, "cannot start the threads that run operations: %s", strerror(r));
}

void pool_stop(struct inst_manager *m)
{
	struct pool *p = &m->pool;

	(void)pthread_mutex_lock(&m->lock);
	m->stop = true;
	(void)pthread_cond_broadcast(&p->cond);
	(void)pthread_mutex_unlock(&m->lock);
	for (size_t i = 0; i < p->n; i++)
		(void)pthread_join(p->thread[i].thread, NULL);
	p->n = 0;
}

void pool_wake(struct inst_manager *m, unsigned work)
{
	(void)pthread_mutex_lock(&m->lock);
	m->pool.work |= work;
	m->pool.retry_at = 0;
	(void)pthread_cond_signal(&m->pool.cond);
	(void)pthread_mutex_unlock(&m->lock);
}

void pool_waits(struct inst_manager *m)
{
	(void)pthread_mutex_lock(&m->lock);
	m->pool.waits = true;
	(void)pthread_mutex_unlock(&m->lock);
	pool_wake(m, POOL_QUEUE);
}

void pool_look_within(struct inst_manager *m, unsigned ms)
{
	struct pool *p = &m->pool;
	uint64_t at = clock_ms() + ms;

	(void)pthread_mutex_lock(&m->lock);
	p->look_at = p->look_at && p->look_at < at ? p->look_at : at;
	(void)pthread_cond_signal(&p->cond); /* whoever waits does so for that */
	(void)pthread_mutex_unlock(&m->lock);
}

void pool_asked(struct inst_manager *m, bool answered)
{
	struct pool *p = &m->pool;

	(void)pthread_mutex_lock(&m->lock);
	if (answered)
		p->silent = (struct backoff){ 0 };
	else
		backoff_failed(&p->silent, clock_ms(), SILENT_MS, SILENT_MS_MAX);
	p->look_at = p->silent.until;
	(void)pthread_mutex_unlock(&m->lock);
}
