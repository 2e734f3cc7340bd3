/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/plans.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strtab.h"
#include "guest/guest.h"
#include "instance/instance.h"
#include "plan/gang.h"
#include "velad/capacity.h"
#include "velad/current.h"
#include "velad/images.h"
#include "velad/lease.h"
#include "velad/manager.h"
#include "velad/methods.h"
#include "velad/planner.h"

_Static_assert(LEASE_BUNDLES_MAX <= PLAN_GANG_MAX, "a lease may have more bundles than a gang");

static uint64_t now_usec(void)
{
	return clock_usec(CLOCK_BOOTTIME); /* leases end while the host sleeps, too */
}

/* ---- bodies ----------------------------------------------------------------------------------------- */

static int read_body(json_object **ret, const struct api_request *req, struct error *err)
{
	int r = json_parse(ret, req->body, req->body_len, JSON_BYTES_MAX, err);

	if (r == 0 && !json_object_is_type(*ret, json_type_object))
		return error_set(err, -EINVAL, "request must be an object");
	return r;
}

/* A whole number of the body that is no part of the request; it is taken out. */
static int take_number(uint64_t *ret, json_object *body, const char *key, uint64_t max, struct error *err)
{
	json_object *v;
	int64_t n;

	if (!json_object_object_get_ex(body, key, &v))
		return 0;
	n = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : -1;
	if (n < 0 || (uint64_t)n > max)
		return error_set(err, -EINVAL, "request.%s must be a whole number, 0 to %llu", key, (unsigned long long)max);
	*ret = (uint64_t)n;
	json_object_object_del(body, key);
	return 0;
}

/* ---- leases ----------------------------------------------------------------------------------------- */

/* What devices it takes does not hang on it. */
static bool may_follow(const char *key)
{
	static const char *const keys[] = { "name", "boot", "image", "disk_size", "disks", "hostname", "user_data", "ssh_keys", "network_config",
					    "tags" };

	return strtab_find(keys, ARRAY_SIZE(keys), key) >= 0;
}

/* The request that a lease was made for, with the name and boot of the body. */
static int merge(json_object **ret, const struct lease_bundle *b, json_object *body, struct error *err)
{
	auto_(json_object_put) json_object *o = NULL;

	json_object_object_foreach(body, key, value) {
		(void)value;
		if (!may_follow(key))
			return error_set(err, -EINVAL, "request.%.40s is what the plan has decided; with plan only name, bundle, tags, and "
					 "what the guest boots and is told at its boot can be said", key);
	}
	if (json_object_deep_copy(b->request, &o, NULL) < 0)
		return error_set(err, -ENOMEM, "no memory for the request");
	json_object_object_foreach(body, other, given)
		if (json_object_object_add(o, other, json_object_get(given)) < 0)
			return error_set(err, -ENOMEM, "no memory for the request");
	*ret = steal(o);
	return 0;
}

static int find_bundle(struct manager *m, struct lease **lease, size_t *bundle, json_object *body, const char *id, uid_t uid,
		       struct error *err)
{
	uint64_t which = 0;
	int r = leases_find(&m->leases, lease, id, uid, now_usec(), err);

	if (r == 0)
		r = take_number(&which, body, "bundle", LEASE_BUNDLES_MAX - 1, err);
	if (r == 0 && which >= (*lease)->n)
		r = error_set(err, -EINVAL, "request.bundle is %llu; lease %s has the bundles 0 to %zu", (unsigned long long)which, id,
			      (*lease)->n - 1);
	if (r == 0 && !(*lease)->bundle[which].plan)
		r = error_set(err, -EBUSY, "bundle %llu of lease %s was used already", (unsigned long long)which, id);
	*bundle = which;
	return r;
}

/* It is taken out: no part of the request. */
static int take_start(bool *ret, json_object *body, struct error *err)
{
	json_object *v;

	*ret = true;
	if (!json_object_object_get_ex(body, "start", &v))
		return 0;
	if (!json_object_is_type(v, json_type_boolean))
		return error_set(err, -EINVAL, "request.start must be true or false");
	*ret = json_object_get_boolean(v);
	json_object_object_del(body, "start");
	return 0;
}

static int read_leased(struct manager *m, struct plans_body *ret, json_object *body, json_object *id, uid_t uid, struct error *err)
{
	auto_(json_object_put) json_object *merged = NULL;
	struct lease *lease = NULL;
	int r;

	if (!json_object_is_type(id, json_type_string))
		return error_set(err, -EINVAL, "request.plan must be the id of a lease, a string");
	json_object_object_del(body, "plan");
	r = find_bundle(m, &lease, &ret->bundle, body, json_object_get_string(id), uid, err);
	if (r == 0)
		r = merge(&merged, &lease->bundle[ret->bundle], body, err);
	if (r == 0)
		r = plan_request_read(&ret->request, merged, err);
	ret->lease = lease;
	return r;
}

