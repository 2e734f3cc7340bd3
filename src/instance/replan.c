/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A new plan for an instance that is off and whose cards are in other places: its texts, and its steps. What an earlier step did and
 * the new plan has as well stays done. What it has no more is kept before the first of them, below 0, and given back by the start
 * that comes next: the port above a slot in which the card was. */
#include "instance/replan.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "instance/adopt.h"
#include "instance/manager.h"
#include "instance/reconcile_rules.h"
#include "instance/rows.h"
#include "instance/steps.h"
#include "instance/store.h"

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for another plan");
}

/* ---- what there is ---------------------------------------------------------------------------------------- */

static int read_devices(struct store_tx *tx, struct bdf **ret, size_t *n, const char *name, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct bdf *all = NULL;
	size_t i = 0;
	int r = store_query(tx, &q, "SELECT count(*) OVER (), bdf FROM device WHERE instance = ? ORDER BY bdf", ARGS(ARG_TEXT(name)), err);

	while (r == 0 && (r = store_next(q, err)) > 0) {
		if (!all)
			all = arena_array(arena, (size_t)store_int(q, 0), sizeof(*all));
		if (!all)
			return no_memory(err);
		if (!bdf_parse(&all[i++], store_text(q, 1)))
			return error_set(err, -EBADMSG, "the store has a device \"%s\", which is no BDF", store_text(q, 1));
		r = 0;
	}
	*ret = all;
	*n = i;
	return r;
}

static int has_moved(struct store_tx *tx, bool *ret, const char *name, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT 1 FROM finding WHERE instance = ? AND rule = ?", ARGS(ARG_TEXT(name), ARG_TEXT(ADOPT_MOVED)), err);

	if (r == 0)
		r = store_next(q, err);
	*ret = r > 0;
	return r < 0 ? r : 0;
}

int inst_moved(struct inst_manager *m, struct inst_moved *ret, const char *name, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct rows_instance *in = NULL;
	int r = store_begin(&tx, m->store, err);

	*ret = (struct inst_moved){ 0 };
	if (r == 0)
		r = rows_instance_find(tx, &in, name, arena, err);
	if (r == 0 && in)
		r = has_moved(tx, &ret->moved, name, err);
	if (r < 0 || !ret->moved)
		return r; /* that there is none says who starts it */
	ret->request = in->request;
	ret->uuid = in->uuid;
	return read_devices(tx, &ret->device, &ret->n, name, arena, err);
}

int inst_to_start(struct inst_manager *m, const char ***ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL;
	const char **name = NULL;
	size_t i = 0;
	int r = 0;

	*n = 0;
	if (!atomic_exchange(&m->adopt.to_start, false))
		return 0;
	r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = store_query(tx, &q, "SELECT count(*) OVER (), instance FROM finding WHERE rule = '" TO_START "' ORDER BY instance", NO_ARGS, err);
	while (r == 0 && (r = store_next(q, err)) > 0) {
		name = name ? name : arena_array(arena, (size_t)store_int(q, 0), sizeof(*name));
		if (!name || !(name[i++] = arena_strdup(arena, store_text(q, 1))))
			return no_memory(err);
		r = 0;
	}
	*ret = name;
	*n = i;
	return r;
}

void inst_start_later(struct inst_manager *m)
{
	m->adopt.to_start = true;
}

int replan_forget_start(struct store_tx *tx, const char *name, struct error *err)
{
	return store_exec(tx, "DELETE FROM finding WHERE instance = ? AND rule = '" TO_START "'", ARGS(ARG_TEXT(name)), err);
}

int inst_start_not(struct inst_manager *m, const char *name, const struct error *why, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = replan_forget_start(tx, name, err);
	if (r == 0)
		r = store_exec(tx, "UPDATE instance SET error = ? WHERE name = ? AND state = 'stopped'", ARGS(ARG_TEXT(why->text), ARG_TEXT(name)), err);
	return r < 0 ? r : store_commit(tx, err);
}

/* ---- the new one ------------------------------------------------------------------------------------------ */

static bool plan_has(const struct plan *p, struct bdf bdf)
{
	bool has = bdf_in(p->gpu, p->ngpus, bdf);

	for (size_t i = 0; i < p->nvfs; i++)
		has = has || bdf_eq(p->vf[i].bdf, bdf);
	for (size_t i = 0; i < p->ncompanions; i++)
		has = has || bdf_eq(p->companion[i].bdf, bdf);
	for (size_t i = 0; i < p->nextras; i++)
		has = has || bdf_eq(p->extra[i].bdf, bdf);
	return has;
}

