/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The worker: one thread, one operation at a time, so that two instances never change the machine at once.
 *
 * It keeps nothing in memory. An operation that is found "running", or is older than this process, was
 * interrupted: a create is undone (its plan was made for a machine that is no more), a delete goes on. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "instance/hold.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/state.h"
#include "instance/steps.h"
#include "instance/store.h"

/* After a failure of the store, or of libvirt while looking at domains; doubled as long as it lasts. */
#define RETRY_SECONDS     5
#define RETRY_SECONDS_MAX 80

struct job {
	struct arena          arena;
	struct op            *op;
	struct rows_instance *in;
	struct steps          steps;
	bool                  interrupted;
};

static int load_job(struct inst_manager *m, struct store_tx *tx, struct job *j, struct error *err)
{
	j->interrupted = j->op->state == OP_RUNNING || j->op->id <= m->inherited;
	j->steps = (struct steps){ .store = m->store, .act = m->env.act, .instance = j->in->name,
				  .kept = &m->keep.lock };
	return rows_steps(tx, &j->steps.step, &j->steps.n, j->in->name, &j->arena, err);
}

/* Nothing in here makes such an operation, but a damaged store must not stop the queue for ever. */
static int finish_orphan(struct store_tx *tx, struct op *op, struct error *err)
{
	log_err("operation %llu is for instance %s, which the store does not have", (unsigned long long)op->id,
		op->instance);
	op->state = OP_FAILED;
	op->code = -ENOENT;
	op->detail = "the store lost its instance";
	op->steps = "[]";
	op->finished = time(NULL);
	return op_finish(tx, op, err);
}

static int mark_job(struct inst_manager *m, struct store_tx *tx, struct job *j, struct error *err)
{
	int r;

	r = rows_instance_find(tx, &j->in, j->op->instance, &j->arena, err);
	if (r == 0 && !j->in)
		return finish_orphan(tx, j->op, err);
	if (r == 0)
		r = load_job(m, tx, j, err);
	if (r == 0)
		r = op_run(tx, j->op->id, err);
	if (r == 0 && (j->op->kind == OP_CREATE || j->op->kind == OP_ACS_APPLY) && !j->interrupted)
		r = inst_enter(tx, j->in, INST_PROVISIONING, NULL, err);
	return r;
}

/* 1: j is the oldest unfinished operation, and marked as running; 0: there is none. */
static int take_job(struct inst_manager *m, struct job *j, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = op_next(tx, &j->op, &j->arena, err);
	if (r < 0 || !j->op)
		return r;
	r = mark_job(m, tx, j, err);
	if (r == 0)
		r = store_commit(tx, err);
	return r < 0 ? r : 1;
}

static const char *what(const struct job *j)
{
	return rows_is_holder(j->in->name) ? "" : "instance ";
}

static int commit_end(struct inst_manager *m, struct job *j, enum inst_state next, bool drop_devices,
		      struct error *err)
{
	auto_(json_object_put) json_object *steps =
		json_steps(j->steps.step, j->steps.n, j->op->kind == OP_DELETE || j->op->kind == OP_ACS_RESTORE);
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	j->op->steps = steps ? json_object_to_json_string_ext(steps, JSON_C_TO_STRING_PLAIN) : NULL;
	if (!j->op->steps)
		return error_set(err, -ENOMEM, "no memory for the end of operation %llu",
				 (unsigned long long)j->op->id);
	r = store_begin(&tx, m->store, err);
	if (r == 0 && drop_devices)
		r = rows_devices_drop(tx, j->in->name, err);
	if (r == 0)
		r = inst_enter(tx, j->in, next, j->op->detail, err);
	if (r == 0)
		r = op_finish(tx, j->op, err);
	if (r == 0)
		r = store_commit(tx, err);
	return r;
}

/* why NULL: it succeeded. The machine is read again first, so that who sees the end of an operation sees
 * its effects as well. */
static int end_job(struct inst_manager *m, struct job *j, enum inst_state next, bool drop_devices,
		   const struct error *why, struct error *err)
{
	int r;

	j->op->state = why ? OP_FAILED : OP_SUCCEEDED;
	j->op->code = why ? why->code : 0;
	j->op->detail = why ? why->text : NULL;
	j->op->finished = time(NULL);
	if (m->env.changed)
		m->env.changed(m->env.self);
	r = commit_end(m, j, next, drop_devices, err);
	if (r < 0)
		return r;
	if (why)
		log_err("%s failed: %s", op_kind_text(j->op->kind), why->text);
	else
		log_info("%s%s: %s is done, it is %s", what(j), j->in->name, op_kind_text(j->op->kind), inst_state_text(next));
	return 0;
}

