/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The calls of instance.h that change something. Each is one transaction: what it answers is what a crash
 * a moment later would find. The work itself is done by jobs.c, on threads of pool.c. */
#include "instance/manager.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "instance/image.h"
#include "instance/key.h"
#include "instance/op.h"
#include "instance/state.h"
#include "instance/store.h"

#define QUEUE_MAX    32    /* unfinished operations; more are refused */
#define CREW_THREADS 48    /* calls on the machine at the same time, and images */
#define STOP_MS      10000 /* systemd waits 90 s (systemd-system.conf(5), DefaultTimeoutStopSec) */

static int find_inherited(struct inst_manager *m, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, m->store, err);
	return r < 0 ? r : op_last(tx, &m->inherited, err);
}

/* What hung may have left anything behind. */
static void returned(void *self, const char *target)
{
	(void)target;
	pool_wake(self, POOL_KEEP | POOL_LOOK | POOL_UNDO);
}

void manager_begins(struct inst_manager *m, enum inst_thread as)
{
	if (m->env.begins)
		m->env.begins(m->env.self, as);
}

static void crew_begins(void *self, enum task_kind kind)
{
	manager_begins(self, kind == TASK_IMAGES ? INST_THREAD_IMAGES : INST_THREAD_CALLS);
}

int inst_manager_new(struct inst_manager **ret, const struct inst_env *env, struct error *err)
{
	auto_(inst_manager_free) struct inst_manager *m = calloc(1, sizeof(*m));
	pthread_condattr_t attr;
	int r;

	if (!m)
		return error_set(err, -ENOMEM, "no memory for the instances");
	/* glibc: these fail for no argument that is given here */
	(void)pthread_mutex_init(&m->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&m->pool.cond, &attr);
	(void)pthread_cond_init(&m->keep.cond, &attr);
	(void)pthread_cond_init(&m->console.cond, &attr);
	(void)pthread_mutex_init(&m->keep.lock, NULL);
	(void)pthread_mutex_init(&m->keep.seen_lock, NULL);
	(void)pthread_condattr_destroy(&attr);
	targets_init(&m->targets);
	m->env = *env;
	m->env.store = NULL;
	m->guard = calloc(1, sizeof(*m->guard));
	if (!m->guard)
		return error_set(err, -ENOMEM, "no memory for the instances");
	*m->guard = (struct guard){ .act = env->act, .deadlines = env->deadlines.look_ms ? env->deadlines : INST_DEADLINES };
	m->self.guard = m->guard;
	m->env.act = guard_act(&m->self); /* from here on nobody calls the machine without it */
	m->pool.work = POOL_QUEUE | POOL_KEEP | POOL_ADOPT | POOL_UNDO; /* for what an earlier daemon left, and what happened since */
	adopt_init(m);
	r = store_open(&m->store, env->store, err);
	if (r == 0)
		r = crew_new(&m->guard->crew, &(struct crew_env){ CREW_THREADS, crew_begins, returned, m, m->guard }, err);
	if (r == 0)
		r = find_inherited(m, err);
	if (r == 0)
		r = adopt_begin(m, err);
	if (r == 0)
		store_listen(m->store, env->ended, env->self);
	if (r == 0)
		r = pool_start(m, env->workers ? env->workers : 1, err);
	if (r == 0)
		r = keep_start(m, err);
	if (r == 0)
		r = console_start(m, err);
	if (r < 0)
		return r;
	*ret = steal(m);
	return 0;
}

void inst_manager_stop(struct inst_manager *m)
{
	if (m->guard && m->guard->crew)
		crew_hurry(m->guard->crew, m->env.stop_ms ? m->env.stop_ms : STOP_MS);
	console_stop(m);
	keep_stop(m);
	pool_stop(m);
}

unsigned inst_hanging(struct inst_manager *m)
{
	return crew_hanging(m->guard->crew);
}

struct inst_manager *inst_manager_free(struct inst_manager *m)
{
	if (!m)
		return NULL;
	inst_manager_stop(m);
	if (m->guard && m->guard->crew)
		(void)crew_free(m->guard->crew);
	else
		free(m->guard);
	texts_done(&m->texts);
	(void)store_close(m->store);
	targets_done(&m->targets);
	arena_done(&m->keep.arena);
	free(m->keep.seen);
	(void)pthread_cond_destroy(&m->pool.cond);
	(void)pthread_cond_destroy(&m->keep.cond);
	(void)pthread_cond_destroy(&m->console.cond);
	(void)pthread_mutex_destroy(&m->keep.lock);
	(void)pthread_mutex_destroy(&m->keep.seen_lock);
	(void)pthread_mutex_destroy(&m->lock);
	free(m);
	return NULL;
}

