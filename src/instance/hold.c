/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/hold.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/parse.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/state.h"
#include "instance/steps.h"
#include "instance/store.h"
#include "instance/undo.h"
#include "plan/acs.h"

/* ---- giving back ---------------------------------------------------------------------------------------- */

static int enter(struct inst_manager *m, struct rows_instance *in, enum inst_state next, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0 && next == INST_DELETING)
		r = op_yield(tx, in->name, err);
	if (r == 0)
		r = inst_enter(tx, in, next, NULL, err);
	return r == 0 ? store_commit(tx, err) : r;
}

/* Nobody asks for it again: that is velad's. */
static int fail(struct inst_manager *m, struct rows_instance *in, const struct error *why, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = inst_enter(tx, in, INST_FAILED, why->text, err);
	if (r == 0)
		r = undo_add(tx, OP_UNDO, in->name, true, err);
	if (r == 0)
		r = store_commit(tx, err);
	if (r == 0)
		pool_waits(m);
	return r;
}

static int load(struct inst_manager *m, struct rows_instance **in, struct steps *s, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = rows_instance_find(tx, in, s->instance, arena, err);
	return r < 0 ? r : rows_steps(tx, &s->step, &s->n, s->instance, arena, err);
}

/* One that is being deleted was left so by a crash. */
static int drop(struct inst_manager *m, struct steps s, struct arena *arena, struct error *err)
{
	struct rows_instance *in = NULL;
	struct error ignored = ERROR_INIT;
	int r = load(m, &in, &s, arena, err);

	if (r == 0 && in->state != INST_DELETING)
		r = enter(m, in, INST_DELETING, err);
	if (r < 0)
		return r;
	r = steps_revert(&s, err);
	if (r == 0)
		return enter(m, in, INST_DELETED, err);
	(void)fail(m, in, err, &ignored); /* r is what counts */
	return r;
}

/* The kind is the name without its number. */
static int list(struct inst_manager *m, const char ***ret, size_t *n, const char *of, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	const char *end = strrchr(of, ' ');
	const char *what = arena_printf(arena, "%.*s", end ? (int)(end - of) : 0, of);
	int r = what ? store_begin(&tx, m->store, err) : error_set(err, -ENOMEM, "no memory for holders");

	return r < 0 ? r : rows_holder_names(tx, ret, n, what, arena, err);
}

int hold_drop_others(struct inst_manager *m, const struct steps *mine, struct error *err)
{
	struct arena arena = { 0 };
	const char **name = NULL;
	size_t n = 0;
	int r = list(m, &name, &n, mine->instance, &arena, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct steps s = *mine;

		s.instance = name[i];
		if (strcmp(name[i], mine->instance) != 0)
			r = drop(m, s, &arena, err);
	}
	arena_done(&arena);
	return r;
}

/* ---- asking for it -------------------------------------------------------------------------------------- */

static int check_idle(struct store_tx *tx, const struct hold_kind *kind, struct error *err)
{
	uint64_t op = 0;
	int r = op_unfinished_of(tx, &op, kind->takes, kind->gives, err);

	if (r == 0 && op)
		return error_set(err, -EBUSY, "operation %llu %s already; wait for its end", (unsigned long long)op, kind->busy);
	return r < 0 ? r : manager_check_queue(tx, err);
}

/* Its number is one that no holder has: that of its operation, or a smaller one if the newest were dropped. */
int hold_begin(struct store_tx *tx, uint64_t *ret_op, const struct hold_kind *kind, hold_add_fn *fn, const void *arg, struct error *err)
{
	struct rows_instance in = { .state = INST_PLANNED, .created = time(NULL), .request = "{}", .plan = "{}" };
	uint64_t last = 0;
	char name[40];
	int r = check_idle(tx, kind, err);

	if (r == 0)
		r = op_last(tx, &last, err);
	(void)snprintf(name, sizeof(name), "%s %llu", kind->name, (unsigned long long)last + 1);
	in.name = in.uuid = name;
	if (r == 0)
		r = op_add(tx, &in.operation, kind->takes, name, in.created, err);
	if (r == 0)
		r = rows_instance_add(tx, &in, err);
	if (r == 0)
		r = fn(tx, name, arg, err);
	*ret_op = in.operation;
	return r;
}

