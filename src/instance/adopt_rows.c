/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What reconciliation reads from the store, and what it writes there. A device that moves takes the steps of its function with it, and
 * what that was before; what its instance did to ports and PFs is void, for the boot that moved them has undone it. */
#include "instance/adopt_rows.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "instance/adopt.h"
#include "instance/life.h"
#include "instance/manager.h"
#include "instance/moved.h"
#include "instance/quarantine.h"
#include "instance/reconcile.h"
#include "instance/reconcile_rules.h"
#include "instance/state.h"
#include "instance/store.h"

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for rows of the store");
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* The rows of a query, whose first column is their number; read puts one at i. */
struct rows {
	struct arena *arena;
	void         *all;
	size_t        n, size; /* size: of one */
	const char   *of;      /* the query's one argument; NULL: it has none */
	int (*read)(void *one, struct store_rows *q, struct arena *arena, struct error *err);
};

static int read_rows(struct rows *rows, struct store_tx *tx, const char *sql, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, sql, rows->of ? ARGS(ARG_TEXT(rows->of)) : NO_ARGS, err);

	while (r == 0 && (r = store_next(q, err)) > 0) {
		if (!rows->all)
			rows->all = arena_array(rows->arena, (size_t)store_int(q, 0), rows->size);
		r = rows->all ? rows->read((char *)rows->all + rows->size * rows->n++, q, rows->arena, err) : no_memory(err);
	}
	return r;
}

static const char *text(struct store_rows *q, int column, struct arena *arena, bool *failed)
{
	const char *copy = arena_strdup(arena, store_text(q, column));

	*failed = *failed || !copy;
	return copy;
}

static int bdf(struct bdf *ret, struct store_rows *q, int column, struct error *err)
{
	return bdf_parse(ret, store_text(q, column)) ? 0 : error_set(err, -EBADMSG, "the store has a device \"%s\", which is no BDF",
								    store_text(q, column));
}

static int read_instance(void *one, struct store_rows *q, struct arena *arena, struct error *err)
{
	struct reconcile_instance *in = one;
	int state = inst_state_parse(store_text(q, 4));
	bool failed = false;

	*in = (struct reconcile_instance){
		.name = text(q, 1, arena, &failed), .uuid = text(q, 2, arena, &failed), .domain = text(q, 3, arena, &failed),
		.state = state < 0 ? INST_FAILED : (enum inst_state)state, .boot = text(q, 5, arena, &failed),
		.busy = state < 0 || store_int(q, 6), /* of a state that no velad writes nothing is decided */
	};
	return failed ? no_memory(err) : 0;
}

struct owned_device {
	const char             *instance;
	struct reconcile_device d;
};

static int read_device(void *one, struct store_rows *q, struct arena *arena, struct error *err)
{
	struct owned_device *o = one;
	bool failed = false;
	int r;

	*o = (struct owned_device){ .instance = text(q, 1, arena, &failed), .d = { .pf = BDF_NONE, .serial = text(q, 4, arena, &failed) } };
	r = bdf(&o->d.bdf, q, 2, err);
	if (r == 0 && !store_null(q, 3))
		r = bdf(&o->d.pf, q, 3, err);
	return r == 0 && failed ? no_memory(err) : r;
}

struct owned_note {
	const char           *instance;
	struct reconcile_note note;
};

static int read_note(void *one, struct store_rows *q, struct arena *arena, struct error *err)
{
	struct owned_note *o = one;
	bool failed = false;

	*o = (struct owned_note){ text(q, 1, arena, &failed), { text(q, 2, arena, &failed), text(q, 3, arena, &failed), text(q, 4, arena, &failed) } };
	return failed ? no_memory(err) : 0;
}

static int read_foreign(void *one, struct store_rows *q, struct arena *arena, struct error *err)
{
	struct reconcile_foreign *f = one;
	bool failed = false;

	*f = (struct reconcile_foreign){ .domain = text(q, 2, arena, &failed), .uuid = text(q, 3, arena, &failed), .runs = store_int(q, 4) };
	return failed ? no_memory(err) : bdf(&f->bdf, q, 1, err);
}

