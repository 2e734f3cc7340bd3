/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks velad-helper. */
#include "act/remote.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/error.h"

#define ANSWER_SECONDS 600 /* VFs of a big NIC take more than a minute; after this, a thread is not lost for ever */

/* velad's loop opens files, for which all clients wait, and its reader those of a thousand functions in a row: for both a helper that
 * does not answer is believed to be so for a while. Opening takes microseconds; systemd may have to start the helper first.
 * A step has a deadline of its own, and would fail for nothing where a busy host takes longer. */
#define START_SECONDS 30 /* of a helper that has never been heard; so long after its start velad waits for the socket, too. By default */
#define LOOK_MS       100 /* between looks for that */
#define AGAIN_SECONDS 5  /* of one that was well when it was last heard: it ends when nobody needs it */
#define FILE_SECONDS  2
#define DEAF_SECONDS  10

#define FREE_MAX 8 /* connections of steps that are kept for the next; the helper closes those that are silent for ten seconds */

static _Thread_local bool hasty;

struct act_remote {
	struct sockaddr_un address;
	pthread_t          loop; /* that made this */
	pthread_mutex_t    free_lock; /* of free, nfree */
	int                free[FREE_MAX]; /* connections that nobody uses now; the last one given back last */
	size_t             nfree;
	pthread_mutex_t    lock; /* of all below */
	int                kept; /* for files; -1 */
	int                wait; /* epoll, for its answers: velad's loop has neither poll(2) nor setsockopt(2) */
	uint64_t           deaf; /* until then nobody is asked for files: clock_ms() */
	int                start;    /* START_SECONDS, or another time */
	int                patience; /* seconds, for the next answer on a new connection */
	uint64_t           born;   /* clock_ms() */
	atomic_bool        heard;  /* it has answered once */
	atomic_int         away;   /* errno of how it could not be asked last; 0: it could, or was not asked yet */
};

int act_remote_new(struct act_remote **ret, const char *socket, struct error *err)
{
	struct act_remote *r = calloc(1, sizeof(*r));
	size_t len = strlen(socket);

	if (!r)
		return error_set(err, -ENOMEM, "no memory for the helper's client");
	if (len >= sizeof(r->address.sun_path)) {
		free(r);
		return error_set(err, -ENAMETOOLONG, "the helper's socket has too long a path: %s", socket);
	}
	r->address.sun_family = AF_UNIX;
	memcpy(r->address.sun_path, socket, len + 1);
	(void)pthread_mutex_init(&r->lock, NULL); /* glibc: never fails without attributes */
	(void)pthread_mutex_init(&r->free_lock, NULL);
	r->loop = pthread_self();
	r->kept = -1;
	r->patience = r->start = START_SECONDS;
	r->born = clock_ms();
	r->wait = epoll_create1(EPOLL_CLOEXEC);
	if (r->wait < 0) {
		(void)act_remote_free(r);
		return error_set(err, -errno, "cannot wait for velad-helper: %s", strerror(errno));
	}
	*ret = r;
	return 0;
}

struct act_remote *act_remote_free(struct act_remote *r)
{
	if (!r)
		return NULL;
	if (r->kept >= 0)
		(void)close(r->kept);
	if (r->wait >= 0)
		(void)close(r->wait);
	for (size_t i = 0; i < r->nfree; i++)
		(void)close(r->free[i]);
	(void)pthread_mutex_destroy(&r->free_lock);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}

static int unreachable(const struct act_remote *r, int e, struct error *err)
{
	return error_set(err, -ENOTCONN, "cannot reach velad-helper at %s: %s; systemctl start velad-helper.socket", r->address.sun_path,
			 strerror(e));
}

static int reach(struct act_remote *r, int *ret, bool is_file, struct error *err)
{
	const struct timeval wait = { .tv_sec = ANSWER_SECONDS };
	struct epoll_event in = { .events = EPOLLIN };
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (is_file ? SOCK_NONBLOCK : 0), 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&r->address, sizeof(r->address)) < 0 ||
	    (is_file ? epoll_ctl(r->wait, EPOLL_CTL_ADD, fd, &in) : setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait))) < 0) {
		r->away = errno;
		return unreachable(r, r->away, err);
	}
	*ret = steal_fd(&fd);
	return 0;
}