static int check_whole(const struct inst_manager *m, const struct job *j, struct error *why)
{
	if (!j->interrupted)
		return 0;
	return error_set(why, -ECANCELED, "%s during %s", j->op->id <= m->inherited ? "velad was restarted" : "the store failed",
			 op_kind_text(j->op->kind));
}

static int create(struct inst_manager *m, struct job *j, struct error *why)
{
	autofree char *xml = NULL;
	int r = check_whole(m, j, why);

	if (r == 0)
		r = json_plan_xml(&xml, j->in->plan, why);
	if (r < 0)
		return r;
	j->steps.xml = xml;
	r = steps_apply(&j->steps, why);
	j->steps.xml = NULL;
	return r;
}

/* Takes back what was begun. */
static int undo(struct inst_manager *m, struct job *j, const struct error *why, struct error *err)
{
	struct error left = ERROR_INIT, all = ERROR_INIT;
	const char *name = j->in->name;
	bool clean = steps_revert(&j->steps, &left) == 0;

	if (clean)
		(void)error_set(&all, why->code, "%s%s: %s; everything was given back", what(j), name, why->text);
	else
		(void)error_set(&all, why->code, "%s%s: %.200s; its devices stay held, for what was done could not be "
				"given back: %.180s", what(j), name, why->text, left.text);
	return end_job(m, j, INST_FAILED, clean, &all, err);
}

static int run_create(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error why = ERROR_INIT;

	if (create(m, j, &why) == 0)
		return end_job(m, j, INST_RUNNING, false, NULL, err);
	return undo(m, j, &why, err);
}

static int run_delete(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error left = ERROR_INIT, all = ERROR_INIT;

	if (steps_revert(&j->steps, &left) == 0)
		return end_job(m, j, INST_DELETED, true, NULL, err);
	(void)error_set(&all, left.code, "instance %s: %.380s; its devices stay held until it is deleted again",
			j->in->name, left.text);
	return end_job(m, j, INST_FAILED, false, &all, err);
}

/* An interrupted apply whose steps are all done goes on; any other is undone, as a create is. */
static int apply(struct inst_manager *m, struct job *j, struct error *why)
{
	bool done = j->interrupted;
	int r;

	for (size_t i = 0; i < j->steps.n; i++)
		done = done && j->steps.step[i].state == STEP_DONE;
	r = done ? 0 : check_whole(m, j, why);
	return r < 0 || done ? r : steps_apply(&j->steps, why);
}

/* Ports that the new holder has, too, stay as they are. */
static int run_apply(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error why = ERROR_INIT, all = ERROR_INIT;

	if (apply(m, j, &why) < 0)
		return undo(m, j, &why, err);
	if (hold_drop_others(m, &j->steps, &why) == 0)
		return end_job(m, j, INST_RUNNING, false, NULL, err);
	(void)error_set(&all, why.code, "%s: it is applied, but of what was applied before: %.300s", j->in->name, why.text);
	return end_job(m, j, INST_RUNNING, false, &all, err);
}

static int run_restore(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error left = ERROR_INIT, others = ERROR_INIT, all = ERROR_INIT;
	int r = hold_drop_others(m, &j->steps, &others);

	if (steps_revert(&j->steps, &left) == 0 && r == 0)
		return end_job(m, j, INST_DELETED, false, NULL, err);
	if (r < 0)
		left = others;
	(void)error_set(&all, left.code, "%s: %.380s; ports stay held until it is restored again", j->in->name, left.text);
	return end_job(m, j, INST_FAILED, false, &all, err);
}

static int look(struct inst_manager *m, const char *name, struct error *err)
{
	enum act_domain state;
	bool ours;
	int r = m->env.act.ops->domain(m->env.act.self, &state, name, err);

	if (r == 0)
		(void)manager_note_domain(m, &ours, name, state); /* it logs */
	return r;
}

/* A guest that starts resets its functions. And what libvirt told about a domain while its create ran was not noted (it
 * was not "running" yet). */
static void look_after(struct inst_manager *m, const struct job *j)
{
	struct error err = ERROR_INIT;

	if (keep_look(m, KEEP_ALL, &err) < 0)
		log_warning("%s", err.text); /* it is tried again on the timer */
	if (j->op->kind == OP_CREATE && j->in->state == INST_RUNNING && look(m, j->in->name, &err) < 0)
		log_warning("instance %s: cannot look at its domain after create: %s", j->in->name, err.text);
}

