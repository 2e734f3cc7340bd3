/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two walks over the steps of an instance, in waves: all that wait for nothing that is still to be done go side by side.
 * A wave is one commit, not one for each step: before any of its effects the store has all its steps as "begun", with the
 * originals of their targets. That they are done is committed with the next wave, or the end of the operation; a step that is found "begun"
 * after a crash is looked at as one that was done. */
#include "instance/steps.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "instance/gate.h"
#include "instance/guard.h"
#include "instance/image.h"
#include "instance/order.h"
#include "instance/steps_own.h"
#include "instance/store.h"
#include "instance/targets.h"
#include "instance/walk_own.h"

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for steps");
}

static int walk_new(struct walk *w, const struct steps *s, struct error *err)
{
	*w = (struct walk){ .s = s };
	w->done = arena_array(&w->arena, s->n + 1, sizeof(*w->done));
	w->tried = arena_array(&w->arena, s->n + 1, sizeof(*w->tried));
	w->noted = arena_array(&w->arena, s->n + 1, sizeof(*w->noted));
	w->finding = arena_array(&w->arena, s->n + 1, sizeof(*w->finding));
	w->at = arena_array(&w->arena, s->n + 1, sizeof(*w->at));
	w->wave = arena_array(&w->arena, s->n + 1, sizeof(*w->wave));
	w->hold.name = arena_array(&w->arena, s->n + 1, sizeof(*w->hold.name));
	w->mine = arena_array(&w->arena, s->n + 1, sizeof(*w->mine));
	for (size_t i = 0; w->mine && i < s->n; i++)
		if (s->step[i].kind == PLAN_STEP_BIND)
			w->mine[w->nmine++] = s->step[i].bdf;
	return w->done && w->tried && w->noted && w->finding && w->at && w->wave && w->hold.name && w->mine ? 0 : no_memory(err);
}

static void new_wave(struct walk *w)
{
	w->n = w->hold.n = 0;
	w->kept = false;
}

static void add_member(struct walk *w, struct rows_step *step, bool backwards)
{
	w->wave[w->n++] = (struct member){ .step = step, .back = backwards };
	w->wave[w->n - 1].gate = (struct gate){ .mine = w->mine, .nmine = w->nmine };
	if (w->s->release)
		w->wave[w->n - 1].gate.release = *w->s->release;
	w->hold.name[w->hold.n++] = step->target;
	w->kept = w->kept || step->kind == PLAN_STEP_ACS;
}

/* False: it is empty. Its targets are this operation's until end_wave(). */
static bool lock_wave(struct walk *w)
{
	const struct steps *s = w->s;

	if (w->n == 0)
		return false;
	if (s->targets)
		targets_lock(s->targets, &w->hold);
	w->kept = w->kept && s->kept; /* who looks at what is kept must not set again what is given back just now */
	if (w->kept)
		(void)pthread_mutex_lock(s->kept);
	return true;
}

/* The steps that may be done now; false: there is none. */
static bool begin_wave(struct walk *w, bool backwards)
{
	size_t n = order_next(w->at, w->s->step, w->s->n, w->done, backwards);

	new_wave(w);
	for (size_t i = 0; i < n; i++) {
		if (w->tried[w->at[i]])
			continue;
		w->tried[w->at[i]] = true;
		add_member(w, &w->s->step[w->at[i]], backwards);
	}
	return lock_wave(w);
}

static void end_wave(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++)
		w->wave[i].task = task_free(w->wave[i].task);
	if (w->kept)
		(void)pthread_mutex_unlock(w->s->kept);
	if (w->s->targets)
		targets_unlock(w->s->targets, &w->hold);
}

static void set_state(const struct steps *s, struct rows_step *step, enum step_state state)
{
	steps_lock_shown(s);
	step->state = state;
	steps_unlock_shown(s);
}

/* ---- there ---------------------------------------------------------------------------------------------- */

static int note_done(struct walk *w, struct store_tx *tx, struct error *err)
{
	const struct steps *s = w->s;
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n; i++) {
		if (!w->done[i] || w->noted[i])
			continue;
		r = rows_step_set(tx, s->instance, s->step[i].seq, STEP_DONE, NULL, err);
		if (r == 0 && s->step[i].kind == PLAN_STEP_IMAGE)
			r = image_keep(tx, s->instance, &w->image, err);
		if (r == 0 && w->finding[i].rule)
			r = rows_finding_add(tx, s->instance, &w->finding[i], err);
	}
	return r;
}

