/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Looks at many steps with few threads, each of which has several, one after the other. What it found belongs to it and to who waits for it,
 * who may be gone first: after a call that hangs. */
#include "instance/walk_own.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define STEPS_OF_A_THREAD 4 /* or more, where there are too many */
#define THREADS_MAX       8

struct part { /* one step */
	struct member *member;
	struct effect *effect;
	struct span    span;
	int            r;
	struct error   err;
	atomic_bool    ended; /* then all of this, and what is in effect, is settled */
};

struct lane {
	atomic_uint  holders;
	struct arena arena; /* of all below */
	struct task *task;  /* owned, by who waits */
	struct part *part;
	size_t       n;
};

static void lane_drop(struct lane *l)
{
	if (!l || atomic_fetch_sub(&l->holders, 1) > 1)
		return;
	arena_done(&l->arena);
	free(l);
}

static struct lane *lane_new(size_t n)
{
	struct lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->holders = 1;
	l->part = arena_array(&l->arena, n, sizeof(*l->part));
	if (l->part)
		return l;
	lane_drop(l);
	return NULL;
}

/* Without memory for it, or what is to be read of the store, it is looked at when its turn comes; so is an image, which has threads of its own. */
static void add(struct walk *w, struct lane *l, struct member *m)
{
	const struct step_kind *kind = step_kinds[m->step->kind];
	struct effect *e = m->step->kind == PLAN_STEP_IMAGE ? NULL : effect_make(w->s, m, PROBE, &l->arena);
	struct error ignored = ERROR_INIT;

	if (e && (!kind->load || kind->load(w->s, &e->files, m->step, &l->arena, &ignored) == 0))
		l->part[l->n++] = (struct part){ .member = m, .effect = e };
}

/* What does not return in time ends it: nobody waits any more. */
static void look(struct lane *l, struct task *t)
{
	struct span all = span_begin();

	for (size_t i = 0; i < l->n; i++) {
		struct part *p = &l->part[i];
		int64_t from = all.from + all.took;

		p->r = effect_run(t, p->effect, &p->err);
		span_end(&all);
		p->span = (struct span){ .began = all.began + from - all.from, .took = all.from + all.took - from, .limit = t ? task_limit(t) : 0 };
		p->span.took += p->span.took == 0;
		p->ended = true;
		if (p->r == -ETIMEDOUT)
			break;
	}
}

static int run(struct task *t, void *lane, struct error *err)
{
	(void)err;
	look(lane, t);
	lane_drop(lane);
	return 0;
}

/* A lane that has no thread looks when it is waited for. */
static void start(struct lane *l, const struct steps *s)
{
	l->task = s->guard ? task_new(s->guard->crew) : NULL;
	if (!l->task)
		return;
	atomic_fetch_add(&l->holders, 1);
	task_start(l->task, run, l);
}

static void take(const struct steps *s, struct part *p)
{
	struct member *m = p->member;

	effect_took(s, m->step, &p->span);
	m->r = p->r;
	m->err = p->err;
	m->seen = p->effect->seen;
	m->seen.so = p->r == 0 && m->seen.so;
}

/* The first that has not ended hangs; or has ended just now, and says so. */
static void give_up(const struct steps *s, struct lane *l, const struct error *why, const struct span *span)
{
	for (size_t i = 0; i < l->n; i++) {
		struct part *p = &l->part[i];
		bool ended = p->ended;

		if (ended && p->r != -ETIMEDOUT) {
			take(s, p);
			continue;
		}
		effect_took(s, p->member->step, span);
		p->member->r = why->code;
		p->member->err = *why;
		return;
	}
}

static void finish(const struct steps *s, struct lane *l)
{
	struct error err = ERROR_INIT;
	struct span span = { 0 };
	int r = 0;

	if (l->task)
		r = task_wait(&l->task, &span, &err);
	else if (!s->guard)
		look(l, NULL);
	for (size_t i = 0; r == 0 && i < l->n && l->part[i].ended; i++)
		take(s, &l->part[i]);
	if (r == -ETIMEDOUT)
		give_up(s, l, &err, &span);
	else if (r < 0)
		lane_drop(l); /* there was no thread for it */
	l->task = task_free(l->task);
}

void ahead_look(struct walk *w)
{
	size_t n = (w->n + STEPS_OF_A_THREAD - 1) / STEPS_OF_A_THREAD;
	struct lane *lane[THREADS_MAX] = { NULL };

	n = n < THREADS_MAX ? n : THREADS_MAX;
	for (size_t i = 0; i < n; i++) {
		lane[i] = lane_new(w->n / n + 1);
		for (size_t k = i; lane[i] && k < w->n; k += n) /* side by side lie steps of one kind, which take alike */
			add(w, lane[i], &w->wave[k]);
		if (lane[i])
			start(lane[i], w->s);
	}
	for (size_t i = 0; i < n; i++) {
		if (lane[i])
			finish(w->s, lane[i]);
		lane_drop(lane[i]);
	}
}
