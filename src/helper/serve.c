/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One message in, judged, done, one message out. Nothing that a client sends is believed before wire_call_read() and
 * judge_call() have passed it. */
#include "helper/serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "act/kmod.h"
#include "act/log.h"
#include "act/partition.h"
#include "base/error.h"
#include "base/log.h"
#include "helper/programs.h"
#include "host/system.h"
#include "host/watch.h"

#define STACK_BYTES (512 * 1024)

/* ---- verbs -------------------------------------------------------------------------------------------- */

static int open_socket(int *fd, enum wire_file which, struct error *err)
{
	int r = which == WIRE_DEVLINK ? host_devlink_socket() : host_watch_socket(which == WIRE_UEVENTS ? HOST_WATCH_UEVENT : HOST_WATCH_LINK);

	if (r < 0)
		return error_set(err, r, "cannot open %s: %s", wire_file_text(which), strerror(-r));
	*fd = r;
	return 0;
}

static int list_partitions(const struct serve *s, int *fd, struct error *err)
{
	autofree char *text = NULL;
	autoclose int file = -1;
	int r = host_fabric_list(&text, s->judge.pci->root, s->judge.kinds.fmpm, err);

	if (r < 0)
		return r;
	file = memfd_create("partitions", MFD_CLOEXEC);
	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text) || lseek(file, 0, SEEK_SET) < 0)
		return error_set(err, -EIO, "cannot keep what fmpm prints: %s", strerror(errno));
	*fd = steal_fd(&file);
	return 0;
}

static int do_open(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	const char *file = wire_file_text((enum wire_file)c->number);
	char path[HOST_PATH_MAX];
	int r;

	(void)a;
	if (c->number == WIRE_PARTITIONS)
		return list_partitions(s, fd, err);
	if (c->number > WIRE_VPD)
		return open_socket(fd, (enum wire_file)c->number, err);
	r = act_pci_path(s->judge.pci, path, wire_call_fn(c), err);
	if (r < 0)
		return r;
	r = host_open(s->judge.pci->root, "%s/%s", path, file);
	if (r < 0)
		return error_set(err, r, "cannot open %s/%s: %s", path, file, strerror(-r));
	*fd = r;
	return 0;
}

static int do_vfio_load(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	bool loaded = false;
	int r = act_vfio_loaded(s->judge.pci->root, &loaded, err);

	(void)a;
	(void)fd;
	(void)c;
	if (r == 0 && !loaded)
		return error_set(err, -ENODEV, "vfio-pci is not in the kernel, and velad-helper loads no modules; "
				 "systemctl restart modprobe@vfio_pci.service, and see its journal");
	return r;
}

static int do_vf_count(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	(void)a;
	(void)fd;
	return act_pci_vf_count_set(s->judge.pci, wire_call_fn(c), c->number, err);
}

static int do_autoprobe(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	int now;

	(void)a;
	(void)fd;
	return act_pci_autoprobe(s->judge.pci, &now, wire_call_fn(c), (enum act_want)c->set, err);
}

static int do_driver(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	(void)a;
	(void)fd;
	return act_pci_driver_set(s->judge.pci, wire_call_fn(c), &c->driver, err);
}

static int do_word(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	(void)fd;
	return act_pci_word(s->judge.pci, &a->word, wire_call_fn(c), (enum act_word)c->number, c->set, c->clear, err);
}

static int do_power(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	struct act_power now;
	int r = act_pci_power(s->judge.pci, &now, wire_call_fn(c), &c->power, err);

	(void)fd;
	if (r == 0) {
		(void)snprintf(a->power.control, sizeof(a->power.control), "%s", now.control);
		a->power.d3cold = now.d3cold;
	}
	return r;
}

static int do_partition(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	bool active = false;
	int r = act_partition(s->judge.pci->root, s->judge.kinds.fmpm, &active, c->number, (enum act_want)c->set, err);

	(void)fd;
	a->word = active;
	return r;
}

/* Whose it is besides is velad's to look at: here a bus reset that hits anything a driver of the host works with is refused. */
static int do_reset(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	(void)a;
	(void)fd;
	return act_pci_reset_idle(s->judge.pci, wire_call_fn(c), err);
}