/* A step that is so already has no effect to come: it is done. */
static int commit_begun(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	const struct steps *s = w->s;
	int r = store_begin(&tx, s->store, err);

	if (r == 0)
		r = note_done(w, tx, err);
	for (size_t i = 0; r == 0 && i < w->n; i++) {
		const struct member *m = &w->wave[i];

		r = rows_original_keep(tx, m->step, m->seen.value, err);
		if (r == 0)
			r = rows_step_set(tx, s->instance, m->step->seq, m->seen.so ? STEP_DONE : STEP_BEGUN, m->seen.value, err);
	}
	if (r == 0)
		r = store_commit(tx, err);
	for (size_t i = 0; r == 0 && i < s->n; i++)
		w->noted[i] = w->done[i];
	for (size_t i = 0; r == 0 && i < w->n; i++) {
		struct member *m = &w->wave[i];

		set_state(s, m->step, m->seen.so ? STEP_DONE : STEP_BEGUN);
		if (m->seen.so)
			w->done[m->step - s->step] = w->noted[m->step - s->step] = true;
	}
	return r;
}

static int find_gates(struct walk *w, struct store_tx *tx, bool lend_only, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n; i++)
		if (lend_only ? w->wave[i].step->kind == PLAN_STEP_LEND : plan_step_of_function(w->wave[i].step->kind))
			r = gate_find(&w->wave[i].gate, tx, w->wave[i].step, &w->arena, err);
	return r;
}

static int look_at_gates(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	bool any = false;
	int r;

	for (size_t i = 0; i < w->n; i++)
		any = any || w->wave[i].step->kind == PLAN_STEP_LEND;
	if (!any)
		return 0;
	r = store_begin(&tx, w->s->store, err);
	return r < 0 ? r : find_gates(w, tx, true, err);
}

/* Functions that are not fit to be lent, and those of which nobody knows how they are. */
static int commit_sick(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, w->s->store, err);

	if (r == 0)
		r = find_gates(w, tx, false, err);
	for (size_t i = 0; r == 0 && i < w->n; i++)
		if (w->wave[i].r == GATE_QUARANTINED || w->wave[i].unknown)
			r = gate_keep(tx, &w->wave[i].gate, w->wave[i].step, NULL, &w->wave[i].err, err);
	return r == 0 ? store_commit(tx, err) : r;
}

static int probe_wave(struct walk *w, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int r = look_at_gates(w, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < w->n; i++)
		effect_start(w, &w->wave[i], PROBE);
	r = effect_finish_all(w, err);
	if (r < 0)
		(void)commit_sick(w, &ignored); /* r is what counts */
	return r == GATE_QUARANTINED ? err->code = -EIO : r;
}

static int apply_wave(struct walk *w, struct error *err)
{
	const struct steps *s = w->s;
	struct error ignored = ERROR_INIT;
	int r = probe_wave(w, err);

	if (r == 0)
		r = commit_begun(w, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < w->n; i++)
		if (!w->wave[i].seen.so)
			effect_start(w, &w->wave[i], APPLY);
	r = effect_finish_all(w, err);
	for (size_t i = 0; i < w->n; i++)
		if (w->wave[i].r == 0) {
			set_state(s, w->wave[i].step, STEP_DONE);
			w->done[w->wave[i].step - s->step] = true;
		}
	if (r < 0)
		(void)commit_sick(w, &ignored); /* r is what counts */
	return r;
}

/* ---- what was done before ------------------------------------------------------------------------------- */

/* By an earlier operation: of a guest that stood still mostly all but the guest itself. False: there is none. */
static bool begin_ahead(struct walk *w)
{
	new_wave(w);
	for (size_t i = 0; i < w->s->n; i++)
		if (w->s->step[i].state == STEP_DONE && w->s->step[i].kind != PLAN_STEP_DOMAIN)
			add_member(w, &w->s->step[i], false);
	return lock_wave(w);
}

