/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One short function per method. They run on the loop; who needs the machine to be read waits as a request. */
#include "velad/methods.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "check/check.h"
#include "guest/guest.h"
#include "host/inventory.h"
#include "instance/instance.h"
#include "plan/plan.h"
#include "plan/routes.h"
#include "topo/path.h"
#include "topo/topo.h"
#include "velad/acs.h"
#include "velad/console.h"
#include "velad/current.h"
#include "velad/images.h"
#include "velad/life.h"
#include "velad/manager.h"
#include "velad/metrics.h"
#include "velad/operations.h"
#include "velad/planner.h"
#include "velad/plans.h"
#include "velad/pool.h"
#include "velad/renew.h"

#define LIST_MAX 1000 /* of a page */

static const char openapi[] =
#include "openapi.inc"
	;

/* Takes o; NULL is out of memory. */
static int answer(struct api_response *res, json_object *o, struct error *err)
{
	res->body = o;
	return o ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
}

static void generation_tag(struct api_response *res, uint64_t generation)
{
	(void)snprintf(res->etag, sizeof(res->etag), "%llu", (unsigned long long)generation);
}

int methods_read(struct manager *m, int r, const struct api_request *req, struct api_response *res, struct error *err)
{
	if (r != CURRENT_WAIT)
		return r;
	res->wait = API_WAIT_MAX;
	return req->late ? current_too_slow(m->now, err) : API_WAIT;
}

int methods_catch_up(struct manager *m, enum current_need need, const struct api_request *req, struct api_response *res, struct error *err)
{
	return methods_read(m, current_catch_up(m->now, need, req->mark, err), req, res, err);
}

void methods_tag(struct manager *m, struct api_response *res)
{
	generation_tag(res, topo_generation(current_topo(m->now)));
}

int methods_match(struct manager *m, const struct api_request *req, struct error *err)
{
	struct api_response now;

	methods_tag(m, &now);
	return api_if_match(req, now.etag, "the generation of the topology", err);
}

int methods_expect(struct manager *m, const struct api_request *req, struct error *err)
{
	struct api_response now;
	struct inst_text is = { 0 };
	int r = req->if_match ? inst_text(m->instances, &is, req->param, err) : 0;

	generation_tag(&now, is.generation);
	if (r == 0)
		r = api_if_match(req, now.etag, "the generation of this instance", err);
	inst_expect(m->instances, r == 0 && req->if_match ? req->param : NULL, is.generation);
	return r;
}

static int get_openapi(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self;
	(void)req;
	(void)err;
	res->text = openapi;
	return 0;
}

static int get_host(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	int r = methods_catch_up(m, CURRENT_HOST, req, res, err);

	return r != 0 ? r : answer(res, topo_host_json(current_topo(m->now)), err);
}

/* Who holds each function, into the nodes of the document. */
static int add_owners(struct manager *m, json_object *doc, struct error *err)
{
	json_object *nodes = json_object_object_get(doc, "nodes");
	autofree const char **owner = calloc(topo_count(current_topo(m->now)) + 1, sizeof(*owner));
	const struct plan_taken *taken = NULL;
	struct arena arena = { 0 };
	size_t n = 0;
	int r = owner ? planner_taken(m, &taken, &n, &arena, err) : error_set(err, -ENOMEM, "no memory for the answer");

	for (size_t k = 0; r == 0 && k < n; k++) {
		uint32_t at = topo_find(current_topo(m->now), taken[k].bdf);

		if (at != TOPO_NONE)
			owner[at] = taken[k].owner;
	}
	for (size_t i = 0; r == 0 && i < json_object_array_length(nodes); i++) {
		struct json_out o = { .obj = json_object_array_get_idx(nodes, i) };

		json_add_string(&o, "owner", owner[i]);
		if (o.failed)
			r = error_set(err, -ENOMEM, "no memory for the answer");
	}
	arena_done(&arena);
	return r;
}

static int get_topology(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	int r = methods_catch_up(m, CURRENT_TOPOLOGY, req, res, err);

	if (r == 0)
		r = answer(res, topo_json(current_topo(m->now)), err);
	methods_tag(m, res);
	return r != 0 ? r : add_owners(m, res->body, err);
}

