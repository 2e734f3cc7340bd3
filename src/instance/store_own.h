/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/store — what its two files share: the open store, and sentences for what can go wrong. */

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "base/error.h"
#include "instance/store.h"
#include "instance/store_statement.h"

struct store_tx {
	struct store *store; /* borrowed: the transaction is a member of it */
	bool          open;
	bool          inner; /* a savepoint, within that of a group */
	bool          ends; /* an operation */
	bool          lazy; /* synchronous is NORMAL meanwhile */
	bool          held; /* from store_begin to store_end, by owner */
	pthread_t     owner;
};

struct group { /* transactions of one thread that are committed together; under the store's lock */
	bool         on, open;
	pthread_t    owner;  /* while on */
	bool         ends;
	uint64_t     number; /* of the last that was opened */
	uint64_t     failed; /* since on; 0: none */
	struct error err;
};

struct store {
	sqlite3        *db;   /* owned */
	struct statements statements;
	char           *path; /* owned */
	pthread_mutex_t lock; /* held from store_begin to store_end */
	struct store_tx tx;
	struct group    group;
	atomic_ullong   commits;
	void          (*ended)(void *self); /* NULL: nobody listens */
	void           *self;
	atomic_int      pages; /* in the WAL */
};

/* What SQLite's last error was; returns its code. Never -ENOSPC or the like: at the API edge those mean that the host has no room for a guest. */
int store_error(sqlite3 *db, const char *path, struct error *err);
/* A statement, without values; under the lock, or before the store is shared. */
int store_take(struct store *s, struct store_rows **ret, const char *sql, struct error *err);
