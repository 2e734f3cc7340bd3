/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state file. Durability is SQLite's (WAL, synchronous=FULL: a commit that returned survives power
 * loss); this file adds the lock between threads, groups, and sentences for what can go wrong. */
#include "instance/store.h"

#include <assert.h>
#include <errno.h>

#include "base/error.h"
#include "instance/store_own.h"

#define ROLLED_BACK "the store %s has rolled back by itself, as it does when it has no memory"
#define TIDY_PAGES 1000 /* as SQLite's own automatic checkpoint */

int store_error(sqlite3 *db, const char *path, struct error *err)
{
	const char *text = sqlite3_errmsg(db);

	switch (sqlite3_errcode(db) & 0xff) { /* the primary code, sqlite.org/rescode.html */
	case SQLITE_NOMEM:
		return error_set(err, -ENOMEM, "no memory for the store %s", path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(err, -EBUSY, "the store %s is in use by another process; is another velad running?",
				 path);
	case SQLITE_FULL:
		return error_set(err, -EIO, "the disk of the store %s is full (%s); make room there", path, text);
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		return error_set(err, -EIO, "cannot write the store %s (%s); its directory must exist and be writable",
				 path, text);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return error_set(err, -EBADMSG, "the store %s is damaged or not a store of velad (%s); move it away or bring back a copy",
				 path, text);
	default:
		return error_set(err, -EIO, "the store %s failed: %s", path, text);
	}
}

static int tx_error(struct store_tx *tx, struct error *err)
{
	return store_error(tx->store->db, tx->store->path, err);
}

static int bind_all(sqlite3_stmt *q, const struct store_arg *args)
{
	int r = SQLITE_OK;

	assert(args != NULL);
	for (int i = 0; args[i].kind != STORE_LAST && r == SQLITE_OK; i++) {
		if (args[i].kind == STORE_INT)
			r = sqlite3_bind_int64(q, i + 1, args[i].integer);
		else if (args[i].text)
			r = sqlite3_bind_text(q, i + 1, args[i].text, -1, SQLITE_TRANSIENT);
		else
			r = sqlite3_bind_null(q, i + 1);
	}
	return r;
}

/* SQLite's errcode may be of an earlier call where there was no memory for ours. */
int store_take(struct store *s, struct store_rows **ret, const char *sql, struct error *err)
{
	int r = statement_take(&s->statements, ret, s->db, sql);

	if (r == SQLITE_NOMEM)
		return error_set(err, -ENOMEM, "no memory for the store %s", s->path);
	return r == SQLITE_OK ? 0 : store_error(s->db, s->path, err);
}

int store_query(struct store_tx *tx, struct store_rows **ret, const char *sql, const struct store_arg *args, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_take(tx->store, &q, sql, err);

	if (r < 0)
		return r;
	if (bind_all(q->q, args) != SQLITE_OK)
		return tx_error(tx, err);
	q->tx = tx;
	*ret = steal(q);
	return 0;
}

int store_next(struct store_rows *q, struct error *err)
{
	sqlite3 *db = sqlite3_db_handle(q->q);

	switch (sqlite3_step(q->q)) {
	case SQLITE_ROW:
		return 1;
	case SQLITE_DONE:
		return 0;
	default:
		return store_error(db, sqlite3_db_filename(db, "main"), err);
	}
}

int64_t store_int(struct store_rows *q, int column)
{
	return sqlite3_column_int64(q->q, column);
}

const char *store_text(struct store_rows *q, int column)
{
	const unsigned char *text = sqlite3_column_text(q->q, column); /* NULL also without memory */

	return text ? (const char *)text : "";
}

bool store_null(struct store_rows *q, int column)
{
	return sqlite3_column_type(q->q, column) == SQLITE_NULL;
}

struct store_rows *store_query_free(struct store_rows *q)
{
	if (!q)
		return NULL;
	/* declared before its transaction it would be given back after the lock, while another thread uses the database */
	assert(!q->tx || (q->tx->held && pthread_equal(q->tx->owner, pthread_self())));
	statement_give(q);
	return NULL;
}

int store_exec(struct store_tx *tx, const char *sql, const struct store_arg *args, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r;

	r = store_query(tx, &q, sql, args, err);
	if (r < 0)
		return r;
	do
		r = store_next(q, err);
	while (r > 0);
	return r;
}

/* A statement that has no rows, whatever is open. */
static int run(struct store *s, const char *sql, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_take(s, &q, sql, err);

	return r < 0 ? r : store_next(q, err);
}

int64_t store_last_id(struct store_tx *tx)
{
	return sqlite3_last_insert_rowid(tx->store->db);
}

static void roll_back(struct store *s)
{
	struct error ignored = ERROR_INIT; /* whoever failed has said why */

	/* SQLite rolls back by itself on some errors (sqlite3_get_autocommit(3)); nothing is left then */
	if (!sqlite3_get_autocommit(s->db))
		(void)run(s, "ROLLBACK", &ignored);
}

static void told(struct store *s, bool ends)
{
	s->commits++;
	if (ends && s->ended)
		s->ended(s->self);
}

/* Nothing of it is kept, and until store_group_end() its thread gets no other. */
static void group_fails(struct store *s, const struct error *err)
{
	roll_back(s);
	s->group.open = false;
	s->group.failed = s->group.number;
	s->group.err = *err;
	s->commits++; /* what was read meanwhile is not so */
}

static int group_commit(struct store *s, struct error *err)
{
	int r = run(s, "COMMIT", err);

	if (r < 0) {
		group_fails(s, err);
		return r;
	}
	s->group.open = false;
	told(s, s->group.ends);
	return 0;
}

/* Whoever else wants the store commits what is open first: nobody acts on what is not in the file, and nobody's is rolled back with it. */
static void enter(struct store *s)
{
	struct error err = ERROR_INIT; /* is kept for the group's thread */

	(void)pthread_mutex_lock(&s->lock); /* cannot fail: a normal mutex, never taken twice */
	if (s->group.open && !pthread_equal(s->group.owner, pthread_self()))
		(void)group_commit(s, &err);
}

static bool is_mine(const struct store *s)
{
	return s->group.on && pthread_equal(s->group.owner, pthread_self());
}

/* Without its transaction a savepoint would be one. */
static void check_group(struct store *s)
{
	struct error err = ERROR_INIT;

	if (!sqlite3_get_autocommit(s->db))
		return;
	(void)error_set(&err, -EIO, ROLLED_BACK, s->path);
	group_fails(s, &err);
}

/* Outside of transactions. Prepared anew each time: that is when SQLite does it (pragma.c, PragTyp_SYNCHRONOUS). */
static int set_lazy(struct store *s, bool lazy, struct error *err)
{
	if (lazy == s->tx.lazy)
		return 0;
	if (sqlite3_exec(s->db, lazy ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL", NULL, NULL, NULL) != SQLITE_OK)
		return store_error(s->db, s->path, err);
	s->tx.lazy = lazy;
	return 0;
}

static int begin(struct store_tx **ret, struct store *s, bool lazy, struct error *err)
{
	int r;

	enter(s);
	assert(!s->tx.open);
	if (s->group.open)
		check_group(s);
	else
		roll_back(s); /* what there was no memory for when it failed */
	r = s->group.open ? 0 : set_lazy(s, lazy, err);
	if (r == 0 && is_mine(s) && s->group.failed) {
		*err = s->group.err;
		r = err->code;
	}
	if (r == 0)
		r = run(s, s->group.open ? "SAVEPOINT one" : "BEGIN IMMEDIATE", err);
	if (r < 0) {
		(void)pthread_mutex_unlock(&s->lock);
		return r;
	}
	s->tx.open = s->tx.held = true;
	s->tx.owner = pthread_self();
	s->tx.inner = s->group.open;
	s->tx.ends = false;
	*ret = &s->tx;
	return 0;
}

int store_begin(struct store_tx **ret, struct store *s, struct error *err)
{
	return begin(ret, s, false, err);
}

int store_begin_lazy(struct store_tx **ret, struct store *s, struct error *err)
{
	return begin(ret, s, true, err);
}

/* Into the group, which is opened by the first. */
static int join(struct store_tx *tx, struct error *err)
{
	struct store *s = tx->store;
	int r = tx->inner ? run(s, "RELEASE one", err) : 0;

	if (r < 0)
		return r;
	if (sqlite3_get_autocommit(s->db)) /* an error that somebody made nothing of */
		return error_set(err, -EIO, ROLLED_BACK, s->path);
	tx->open = false;
	if (!s->group.open)
		s->group.number++;
	s->group.ends = (s->group.open && s->group.ends) || tx->ends;
	s->group.open = true;
	s->commits++;
	return 0;
}

int store_commit(struct store_tx *tx, struct error *err)
{
	int r;

	assert(tx->open);
	if (tx->inner) {
		r = join(tx, err);
		return r < 0 ? r : group_commit(tx->store, err);
	}
	r = run(tx->store, "COMMIT", err);
	if (r < 0)
		return r;
	tx->open = false;
	told(tx->store, tx->ends);
	return 0;
}

int store_commit_later(struct store_tx *tx, struct error *err)
{
	int r;

	assert(tx->open);
	r = is_mine(tx->store) ? join(tx, err) : store_commit(tx, err);
	return r < 0 ? r : tx->store->group.open;
}

void store_group_begin(struct store *s)
{
	enter(s);
	assert(!s->group.on);
	s->group.on = true;
	s->group.owner = pthread_self();
	s->group.failed = 0;
	(void)pthread_mutex_unlock(&s->lock);
}

uint64_t store_group(const struct store *s)
{
	return s->group.number;
}

static int settle(struct store *s, struct error *err)
{
	if (s->group.failed)
		*err = s->group.err;
	return s->group.failed ? err->code : s->group.open ? group_commit(s, err) : 0;
}

int store_group_commit(struct store *s, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&s->lock);
	r = settle(s, err);
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

int store_group_end(struct store *s, uint64_t *failed, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&s->lock);
	r = settle(s, err);
	*failed = s->group.failed;
	s->group.failed = 0;
	s->group.on = false;
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

void store_listen(struct store *s, void (*ended)(void *self), void *self)
{
	s->ended = ended;
	s->self = self;
}

void store_ends(struct store_tx *tx)
{
	tx->ends = true;
}

bool store_is_long(const struct store *s)
{
	return s->pages >= TIDY_PAGES;
}

void store_tidy(struct store *s)
{
	if (!store_is_long(s))
		return;
	enter(s);
	if (sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) == SQLITE_OK)
		s->pages = 0; /* else the next time: a full disk, say */
	(void)pthread_mutex_unlock(&s->lock);
}

uint64_t store_commits(const struct store *s)
{
	return s->commits;
}

/* Of a group's transaction the others stay, if SQLite lets them. */
static void roll_back_inner(struct store *s)
{
	struct error err = ERROR_INIT;

	if (!sqlite3_get_autocommit(s->db) && run(s, "ROLLBACK TO one", &err) == 0)
		(void)run(s, "RELEASE one", &err);
	if (err.code < 0)
		group_fails(s, &err);
	else
		check_group(s);
}

struct store_tx *store_end(struct store_tx *tx)
{
	if (!tx)
		return NULL;
	if (tx->open && tx->inner)
		roll_back_inner(tx->store);
	else if (tx->open)
		roll_back(tx->store);
	tx->open = tx->held = false;
	(void)pthread_mutex_unlock(&tx->store->lock);
	return NULL;
}