static int read_sick(void *one, struct store_rows *q, struct arena *arena, struct error *err)
{
	(void)arena;
	return bdf(one, q, 1, err);
}

/* To each instance what is its own. */
static int hand_out(struct reconcile_instance *in, const struct rows *devices, const struct rows *notes, struct arena *arena, struct error *err)
{
	struct reconcile_device *d = arena_array(arena, devices->n, sizeof(*d));
	struct reconcile_note *note = arena_array(arena, notes->n, sizeof(*note));

	if (!d || !note)
		return no_memory(err);
	in->device = d;
	in->note = note;
	for (size_t i = 0; i < devices->n; i++) {
		const struct owned_device *o = &((const struct owned_device *)devices->all)[i];

		if (strcmp(o->instance, in->name) == 0)
			d[in->n++] = o->d;
	}
	for (size_t i = 0; i < notes->n; i++) {
		const struct owned_note *o = &((const struct owned_note *)notes->all)[i];

		if (strcmp(o->instance, in->name) == 0 && reconcile_finds(o->note.rule))
			note[in->nnotes++] = o->note;
	}
	return 0;
}

#define SELECT_DEVICES "SELECT count(*) OVER (), instance, bdf, pf, serial FROM device "
#define SELECT_FOREIGN "SELECT count(*) OVER (), bdf, domain, uuid, runs FROM foreign_device ORDER BY bdf"

int adopt_rows_foreign(struct store_tx *tx, struct inst_foreign **ret, size_t *n, struct arena *arena, struct error *err)
{
	struct rows rows = { .arena = arena, .size = sizeof(struct reconcile_foreign), .read = read_foreign };
	int r = read_rows(&rows, tx, SELECT_FOREIGN, err);
	struct inst_foreign *all = arena_array(arena, rows.n, sizeof(*all));

	for (size_t i = 0; all && i < rows.n; i++) {
		const struct reconcile_foreign *f = &((const struct reconcile_foreign *)rows.all)[i];

		all[i] = (struct inst_foreign){ f->bdf, f->domain, f->runs };
	}
	*ret = all;
	*n = rows.n;
	return r == 0 && !all ? no_memory(err) : r;
}

int adopt_rows_load(struct store_tx *tx, struct reconcile_input *ret, struct arena *arena, struct error *err)
{
	struct rows instances = { .arena = arena, .size = sizeof(struct reconcile_instance), .read = read_instance };
	struct rows devices = { .arena = arena, .size = sizeof(struct owned_device), .read = read_device };
	struct rows notes = { .arena = arena, .size = sizeof(struct owned_note), .read = read_note };
	struct rows foreign = { .arena = arena, .size = sizeof(struct reconcile_foreign), .read = read_foreign };
	struct rows sick = { .arena = arena, .size = sizeof(struct bdf), .read = read_sick };
	int r = read_rows(&instances, tx, "SELECT count(*) OVER (), name, uuid, coalesce(domain, name), state, boot, EXISTS(SELECT 1 FROM operation"
					  " WHERE finished = 0 AND operation.instance = instance.name) FROM instance WHERE instr(name, ' ') = 0"
					  " ORDER BY name", err);

	if (r == 0)
		r = read_rows(&devices, tx, SELECT_DEVICES "ORDER BY bdf", err);
	if (r == 0)
		r = read_rows(&notes, tx, "SELECT count(*) OVER (), instance, rule, device, text FROM finding ORDER BY rule, device", err);
	if (r == 0)
		r = read_rows(&foreign, tx, SELECT_FOREIGN, err);
	if (r == 0)
		r = read_rows(&sick, tx, "SELECT count(*) OVER (), bdf FROM quarantine WHERE NOT away ORDER BY bdf", err);
	for (size_t i = 0; r == 0 && i < instances.n; i++)
		r = hand_out(&((struct reconcile_instance *)instances.all)[i], &devices, &notes, arena, err);
	ret->instance = instances.all;
	ret->ninstances = instances.n;
	ret->foreign = foreign.all;
	ret->nforeign = foreign.n;
	ret->sick = sick.all;
	ret->nsick = sick.n;
	return r;
}