int manager_check_queue(struct store_tx *tx, struct error *err)
{
	uint64_t n;
	int r = op_unfinished(tx, &n, err);

	if (r == 0 && n >= QUEUE_MAX)
		return error_set(err, -EBUSY, "%d operations wait already; try again when some are finished", QUEUE_MAX);
	return r;
}

void inst_expect(struct inst_manager *m, const char *name, uint64_t generation)
{
	m->expect.name = name;
	m->expect.generation = generation;
}

/* In the transaction that begins something: nothing comes between. Whether there is one is for the caller's function. */
static int check_expected(struct store_tx *tx, const char *name, uint64_t generation, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT generation FROM instance WHERE name = ?", ARGS(ARG_TEXT(name)), err);

	if (r == 0)
		r = store_next(q, err);
	if (r > 0 && (uint64_t)store_int(q, 0) != generation)
		return error_set(err, -EREMCHG, "instance %s has changed: its generation is %lld, not %llu; get it again, look, and go on from "
				 "there", name, (long long)store_int(q, 0), (unsigned long long)generation);
	return r < 0 ? r : 0;
}

int manager_begin(struct inst_manager *m, uint64_t *ret_op, manager_begin_fn *fn, const void *arg, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	uint64_t op = 0;
	const char *expected = m->expect.name;
	bool through, later;
	int r = store_begin(&tx, m->store, err);

	m->expect.name = NULL;
	if (r == 0 && expected)
		r = check_expected(tx, expected, m->expect.generation, err);
	if (r == 0)
		r = fn(tx, &op, arg, &arena, err);
	through = r > 0;
	r = through ? 0 : r;
	if (r == 0 && m->key)
		r = key_add(tx, m->key, op, time(NULL), err);
	if (r == 0)
		r = store_commit_later(tx, err);
	arena_done(&arena);
	if (r < 0)
		return r;
	*ret_op = op;
	later = r > 0;
	if (later)
		m->wakes = m->wakes || !through;
	else if (!through || store_is_long(m->store))
		pool_wake(m, POOL_QUEUE);
	return 0;
}

void inst_batch_begin(struct inst_manager *m)
{
	store_group_begin(m->store);
	m->wakes = false;
}

uint64_t inst_batch_mark(const struct inst_manager *m)
{
	return store_group(m->store);
}

int inst_batch_commit(struct inst_manager *m, struct error *err)
{
	return store_group_commit(m->store, err);
}

int inst_batch_end(struct inst_manager *m, uint64_t *failed, struct error *err)
{
	int r = store_group_end(m->store, failed, err);

	if (m->wakes || store_is_long(m->store))
		pool_wake(m, POOL_QUEUE);
	return r;
}

static int add_devices(struct store_tx *tx, const char *name, const struct plan *plan, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->ngpus; i++)
		r = rows_device_add(tx, plan->gpu[i], name, err);
	for (size_t i = 0; r == 0 && i < plan->nvfs; i++)
		r = rows_device_add(tx, plan->vf[i].bdf, name, err);
	for (size_t i = 0; r == 0 && i < plan->ncompanions; i++)
		r = rows_device_add(tx, plan->companion[i].bdf, name, err);
	for (size_t i = 0; r == 0 && i < plan->nextras; i++)
		r = rows_device_add(tx, plan->extra[i].bdf, name, err);
	return r < 0 ? error_prefix(err, "instance %s", name) : 0;
}

static int add_steps(struct store_tx *tx, const char *name, const struct plan *plan, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->nsteps; i++) {
		const struct plan_step *s = &plan->step[i];

		r = rows_step_add(tx, name,
				  &(struct rows_step){
					  .seq = (int64_t)i,
					  .kind = s->kind,
					  .target = s->target,
					  .from = s->from,
					  .to = s->to,
					  .state = STEP_PENDING,
				  },
				  err);
	}
	return r;
}

