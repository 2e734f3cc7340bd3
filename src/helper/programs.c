/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The second process: a thread for each call, as the first. It ends with it. */
#include "helper/programs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

struct errand {
	const struct serve *serve; /* borrowed; of the second process */
	int                 client; /* owned */
	struct wire_call    call;
};

bool programs_has(const struct wire_call *c)
{
	return c->verb == WIRE_PARTITION || c->verb == WIRE_SCRUB || (c->verb == WIRE_OPEN && c->number == WIRE_PARTITIONS);
}

static void *run(void *self)
{
	struct errand *e = self;
	struct wire_answer a;
	autoclose int fd = -1;

	serve_call(e->serve, &a, &fd, &e->call, sizeof(e->call));
	(void)serve_answer(e->client, &a, fd); /* it may be there no more */
	(void)close(e->client);
	(void)send(e->serve->programs, "", 1, MSG_NOSIGNAL);
	free(e);
	return NULL;
}

static void run_errand(const struct serve *s, const struct wire_call *c, int client)
{
	struct errand *e = malloc(sizeof(*e));
	pthread_t thread;

	if (e) {
		*e = (struct errand){ .serve = s, .client = client, .call = *c };
		if (pthread_create(&thread, NULL, run, e) == 0) {
			(void)pthread_detach(thread);
			return;
		}
	}
	free(e);
	serve_refuse(client, -EBUSY, "velad-helper has no memory for one more call; try again");
	(void)close(client);
	(void)send(s->programs, "", 1, MSG_NOSIGNAL);
}

/* Until the other end is closed. What still runs then is cut off, as by a signal. */
_Noreturn static void serve_errands(const struct serve *s)
{
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(sizeof(int))];
	} control;
	struct wire_call c;
	struct iovec part = { .iov_base = &c, .iov_len = sizeof(c) };
	ssize_t n;

	for (;;) {
		struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
		struct cmsghdr *head;
		int client;

		n = recvmsg(s->programs, &msg, MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(EXIT_SUCCESS);
		head = CMSG_FIRSTHDR(&msg);
		if (!head || head->cmsg_type != SCM_RIGHTS || n != (ssize_t)sizeof(c))
			continue; /* the first process sends nothing else */
		memcpy(&client, CMSG_DATA(head), sizeof(client));
		run_errand(s, &c, client);
	}
}

int programs_start(struct serve *s, struct error *err)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, -errno, "cannot make a socket pair: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return error_set(err, -errno, "cannot start the process that runs programs: %s", strerror(errno));
	(void)close(pair[pid == 0]);
	s->programs = pair[pid != 0];
	if (pid == 0) {
		(void)close(s->listening);
		s->runs_programs = true;
		serve_errands(s);
	}
	return 0;
}

bool programs_hand(const struct serve *s, const struct wire_call *c, int client)
{
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec part = { .iov_base = (void *)(uintptr_t)c, .iov_len = sizeof(*c) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };

	control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(&control.head), &client, sizeof(client));
	return sendmsg(s->programs, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(*c);
}

int programs_answered(const struct serve *s)
{
	char ignored;
	ssize_t n = recv(s->programs, &ignored, 1, MSG_DONTWAIT);

	return n == 1 ? 1 : n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}