static int get_routes(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	int r = methods_catch_up(m, CURRENT_CONTROLS, req, res, err);

	return r != 0 ? r : plan_routes_json(&res->body, current_topo(m->now), err);
}

/* "A,B": OpenAPI's style for an array in a path (RFC 6570, 3.2.2) */
static int two_functions(struct bdf *a, struct bdf *b, const char *param, struct error *err)
{
	char text[API_PARAM_MAX], *comma;

	(void)snprintf(text, sizeof(text), "%s", param);
	comma = strchr(text, ',');
	if (comma)
		*comma = '\0';
	if (!comma || !bdf_parse(a, text) || !bdf_parse(b, comma + 1))
		return error_set(err, -EINVAL, "\"%s\" is not two PCI addresses: say 0000:4c:00.0,0000:4d:00.0", param);
	return 0;
}

/* What lies between two functions; make is topo's or plan's. */
static int get_between(struct manager *m, const struct api_request *req, struct api_response *res,
		       int (*make)(json_object **, const struct topo *, struct bdf, struct bdf, struct error *),
		       struct error *err)
{
	struct bdf a, b;
	int r = two_functions(&a, &b, req->param, err);

	if (r == 0)
		r = methods_catch_up(m, CURRENT_CONTROLS, req, res, err);
	return r != 0 ? r : make(&res->body, current_topo(m->now), a, b, err);
}

static int get_path(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	return get_between(self, req, res, topo_path_json, err);
}

static int get_route(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	return get_between(self, req, res, plan_route_json, err);
}

/* What libvirt said, for the rules. */
static int find_strangers(struct manager *m, struct check_input *in, struct arena *arena, struct error *err)
{
	struct check_stranger *all;
	struct inst_foreign *f = NULL;
	bool known = false;
	size_t n = 0;
	int r = inst_foreign(m->instances, &f, &n, &known, arena, err);

	if (r < 0)
		return r;
	all = arena_array(arena, n, sizeof(*all));
	for (size_t i = 0; all && i < n; i++)
		all[i] = (struct check_stranger){ f[i].bdf, f[i].domain, f[i].runs };
	in->asked = known ? CHECK_ASKED : CHECK_ASKED_IN_VAIN;
	in->stranger = all;
	in->nstrangers = n;
	return all ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
}

static int get_checks(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(check_report_free) struct check_report *report = NULL;
	struct manager *m = self;
	struct arena arena = { 0 };
	struct check_input in = { 0 };
	struct error ignored = ERROR_INIT;
	int r = methods_catch_up(m, CURRENT_ALL, req, res, err);

	if (r != 0)
		return r;
	in.topo = current_topo(m->now);
	(void)manager_libvirt(m, &ignored); /* then QEMU's version is unknown */
	in.qemu = m->offer.qemu;
	r = find_strangers(m, &in, &arena, err);
	if (r == 0)
		r = check_host(&report, &in, err);
	r = r < 0 ? r : answer(res, check_json(report), err);
	if (r == 0) {
		struct json_out o = { .obj = res->body };
		struct error away = ERROR_INIT;

		json_add_string(&o, "helper", act_machine_helper(m->machine, false, &away) < 0 ? away.text : NULL);
		json_add_string(&o, "scrub", *m->conf.scrub == '/' ? m->conf.scrub : "not configured");
		r = o.failed ? error_set(err, -ENOMEM, "no memory for the answer") : 0;
	}
	arena_done(&arena);
	return r;
}

static int get_changes(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	uint64_t since = 0;

	if (parse_uint(&since, req->param, 10, INT64_MAX) < 0)
		return error_set(err, -EINVAL, "\"%s\" is no generation; generations are numbers", req->param);
	return current_changes(m->now, &res->body, since, err);
}

#define LIBVIRT_SECONDS 60 /* it asks each QEMU what that can, before its first answer after a boot */

/* ---- instances -------------------------------------------------------------------------------------- */

