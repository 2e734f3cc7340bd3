/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libmicrohttpd without threads of its own: its epoll descriptor is one source of the sd-event loop, its
 * next time-out another. A response is queued only once the request is complete; queued on the first call
 * of the handler, it would close the connection. */
#include "api/server.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "api/peers.h"
#include "api/upgrade.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/sbuf.h"

#define RETRY_SECONDS "1" /* with every 503 */
#define TRIM_BYTES    ((size_t)1 << 20)

struct api_server {
	struct MHD_Daemon      *mhd;   /* owned */
	sd_event_source        *io;    /* owned: MHD's epoll descriptor */
	sd_event_source        *timer; /* owned */
	uint64_t                armed; /* when the timer fires; 0: it does not */
	sd_event               *event; /* borrowed */
	const struct api_route *routes;
	const struct api_keys  *keys;
	void                   *self;
	struct api_peers        peers;
	struct call            *waiting; /* first of those whose handlers wait */
	uint64_t                refused; /* of peers, when it was looked for clients that are gone */
	uint64_t                requests; /* so far */
	struct api_stats        stats;
	size_t                  sent; /* bytes of answers, since the heap was trimmed */
};

/* One request, from its headers to the last byte of the answer. */
struct call {
	struct upgrade         upgrade; /* first: on_upgrade() gets the call */
	struct sbuf            body;
	struct api_peer       *peer;  /* borrowed: a connection outlives its requests */
	struct MHD_Connection *mhd;   /* borrowed, likewise */
	size_t                 held;  /* bytes of it that its user answers for */
	uint64_t               id;
	uint64_t               came;  /* when its handler was called first; 0: not yet */
	uint64_t               until; /* it waits, at the latest until then; 0: it has not waited yet */
	struct call           *next;  /* that waits */
	bool                   too_large, over; /* its body; its user's bytes */
	bool                   gone;  /* its client, while it waited */
};