/* unkept: of each step, whether its target has no original value. */
static int ask_store(struct walk *w, bool *unkept, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, w->s->store, err);

	if (r == 0)
		r = find_gates(w, tx, true, err);
	return r < 0 ? r : rows_steps_unkept(tx, unkept, w->s->instance, w->s->step, w->s->n, err);
}

/* Done is what is so, and all that it needs: nothing changed between this look and the one that its turn would bring. What needs something
 * that is not done gets that, and may fail now for just this reason; but what hangs, hangs. */
static size_t settle(struct walk *w, const bool *unkept)
{
	const struct rows_step *step = w->s->step;
	size_t news = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct member *m = &w->wave[i];
		size_t at = (size_t)(m->step - step);
		bool ready = true;

		for (size_t k = 0; ready && k < at; k++)
			ready = w->done[k] || !order_needs(&step[at], &step[k]);
		if (!ready && m->r != -ETIMEDOUT)
			m->r = 0;
		w->done[at] = w->tried[at] = w->noted[at] = ready && m->seen.so;
		news += w->done[at] && unkept[at];
		effect_unknown(w, m);
	}
	return news;
}

/* The store has them as done, and an original for each but those. */
static int commit_unkept(const struct walk *w, const bool *unkept, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, w->s->store, err);

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		size_t at = (size_t)(w->wave[i].step - w->s->step);

		if (w->done[at] && unkept[at])
			r = rows_original_keep(tx, w->wave[i].step, w->wave[i].seen.value, err);
	}
	return r == 0 ? store_commit(tx, err) : r;
}

static int look_ahead(struct walk *w, struct error *err)
{
	bool *unkept = arena_array(&w->arena, w->s->n, sizeof(*unkept));
	struct error ignored = ERROR_INIT;
	size_t news;
	int r = unkept ? ask_store(w, unkept, err) : no_memory(err);

	if (r < 0)
		return r;
	ahead_look(w);
	news = settle(w, unkept);
	r = effect_first(w, err);
	if (r < 0)
		(void)commit_sick(w, &ignored); /* r is what counts */
	else if (news)
		r = commit_unkept(w, unkept, err);
	return r == GATE_QUARANTINED ? err->code = -EIO : r;
}

static int commit_done(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, w->s->store, err);

	if (r == 0)
		r = note_done(w, tx, err);
	return r == 0 ? store_commit(tx, err) : r;
}

struct steps_rest {
	struct walk walk;
};

/* The walk becomes the rest's. */
static int leave_rest(struct walk *w, struct error *err)
{
	struct steps_rest *rest = malloc(sizeof(*rest));

	if (!rest)
		return no_memory(err);
	rest->walk = *w;
	w->arena = (struct arena){ 0 };
	*w->s->rest = rest;
	return 0;
}

int steps_tell(struct store_tx *tx, struct steps_rest *rest, struct error *err)
{
	return note_done(&rest->walk, tx, err);
}

struct steps_rest *steps_rest_free(struct steps_rest *rest)
{
	if (rest)
		arena_done(&rest->walk.arena);
	free(rest);
	return NULL;
}

static int check_cancel(const struct steps *s, struct error *err)
{
	return s->cancel && *s->cancel ? error_set(err, -ECANCELED, "it was cancelled") : 0;
}

int steps_apply(const struct steps *s, struct error *err)
{
	struct walk w;
	int r = walk_new(&w, s, err);

	if (r == 0 && begin_ahead(&w)) {
		r = look_ahead(&w, err);
		end_wave(&w);
	}
	while (r == 0 && (r = check_cancel(s, err)) == 0 && begin_wave(&w, false)) {
		r = apply_wave(&w, err);
		end_wave(&w);
	}
	if (r == 0)
		r = s->rest ? leave_rest(&w, err) : commit_done(&w, err);
	arena_done(&w.arena);
	return r;
}

/* ---- and back ------------------------------------------------------------------------------------------- */

/* What others who hold the targets make of them, and their original values. */
static int find_originals(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, w->s->store, err);

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		struct member *m = &w->wave[i];

		r = plan_step_of_function(m->step->kind) ? gate_find(&m->gate, tx, m->step, &w->arena, err) : 0;
		if (r == 0)
			r = rows_step_others(tx, &m->others, &m->nothers, w->s->instance, m->step, &w->arena, err);
		if (r == 0)
			r = rows_original_find(tx, &m->original, m->step, &w->arena, err);
	}
	return r;
}

