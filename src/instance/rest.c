/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nothing of the steps changes but how long they took: a start looks at each, and a delete resets and verifies again. The store is
 * asked before and told after; a daemon that dies between does all of it again. */
#include "instance/rest.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "instance/gate.h"
#include "instance/guard.h"
#include "instance/jobs.h"
#include "instance/manager.h"
#include "instance/quarantine.h"
#include "instance/store.h"

typedef int rest_fn(const struct steps *s, struct bdf fn, struct error *err);

struct effect { /* in the memory of its task */
	struct steps      s;
	struct gate       gate;
	struct guard_self self;
	struct bdf        fn;
	rest_fn          *run;
};

struct resting { /* one function */
	struct rows_step *reset, *lend;
	struct gate       gate;
	struct task      *task; /* owned; NULL: nothing runs */
	int               r;
	struct error      err;
};

struct rest {
	struct inst_manager *m;
	struct job          *j;
	struct resting      *at;
	size_t               n;
	struct bdf          *mine;
	struct targets_hold  hold;
};

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory to reset what the guest had");
}

/* ---- which ----------------------------------------------------------------------------------------------- */

static struct rows_step *lend_of(const struct job *j, const struct rows_step *reset)
{
	for (size_t i = 0; i < j->steps.n; i++)
		if (j->steps.step[i].kind == PLAN_STEP_LEND && bdf_eq(j->steps.step[i].bdf, reset->bdf))
			return &j->steps.step[i];
	return NULL;
}

/* What was never lent, no guest had; what is in quarantine nobody touches. */
static int find_gates(struct rest *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	size_t n = 0;
	int r = store_begin(&tx, w->m->store, err);

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		struct resting *f = &w->at[i];

		f->gate = (struct gate){ .mine = w->mine, .nmine = w->n, .release = w->m->env.release };
		r = gate_find(&f->gate, tx, f->reset, &w->j->arena, err);
		if (r == 0 && f->gate.was && !f->gate.closed)
			w->at[n++] = *f;
	}
	w->n = r == 0 ? n : w->n;
	return r;
}

static int rest_new(struct rest *w, struct inst_manager *m, struct job *j, struct error *err)
{
	*w = (struct rest){ .m = m, .j = j };
	w->at = arena_array(&j->arena, j->steps.n + 1, sizeof(*w->at));
	w->mine = arena_array(&j->arena, j->steps.n + 1, sizeof(*w->mine));
	w->hold.name = arena_array(&j->arena, j->steps.n + 1, sizeof(*w->hold.name));
	if (!w->at || !w->mine || !w->hold.name)
		return no_memory(err);
	for (size_t i = 0; i < j->steps.n; i++) {
		struct rows_step *s = &j->steps.step[i];
		struct rows_step *lend = s->kind == PLAN_STEP_RESET ? lend_of(j, s) : NULL;

		if (!lend || lend->state == STEP_REVERTED) /* another card is in its place */
			continue;
		w->mine[w->n] = s->bdf;
		w->hold.name[w->hold.n++] = s->target;
		w->at[w->n++] = (struct resting){ .reset = s, .lend = lend };
	}
	return 0;
}

/* ---- side by side ---------------------------------------------------------------------------------------- */

static int run_effect(struct task *t, void *arg, struct error *err)
{
	struct effect *e = arg;

	e->self.task = t;
	return e->run(&e->s, e->fn, err);
}

static struct effect *make_effect(const struct rest *w, const struct resting *f, rest_fn *run, struct arena *a)
{
	struct effect *e = arena_alloc(a, sizeof(*e));
	struct bdf *mine = arena_array(a, f->gate.nmine, sizeof(*mine));

	if (!e || !mine)
		return NULL;
	memcpy(mine, f->gate.mine, f->gate.nmine * sizeof(*mine));
	*e = (struct effect){ .gate = f->gate, .self.guard = w->m->guard, .fn = f->reset->bdf, .run = run };
	e->gate.mine = mine;
	e->gate.was = arena_strdup(a, f->gate.was);
	e->gate.release.scrub = NULL; /* that is between guests */
	e->s = (struct steps){ .act = guard_act(&e->self), .gate = &e->gate, .instance = arena_strdup(a, w->j->in->name) };
	return e->gate.was && e->s.instance ? e : NULL;
}

static int start(const struct rest *w, struct resting *f, rest_fn *run, struct error *err)
{
	struct effect *e;

	f->task = task_new(w->m->guard->crew);
	e = f->task ? make_effect(w, f, run, &f->task->arena) : NULL;
	if (e)
		task_start(f->task, run_effect, e);
	else
		f->task = task_free(f->task);
	return e ? 0 : no_memory(err);
}

/* What failed in an earlier round is left alone. */
static int each(struct rest *w, rest_fn *run, bool verifies, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n; i++)
		if (w->at[i].r == 0)
			r = start(w, &w->at[i], run, err);
	for (size_t i = 0; i < w->n; i++) {
		struct resting *f = &w->at[i];
		struct rows_step *shown = verifies ? f->lend : f->reset;
		struct span span = span_begin();

		if (!f->task)
			continue;
		f->r = task_wait(&f->task, &span, &f->err);
		f->task = task_free(f->task);
		(void)pthread_mutex_lock(&w->m->lock); /* somebody may be shown the steps just now */
		shown->span = span;
		(void)pthread_mutex_unlock(&w->m->lock);
	}
	return r;
}

/* ---- what became of them ----------------------------------------------------------------------------------- */

/* A function that is gone is what adoption says of it. */
static int commit(struct rest *w, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct error why = ERROR_INIT;
	int r = store_begin(&tx, w->m->store, err);

	for (size_t i = 0; r == 0 && i < w->n; i++)
		if (w->at[i].r < 0 && w->at[i].r != -ENODEV && w->at[i].r != -ENOTCONN)
			r = gate_keep(tx, &w->at[i].gate, w->at[i].lend, NULL, &w->at[i].err, err);
	if (r == 0 && quarantine_check(tx, w->j->in->name, &why) < 0)
		w->j->note = arena_strdup(&w->j->arena, why.text);
	return r == 0 ? store_commit(tx, err) : r;
}

int rest(struct inst_manager *m, struct job *j, struct error *away, struct error *err)
{
	struct error foreign = ERROR_INIT;
	struct rest w;
	int r = rest_new(&w, m, j, err);

	if (r == 0 && adopt_check(m, j, false, &foreign) < 0) { /* another domain has one of them */
		log_warning("instance %s: what it has is not reset: %s", j->in->name, foreign.text);
		return 0;
	}
	if (r < 0)
		return r;
	targets_lock(&m->targets, &w.hold);
	r = find_gates(&w, err);
	if (r == 0)
		r = each(&w, gate_reset, false, err);
	if (r == 0)
		r = each(&w, gate_verify, true, err);
	if (r == 0 && crew_late(m->guard->crew))
		r = error_set(err, -EINTR, "velad ends");
	if (r == 0)
		r = commit(&w, err);
	for (size_t i = 0; r == 0 && i < w.n; i++)
		if (w.at[i].r == -ENOTCONN && !away->code)
			(void)error_set(away, -ENOTCONN, "%s: %.300s", w.at[i].reset->target, w.at[i].err.text);
	targets_unlock(&m->targets, &w.hold);
	return r;
}
