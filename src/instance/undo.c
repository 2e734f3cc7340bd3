/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Operations that are to leave nothing: cancelled ones, and failed ones once what hung has returned, or is there again. */
#include "instance/undo.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "instance/jobs.h"
#include "instance/manager.h"
#include "instance/state.h"
#include "instance/store.h"

/* ---- cancelling ----------------------------------------------------------------------------------------- */

/* It has done nothing yet, and never will. */
static int cancel_queued(struct store_tx *tx, struct op *op, struct arena *arena, struct error *err)
{
	struct rows_instance *in = NULL;
	int r = rows_instance_find(tx, &in, op->instance, arena, err);

	op->state = OP_CANCELLED;
	op->code = -ECANCELED;
	op->detail = "it was cancelled before it began";
	op->finished = time(NULL);
	op->steps = "[]";
	if (r == 0 && in)
		r = inst_enter(tx, in, INST_DELETED, NULL, err);
	return r < 0 ? r : op_finish(tx, op, err);
}

/* Whether it runs is decided within the transaction that marks it so: it cannot begin meanwhile. */
static int cancel(struct inst_manager *m, struct store_tx *tx, struct op *op, struct arena *arena, struct error *err)
{
	unsigned long long id = op->id;
	struct job *j;

	if (op->finished)
		return error_set(err, -EBUSY, "operation %llu (%s) has ended: it %s%s", id, op_kind_text(op->kind),
				 op->state == OP_CANCELLED ? "was " : "", op_state_text(op->state));
	if (!job_kinds[op->kind].cancels)
		return error_set(err, -EBUSY, "operation %llu (%s) cannot be cancelled: what it takes away does not come back; wait for its end",
				 id, op_kind_text(op->kind));
	if (op->state == OP_QUEUED)
		return cancel_queued(tx, op, arena, err);
	(void)pthread_mutex_lock(&m->lock);
	j = pool_find(m, op->id);
	if (j)
		j->cancel = true;
	(void)pthread_mutex_unlock(&m->lock);
	return j ? 0 : error_set(err, -EBUSY, "operation %llu (%s) was interrupted, and is undone anyway", id, op_kind_text(op->kind));
}

int inst_cancel(struct inst_manager *m, uint64_t id, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	struct op *op = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = id > INT64_MAX ? 0 : op_find(tx, &op, id, &arena, err);
	if (r == 0 && !op)
		r = error_set(err, -ENOENT, "there is no operation %llu (any more: old ones are dropped)", (unsigned long long)id);
	if (r == 0)
		r = cancel(m, tx, op, &arena, err);
	if (r == 0)
		r = store_commit(tx, err);
	arena_done(&arena);
	return r;
}

/* ---- giving back what is left ------------------------------------------------------------------------------ */

int undo_add(struct store_tx *tx, enum op_kind kind, const char *name, bool later, struct error *err)
{
	struct op op = { 0 };
	int r = op_add(tx, &op.id, kind, name, time(NULL), err);

	if (r == 0 && later)
		r = op_wait(tx, &op, err);
	return r < 0 ? r : rows_instance_operation(tx, name, op.id, err);
}

/* The failed ones that hold something: the devices, or what a call that did not return is about. */
#define SQL_LEFT "SELECT name FROM instance JOIN operation ON operation.id = instance.operation WHERE instance.state = 'failed'" \
		 " AND finished > 0 AND ((operation.state = 'failed' AND name IN (SELECT instance FROM device)) OR (code = ? AND name IN" \
		 " (SELECT instance FROM step WHERE step.state IN ('begun', 'done', 'failed')))) ORDER BY name LIMIT 1"

/* 1: one was added. */
static int add_one(struct store_tx *tx, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	const char *name;
	int r = store_query(tx, &q, SQL_LEFT, ARGS(ARG_INT(-ETIMEDOUT)), err);

	if (r == 0)
		r = store_next(q, err);
	if (r <= 0)
		return r;
	name = arena_strdup(arena, store_text(q, 0));
	if (!name)
		return error_set(err, -ENOMEM, "no memory for rows of the store");
	q = store_query_free(q);
	r = undo_add(tx, OP_UNDO, name, false, err);
	return r < 0 ? r : 1;
}

int undo_queue(struct inst_manager *m, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = op_wake(tx, err);
	if (r == 0)
		while ((r = add_one(tx, &arena, err)) > 0)
			;
	if (r == 0)
		r = store_commit(tx, err);
	arena_done(&arena);
	if (r == 0)
		pool_wake(m, POOL_QUEUE);
	return r;
}

/* What the instance says from now on: why it failed stays. */
static const char *say(struct job *j, const char *now)
{
	const char *was = j->in->error ? j->in->error : "", *again = strstr(was, "; " UNDO_AGAIN);

	return arena_printf(&j->arena, "%.*s; %s", again ? (int)(again - was) : 400, was, now);
}

int undo_run(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error left = ERROR_INIT, all = ERROR_INIT;
	bool is_free;

	if (job_revert(m, j, &left) == 0) {
		j->note = say(j, "later, everything was given back");
		return job_end(m, j, INST_FAILED, true, NULL, err);
	}
	is_free = job_all_free(j);
	if (is_free && j->in->error && !strstr(j->in->error, "devices were given back"))
		j->note = say(j, "its devices were given back later, the rest is tried again until it can be");
	(void)error_set(&all, left.code, "instance %s: %.300s; %s", j->in->name, left.text,
			is_free ? "its devices were given back, but not all that was done for it" : "its devices stay held");
	return job_wait(m, j, &all, is_free, err);
}
