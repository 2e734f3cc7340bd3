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

#include "api/call.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/sbuf.h"

#define TRIM_BYTES ((size_t)1 << 20)
#define BATCH_MAX  16 /* calls; then others have their turn */

struct api_server {
	struct MHD_Daemon      *mhd;   /* owned */
	sd_event_source        *io;    /* owned: MHD's epoll descriptor */
	sd_event_source        *timer; /* owned */
	sd_event_source        *more;  /* owned: what is to be done at once */
	uint64_t                armed; /* when the timer fires; 0: it does not */
	sd_event               *event; /* borrowed */
	const struct api_route *routes;
	struct call_env         env;
	const struct api_batch *batch;
	struct api_peers        peers;
	struct api_kept         kept;
	struct call            *waiting; /* first of those whose handlers wait */
	struct call            *first, **last; /* the next batch, as they came */
	uint64_t                refused; /* of peers, when it was looked for clients that are gone */
	uint64_t                requests; /* so far */
	struct api_stats        stats;
	size_t                  sent; /* bytes of answers, since the heap was trimmed */
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

/* Takes a. No memory for it: the connection closes. */
static enum MHD_Result send_answer(struct api_server *s, struct MHD_Connection *c, struct api_answer *a)
{
	enum MHD_Result ok = a->made ? MHD_queue_response(c, a->status, a->made) : MHD_NO;

	if (a->made) {
		s->sent += a->len;
		s->stats.answers[a->status / 100 % ARRAY_SIZE(s->stats.answers)]++;
	}
	api_answer_done(a);
	return ok;
}

static enum MHD_Result send_problem(struct api_server *s, struct MHD_Connection *c, const struct error *err, const char *allow)
{
	struct api_answer a;

	api_answer_problem(&a, err, NULL, NULL, allow);
	return send_answer(s, c, &a);
}

/* ---- requests ------------------------------------------------------------------------------------- */

/* It is asked again in api_server_wake(), or when its time is over; until then it costs nothing. */
static int wait_for(struct api_server *s, struct call *call, unsigned seconds)
{
	if (!call->until)
		call->until = clock_usec(CLOCK_MONOTONIC) + (uint64_t)seconds * 1000000;
	call->next = s->waiting;
	s->waiting = call;
	call->peer->waits = true;
	return arm(s, call->until);
}

static enum MHD_Result handle(struct api_server *s, const struct api_route *route, struct api_request *req, struct call *call)
{
	unsigned seconds;

