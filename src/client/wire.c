/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define REPLY_MAX ((size_t)256 * 1024 * 1024) /* a topology of 65,536 functions is some 60 MB */

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* fails for no clock that there is */
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int fail(struct wire *w, int code)
{
	struct velad_reply *r = w->reply;

	if (code == -EAGAIN || code == -ETIMEDOUT) {
		(void)snprintf(r->error, sizeof(r->error), "velad did not answer on %s in time", w->socket);
		return -ETIMEDOUT;
	}
	(void)snprintf(r->error, sizeof(r->error), "talking to velad on %s: %s", w->socket, strerror(-code));
	return code == -ENOMEM || code == -E2BIG ? code : -EIO;
}

/* How long the next call may sleep; the kernel's time-outs of a socket are for each call. */
static int limit(struct wire *w, int option)
{
	uint64_t now = now_ms(), left = w->until > now ? w->until - now : 0;
	struct timeval t = { .tv_sec = (time_t)(left / 1000), .tv_usec = (suseconds_t)(left % 1000) * 1000 };

	if (!w->until)
		return 0;
	if (!left)
		return -ETIMEDOUT;
	return setsockopt(w->fd, SOL_SOCKET, option, &t, sizeof(t)) < 0 ? -errno : 0;
}

static int refused(struct wire *w, int code)
{
	struct velad_reply *r = w->reply;

	if (code == -EAGAIN)
		return fail(w, code);
	if (code == -EACCES)
		(void)snprintf(r->error, sizeof(r->error), "may not talk to velad on %s: join the group velad, or use sudo", w->socket);
	else
		(void)snprintf(r->error, sizeof(r->error), "velad is not there on %s (%s): systemctl start velad.socket", w->socket,
			       strerror(-code));
	return code == -EACCES ? code : -ECONNREFUSED;
}

int wire_open(struct wire *w, struct velad_reply *reply, const char *socket_path, long timeout_ms)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int r;

	*w = (struct wire){ .reply = reply, .socket = socket_path, .fd = -1 };
	memset(reply, 0, sizeof(*reply));
	http_parser_init(&w->parser, HTTP_RESPONSE);
	w->parser.data = w;
	if (timeout_ms > 0)
		w->until = now_ms() + (uint64_t)timeout_ms;
	if (strlen(socket_path) >= sizeof(to.sun_path))
		return refused(w, -ENAMETOOLONG);
	(void)strcpy(to.sun_path, socket_path);
	w->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (w->fd < 0)
		return fail(w, -errno);
	r = limit(w, SO_SNDTIMEO); /* connect(2) waits for room in the backlog (unix_stream_connect() in net/unix/af_unix.c) */
	if (r < 0)
		return fail(w, r);
	return connect(w->fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ? refused(w, -errno) : 0;
}

void wire_done(struct wire *w)
{
	if (w->fd >= 0)
		(void)close(w->fd);
	w->fd = -1;
}

/* ---- the request ---------------------------------------------------------------------------------------- */

/* A server that has its answer may stop listening: then that is read. */
static int say(struct wire *w, const char *text, size_t len)
{
	while (len) {
		int r = limit(w, SO_SNDTIMEO);
		ssize_t n = r < 0 ? -1 : send(w->fd, text, len, MSG_NOSIGNAL);

		if (r < 0)
			return r;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* A blank or a line's end in it would be another request. */
static int check(struct wire *w, const char *text)
{
	for (; *text; text++)
		if (*text <= 0x20 || *text == 0x7f) {
			(void)snprintf(w->reply->error, sizeof(w->reply->error), "a method or path with blanks or other than ASCII; escape it");
			return -EIO;
		}
	return 0;
}

int wire_ask(struct wire *w, const char *method, const char *path, const char *headers, const char *body)
{
	char *text = NULL, length[80] = "";
	int r = check(w, method), n;

	if (r == 0)
		r = check(w, path);
	if (r < 0)
		return r;
	if (body)
		(void)snprintf(length, sizeof(length), "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
	else if (strcmp(method, "POST") == 0) /* without a body it has to say so (RFC 9110, 8.6) */
		(void)snprintf(length, sizeof(length), "Content-Length: 0\r\n");
	n = asprintf(&text, "%s %s HTTP/1.1\r\nHost: velad\r\n%s%s\r\n%s", method, path, headers, length, body ? body : "");
	if (n < 0)
		return fail(w, -ENOMEM);
	r = say(w, text, (size_t)n);
	free(text);
	return r < 0 ? fail(w, r) : 0;
}

/* ---- the answer ----------------------------------------------------------------------------------------- */

static int stop(struct wire *w, int code)
{
	w->failed = true;
	w->code = code;
	return 1; /* http_parser ends with an error of its callback */
}

static bool grow(struct wire *w, size_t size)
{
	char *p = size <= w->size ? w->reply->body : realloc(w->reply->body, size);

	if (!p)
		return false;
	w->reply->body = p;
	w->size = size > w->size ? size : w->size;
	return true;
}

static int on_head(http_parser *p)
{
	struct wire *w = p->data;
	uint64_t length = p->content_length; /* ULLONG_MAX: not said */

	w->reply->status = p->status_code;
	if (length != UINT64_MAX && length >= REPLY_MAX)
		return stop(w, -E2BIG);
	if (length != UINT64_MAX && !grow(w, (size_t)length + 1))
		return stop(w, -ENOMEM);
	return p->status_code == 101 ? 2 : 0; /* 2: what follows is none of HTTP */
}

static int on_body(http_parser *p, const char *data, size_t n)
{
	struct wire *w = p->data;
	struct velad_reply *r = w->reply;

	if (n >= REPLY_MAX - r->len)
		return stop(w, -E2BIG);
	if (r->len + n >= w->size && !grow(w, (r->len + n + 1) * 2))
		return stop(w, -ENOMEM);
	memcpy(r->body + r->len, data, n);
	r->len += n;
	r->body[r->len] = '\0';
	return 0;
}

static int on_end(http_parser *p)
{
	struct wire *w = p->data;

	w->done = p->status_code == 101 || p->status_code >= 200; /* 100 and its like come before the answer */
	return 0;
}

int wire_answer(struct wire *w)
{
	static const http_parser_settings settings = { .on_headers_complete = on_head, .on_body = on_body, .on_message_complete = on_end };
	char buf[65536];

	while (!w->done) {
		size_t want = w->bytes && !w->reply->status ? 1 : sizeof(buf);
		int r = limit(w, SO_RCVTIMEO);
		ssize_t n = r < 0 ? -1 : recv(w->fd, buf, want, 0);

		if (r < 0)
			return fail(w, r);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(w, -errno);
		(void)http_parser_execute(&w->parser, &settings, buf, (size_t)n); /* 0 bytes: it has ended */
		if (w->failed)
			return fail(w, w->code);
		if (!w->done && (n == 0 || HTTP_PARSER_ERRNO(&w->parser) != HPE_OK))
			return fail(w, n == 0 ? -ECONNRESET : -EPROTO);
	}
	if (w->reply->body)
		w->reply->body[w->reply->len] = '\0';
	return 0;
}
