/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SQL for operations. The table is also the queue of the pool: what is not finished is work. */
#include "instance/op.h"

#include <errno.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strtab.h"
#include "instance/store.h"

#define OPERATIONS_KEPT 1000 /* and as many more as come until it is looked again */
#define DROP_EVERY      32

static const char *const op_kinds[OP_KIND_MAX_] = {
	[OP_CREATE] = "create",
	[OP_DELETE] = "delete",
	[OP_ACS_APPLY] = "acs-apply",
	[OP_ACS_RESTORE] = "acs-restore",
	[OP_UNQUARANTINE] = "quarantine-release",
	[OP_IMAGE_ADD] = "image-add",
	[OP_IMAGE_DELETE] = "image-delete",
	[OP_START] = "start",
	[OP_STOP] = "stop",
	[OP_REBOOT] = "reboot",
	[OP_RESET] = "reset",
	[OP_UNDO] = "undo",
	[OP_POOL_APPLY] = "pool-apply",
	[OP_POOL_RELEASE] = "pool-release",
	[OP_GATE] = "gate",
};

static const char *const op_states[OP_STATE_MAX_] = {
	[OP_QUEUED] = "queued",
	[OP_RUNNING] = "running",
	[OP_SUCCEEDED] = "succeeded",
	[OP_FAILED] = "failed",
	[OP_CANCELLED] = "cancelled",
};

const char *op_kind_text(enum op_kind k)
{
	return strtab_text(op_kinds, OP_KIND_MAX_, k);
}

const char *op_state_text(enum op_state s)
{
	return strtab_text(op_states, OP_STATE_MAX_, s);
}

bool op_state_known(const char *text)
{
	return strtab_find(op_states, OP_STATE_MAX_, text) >= 0;
}

/* An operation that is the last one of an instance stays, however old: the instance names it; so does a key. */
static int drop_old(struct store_tx *tx, int64_t id, struct error *err)
{
	if (id % DROP_EVERY)
		return 0;
	return store_exec(tx, "DELETE FROM operation WHERE id <= ? AND finished > 0"
			   " AND id NOT IN (SELECT operation FROM instance) AND id NOT IN (SELECT operation FROM request_key)",
			  ARGS(ARG_INT(id - OPERATIONS_KEPT)), err);
}

static int added(struct store_tx *tx, uint64_t *ret, int r, struct error *err)
{
	if (r < 0)
		return r;
	*ret = (uint64_t)store_last_id(tx);
	return drop_old(tx, (int64_t)*ret, err);
}

int op_add(struct store_tx *tx, uint64_t *ret, enum op_kind kind, const char *name, int64_t now, struct error *err)
{
	int r = store_exec(tx, "INSERT INTO operation(kind, instance, state, created) VALUES(?, ?, 'queued', ?)",
			   ARGS(ARG_TEXT(op_kind_text(kind)), ARG_TEXT(name), ARG_INT(now)), err);

	return added(tx, ret, r, err);
}

int op_add_ended(struct store_tx *tx, uint64_t *ret, enum op_kind kind, const char *name, int64_t now, struct error *err)
{
	int r = store_exec(tx, "INSERT INTO operation(kind, instance, state, created, finished, steps, took)"
			       " VALUES(?, ?, 'succeeded', ?3, ?3, '[]', 1)",
			   ARGS(ARG_TEXT(op_kind_text(kind)), ARG_TEXT(name), ARG_INT(now)), err);

	store_ends(tx);
	return added(tx, ret, r, err);
}

static int read_op(struct op *ret, struct store_rows *q, struct arena *arena, struct error *err)
{
	int kind = strtab_find(op_kinds, OP_KIND_MAX_, store_text(q, 1));
	int state = strtab_find(op_states, OP_STATE_MAX_, store_text(q, 3));
	bool detail = !store_null(q, 5), steps = !store_null(q, 8);

	if (kind < 0 || state < 0)
		return error_set(err, -EBADMSG, "the store has operation %lld of kind %s in state %s, which is unknown",
				 (long long)store_int(q, 0), store_text(q, 1), store_text(q, 3));
	*ret = (struct op){
		.id = (uint64_t)store_int(q, 0),
		.kind = (enum op_kind)kind,
		.instance = arena_strdup(arena, store_text(q, 2)),
		.state = (enum op_state)state,
		.code = (int)store_int(q, 4),
		.detail = detail ? arena_strdup(arena, store_text(q, 5)) : NULL,
		.created = store_int(q, 6),
		.finished = store_int(q, 7),
		.span = { .began = store_int(q, 10), .took = store_int(q, 11) },
		.steps = steps ? arena_strdup(arena, store_text(q, 8)) : NULL,
		.grace = (unsigned)store_int(q, 9),
		.tries = (unsigned)store_int(q, 12),
		.due = store_int(q, 13),
	};
	if (!ret->instance || (detail && !ret->detail) || (steps && !ret->steps))
		return error_set(err, -ENOMEM, "no memory for rows of the store");
	return 0;
}