static int check_name(struct store_tx *tx, const char *name, struct error *err)
{
	struct rows_instance *in = NULL;
	struct arena arena = { 0 };
	int r;

	r = rows_instance_find(tx, &in, name, &arena, err);
	if (r == 0 && in)
		r = error_set(err, -EEXIST, "instance %s exists already (%s)", name, inst_state_text(in->state));
	arena_done(&arena);
	return r;
}

struct creation {
	struct rows_instance in;
	const struct plan   *plan;
	bool                 reserve; /* it is not started */
};

static int begin_create(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	const struct creation *c = arg;
	struct rows_instance in = c->in;
	int r;

	(void)arena; /* nothing is read */
	r = check_name(tx, in.name, err);
	if (r == 0)
		r = manager_check_queue(tx, err);
	if (r == 0)
		r = (c->reserve ? op_add_ended : op_add)(tx, &in.operation, OP_CREATE, in.name, in.created, err);
	if (r == 0)
		r = rows_instance_add(tx, &in, err);
	if (r == 0)
		r = add_devices(tx, in.name, c->plan, err);
	if (r == 0)
		r = image_check_plan(tx, c->plan, err);
	if (r == 0)
		r = add_steps(tx, in.name, c->plan, err);
	*ret_op = in.operation;
	return r == 0 ? c->reserve : r;
}

static int make(struct inst_manager *m, uint64_t *ret_op, const struct plan_request *request, const struct plan *plan, const char *uuid,
		bool reserve, struct error *err)
{
	auto_(json_object_put) json_object *request_json = plan_request_json(request);
	auto_(json_object_put) json_object *plan_obj = plan_json(plan);
	struct creation c = {
		.in = { .name = request->name, .uuid = uuid, .state = reserve ? INST_STOPPED : INST_PLANNED, .created = time(NULL) },
		.plan = plan,
		.reserve = reserve,
	};

	assert(plan->fits && plan->domain_xml && request->name[0]); /* the methods see to it */
	if (request_json && plan_obj) {
		c.in.request = json_text(request_json);
		c.in.plan = json_text(plan_obj);
	}
	if (!c.in.request || !c.in.plan)
		return error_set(err, -ENOMEM, "no memory for instance %s", request->name);
	return manager_begin(m, ret_op, begin_create, &c, err);
}

int inst_create(struct inst_manager *m, uint64_t *ret_op, const struct plan_request *request, const struct plan *plan,
		const char *uuid, struct error *err)
{
	return make(m, ret_op, request, plan, uuid, false, err);
}

int inst_reserve(struct inst_manager *m, uint64_t *ret_op, const struct plan_request *request, const struct plan *plan,
		 const char *uuid, struct error *err)
{
	return make(m, ret_op, request, plan, uuid, true, err);
}

int manager_check_idle(struct store_tx *tx, const struct rows_instance *in, struct arena *arena, struct error *err)
{
	struct op *op = NULL;
	int r;

	r = op_yield(tx, in->name, err);
	if (r == 0)
		r = op_find(tx, &op, in->operation, arena, err);
	if (r == 0 && op && op->finished == 0 && !op_is_own(op->kind))
		return error_set(err, -EBUSY, "operation %llu (%s) runs on %s%s; wait for its end",
				 (unsigned long long)op->id, op_kind_text(op->kind), rows_is_holder(in->name) ? "" : "instance ", in->name);
	return r;
}

/* Of one that was never started nothing was done to the machine. */
static int is_untouched(struct store_tx *tx, bool *ret, const struct rows_instance *in, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT 1 FROM step WHERE instance = ? AND state <> 'pending' LIMIT 1", ARGS(ARG_TEXT(in->name)), err);

	if (r == 0)
		r = store_next(q, err);
	*ret = r == 0 && in->state == INST_STOPPED;
	return r < 0 ? r : 0;
}

/* But what others did to a port that it shares with them, and left as it was for this one, is given back by the last: its own steps are taken for
 * done. */
