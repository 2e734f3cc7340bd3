/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SQL for quarantine and wear, and the calls of instance.h on them. A row is of a place and of the card that was in it, by its serial
 * number, where that is known: it goes with the card (instance/follow). Of one without a serial number, whatever is at that BDF is
 * not given, also a new card, until an operator says so. */
#include "instance/quarantine.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "host/inventory.h"
#include "host/vpd.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/store.h"
#include "topo/topo.h"

#define COLUMNS "bdf, serial, reason, since, was, driver, hangs, pf, away"

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for rows of the store");
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

/* A card whose serial number was not known is the one that is known now. */
int quarantine_put(struct store_tx *tx, const struct quarantine *q, struct error *err)
{
	const char *serial = q->serial ? q->serial : "";
	struct arena arena = { 0 };
	struct quarantine *there;
	char text[BDF_TEXT_MAX], pf[BDF_TEXT_MAX];
	int r = quarantine_find(tx, &there, q->bdf, q->serial, &arena, err);

	(void)bdf_text(text, q->bdf);
	(void)bdf_text(pf, q->pf);
	if (r == 0 && there)
		r = store_exec(tx, "UPDATE quarantine SET serial = max(serial, ?), was = coalesce(was, ?), driver = coalesce(driver, ?),"
				   " hangs = max(hangs, ?), away = 0 WHERE bdf = ? AND serial = ?",
			       ARGS(ARG_TEXT(serial), ARG_TEXT(q->was), ARG_TEXT(q->driver), ARG_INT(q->hangs), ARG_TEXT(text),
				    ARG_TEXT(there->serial ? there->serial : "")), err);
	else if (r == 0)
		r = store_exec(tx, "INSERT INTO quarantine(" COLUMNS ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7,"
				   " coalesce(?8, (SELECT pf FROM device WHERE bdf = ?1)), 0)",
			       ARGS(ARG_TEXT(text), ARG_TEXT(serial), ARG_TEXT(q->reason), ARG_INT(q->since), ARG_TEXT(q->was),
				    ARG_TEXT(q->driver), ARG_INT(q->hangs), ARG_TEXT(bdf_is_none(q->pf) ? NULL : pf)), err);
	arena_done(&arena);
	return r;
}

int quarantine_drop(struct store_tx *tx, const struct quarantine *q, struct error *err)
{
	char text[BDF_TEXT_MAX];

	return store_exec(tx, "DELETE FROM quarantine WHERE bdf = ? AND serial = ?",
			  ARGS(ARG_TEXT(bdf_text(text, q->bdf)), ARG_TEXT(q->serial ? q->serial : "")), err);
}

int wear_add(struct store_tx *tx, struct bdf bdf, struct error *err)
{
	char text[BDF_TEXT_MAX];

	return store_exec(tx, "INSERT INTO wear(bdf, times) VALUES(?, 1) ON CONFLICT(bdf) DO UPDATE SET times = times + 1",
			  ARGS(ARG_TEXT(bdf_text(text, bdf))), err);
}

int quarantine_check(struct store_tx *tx, const char *instance, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT quarantine.bdf, reason FROM quarantine JOIN device USING(bdf) WHERE instance = ? AND NOT away"
				    " AND (quarantine.serial = '' OR device.serial IS NULL OR quarantine.serial = device.serial) ORDER BY bdf",
			    ARGS(ARG_TEXT(instance)), err);

	if (r == 0)
		r = store_next(q, err);
	return r <= 0 ? r : error_set(err, -EBUSY, "%s is in quarantine: %.300s; say velactl quarantine release %s once it is well",
				      store_text(q, 0), store_text(q, 1), store_text(q, 0));
}

int quarantine_set_away(struct store_tx *tx, const struct quarantine *q, bool away, struct error *err)
{
	char text[BDF_TEXT_MAX];

	return store_exec(tx, "UPDATE quarantine SET away = ? WHERE bdf = ? AND serial = ?",
			  ARGS(ARG_INT(away), ARG_TEXT(bdf_text(text, q->bdf)), ARG_TEXT(q->serial ? q->serial : "")), err);
}

static int copy(const char **ret, struct store_rows *q, int column, struct arena *arena, struct error *err)
{
	*ret = store_null(q, column) ? NULL : arena_strdup(arena, store_text(q, column));
	return *ret || store_null(q, column) ? 0 : no_memory(err);
}

