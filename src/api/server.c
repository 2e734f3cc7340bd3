/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libmicrohttpd without threads of its own: its epoll descriptor is one source of the sd-event loop, its
 * next time-out another. A response is queued only once the request is complete; queued on the first call
 * of the handler, it would close the connection. */
#include "api/server.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/sbuf.h"

struct api_server {
	struct MHD_Daemon      *mhd;   /* owned */
	sd_event_source        *io;    /* owned: MHD's epoll descriptor */
	sd_event_source        *timer; /* owned: MHD's next time-out */
	sd_event               *event; /* borrowed */
	const struct api_route *routes;
	void                   *self;
};

/* One request while its body arrives. */
struct call {
	struct sbuf body;
	bool        too_large;
};

static enum MHD_Result send_text(struct MHD_Connection *c, int status, const char *type, const char *text,
				 const char *location, const char *allow)
{
	struct MHD_Response *r = NULL;
	enum MHD_Result ok;

	if (text) /* NULL: json-c had no memory for it */
		r = MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	if (!r)
		return MHD_NO; /* the connection closes */
	ok = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (ok == MHD_YES && location && *location)
		ok = MHD_add_response_header(r, MHD_HTTP_HEADER_LOCATION, location);
	if (ok == MHD_YES && allow && *allow)
		ok = MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow);
	if (ok == MHD_YES)
		ok = MHD_queue_response(c, (unsigned)status, r);
	MHD_destroy_response(r);
	return ok;
}

static const char *plain_text(json_object *o)
{
	return json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* Takes reasons. */
static enum MHD_Result send_problem(struct MHD_Connection *c, const struct error *err, json_object *reasons,
				    const char *allow)
{
	auto_(json_object_put) json_object *o = api_problem(err, reasons);

	if (!o)
		return MHD_NO; /* no memory: the connection closes */
	return send_text(c, api_error_of(err->code)->status, "application/problem+json",
			 plain_text(o), NULL, allow);
}

static uid_t peer_uid(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!info || getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return (uid_t)-1;
	return cred.uid;
}

/* "application/json", perhaps with parameters */
static bool is_json(const char *type)
{
	static const char json[] = "application/json";

	return strncasecmp(type, json, strlen(json)) == 0 && strchr("; \t", type[strlen(json)]);
}

static int check_headers(struct MHD_Connection *c, const struct call *call, struct error *err)
{
	const char *type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);

	if (call->too_large)
		return error_set(err, -E2BIG, "the body is over the limit of %d bytes", API_BODY_MAX);
	if (call->body.failed)
		return error_set(err, -ENOMEM, "no memory for the body");
	if (call->body.len && type && !is_json(type))
		return error_set(err, -EINVAL, "Content-Type is \"%.60s\"; send application/json", type);
	if (MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, NULL, NULL) > 0)
		return error_set(err, -EINVAL, "this path takes no query parameters");
	return 0;
}

/* A handler that fails without a sentence is a bug; the client still gets a problem, not "null". */
static void call_handler(struct api_server *s, const struct api_route *route, const struct api_request *req,
			 struct api_response *res, struct error *err)
{
	int r = route->handle(s->self, req, res, err);

	if (r < 0 && err->code == 0)
		(void)error_set(err, r, "%s failed: %s", route->path, strerror(-r));
	if (r == 0)
		*err = ERROR_INIT; /* it may have tried something and done without */
}

static enum MHD_Result answer(struct api_server *s, struct MHD_Connection *c, const char *method, const char *url,
			      struct call *call)
{
	const char *as = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 ? MHD_HTTP_METHOD_GET : method;
	struct api_request req = { .body = call->body.text ? call->body.text : "", .body_len = call->body.len };
	struct api_response res = { .status = 200 };
	struct error err = ERROR_INIT;
	const struct api_route *route;
	enum MHD_Result sent;
	char allow[64];

	route = api_route_find(s->routes, as, url, req.param, allow);
	if (!route && *allow) {
		(void)error_set(&err, -EOPNOTSUPP, "%s does not know %s; it knows %s", url, method, allow);
		return send_problem(c, &err, NULL, allow);
	}
	if (!route)
		(void)error_set(&err, -ENOENT, "there is no %.200s; GET /v1/openapi.json lists what there is", url);
	else if (check_headers(c, call, &err) == 0) {
		req.uid = peer_uid(c);
		call_handler(s, route, &req, &res, &err);
	}
	if (err.code < 0) {
		json_object_put(res.body);
		return send_problem(c, &err, res.reasons, NULL);
	}
	sent = send_text(c, res.status, "application/json",
			 res.text ? res.text : plain_text(res.body),
			 res.location, NULL);
	json_object_put(res.body);
	json_object_put(res.reasons);
	return sent;
}