static int take_over(struct store_tx *tx, bool *untouched, const struct rows_instance *in, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct rows_step *step = NULL;
	const char **others;
	size_t n = 0, nothers;
	int r = store_query(tx, &q, "SELECT 1 FROM step JOIN original USING(kind, target) WHERE instance = ? LIMIT 1", ARGS(ARG_TEXT(in->name)), err);

	if (r == 0)
		r = store_next(q, err);
	if (r <= 0)
		return r;
	r = rows_steps(tx, &step, &n, in->name, arena, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const char *was = NULL;

		r = rows_original_find(tx, &was, &step[i], arena, err);
		if (r < 0 || !was)
			continue;
		r = rows_step_others(tx, &others, &nothers, in->name, &step[i], arena, err);
		if (r < 0 || nothers)
			continue;
		*untouched = false;
		r = rows_step_set(tx, in->name, step[i].seq, STEP_DONE, NULL, err);
	}
	return r;
}

static int begin_delete(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	const char *name = arg;
	struct rows_instance *in = NULL;
	bool untouched = false;
	int r;

	r = rows_instance_find(tx, &in, name, arena, err);
	if (r == 0 && (!in || rows_is_holder(name)))
		return error_set(err, -ENOENT, "there is no instance %s", name);
	if (r == 0)
		r = manager_check_idle(tx, in, arena, err);
	if (r == 0)
		r = is_untouched(tx, &untouched, in, err);
	if (r == 0 && untouched)
		r = take_over(tx, &untouched, in, arena, err);
	if (r == 0)
		r = manager_check_queue(tx, err);
	if (r == 0)
		r = (untouched ? op_add_ended : op_add)(tx, ret_op, OP_DELETE, name, time(NULL), err);
	if (r == 0 && !untouched)
		r = rows_instance_operation(tx, name, *ret_op, err);
	if (r == 0)
		r = inst_enter(tx, in, untouched ? INST_DELETED : INST_DELETING, NULL, err);
	return r == 0 ? untouched : r;
}

int inst_delete(struct inst_manager *m, uint64_t *ret_op, const char *name, struct error *err)
{
	return manager_begin(m, ret_op, begin_delete, name, err);
}

int inst_taken(struct inst_manager *m, struct plan_taken **ret, size_t *n, struct arena *arena,
	       struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, m->store, err);
	return r < 0 ? r : rows_devices(tx, ret, n, arena, err);
}

int inst_acs_held(struct inst_manager *m, struct plan_acs_held **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, m->store, err);
	return r < 0 ? r : rows_originals_acs(tx, ret, n, arena, err);
}

int inst_settings_held(struct inst_manager *m, struct plan_settings_held **ret, size_t *n, struct arena *arena,
		       struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, m->store, err);
	return r < 0 ? r : rows_originals_settings(tx, ret, n, arena, err);
}

int inst_generation_next(struct inst_manager *m, uint64_t *ret, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL; /* goes before tx does */
	uint64_t next;
	int r;

	r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = store_query(tx, &q, "UPDATE meta SET generation = generation + 1 RETURNING generation", NO_ARGS,
				err);
	if (r == 0)
		r = store_next(q, err);
	if (r == 0)
		return error_set(err, -EBADMSG, "the store has no generation counter");
	if (r < 0)
		return r;
	next = (uint64_t)store_int(q, 0);
	q = store_query_free(q); /* a statement in progress would refuse the commit */
	r = store_commit(tx, err);
	if (r == 0)
		*ret = next;
	return r;
}

/* Events come late: this one may be about an earlier guest of the same name. It is believed at once, and
 * the pool looks as soon as it can. */
void inst_domain_changed(struct inst_manager *m, const char *name, enum act_domain state)
{
	bool ours = false, changed;

	if (!name) {
		atomic_fetch_add(&m->domain_news, 1);
		atomic_fetch_add(&m->adopt.news, 1);
		pool_wake(m, POOL_ADOPT);
		return;
	}
	changed = manager_note_domain(m, &ours, name, state);
	if (!ours)
		atomic_fetch_add(&m->adopt.news, 1);
	if (changed || !ours)
		pool_wake(m, POOL_LOOK);
	if (ours)
		keep_wake(m, KEEP_ALL); /* a guest that starts or ends resets what it has */
}

uint64_t inst_news(const struct inst_manager *m)
{
	return m->domain_news;
}

void inst_cards_changed(struct inst_manager *m)
{
	pool_wake(m, POOL_ADOPT);
}

void inst_helper_back(struct inst_manager *m)
{
	pool_wake(m, POOL_ADOPT | POOL_UNDO);
	keep_wake(m, KEEP_ALL);
}

void inst_machine_changed(struct inst_manager *m)
{
	keep_wake(m, KEEP_WORDS);
}