static int do_vf(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	struct plan_vf_settings want = { .has = c->vf_has }, now = { 0 };
	int r;

	(void)fd;
	memcpy(want.value, c->vf_value, sizeof(want.value));
	r = act_pci_vf(s->judge.pci, &now, wire_call_fn(c), want.has ? &want : NULL, err);
	a->vf_has = now.has;
	memcpy(a->vf_value, now.value, sizeof(a->vf_value));
	return r;
}

static int do_scrub(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	(void)a;
	(void)fd;
	if (!s->scrub[0])
		return error_set(err, -ENODEV, "velad-helper's velad.conf names no [release] scrub; restart velad-helper if it does now");
	return act_scrub(s->judge.pci, wire_call_fn(c), s->scrub, s->scrub_seconds, err);
}

static int do_log(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c, struct error *err)
{
	int r;

	(void)a;
	if (c->number == WIRE_LOG_DROP)
		return act_log_drop(s->logs, c->driver.driver, err);
	r = act_log_open(s->logs, c->driver.driver, c->number, err);
	if (r < 0)
		return r;
	*fd = r;
	return 0;
}

static int (*const verbs[WIRE_VERB_MAX_])(const struct serve *s, struct wire_answer *a, int *fd, const struct wire_call *c,
					   struct error *err) = {
	[WIRE_OPEN] = do_open,     [WIRE_VFIO_LOAD] = do_vfio_load, [WIRE_VF_COUNT] = do_vf_count,
	[WIRE_DRIVER] = do_driver, [WIRE_WORD] = do_word,           [WIRE_POWER] = do_power,
	[WIRE_PARTITION] = do_partition, [WIRE_AUTOPROBE] = do_autoprobe,
	[WIRE_RESET] = do_reset,
	[WIRE_VF] = do_vf,
	[WIRE_SCRUB] = do_scrub,
	[WIRE_LOG] = do_log,
};

static bool looks(const struct wire_call *c)
{
	return c->verb == WIRE_OPEN || c->verb == WIRE_VFIO_LOAD || (c->verb == WIRE_PARTITION && c->set == ACT_LOOK) ||
	       (c->verb == WIRE_VF && !c->vf_has) || (c->verb == WIRE_LOG && c->number != WIRE_LOG_DROP);
}

/* What changed, and what was refused, is in the journal; who only reads is not. */
static void note(const struct wire_call *c, int r, const struct error *err)
{
	char name[ACT_DRIVER_MAX] = "";

	if (c->verb == WIRE_LOG)
		(void)snprintf(name, sizeof(name), "%s", c->driver.driver);
	else if (c->verb != WIRE_VFIO_LOAD)
		(void)bdf_text(name, wire_call_fn(c));
	if (r == -ENOENT && c->verb == WIRE_LOG)
		return; /* it has no more files */
	if (r < 0)
		log_write(r == -EPERM ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "%s %s: %s", wire_verb_text((enum wire_verb)c->verb), name, err->text);
	else if (!looks(c))
		log_info("%s %s: done", wire_verb_text((enum wire_verb)c->verb), name);
}

void serve_call(const struct serve *s, struct wire_answer *answer, int *fd, const void *bytes, size_t len)
{
	struct error err = ERROR_INIT;
	struct wire_answer a = { .version = WIRE_VERSION };
	struct wire_call c = { 0 };
	int r = wire_call_read(&c, bytes, len, &err);

	if (r == 0) {
		r = judge_call(&s->judge, &c, &err);
		if (r == 0 && programs_has(&c) && !s->runs_programs)
			r = error_set(&err, -EIO, "velad-helper's process that runs programs is gone; systemctl restart velad-helper");
		if (r == 0)
			r = verbs[c.verb](s, &a, fd, &c, &err);
		note(&c, r, &err);
	} else {
		log_warning("refused: %s", err.text);
	}
	if (r < 0) {
		a = (struct wire_answer){ .version = WIRE_VERSION, .code = r };
		(void)snprintf(a.text, sizeof(a.text), "%s", err.text);
	}
	*answer = a;
}

/* ---- connections ---------------------------------------------------------------------------------------- */

struct connection {
	const struct serve *serve;
	int                 fd; /* owned */
	atomic_uint        *open; /* borrowed: how many there are */
};