static int refuse(const struct plan *plan, struct api_response *res, struct error *err)
{
	size_t n = plan->nreasons;
	const struct plan_reason *last = n ? &plan->reason[n - 1] : NULL;

	res->reasons = plan_reasons_json(plan->reason, plan->nreasons);
	return error_set(err, -ENOSPC, "the request does not fit on this host: %s%s%s; needed: %s",
			 last ? last->device : "", last && *last->device ? ": " : "",
			 last ? last->observed : "no bundle", last ? last->needed : "a smaller request");
}

void methods_location(struct api_response *res, uint64_t op)
{
	(void)snprintf(res->location, sizeof(res->location), "/v1/operations/%llu", (unsigned long long)op);
}

int methods_operation(struct manager *m, struct api_response *res, uint64_t op, struct error *err)
{
	res->status = 202;
	methods_location(res, op);
	return inst_op_json(m->instances, &res->body, op, err);
}

/* inst_create() checks again, in its transaction; here the caller learns it before the plan matters. */
static int check_name(struct manager *m, const char *name, struct error *err)
{
	auto_(json_object_put) json_object *o = NULL;
	struct error ignore = ERROR_INIT;

	if (inst_json(m->instances, &o, name, &ignore) < 0)
		return 0; /* not there, or the store fails, which inst_create() will say */
	return error_set(err, -EEXIST, "there is an instance %s already; choose another name, or delete it first", name);
}

static int plan_instance(struct manager *m, struct plan **ret, const struct plans_body *body, const struct api_request *req,
			 struct api_response *res, struct error *err)
{
	const struct plan_request *request = &body->request;
	auto_(plan_free) struct plan *plan = NULL;
	int r;

	if (!*request->name)
		return error_set(err, -EINVAL, "request lacks the key \"name\"");
	r = check_name(m, request->name, err);
	if (r == 0)
		r = body->lease ? renew_plan(m, &plan, request, body->lease, body->bundle, req, res, err) :
				  planner_make(m, &plan, request, NULL, 0, req->mark, err);
	r = methods_read(m, r, req, res, err);
	if (r == 0 && !plan->fits)
		r = refuse(plan, res, err);
	if (r == 0)
		*ret = steal(plan);
	return r;
}

/* A velad that has just been started waits for libvirt's first answer; that is, the request does. */
int methods_ask_libvirt(struct manager *m, const struct api_request *req, struct api_response *res, struct error *err)
{
	int r = manager_libvirt(m, err);

	if (r != -EAGAIN)
		return r;
	res->wait = LIBVIRT_SECONDS;
	return req->late ? (err->code = -EREMOTEIO) : API_WAIT;
}

int methods_guest(struct manager *m, struct plan *plan, const struct plan_request *request, const char *uuid, struct api_response *res,
		  struct error *err)
{
	struct guest_dirs dirs;
	int r = plan->fits ? images_dirs(m, &dirs, request, err) : refuse(plan, res, err);

	if (r == 0 && plan_identify(plan, uuid) < 0)
		r = error_set(err, -ENOMEM, "no memory for the addresses of VFs");
	if (r == 0)
		r = guest_plan_xml(plan, request, current_topo(m->now), m->offer.type, uuid, &dirs, err);
	if (r == 0 && !plan->fits)
		r = refuse(plan, res, err);
	return r < 0 ? r : guest_rank_json(&plan->rank_map, plan, current_topo(m->now), err);
}

static int create(struct manager *m, const struct plans_body *body, const struct api_request *req, struct api_response *res,
		  struct error *err)
{
	const struct plan_request *request = &body->request;
	auto_(plan_free) struct plan *plan = NULL;
	char uuid[SD_ID128_UUID_STRING_MAX];
	sd_id128_t id;
	uint64_t op;
	int r = plan_instance(m, &plan, body, req, res, err);

	if (r == 0)
		r = methods_match(m, req, err); /* planning has read the machine once more */
	if (r == 0)
		r = methods_ask_libvirt(m, req, res, err);
	if (r != 0)
		return r;
	r = sd_id128_randomize(&id);
	if (r < 0)
		return error_set(err, r, "cannot make a uuid: %s", strerror(-r));
	r = methods_guest(m, plan, request, sd_id128_to_uuid_string(id, uuid), res, err);
	if (r == 0)
		r = (body->start ? inst_create : inst_reserve)(m->instances, &op, request, plan, uuid, err);
	if (r == 0 && body->lease) /* which is used up when that is sure */
		r = inst_batch_commit(m->instances, err);
	if (r == 0 && body->lease)
		plans_used(m, body->lease, body->bundle);
	return r < 0 ? r : methods_operation(m, res, op, err);
}

