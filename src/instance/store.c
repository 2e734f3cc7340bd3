/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state file. Durability is SQLite's (WAL, synchronous=FULL: a commit that returned survives power
 * loss); this file adds the schema, the lock between threads and sentences for what can go wrong. */
#include "instance/store.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "instance/store_statement.h"

#define BUSY_TIMEOUT_MS 2000

struct store_tx {
	struct store *store; /* borrowed: the transaction is a member of it */
	bool          open;
	bool          ends; /* an operation */
};

#define TIDY_PAGES 1000 /* as SQLite's own automatic checkpoint */

struct store {
	sqlite3        *db;   /* owned */
	struct statements statements;
	char           *path; /* owned */
	pthread_mutex_t lock; /* held from store_begin to store_end */
	struct store_tx tx;
	atomic_ullong   commits;
	void          (*ended)(void *self); /* NULL: nobody listens */
	void           *self;
	atomic_int      pages; /* in the WAL */
};

/* device and its primary key: a function belongs to at most one instance, whatever the code above does.
 * original: what a thing on the machine was before the first instance touched it. */
static const char schema_1[] =
	"CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL) STRICT;"
	"INSERT INTO meta VALUES(1, 0);"
	"CREATE TABLE operation(id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,"
	" instance TEXT NOT NULL, state TEXT NOT NULL, code INTEGER NOT NULL DEFAULT 0, detail TEXT,"
	" created INTEGER NOT NULL, finished INTEGER NOT NULL DEFAULT 0, steps TEXT) STRICT;"
	"CREATE TABLE instance(name TEXT PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, state TEXT NOT NULL,"
	" error TEXT, created INTEGER NOT NULL, request TEXT NOT NULL, plan TEXT NOT NULL,"
	" operation INTEGER NOT NULL REFERENCES operation(id)) STRICT;"
	"CREATE TABLE device(bdf TEXT PRIMARY KEY, instance TEXT NOT NULL"
	" REFERENCES instance(name) ON DELETE CASCADE) STRICT;"
	"CREATE TABLE step(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE,"
	" seq INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, was TEXT NOT NULL,"
	" wanted TEXT NOT NULL, old TEXT, state TEXT NOT NULL, PRIMARY KEY(instance, seq)) STRICT;"
	"CREATE INDEX step_target ON step(kind, target);"
	"CREATE TABLE original(kind TEXT NOT NULL, target TEXT NOT NULL, value TEXT NOT NULL,"
	" PRIMARY KEY(kind, target)) STRICT;"
	"PRAGMA user_version = 1;";

/* 2: finding, what velad saw of running instances; and steps "acs". */
static const char schema_2[] =
	"CREATE TABLE finding(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE, rule TEXT NOT NULL,"
	" device TEXT NOT NULL, text TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
	" times INTEGER NOT NULL, PRIMARY KEY(instance, rule, device)) STRICT;"
	"PRAGMA user_version = 2;";

/* 3: request_key, clients' own names for requests (Idempotency-Key). */
static const char schema_3[] =
	"CREATE TABLE request_key(uid INTEGER NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,"
	" operation INTEGER NOT NULL REFERENCES operation(id), created INTEGER NOT NULL, PRIMARY KEY(uid, key)) STRICT;"
	"CREATE INDEX request_key_operation ON request_key(operation);"
	"CREATE INDEX request_key_created ON request_key(created);"
	"PRAGMA user_version = 3;";

/* 4: quarantine; wear, how often a function was given. */
static const char schema_4[] =
	"CREATE TABLE quarantine(bdf TEXT PRIMARY KEY, serial TEXT, reason TEXT NOT NULL, since INTEGER NOT NULL,"
	" was TEXT, driver TEXT) STRICT;"
	"CREATE TABLE wear(bdf TEXT PRIMARY KEY, times INTEGER NOT NULL) STRICT;"
	"PRAGMA user_version = 4;";

