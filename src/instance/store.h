/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/store — SQLite behind a narrow door: one file, one connection, one transaction at a time,
 * values only ever bound. It knows the schema but no row; those are in rows.h. May be called from any
 * thread. */

#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"

struct error;
struct store_rows;
struct store;    /* opaque */
struct store_tx; /* opaque: proof that a transaction is open */

/* Makes the file when it is not there. The file is locked for this process as long as it is open.
 * -EBUSY: another process has it; -EPROTONOSUPPORT: made by a newer velad; -EBADMSG: damaged, or not a
 * store of velad; -EIO. The text names the file. */
int store_open(struct store **ret, const char *path, struct error *err);
struct store *store_close(struct store *s); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct store *, store_close);

/* Waits for the transaction of another thread. What is not committed is rolled back by store_end. */
int store_begin(struct store_tx **ret, struct store *s, struct error *err);
/* The same, for what is found and done again if it is lost: its commit does not wait for the disk. A power cut may take it as long as no
 * later one is there; the end of the process does not. */
int store_begin_lazy(struct store_tx **ret, struct store *s, struct error *err);
int store_commit(struct store_tx *tx, struct error *err);
struct store_tx *store_end(struct store_tx *tx); /* returns NULL */
AUTO_DEFINE(struct store_tx *, store_end);
/* Transactions of one thread that share a commit, and so a sync of the disk. Between the two calls store_commit_later() leaves what it was
 * given open, which the thread's own next transactions see, each of which can fail by itself; the end commits. So does store_commit() of the
 * thread, and whoever else begins one: nobody sees what is not in the file. After a commit that failed nothing of the group is kept, and the
 * thread's transactions fail with its error until the end, which says it again, and the group's number. */
void     store_group_begin(struct store *s);
int      store_commit_later(struct store_tx *tx, struct error *err); /* 1: it is not in the file yet; without a group as store_commit() */
uint64_t store_group(const struct store *s); /* that was opened last: what was written or read by now hangs on it, or on nothing */
int      store_group_commit(struct store *s, struct error *err); /* before the end; the error of an earlier one likewise */
int      store_group_end(struct store *s, uint64_t *failed, struct error *err); /* failed: 0 none */
/* Who is told, on the thread that commits, that a transaction with store_ends() is in the file. */
void store_listen(struct store *s, void (*ended)(void *self), void *self);
void store_ends(struct store_tx *tx); /* it has the end of an operation, which somebody may wait for */
/* Whether the log beside the file is so long that it should be put into it. */
bool store_is_long(const struct store *s);
/* Does that, then. For a thread that may wait for the disk. */
void store_tidy(struct store *s);
/* How many transactions were committed: as long as it is the same, so is what the store has. */
uint64_t store_commits(const struct store *s);

enum store_kind { STORE_LAST, STORE_INT, STORE_TEXT };

struct store_arg {
	enum store_kind kind;
	int64_t         integer;
	const char     *text; /* NULL: SQL NULL */
};

/* store_exec(tx, "UPDATE t SET a = ? WHERE b = ?", ARGS(ARG_TEXT(a), ARG_INT(b)), err) */
#define ARG_TEXT(t) { .kind = STORE_TEXT, .text = (t) }
#define ARG_INT(i)  { .kind = STORE_INT, .integer = (int64_t)(i) }
#define ARGS(...)   ((const struct store_arg[]){ __VA_ARGS__, { .kind = STORE_LAST } })
#define NO_ARGS     ((const struct store_arg[]){ { .kind = STORE_LAST } })

int     store_exec(struct store_tx *tx, const char *sql, const struct store_arg *args, struct error *err);
int64_t store_last_id(struct store_tx *tx); /* of the last INSERT */

/* A query: store_next returns 1 with a row, 0 at the end. Texts live until the next call on it. */
int store_query(struct store_tx *tx, struct store_rows **ret, const char *sql,
		const struct store_arg *args, struct error *err);
int         store_next(struct store_rows *q, struct error *err);
int64_t     store_int(struct store_rows *q, int column);
const char *store_text(struct store_rows *q, int column); /* "" for SQL NULL */
bool        store_null(struct store_rows *q, int column);
struct store_rows *store_query_free(struct store_rows *q);
AUTO_DEFINE(struct store_rows *, store_query_free);

/* Serial number and PF of devices that have none yet: from how they looked when they were lent (instance/gate), and from the plan. */
#define STORE_IDENTIFY "UPDATE device SET serial = coalesce(serial, (SELECT nullif(nullif(substr(rest, 1, instr(rest, ' ') - 1), '-')," \
		       " '0000000000000000') FROM (SELECT substr(value, instr(value, ' ') + 1) AS rest FROM original WHERE kind = 'lend'" \
		       " AND target = device.bdf)))," \
		       " pf = coalesce(pf, (SELECT json_extract(v.value, '$.pf') FROM instance," \
		       " json_each(CASE WHEN json_valid(instance.plan) THEN instance.plan ELSE '{}' END, '$.bundle.vfs') AS v" \
		       " WHERE instance.name = device.instance AND json_extract(v.value, '$.bdf') = device.bdf))"

/* What of the host's nodes the cells of an instance's plan take; FROM instance follows. */
#define STORE_CELLS(plan) "INSERT INTO cell SELECT name, c.key, json_extract(c.value, '$.host_node'), json_extract(c.value, '$.memory')," \
			  " json_extract(request, '$.hugepages'), json_extract(c.value, '$.cpus'), json_extract(request, '$.exclusive')" \
			  " FROM instance, json_each(" plan ", '$.bundle.cells') AS c"
