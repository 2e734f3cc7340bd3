/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two walks over the steps of an instance, in waves: all that wait for nothing that is still to be done go side by side.
 * A wave is one commit, not one for each step: before any of its effects the store has all its steps as "begun", with the
 * originals of their targets. That they are done is committed with the next wave; a step that is found "begun" after
 * a crash is looked at as one that was done. */
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

enum what { PROBE, APPLY, REVERT, RELEASE, PARK };

/* One step of a wave. What its thread uses is a copy in the task's memory, which outlives this. */
struct effect {
	struct steps      s;
	struct rows_step  step;
	struct guard_self self;
	struct seen       seen;
	struct steps_note note;
	struct gate       gate;
	struct steps_files files;
	enum what         what;
	const char       *original, **others; /* NULL: there is none */
	size_t            nothers;
};

struct member {
	struct rows_step *step;
	struct task      *task; /* owned; NULL: nothing runs */
	struct effect    *effect;
	struct seen       seen; /* by its probe */
	struct gate       gate;
	const char       *original, **others;
	size_t            nothers;
	struct span       span; /* since it was started */
	bool              back; /* it is reverted */
	bool              unknown; /* it ran out of time: how its function is, nobody knows */
	int               r;
	struct error      err;
};

struct walk {
	const struct steps *s;
	struct arena        arena;
	bool               *done, *tried, *noted; /* of each step; noted: the store knows that it is done */
	struct act_image    image;    /* of the one step that may make one */
	struct rows_finding *finding; /* of each, for the store; rule NULL: none */
	size_t             *at;
	struct member      *wave;
	size_t              n; /* of the wave */
	struct bdf         *mine; /* functions of the instance */
	size_t              nmine;
	struct targets_hold hold;
	bool                kept;
};

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

