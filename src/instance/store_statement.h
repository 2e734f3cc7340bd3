/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/store_statement — the statements of the store, prepared once: to read SQL costs more than to do what it says. For instance/store only,
 * under its lock. */

#include <sqlite3.h>
#include <stdbool.h>

struct store_rows { /* a statement; somebody's, or free for the next who has the same text */
	sqlite3_stmt      *q; /* owned */
	const char        *text; /* where it was last read from */
	struct store_rows *next;
	bool               taken;
	const struct store_tx *tx; /* in which it was asked: it is given back before that ends; NULL: none */
};

struct statements {
	struct store_rows *first; /* the last that was taken; owned */
	unsigned           n;
};

/* An SQLite result code. It has no values bound. */
int  statement_take(struct statements *all, struct store_rows **ret, sqlite3 *db, const char *sql);
void statement_give(struct store_rows *s); /* it may be taken again */
void statements_done(struct statements *all);
