/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many there are of what, for metrics. */
#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/state.h"
#include "instance/store.h"

#define COUNTS_MAX (OP_KIND_MAX_ * OP_STATE_MAX_ + INST_STATE_MAX_) /* no query has more groups */

static int count(struct store_tx *tx, struct inst_count **ret, size_t *n, const char *sql, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct inst_count *list = arena_array(arena, COUNTS_MAX, sizeof(*list));
	int r = store_query(tx, &q, sql, NO_ARGS, err);

	*n = 0;
	while (r == 0 && list && *n < COUNTS_MAX && (r = store_next(q, err)) > 0) {
		list[*n].kind = arena_strdup(arena, store_text(q, 0));
		list[*n].state = arena_strdup(arena, store_text(q, 1));
		list[*n].n = (uint64_t)store_int(q, 2);
		r = list[*n].kind && list[*n].state ? 0 : -ENOMEM;
		++*n;
	}
	if (!list || r == -ENOMEM)
		return error_set(err, -ENOMEM, "no memory for an answer");
	*ret = list;
	return r;
}

int inst_counts(struct inst_manager *m, struct inst_count **instance, size_t *instances, struct inst_count **op, size_t *ops,
		uint64_t *quarantined, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct inst_count *sick = NULL;
	size_t n = 0;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = count(tx, &sick, &n, "SELECT '', '', count(*) FROM quarantine WHERE NOT away", arena, err);
	if (r == 0)
		*quarantined = n ? sick->n : 0;

	if (r == 0)
		r = count(tx, instance, instances, "SELECT '', state, count(*) FROM instance WHERE name NOT LIKE '% %' GROUP BY state", arena, err);
	return r < 0 ? r : count(tx, op, ops, "SELECT kind, state, count(*) FROM operation GROUP BY kind, state", arena, err);
}
