/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One step of a wave on a thread of the crew. */
#include "instance/walk_own.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/log.h"

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for steps");
}

int effect_run(struct task *t, void *arg, struct error *err)
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

struct effect *effect_make(const struct steps *s, const struct member *m, enum what what, struct arena *a)
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

void effect_start(struct walk *w, struct member *m, enum what what)
{
	struct arena *a = &w->arena;

	m->err = ERROR_INIT;
	if (w->s->guard) {
		m->task = task_new(w->s->guard->crew);
		a = m->task ? &m->task->arena : NULL;
		if (m->task && m->step->kind == PLAN_STEP_IMAGE)
			m->task->kind = TASK_IMAGES;
	}
	m->effect = a ? effect_make(w->s, m, what, a) : NULL;
	m->r = m->effect ? 0 : no_memory(&m->err);
	if (m->r == 0 && what <= APPLY && step_kinds[m->step->kind]->load)
		m->r = step_kinds[m->step->kind]->load(w->s, &m->effect->files, m->step, a, &m->err);
	if (m->r == 0 && m->task)
		task_start(m->task, effect_run, m->effect);
	else
		m->task = task_free(m->task);
	if (m->r < 0)
		m->effect = NULL;
}

void effect_took(const struct steps *s, struct rows_step *step, const struct span *span)
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

/* When velad ends, nobody has waited long enough. */
void effect_unknown(const struct walk *w, struct member *m)
{
	m->unknown = m->r == -ETIMEDOUT && plan_step_of_function(m->step->kind) && !(w->s->guard && crew_late(w->s->guard->crew));
	m->step->sick = m->unknown || m->r == GATE_QUARANTINED;
}

static void finish(struct walk *w, struct member *m)
{
	m->step->sick = m->r == GATE_QUARANTINED; /* without an effect */
	if (!m->effect)
		return;
	if (m->task) {
		m->r = task_wait(&m->task, &m->span, &m->err);
	} else {
		m->span = span_begin();
		m->r = effect_run(NULL, m->effect, &m->err);
		span_end(&m->span);
	}
	effect_took(w->s, m->step, &m->span);
	if (m->back && gate_keeps(&m->gate, m->step, m->r))
		m->r = GATE_QUARANTINED;
	effect_unknown(w, m);
	if (m->r == 0) {
		m->seen = m->effect->seen;
		take_note(w, m);
		if (m->step->kind == PLAN_STEP_IMAGE && m->effect->what == APPLY)
			w->image = m->effect->files.image;
	}
	m->effect = NULL;
	m->task = task_free(m->task);
}

int effect_first(const struct walk *w, struct error *err)
{
	int first = 0;

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

int effect_finish_all(struct walk *w, struct error *err)
{
	for (size_t i = 0; i < w->n; i++)
		finish(w, &w->wave[i]);
	return effect_first(w, err);
}
