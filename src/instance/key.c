/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/key.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/store.h"

/* A clock that was set back makes no key of tomorrow: such a one goes as well. */
static int drop_old(struct store_tx *tx, int64_t now, struct error *err)
{
	return store_exec(tx, "DELETE FROM request_key WHERE created <= ?1 - ?2 OR created > ?1 + ?2",
			  ARGS(ARG_INT(now), ARG_INT(KEY_SECONDS)), err);
}

static int count(struct store_tx *tx, int64_t *ret, int64_t uid, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT count(*) FROM request_key WHERE uid = ?", ARGS(ARG_INT(uid)), err);

	if (r == 0)
		r = store_next(q, err);
	if (r > 0)
		*ret = store_int(q, 0);
	return r < 0 ? r : 0;
}

int key_add(struct store_tx *tx, const struct inst_key *key, uint64_t op, int64_t now, struct error *err)
{
	int64_t n = 0;
	int r = drop_old(tx, now, err);

	if (r == 0)
		r = count(tx, &n, key->uid, err);
	if (r == 0 && n >= KEYS_UID_MAX)
		return error_set(err, -EUSERS, "this user has %d Idempotency-Keys of the last 24 hours; send requests without", KEYS_UID_MAX);
	if (r == 0)
		r = store_exec(tx, "INSERT INTO request_key(uid, key, digest, operation, created) VALUES(?, ?, ?, ?, ?)",
			       ARGS(ARG_INT(key->uid), ARG_TEXT(key->text), ARG_TEXT(key->digest), ARG_INT(op), ARG_INT(now)), err);
	return r;
}

static int find(struct store_tx *tx, uint64_t *ret, const struct inst_key *key, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT operation, digest FROM request_key WHERE uid = ? AND key = ?",
			    ARGS(ARG_INT(key->uid), ARG_TEXT(key->text)), err);

	if (r == 0)
		r = store_next(q, err);
	if (r <= 0)
		return r;
	if (strcmp(store_text(q, 1), key->digest) != 0)
		return error_set(err, -EKEYREJECTED, "the Idempotency-Key %s was used for another request (operation %lld); "
				 "take a new key for a new request", key->text, (long long)store_int(q, 0));
	*ret = (uint64_t)store_int(q, 0);
	return 0;
}

static int check_ended(struct store_tx *tx, uint64_t id, struct error *err)
{
	struct arena arena = { 0 };
	struct op *op = NULL;
	int r = op_find(tx, &op, id, &arena, err);

	if (r == 0 && op && op->finished == 0)
		r = error_set(err, -EBUSY, "operation %llu, which this Idempotency-Key began, is %s; wait for its end with "
			      "GET /v1/operations/%llu?wait=60", (unsigned long long)id, op_state_text(op->state), (unsigned long long)id);
	arena_done(&arena);
	return r;
}

int inst_key_find(struct inst_manager *m, uint64_t *ret_op, const struct inst_key *key, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = drop_old(tx, time(NULL), err);
	if (r == 0)
		r = find(tx, ret_op, key, err);
	return r < 0 || !*ret_op ? r : check_ended(tx, *ret_op, err);
}

void inst_key_use(struct inst_manager *m, const struct inst_key *key)
{
	m->key = key;
}
