/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CPUs and memory of the host that guests have, or will have when they start: the cells of their stored plans. */
#include <errno.h>

#include "base/arena.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "instance/manager.h"
#include "instance/store.h"

/* A failed one holds what it has as long as one of its steps could not be taken back. With its devices' memory pinned, or
 * preallocated, a running guest has all of its memory. */
#define CELLS \
	"SELECT name, node, memory, hugepages, cpus, exclusive, state IN ('running', 'degraded'), seq" \
	" FROM cell JOIN instance ON name = cell.instance WHERE state <> 'failed'" \
	" OR EXISTS (SELECT 1 FROM device WHERE device.instance = name)" \
	" OR EXISTS (SELECT 1 FROM step WHERE step.instance = name AND step.state IN ('begun', 'done', 'failed'))" \
	" ORDER BY cell.instance, seq"

static int read_room(struct plan_room *ret, struct store_rows *q, struct arena *arena, struct error *err)
{
	struct cpuset *cpus = NULL;

	if (store_int(q, 7) < 0)
		return error_set(err, -EBADMSG, "the store has a plan of instance %s that is no JSON", store_text(q, 0));
	if (!store_null(q, 4)) {
		cpus = arena_alloc(arena, sizeof(*cpus));
		if (!cpus)
			return error_set(err, -ENOMEM, "no memory for the cells of instances");
		if (cpuset_parse(cpus, store_text(q, 4)) < 0)
			return error_set(err, -EBADMSG, "the store has \"%.80s\" as the CPUs of instance %s", store_text(q, 4), store_text(q, 0));
	}
	*ret = (struct plan_room){
		.owner = arena_printf(arena, "instance %s", store_text(q, 0)),
		.node = (int)store_int(q, 1),
		.memory = (uint64_t)store_int(q, 2),
		.hugepages = (uint64_t)store_int(q, 3),
		.cpus = cpus,
		.exclusive = store_int(q, 5) != 0,
		.backed = store_int(q, 6) != 0,
	};
	return ret->owner ? 0 : error_set(err, -ENOMEM, "no memory for the cells of instances");
}

static int count(struct store_tx *tx, size_t *ret, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT count(*) FROM cell", NO_ARGS, err);

	if (r == 0)
		r = store_next(q, err);
	if (r < 0)
		return r;
	*ret = r > 0 ? (size_t)store_int(q, 0) : 0;
	return 0;
}

int inst_rooms(struct inst_manager *m, struct plan_room **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL; /* goes before tx does */
	struct plan_room *room = NULL;
	size_t max = 0, i = 0;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = count(tx, &max, err);
	if (r == 0) {
		room = arena_array(arena, max + 1, sizeof(*room));
		r = room ? store_query(tx, &q, CELLS, NO_ARGS, err) : error_set(err, -ENOMEM, "no memory for the cells of instances");
	}
	while (r == 0 && i < max && (r = store_next(q, err)) > 0)
		r = read_room(&room[i++], q, arena, err);
	if (r < 0)
		return r;
	*ret = room;
	*n = i;
	return 0;
}