static int find(struct store_tx *tx, struct op **ret, const char *sql, const struct store_arg *args,
		struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct op *op;
	int r;

	r = store_query(tx, &q, sql, args, err);
	if (r == 0)
		r = store_next(q, err);
	if (r < 0)
		return r;
	if (r == 0) {
		*ret = NULL;
		return 0;
	}
	op = arena_alloc(arena, sizeof(*op));
	if (!op)
		return error_set(err, -ENOMEM, "no memory for rows of the store");
	r = read_op(op, q, arena, err);
	if (r == 0)
		*ret = op;
	return r;
}

#define SELECT_OP "SELECT id, kind, instance, state, code, detail, created, finished, steps, grace, began, took, tries, due FROM operation "

int op_find(struct store_tx *tx, struct op **ret, uint64_t id, struct arena *arena,
		 struct error *err)
{
	return find(tx, ret, SELECT_OP "WHERE id = ?", ARGS(ARG_INT(id)), arena, err);
}

int op_list(struct store_tx *tx, struct op **ret, size_t *n, const struct op_filter *f, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct op *list = arena_array(arena, f->limit, sizeof(*list));
	int r;

	if (!list)
		return error_set(err, -ENOMEM, "no memory for rows of the store");
	r = store_query(tx, &q, SELECT_OP "WHERE (?1 IS NULL OR instance = ?1) AND (?2 IS NULL OR state = ?2) AND id < ?3"
			" ORDER BY id DESC LIMIT ?4",
			ARGS(ARG_TEXT(f->instance), ARG_TEXT(f->state), ARG_INT(f->before), ARG_INT(f->limit)), err);
	*n = 0;
	while (r == 0 && (r = store_next(q, err)) > 0)
		r = read_op(&list[(*n)++], q, arena, err);
	if (r == 0)
		*ret = list;
	return r;
}

/* By its number SQLite would go through all that are kept. */
int op_next(struct store_tx *tx, struct op **ret, uint64_t after, struct arena *arena, struct error *err)
{
	return find(tx, ret, SELECT_OP "INDEXED BY operation_open WHERE finished = 0 AND id > ? ORDER BY id LIMIT 1", ARGS(ARG_INT(after)), arena, err);
}

static int number(struct store_tx *tx, uint64_t *ret, const char *sql, const struct store_arg *args, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r;

	r = store_query(tx, &q, sql, args, err);
	if (r == 0)
		r = store_next(q, err);
	if (r > 0)
		*ret = (uint64_t)store_int(q, 0);
	return r < 0 ? r : 0;
}

int op_last(struct store_tx *tx, uint64_t *ret, struct error *err)
{
	return number(tx, ret, "SELECT coalesce(max(id), 0) FROM operation", NO_ARGS, err);
}

int op_unfinished(struct store_tx *tx, uint64_t *ret, struct error *err)
{
	return number(tx, ret, "SELECT count(*) FROM operation WHERE finished = 0 AND due = 0", NO_ARGS, err);
}

int op_unfinished_of(struct store_tx *tx, uint64_t *ret, enum op_kind a, enum op_kind b, struct error *err)
{
	return number(tx, ret, "SELECT coalesce(max(id), 0) FROM operation INDEXED BY operation_open WHERE finished = 0 AND kind IN (?, ?)",
		      ARGS(ARG_TEXT(op_kind_text(a)), ARG_TEXT(op_kind_text(b))), err);
}

int op_grace(struct store_tx *tx, uint64_t id, unsigned seconds, struct error *err)
{
	return seconds ? store_exec(tx, "UPDATE operation SET grace = ? WHERE id = ?", ARGS(ARG_INT(seconds), ARG_INT(id)), err) : 0;
}

