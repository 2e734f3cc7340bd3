/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* sql — a store, asked and changed without a daemon. */

#include "instance/fixture.h"
#include "instance/store.h"

static inline struct store_tx *begin(struct store *s)
{
	struct error err = ERROR_INIT;
	struct store_tx *tx = NULL;

	if (store_begin(&tx, s, &err) < 0)
		fail_msg("%s", err.text);
	return tx;
}

static inline void commit(struct store_tx *tx)
{
	struct error err = ERROR_INIT;

	if (store_commit(tx, &err) < 0)
		fail_msg("%s", err.text);
	(void)store_end(tx);
}

static inline int64_t number(struct store *s, const char *sql)
{
	struct store_tx *tx = begin(s);
	struct error err = ERROR_INIT;
	struct store_rows *q = NULL;
	int64_t n;

	if (store_query(tx, &q, sql, NO_ARGS, &err) < 0 || store_next(q, &err) != 1)
		fail_msg("%s", err.text);
	n = store_int(q, 0);
	(void)store_query_free(q);
	(void)store_end(tx);
	return n;
}

static inline void refused(const struct fx *fx, int code, const char *word)
{
	struct error err = ERROR_INIT;
	struct store *s = NULL;

	assert_int_equal(store_open(&s, fx->store, &err), code);
	assert_null(s);
	assert_non_null(strstr(err.text, fx->store));
	if (!strstr(err.text, word))
		fail_msg("\"%s\" lacks \"%s\"", err.text, word);
}