int adopt_rows_devices(struct store_tx *tx, const struct reconcile_device **ret, size_t *n, const char *name, struct arena *arena, struct error *err)
{
	struct rows rows = { .arena = arena, .size = sizeof(struct owned_device), .read = read_device, .of = name };
	int r = read_rows(&rows, tx, SELECT_DEVICES "WHERE instance = ? ORDER BY bdf", err);
	struct reconcile_device *all = arena_array(arena, rows.n, sizeof(*all));

	for (size_t i = 0; all && i < rows.n; i++)
		all[i] = ((const struct owned_device *)rows.all)[i].d;
	*ret = all;
	*n = rows.n;
	return r == 0 && !all ? no_memory(err) : r;
}

int adopt_rows_domain(struct store_tx *tx, const char **ret, const char *name, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT coalesce(domain, name) FROM instance WHERE name = ?", ARGS(ARG_TEXT(name)), err);

	if (r == 0)
		r = store_next(q, err);
	if (r <= 0)
		return r;
	*ret = arena_strdup(arena, store_text(q, 0));
	return *ret ? 0 : no_memory(err);
}

int adopt_rows_check(struct store_tx *tx, const char *name, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT device, text FROM finding WHERE instance = ? AND rule = 'device.foreign' ORDER BY device",
			    ARGS(ARG_TEXT(name)), err);

	if (r == 0)
		r = store_next(q, err);
	return r > 0 ? error_set(err, -EBUSY, "%s: %s", store_text(q, 0), store_text(q, 1)) : r;
}

int adopt_rows_check_function(struct store_tx *tx, struct bdf fn, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	char name[BDF_TEXT_MAX];
	int r = store_query(tx, &q, "SELECT domain FROM foreign_device WHERE bdf = ?", ARGS(ARG_TEXT(bdf_text(name, fn))), err);

	if (r == 0)
		r = store_next(q, err);
	return r > 0 ? error_set(err, -EBUSY, "domain %s, which velad does not know, has %s; take it out of there first", store_text(q, 0), name) : r;
}

/* ---- devices that moved -------------------------------------------------------------------------------------- */

/* The names of two that change places must not meet. */
static int leave(struct store_tx *tx, const struct reconcile_decision *d, struct error *err)
{
	char was[BDF_TEXT_MAX];
	int r;

	(void)bdf_text(was, d->bdf);
	r = store_exec(tx, "UPDATE device SET bdf = '~' || bdf WHERE bdf = ?", ARGS(ARG_TEXT(was)), err);
	if (r == 0)
		r = store_exec(tx, "UPDATE step SET target = '~' || target WHERE instance = ? AND target = ?", ARGS(ARG_TEXT(d->instance), ARG_TEXT(was)), err);
	return r < 0 ? r : store_exec(tx, "UPDATE original SET target = '~' || target WHERE target = ?", ARGS(ARG_TEXT(was)), err);
}

static int arrive(struct store_tx *tx, const struct reconcile_decision *d, struct error *err)
{
	char was[BDF_TEXT_MAX], now[BDF_TEXT_MAX], pf[BDF_TEXT_MAX];
	int r;

	(void)bdf_text(was, d->bdf);
	(void)bdf_text(now, d->to);
	(void)bdf_text(pf, d->pf);
	r = store_exec(tx, "DELETE FROM original WHERE target = ?", ARGS(ARG_TEXT(now)), err); /* nobody holds it */
	if (r == 0)
		r = store_exec(tx, "UPDATE original SET target = ? WHERE target = '~' || ?", ARGS(ARG_TEXT(now), ARG_TEXT(was)), err);
	if (r == 0)
		r = store_exec(tx, "UPDATE step SET target = ? WHERE instance = ? AND target = '~' || ?",
			       ARGS(ARG_TEXT(now), ARG_TEXT(d->instance), ARG_TEXT(was)), err);
	if (r == 0)
		r = store_exec(tx, "UPDATE OR REPLACE quarantine SET bdf = ?, pf = ?, away = 0 WHERE bdf = ?3 AND"
				   " serial = (SELECT serial FROM device WHERE bdf = '~' || ?3)",
			       ARGS(ARG_TEXT(now), ARG_TEXT(bdf_eq(d->pf, BDF_NONE) ? NULL : pf), ARG_TEXT(was)), err);
	return r < 0 ? r : store_exec(tx, "UPDATE device SET bdf = ?, pf = ? WHERE bdf = '~' || ?",
				      ARGS(ARG_TEXT(now), ARG_TEXT(bdf_eq(d->pf, BDF_NONE) ? NULL : pf), ARG_TEXT(was)), err);
}