/* 5: image, what was found out about those that were added; and steps "image", "disk", "seed". */
static const char schema_5[] =
	"CREATE TABLE image(instance TEXT PRIMARY KEY REFERENCES instance(name) ON DELETE CASCADE, format TEXT NOT NULL,"
	" size INTEGER NOT NULL, virtual_size INTEGER NOT NULL, mtime INTEGER NOT NULL, sha256 TEXT NOT NULL) STRICT;"
	"PRAGMA user_version = 5;";

/* 6: seconds that a stop leaves a guest; when guests crashed. */
static const char schema_6[] =
	"ALTER TABLE operation ADD COLUMN grace INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE crash(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE, at INTEGER NOT NULL) STRICT;"
	"PRAGMA user_version = 6;";

/* 7: when an operation began, and how long it took; microseconds. */
static const char schema_7[] =
	"ALTER TABLE operation ADD COLUMN began INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE operation ADD COLUMN took INTEGER NOT NULL DEFAULT 0;"
	"PRAGMA user_version = 7;";

/* 8: generation of an instance: another one with each change of what a client sees of it. It is counted over all, so that one that
 * was made anew under its name has none that it had. */
static const char schema_8[] =
	"ALTER TABLE meta ADD COLUMN change INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE instance ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;"
#define NEXT_OF(what) "BEGIN UPDATE meta SET change = change + 1;" \
		      " UPDATE instance SET generation = (SELECT change FROM meta) WHERE name = " what "; END;"
	"CREATE TRIGGER instance_made AFTER INSERT ON instance " NEXT_OF("NEW.name")
	"CREATE TRIGGER instance_changed AFTER UPDATE OF state, error, operation, request ON instance " NEXT_OF("NEW.name")
	"CREATE TRIGGER finding_made AFTER INSERT ON finding " NEXT_OF("NEW.instance")
	"CREATE TRIGGER finding_changed AFTER UPDATE ON finding " NEXT_OF("NEW.instance")
#undef NEXT_OF
	"PRAGMA user_version = 8;";

/* 9: quarantine is of a place and the card that is in it, serial '' unknown; hangs: a call on it has not returned. */
static const char schema_9[] =
	"CREATE TABLE quarantine_9(bdf TEXT NOT NULL, serial TEXT NOT NULL, reason TEXT NOT NULL, since INTEGER NOT NULL, was TEXT,"
	" driver TEXT, hangs INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(bdf, serial)) STRICT;"
	"INSERT INTO quarantine_9 SELECT bdf, coalesce(serial, ''), reason, since, was, driver, 0 FROM quarantine;"
	"DROP TABLE quarantine;"
	"ALTER TABLE quarantine_9 RENAME TO quarantine;"
	"PRAGMA user_version = 9;";

/* 10: what a device is known by, and its PF; in which boot of the host an instance was started; what its domain is called, if not as
 * the instance; functions of domains that are no instance's. */
static const char schema_10[] =
	"ALTER TABLE device ADD COLUMN serial TEXT;"
	"ALTER TABLE device ADD COLUMN pf TEXT;"
	"ALTER TABLE instance ADD COLUMN boot TEXT;"
	"ALTER TABLE instance ADD COLUMN domain TEXT;"
	"CREATE TABLE foreign_device(bdf TEXT PRIMARY KEY, domain TEXT NOT NULL, uuid TEXT NOT NULL, runs INTEGER NOT NULL) STRICT;"
	"CREATE TRIGGER finding_gone AFTER DELETE ON finding BEGIN UPDATE meta SET change = change + 1;"
	" UPDATE instance SET generation = (SELECT change FROM meta) WHERE name = OLD.instance; END;"
	STORE_IDENTIFY ";"
	"PRAGMA user_version = 10;";

/* 11: the PF of a VF in quarantine; whether another card is in the place. */
static const char schema_11[] =
	"ALTER TABLE quarantine ADD COLUMN pf TEXT;"
	"ALTER TABLE quarantine ADD COLUMN away INTEGER NOT NULL DEFAULT 0;"
	"PRAGMA user_version = 11;";

/* 12: an operation that failed and is to be tried again: how often it was, and when it is next (microseconds since 1970; 0 at once). */
static const char schema_12[] =
	"ALTER TABLE operation ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE operation ADD COLUMN due INTEGER NOT NULL DEFAULT 0;"
	"PRAGMA user_version = 12;";

