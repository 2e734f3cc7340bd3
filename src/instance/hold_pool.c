/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pool of velad.conf: its rows, and its groups of steps (plan/pool) side by side, each on a thread of its own, for a port may
 * take a second for each VF, and one that hangs is no reason to have none. */
#include "instance/hold.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/steps.h"
#include "instance/store.h"
#include "plan/pool.h"

#define THREADS_MAX 16

static const struct hold_kind pool_kind = { INST_POOL, OP_POOL_APPLY, OP_POOL_RELEASE, "makes the pool or gives it back" };

/* ---- asking for it -------------------------------------------------------------------------------------- */

static int add_steps(struct store_tx *tx, const char *name, const void *arg, struct error *err)
{
	const struct plan_pool *plan = arg;
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->n; i++) {
		const struct plan_step *s = &plan->step[i];

		r = rows_step_add(tx, name, &(struct rows_step){ .seq = plan->number[i], .kind = s->kind, .target = s->target, .from = s->from,
								 .to = s->to, .state = STEP_PENDING }, err);
	}
	return r;
}

static int begin_apply(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	(void)arena; /* nothing is read */
	return hold_begin(tx, ret_op, &pool_kind, add_steps, arg, err);
}

int inst_pool_apply(struct inst_manager *m, uint64_t *ret_op, const struct plan_pool *plan, struct error *err)
{
	return manager_begin(m, ret_op, begin_apply, plan, err);
}

static int begin_release(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	(void)arg;
	return hold_begin_restore(tx, ret_op, &pool_kind, arena, err);
}

int inst_pool_release(struct inst_manager *m, uint64_t *ret_op, struct error *err)
{
	return manager_begin(m, ret_op, begin_release, NULL, err);
}

/* ---- what is held --------------------------------------------------------------------------------------- */

struct held {
	struct rows_instance *in; /* the newest; NULL: there is none */
	struct rows_step     *step;
	size_t                n, holders;
};

static int find(struct store_tx *tx, struct held *ret, struct arena *arena, struct error *err)
{
	const char **name = NULL;
	int r = rows_holder_names(tx, &name, &ret->holders, INST_POOL, arena, err);

	if (r == 0 && ret->holders)
		r = rows_instance_find(tx, &ret->in, name[0], arena, err);
	return r == 0 && ret->in ? rows_steps(tx, &ret->step, &ret->n, name[0], arena, err) : r;
}

static bool is_same(const struct held *h, const struct plan_pool *plan)
{
	bool same = h->n == plan->n && h->holders == (plan->n > 0);

	for (size_t i = 0; same && i < plan->n; i++)
		same = h->step[i].kind == plan->step[i].kind && strcmp(h->step[i].target, plan->step[i].target) == 0 &&
		       strcmp(h->step[i].to, plan->step[i].to) == 0 && h->step[i].state == STEP_DONE;
	return same;
}

int inst_pool_busy(struct inst_manager *m, bool *ret, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	uint64_t op = 0;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = op_unfinished_of(tx, &op, pool_kind.takes, pool_kind.gives, err);
	*ret = op;
	return r;
}

int inst_pool_is(struct inst_manager *m, bool *ret, const struct plan_pool *plan, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	struct held h = { 0 };
	uint64_t op = 0;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = op_unfinished_of(tx, &op, pool_kind.takes, pool_kind.gives, err);
	if (r == 0 && op)
		r = error_set(err, -EBUSY, "operation %llu %s", (unsigned long long)op, pool_kind.busy);
	if (r == 0)
		r = find(tx, &h, &arena, err);
	*ret = r == 0 && is_same(&h, plan) && (!h.in || h.in->state == INST_RUNNING);
	arena_done(&arena);
	return r;
}

int inst_pool_json(struct inst_manager *m, json_object **ret, const struct plan_pool *plan, const struct plan_pool_conf *conf, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	struct held h = { 0 };
	json_object *steps;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = find(tx, &h, &arena, err);
	if (r == 0) {
		steps = json_steps(h.step, h.n, false);
		*ret = steps ? plan_pool_json(plan, conf, steps, h.in ? h.in->error : NULL, h.in ? h.in->operation : 0) : NULL;
		r = *ret ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
	}
	arena_done(&arena);
	return r;
}

/* ---- doing it ------------------------------------------------------------------------------------------- */

struct group {
	struct steps s;
	struct error err;
	int          r;
};

struct groups {
	struct group *at;
	size_t        n;
	atomic_size_t next;
};

static void *run_groups(void *arg)
{
	struct groups *all = arg;
	size_t i;

	while ((i = atomic_fetch_add(&all->next, 1)) < all->n)
		all->at[i].r = steps_apply(&all->at[i].s, &all->at[i].err);
	return NULL;
}

/* As many threads as can be had; this one is one of them. */
static void run_all(struct groups *all)
{
	pthread_t thread[THREADS_MAX];
	size_t n = 0;

	while (n + 1 < all->n && n < THREADS_MAX && thread_start(&thread[n], run_groups, all) == 0)
		n++;
	(void)run_groups(all);
	while (n > 0)
		(void)pthread_join(thread[--n], NULL);
}

static size_t end_of_group(const struct steps *s, size_t from)
{
	size_t i = from;

	while (i < s->n && s->step[i].seq / PLAN_POOL_GROUP == s->step[from].seq / PLAN_POOL_GROUP)
		i++;
	return i;
}

static int collect(struct groups *all, const struct steps *s, size_t *failed, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (all->at[i].r == 0)
			continue;
		++*failed;
		if (r == 0 || (all->at[i].r == -ECANCELED && r != -ECANCELED))
			*err = all->at[i].err;
		else
			log_err("%s: %s", s->instance, all->at[i].err.text); /* the first is the caller's */
		r = err->code;
	}
	return r;
}

/* The module first: without it nothing can be bound. */
int hold_pool_apply(const struct steps *s, size_t *failed, size_t *groups, struct error *err)
{
	size_t first = s->n && s->step[0].seq < PLAN_POOL_GROUP ? end_of_group(s, 0) : 0;
	struct steps module = *s;
	struct groups all = { .at = calloc(s->n + 1, sizeof(*all.at)) };
	int r;

	*failed = *groups = 0;
	if (!all.at)
		return error_set(err, -ENOMEM, "no memory for the pool");
	module.n = first;
	r = steps_apply(&module, err);
	for (size_t i = first; i < s->n; i = end_of_group(s, i)) {
		struct group *g = &all.at[all.n++];

		g->err = ERROR_INIT;
		g->s = *s;
		g->s.step = &s->step[i];
		g->s.n = end_of_group(s, i) - i;
	}
	*groups = all.n;
	if (r == 0) {
		run_all(&all);
		r = collect(&all, s, failed, err);
	}
	free(all.at);
	return r;
}