#define POOL_SECONDS 30 /* usually it takes one or two; one port that hangs is no reason to wait for the others */

/* What is planned while the pool is made would be of a machine that is no more when its steps look: the request waits for its end. */
static int ask_pool(struct manager *m, const struct api_request *req, struct api_response *res, struct error *err)
{
	bool busy = false;
	int r = inst_pool_busy(m->instances, &busy, err);

	if (r < 0 || !busy || req->late)
		return r;
	res->wait = POOL_SECONDS;
	return API_WAIT;
}

static int post_instances(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct plans_body body;
	int r = plans_read(m, &body, req, err);

	if (r < 0)
		return r;
	r = ask_pool(m, req, res, err);
	if (r == 0)
		r = methods_read(m, current_catch_up_for(m->now, req->came, inst_news(m->instances), req->mark, err), req, res, err);
	if (r == 0)
		r = create(m, &body, req, res, err);
	plan_request_done(&body.request);
	return r;
}

static int get_instances(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	enum { STATE, TAG, AFTER, LIMIT, VIEW };
	char tag[API_PARAM_MAX], *value;
	struct inst_filter f = { 0 };
	struct manager *m = self;
	const char *const *q = (const char *const[]){ req->query[0], req->query[1], req->query[2], req->query[3], req->query[4] };
	uint64_t limit = 0;

	if (*q[LIMIT] && (parse_uint(&limit, q[LIMIT], 10, LIST_MAX) < 0 || limit == 0))
		return error_set(err, -EINVAL, "limit=%s is no number from 1 to %d; leave it out for all", q[LIMIT], LIST_MAX);
	if (*q[VIEW] && strcmp(q[VIEW], "brief") != 0)
		return error_set(err, -EINVAL, "view=%s is unknown; say brief, or leave it out for whole documents", q[VIEW]);
	f.brief = *q[VIEW];
	if (!*q[STATE] && !*q[TAG] && !*q[AFTER] && !limit)
		return inst_list_text(m->instances, &res->text, f.brief, err);
	(void)snprintf(tag, sizeof(tag), "%s", q[TAG]);
	value = strchr(tag, '=');
	if (value)
		*value++ = '\0';
	f.state = *q[STATE] ? q[STATE] : NULL;
	f.tag = *tag || value ? tag : NULL;
	f.value = value;
	f.after = *q[AFTER] ? q[AFTER] : NULL;
	f.limit = limit;
	return inst_list_json(m->instances, &res->body, &f, err);
}

static int get_instance(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct inst_text is = { 0 };
	int r = inst_text(m->instances, &is, req->param, err);

	res->text = is.text;
	res->number = is.number;
	generation_tag(res, is.generation);
	return r;
}

static int get_nccl(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;

	return inst_nccl_json(m->instances, &res->body, req->param, err);
}

/* From the machine's id, which nobody else has, and the tenant's name (FNV-1a): another tenant has another. */
static const char *host_of_tenant(char ret[33], const char *tenant)
{
	sd_id128_t app = SD_ID128_MAKE(5b,8f,31,3e,0c,6d,4b,0f,0a,0e,7c,5d,9a,41,22,d7), id;
	uint64_t h = 0xcbf29ce484222325;

	for (; *tenant; tenant++)
		h = (h ^ (unsigned char)*tenant) * 0x100000001b3;
	app.qwords[0] ^= h;
	return sd_id128_get_machine_app_specific(app, &id) < 0 ? NULL : sd_id128_to_string(id, ret);
}

static const char *unless_none(const char *word)
{
	return strcmp(word, "none") == 0 ? NULL : word;
}

static int get_rank(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	const struct inst_where where = {
		.rack = unless_none(m->conf.rack), .tenant_rack = unless_none(m->conf.rack_alias),
		.host = *m->host_name ? m->host_name : NULL, .tenant_host = host_of_tenant,
	};

	return inst_rank_json(m->instances, &res->body, req->param, &where, err);
}

