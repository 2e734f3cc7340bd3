/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A call: a socket pair, one end of it sent to the process, a document written and one read until the end. So an answer is
 * whole or there is none, and who waits for one hears at once when the process ends. */
#include "act/hyper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sbuf.h"
#include "base/thread.h"

#define PROGRAM  "velad-libvirt"
#define SLACK_MS 1000  /* instance/guard gives up first, and says so */
#define GRACE_MS 10000 /* for the calls of others, before one that hangs ends them all */
#define FD_MIN   10    /* above those that the program is to have */

extern char **environ;

struct flight { /* a call that is under way */
	int            fd;
	bool           overdue; /* or may take as long as it likes */
	struct flight *next;
};

struct act_hyper {
	pthread_mutex_t lock;
	pthread_cond_t  moved;   /* flights, ending */
	struct flight  *flights; /* of those who wait for them */
	bool            ending;  /* the process is about to be ended: nobody begins a call */
	struct error    gone;    /* it could not be started, or nobody starts it again */
	int             calls, life; /* sockets, owned; -1 */
	struct act_hypervisor env; /* texts borrowed */

	pthread_t       thread; /* that watches */
	bool            watching, stop;
	void (*fn)(void *self, const char *name, enum act_domain state);
	void           *fn_self;
	struct act_offer offer; /* its type "": not known yet */
	struct error    problem; /* why libvirt cannot be reached */
};

/* ---- the process ---------------------------------------------------------------------------------------- */

/* Where velad itself lies. */
static int beside(char path[PATH_MAX], struct error *err)
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof(PROGRAM) - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return error_set(err, -EREMOTEIO, "cannot find out where " PROGRAM " is: /proc cannot be read");
	(void)strcpy(slash + 1, PROGRAM);
	return 0;
}