static bool is_shared(const struct member *m)
{
	return m->nothers > 0;
}

/* A step that was never begun is looked at as well: while it waited, the last other holder of its target may have gone and
 * left the original to it. */
static void start_back(struct walk *w, struct member *m)
{
	const struct step_kind *kind = step_kinds[m->step->kind];
	bool parks = m->step->kind == PLAN_STEP_BIND && m->gate.owed && m->step->state != STEP_PENDING; /* again: it may have hung */

	if ((m->original || parks) && m->gate.closed && !is_shared(m) && gate_concerns(m->step->kind)) {
		m->r = GATE_QUARANTINED;
		if (m->step->kind == PLAN_STEP_BIND)
			effect_start(w, m, PARK);
		return;
	}
	if (m->original && !is_shared(m) && kind->revert)
		effect_start(w, m, REVERT);
	else if (m->original && is_shared(m) && kind->release && m->step->state != STEP_PENDING)
		effect_start(w, m, RELEASE);
}

/* As it is to be after this wave. */
static enum step_state next_state(const struct member *m)
{
	if (m->step->state == STEP_PENDING && (!m->original || (is_shared(m) && m->r == 0)))
		return STEP_PENDING;
	return m->r < 0 ? STEP_FAILED : STEP_REVERTED;
}

static int commit_back(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	const struct steps *s = w->s;
	int r = store_begin(&tx, s->store, err);

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		const struct member *m = &w->wave[i];
		enum step_state next = next_state(m);

		if (next != STEP_PENDING)
			r = rows_step_set(tx, s->instance, m->step->seq, next, NULL, err);
		if (r == 0 && (m->r == GATE_QUARANTINED || m->unknown))
			r = gate_keep(tx, &m->gate, m->step, m->unknown ? NULL : m->original, &m->err, err);
		if (r == 0 && (next == STEP_REVERTED || (m->r == GATE_QUARANTINED && gate_concerns(m->step->kind))) && m->original && !is_shared(m))
			r = rows_original_drop(tx, m->step, err);
	}
	if (r == 0)
		r = store_commit(tx, err);
	for (size_t i = 0; r == 0 && i < w->n; i++)
		set_state(s, w->wave[i].step, next_state(&w->wave[i]));
	return r;
}

/* Unbinding a function that a guest has open waits for that guest (drivers/vfio/vfio_main.c, vfio_unregister_group_dev),
 * perhaps for ever. A function that hangs is in quarantine, and holds up nobody: no call on it is made before that one returns. Without
 * velad-helper nothing else of it can be given back, and must not be, should it come back just then: what is reset must be so first. */
static bool holds_back(const struct member *m)
{
	return (m->r == -ETIMEDOUT && !m->unknown) || m->r == -ENOTCONN || (m->r < 0 && m->step->kind == PLAN_STEP_DOMAIN);
}

static int revert_wave(struct walk *w, int *first, struct error *err)
{
	struct error e = ERROR_INIT;
	int r = find_originals(w, &e), failed = 0;

	if (r == 0) {
		for (size_t i = 0; i < w->n; i++)
			start_back(w, &w->wave[i]);
		failed = effect_finish_all(w, &e);
		if (failed < 0 && *first == 0)
			*err = e;
		else if (failed < 0 && !w->s->again)
			log_err("instance %s: cannot revert %s", w->s->instance, e.text); /* the first is the caller's */
		*first = *first == 0 ? failed : *first;
		for (size_t i = 0; i < w->n; i++)
			w->done[w->wave[i].step - w->s->step] = !holds_back(&w->wave[i]);
		r = commit_back(w, &e);
	}
	if (r < 0 && *first == 0) {
		*err = e;
		*first = r;
	}
	return r;
}

int steps_revert(const struct steps *s, struct error *err)
{
	struct walk w;
	int first = 0, r = walk_new(&w, s, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < s->n; i++)
		w.done[i] = s->step[i].state == STEP_REVERTED;
	while (r == 0 && begin_wave(&w, true)) {
		r = revert_wave(&w, &first, err);
		end_wave(&w);
	}
	arena_done(&w.arena);
	return first;
}
