/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SQL for what velad saw of instances that run: a row for each rule and device, however often it was seen. */
#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "instance/rows.h"
#include "instance/store.h"

int rows_finding_add(struct store_tx *tx, const char *name, const struct rows_finding *f, struct error *err)
{
	return store_exec(tx, "INSERT INTO finding(instance, rule, device, text, first, last, times) VALUES(?, ?, ?, ?, ?, ?, 1)"
			      " ON CONFLICT DO UPDATE SET text = excluded.text, last = excluded.last, times = times + 1",
			  ARGS(ARG_TEXT(name), ARG_TEXT(f->rule), ARG_TEXT(f->device), ARG_TEXT(f->text), ARG_INT(f->first),
			       ARG_INT(f->last)), err);
}

int rows_finding_drop(struct store_tx *tx, const char *name, const char *rule, const char *device, struct error *err)
{
	return store_exec(tx, "DELETE FROM finding WHERE instance = ? AND rule = ? AND device = ?",
			  ARGS(ARG_TEXT(name), ARG_TEXT(rule), ARG_TEXT(device)), err);
}

int rows_findings(struct store_tx *tx, struct rows_finding **ret, size_t *n, const char *name, struct arena *arena,
		  struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct rows_finding *f = NULL;
	size_t i = 0;
	int r;

	/* the number of rows is the first column of each */
	r = store_query(tx, &q, "SELECT count(*) OVER (), rule, device, text, first, last, times FROM finding WHERE instance = ?"
				" ORDER BY rule, device", ARGS(ARG_TEXT(name)), err);
	while (r == 0 && (r = store_next(q, err)) > 0) {
		if (!f)
			f = arena_array(arena, (size_t)store_int(q, 0), sizeof(*f));
		if (!f)
			return error_set(err, -ENOMEM, "no memory for rows of the store");
		f[i] = (struct rows_finding){ arena_strdup(arena, store_text(q, 1)), arena_strdup(arena, store_text(q, 2)),
					      arena_strdup(arena, store_text(q, 3)), store_int(q, 4), store_int(q, 5),
					      store_int(q, 6) };
		if (!f[i].rule || !f[i].device || !f[i].text)
			return error_set(err, -ENOMEM, "no memory for rows of the store");
		i++;
		r = 0;
	}
	*ret = f;
	*n = i;
	return r;
}