/* A session that a terminal's ^C does not reach: velad ends it. Signals as a fresh program expects them. */
static int spawn(const char *program, const struct act_hypervisor *env, int calls, int life)
{
	char *argv[] = { (char[]){ PROGRAM }, (char[]){ "--uri" }, (char *)env->uri, (char[]){ "--pool" }, (char *)env->images.pool,
			 (char[]){ "--dir" }, (char *)env->images.dir, (char[]){ "--seccomp" }, (char *)(env->seccomp ? env->seccomp : "off"), NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t at;
	sigset_t none, all;
	pid_t pid;
	int e = posix_spawn_file_actions_init(&files);

	if (e)
		return e;
	e = posix_spawnattr_init(&at);
	if (!e) {
		(void)sigemptyset(&none);
		(void)sigfillset(&all);
		(void)posix_spawnattr_setsigmask(&at, &none); /* these fail on a bad argument only */
		(void)posix_spawnattr_setsigdefault(&at, &all);
		(void)posix_spawnattr_setpgroup(&at, 0);
		(void)posix_spawnattr_setflags(&at, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
		e = posix_spawn_file_actions_adddup2(&files, calls, HYPER_FD_CALLS);
		if (!e)
			e = posix_spawn_file_actions_adddup2(&files, life, HYPER_FD_LIFE);
		if (!e) /* before the program begins: exec(2) lets this process go on before it closes anything (begin_new_exec(), fs/exec.c) */
			e = posix_spawn_file_actions_addclosefrom_np(&files, HYPER_FD_LIFE + 1);
		if (!e)
			e = posix_spawn(&pid, program, &files, &at, argv, environ);
		(void)posix_spawnattr_destroy(&at);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return e;
}

/* *theirs: above the numbers that it gets in the program. */
static int make_pair(int type, int *ours, int *theirs)
{
	autoclose int one = -1;
	int fds[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
		return errno;
	*ours = fds[0];
	one = fds[1];
	*theirs = fcntl(one, F_DUPFD_CLOEXEC, FD_MIN);
	return *theirs < 0 ? errno : 0;
}

static int start(struct act_hyper *h, const struct act_hypervisor *env, struct error *err)
{
	autoclose int calls = -1, life = -1;
	const char *program = env->program;
	char path[PATH_MAX];
	int e = make_pair(SOCK_SEQPACKET, &h->calls, &calls);

	if (!e)
		e = make_pair(SOCK_STREAM, &h->life, &life);
	if (e)
		return error_set(err, -EREMOTEIO, "cannot make a socket for " PROGRAM ": %s", strerror(e));
	if (!program && beside(path, err) < 0)
		return err->code;
	e = spawn(program ? program : path, env, calls, life);
	if (e)
		return error_set(err, -EREMOTEIO, "cannot start %s, which talks to libvirt: %s; install it beside velad, and restart velad",
				 program ? program : path, strerror(e));
	return 0;
}

int act_hyper_new(struct act_hyper **ret, const struct act_hypervisor *env, struct error *err)
{
	auto_(act_hyper_free) struct act_hyper *h = calloc(1, sizeof(*h));
	pthread_condattr_t attr;

	if (!h)
		return error_set(err, -ENOMEM, "no memory for the client of " PROGRAM);
	h->calls = h->life = -1;
	h->env = *env;
	/* glibc: these fail for no argument that is given here */
	(void)pthread_mutex_init(&h->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&h->moved, &attr);
	(void)pthread_condattr_destroy(&attr);
	if (start(h, env, &h->gone) < 0)
		log_warning("%s", h->gone.text);
	*ret = steal(h);
	return 0;
}

/* Nobody calls any more. The process ends when it sees that its sockets are closed. */
struct act_hyper *act_hyper_free(struct act_hyper *h)
{
	if (!h)
		return NULL;
	act_hyper_unwatch(h);
	if (h->calls >= 0)
		(void)close(h->calls);
	if (h->life >= 0)
		(void)close(h->life);
	(void)pthread_cond_destroy(&h->moved);
	(void)pthread_mutex_destroy(&h->lock);
	free(h);
	return NULL;
}

/* ---- flights -------------------------------------------------------------------------------------------- */

static int gone(struct act_hyper *h, struct error *err)
{
	return error_set(err, h->gone.code, "%s", h->gone.text);
}

/* velad's threads for calls and images have a list of system calls (velad/sandbox): sendmsg(2) for all that is sent, read(2) for the answer. */
static ssize_t put(int fd, const char *bytes, size_t n, int flags)
{
	struct iovec part = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = n };

	return sendmsg(fd, &(struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 }, MSG_NOSIGNAL | flags);
}

/* The process gets its end of the socket, and the one that the call is about, with a byte that says nothing. */
static int hand_over(struct act_hyper *h, const struct hyper_call *c, int fd, struct error *err)
{
	const int fds[HYPER_FDS] = { fd, c->fd };
	size_t size = (c->verb == HYPER_CONSOLE ? HYPER_FDS : 1) * sizeof(fd);
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(sizeof(fds))];
	} control = { .room = { 0 } };
	struct iovec part = { .iov_base = (char[]){ "" }, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(size) };

	control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size) };
	memcpy(CMSG_DATA(&control.head), fds, size);
	if (sendmsg(h->calls, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
		return 0;
	if (errno == EAGAIN || errno == ETOOMANYREFS)
		return error_set(err, -EBUSY, PROGRAM " has as many calls as it takes at once; try again");
	return error_set(&h->gone, -EREMOTEIO, PROGRAM " has ended, and with it what starts it again: %s; systemctl restart velad, which leaves guests "
			 "as they are", strerror(errno));
}

static int take_off(struct act_hyper *h, struct flight *f, const struct hyper_call *c, unsigned ms, struct error *err)
{
	struct timeval wait = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	int fds[2], r = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 || setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	    setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
		return error_set(err, -EREMOTEIO, "cannot make a socket for a call of " PROGRAM ": %s", strerror(errno));
	(void)pthread_mutex_lock(&h->lock);
	while (h->ending)
		(void)pthread_cond_wait(&h->moved, &h->lock);
	if (h->stop && !ms)
		r = error_set(err, -ECANCELED, "nobody watches any more");
	else if (h->gone.code == 0)
		r = hand_over(h, c, fds[1], err);
	if (h->gone.code < 0)
		r = gone(h, err);
	*f = (struct flight){ .fd = fds[0], .overdue = !ms, .next = h->flights };
	if (r == 0)
		h->flights = f;
	(void)pthread_mutex_unlock(&h->lock);
	(void)close(fds[1]);
	if (r < 0)
		(void)close(fds[0]);
	return r;
}

static void land(struct act_hyper *h, struct flight *f)
{
	struct flight **at = &h->flights;

	(void)pthread_mutex_lock(&h->lock);
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	(void)pthread_cond_broadcast(&h->moved);
	(void)pthread_mutex_unlock(&h->lock);
	(void)close(f->fd);
}

static bool all_overdue(const struct act_hyper *h)
{
	for (const struct flight *f = h->flights; f; f = f->next)
		if (!f->overdue)
			return false;
	return true;
}

/* What hangs cannot be taken back alone. Nobody learns what a process that hangs in the kernel still does: its calls are cut off. */
static void end_process(struct act_hyper *h)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += GRACE_MS / 1000;
	h->ending = true;
	while (h->ending && !all_overdue(h))
		if (pthread_cond_timedwait(&h->moved, &h->lock, &end) != 0)
			break;
	if (!h->ending)
		return; /* by another one that was overdue */
	(void)put(h->life, "", 1, MSG_DONTWAIT); /* full, or gone: it is not there to be ended */
	for (const struct flight *f = h->flights; f; f = f->next)
		(void)shutdown(f->fd, SHUT_RDWR);
	h->ending = false;
	(void)pthread_cond_broadcast(&h->moved);
}