/* 13: those that wait or run, which are few, by themselves. */
static const char schema_13[] =
	"CREATE INDEX operation_open ON operation(instance) WHERE finished = 0;"
	"PRAGMA user_version = 13;";

static const char *const schemas[] = { schema_1, schema_2, schema_3, schema_4, schema_5, schema_6, schema_7, schema_8, schema_9, schema_10, schema_11, schema_12, schema_13 }; /* [n] makes version n + 1 of version n */

#define SCHEMA_VERSION ((int)ARRAY_SIZE(schemas))

/* Never -ENOSPC or the like: at the API edge those mean that the host has no room for a guest. */
static int sql_error(sqlite3 *db, const char *path, struct error *err)
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
	return sql_error(tx->store->db, tx->store->path, err);
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
static int take(struct store *s, struct store_rows **ret, const char *sql, struct error *err)
{
	int r = statement_take(&s->statements, ret, s->db, sql);

	if (r == SQLITE_NOMEM)
		return error_set(err, -ENOMEM, "no memory for the store %s", s->path);
	return r == SQLITE_OK ? 0 : sql_error(s->db, s->path, err);
}

int store_query(struct store_tx *tx, struct store_rows **ret, const char *sql, const struct store_arg *args, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = take(tx->store, &q, sql, err);

	if (r < 0)
		return r;
	if (bind_all(q->q, args) != SQLITE_OK)
		return tx_error(tx, err);
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
		return sql_error(db, sqlite3_db_filename(db, "main"), err);
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
	if (q)
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
	int r = take(s, &q, sql, err);

	return r < 0 ? r : store_next(q, err);
}

int64_t store_last_id(struct store_tx *tx)
{
	return sqlite3_last_insert_rowid(tx->store->db);
}

int store_begin(struct store_tx **ret, struct store *s, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&s->lock); /* cannot fail: a normal mutex, never taken twice */
	assert(!s->tx.open);
	r = run(s, "BEGIN IMMEDIATE", err);
	if (r < 0) {
		(void)pthread_mutex_unlock(&s->lock);
		return r;
	}
	s->tx.open = true;
	s->tx.ends = false;
	*ret = &s->tx;
	return 0;
}

int store_commit(struct store_tx *tx, struct error *err)
{
	int r;

	assert(tx->open);
	r = run(tx->store, "COMMIT", err);
	if (r < 0)
		return r;
	tx->open = false;
	tx->store->commits++;
	if (tx->ends && tx->store->ended)
		tx->store->ended(tx->store->self);
	return 0;
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

/* Instead of the automatic checkpoint, which would come in whatever thread commits: the loop's, too. */
static int count_pages(void *self, sqlite3 *db, const char *name, int pages)
{
	struct store *s = self;

	(void)db;
	(void)name;
	s->pages = pages;
	return SQLITE_OK;
}

bool store_is_long(const struct store *s)
{
	return s->pages >= TIDY_PAGES;
}

void store_tidy(struct store *s)
{
	if (!store_is_long(s))
		return;
	(void)pthread_mutex_lock(&s->lock);
	if (sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) == SQLITE_OK)
		s->pages = 0; /* else the next time: a full disk, say */
	(void)pthread_mutex_unlock(&s->lock);
}

uint64_t store_commits(const struct store *s)
{
	return s->commits;
}

struct store_tx *store_end(struct store_tx *tx)
{
	struct error ignored = ERROR_INIT; /* whoever failed has said why */

	if (!tx)
		return NULL;
	/* SQLite rolls back by itself on some errors (sqlite3_get_autocommit(3)); nothing is left then */
	if (tx->open && !sqlite3_get_autocommit(tx->store->db))
		(void)run(tx->store, "ROLLBACK", &ignored);
	tx->open = false;
	(void)pthread_mutex_unlock(&tx->store->lock);
	return NULL;
}

/* One row of one column, such as a pragma's answer; "" without a row. */
static int ask(struct store *s, char *ret, size_t size, const char *sql, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = take(s, &q, sql, err);

	ret[0] = '\0';
	if (r == 0)
		r = store_next(q, err);
	if (r > 0)
		(void)sqlite3_snprintf((int)size, ret, "%s", store_text(q, 0));
	return r < 0 ? r : 0;
}