/* The timer is left alone as long as it does not fire too late: a client in a hurry costs no system calls of it. */
static int arm(struct api_server *s, uint64_t at)
{
	int r;

	if (s->armed && at && s->armed <= at)
		return 0;
	s->armed = at;
	r = at ? sd_event_source_set_time(s->timer, at) : 0;
	return r < 0 ? r : sd_event_source_set_enabled(s->timer, at ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

/* ---- answers -------------------------------------------------------------------------------------- */

struct answer {
	int         status;
	const char *type, *text;
	const char *location, *allow, *etag; /* NULL or "": none */
};

static bool add_header(struct MHD_Response *r, const char *name, const char *value)
{
	return !value || !*value || MHD_add_response_header(r, name, value) == MHD_YES;
}

static bool add_headers(struct MHD_Response *r, const struct answer *a)
{
	char tag[sizeof(((struct api_response *)NULL)->etag) + 2] = "";

	if (a->etag && *a->etag)
		(void)snprintf(tag, sizeof(tag), "\"%s\"", a->etag);
	return add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type) && add_header(r, MHD_HTTP_HEADER_LOCATION, a->location) &&
	       add_header(r, MHD_HTTP_HEADER_ALLOW, a->allow) && add_header(r, MHD_HTTP_HEADER_ETAG, tag) &&
	       add_header(r, MHD_HTTP_HEADER_RETRY_AFTER, a->status == 503 ? RETRY_SECONDS : NULL);
}

static enum MHD_Result send_answer(struct api_server *s, struct MHD_Connection *c, const struct answer *a)
{
	struct MHD_Response *r = NULL;
	enum MHD_Result ok = MHD_NO;

	if (a->text) /* NULL: json-c had no memory for it */
		r = MHD_create_response_from_buffer(strlen(a->text), (void *)(uintptr_t)a->text, MHD_RESPMEM_MUST_COPY);
	if (!r)
		return MHD_NO; /* the connection closes */
	if (add_headers(r, a))
		ok = MHD_queue_response(c, (unsigned)a->status, r);
	MHD_destroy_response(r);
	s->sent += strlen(a->text);
	s->stats.answers[a->status / 100 % ARRAY_SIZE(s->stats.answers)]++;
	return ok;
}

static const char *plain_text(json_object *o)
{
	return json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* Takes reasons. */
static enum MHD_Result send_problem(struct api_server *s, struct MHD_Connection *c, const struct error *err,
				    json_object *reasons, const char *location, const char *allow)
{
	auto_(json_object_put) json_object *o = api_problem(err, reasons);

	if (!o)
		return MHD_NO; /* no memory: the connection closes */
	return send_answer(s, c, &(struct answer){ .status = api_error_of(err->code)->status, .type = "application/problem+json",
						   .text = plain_text(o), .location = location, .allow = allow });
}

static int over_limit(struct error *err)
{
	return error_set(err, -EUSERS, "this user has too much under way: at most %d connections, %d requests and %d MiB; "
			 "try again in a second", API_UID_CONNECTIONS_MAX, API_UID_REQUESTS_MAX, API_UID_BYTES_MAX >> 20);
}

/* What the handler made; it may be more than its user may have. */
static enum MHD_Result send_response(struct api_server *s, struct call *call, const struct api_response *res)
{
	struct answer a = { .status = res->status, .type = res->type ? res->type : "application/json",
			    .text = res->text ? res->text : plain_text(res->body), .location = res->location, .etag = res->etag };
	struct error err = ERROR_INIT;
	size_t len = a.text ? strlen(a.text) : 0;

	if (!api_peer_hold(&s->peers, call->peer, len)) {
		(void)over_limit(&err);
		return send_problem(s, call->mhd, &err, NULL, NULL, NULL);
	}
	call->held += len;
	return send_answer(s, call->mhd, &a);
}

/* ---- requests ------------------------------------------------------------------------------------- */

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
		return over_limit(err);
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
static int begin_key(struct api_server *s, const struct api_route *route, const struct api_request *req,
		     struct api_response *res, struct error *err)
{
	if (route->keyed)
		return s->keys->begin(s->self, req, res, err);
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
static int call_handler(struct api_server *s, const struct api_route *route, const struct api_request *req,
			struct api_response *res, struct error *err)
{
	int r = check_match(route, req, err);

	if (r == 0 && req->key)
		r = begin_key(s, route, req, res, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = route->handle(s->self, req, res, err);
	if (req->key && route->keyed)
		s->keys->end(s->self);
	if (r < 0 && err->code == 0)
		(void)error_set(err, r, "%s failed: %s", route->path, strerror(-r));
	if (r >= 0)
		*err = ERROR_INIT; /* it may have tried something and done without */
	return r;
}

/* It is asked again in api_server_wake(), or when its time is over; until then it costs nothing. */
static enum MHD_Result wait_for(struct api_server *s, struct call *call, unsigned seconds)
{
	if (!call->until)
		call->until = clock_usec(CLOCK_MONOTONIC) + (uint64_t)seconds * 1000000;
	call->next = s->waiting;
	s->waiting = call;
	call->peer->waits = true;
	MHD_suspend_connection(call->mhd);
	return arm(s, call->until) < 0 ? MHD_NO : MHD_YES;
}

static enum MHD_Result handle(struct api_server *s, const struct api_route *route, struct api_request *req, struct call *call)
{
	struct api_response res = { .status = 200 };
	struct error err = ERROR_INIT;
	enum MHD_Result sent;
	int r = read_request(req, call, route, &err);

	if (r == 0)
		r = check_upgrade(call, route, &err);
	if (r == 0)
		r = call_handler(s, route, req, &res, &err);
	if (r > 0)
		return wait_for(s, call, res.wait);
	call->peer->since = clock_usec(CLOCK_MONOTONIC); /* it has that long to take the answer */
	if (err.code < 0)
		sent = send_problem(s, call->mhd, &err, steal(res.reasons), res.location, NULL);
	else if (route->upgrade)
		sent = api_upgrade_send(&call->upgrade, call->mhd, route, req, s->self);
	else
		sent = send_response(s, call, &res);
	json_object_put(res.body);
	json_object_put(res.reasons);
	return sent;
}

static enum MHD_Result answer(struct api_server *s, const char *method, const char *url, struct call *call)
{
	struct api_request req = { .method = method, .path = url };
	const struct api_route *route;
	struct error err = ERROR_INIT;
	char allow[64];

	if (strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
		req.method = MHD_HTTP_METHOD_GET;
	route = api_route_find(s->routes, req.method, url, req.param, allow);
	if (route)
		return handle(s, route, &req, call);
	if (*allow)
		(void)error_set(&err, -EOPNOTSUPP, "%s does not know %s; it knows %s", url, method, allow);
	else
		(void)error_set(&err, -ENOENT, "there is no %.200s; GET /v1/openapi.json lists what there is", url);
	return send_problem(s, call->mhd, &err, NULL, NULL, allow);
}

/* Whether a body says beforehand that it is too large. Such a request is answered at once; MHD then closes the
 * connection, which is right: nobody wants to read the rest. */
static bool says_too_large(struct MHD_Connection *c)
{
	const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
	uint64_t n = 0;

	return length && (parse_uint(&n, length, 10, UINT64_MAX) < 0 || n > API_BODY_MAX);
}

static enum MHD_Result begin(struct api_server *s, struct MHD_Connection *c, struct call **ret)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct api_peer *peer = info ? info->socket_context : NULL;
	struct error err = ERROR_INIT;

	if (!peer)
		return MHD_NO; /* it was shut down when it came */
	if (says_too_large(c))
		(void)error_set(&err, -E2BIG, "the body is over the limit of %d bytes", API_BODY_MAX);
	else if (!api_peer_begin(&s->peers, peer))
		(void)over_limit(&err);
	if (err.code < 0)
		return send_problem(s, c, &err, NULL, NULL, NULL);
	*ret = calloc(1, sizeof(**ret));
	if (!*ret) {
		api_peer_end(peer, 0, clock_usec(CLOCK_MONOTONIC));
		return MHD_NO;
	}
	(*ret)->peer = peer;
	(*ret)->mhd = c;
	(*ret)->id = ++s->requests;
	return MHD_YES;
}

/* Chunked, no length was said; what comes after a limit is dropped. */
static void take(struct api_server *s, struct call *call, const char *data, size_t size)
{
	call->too_large = call->too_large || call->body.len + size > API_BODY_MAX;
	if (call->too_large || call->over)
		return;
	call->over = !api_peer_hold(&s->peers, call->peer, size);
	if (call->over)
		return;
	call->held += size;
	sbuf_add_bytes(&call->body, data, size);
}

static enum MHD_Result on_request(void *self, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *data, size_t *size, void **state)
{
	struct call *call = *state;

	(void)version;
	if (!call)
		return begin(self, c, (struct call **)state);
	if (call->gone)
		return MHD_NO;
	if (!*size)
		return answer(self, method, url, call);
	take(self, call, data, *size);
	*size = 0;
	return MHD_YES;
}

static void on_completed(void *self, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
	struct call *call = *state;

	(void)self, (void)c, (void)code;
	if (!call)
		return; /* refused at once */
	api_peer_end(call->peer, call->held, clock_usec(CLOCK_MONOTONIC));
	sbuf_done(&call->body);
	free(call);
	*state = NULL;
}

static void on_connection(void *self, struct MHD_Connection *c, void **peer, enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct api_server *s = self;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*peer = info ? api_peer_new(&s->peers, info->connect_fd, clock_usec(CLOCK_MONOTONIC)) : NULL;
	else if (*peer)
		api_peer_free(&s->peers, *peer);
}

/* ---- the loop ------------------------------------------------------------------------------------- */

static unsigned connections(struct api_server *s)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info ? info->num_connections : 0;
}

/* At the connection limit MHD takes the listening socket out of its epoll set, and puts it back at the
 * start of a run that finds room. The run that made the room came too early for that, and no event would
 * ask for another one: so run again whenever a connection ended. */
static bool run_mhd(struct api_server *s)
{
	unsigned before;

	do {
		before = connections(s);
		if (MHD_run(s->mhd) != MHD_YES)
			return false;
	} while (connections(s) < before);
	return true;
}

static bool is_gone(const struct call *call)
{
	char c;

	return recv(call->peer->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Those that wait are asked again: all of them, or those whose time is over or whose client is gone. */
static void resume(struct api_server *s, bool all, uint64_t now)
{
	struct call **at = &s->waiting, *call;

	while ((call = *at)) {
		call->gone = !all && is_gone(call);
		if (!all && !call->gone && call->until > now) {
			at = &call->next;
			continue;
		}
		*at = call->next;
		call->peer->waits = false;
		MHD_resume_connection(call->mhd);
	}
}

/* When something has to be done though nobody says a word. */
static uint64_t next_time(struct api_server *s, uint64_t now)
{
	uint64_t next = api_peers_sweep(&s->peers, now);

	for (const struct call *call = s->waiting; call; call = call->next)
		if (call->until < next)
			next = call->until;
	return next;
}

static int run(struct api_server *s)
{
	MHD_UNSIGNED_LONG_LONG ms;
	uint64_t now;
	int r = 0;

	if (!run_mhd(s))
		return -EIO;
	if (!s->peers.first) {
		if (s->sent > TRIM_BYTES) { /* copies of answers were between what stays */
			(void)malloc_trim(0);
			s->sent = 0;
		}
		return arm(s, 0);
	}
	now = clock_usec(CLOCK_MONOTONIC);
	if (s->refused != s->peers.refused) { /* a socket that waits is not watched, and counts */
		s->refused = s->peers.refused;
		resume(s, false, now);
	}
	if (!s->armed)
		r = arm(s, next_time(s, now));
	if (r >= 0 && MHD_get_timeout(s->mhd, &ms) == MHD_YES) /* it has more to do at once */
		r = arm(s, now + ms * 1000);
	return r;
}

/* A daemon that cannot serve has no reason to go on: its service manager starts another one. */
static void run_or_exit(struct api_server *s)
{
	int r = run(s);

	if (r < 0)
		(void)sd_event_exit(s->event, r);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *self)
{
	(void)source;
	(void)fd;
	(void)events;
	run_or_exit(self);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *self)
{
	struct api_server *s = self;

	(void)source;
	(void)usec;
	s->armed = 0;
	resume(s, false, clock_usec(CLOCK_MONOTONIC));
	run_or_exit(s);
	return 0;
}

void api_server_wake(struct api_server *s)
{
	if (!s->waiting)
		return;
	resume(s, true, 0);
	if (arm(s, 1) < 0) /* at once: MHD's epoll descriptor does not tell of it, and a handler that wakes others is within a run */
		(void)sd_event_exit(s->event, -EIO);
}

const struct api_stats *api_server_stats(struct api_server *s)
{
	s->stats.connections = connections(s);
	s->stats.refused = s->peers.refused;
	return &s->stats;
}

/* In place of MHD's decoding, which ends a path at "%00": api_route_find() wants it as it came. */
static size_t keep_encoded(void *self, struct MHD_Connection *c, char *text)
{
	(void)self;
	(void)c;
	return strlen(text);
}

static int start_mhd(struct api_server *s, int listen_fd, struct error *err)
{
	/* accept(2) must not wait for a client that has gone since epoll told of it */
	if (fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK) < 0)
		return error_set(err, -errno, "cannot use the listening socket: %s", strerror(errno));
	s->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE, 0, NULL, NULL, on_request, s,
				  MHD_OPTION_LISTEN_SOCKET, listen_fd,
				  MHD_OPTION_CONNECTION_LIMIT, (unsigned)API_CONNECTIONS_MAX,
				  MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)API_HEAD_MAX,
				  MHD_OPTION_STRICT_FOR_CLIENT, 1,
				  MHD_OPTION_UNESCAPE_CALLBACK, keep_encoded, NULL,
				  MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
	return s->mhd ? 0 : error_set(err, -EIO, "libmicrohttpd cannot start on the socket");
}

int api_server_new(struct api_server **ret, sd_event *event, int listen_fd, const struct api_route *routes,
		   const struct api_keys *keys, void *self, struct error *err)
{
	auto_(api_server_free) struct api_server *s = calloc(1, sizeof(*s));
	const union MHD_DaemonInfo *info;
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "no memory for the server");
	s->event = event;
	s->routes = routes;
	s->keys = keys;
	s->self = self;
	r = start_mhd(s, listen_fd, err);
	if (r < 0)
		return r;
	info = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return error_set(err, -EIO, "libmicrohttpd has no epoll descriptor");
	r = sd_event_add_io(event, &s->io, info->epoll_fd, EPOLLIN, on_io, s);
	if (r >= 0)
		r = sd_event_add_time(event, &s->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, s);
	if (r < 0)
		return error_set(err, r, "cannot watch the socket: %s", strerror(-r));
	*ret = steal(s);
	return 0;
}

struct api_server *api_server_free(struct api_server *s)
{
	if (s) {
		sd_event_source_disable_unref(s->timer);
		sd_event_source_disable_unref(s->io);
		if (s->mhd) {
			resume(s, true, 0); /* MHD wants no connection suspended */
			MHD_stop_daemon(s->mhd);
		}
		free(s);
	}
	return NULL;
}