static int overdue(struct act_hyper *h, struct flight *f, const struct hyper_call *c, unsigned ms, struct error *err)
{
	(void)pthread_mutex_lock(&h->lock);
	f->overdue = true;
	end_process(h);
	(void)pthread_mutex_unlock(&h->lock);
	log_warning("libvirt has not answered %s %s for %u s: " PROGRAM " is ended, and started again", hyper_verb_text(c->verb),
		    c->name ? c->name : "", ms / 1000);
	return error_set(err, -ETIMEDOUT, "libvirt has not answered %s %s for %u s; what became of it is unknown", hyper_verb_text(c->verb),
			 c->name ? c->name : "", ms / 1000);
}

/* ---- a call --------------------------------------------------------------------------------------------- */

/* -EAGAIN: it takes longer than it may; -EPIPE: the process ended. */
static int converse(const struct flight *f, struct sbuf *in, const char *text)
{
	char part[4096];
	size_t left = strlen(text);
	ssize_t n;

	for (; left; text += n, left -= (size_t)n) {
		n = put(f->fd, text, left, 0);
		if (n < 0)
			return errno == EAGAIN ? -EAGAIN : -EPIPE;
	}
	(void)shutdown(f->fd, SHUT_WR); /* the end of the document */
	while ((n = read(f->fd, part, sizeof(part))) > 0 && in->len < HYPER_BYTES_MAX)
		sbuf_add_bytes(in, part, (size_t)n);
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	return n != 0 || !in->len ? -EPIPE : in->failed ? -ENOMEM : 0;
}

static const struct verb {
	size_t deadline; /* offset in struct act_hypervisor; 0: none */
	bool   again;    /* doing it twice is no harm */
} verbs[HYPER_VERB_MAX_] = {
	[HYPER_EVENTS] = { 0, true },
	[HYPER_DOMAIN] = { offsetof(struct act_hypervisor, look_ms), true },
	[HYPER_DOMAINS] = { offsetof(struct act_hypervisor, look_ms), true },
	[HYPER_START] = { offsetof(struct act_hypervisor, start_ms), false },
	[HYPER_ORDER] = { offsetof(struct act_hypervisor, stop_ms), false },
	[HYPER_STOP] = { offsetof(struct act_hypervisor, stop_ms), true },
	[HYPER_POOL] = { offsetof(struct act_hypervisor, look_ms), true },
	[HYPER_FILE] = { offsetof(struct act_hypervisor, look_ms), true },
	[HYPER_DROP] = { offsetof(struct act_hypervisor, stop_ms), true },
	[HYPER_DISK] = { offsetof(struct act_hypervisor, start_ms), false },
	[HYPER_SEED] = { offsetof(struct act_hypervisor, look_ms), true },
	[HYPER_CONSOLE] = { offsetof(struct act_hypervisor, look_ms), false },
};

/* -EPIPE: the process ended, and said nothing. */
static int exchange(struct act_hyper *h, json_object **ret, const struct hyper_call *c, const char *text, struct error *err)
{
	size_t at = verbs[c->verb].deadline;
	unsigned ms = at ? *(const unsigned *)((const char *)&h->env + at) + SLACK_MS : 0;
	struct error broken = ERROR_INIT;
	struct sbuf in = { 0 };
	struct flight f;
	int r = take_off(h, &f, c, ms, err);

	if (r < 0)
		return r;
	r = converse(&f, &in, text);
	if (r == -EAGAIN)
		r = overdue(h, &f, c, ms, err);
	else if (r == -ENOMEM)
		r = error_set(err, -ENOMEM, "no memory for an answer of " PROGRAM);
	else if (r == 0 && json_parse(ret, in.text, in.len, HYPER_BYTES_MAX, &broken) < 0)
		r = broken.code == -ENOMEM ? error_set(err, -ENOMEM, "%s", broken.text) : -EPIPE; /* half of one */
	land(h, &f);
	sbuf_done(&in);
	return r;
}

