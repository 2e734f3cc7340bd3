/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tenant's request stays as it was, but what it is to have is what it has. Its uuid stays, and so do the addresses of its VFs. */
#include "velad/remake.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "host/inventory.h"
#include "instance/instance.h"
#include "plan/plan.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/manager.h"
#include "velad/methods.h"
#include "velad/planner.h"
#include "velad/plans.h"

/* What else a GPU brings along comes with it. A VF may not be there yet. */
static bool may_be_required(const struct topo *t, struct bdf bdf)
{
	uint32_t at = topo_find(t, bdf);
	enum host_kind kind = at == TOPO_NONE ? HOST_VF : topo_at(t, at)->fn->facts->kind;

	return kind == HOST_GPU || kind == HOST_VF || kind == HOST_NVME;
}

static int require(struct plan_request *r, const struct topo *t, const struct inst_moved *moved, struct error *err)
{
	r->nrequire = r->nexclude = 0;
	for (size_t i = 0; i < moved->n; i++) {
		if (!may_be_required(t, moved->device[i]))
			continue;
		if (r->nrequire == PLAN_LIST_MAX)
			return error_set(err, -E2BIG, "instance %s has more than %d devices; delete it, and create it again", r->name, PLAN_LIST_MAX);
		r->require[r->nrequire++] = moved->device[i];
	}
	return 0;
}

/* CURRENT_WAIT: the machine is being read. */
static int make(struct manager *m, struct plan **ret, const char *name, const struct inst_moved *moved, uint64_t *mark, struct api_response *res,
		struct error *err)
{
	auto_(json_object_put) json_object *o = NULL;
	auto_(plan_free) struct plan *plan = NULL;
	struct plan_request request;
	int r = json_parse(&o, moved->request, strlen(moved->request), SIZE_MAX, err);

	if (r == 0)
		r = plan_request_read(&request, o, err);
	if (r < 0)
		return r;
	r = current_catch_up(m->now, CURRENT_PLAN, mark, err);
	if (r == 0)
		r = require(&request, current_topo(m->now), moved, err);
	if (r == 0)
		r = planner_remake(m, &plan, &request, mark, err);
	if (r == 0)
		r = methods_guest(m, plan, &request, moved->uuid, res, err);
	plan_request_done(&request);
	if (r < 0)
		return error_prefix(err, "instance %s, whose cards are in other places", name);
	*ret = steal(plan);
	return r;
}

int remake_plan(struct manager *m, struct plan **ret, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct inst_moved moved;
	struct arena arena = { 0 };
	int r = inst_moved(m->instances, &moved, req->param, &arena, err);

	*ret = NULL;
	if (r == 0 && moved.moved)
		r = methods_ask_libvirt(m, req, res, err);
	if (r == 0 && moved.moved)
		r = methods_read(m, make(m, ret, req->param, &moved, req->mark, res, err), req, res, err);
	arena_done(&arena);
	return r;
}

/* ---- by itself ------------------------------------------------------------------------------------------ */

static int start(struct manager *m, const char *name, struct arena *arena, struct error *err)
{
	auto_(plan_free) struct plan *plan = NULL;
	struct api_response res = { 0 };
	struct inst_moved moved;
	uint64_t op = 0;
	int r = inst_moved(m->instances, &moved, name, arena, err);

	if (r == 0 && moved.moved)
		r = make(m, &plan, name, &moved, &m->start_mark, &res, err);
	json_object_put(res.reasons);
	return r != 0 ? r : inst_start(m->instances, &op, name, plan, err);
}

void remake_start(struct manager *m)
{
	struct error err = ERROR_INIT, later = ERROR_INIT;
	const char **name = NULL;
	struct arena arena = { 0 };
	size_t n = 0;
	int r;

	if (inst_to_start(m->instances, &name, &n, &arena, &err) < 0)
		log_err("%s", err.text);
	if (n && (manager_libvirt(m, &later) == -EAGAIN || current_helper_away(m->now))) {
		inst_start_later(m->instances); /* when libvirt answers, and velad-helper, this is called again */
		n = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct error why = ERROR_INIT;

		err = ERROR_INIT;
		r = start(m, name[i], &arena, &why);
		if (r == CURRENT_WAIT) {
			inst_start_later(m->instances); /* this one and the rest, when the machine was read */
			break;
		}
		if (r == 0)
			continue;
		log_err("instance %s is not started again: %s", name[i], why.text);
		if (inst_start_not(m->instances, name[i], &why, &err) < 0)
			log_err("%s", err.text);
	}
	arena_done(&arena);
}