#define PORTS "kind IN ('vf-count', 'autoprobe', 'power', 'devctl', 'devctl2', 'acs') AND target NOT IN (SELECT bdf FROM device)"

/* Ports and PFs have other names, too, and are as the firmware made them; unless it is the same boot. */
static int void_ports(struct inst_manager *m, struct store_tx *tx, const char *instance, struct error *err)
{
	const struct store_arg *args = ARGS(ARG_TEXT(instance), ARG_TEXT(m->adopt.boot));
	int r = store_exec(tx, "UPDATE step SET state = 'pending' WHERE instance = (SELECT name FROM instance WHERE name = ? AND coalesce(boot, '') <> ?)"
			       " AND " PORTS, args, err);

	return r < 0 ? r : store_exec(tx, "DELETE FROM original WHERE " PORTS " AND NOT EXISTS(SELECT 1 FROM step JOIN instance ON"
					  " instance.name = step.instance WHERE step.kind = original.kind AND step.target = original.target AND "
					  ROWS_STEP_HOLDS ") AND EXISTS(SELECT 1 FROM step WHERE step.kind = original.kind AND"
					  " step.target = original.target AND step.instance = ?)", ARGS(ARG_TEXT(instance)), err);
}

static int note(struct store_tx *tx, const char *instance, const char *rule, const char *device, const char *why, struct error *err)
{
	const struct rows_finding f = { .rule = rule, .device = device, .text = why, .first = time(NULL), .last = time(NULL) };

	log_warning("instance %s: %s: %s", instance, device, why);
	return rows_finding_add(tx, instance, &f, err);
}

/* Of its instance. */
static bool is_first_move(const struct reconcile_decision *d, size_t i)
{
	if (d[i].kind != RECONCILE_MOVE)
		return false;
	for (size_t k = 0; k < i; k++)
		if (d[k].kind == RECONCILE_MOVE && strcmp(d[k].instance, d[i].instance) == 0)
			return false;
	return true;
}