static int delete_instance(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	uint64_t op;
	int r = methods_expect(m, req, err);

	if (r == 0)
		r = inst_delete(m->instances, &op, req->param, err);
	return r < 0 ? r : methods_operation(m, res, op, err);
}

static void batch_begin(void *self)
{
	struct manager *m = self;

	inst_batch_begin(m->instances);
}

static uint64_t batch_mark(void *self)
{
	struct manager *m = self;

	return inst_batch_mark(m->instances);
}

static int batch_end(void *self, uint64_t *failed, struct error *err)
{
	struct manager *m = self;

	return inst_batch_end(m->instances, failed, err);
}

const struct api_batch methods_batch = { batch_begin, batch_mark, batch_end };

const struct api_route velad_routes[] = {
	{ "GET", "/v1/openapi.json", get_openapi },
	{ "GET", "/metrics", metrics_get },
	{ "GET", "/v1/host", get_host },
	{ "GET", "/v1/topology", get_topology },
	{ "GET", "/v1/topology/paths/{functions}", get_path },
	{ "GET", "/v1/routes", get_routes },
	{ "GET", "/v1/routes/{functions}", get_route },
	{ "GET", "/v1/acs", acs_get },
	{ "POST", "/v1/acs/apply", acs_post_apply, .keyed = true, .matched = true },
	{ "POST", "/v1/acs/restore", acs_post_restore, .keyed = true },
	{ "GET", "/v1/pool", pool_get },
	{ "POST", "/v1/pool/apply", pool_post_apply, .keyed = true, .matched = true },
	{ "POST", "/v1/pool/release", pool_post_release, .keyed = true },
	{ "GET", "/v1/checks", get_checks },
	{ "GET", "/v1/acs/exclusive", acs_get_exclusive },
	{ "GET", "/v1/changes/{since}", get_changes },
	{ "GET", "/v1/capacity", plans_capacity },
	{ "POST", "/v1/plans", plans_post, .matched = true },
	{ "GET", "/v1/plans", plans_list },
	{ "GET", "/v1/plans/{id}", plans_get },
	{ "DELETE", "/v1/plans/{id}", plans_delete },
	{ "POST", "/v1/instances", post_instances, .keyed = true, .matched = true, .batched = true },
	{ "GET", "/v1/instances", get_instances, .query = { "state", "tag", "after", "limit", "view" } },
	{ "GET", "/v1/instances/{name}", get_instance },
	{ "GET", "/v1/instances/{name}/nccl-topology", get_nccl },
	{ "GET", "/v1/instances/{name}/rank-map", get_rank },
	{ "GET", "/v1/instances/{name}/console", console_get, .query = { "force" }, .upgrade = CONSOLE_PROTOCOL,
	  .upgraded = console_upgraded },
	{ "GET", "/v1/instances/{name}/log", console_get_log, .query = { "after", "lines", "wait" } },
	{ "POST", "/v1/instances/{name}/start", life_start, .keyed = true, .matched = true },
	{ "POST", "/v1/instances/{name}/stop", life_stop, .keyed = true, .matched = true },
	{ "POST", "/v1/instances/{name}/reboot", life_reboot, .keyed = true, .matched = true },
	{ "POST", "/v1/instances/{name}/reset", life_reset, .keyed = true, .matched = true },
	{ "DELETE", "/v1/instances/{name}", delete_instance, .keyed = true, .matched = true, .batched = true },
	{ "GET", "/v1/operations", operations_list, .query = { "instance", "state", "before", "limit" } },
	{ "GET", "/v1/operations/{id}", operations_get, .query = { "wait" } },
	{ "POST", "/v1/operations/{id}/cancel", operations_cancel },
	{ "GET", "/v1/quarantine", life_get_quarantine },
	{ "POST", "/v1/quarantine", life_post_quarantine },
	{ "DELETE", "/v1/quarantine/{bdf}", life_delete_quarantine, .keyed = true },
	{ "GET", "/v1/images", images_list },
	{ "POST", "/v1/images", images_post },
	{ "GET", "/v1/images/{name}", images_get },
	{ "DELETE", "/v1/images/{name}", images_delete },
	{ 0 },
};
