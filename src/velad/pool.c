/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/pool.h"

#include <errno.h>

#include "act/act.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "instance/instance.h"
#include "plan/pool.h"
#include "velad/current.h"
#include "velad/manager.h"
#include "velad/methods.h"
#include "velad/planner.h"

static int make(struct manager *m, struct plan_pool **ret, struct error *err)
{
	struct plan_pool_in in = { .topo = current_topo(m->now), .conf = &m->pool, .policy = &m->policy };
	struct plan_sick *sick = NULL;
	struct arena arena = { 0 };
	int r = planner_sick(m, &sick, &in.nsick, &arena, err);

	in.sick = sick;
	if (r == 0)
		r = plan_pool_make(ret, &in, err);
	arena_done(&arena);
	return r;
}

/* ---- by itself ------------------------------------------------------------------------------------------ */

/* 0: nothing is to be done, or it began. */
static int begin(struct manager *m, struct error *err)
{
	auto_(plan_pool_free) struct plan_pool *plan = NULL;
	bool is = false;
	uint64_t op = 0;
	int r = make(m, &plan, err);

	if (r == 0)
		r = inst_pool_is(m->instances, &is, plan, err);
	if (r < 0 || (is && plan_pool_is_so(plan)))
		return r;
	for (size_t i = 0; i < plan->nskips; i++) {
		char text[BDF_TEXT_MAX];

		log_warning("pool: %s: %s", bdf_text(text, plan->skip[i].bdf), plan->skip[i].why);
	}
	return plan->n ? inst_pool_apply(m->instances, &op, plan, err) : inst_pool_release(m->instances, &op, err);
}

/* Without velad-helper it is not known what can be in it: that is no reason to give it up. */
static bool must_wait(const struct manager *m)
{
	struct error why = ERROR_INIT;

	return act_machine_helper(m->machine, false, &why) < 0;
}

void pool_begin(struct manager *m)
{
	struct error err = ERROR_INIT;
	int r;

	if (must_wait(m)) {
		m->pool_waits = true;
		return;
	}
	r = begin(m, &err);

	m->pool_waits = r == -EBUSY;
	if (r < 0 && r != -EBUSY)
		log_err("pool: %s", err.text);
}

void pool_go_on(struct manager *m)
{
	struct error err = ERROR_INIT;
	int r;

	if (!m->pool_waits || must_wait(m))
		return;
	r = current_catch_up(m->now, CURRENT_ALL, &m->pool_mark, &err); /* that of the operation may not have been heard of yet */
	if (r < 0)
		log_err("pool: %s", err.text);
	else if (r == 0)
		pool_begin(m);
}

/* ---- handlers ------------------------------------------------------------------------------------------- */

int pool_get(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(plan_pool_free) struct plan_pool *plan = NULL;
	struct manager *m = self;
	int r = methods_catch_up(m, CURRENT_TOPOLOGY, req, res, err);

	if (r == 0)
		r = make(m, &plan, err);
	methods_tag(m, res);
	return r != 0 ? r : inst_pool_json(m->instances, &res->body, plan, &m->pool, err);
}

int pool_post_apply(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(plan_pool_free) struct plan_pool *plan = NULL;
	struct manager *m = self;
	uint64_t op = 0;
	int r = methods_catch_up(m, CURRENT_TOPOLOGY, req, res, err);

	if (r == 0)
		r = methods_match(m, req, err);
	if (r == 0)
		r = make(m, &plan, err);
	if (r == 0 && !plan->n)
		r = error_set(err, -EINVAL, "the pool has no devices: [pool] of velad.conf names none that can be in it; see velactl pool plan");
	if (r == 0)
		r = inst_pool_apply(m->instances, &op, plan, err);
	return r != 0 ? r : methods_operation(m, res, op, err);
}

int pool_post_release(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	uint64_t op = 0;
	int r = inst_pool_release(m->instances, &op, err);

	(void)req;
	return r < 0 ? r : methods_operation(m, res, op, err);
}
