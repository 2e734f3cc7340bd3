/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tenant's request stays as it was, but what it is to have is what it has. Its uuid stays, and so do the addresses of its VFs. */
#include "velad/remake.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "host/inventory.h"
#include "instance/instance.h"
#include "plan/plan.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/manager.h"
#include "velad/methods.h"
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

static int make(struct manager *m, struct plan **ret, struct plan_request *request, const struct inst_moved *moved, const struct api_request *req,
		struct api_response *res, struct error *err)
{
	auto_(plan_free) struct plan *plan = NULL;
	int r = methods_ask_libvirt(m, req, res, err);

	if (r == 0)
		r = current_catch_up(m->now, CURRENT_PLAN, err);
	if (r == 0)
		r = require(request, current_topo(m->now), moved, err);
	if (r == 0)
		r = plans_remake(m, &plan, request, err);
	if (r == 0)
		r = methods_guest(m, plan, request, moved->uuid, res, err);
	if (r == 0)
		*ret = steal(plan);
	return r < 0 ? error_prefix(err, "instance %s, whose cards are in other places", request->name) : r;
}

int remake_plan(struct manager *m, struct plan **ret, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(json_object_put) json_object *o = NULL;
	struct plan_request request;
	struct inst_moved moved;
	struct arena arena = { 0 };
	int r = inst_moved(m->instances, &moved, req->param, &arena, err);

	*ret = NULL;
	if (r == 0 && moved.moved) {
		r = json_parse(&o, moved.request, strlen(moved.request), SIZE_MAX, err);
		if (r == 0)
			r = plan_request_read(&request, o, err);
		if (r == 0) {
			r = make(m, ret, &request, &moved, req, res, err);
			plan_request_done(&request);
		}
	}
	arena_done(&arena);
	return r;
}