int plans_read(struct manager *m, struct plans_body *ret, const struct api_request *req, struct error *err)
{
	auto_(json_object_put) json_object *body = NULL;
	auto_(json_object_put) json_object *id = NULL;
	int r = read_body(&body, req, err);

	ret->lease = NULL;
	ret->bundle = 0;
	if (r == 0)
		r = take_start(&ret->start, body, err);
	if (r < 0)
		return r;
	id = json_object_get(json_object_object_get(body, "plan"));
	if (json_object_object_get_ex(body, "plan", NULL))
		return read_leased(m, ret, body, id, req->uid, err);
	return plan_request_read_shaped(&ret->request, body, &m->conf, err);
}

void plans_used(struct manager *m, struct lease *lease, size_t bundle)
{
	leases_use(&m->leases, lease, bundle);
}

/* ---- one plan --------------------------------------------------------------------------------------- */

/* A dry run does not wait for libvirt. */
static int add_xml(struct manager *m, struct plan *plan, const struct plan_request *request, struct error *err)
{
	struct error ignored = ERROR_INIT;
	const char *type = manager_libvirt(m, &ignored) == 0 ? m->offer.type : NULL;
	struct guest_dirs dirs;
	int r = plan->fits ? images_dirs(m, &dirs, request, err) : 0;

	return plan->fits && r == 0 ? guest_plan_xml(plan, request, current_topo(m->now), type, NULL, &dirs, err) : r;
}

/* The plan is held, and says so. */
static int hold(struct manager *m, struct api_response *res, struct lease_bundle *bundle, size_t n, unsigned seconds, uid_t uid,
		struct error *err)
{
	struct json_out o = { .obj = res->body };
	struct lease *lease = NULL;
	int r = leases_add(&m->leases, &lease, uid, now_usec(), seconds, bundle, n, err);

	if (r < 0)
		return r;
	json_add_made(&o, "lease", lease_json(lease));
	if (o.failed) {
		leases_drop(&m->leases, lease);
		return error_set(err, -ENOMEM, "no memory for the answer");
	}
	res->status = 201;
	(void)snprintf(res->location, sizeof(res->location), "/v1/plans/%s", lease->id);
	return 0;
}

static int plan_one(struct manager *m, struct plan *made, struct plan_request *request, unsigned seconds, const struct api_request *req,
		    struct api_response *res, struct error *err)
{
	struct lease_bundle bundle = { 0 };
	auto_(plan_free) struct plan *plan = made;
	int r = methods_match(m, req, err);

	methods_tag(m, res);
	if (r == 0)
		r = add_xml(m, plan, request, err);
	if (r < 0)
		return r;
	res->body = plan_json(plan);
	if (!res->body)
		return error_set(err, -ENOMEM, "no memory for the answer");
	if (!seconds || !plan->fits)
		return 0;
	bundle.request = plan_request_json(request);
	if (!bundle.request)
		return error_set(err, -ENOMEM, "no memory for a lease");
	bundle.plan = steal(plan);
	r = hold(m, res, &bundle, 1, seconds, req->uid, err);
	json_object_put(bundle.request); /* both NULL if they were taken */
	plan = bundle.plan;
	return r;
}

static int plan_request(struct manager *m, json_object *body, unsigned seconds, const struct api_request *req,
			struct api_response *res, struct error *err)
{
	struct plan_request request;
	struct plan *plan = NULL;
	int r = plan_request_read_shaped(&request, body, &m->conf, err);

	if (r < 0)
		return r;
	r = planner_take(m, &plan, req, &request, seconds, err);
	if (r == 0)
		r = plan_one(m, plan, &request, seconds, req, res, err);
	plan_request_done(&request);
	return r;
}

/* ---- gangs ------------------------------------------------------------------------------------------ */