static int move_all(struct inst_manager *m, struct store_tx *tx, const struct reconcile_decision *d, size_t n, struct error *err)
{
	char was[BDF_TEXT_MAX], now[BDF_TEXT_MAX];
	struct error why = ERROR_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		if (d[i].kind == RECONCILE_MOVE)
			r = leave(tx, &d[i], err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (d[i].kind != RECONCILE_MOVE)
			continue;
		r = arrive(tx, &d[i], err);
		if (r == 0)
			r = void_ports(m, tx, d[i].instance, err);
		(void)error_set(&why, -ESTALE, "it was at %s before; the instance keeps it, and its next start makes the plan anew", bdf_text(was, d[i].bdf));
		if (r == 0)
			r = rows_finding_drop(tx, d[i].instance, ADOPT_MOVED, was, err);
		if (r == 0)
			r = note(tx, d[i].instance, ADOPT_MOVED, bdf_text(now, d[i].to), why.text, err);
		why = ERROR_INIT;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		if (is_first_move(d, i))
			r = moved_show(tx, d[i].instance, d, n, err);
	return r;
}

/* ---- the rest ------------------------------------------------------------------------------------------------- */

static int drop_steps(struct store_tx *tx, const struct reconcile_decision *d, struct error *err)
{
	char name[BDF_TEXT_MAX];
	int r = store_exec(tx, "UPDATE step SET state = 'reverted' WHERE instance = ? AND target = ?",
			   ARGS(ARG_TEXT(d->instance), ARG_TEXT(bdf_text(name, d->bdf))), err);

	return r < 0 ? r : store_exec(tx, "DELETE FROM original WHERE target = ?", ARGS(ARG_TEXT(name)), err);
}

static int enter(struct inst_manager *m, struct store_tx *tx, const struct reconcile_decision *d, struct arena *arena, struct error *err)
{
	struct rows_instance *in = NULL;
	int r = rows_instance_find(tx, &in, d->instance, arena, err);
	enum inst_state was;

	if (r < 0 || !in)
		return r;
	was = in->state;
	if (d->kind == RECONCILE_STATE)
		r = inst_enter(tx, in, d->state, d->text, err);
	else
		r = life_ended(m, tx, in, d->kind == RECONCILE_CRASHED, d->text, err);
	if (r == 0)
		log_info("instance %s: %s -> %s%s%s", in->name, inst_state_text(was), inst_state_text(d->state), d->text ? ": " : "", d->text ? d->text : "");
	return r;
}

static int quarantine(struct store_tx *tx, const struct reconcile_decision *d, struct error *err)
{
	const struct quarantine q = { .bdf = d->bdf, .pf = BDF_NONE, .reason = d->text, .since = time(NULL) };
	char name[BDF_TEXT_MAX];

	log_warning("%s is in quarantine: %s", bdf_text(name, d->bdf), d->text);
	return quarantine_put(tx, &q, err);
}

static int take(struct store_tx *tx, const struct reconcile_decision *d, struct error *err)
{
	char name[BDF_TEXT_MAX];

	log_info("%s: %s%s", bdf_text(name, d->bdf), d->text, d->kind == RECONCILE_FOREIGN ? "; it is not given" : "; it is free");
	if (d->kind == RECONCILE_FREE)
		return store_exec(tx, "DELETE FROM foreign_device WHERE bdf = ?", ARGS(ARG_TEXT(name)), err);
	return store_exec(tx, "INSERT OR REPLACE INTO foreign_device(bdf, domain, uuid, runs) VALUES(?, ?, ?, ?)",
			  ARGS(ARG_TEXT(name), ARG_TEXT(d->domain), ARG_TEXT(d->uuid), ARG_INT(d->runs)), err);
}

static int do_one(struct inst_manager *m, struct store_tx *tx, const struct reconcile_decision *d, struct arena *arena, struct error *err)
{
	switch (d->kind) {
	case RECONCILE_STATE:
	case RECONCILE_ENDED:
	case RECONCILE_CRASHED:
		return enter(m, tx, d, arena, err);
	case RECONCILE_BOOT:
		return rows_instance_boot(tx, d->instance, m->adopt.boot, err);
	case RECONCILE_DOMAIN:
		return rows_instance_domain(tx, d->instance, d->domain, err);
	case RECONCILE_NOTE:
		if (strcmp(d->rule, TO_START) == 0) {
			m->adopt.to_start = true;
			store_ends(tx); /* who starts it waits for ends of operations */
		}
		return note(tx, d->instance, d->rule, d->device, d->text, err);
	case RECONCILE_FORGET:
		return rows_finding_drop(tx, d->instance, d->rule, d->device, err);
	case RECONCILE_VOID:
		return drop_steps(tx, d, err);
	case RECONCILE_QUARANTINE:
		return quarantine(tx, d, err);
	case RECONCILE_FOREIGN:
	case RECONCILE_FREE:
		return take(tx, d, err);
	default: /* moves are done all at once */
		return 0;
	}
}

int adopt_rows_apply(struct inst_manager *m, struct store_tx *tx, const struct reconcile_decision *d, size_t n, struct error *err)
{
	struct arena arena = { 0 };
	bool any = false, states = false;
	int r = move_all(m, tx, d, n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		any = any || (d[i].kind != RECONCILE_KEEP && d[i].kind != RECONCILE_RESUME);
		states = states || (d[i].kind >= RECONCILE_STATE && d[i].kind <= RECONCILE_CRASHED);
		r = do_one(m, tx, &d[i], &arena, err);
	}
	arena_done(&arena);
	if (r == 0 && any)
		r = store_commit(tx, err);
	if (r < 0 || !states)
		return r;
	pool_wake(m, POOL_QUEUE); /* something may be started again */
	keep_wake(m, KEEP_ALL);
	return 0;
}