/* It was made of what the instance had a moment ago. */
static int check_devices(struct store_tx *tx, const struct rows_instance *in, const struct plan *p, struct arena *arena, struct error *err)
{
	struct bdf *device = NULL;
	size_t n = 0;
	bool same;
	int r = read_devices(tx, &device, &n, in->name, arena, err);

	same = n == p->ngpus + p->nvfs + p->ncompanions + p->nextras;
	for (size_t i = 0; r == 0 && i < n; i++)
		same = same && plan_has(p, device[i]);
	return r == 0 && !same ? error_set(err, -ESTALE, "instance %s: what it has is in other places again, or less; start it again", in->name) : r;
}

static bool is_done(const struct rows_step *s)
{
	return s->state == STEP_BEGUN || s->state == STEP_DONE || s->state == STEP_FAILED;
}

/* The seed is made anew: NCCL's file is in it. */
static bool is_same(const struct rows_step *old, const struct plan_step *s)
{
	return old->kind == s->kind && s->kind != PLAN_STEP_SEED && strcmp(old->target, s->target) == 0;
}

static enum step_state state_of(const struct rows_step *old, size_t n, const struct plan_step *s)
{
	for (size_t i = 0; i < n; i++)
		if (is_same(&old[i], s) && is_done(&old[i]))
			return old[i].state;
	return STEP_PENDING;
}

static bool is_left(const struct rows_step *old, const struct plan *p)
{
	for (size_t i = 0; i < p->nsteps; i++)
		if (is_same(old, &p->step[i]))
			return false;
	return is_done(old);
}

static int replace_steps(struct store_tx *tx, const struct rows_instance *in, const struct plan *p, struct arena *arena, struct error *err)
{
	struct rows_step *old = NULL;
	size_t n = 0;
	int r = rows_steps(tx, &old, &n, in->name, arena, err);

	if (r == 0)
		r = store_exec(tx, "DELETE FROM step WHERE instance = ?", ARGS(ARG_TEXT(in->name)), err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		old[i].seq = (int64_t)i - (int64_t)n;
		if (is_left(&old[i], p))
			r = rows_step_add(tx, in->name, &old[i], err);
	}
	for (size_t i = 0; r == 0 && i < p->nsteps; i++) {
		const struct plan_step *s = &p->step[i];

		r = rows_step_add(tx, in->name, &(struct rows_step){ .seq = (int64_t)i, .kind = s->kind, .target = s->target, .from = s->from,
								     .to = s->to, .state = state_of(old, n, s) }, err);
	}
	for (size_t i = 0; r == 0 && i < n; i++) /* of what was never begun, or ended with the host */
		r = store_exec(tx, "DELETE FROM original WHERE kind = ?1 AND target = ?2 AND NOT EXISTS(SELECT 1 FROM step WHERE kind = ?1 AND"
				   " target = ?2)", ARGS(ARG_TEXT(plan_step_text(old[i].kind)), ARG_TEXT(old[i].target)), err);
	return r;
}

int replan_store(struct store_tx *tx, const struct rows_instance *in, const struct plan *plan, struct arena *arena, struct error *err)
{
	auto_(json_object_put) json_object *o = plan_json(plan);
	const char *text = o ? json_text(o) : NULL;
	int r = text ? check_devices(tx, in, plan, arena, err) : no_memory(err);

	if (r == 0)
		r = replace_steps(tx, in, plan, arena, err);
	if (r == 0)
		r = rows_instance_plan(tx, in->name, text, err);
	return r < 0 ? r : store_exec(tx, "DELETE FROM finding WHERE instance = ? AND rule = ?", ARGS(ARG_TEXT(in->name), ARG_TEXT(ADOPT_MOVED)), err);
}

int replan_give_back(struct steps *s, struct error *err)
{
	struct steps left = *s;
	int r;

	for (left.n = 0; left.n < s->n && s->step[left.n].seq < 0; left.n++)
		;
	r = left.n ? steps_revert(&left, err) : 0;
	steps_lock_shown(s);
	s->step += left.n;
	s->n -= left.n;
	steps_unlock_shown(s);
	return r < 0 ? error_prefix(err, "of where its cards were, not all is given back") : 0;
}