static int answer_gang(struct manager *m, struct plan_gang *gang, const struct plan_request *request, unsigned seconds,
		       const struct api_request *req, struct api_response *res, struct error *err)
{
	struct lease_bundle bundle[LEASE_BUNDLES_MAX] = { 0 };
	int r = 0;

	for (size_t i = 0; i < gang->n && r == 0; i++) {
		r = add_xml(m, gang->plan[i], &request[i], err);
		gang->fits = gang->fits && gang->plan[i]->fits;
	}
	if (r < 0)
		return r;
	res->body = plan_gang_json(gang);
	if (!res->body)
		return error_set(err, -ENOMEM, "no memory for the answer");
	if (!seconds || !gang->fits)
		return 0;
	for (size_t i = 0; i < gang->n; i++) {
		bundle[i] = (struct lease_bundle){ .request = plan_request_json(&request[i]), .plan = steal(gang->plan[i]) };
		if (!bundle[i].request)
			r = error_set(err, -ENOMEM, "no memory for a lease");
	}
	if (r == 0)
		r = hold(m, res, bundle, gang->n, seconds, req->uid, err);
	for (size_t i = 0; i < gang->n; i++) { /* NULL if they were taken */
		json_object_put(bundle[i].request);
		plan_free(bundle[i].plan);
	}
	return r;
}

/* {"bundles": [request, ...]} */
static int plan_bundles(struct manager *m, json_object *body, unsigned seconds, const struct api_request *req,
			struct api_response *res, struct error *err)
{
	json_object *list = json_object_object_get(body, "bundles");
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0, read = 0;
	struct plan_request request[LEASE_BUNDLES_MAX];
	auto_(plan_gang_free) struct plan_gang *gang = NULL;
	int r = 0;

	if (n < 1 || n > LEASE_BUNDLES_MAX || json_object_object_length(body) != 1)
		return error_set(err, -EINVAL, "request.bundles must be a list of 1 to %d requests, with nothing but lease_seconds beside it",
				 LEASE_BUNDLES_MAX);
	for (; read < n && r == 0; read += r == 0) {
		r = plan_request_read_shaped(&request[read], json_object_array_get_idx(list, read), &m->conf, err);
		if (r < 0)
			(void)error_prefix(err, "bundle %zu", read);
	}
	if (r == 0)
		r = planner_take_gang(m, &gang, req, request, n, seconds, err);
	if (r == 0)
		r = methods_match(m, req, err);
	methods_tag(m, res);
	if (r == 0)
		r = answer_gang(m, gang, request, seconds, req, res, err);
	for (size_t i = 0; i < read; i++)
		plan_request_done(&request[i]);
	return r;
}

/* ---- handlers --------------------------------------------------------------------------------------- */

int plans_post(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(json_object_put) json_object *body = NULL;
	struct manager *m = self;
	uint64_t seconds = 0;
	int r = planner_waits(m, req, err);

	res->wait = API_WAIT_MAX;
	if (r == 0)
		r = read_body(&body, req, err);
	if (r == 0)
		r = take_number(&seconds, body, "lease_seconds", LEASE_SECONDS_MAX, err);
	if (r == 0 && seconds)
		r = leases_room(&m->leases, req->uid, now_usec(), err);
	if (r != 0)
		return r;
	return (json_object_object_get_ex(body, "bundles", NULL) ? plan_bundles : plan_request)(m, body, (unsigned)seconds, req, res, err);
}

static int begin_count(struct manager *m, const struct api_request *req, struct error *err)
{
	struct arena arena = { 0 };
	struct plan_input in;
	int r = current_catch_up(m->now, CURRENT_PLAN, req->mark, err);

	if (r == 0)
		r = planner_input(m, &in, &arena, err);
	if (r == 0)
		capacity_count(m->capacity, &in, &arena, clock_usec(CLOCK_MONOTONIC));
	arena_done(&arena);
	return r;
}

int plans_capacity(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	int r = capacity_get(m->capacity, &res->body, req->came, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (req->late)
		return error_set(err, -ETIMEDOUT, "what fits was not counted within %d seconds; ask again, or have fewer [plan] shapes", API_WAIT_MAX);
	if (!capacity_counts(m->capacity))
		r = begin_count(m, req, err);
	res->wait = API_WAIT_MAX;
	return r < 0 ? r : API_WAIT;
}

static int answer(struct api_response *res, json_object *o, struct error *err)
{
	res->body = o;
	return o ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
}

int plans_list(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;

	return answer(res, leases_json(&m->leases, req->uid, now_usec()), err);
}

int plans_get(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct lease *lease = NULL;
	int r = leases_find(&m->leases, &lease, req->param, req->uid, now_usec(), err);

	return r < 0 ? r : answer(res, lease_json(lease), err);
}

/* Answers what was released. */
int plans_delete(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct lease *lease = NULL;
	int r = leases_find(&m->leases, &lease, req->param, req->uid, now_usec(), err);

	if (r == 0)
		r = answer(res, lease_json(lease), err);
	if (r == 0)
		leases_drop(&m->leases, lease);
	return r;
}
