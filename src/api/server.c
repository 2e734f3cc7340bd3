/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections have an epoll descriptor of their own, which is one source of the sd-event loop: so what several clients ask at once costs
 * one turn of it. A request is answered at once, or waits until somebody wakes it; meanwhile nothing more is read of its client. */
#include "api/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/request.h"
#include "base/clock.h"
#include "base/error.h"

#define EVENTS_MAX    64
#define ACCEPT_MAX    16
#define PAUSE_USEC    1000000u /* no connection is taken for so long, where there are no descriptors for it */

struct api_server {
	int                     epoll, listening; /* owned */
	bool                    listens;          /* epoll waits for connections */
	sd_event_source        *io;    /* owned: the epoll descriptor */
	sd_event_source        *timer; /* owned */
	sd_event_source        *again; /* owned: what was read already, and what was woken */
	uint64_t                armed; /* when the timer fires; 0: it does not */
	sd_event               *event; /* borrowed */
	struct requests         requests;
	struct conn            *first; /* owned: all of them */
	unsigned                n;
	bool                    woken;
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

/* ---- connections ---------------------------------------------------------------------------------- */

static int listen_on(struct api_server *s, bool on)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };

	if (s->listens == on)
		return 0;
	s->listens = on;
	return epoll_ctl(s->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->listening, &e) < 0 ? -errno : 0;
}

static void drop(struct api_server *s, struct conn *c)
{
	struct conn **at = &s->first;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	s->n--;
	conn_free(c);
	(void)listen_on(s, true); /* there is room; if epoll takes it not, the next one that goes tries again */
}

static int go_on_later(struct api_server *s)
{
	return sd_event_source_set_enabled(s->again, SD_EVENT_ONESHOT);
}

/* r is conn_send()'s. */
static void settle(struct api_server *s, struct conn *c, int r)
{
	if (r > 0)
		return;
	if (r == 0 && !c->last) {
		conn_reset(c);
		r = conn_watch(c, EPOLLIN);
		if (r == 0 && conn_has_more(c))
			r = go_on_later(s);
	}
	if (r < 0 || c->last)
		drop(s, c);
}

static void ask(struct api_server *s, struct conn *c)
{
	int r = request_answer(&s->requests, c);

	if (r > 0 && c->waits && arm(s, c->until) < 0)
		r = -EIO;
	settle(s, c, r);
}

/* One request at most: others have their turn before its next. */
static void read_more(struct api_server *s, struct conn *c)
{
	enum conn_news news = conn_next(c);
	int r = 0;

	if (news == CONN_HEAD) {
		r = request_begin(&s->requests, c);
		if (r == 0 && conn_has_more(c))
			news = conn_next(c);
	}
	if (r != 0)
		settle(s, c, r);
	else if (news == CONN_REQUEST)
		ask(s, c);
	else if (news == CONN_BAD)
		settle(s, c, request_refuse(&s->requests, c));
	else if (news == CONN_GONE)
		drop(s, c);
}

static void on_conn(struct api_server *s, struct conn *c, uint32_t events)
{
	if (c->events & EPOLLOUT)
		settle(s, c, conn_flush(c));
	else if (c->events & EPOLLIN && (events & EPOLLIN || conn_has_more(c)))
		read_more(s, c);
	else
		drop(s, c); /* what is left is EPOLLHUP */
}

static void take_over(struct api_server *s, int fd)
{
	struct api_peer *peer = api_peer_new(&s->requests.peers, fd, clock_usec(CLOCK_MONOTONIC));
	struct conn *c = peer ? conn_new(s->epoll, fd, &s->requests.peers, peer) : NULL;

	if (!c) {
		if (peer)
			api_peer_free(&s->requests.peers, peer);
		(void)close(fd);
		return;
	}
	c->next = s->first;
	s->first = c;
	s->n++;
}

/* At the limit the next one waits, in the kernel's queue; where there are no descriptors, too. */
static int accept_some(struct api_server *s)
{
	for (unsigned i = 0; i < ACCEPT_MAX && s->n < API_CONNECTIONS_MAX; i++) {
		int fd = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			take_over(s, fd);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			return listen_on(s, false) < 0 ? -EIO : arm(s, clock_usec(CLOCK_MONOTONIC) + PAUSE_USEC);
		else
			return 0; /* it went away, or there are no more */
	}
	return s->n < API_CONNECTIONS_MAX ? 0 : listen_on(s, false);
}

/* ---- the loop ------------------------------------------------------------------------------------- */