static int read_row(struct quarantine *ret, struct store_rows *q, struct arena *arena, struct error *err)
{
	int r;

	*ret = (struct quarantine){ .since = store_int(q, 3), .hangs = store_int(q, 6), .pf = BDF_NONE, .away = store_int(q, 8) };
	if (!store_null(q, 7))
		(void)bdf_parse(&ret->pf, store_text(q, 7));
	if (!bdf_parse(&ret->bdf, store_text(q, 0)))
		return error_set(err, -EBADMSG, "the store has \"%s\" in quarantine, which is no BDF", store_text(q, 0));
	r = *store_text(q, 1) ? copy(&ret->serial, q, 1, arena, err) : 0;
	if (r == 0)
		r = copy(&ret->reason, q, 2, arena, err);
	if (r == 0)
		r = copy(&ret->was, q, 4, arena, err);
	return r < 0 ? r : copy(&ret->driver, q, 5, arena, err);
}

int quarantine_find(struct store_tx *tx, struct quarantine **ret, struct bdf bdf, const char *serial, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	char text[BDF_TEXT_MAX];
	int r = store_query(tx, &q, "SELECT " COLUMNS " FROM quarantine WHERE bdf = ?1 AND (serial = ?2 OR (NOT away AND (?2 IS NULL OR serial = '')))"
				 " ORDER BY since DESC",
			    ARGS(ARG_TEXT(bdf_text(text, bdf)), ARG_TEXT(serial)), err);

	*ret = NULL;
	if (r == 0)
		r = store_next(q, err);
	if (r <= 0)
		return r;
	*ret = arena_alloc(arena, sizeof(**ret));
	return *ret ? read_row(*ret, q, arena, err) : no_memory(err);
}

int quarantine_find_any(struct store_tx *tx, struct quarantine **ret, struct bdf bdf, const char *serial, struct arena *arena,
			struct error *err)
{
	struct quarantine *all = NULL;
	size_t n = 0;
	int r = quarantine_find(tx, ret, bdf, serial, arena, err);

	if (r == 0 && !*ret)
		r = quarantine_list(tx, &all, &n, arena, err);
	for (size_t i = 0; r == 0 && !*ret && i < n; i++)
		if (bdf_eq(all[i].bdf, bdf))
			*ret = &all[i];
	return r;
}

int quarantine_say(struct store_tx *tx, const struct quarantine *q, const char *reason, struct error *err)
{
	char text[BDF_TEXT_MAX];

	return store_exec(tx, "UPDATE quarantine SET reason = ?, hangs = 0 WHERE bdf = ? AND serial = ?",
			  ARGS(ARG_TEXT(reason), ARG_TEXT(bdf_text(text, q->bdf)), ARG_TEXT(q->serial ? q->serial : "")), err);
}

int quarantine_list(struct store_tx *tx, struct quarantine **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct quarantine *all = NULL;
	int r = store_query(tx, &q, "SELECT " COLUMNS ", count(*) OVER () FROM quarantine ORDER BY bdf", NO_ARGS, err);

	*n = 0;
	while (r == 0 && (r = store_next(q, err)) > 0) {
		if (!all)
			all = arena_array(arena, (size_t)store_int(q, 9), sizeof(*all));
		r = all ? read_row(&all[(*n)++], q, arena, err) : no_memory(err);
	}
	*ret = all;
	return r;
}

/* ---- instance.h ----------------------------------------------------------------------------------------- */

int inst_quarantined(struct inst_manager *m, struct plan_sick **ret, size_t *n, const struct topo *topo, struct arena *arena,
		     struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct quarantine *q = NULL;
	struct plan_sick *sick;
	size_t rows = 0;
	int r = quarantine_follow(m, topo, err);

	if (r == 0)
		r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = quarantine_list(tx, &q, &rows, arena, err);
	if (r < 0)
		return r;
	sick = arena_array(arena, rows + 1, sizeof(*sick));
	*n = 0;
	for (size_t i = 0; sick && i < rows; i++)
		if (!q[i].away)
			sick[(*n)++] = (struct plan_sick){ q[i].bdf, q[i].reason };
	*ret = sick;
	return sick ? 0 : no_memory(err);
}

int inst_wear(struct inst_manager *m, struct plan_wear **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL; /* goes before tx does */
	struct plan_wear *all = NULL;
	int r = store_begin(&tx, m->store, err);

	*n = 0;
	if (r == 0)
		r = store_query(tx, &q, "SELECT bdf, times, count(*) OVER () FROM wear ORDER BY bdf", NO_ARGS, err);
	while (r == 0 && (r = store_next(q, err)) > 0) {
		if (!all)
			all = arena_array(arena, (size_t)store_int(q, 2), sizeof(*all));
		if (!all)
			return no_memory(err);
		all[*n].times = (uint64_t)store_int(q, 1);
		r = bdf_parse(&all[*n].bdf, store_text(q, 0)) ? 0 :
			error_set(err, -EBADMSG, "the store counts \"%s\", which is no BDF", store_text(q, 0));
		++*n;
	}
	*ret = all;
	return r;
}

