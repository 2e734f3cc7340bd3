/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a client asks is checked before its handler sees it; what a handler answers is bounded by what its user may have under way. */
#include "api/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#define RETRY_SECONDS "1" /* with every 503 */

/* ---- answers -------------------------------------------------------------------------------------- */

struct answer {
	int         status;
	const char *type, *text;
	const char *location, *allow, *etag; /* NULL or "": none */
};

static const char *date(struct requests *s)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != s->date_of && gmtime_r(&now, &tm)) {
		s->date_of = now;
		(void)strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm); /* velad sets no locale */
	}
	return s->date;
}

static void add_header(char *head, size_t size, const char *name, const char *value)
{
	size_t n = strlen(head);

	if (value && *value)
		(void)snprintf(head + n, size - n, "%s: %s\r\n", name, value);
}

/* As conn_send(). What has no text is an answer that json-c had no memory for. */
static int send_answer(struct requests *s, struct conn *c, const struct answer *a)
{
	char head[1024], tag[sizeof(((struct api_response *)NULL)->etag) + 2] = ""; /* all of it is velad's own, and bounded */
	bool keep = !c->last && http_should_keep_alive(&c->parser);
	size_t len = a->text ? strlen(a->text) : 0;

	if (!a->text)
		return -ENOMEM;
	c->last = !keep;
	(void)snprintf(head, sizeof(head), "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Length: %zu\r\n", a->status,
		       http_status_str((enum http_status)a->status), date(s), len);
	if (a->etag && *a->etag)
		(void)snprintf(tag, sizeof(tag), "\"%s\"", a->etag);
	add_header(head, sizeof(head), "Content-Type", a->type);
	add_header(head, sizeof(head), "Location", a->location);
	add_header(head, sizeof(head), "Allow", a->allow);
	add_header(head, sizeof(head), "ETag", tag);
	add_header(head, sizeof(head), "Retry-After", a->status == 503 ? RETRY_SECONDS : NULL);
	if (!keep || c->parser.http_minor == 0)
		add_header(head, sizeof(head), "Connection", keep ? "keep-alive" : "close");
	strcat(head, "\r\n");
	s->stats.answers[a->status / 100 % ARRAY_SIZE(s->stats.answers)]++;
	return conn_send(c, head, strlen(head), a->text, c->parser.method == HTTP_HEAD ? 0 : len);
}

