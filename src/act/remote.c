/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks velad-helper. */
#include "act/remote.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/error.h"

#define ANSWER_SECONDS 600 /* VFs of a big NIC take more than a minute; after this, a thread is not lost for ever */

struct act_remote {
	struct sockaddr_un address;
	pthread_mutex_t    lock;
	int                kept; /* for files; -1 */
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
	r->kept = -1;
	*ret = r;
	return 0;
}

struct act_remote *act_remote_free(struct act_remote *r)
{
	if (!r)
		return NULL;
	if (r->kept >= 0)
		(void)close(r->kept);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}

static int unreachable(const struct act_remote *r, int e, struct error *err)
{
	return error_set(err, -EIO, "cannot reach velad-helper at %s: %s; systemctl start velad-helper.socket", r->address.sun_path,
			 strerror(e));
}

/* Who opens files may be velad's loop, which has no setsockopt(2); that takes no time. */
static int reach(const struct act_remote *r, int *ret, bool is_change, struct error *err)
{
	const struct timeval wait = { .tv_sec = ANSWER_SECONDS };
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&r->address, sizeof(r->address)) < 0 ||
	    (is_change && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0))
		return unreachable(r, errno, err);
	*ret = steal_fd(&fd);
	return 0;
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

/* One message there and one back. -EPIPE: the helper went away. */
static int exchange(int on, struct wire_answer *ret, int *fd, const struct wire_call *c, struct error *err)
{
	union {
		struct wire_answer answer;
		char               more[sizeof(struct wire_answer) + 1]; /* to see that there is more */
	} in;
	ssize_t n;

	if (send(on, c, sizeof(*c), MSG_NOSIGNAL) < 0)
		return errno == EPIPE || errno == ECONNRESET ? -EPIPE : error_set(err, -EIO, "cannot write to velad-helper: %s", strerror(errno));
	n = receive(on, &in, sizeof(in), fd);
	if (n == 0)
		return -EPIPE;
	if (n == -EAGAIN)
		return error_set(err, -ETIMEDOUT, "velad-helper has not answered %s for %d s", wire_verb_text((enum wire_verb)c->verb), ANSWER_SECONDS);
	if (n < 0)
		return error_set(err, -EIO, "cannot read from velad-helper: %s", strerror((int)-n));
	return wire_answer_read(ret, &in, (size_t)n, err);
}

/* *on: a connection, -1 if there is none yet; it is closed when it has failed. */
static int ask(const struct act_remote *r, int *on, struct wire_answer *ret, int *fd, const struct wire_call *c, struct error *err)
{
	int result = -EPIPE;

	for (int tries = 0; tries < 2 && result == -EPIPE; tries++) {
		result = *on < 0 ? reach(r, on, on != &r->kept, err) : 0;
		if (result == 0)
			result = exchange(*on, ret, fd, c, err);
		if (result < 0 && *on >= 0) {
			(void)close(*on);
			*on = -1;
		}
	}
	if (result == -EPIPE)
		return error_set(err, -EIO, "velad-helper went away twice while it did %s; see its journal", wire_verb_text((enum wire_verb)c->verb));
	return result < 0 ? result : ret->code < 0 ? error_set(err, ret->code, "%s", ret->text) : 0;
}

int act_remote_call(struct act_remote *r, struct wire_answer *ret, const struct wire_call *c, struct error *err)
{
	struct wire_answer answer;
	autoclose int on = -1, fd = -1;

	return ask(r, &on, ret ? ret : &answer, &fd, c, err);
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

int act_remote_fd(struct act_remote *r, const struct wire_call *c, struct error *err)
{
	struct wire_answer answer;
	autoclose int fd = -1;
	int result;

	(void)pthread_mutex_lock(&r->lock);
	result = ask(r, &r->kept, &answer, &fd, c, err);
	(void)pthread_mutex_unlock(&r->lock);
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