int hold_begin_restore(struct store_tx *tx, uint64_t *ret_op, const struct hold_kind *kind, struct arena *arena, struct error *err)
{
	struct rows_instance *in = NULL;
	const char **name = NULL;
	size_t n = 0;
	int r = check_idle(tx, kind, err);

	if (r == 0)
		r = rows_holder_names(tx, &name, &n, kind->name, arena, err);
	if (r == 0 && n)
		r = rows_instance_find(tx, &in, name[0], arena, err);
	if (r == 0 && n)
		r = manager_check_idle(tx, in, arena, err);
	if (r == 0)
		r = (n ? op_add : op_add_ended)(tx, ret_op, kind->gives, n ? name[0] : kind->name, time(NULL), err);
	if (r < 0 || !n)
		return r; /* nothing is held: done before it began */
	r = rows_instance_operation(tx, name[0], *ret_op, err);
	return r < 0 ? r : inst_enter(tx, in, INST_DELETING, NULL, err);
}

/* ---- ACS ------------------------------------------------------------------------------------------------ */

static const struct hold_kind acs_kind = { INST_ACS_APPLY, OP_ACS_APPLY, OP_ACS_RESTORE, "applies or restores ACS" };

static int add_steps(struct store_tx *tx, const char *name, const void *arg, struct error *err)
{
	const struct plan_acs *plan = arg;
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->nwrites; i++) {
		const struct plan_acs_write *w = &plan->write[i];
		char port[BDF_TEXT_MAX], from[8], to[8];
		struct rows_step s = { .seq = (int64_t)i, .kind = PLAN_STEP_ACS, .target = bdf_text(port, w->port), .from = from, .to = to,
				       .state = STEP_PENDING };

		(void)snprintf(from, sizeof(from), "0x%02x", w->from);
		(void)snprintf(to, sizeof(to), "0x%02x", w->to);
		r = rows_step_add(tx, name, &s, err);
	}
	return r;
}

static int begin_apply(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	(void)arena; /* nothing is read */
	return hold_begin(tx, ret_op, &acs_kind, add_steps, arg, err);
}

int inst_acs_apply(struct inst_manager *m, uint64_t *ret_op, const struct plan_acs *plan, struct error *err)
{
	return manager_begin(m, ret_op, begin_apply, plan, err);
}

static int begin_restore(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	(void)arg;
	return hold_begin_restore(tx, ret_op, &acs_kind, arena, err);
}

int inst_acs_restore(struct inst_manager *m, uint64_t *ret_op, struct error *err)
{
	return manager_begin(m, ret_op, begin_restore, NULL, err);
}

/* ---- who holds what ------------------------------------------------------------------------------------- */

static int read_hold(struct inst_acs_hold *ret, struct store_rows *q, struct arena *arena, struct error *err)
{
	uint64_t was;

	if (!bdf_parse(&ret->port, store_text(q, 1)) || parse_uint(&was, store_text(q, 2), 16, UINT16_MAX) < 0)
		return error_set(err, -EBADMSG, "the store has \"%s\" as original ACS control of \"%s\"", store_text(q, 2), store_text(q, 1));
	ret->was = (uint16_t)was;
	ret->by = rows_is_holder(store_text(q, 3)) ? INST_ACS_APPLY : arena_strdup(arena, store_text(q, 3));
	return ret->by ? 0 : error_set(err, -ENOMEM, "no memory for rows of the store");
}

static int holds(struct store_tx *tx, struct inst_acs_hold **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct inst_acs_hold *h = NULL;
	size_t i = 0;
	int r;

	r = store_query(tx, &q, "SELECT count(*) OVER (), original.target, original.value, step.instance FROM original"
				" JOIN step ON step.kind = original.kind AND step.target = original.target"
				" JOIN instance ON instance.name = step.instance WHERE original.kind = 'acs'"
				" AND " ROWS_STEP_HOLDS
				" ORDER BY original.target, step.instance", NO_ARGS, err);
	while (r == 0 && (r = store_next(q, err)) > 0) {
		if (!h)
			h = arena_array(arena, (size_t)store_int(q, 0), sizeof(*h));
		r = h ? read_hold(&h[i++], q, arena, err) : error_set(err, -ENOMEM, "no memory for rows of the store");
	}
	*ret = h;
	*n = i;
	return r;
}

int inst_acs_holds(struct inst_manager *m, struct inst_acs_hold **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	return r < 0 ? r : holds(tx, ret, n, arena, err);
}