	if (call_ask(call, &s->env, route, req, &seconds) > 0) {
		MHD_suspend_connection(call->mhd);
		return wait_for(s, call, seconds) < 0 ? MHD_NO : MHD_YES;
	}
	if (!call->answer.status)
		return api_upgrade_send(&call->upgrade, call->mhd, route, req, s->env.self);
	return send_answer(s, call->mhd, &call->answer);
}

/* ---- batches -------------------------------------------------------------------------------------- */

static enum MHD_Result collect(struct api_server *s, const struct api_route *route, const char *method, const char *url, struct call *call)
{
	call->came = clock_usec(CLOCK_MONOTONIC);
	call->route = route;
	call->method = method;
	call->url = url;
	call->next = NULL;
	*s->last = call;
	s->last = &call->next;
	call->peer->waits = true;
	MHD_suspend_connection(call->mhd);
	return MHD_YES;
}

/* True if it has an answer. */
static bool ask_one(struct api_server *s, struct call *call)
{
	struct api_request req = { .method = call->method, .path = call->url };
	unsigned seconds;
	char allow[64];

	(void)api_route_find(s->routes, req.method, req.path, req.param, allow); /* its parameter */
	if (call_ask(call, &s->env, call->route, &req, &seconds) > 0) {
		if (wait_for(s, call, seconds) < 0)
			(void)sd_event_exit(s->event, -EIO);
		return false;
	}
	call->hangs = s->batch->mark(s->env.self);
	return true;
}

/* Answers go out after the end, which has made durable what they tell of. */
static void work_off(struct api_server *s)
{
	struct call *call, *next, *done = NULL;
	struct error err = ERROR_INIT;
	uint64_t failed = 0;

	s->batch->begin(s->env.self);
	for (unsigned n = 0; (call = s->first) && n < BATCH_MAX; n++) {
		s->first = call->next;
		if (!ask_one(s, call))
			continue;
		call->next = done;
		done = call;
	}
	if (!s->first)
		s->last = &s->first;
	(void)s->batch->end(s->env.self, &failed, &err);
	for (call = done; call; call = next) {
		next = call->next;
		if (failed && call->hangs == failed) {
			api_answer_done(&call->answer);
			api_answer_problem(&call->answer, &err, NULL, NULL, NULL);
		}
		call->peer->waits = false;
		MHD_resume_connection(call->mhd);
	}
}

/* ---- from libmicrohttpd --------------------------------------------------------------------------- */

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
		return route->batched && s->batch ? collect(s, route, method, url, call) : handle(s, route, &req, call);
	if (*allow)
		(void)error_set(&err, -EOPNOTSUPP, "%s does not know %s; it knows %s", url, method, allow);
	else
		(void)error_set(&err, -ENOENT, "there is no %.200s; GET /v1/openapi.json lists what there is", url);
	return send_problem(s, call->mhd, &err, allow);
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
		(void)call_over_limit(&err);
	if (err.code < 0)
		return send_problem(s, c, &err, NULL);
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
		return call->answer.status ? send_answer(self, c, &call->answer) : answer(self, method, url, call);
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
	api_answer_done(&call->answer);
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
static bool run_mhd_once(struct api_server *s)
{
	unsigned before;

	do {
		before = connections(s);
		if (MHD_run(s->mhd) != MHD_YES)
			return false;
	} while (connections(s) < before);
	return true;
}

/* What came, then what of it is a batch; what is over, and what comes meanwhile, is the next one, after whatever else the loop has to do. */
static bool run_mhd(struct api_server *s)
{
	bool ok = run_mhd_once(s);

	if (ok && s->first) {
		work_off(s);
		ok = run_mhd_once(s);
	}
	return ok && (!s->first || sd_event_source_set_enabled(s->more, SD_EVENT_ONESHOT) >= 0);
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
	if (r >= 0 && MHD_get_timeout(s->mhd, &ms) == MHD_YES) /* it has more to do, mostly at once */
		r = ms ? arm(s, now + ms * 1000) : sd_event_source_set_enabled(s->more, SD_EVENT_ONESHOT);
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

static int on_more(sd_event_source *source, void *self)
{
	(void)source;
	run_or_exit(self);
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
		   const struct api_keys *keys, const struct api_batch *batch, void *self, struct error *err)
{
	auto_(api_server_free) struct api_server *s = calloc(1, sizeof(*s));
	const union MHD_DaemonInfo *info;
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "no memory for the server");
	s->event = event;
	s->routes = routes;
	s->env = (struct call_env){ keys, self, &s->peers, &s->kept };
	s->batch = batch;
	s->last = &s->first;
	r = start_mhd(s, listen_fd, err);
	if (r < 0)
		return r;
	info = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return error_set(err, -EIO, "libmicrohttpd has no epoll descriptor");
	r = sd_event_add_io(event, &s->io, info->epoll_fd, EPOLLIN, on_io, s);
	if (r >= 0)
		r = sd_event_add_time(event, &s->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, s);
	if (r >= 0)
		r = sd_event_add_defer(event, &s->more, on_more, s);
	if (r >= 0)
		r = sd_event_source_set_enabled(s->more, SD_EVENT_OFF);
	if (r < 0)
		return error_set(err, r, "cannot watch the socket: %s", strerror(-r));
	*ret = steal(s);
	return 0;
}

struct api_server *api_server_free(struct api_server *s)
{
	if (s) {
		sd_event_source_disable_unref(s->more);
		sd_event_source_disable_unref(s->timer);
		sd_event_source_disable_unref(s->io);
		if (s->mhd) { /* it wants no connection suspended */
			*s->last = s->waiting;
			s->waiting = s->first;
			resume(s, true, 0);
			MHD_stop_daemon(s->mhd);
		}
		api_kept_done(&s->kept);
		free(s);
	}
	return NULL;
}