/* Those that wait are asked again: all of them, or those whose time is over. */
static void resume(struct api_server *s, bool all, uint64_t now)
{
	struct conn *next;

	for (struct conn *c = s->first; c; c = next) {
		next = c->next; /* c may go */
		if (!c->waits || (!all && c->until > now))
			continue;
		c->waits = c->peer->waits = false;
		ask(s, c);
	}
}

/* When something has to be done though nobody says a word. */
static uint64_t next_time(struct api_server *s, uint64_t now)
{
	uint64_t next = api_peers_sweep(&s->requests.peers, now);

	for (const struct conn *c = s->first; c; c = c->next)
		if (c->waits && c->until < next)
			next = c->until;
	return next;
}

static int arm_next(struct api_server *s)
{
	if (!s->first)
		return s->listens ? arm(s, 0) : 0;
	return s->armed ? 0 : arm(s, next_time(s, clock_usec(CLOCK_MONOTONIC)));
}

static int run(struct api_server *s)
{
	struct epoll_event e[EVENTS_MAX];
	int n = epoll_wait(s->epoll, e, EVENTS_MAX, 0), r = 0;

	for (int i = 0; i < n && r >= 0; i++) {
		if (e[i].data.ptr)
			on_conn(s, e[i].data.ptr, e[i].events); /* no other than this one goes meanwhile */
		else
			r = accept_some(s);
	}
	if (n < 0 && errno != EINTR)
		r = -errno;
	return r < 0 ? r : arm_next(s);
}

/* A daemon that cannot serve has no reason to go on: its service manager starts another one. */
static int end_if(struct api_server *s, int r)
{
	return r < 0 ? sd_event_exit(s->event, r) : 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *self)
{
	(void)source;
	(void)fd;
	(void)events;
	return end_if(self, run(self));
}

static int on_timer(sd_event_source *source, uint64_t usec, void *self)
{
	struct api_server *s = self;

	(void)source;
	(void)usec;
	s->armed = 0;
	resume(s, false, clock_usec(CLOCK_MONOTONIC));
	if (s->n < API_CONNECTIONS_MAX)
		(void)listen_on(s, true); /* tried again when the next one goes */
	return end_if(s, arm_next(s));
}

static int on_again(sd_event_source *source, void *self)
{
	struct api_server *s = self;
	struct conn *next;

	(void)source;
	if (s->woken) {
		s->woken = false;
		resume(s, true, 0);
	}
	for (struct conn *c = s->first; c; c = next) {
		next = c->next; /* c may go */
		if (c->events & EPOLLIN && conn_has_more(c))
			read_more(s, c);
	}
	return end_if(s, arm_next(s));
}

/* Not at once: a handler that wakes others is within a run. */
void api_server_wake(struct api_server *s)
{
	s->woken = true;
	(void)end_if(s, go_on_later(s));
}

const struct api_stats *api_server_stats(struct api_server *s)
{
	s->requests.stats.connections = s->n;
	s->requests.stats.refused = s->requests.peers.refused;
	return &s->requests.stats;
}

static int watch(struct api_server *s, struct error *err)
{
	int r = sd_event_add_io(s->event, &s->io, s->epoll, EPOLLIN, on_io, s);

	if (r >= 0)
		r = sd_event_add_time(s->event, &s->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, s);
	if (r >= 0)
		r = sd_event_add_defer(s->event, &s->again, on_again, s);
	if (r >= 0)
		r = sd_event_source_set_enabled(s->again, SD_EVENT_OFF);
	return r < 0 ? error_set(err, r, "cannot watch the socket: %s", strerror(-r)) : 0;
}

int api_server_new(struct api_server **ret, sd_event *event, int listen_fd, const struct api_route *routes,
		   const struct api_keys *keys, void *self, struct error *err)
{
	auto_(api_server_free) struct api_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		(void)close(listen_fd);
		return error_set(err, -ENOMEM, "no memory for the server");
	}
	s->event = event;
	s->requests = (struct requests){ .routes = routes, .keys = keys, .self = self };
	s->listening = listen_fd;
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	/* accept(2) must not wait for a client that has gone since epoll told of it */
	if (s->epoll < 0 || fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK) < 0 || listen_on(s, true) < 0)
		return error_set(err, -errno, "cannot use the listening socket: %s", strerror(errno));
	r = watch(s, err);
	if (r == 0)
		*ret = steal(s);
	return r;
}

struct api_server *api_server_free(struct api_server *s)
{
	if (s) {
		sd_event_source_disable_unref(s->again);
		sd_event_source_disable_unref(s->timer);
		sd_event_source_disable_unref(s->io);
		while (s->first)
			drop(s, s->first);
		if (s->epoll >= 0)
			(void)close(s->epoll);
		(void)close(s->listening);
		free(s);
	}
	return NULL;
}
