/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/call.h"

#include <errno.h>
#include <json-c/json.h>
#include <microhttpd.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "api/server.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

int call_over_limit(struct error *err)
{
	return error_set(err, -EUSERS, "this user has too much under way: at most %d connections, %d requests and %d MiB; "
			 "try again in a second", API_UID_CONNECTIONS_MAX, API_UID_REQUESTS_MAX, API_UID_BYTES_MAX >> 20);
}

/* What the handler made; it may be more than its user may have. */
static void take_response(const struct call_env *env, struct call *call, const struct api_response *res)
{
	const char *text = api_answer_text(res);
	struct error err = ERROR_INIT;
	size_t len = text ? strlen(text) : 0;

	if (!api_peer_hold(env->peers, call->peer, len)) {
		(void)call_over_limit(&err);
		api_answer_problem(&call->answer, &err, NULL, NULL, NULL);
		return;
	}
	call->held += len;
	if (res->number && !call->route && len <= API_KEPT_BYTES_MAX) /* one of a batch is sent later */
		api_answer_keep(&call->answer, env->kept, res);
	else
		api_answer_make(&call->answer, res, text);
}

/* "application/json", perhaps with parameters */
static bool is_json(const char *type)
{
	static const char json[] = "application/json";

	return strncasecmp(type, json, strlen(json)) == 0 && strchr("; \t", type[strlen(json)]);
}

struct query {
	struct api_request     *req;
	const struct api_route *route;
	struct error           *err;
};

static enum MHD_Result on_query(void *self, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct query *q = self;

	(void)kind;
	return api_query_set(q->req, q->route, name, value, q->err) < 0 ? MHD_NO : MHD_YES;
}

static const char *header(const struct call *call, const char *name)
{
	return MHD_lookup_connection_value(call->mhd, MHD_HEADER_KIND, name);
}

static int read_request(struct api_request *req, struct call *call, const struct api_route *route, struct error *err)
{
	const char *type = header(call, MHD_HTTP_HEADER_CONTENT_TYPE);
	struct query q = { req, route, err };
	uint64_t now;

	if (call->over)
		return call_over_limit(err);
	if (call->too_large)
		return error_set(err, -E2BIG, "the body is over the limit of %d bytes", API_BODY_MAX);
	if (call->body.failed)
		return error_set(err, -ENOMEM, "no memory for the body");
	if (call->body.len && type && !is_json(type))
		return error_set(err, -EINVAL, "Content-Type is \"%.60s\"; send application/json", type);
	(void)MHD_get_connection_values(call->mhd, MHD_GET_ARGUMENT_KIND, on_query, &q);
	req->body = call->body.text ? call->body.text : "";
	req->body_len = call->body.len;
	req->uid = call->peer->of->uid;
	req->if_match = header(call, MHD_HTTP_HEADER_IF_MATCH);
	req->key = header(call, "Idempotency-Key");
	now = clock_usec(CLOCK_MONOTONIC);
	call->came = call->came ? call->came : now;
	req->came = call->came;
	req->id = call->id;
	req->mark = &call->mark;
	req->late = call->until && now >= call->until;
	return err->code;
}

static int check_upgrade(const struct call *call, const struct api_route *route, struct error *err)
{
	const char *to = header(call, MHD_HTTP_HEADER_UPGRADE);

	if (!route->upgrade || (to && strcasecmp(to, route->upgrade) == 0))
		return 0;
	return error_set(err, -EINVAL, "%s is no document: send Connection: Upgrade and Upgrade: %s", route->path, route->upgrade);
}

/* A key that is not heeded would make its client believe that asking again is safe. */
static int begin_key(const struct call_env *env, const struct api_route *route, const struct api_request *req,
		     struct api_response *res, struct error *err)
{
	if (route->keyed)
		return env->keys->begin(env->self, req, res, err);
	if (strcmp(route->method, MHD_HTTP_METHOD_GET) == 0)
		return 0;
	return error_set(err, -EINVAL, "%s begins no operation, and takes no Idempotency-Key; leave it out", route->path);
}

/* Nor must one believe that what it looked at is what it changes. */
static int check_match(const struct api_route *route, const struct api_request *req, struct error *err)
{
	if (!req->if_match || route->matched || strcmp(route->method, MHD_HTTP_METHOD_GET) == 0)
		return 0;
	return error_set(err, -EINVAL, "%s %s changes nothing that has a generation, and takes no If-Match; leave it out", route->method, route->path);
}

/* A handler that fails without a sentence is a bug; the client still gets a problem, not "null". */
static int call_handler(const struct call_env *env, const struct api_route *route, const struct api_request *req,
			struct api_response *res, struct error *err)
{
	int r = check_match(route, req, err);

	if (r == 0 && req->key)
		r = begin_key(env, route, req, res, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = route->handle(env->self, req, res, err);
	if (req->key && route->keyed)
		env->keys->end(env->self);
	if (r < 0 && err->code == 0)
		(void)error_set(err, r, "%s failed: %s", route->path, strerror(-r));
	if (r >= 0)
		*err = ERROR_INIT; /* it may have tried something and done without */
	return r;
}

int call_ask(struct call *call, const struct call_env *env, const struct api_route *route, struct api_request *req, unsigned *seconds)
{
	struct api_response res = { .status = 200 };
	struct error err = ERROR_INIT;
	int r = read_request(req, call, route, &err);

	if (r == 0)
		r = check_upgrade(call, route, &err);
	if (r == 0)
		r = call_handler(env, route, req, &res, &err);
	*seconds = res.wait;
	if (r > 0)
		return r;
	call->peer->since = clock_usec(CLOCK_MONOTONIC); /* it has that long to take the answer */
	if (err.code < 0)
		api_answer_problem(&call->answer, &err, steal(res.reasons), res.location, NULL);
	else if (!route->upgrade)
		take_response(env, call, &res);
	json_object_put(res.body);
	json_object_put(res.reasons);
	return 0;
}