/* The steps that may be done now; false: there is none. Their targets are this operation's until end_wave(). */
static bool begin_wave(struct walk *w, bool backwards)
{
	const struct steps *s = w->s;
	size_t n = order_next(w->at, s->step, s->n, w->done, backwards);

	w->n = w->hold.n = 0;
	w->kept = false;
	for (size_t i = 0; i < n; i++) {
		struct rows_step *step = &s->step[w->at[i]];

		if (w->tried[w->at[i]])
			continue;
		w->tried[w->at[i]] = true;
		w->wave[w->n++] = (struct member){ .step = step, .back = backwards };
		w->wave[w->n - 1].gate = (struct gate){ .mine = w->mine, .nmine = w->nmine };
		if (s->release)
			w->wave[w->n - 1].gate.release = *s->release;
		w->hold.name[w->hold.n++] = step->target;
		w->kept = w->kept || step->kind == PLAN_STEP_ACS;
	}
	if (w->n == 0)
		return false;
	if (s->targets)
		targets_lock(s->targets, &w->hold);
	w->kept = w->kept && s->kept; /* who looks at what is kept must not set again what is given back just now */
	if (w->kept)
		(void)pthread_mutex_lock(s->kept);
	return true;
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

/* ---- effects -------------------------------------------------------------------------------------------- */

static int run_effect(struct task *t, void *arg, struct error *err)
{
	struct effect *e = arg;
	const struct step_kind *kind = step_kinds[e->step.kind];

	e->self.task = t;
	e->s.note = &e->note;
	e->s.files = &e->files;
	switch (e->what) {
	case PROBE:
		return kind->probe(&e->s, &e->seen, &e->step, err);
	case APPLY:
		return kind->apply(&e->s, &e->step, err);
	case PARK:
		return gate_park(&e->s, &e->step, err);
	case REVERT:
		return kind->revert(&e->s, &e->step, e->original, err);
	default:
		return kind->release(&e->s, &e->step, e->original, e->others, e->nothers, err);
	}
}

static const char *own(struct arena *a, const char *text, bool *failed)
{
	char *copy = text ? arena_strdup(a, text) : NULL;

	*failed = *failed || (text && !copy);
	return copy;
}

static void own_gate(struct gate *ret, const struct gate *g, struct arena *a, bool *failed)
{
	struct bdf *mine = arena_array(a, g->nmine + 1, sizeof(*mine));

	*ret = *g;
	ret->mine = mine;
	for (size_t i = 0; mine && i < g->nmine; i++)
		mine[i] = g->mine[i];
	ret->was = own(a, g->was, failed);
	ret->release.scrub = own(a, g->release.scrub, failed);
	*failed = *failed || !mine;
}

static struct effect *make_effect(const struct steps *s, const struct member *m, enum what what, struct arena *a)
{
	struct effect *e = arena_alloc(a, sizeof(*e));
	bool failed = !e;

	if (failed)
		return NULL;
	*e = (struct effect){ .what = what, .nothers = m->nothers, .step = *m->step, .self.guard = s->guard };
	e->s = (struct steps){ .act = s->act, .instance = own(a, s->instance, &failed), .vf_may_refuse = s->vf_may_refuse };
	if (s->guard)
		e->s.act = guard_act(&e->self);
	if (what == APPLY && m->step->kind == PLAN_STEP_DOMAIN)
		e->s.xml = own(a, s->xml, &failed);
	own_gate(&e->gate, &m->gate, a, &failed);
	e->s.gate = &e->gate;
	e->step.target = own(a, m->step->kind == PLAN_STEP_DOMAIN && s->domain ? s->domain : m->step->target, &failed);
	e->step.from = own(a, m->step->from, &failed);
	e->step.to = own(a, m->step->to, &failed);
	e->original = own(a, m->original, &failed);
	e->others = arena_array(a, m->nothers, sizeof(*e->others));
	for (size_t i = 0; e->others && i < m->nothers; i++)
		e->others[i] = own(a, m->others[i], &failed);
	return failed || !e->others ? NULL : e;
}

static void start(struct walk *w, struct member *m, enum what what)
{
	struct arena *a = &w->arena;

	m->err = ERROR_INIT;
	m->span = span_begin();
	if (w->s->guard) {
		m->task = task_new(w->s->guard->crew);
		a = m->task ? &m->task->arena : NULL;
		if (m->task && m->step->kind == PLAN_STEP_IMAGE)
			m->task->kind = TASK_IMAGES;
	}
	m->effect = a ? make_effect(w->s, m, what, a) : NULL;
	m->r = m->effect ? 0 : no_memory(&m->err);
	if (m->r == 0 && what <= APPLY && step_kinds[m->step->kind]->load)
		m->r = step_kinds[m->step->kind]->load(w->s, &m->effect->files, m->step, a, &m->err);
	if (m->r == 0 && m->task)
		task_start(m->task, run_effect, m->effect);
	else
		m->task = task_free(m->task);
	if (m->r < 0)
		m->effect = NULL;
}

/* What a step took is what its effects took: it does not count that it waited for others. */
static void add_span(const struct steps *s, struct rows_step *step, const struct span *span)
{
	struct span *to = s->undo ? &step->undo : &step->span;

	steps_lock_shown(s);
	if (!to->began)
		*to = *span;
	else
		to->took += span->took;
	to->limit = to->limit > span->limit ? to->limit : span->limit;
	steps_unlock_shown(s);
}

/* It is said to the instance with the commit that says the step is done. */
static void take_note(struct walk *w, const struct member *m)
{
	const struct steps_note *note = &m->effect->note;
	struct rows_finding *f = &w->finding[m->step - w->s->step];

	if (!note->rule)
		return;
	log_warning("instance %s: %s", w->s->instance, note->text.text);
	*f = (struct rows_finding){ .rule = note->rule, .device = m->step->target, .text = arena_strdup(&w->arena, note->text.text) };
	f->first = f->last = time(NULL);
	if (!f->text)
		f->rule = NULL; /* it is in the journal */
}

static void finish(struct walk *w, struct member *m)
{
	m->step->sick = m->r == GATE_QUARANTINED; /* without an effect */
	if (!m->effect)
		return;
	if (m->task) {
		m->r = task_wait(&m->task, &m->span, &m->err);
	} else {
		m->r = run_effect(NULL, m->effect, &m->err);
		span_end(&m->span);
	}
	add_span(w->s, m->step, &m->span);
	if (m->back && gate_keeps(&m->gate, m->step, m->r))
		m->r = GATE_QUARANTINED;
	m->unknown = m->r == -ETIMEDOUT && plan_step_of_function(m->step->kind) &&
					!(w->s->guard && crew_late(w->s->guard->crew)); /* when velad ends, nobody has waited long enough */
	m->step->sick = m->unknown || m->r == GATE_QUARANTINED;
	if (m->r == 0) {
		m->seen = m->effect->seen;
		take_note(w, m);
		if (m->step->kind == PLAN_STEP_IMAGE && m->effect->what == APPLY)
			w->image = m->effect->files.image;
	}
	m->effect = NULL;
	m->task = task_free(m->task);
}

/* Of all that were started. Returns the first failure in the plan's order; the others are logged. */
static int finish_all(struct walk *w, struct error *err)
{
	int first = 0;

	for (size_t i = 0; i < w->n; i++)
		finish(w, &w->wave[i]);
	for (size_t i = 0; i < w->n; i++) {
		struct member *m = &w->wave[i];

		if (m->r == 0 || (m->r == GATE_QUARANTINED && m->back))
			continue;
		(void)error_prefix(&m->err, "step %s %s", plan_step_text(m->step->kind), m->step->target);
		if (first < 0 && !w->s->again)
			log_err("instance %s: %s", w->s->instance, m->err.text); /* the first is the caller's */
		else if (first == 0)
			*err = m->err;
		first = first < 0 ? first : m->r;
	}
	return first;
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

static int find_gates(struct walk *w, struct store_tx *tx, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n; i++)
		if (plan_step_of_function(w->wave[i].step->kind))
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
	return r < 0 ? r : find_gates(w, tx, err);
}

/* Functions that are not fit to be lent, and those of which nobody knows how they are. */
static int commit_sick(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, w->s->store, err);

	if (r == 0)
		r = find_gates(w, tx, err);
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
		start(w, &w->wave[i], PROBE);
	r = finish_all(w, err);
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
			start(w, &w->wave[i], APPLY);
	r = finish_all(w, err);
	for (size_t i = 0; i < w->n; i++)
		if (w->wave[i].r == 0) {
			set_state(s, w->wave[i].step, STEP_DONE);
			w->done[w->wave[i].step - s->step] = true;
		}
	if (r < 0)
		(void)commit_sick(w, &ignored); /* r is what counts */
	return r;
}

static int commit_done(struct walk *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, w->s->store, err);

	if (r == 0)
		r = note_done(w, tx, err);
	return r == 0 ? store_commit(tx, err) : r;
}

static int check_cancel(const struct steps *s, struct error *err)
{
	return s->cancel && *s->cancel ? error_set(err, -ECANCELED, "it was cancelled") : 0;
}

int steps_apply(const struct steps *s, struct error *err)
{
	struct walk w;
	int r = walk_new(&w, s, err);

	while (r == 0 && (r = check_cancel(s, err)) == 0 && begin_wave(&w, false)) {
		r = apply_wave(&w, err);
		end_wave(&w);
	}
	if (r == 0)
		r = commit_done(&w, err);
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
			start(w, m, PARK);
		return;
	}
	if (m->original && !is_shared(m) && kind->revert)
		start(w, m, REVERT);
	else if (m->original && is_shared(m) && kind->release && m->step->state != STEP_PENDING)
		start(w, m, RELEASE);
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
		failed = finish_all(w, &e);
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
