/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/renew.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "host/inventory.h"
#include "plan/plan.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/lease.h"
#include "velad/manager.h"
#include "velad/planner.h"
#include "velad/plans.h"

#define CHANGES_MAX 32 /* that are told */

static bool same_bundle(const struct plan *a, const struct plan *b)
{
	bool same = a->ngpus == b->ngpus && a->nvfs == b->nvfs && a->ncompanions == b->ncompanions &&
		    a->nextras == b->nextras && a->ncells == b->ncells && a->partitioned == b->partitioned && a->partition == b->partition;

	for (size_t i = 0; same && i < a->ngpus; i++)
		same = bdf_eq(a->gpu[i], b->gpu[i]);
	for (size_t i = 0; same && i < a->nvfs; i++)
		same = bdf_eq(a->vf[i].bdf, b->vf[i].bdf) && bdf_eq(a->vf[i].gpu, b->vf[i].gpu) && a->vf[i].path == b->vf[i].path;
	for (size_t i = 0; same && i < a->ncompanions; i++)
		same = bdf_eq(a->companion[i].bdf, b->companion[i].bdf);
	for (size_t i = 0; same && i < a->nextras; i++)
		same = bdf_eq(a->extra[i].bdf, b->extra[i].bdf);
	for (size_t i = 0; same && i < a->ncells; i++)
		same = a->cell[i].host_node == b->cell[i].host_node && a->cell[i].memory == b->cell[i].memory &&
		       a->cell[i].vcpus == b->cell[i].vcpus;
	return same;
}

/* What is free now may be better than the lease: its devices are required, so that they are chosen again. */
static void require(struct plan_request *r, const struct plan *p)
{
	r->nrequire = 0;
	for (size_t i = 0; i < p->ngpus && r->nrequire < PLAN_LIST_MAX; i++)
		r->require[r->nrequire++] = p->gpu[i];
	for (size_t i = 0; i < p->nvfs && r->nrequire < PLAN_LIST_MAX; i++)
		r->require[r->nrequire++] = p->vf[i].bdf;
	for (size_t i = 0; i < p->nextras && r->nrequire < PLAN_LIST_MAX; i++)
		if (!p->extra[i].nvswitch)
			r->require[r->nrequire++] = p->extra[i].bdf;
}

/* ---- what changed --------------------------------------------------------------------------------------- */

/* A device of the plan, a PF of its VFs, or a port above one of them. */
static bool stands_on(const struct topo *t, const struct plan *p, struct bdf bdf)
{
	struct bdf at[PLAN_GPUS_MAX + 2 * PLAN_VFS_MAX + PLAN_EXTRAS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < p->ngpus; i++)
		at[n++] = p->gpu[i];
	for (size_t i = 0; i < p->nvfs; i++) {
		at[n++] = p->vf[i].bdf;
		at[n++] = p->vf[i].pf;
	}
	for (size_t i = 0; i < p->nextras; i++)
		at[n++] = p->extra[i].bdf;
	for (size_t i = 0; i < n; i++) {
		if (bdf_eq(at[i], bdf))
			return true;
		for (uint32_t up = topo_find(t, at[i]); up != TOPO_NONE; up = topo_at(t, up)->parent)
			if (bdf_eq(topo_at(t, up)->fn->bdf, bdf))
				return true;
	}
	return false;
}

static const char *text_of(json_object *item, const char *key)
{
	json_object *v = json_object_object_get(item, key);

	return v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "null";
}

static void add_change(struct json_out *o, json_object *reasons, const char *bdf, json_object *item, uint64_t generation)
{
	const char *what = json_object_get_string(json_object_object_get(item, "what"));
	const char *field = json_object_get_string(json_object_object_get(item, "field"));
	struct json_out one = json_out_new();
	struct arena arena = { 0 };
	char *seen, *needed = arena_printf(&arena, "what there was at generation %llu", (unsigned long long)generation);

	if (field)
		seen = arena_printf(&arena, "%s was %s, and is %s", field, text_of(item, "old"), text_of(item, "new"));
	else
		seen = arena_printf(&arena, "it was %s", what);
	json_add_string(&one, "rule", "plan.changed");
	json_add_string(&one, "device", bdf);
	json_add_string(&one, "observed", seen);
	json_add_string(&one, "needed", needed);
	json_add_string(&one, "text", arena_printf(&arena, "%s: %s; needed: %s", bdf, seen, needed));
	one.failed = one.failed || !seen || !needed;
	json_append_out(o, reasons, &one);
	arena_done(&arena);
}

/* Of what the plan stands on, since it was made; best effort: the history may not reach so far back, or be too long. */
static void add_changes(struct manager *m, json_object *reasons, const struct plan *old)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct json_out o = { .obj = reasons };
	struct error none = ERROR_INIT;
	json_object *list;
	size_t told = 0;

	if (!reasons || current_changes(m->now, &doc, old->generation, &none) < 0)
		return;
	list = json_object_object_get(doc, "changes");
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *items = json_object_object_get(json_object_array_get_idx(list, i), "items");

		for (size_t k = 0; k < json_object_array_length(items) && told < CHANGES_MAX; k++) {
			json_object *item = json_object_array_get_idx(items, k);
			const char *bdf = json_object_get_string(json_object_object_get(item, "bdf"));
			struct bdf at;

			if (!bdf || !bdf_parse(&at, bdf) || !stands_on(current_topo(m->now), old, at))
				continue;
			add_change(&o, reasons, bdf, item, old->generation);
			told++;
		}
	}
}

int renew_plan(struct manager *m, struct plan **ret, const struct plan_request *request, const struct lease *lease, size_t bundle,
	       const struct api_request *req, struct api_response *res, struct error *err)
{
	const struct plan *old = lease->bundle[bundle].plan;
	auto_(plan_free) struct plan *plan = NULL;
	struct plan_request again = *request; /* its strings stay the request's */
	int r;

	require(&again, old);
	r = planner_make(m, &plan, &again, lease, bundle, req->mark, err);
	if (r != 0)
		return r;
	if (!plan->fits || !same_bundle(old, plan)) {
		res->reasons = plan_reasons_json(plan->reason, plan->nreasons);
		add_changes(m, res->reasons, old);
		return error_set(err, -ESTALE, "lease %s: the machine changed since generation %llu, and the plan cannot be had as it was; "
				 "release it and plan again", lease->id, (unsigned long long)old->generation);
	}
	*ret = steal(plan);
	return 0;
}