/* Until there is an answer to read, or not any more. */
static int await(const struct act_remote *r, int seconds)
{
	struct epoll_event in;
	int n;

	do
		n = epoll_wait(r->wait, &in, 1, seconds * 1000);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n == 0 ? -EAGAIN : 0;
}

/* A length, 0: the helper went away; -errno. The descriptor that comes with a message, if one does, goes to *fd. */
static ssize_t receive(int from, void *bytes, size_t size, int *fd)
{
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { .iov_base = bytes, .iov_len = size };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	return n;
}

/* One message there and one back, within so many seconds where a file is asked for (else 0). -EPIPE: the helper went away. */
static int exchange(const struct act_remote *r, int on, int seconds, struct wire_answer *ret, int *fd, const struct wire_call *c,
		    struct error *err)
{
	union {
		struct wire_answer answer;
		char               more[sizeof(struct wire_answer) + 1]; /* to see that there is more */
	} in;
	ssize_t n;

	if (send(on, c, sizeof(*c), MSG_NOSIGNAL) < 0)
		return errno == EPIPE || errno == ECONNRESET ? -EPIPE : error_set(err, -ENOTCONN, "cannot write to velad-helper: %s", strerror(errno));
	n = seconds ? await(r, seconds) : 0;
	n = n == 0 ? receive(on, &in, sizeof(in), fd) : n;
	if (n == 0)
		return -EPIPE;
	if (n == -EAGAIN)
		return error_set(err, -ETIMEDOUT, "velad-helper has not answered %s for %d s", wire_verb_text((enum wire_verb)c->verb),
				 seconds ? seconds : ANSWER_SECONDS);
	if (n < 0)
		return error_set(err, -ENOTCONN, "cannot read from velad-helper: %s", strerror((int)-n));
	return wire_answer_read(ret, &in, (size_t)n, err);
}

/* By futex(2), which every thread of velad may call. */
static void nap(unsigned ms)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct timespec until = clock_at(clock_ms() + ms);

	(void)pthread_mutex_lock(&lock);
	(void)pthread_cond_clockwait(&never, &lock, CLOCK_MONOTONIC, &until);
	(void)pthread_mutex_unlock(&lock);
}

/* There may be no socket yet, where velad is started beside velad-helper.socket: true if it is worth another look. */
static bool look_again(struct act_remote *r, int e)
{
	if (r->heard || (e != ENOENT && e != ECONNREFUSED) || clock_ms() - r->born >= 1000 * (uint64_t)r->start)
		return false;
	nap(LOOK_MS);
	return true;
}

static int reach_patiently(struct act_remote *r, int *on, bool is_file, struct error *err)
{
	int result;

	do {
		*err = ERROR_INIT;
		result = reach(r, on, is_file, err);
	} while (result < 0 && is_file && look_again(r, r->away));
	return result;
}

/* *on: a connection, -1 if there is none yet; it is closed when it has failed. */
static int ask(struct act_remote *r, int *on, struct wire_answer *ret, int *fd, const struct wire_call *c, struct error *err)
{
	bool is_file = on == &r->kept;
	int result = -EPIPE;

	for (int tries = 0; tries < 2 && result == -EPIPE; tries++) {
		int seconds = !is_file ? 0 : *on < 0 ? r->patience : FILE_SECONDS;

		result = *on < 0 ? reach_patiently(r, on, is_file, err) : 0;
		if (result == 0) {
			result = exchange(r, *on, seconds, ret, fd, c, err);
			r->away = -result;
			r->heard = r->heard || result == 0;
		}
		if (result < 0 && *on >= 0) {
			(void)close(*on);
			*on = -1;
		}
	}
	if (result == -EPIPE)
		return error_set(err, -ENOTCONN, "velad-helper went away twice while it did %s; see its journal", wire_verb_text((enum wire_verb)c->verb));
	return result < 0 ? result : ret->code < 0 ? error_set(err, ret->code, "%s", ret->text) : 0;
}

void act_remote_patience(struct act_remote *r, int seconds)
{
	r->patience = r->start = seconds;
}

int act_remote_away(struct act_remote *r, struct error *why)
{
	int e = r->away;

	return e ? unreachable(r, e, why) : 0;
}

/* ---- connections of steps ------------------------------------------------------------------------------- */

/* -1: there is none. */
static int take(struct act_remote *r)
{
	int on;

	(void)pthread_mutex_lock(&r->free_lock);
	on = r->nfree ? r->free[--r->nfree] : -1;
	(void)pthread_mutex_unlock(&r->free_lock);
	return on;
}