/* 1: one operation was brought to its end; 0: there was none. */
static int run_next(struct inst_manager *m, struct error *err)
{
	static int (*const run[OP_KIND_MAX_])(struct inst_manager *m, struct job *j, struct error *err) = {
		[OP_CREATE] = run_create,
		[OP_DELETE] = run_delete,
		[OP_ACS_APPLY] = run_apply,
		[OP_ACS_RESTORE] = run_restore,
	};
	struct job j = { 0 };
	int r;

	r = take_job(m, &j, err);
	if (r > 0 && j.in) {
		r = run[j.op->kind](m, &j, err);
		if (r == 0) {
			look_after(m, &j);
			r = 1;
		}
	}
	arena_done(&j.arena);
	return r;
}

static int list_names(struct inst_manager *m, const char ***ret, size_t *n, struct arena *arena,
		      struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	return r < 0 ? r : rows_instance_names(tx, ret, n, arena, err);
}

/* Guests may have ended while no velad was there to see it. */
static int look_at_all(struct inst_manager *m, struct error *err)
{
	struct arena arena = { 0 };
	const char **names;
	size_t n = 0;
	int r;

	r = list_names(m, &names, &n, &arena, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = look(m, names[i], err);
	arena_done(&arena);
	return r;
}

static bool must_stop(struct inst_manager *m)
{
	bool stop;

	(void)pthread_mutex_lock(&m->lock);
	stop = m->stop;
	(void)pthread_mutex_unlock(&m->lock);
	return stop;
}

/* Until there is work, WORKER_*; no longer than `seconds` unless that is 0. */
static unsigned wait_for_work(struct inst_manager *m, unsigned seconds)
{
	struct timespec until;
	unsigned work;

	(void)clock_gettime(CLOCK_MONOTONIC, &until); /* the clock of m->cond */
	until.tv_sec += seconds;
	(void)pthread_mutex_lock(&m->lock);
	while (!m->stop && !m->work) {
		if (seconds == 0)
			(void)pthread_cond_wait(&m->cond, &m->lock);
		else if (pthread_cond_timedwait(&m->cond, &m->lock, &until) == ETIMEDOUT)
			m->work |= WORKER_QUEUE;
	}
	work = m->work;
	m->work = 0;
	(void)pthread_mutex_unlock(&m->lock);
	return work;
}

/* What is kept and seen beside operations; *work: what of it is still to be done. */
static int look_round(struct inst_manager *m, unsigned *work, struct error *err)
{
	int r = *work & WORKER_KEEP ? keep_look(m, KEEP_ALL, err) : 0;

	if (r == 0)
		*work &= ~(unsigned)WORKER_KEEP;
	if (r == 0 && *work & WORKER_LOOK)
		r = look_at_all(m, err);
	if (r == 0)
		*work = 0;
	return r;
}

static void *worker_main(void *arg)
{
	struct inst_manager *m = arg;
	unsigned retry = 0, work = 0;

	for (;;) {
		struct error err = ERROR_INIT;
		int r = 1;

		work |= wait_for_work(m, retry);
		while (r > 0 && !must_stop(m))
			r = run_next(m, &err);
		if (must_stop(m))
			return NULL;
		if (r == 0)
			r = look_round(m, &work, &err);
		retry = r == 0 ? 0 : retry == 0 ? RETRY_SECONDS : retry < RETRY_SECONDS_MAX ? 2 * retry : retry;
		if (retry)
			log_err("%s; trying again in %u s", err.text, retry);
	}
}

int worker_start(struct inst_manager *m, struct error *err)
{
	sigset_t all, old;
	int r;

	/* signals are for the main thread's event loop, which wants them blocked everywhere (sd-event) */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&m->thread, NULL, worker_main, m);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0)
		return error_set(err, -r, "cannot start the worker thread: %s", strerror(r));
	m->started = true;
	return 0;
}

void worker_stop(struct inst_manager *m)
{
	if (!m->started)
		return;
	(void)pthread_mutex_lock(&m->lock);
	m->stop = true;
	(void)pthread_cond_signal(&m->cond);
	(void)pthread_mutex_unlock(&m->lock);
	(void)pthread_join(m->thread, NULL);
	m->started = false;
}

void worker_wake(struct inst_manager *m, unsigned work)
{
	(void)pthread_mutex_lock(&m->lock);
	m->work |= work;
	(void)pthread_cond_signal(&m->cond);
	(void)pthread_mutex_unlock(&m->lock);
}