int act_hyper_call(struct act_hyper *h, struct hyper_answer *ret, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	auto_(json_object_put) json_object *request = hyper_call_json(c);
	auto_(json_object_put) json_object *doc = NULL;
	const char *text = request ? json_text(request) : NULL;
	int r = text ? exchange(h, &doc, c, text, err) : error_set(err, -ENOMEM, "no memory for a call of " PROGRAM);

	if (r == -EPIPE && verbs[c->verb].again)
		r = exchange(h, &doc, c, text, err);
	if (r == -EPIPE)
		return error_set(err, -EREMOTEIO, PROGRAM " ended while it did %s %s, and what became of that is unknown; it is started again, and "
				 "its journal says why", hyper_verb_text(c->verb), c->name ? c->name : "");
	if (r == 0)
		r = hyper_answer_read(ret, doc, arena, err);
	return r < 0 ? r : ret->code < 0 ? error_set(err, ret->code, "%s", ret->text) : 0;
}

/* ---- watching ------------------------------------------------------------------------------------------- */

static void note(struct act_hyper *h, const struct hyper_answer *a)
{
	(void)pthread_mutex_lock(&h->lock);
	h->problem = ERROR_INIT;
	if (a->type) {
		h->offer = (struct act_offer){ .qemu = a->qemu, .lacks = a->lacks };
		(void)snprintf(h->offer.type, sizeof(h->offer.type), "%s", a->type);
	} else {
		(void)error_set(&h->problem, -EREMOTEIO, "%s", a->problem ? a->problem : "libvirt cannot be reached");
	}
	(void)pthread_mutex_unlock(&h->lock);
	if (!a->type)
		log_warning("%s", h->problem.text);
}

static bool goes_on(struct act_hyper *h)
{
	bool yes;

	(void)pthread_mutex_lock(&h->lock);
	yes = !h->stop && h->gone.code == 0;
	(void)pthread_mutex_unlock(&h->lock);
	return yes;
}

/* A process that was started again begins with `changed`. */
static void *watch(void *self)
{
	static const struct hyper_call events = { .verb = HYPER_EVENTS };
	const struct timespec nap = { .tv_nsec = 200000000 };
	struct act_hyper *h = self;

	if (h->env.begins)
		h->env.begins(h->env.self);
	while (goes_on(h)) {
		struct arena arena = { 0 };
		struct hyper_answer a = { 0 };
		struct error err = ERROR_INIT;
		int r = act_hyper_call(h, &a, &events, &arena, &err);

		if (r == 0 && a.changed)
			note(h, &a);
		if (r == 0 && a.changed)
			h->fn(h->fn_self, NULL, ACT_DOMAIN_ABSENT);
		for (size_t i = 0; r == 0 && i < a.nevents; i++)
			h->fn(h->fn_self, a.event[i].name, a.event[i].state);
		arena_done(&arena);
		if (r < 0)
			(void)nanosleep(&nap, NULL);
	}
	h->fn(h->fn_self, NULL, ACT_DOMAIN_ABSENT); /* who waits learns that it is in vain */
	return NULL;
}

int act_hyper_offer(struct act_hyper *h, struct act_offer *ret, struct error *err)
{
	int r = 0;

	(void)pthread_mutex_lock(&h->lock);
	if (h->offer.type[0]) {
		*ret = h->offer;
	} else if (h->gone.code < 0) {
		r = gone(h, err);
	} else {
		r = h->problem.code < 0 ? error_set(err, -EREMOTEIO, "%s", h->problem.text) :
					  error_set(err, -EAGAIN, "libvirt at %s has not answered yet; look at its daemon", h->env.uri);
	}
	(void)pthread_mutex_unlock(&h->lock);
	return r;
}

int act_hyper_watch(struct act_hyper *h, void (*fn)(void *self, const char *name, enum act_domain state), void *self,
		    struct error *err)
{
	int r;

	h->fn = fn;
	h->fn_self = self;
	(void)pthread_mutex_lock(&h->lock); /* calls are under way already */
	h->stop = false;
	(void)pthread_mutex_unlock(&h->lock);
	r = thread_start(&h->thread, watch, h);
	h->watching = r == 0;
	return r ? error_set(err, -r, "cannot start the thread that watches libvirt: %s", strerror(r)) : 0;
}

/* Calls that are endless are this thread's alone. */
void act_hyper_unwatch(struct act_hyper *h)
{
	if (!h->watching)
		return;
	(void)pthread_mutex_lock(&h->lock);
	h->stop = true;
	for (const struct flight *f = h->flights; f; f = f->next)
		if (f->overdue)
			(void)shutdown(f->fd, SHUT_RDWR);
	(void)pthread_mutex_unlock(&h->lock);
	(void)pthread_join(h->thread, NULL); /* cannot fail: it is ours and not detached */
	h->watching = false;
}