static struct call *call_free(struct call *call)
{
	sbuf_done(&call->body);
	free(call);
	return NULL;
}

/* A body that says beforehand that it is too large is answered at once; MHD then closes the connection,
 * which is right: nobody wants to read the rest. */
static enum MHD_Result refuse_large(struct MHD_Connection *c, bool *refused)
{
	const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
	struct error err = ERROR_INIT;
	uint64_t n = 0;

	*refused = length && (parse_uint(&n, length, 10, UINT64_MAX) < 0 || n > API_BODY_MAX);
	if (!*refused)
		return MHD_YES;
	(void)error_set(&err, -E2BIG, "the body is over the limit of %d bytes", API_BODY_MAX);
	return send_problem(c, &err, NULL, NULL);
}

static enum MHD_Result on_request(void *self, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *data, size_t *size, void **state)
{
	struct call *call = *state;
	enum MHD_Result r;
	bool refused;

	(void)version;
	if (!call) {
		r = refuse_large(c, &refused);
		if (refused)
			return r;
		*state = calloc(1, sizeof(*call));
		return *state ? MHD_YES : MHD_NO;
	}
	if (*size) {
		/* chunked: no length was said; what comes after the limit is dropped */
		call->too_large = call->too_large || call->body.len + *size > API_BODY_MAX;
		if (!call->too_large)
			sbuf_add_bytes(&call->body, data, *size);
		*size = 0;
		return MHD_YES;
	}
	return answer(self, c, method, url, call);
}

static void on_completed(void *self, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
	(void)self;
	(void)c;
	(void)code;
	if (*state)
		*state = call_free(*state);
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

static int run(struct api_server *s)
{
	MHD_UNSIGNED_LONG_LONG ms;
	uint64_t now;

	if (!run_mhd(s))
		return -EIO;
	if (MHD_get_timeout(s->mhd, &ms) != MHD_YES)
		return sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
	if (sd_event_now(s->event, CLOCK_MONOTONIC, &now) < 0)
		return -EIO;
	if (sd_event_source_set_time(s->timer, now + (uint64_t)ms * 1000) < 0)
		return -EIO;
	return sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
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
	(void)source;
	(void)usec;
	run_or_exit(self);
	return 0;
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
	s->mhd = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, s,
				  MHD_OPTION_LISTEN_SOCKET, listen_fd,
				  MHD_OPTION_CONNECTION_LIMIT, (unsigned)API_CONNECTIONS_MAX,
				  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)API_IDLE_SECONDS,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32 * 1024,
				  MHD_OPTION_STRICT_FOR_CLIENT, 1,
				  MHD_OPTION_UNESCAPE_CALLBACK, keep_encoded, NULL,
				  MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
	return s->mhd ? 0 : error_set(err, -EIO, "libmicrohttpd cannot start on the socket");
}

int api_server_new(struct api_server **ret, sd_event *event, int listen_fd, const struct api_route *routes,
		   void *self, struct error *err)
{
	auto_(api_server_free) struct api_server *s = calloc(1, sizeof(*s));
	const union MHD_DaemonInfo *info;
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "no memory for the server");
	s->event = event;
	s->routes = routes;
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
		if (s->mhd)
			MHD_stop_daemon(s->mhd);
		free(s);
	}
	return NULL;
}

/* ---- the socket ----------------------------------------------------------------------------------- */

/* Clears the way for bind(2): a socket file that nobody listens on (ECONNREFUSED) is removed. One that
 * somebody answers on, be it with a full backlog (EAGAIN), is not. */
static int make_room(const struct sockaddr_un *addr, struct error *err)
{
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (lstat(addr->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return 0; /* bind says what is wrong with it */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno == EAGAIN)
		return error_set(err, -EADDRINUSE, "another velad answers on %s", addr->sun_path);
	if (errno == ECONNREFUSED)
		(void)unlink(addr->sun_path); /* bind says so if it could not be removed */
	return 0;
}

/* Mode 0660 without the process's umask, which other threads need: the file gets the mode of the
 * descriptor less the umask (unix_bind_bsd() in net/unix/af_unix.c), so it is never open too wide. */
static int bind_socket(int fd, const struct sockaddr_un *addr)
{
	if (fchmod(fd, 0660) < 0 || bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ||
	    chmod(addr->sun_path, 0660) < 0 || listen(fd, 128) < 0)
		return -errno;
	return 0;
}

int api_listen(const char *path, struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	autoclose int fd = -1;
	int r;

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, -ENAMETOOLONG, "the socket path %s is longer than %zu bytes", path,
				 sizeof(addr.sun_path) - 1);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	r = make_room(&addr, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	r = bind_socket(fd, &addr);
	if (r < 0)
		return error_set(err, r, "cannot listen on %s: %s", path, strerror(-r));
	return steal_fd(&fd);
}