/* locking_mode=EXCLUSIVE: two daemons on one store would both run its queue. It is released by the
 * kernel when the process ends, however it ends. */
static int configure(struct store *s, struct error *err)
{
	static const struct {
		const char *sql, *answer;
	} table[] = {
		{ "PRAGMA locking_mode = EXCLUSIVE", "exclusive" },
		{ "PRAGMA journal_mode = WAL", "wal" },
		{ "PRAGMA synchronous = FULL", "" },
		{ "PRAGMA foreign_keys = ON", "" },
		{ "PRAGMA trusted_schema = OFF", "" },
		{ "PRAGMA temp_store = MEMORY", "" }, /* no file besides the two (velad/sandbox.c) */
		{ "PRAGMA cache_size = -192", "" }, /* KiB: what is not in it is in the kernel's cache, a pread(2) away */
		{ "PRAGMA quick_check(1)", "ok" },
	};
	char answer[128];

	(void)sqlite3_extended_result_codes(s->db, 1); /* fails only for a broken handle */
	(void)sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int r = ask(s, answer, sizeof(answer), table[i].sql, err);

		if (r < 0)
			return r;
		if (strcmp(answer, table[i].answer) != 0)
			return error_set(err, -EBADMSG, "the store %s is damaged: %s says \"%s\"; move it away or bring back a copy",
					 s->path, table[i].sql, answer);
	}
	return 0;
}

static int check_empty(struct store *s, struct error *err)
{
	char first[64];
	int r = ask(s, first, sizeof(first), "SELECT name FROM sqlite_schema LIMIT 1", err);
	if (r < 0)
		return r;
	if (first[0])
		return error_set(err, -EBADMSG, "%s is not a store of velad: it has a table \"%s\" and no version",
				 s->path, first);
	return 0;
}

/* From an older version to this one, whole or not at all. */
static int upgrade(struct store *s, int version, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, s, err);

	if (r < 0)
		return r;
	for (; version < SCHEMA_VERSION; version++)
		if (sqlite3_exec(s->db, schemas[version], NULL, NULL, NULL) != SQLITE_OK)
			return tx_error(tx, err);
	return store_commit(tx, err);
}

static int check_version(struct store *s, struct error *err)
{
	char text[32];
	int r, version;

	r = ask(s, text, sizeof(text), "PRAGMA user_version", err);
	if (r < 0)
		return r;
	version = atoi(text); /* a 32-bit number printed by SQLite */
	if (version == 0)
		r = check_empty(s, err);
	if (r < 0)
		return r;
	if (version < 0 || version > SCHEMA_VERSION)
		return error_set(err, -EPROTONOSUPPORT,
				 "the store %s has version %d and this velad knows only %d; run the newer velad that made it",
				 s->path, version, SCHEMA_VERSION);
	return version < SCHEMA_VERSION ? upgrade(s, version, err) : 0;
}

int store_open(struct store **ret, const char *path, struct error *err)
{
	auto_(store_close) struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "no memory for the store %s", path);
	s->tx.store = s;
	(void)pthread_mutex_init(&s->lock, NULL); /* glibc: never fails without attributes */
	s->path = strdup(path);
	if (!s->path)
		return error_set(err, -ENOMEM, "no memory for the store %s", path);
	/* NOMUTEX: every use is between store_begin and store_end, or before the store is shared */
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return s->db ? sql_error(s->db, path, err) :
			       error_set(err, -ENOMEM, "no memory for the store %s", path);
	r = configure(s, err);
	if (r == 0)
		r = check_version(s, err);
	if (r < 0)
		return r;
	statements_done(&s->statements); /* those of the start */
	(void)sqlite3_wal_hook(s->db, count_pages, s);
	*ret = steal(s);
	return 0;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	assert(!s->tx.open);
	statements_done(&s->statements);
	(void)sqlite3_close(s->db); /* nothing can keep it any more */
	free(s->path);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}