bool serve_answer(int client, const struct wire_answer *a, int fd)
{
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec part = { .iov_base = (void *)(uintptr_t)a, .iov_len = sizeof(*a) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	return sendmsg(client, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(*a);
}

/* A call for the process that runs programs goes there with its connection, which that one then ends. */
static bool hand_over(const struct serve *s, int client, const void *bytes, size_t len)
{
	struct error ignored = ERROR_INIT;
	struct wire_call c;

	return wire_call_read(&c, bytes, len, &ignored) == 0 && programs_has(&c) && judge_call(&s->judge, &c, &ignored) == 0 &&
	       programs_hand(s, &c, client);
}

static void *end(struct connection *c, bool is_answered)
{
	(void)close(c->fd);
	if (is_answered) {
		atomic_fetch_sub(c->open, 1);
		(void)eventfd_write(c->serve->wake, 1); /* the idle time begins */
	}
	free(c);
	return NULL;
}

/* A broken message is answered, and is the last. */
static void *converse(void *self)
{
	struct connection *c = self;
	char bytes[sizeof(struct wire_call) + 1];
	struct wire_answer a;
	bool go_on = true;

	while (go_on) {
		autoclose int fd = -1;
		ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* it went away, or has been silent */
		if (hand_over(c->serve, c->fd, bytes, (size_t)n))
			return end(c, false);
		serve_call(c->serve, &a, &fd, bytes, (size_t)n);
		go_on = serve_answer(c->fd, &a, fd) && a.code != -EPROTO;
	}
	return end(c, true);
}

static bool is_allowed(const struct serve *s, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return false;
	if (who.uid == 0 || who.uid == s->uid)
		return true;
	log_warning("uid %u, process %d, may not ask velad-helper", who.uid, who.pid);
	return false;
}

void serve_refuse(int client, int code, const char *text)
{
	struct wire_answer a = { .version = WIRE_VERSION, .code = code };

	(void)snprintf(a.text, sizeof(a.text), "%s", text);
	(void)serve_answer(client, &a, -1); /* who is not there any more does not mind */
}

static int start(const struct connection *from)
{
	struct connection *c = malloc(sizeof(*c));
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!c)
		return ENOMEM;
	*c = *from;
	(void)pthread_attr_init(&attr); /* these fail on bad arguments only */
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = pthread_create(&thread, &attr, converse, c);
	(void)pthread_attr_destroy(&attr);
	if (r)
		free(c);
	return r;
}

static void greet(const struct serve *s, atomic_uint *open)
{
	const struct timeval silence = { .tv_sec = SERVE_SILENCE_SECONDS };
	autoclose int fd = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC);
	struct connection c = { .serve = s, .fd = fd, .open = open };

	if (fd < 0 || !is_allowed(s, fd))
		return;
	if (atomic_load(open) >= SERVE_CONNECTIONS_MAX) {
		serve_refuse(fd, -EBUSY, "velad-helper has as many calls as it takes at once; try again");
		return;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence)) < 0)
		return;
	atomic_fetch_add(open, 1);
	if (start(&c) == 0) {
		(void)steal_fd(&fd);
		return;
	}
	atomic_fetch_sub(open, 1);
	serve_refuse(fd, -EBUSY, "velad-helper has no memory for one more call; try again");
}

int serve_run(const struct serve *s, struct error *err)
{
	static atomic_uint open; /* threads outlive this function when they hang */
	struct pollfd on[] = { { s->listening, POLLIN, 0 }, { s->signals, POLLIN, 0 }, { s->wake, POLLIN, 0 },
			       { s->programs, POLLIN, 0 } };
	eventfd_t ignored;

	for (;;) {
		bool idle = s->idle_seconds && atomic_load(&open) == 0;
		int n = poll(on, ARRAY_SIZE(on), idle ? (int)s->idle_seconds * 1000 : -1);

		if (n < 0 && errno != EINTR)
			return error_set(err, -errno, "cannot wait for calls: %s", strerror(errno));
		if (n == 0 && idle)
			return 0;
		if (n > 0 && on[1].revents)
			return 0; /* a call that runs is cut off: its caller asks the next helper */
		if (n > 0 && on[2].revents)
			(void)eventfd_read(s->wake, &ignored);
		if (n > 0 && on[3].revents) {
			int answered = programs_answered(s);

			if (answered < 0)
				return error_set(err, -EIO, "the process that runs programs has ended");
			atomic_fetch_sub(&open, (unsigned)answered);
		}
		if (n > 0 && on[0].revents)
			greet(s, &open);
	}
}