int op_check_none(struct store_tx *tx, const char *name, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT id, kind FROM operation WHERE finished = 0 AND instance = ?", ARGS(ARG_TEXT(name)), err);

	if (r == 0)
		r = store_next(q, err);
	return r > 0 ? error_set(err, -EBUSY, "operation %lld (%s) runs on %s; wait for its end", (long long)store_int(q, 0),
				 store_text(q, 1), name) : r;
}

int op_run(struct store_tx *tx, struct op *op, struct error *err)
{
	op->span = span_begin();
	return store_exec(tx, "UPDATE operation SET state = 'running', began = ?, due = 0 WHERE id = ?",
			  ARGS(ARG_INT(op->span.began), ARG_INT(op->id)), err);
}

int op_finish(struct store_tx *tx, const struct op *op, struct error *err)
{
	store_ends(tx);
	return store_exec(tx, "UPDATE operation SET state = ?, code = ?, detail = ?, finished = ?, steps = ?, took = ?"
			      " WHERE id = ?",
			  ARGS(ARG_TEXT(op_state_text(op->state)), ARG_INT(op->code), ARG_TEXT(op->detail),
			       ARG_INT(op->finished), ARG_TEXT(op->steps), ARG_INT(op->span.took), ARG_INT(op->id)),
			  err);
}

/* A clock that is set back makes nobody wait for longer. */
bool op_waits(const struct op *op)
{
	int64_t now = (int64_t)clock_usec(CLOCK_REALTIME);

	return !op->finished && op->due > now && op->due <= now + 1000000 * (int64_t)OP_WAIT_SECONDS_MAX;
}

int op_wait(struct store_tx *tx, struct op *op, struct error *err)
{
	unsigned s = OP_WAIT_SECONDS;

	for (unsigned i = 0; i < op->tries && s < OP_WAIT_SECONDS_MAX; i++)
		s *= 2;
	op->state = OP_QUEUED;
	op->due = (int64_t)clock_usec(CLOCK_REALTIME) + 1000000 * (int64_t)s;
	return store_exec(tx, "UPDATE operation SET state = 'queued', code = ?, detail = ?, tries = ?, due = ? WHERE id = ?",
			  ARGS(ARG_INT(op->code), ARG_TEXT(op->detail), ARG_INT(op->tries), ARG_INT(op->due), ARG_INT(op->id)), err);
}

int op_wake(struct store_tx *tx, struct error *err)
{
	return store_exec(tx, "UPDATE operation SET due = 0 WHERE finished = 0 AND due > 0", NO_ARGS, err);
}

int op_due(struct store_tx *tx, int64_t *ret, int64_t after, struct error *err)
{
	uint64_t due = 0;
	int r = number(tx, &due, "SELECT coalesce(min(due), 0) FROM operation WHERE finished = 0 AND due > ?", ARGS(ARG_INT(after)), err);

	*ret = (int64_t)due;
	return r;
}

int op_yield(struct store_tx *tx, const char *name, struct error *err)
{
	int r = store_exec(tx, "UPDATE operation SET state = 'cancelled', code = ?1, detail = 'another operation makes it needless', finished = ?2, steps = '[]'"
			       " WHERE finished = 0 AND state = 'queued' AND instance = ?3 AND (kind IN ('undo', 'gate') OR (kind = 'start' AND"
			       " EXISTS(SELECT 1 FROM operation AS o WHERE o.finished = 0 AND o.instance = ?3 AND o.kind = 'gate')))",
			   ARGS(ARG_INT(-ECANCELED), ARG_INT(time(NULL)), ARG_TEXT(name)), err);

	store_ends(tx);
	return r;
}

bool op_is_own(enum op_kind k)
{
	return k == OP_UNDO || k == OP_GATE;
}

int op_gate(struct store_tx *tx, uint64_t *ret, const char *name, struct error *err)
{
	return number(tx, ret, "SELECT CASE WHEN count(*) = sum(kind = ?1) THEN coalesce(max(id), 0) ELSE 0 END FROM operation"
			       " WHERE finished = 0 AND instance = ?2",
		      ARGS(ARG_TEXT(op_kind_text(OP_GATE)), ARG_TEXT(name)), err);
}