static const char *plain_text(json_object *o)
{
	return json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* Takes reasons. */
static int send_problem(struct requests *s, struct conn *c, const struct error *err, json_object *reasons, const char *location,
			const char *allow)
{
	auto_(json_object_put) json_object *o = api_problem(err, reasons);

	if (!o)
		return -ENOMEM; /* the connection closes */
	return send_answer(s, c, &(struct answer){ .status = api_error_of(err->code)->status, .type = "application/problem+json",
						   .text = plain_text(o), .location = location, .allow = allow });
}

static int over_limit(struct error *err)
{
	return error_set(err, -EUSERS, "this user has too much under way: at most %d connections, %d requests and %d MiB; "
			 "try again in a second", API_UID_CONNECTIONS_MAX, API_UID_REQUESTS_MAX, API_UID_BYTES_MAX >> 20);
}

/* What the handler made; it may be more than its user may have. */
static int send_response(struct requests *s, struct conn *c, const struct api_response *res)
{
	struct answer a = { .status = res->status, .type = res->type ? res->type : "application/json",
			    .text = res->text ? res->text : plain_text(res->body), .location = res->location, .etag = res->etag };
	struct error err = ERROR_INIT;
	size_t len = a.text ? strlen(a.text) : 0;

	if (!api_peer_hold(&s->peers, c->peer, len)) {
		(void)over_limit(&err);
		return send_problem(s, c, &err, NULL, NULL, NULL);
	}
	c->held += len;
	return send_answer(s, c, &a);
}

/* The connection speaks another protocol from now on (RFC 9110, 7.8), and is given away: the limits of its user know it no more.
 * Clients wait for the 101 before they say more. */
static int send_upgrade(struct requests *s, struct conn *c, const struct api_route *route, const struct api_request *req)
{
	struct api_request of = { 0 }; /* without what is borrowed */
	char head[256];
	int n = snprintf(head, sizeof(head), "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", route->upgrade);

	memcpy(of.param, req->param, sizeof(of.param));
	memcpy(of.query, req->query, sizeof(of.query));
	if (conn_send(c, head, (size_t)n, NULL, 0) == 0)
		route->upgraded(s->self, &of, c->fd);
	return -ECONNABORTED; /* our descriptor of it is closed */
}

/* ---- requests ------------------------------------------------------------------------------------- */

/* "application/json", perhaps with parameters */
static bool is_json(const char *type)
{
	static const char json[] = "application/json";

	return strncasecmp(type, json, strlen(json)) == 0 && strchr("; \t", type[strlen(json)]);
}

/* Where the path ends; *path is cut off there. */
static char *cut_query(char *url)
{
	char *query = strchr(url, '?');

	if (query)
		*query++ = '\0';
	return query;
}

/* "a=1&b=2", names and values as they came but for '+', which is a blank there (HTML, 4.10.21.8: URL-encoded form data). */
static int read_query(struct api_request *req, const struct api_route *route, char *query, struct error *err)
{
	char *part, *value;
	int r = 0;

	for (char *p = query; p && *p; p++)
		if (*p == '+')
			*p = ' ';
	while (r == 0 && (part = strsep(&query, "&"))) {
		value = strchr(part, '=');
		if (value)
			*value++ = '\0';
		if (*part || value)
			r = api_query_set(req, route, part, value, err);
	}
	return r;
}

static int read_request(struct api_request *req, const struct conn *c, const struct api_route *route, char *query, struct error *err)
{
	const char *type = conn_header(c, "Content-Type");

	if (c->over)
		return over_limit(err);
	if (c->too_large)
		return error_set(err, -E2BIG, "the body is over the limit of %d bytes", API_BODY_MAX);
	if (c->body.failed)
		return error_set(err, -ENOMEM, "no memory for the body");
	if (c->body.len && type && !is_json(type))
		return error_set(err, -EINVAL, "Content-Type is \"%.60s\"; send application/json", type);
	req->body = c->body.text ? c->body.text : "";
	req->body_len = c->body.len;
	req->uid = c->peer->of->uid;
	req->if_match = conn_header(c, "If-Match");
	req->key = conn_header(c, "Idempotency-Key");
	req->late = c->until && clock_usec(CLOCK_MONOTONIC) >= c->until;
	return read_query(req, route, query, err);
}

static int check_upgrade(const struct conn *c, const struct api_route *route, struct error *err)
{
	const char *to = conn_header(c, "Upgrade");

	if (!route->upgrade || (to && c->parser.upgrade && strcasecmp(to, route->upgrade) == 0))
		return 0;
	return error_set(err, -EINVAL, "%s is no document: send Connection: Upgrade and Upgrade: %s", route->path, route->upgrade);
}

/* A key that is not heeded would make its client believe that asking again is safe. */
static int begin_key(struct requests *s, const struct api_route *route, const struct api_request *req,
		     struct api_response *res, struct error *err)
{
	if (route->keyed)
		return s->keys->begin(s->self, req, res, err);
	if (strcmp(route->method, "GET") == 0)
		return 0;
	return error_set(err, -EINVAL, "%s begins no operation, and takes no Idempotency-Key; leave it out", route->path);
}

/* Nor must one believe that what it looked at is what it changes. */
static int check_match(const struct api_route *route, const struct api_request *req, struct error *err)
{
	if (!req->if_match || route->matched || strcmp(route->method, "GET") == 0)
		return 0;
	return error_set(err, -EINVAL, "%s %s changes nothing that has a generation, and takes no If-Match; leave it out", route->method, route->path);
}

/* A handler that fails without a sentence is a bug; the client still gets a problem, not "null". */
static int call_handler(struct requests *s, const struct api_route *route, const struct api_request *req,
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

/* Until it is asked again it costs nothing. 1, as conn_send(). */
static int wait_for(struct conn *c, unsigned seconds)
{
	if (!c->until)
		c->until = clock_usec(CLOCK_MONOTONIC) + (uint64_t)seconds * 1000000;
	c->waits = c->peer->waits = true;
	return conn_watch(c, 0) < 0 ? -EIO : 1; /* of events, its client's end is left */
}

static int handle(struct requests *s, const struct api_route *route, struct api_request *req, struct conn *c, char *query)
{
	struct api_response res = { .status = 200 };
	struct error err = ERROR_INIT;
	int r = read_request(req, c, route, query, &err);

	if (r == 0)
		r = check_upgrade(c, route, &err);
	if (r == 0)
		r = call_handler(s, route, req, &res, &err);
	if (r > 0)
		return wait_for(c, res.wait);
	c->peer->since = clock_usec(CLOCK_MONOTONIC); /* it has that long to take the answer */
	if (err.code < 0)
		r = send_problem(s, c, &err, steal(res.reasons), res.location, NULL);
	else if (route->upgrade)
		r = send_upgrade(s, c, route, req);
	else
		r = send_response(s, c, &res);
	json_object_put(res.body);
	json_object_put(res.reasons);
	return r;
}

/* Of the head: what RFC 9112 (3.2, 3.2.2) wants of a request, and what velad's own texts can repeat. */
static int check_head(const struct conn *c, struct error *err)
{
	const char *url = c->url.text ? c->url.text : "";

	if (c->parser.http_major != 1)
		return error_set(err, -EINVAL, "this is HTTP/%u.%u; velad speaks HTTP/1.1", c->parser.http_major, c->parser.http_minor);
	if (c->parser.http_minor > 0 && !conn_header(c, "Host"))
		return error_set(err, -EINVAL, "a request of HTTP/1.1 has a Host header, if an empty one");
	if (*url != '/')
		return error_set(err, -EINVAL, "the target of the request begins with no slash");
	for (; *url; url++)
		if (*url <= ' ' || *url > '~')
			return error_set(err, -EINVAL, "the target of the request has bytes that are to be percent-encoded");
	if (c->parser.flags & F_CONTENTLENGTH && c->parser.content_length > API_BODY_MAX)
		return error_set(err, -E2BIG, "the body is over the limit of %d bytes", API_BODY_MAX);
	return 0;
}

/* The text of the target stays as it is: a request that waits is read again. */
int request_answer(struct requests *s, struct conn *c)
{
	autofree char *url = strdup(c->url.text);
	char *query = url ? cut_query(url) : NULL;
	const char *method = http_method_str((enum http_method)c->parser.method);
	struct api_request req = { .method = strcmp(method, "HEAD") == 0 ? "GET" : method, .path = url };
	const struct api_route *route;
	struct error err = ERROR_INIT;
	char allow[64];

	if (!url)
		return -ENOMEM;
	route = api_route_find(s->routes, req.method, url, req.param, allow);
	if (route)
		return handle(s, route, &req, c, query);
	if (*allow)
		(void)error_set(&err, -EOPNOTSUPP, "%s does not know %s; it knows %s", url, method, allow);
	else
		(void)error_set(&err, -ENOENT, "there is no %.200s; GET /v1/openapi.json lists what there is", url);
	return send_problem(s, c, &err, NULL, NULL, allow);
}

int request_begin(struct requests *s, struct conn *c)
{
	const char *expect = conn_header(c, "Expect");
	struct error err = ERROR_INIT;
	int r;

	if (check_head(c, &err) == 0 && !api_peer_begin(&s->peers, c->peer))
		(void)over_limit(&err);
	c->begun = err.code == 0;
	if (c->begun && expect && strcasecmp(expect, "100-continue") == 0)
		return conn_send(c, "HTTP/1.1 100 Continue\r\n\r\n", 25, NULL, 0) == 0 ? 0 : -ECONNABORTED;
	if (c->begun)
		return 0;
	c->last = true;
	r = send_problem(s, c, &err, NULL, NULL, NULL);
	return r ? r : -ECONNABORTED;
}

int request_refuse(struct requests *s, struct conn *c)
{
	struct error err = ERROR_INIT;
	int r;

	if (c->big || HTTP_PARSER_ERRNO(&c->parser) == HPE_HEADER_OVERFLOW)
		(void)error_set(&err, -E2BIG, "the head of the request is over the limit of %d bytes", CONN_HEAD_MAX);
	else
		(void)error_set(&err, -EINVAL, "this is no request of HTTP/1.1: %s", http_errno_description(HTTP_PARSER_ERRNO(&c->parser)));
	c->last = true;
	r = send_problem(s, c, &err, NULL, NULL, NULL);
	return r ? r : -ECONNABORTED;
}
