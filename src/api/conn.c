/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parser stops behind the head, so that a request can be refused before its body, and behind the request: there is no other before
 * its answer. */
#include "api/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/server.h"
#include "base/clock.h"

#define KEPT_BYTES 4096 /* of a buffer, between requests */

/* ---- http_parser's callbacks ----------------------------------------------------------------------------- */

static int add(struct conn *c, struct sbuf *b, const char *bytes, size_t len)
{
	if (c->url.len + c->head.len + len > CONN_HEAD_MAX)
		c->big = true;
	else
		sbuf_add_bytes(b, bytes, len);
	return c->big || b->failed;
}

static int on_url(http_parser *p, const char *at, size_t len)
{
	struct conn *c = p->data;

	return add(c, &c->url, at, len);
}

/* Fields behind the body, which is chunked then, are none of the head. */
static int on_field(http_parser *p, const char *at, size_t len)
{
	struct conn *c = p->data;

	if (p->flags & F_TRAILING)
		return 0;
	if (c->in_value && add(c, &c->head, "", 1))
		return 1;
	c->in_value = false;
	return add(c, &c->head, at, len);
}

static int on_value(http_parser *p, const char *at, size_t len)
{
	struct conn *c = p->data;

	if (p->flags & F_TRAILING)
		return 0;
	if (!c->in_value && add(c, &c->head, "", 1))
		return 1;
	c->in_value = true;
	return add(c, &c->head, at, len);
}

static int on_head(http_parser *p)
{
	struct conn *c = p->data;

	if (c->in_value && add(c, &c->head, "", 1))
		return -1; /* other values mean something: on_headers_complete */
	http_parser_pause(p, 1);
	return 0;
}

/* What comes after a limit is dropped. */
static int on_body(http_parser *p, const char *at, size_t len)
{
	struct conn *c = p->data;

	c->too_large = c->too_large || c->body.len + len > API_BODY_MAX;
	if (c->too_large || c->over)
		return 0;
	c->over = !api_peer_hold(c->peers, c->peer, len);
	if (c->over)
		return 0;
	c->held += len;
	sbuf_add_bytes(&c->body, at, len);
	return 0;
}

static int on_whole(http_parser *p)
{
	struct conn *c = p->data;

	c->whole = true;
	http_parser_pause(p, 1);
	return 0;
}

static const http_parser_settings settings = {
	.on_url = on_url, .on_header_field = on_field, .on_header_value = on_value, .on_headers_complete = on_head,
	.on_body = on_body, .on_message_complete = on_whole,
};

/* ---- reading ----------------------------------------------------------------------------------------------- */

struct conn *conn_new(int epoll, int fd, struct api_peers *peers, struct api_peer *peer)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

	if (!c || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
		free(c);
		return NULL;
	}
	c->peers = peers;
	c->peer = peer;
	c->fd = fd;
	c->epoll = epoll;
	c->events = EPOLLIN;
	http_parser_init(&c->parser, HTTP_REQUEST);
	c->parser.data = c;
	return c;
}

static void empty(struct sbuf *b)
{
	if (b->failed || b->size > KEPT_BYTES)
		sbuf_done(b);
	b->len = 0;
	if (b->text)
		*b->text = '\0';
}

void conn_reset(struct conn *c)
{
	if (c->begun)
		api_peer_end(c->peer, c->held, clock_usec(CLOCK_MONOTONIC));
	empty(&c->url);
	empty(&c->head);
	empty(&c->body);
	empty(&c->out);
	c->held = c->sent = 0;
	c->until = 0;
	c->in_value = c->whole = c->begun = c->too_large = c->over = false;
}

void conn_free(struct conn *c)
{
	conn_reset(c);
	sbuf_done(&c->url);
	sbuf_done(&c->head);
	sbuf_done(&c->body);
	sbuf_done(&c->rest);
	sbuf_done(&c->out);
	api_peer_free(c->peers, c->peer);
	/* not close(2) alone: who took the connection over has a descriptor of it, too */
	(void)epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	(void)close(c->fd);
	free(c);
}

bool conn_has_more(const struct conn *c)
{
	return c->taken < c->rest.len;
}

static enum conn_news parse(struct conn *c)
{
	c->taken += http_parser_execute(&c->parser, &settings, c->rest.text + c->taken, c->rest.len - c->taken);
	if (c->taken >= c->rest.len) {
		empty(&c->rest);
		c->taken = 0;
	}
	if (HTTP_PARSER_ERRNO(&c->parser) == HPE_OK)
		return CONN_NOTHING;
	if (HTTP_PARSER_ERRNO(&c->parser) != HPE_PAUSED)
		return CONN_BAD;
	http_parser_pause(&c->parser, 0);
	return c->whole ? CONN_REQUEST : CONN_HEAD;
}

enum conn_news conn_next(struct conn *c)
{
	enum conn_news news = conn_has_more(c) ? parse(c) : CONN_NOTHING;
	char part[8192];
	ssize_t n;

	if (news != CONN_NOTHING)
		return news;
	n = recv(c->fd, part, sizeof(part), 0);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? CONN_NOTHING : CONN_GONE;
	sbuf_add_bytes(&c->rest, part, (size_t)n);
	return c->rest.failed ? CONN_GONE : parse(c);
}

const char *conn_header(const struct conn *c, const char *name)
{
	const char *p = c->head.text, *end = p + c->head.len;

	while (p < end) {
		const char *value = p + strlen(p) + 1;

		if (strcasecmp(p, name) == 0)
			return value;
		p = value + strlen(value) + 1;
	}
	return NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------- */

int conn_watch(struct conn *c, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (c->events == events)
		return 0;
	c->events = events;
	return epoll_ctl(c->epoll, EPOLL_CTL_MOD, c->fd, &e) < 0 ? -errno : 0;
}

static ssize_t send_parts(int fd, struct iovec *part, size_t n)
{
	struct msghdr msg = { .msg_iov = part, .msg_iovlen = n };
	ssize_t sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return sent;
}

int conn_send(struct conn *c, const char *head, size_t head_len, const char *text, size_t len)
{
	struct iovec part[] = { { (void *)(uintptr_t)head, head_len }, { (void *)(uintptr_t)text, len } };
	ssize_t sent = send_parts(c->fd, part, len ? 2 : 1);
	size_t n = (size_t)sent;

	if (sent < 0)
		return (int)sent;
	if (n == head_len + len)
		return 0;
	if (n < head_len)
		sbuf_add_bytes(&c->out, head + n, head_len - n);
	n = n < head_len ? 0 : n - head_len;
	sbuf_add_bytes(&c->out, text + n, len - n);
	if (c->out.failed)
		return -ENOMEM;
	return conn_watch(c, EPOLLOUT) < 0 ? -EIO : 1;
}

int conn_flush(struct conn *c)
{
	struct iovec part = { c->out.text + c->sent, c->out.len - c->sent };
	ssize_t sent = send_parts(c->fd, &part, 1);

	if (sent < 0)
		return (int)sent;
	c->sent += (size_t)sent;
	return c->sent < c->out.len;
}