static void give(struct act_remote *r, int on)
{
	(void)pthread_mutex_lock(&r->free_lock);
	if (r->nfree < FREE_MAX) {
		r->free[r->nfree++] = on;
		on = -1;
	}
	(void)pthread_mutex_unlock(&r->free_lock);
	if (on >= 0)
		(void)close(on);
}

/* One that was used before may be closed by now, at the other end, as those that are free since longer then are: that is no failure of the
 * helper's. Each verb says what is to be, so asking again does no harm where the call was heard. */
static int ask_used(struct act_remote *r, int *on, struct wire_answer *ret, int *fd, const struct wire_call *c, struct error *err)
{
	int result = exchange(r, *on, 0, ret, fd, c, err);

	if (result == 0) {
		r->away = 0;
		return ret->code < 0 ? error_set(err, ret->code, "%s", ret->text) : 0;
	}
	(void)close(*on);
	*on = -1;
	if (result != -EPIPE) {
		r->away = -result;
		return result;
	}
	while ((*on = take(r)) >= 0)
		(void)close(*on);
	return ask(r, on, ret, fd, c, err);
}

/* A connection of its own, for as long as the call takes: one that hangs holds up no other. */
static int ask_alone(struct act_remote *r, struct wire_answer *ret, int *fd, const struct wire_call *c, struct error *err)
{
	int on = take(r);
	int result = on < 0 ? ask(r, &on, ret, fd, c, err) : ask_used(r, &on, ret, fd, c, err);

	if (on >= 0)
		give(r, on);
	return result;
}

int act_remote_call(struct act_remote *r, struct wire_answer *ret, const struct wire_call *c, struct error *err)
{
	struct wire_answer answer;
	autoclose int fd = -1;

	return ask_alone(r, ret ? ret : &answer, &fd, c, err);
}

/* ".../0000:17:00.0/config", or a socket's name */
static bool call_of(struct wire_call *ret, const char *path)
{
	int socket = wire_file_find(path);
	const char *name = strrchr(path, '/'), *dir = name;
	char text[BDF_TEXT_MAX];
	struct bdf fn;
	int file = name ? wire_file_find(name + 1) : -1;

	if (socket > WIRE_VPD) {
		*ret = wire_call(WIRE_OPEN, (struct bdf){ 0 });
		ret->number = (uint16_t)socket;
		return true;
	}
	while (dir && dir > path && dir[-1] != '/')
		dir--;
	if (file < 0 || file > WIRE_VPD || name - dir >= BDF_TEXT_MAX)
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(name - dir), dir);
	if (!bdf_parse(&fn, text))
		return false;
	*ret = wire_call(WIRE_OPEN, fn);
	ret->number = (uint16_t)file;
	return true;
}

void act_remote_hasty(void)
{
	hasty = true;
}

static int ask_hastily(struct act_remote *r, struct wire_answer *ret, int *fd, const struct wire_call *c, struct error *err)
{
	int result;

	(void)pthread_mutex_lock(&r->lock);
	if (clock_ms() < r->deaf)
		result = error_set(err, -ETIMEDOUT, "velad-helper has not answered, and is asked again in a while");
	else {
		result = ask(r, &r->kept, ret, fd, c, err);
		r->patience = r->kept >= 0 ? AGAIN_SECONDS : FILE_SECONDS;
		if (result == -ETIMEDOUT)
			r->deaf = clock_ms() + 1000 * DEAF_SECONDS;
	}
	(void)pthread_mutex_unlock(&r->lock);
	return result;
}

int act_remote_fd(struct act_remote *r, const struct wire_call *c, struct error *err)
{
	struct wire_answer answer;
	autoclose int fd = -1;
	int result = hasty || pthread_equal(r->loop, pthread_self()) ? ask_hastily(r, &answer, &fd, c, err) : ask_alone(r, &answer, &fd, c, err);

	if (result == 0 && fd < 0)
		return error_set(err, -EIO, "velad-helper's answer to %s lacks a descriptor", wire_verb_text((enum wire_verb)c->verb));
	return result < 0 ? result : steal_fd(&fd);
}

int act_remote_open(void *self, const char *path)
{
	struct error ignored = ERROR_INIT;
	struct wire_call c;
	int result = call_of(&c, path) ? act_remote_fd(self, &c, &ignored) : -EACCES;

	return result == -ENODEV ? -ENOENT : result;
}
