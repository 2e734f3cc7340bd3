/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening the state file: what is asked of SQLite, and from older versions of the tables to this one. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "instance/store_own.h"
#include "instance/store_schema.h"

#define BUSY_TIMEOUT_MS 2000

/* Instead of the automatic checkpoint, which would come in whatever thread commits: the loop's, too. */
static int count_pages(void *self, sqlite3 *db, const char *name, int pages)
{
	struct store *s = self;

	(void)db;
	(void)name;
	s->pages = pages;
	return SQLITE_OK;
}

/* One row of one column, such as a pragma's answer; "" without a row. */
static int ask(struct store *s, char *ret, size_t size, const char *sql, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_take(s, &q, sql, err);

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
static int upgrade_whole(struct store *s, int version, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	char table[64];
	int r = store_begin(&tx, s, err);

	if (r < 0)
		return r;
	for (; version < STORE_VERSION; version++)
		if (sqlite3_exec(s->db, store_schemas[version], NULL, NULL, NULL) != SQLITE_OK)
			return store_error(s->db, s->path, err);
	r = ask(s, table, sizeof(table), "PRAGMA foreign_key_check", err);
	if (r == 0 && table[0])
		r = error_set(err, -EBADMSG, "the store %s is damaged: a row of its table \"%s\" refers to one that is not there; move it"
					     " away or bring back a copy", s->path, table);
	return r < 0 ? r : store_commit(tx, err);
}

/* Foreign keys cannot be turned off or on within a transaction. */
static int upgrade(struct store *s, int version, struct error *err)
{
	int r;

	if (sqlite3_exec(s->db, "PRAGMA foreign_keys = OFF", NULL, NULL, NULL) != SQLITE_OK)
		return store_error(s->db, s->path, err);
	r = upgrade_whole(s, version, err);
	if (r == 0 && sqlite3_exec(s->db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL) != SQLITE_OK)
		r = store_error(s->db, s->path, err);
	return r;
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
	if (version < 0 || version > STORE_VERSION)
		return error_set(err, -EPROTONOSUPPORT,
				 "the store %s has version %d and this velad knows only %d; run the newer velad that made it",
				 s->path, version, STORE_VERSION);
	return version < STORE_VERSION ? upgrade(s, version, err) : 0;
}

int store_open(struct store **ret, const char *path, struct error *err)
{
	auto_(store_close) struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "no memory for the store %s", path);
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* nobody asks, and it takes a lock for each piece of memory; refused once it runs */
	s->tx.store = s;
	(void)pthread_mutex_init(&s->lock, NULL); /* glibc: never fails without attributes */
	s->path = strdup(path);
	if (!s->path)
		return error_set(err, -ENOMEM, "no memory for the store %s", path);
	/* NOMUTEX: every use is between store_begin and store_end, or before the store is shared */
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return s->db ? store_error(s->db, path, err) :
			       error_set(err, -ENOMEM, "no memory for the store %s", path);
	r = configure(s, err);
	if (r == 0)
		r = check_version(s, err);
	if (r < 0)
		return r;
	statements_done(&s->statements); /* those of the start */
	sqlite3_randomness(1, &(char){ 0 }); /* its seed asks the system, which whoever commits first could not do (velad/sandbox.c) */
	(void)sqlite3_wal_hook(s->db, count_pages, s);
	*ret = steal(s);
	return 0;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	assert(!s->tx.open && !s->group.open);
	statements_done(&s->statements);
	(void)sqlite3_close(s->db); /* nothing can keep it any more */
	free(s->path);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}