int inst_quarantine_json(struct inst_manager *m, struct json_object **ret, const struct topo *topo, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	json_object *rows = json_object_new_array();
	struct json_out o = json_out_new();
	struct arena arena = { 0 };
	struct quarantine *q = NULL;
	size_t n = 0;
	int r = quarantine_follow(m, topo, err);

	if (r == 0)
		r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = quarantine_list(tx, &q, &n, &arena, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct json_out one = json_out_new();

		json_add_bdf(&one, "bdf", q[i].bdf);
		json_add_string(&one, "serial", q[i].serial);
		json_add_bool(&one, "replaced", q[i].away);
		json_add_string(&one, "reason", q[i].reason);
		json_add_time(&one, "since", q[i].since);
		json_append_out(&o, rows, &one);
	}
	json_add_made(&o, "quarantine", rows);
	arena_done(&arena);
	*ret = json_finish(&o);
	if (r == 0)
		return *ret ? 0 : no_memory(err);
	json_object_put(*ret);
	*ret = NULL;
	return r;
}

/* What is known of it now is what it is held by. */
static void identify(struct quarantine *q, char serial[VPD_SERIAL_MAX], const struct topo *topo)
{
	const struct host_function *fn = topo ? host_function_find(topo_inventory(topo), q->bdf) : NULL;

	if (fn && fn->facts->is_vf) {
		q->pf = fn->facts->pf;
		fn = host_function_find(topo_inventory(topo), q->pf);
	}
	if (fn && *host_serial_text(serial, fn->facts))
		q->serial = serial;
}

int inst_quarantine_add(struct inst_manager *m, struct bdf bdf, const char *reason, const struct topo *topo, struct error *err)
{
	struct quarantine q = { .bdf = bdf, .pf = BDF_NONE, .reason = reason, .since = time(NULL) }, *there = NULL;
	auto_(store_end) struct store_tx *tx = NULL;
	char text[BDF_TEXT_MAX], serial[VPD_SERIAL_MAX];
	struct arena arena = { 0 };
	int r = quarantine_follow(m, topo, err);

	identify(&q, serial, topo);
	if (r == 0)
		r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = quarantine_find(tx, &there, bdf, q.serial, &arena, err);
	if (r == 0 && there)
		r = error_set(err, -EEXIST, "%s is in quarantine already: %s", bdf_text(text, bdf), there->reason);
	if (r == 0)
		r = quarantine_put(tx, &q, err);
	if (r == 0)
		r = store_commit(tx, err);
	arena_done(&arena);
	return r;
}

/* What an instance has is its as long as a guest may run, or something is done to it. */
static int check_free(struct store_tx *tx, const char *bdf, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT name, state FROM device JOIN instance ON name = device.instance WHERE bdf = ? AND (state <> 'stopped'"
				    " OR EXISTS(SELECT 1 FROM operation WHERE operation.instance = name AND finished = 0))", ARGS(ARG_TEXT(bdf)), err);

	if (r == 0)
		r = store_next(q, err);
	return r > 0 ? error_set(err, -EBUSY, "%s is held by instance %s, which is %s; stop or delete that first", bdf, store_text(q, 0),
				 store_text(q, 1)) : r;
}

static int begin_release(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	const struct bdf *bdf = arg;
	struct quarantine *q = NULL;
	char text[BDF_TEXT_MAX];
	int r = quarantine_find_any(tx, &q, *bdf, NULL, arena, err);

	(void)bdf_text(text, *bdf);
	if (r == 0 && !q)
		return error_set(err, -ENOENT, "%s is not in quarantine", text);
	if (r == 0 && !q->away)
		r = check_free(tx, text, err);
	if (r == 0)
		r = op_check_none(tx, text, err);
	if (r == 0)
		r = manager_check_queue(tx, err);
	return r < 0 ? r : op_add(tx, ret_op, OP_UNQUARANTINE, text, time(NULL), err);
}

int inst_quarantine_release(struct inst_manager *m, uint64_t *ret_op, struct bdf bdf, const struct topo *topo, struct error *err)
{
	int r = quarantine_follow(m, topo, err);

	return r < 0 ? r : manager_begin(m, ret_op, begin_release, &bdf, err);
}
