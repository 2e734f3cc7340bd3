/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One document in, done, one document out. Who made a call that was waiting here may have given it up: it is not begun then. */
#include "hyper/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "act/libvirt.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sbuf.h"
#include "base/thread.h"
#include "base/utf8.h"

/* ---- verbs -------------------------------------------------------------------------------------------- */

/* What is wrong with libvirt is part of the news, and no failure. */
static int do_events(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	struct error why = ERROR_INIT;
	struct act_offer offer;

	(void)c;
	if (news_take(&s->news, &a->changed, &a->event, &a->nevents, arena) < 0)
		return error_set(err, -ENOMEM, "no memory for events");
	if (!a->changed)
		return 0;
	if (act_virt_offer(s->virt, &offer, &why) == 0) {
		a->type = arena_strdup(arena, offer.type);
		a->qemu = offer.qemu;
		a->lacks = offer.lacks;
	} else {
		a->problem = arena_strdup(arena, why.text);
	}
	return a->type || a->problem ? 0 : error_set(err, -ENOMEM, "no memory for events");
}

static int do_domain(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)arena;
	return act_virt_domain(s->virt, &a->domain, c->name, err);
}

static int do_domains(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)c;
	return act_virt_domains(s->virt, &a->guest, &a->nguests, arena, err);
}

static int do_start(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)arena;
	return act_virt_start(s->virt, c->name, c->xml, err);
}

static int do_order(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)arena;
	return act_virt_order(s->virt, c->name, c->order, err);
}

static int do_stop(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)arena;
	return act_virt_stop(s->virt, c->name, err);
}

static int do_pool(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)c;
	(void)arena;
	return act_storage_pool(&s->storage, err);
}

static int do_file(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)arena;
	return act_storage_file(&s->storage, &a->file, c->name, err);
}

static int do_drop(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)arena;
	return act_storage_drop(&s->storage, c->name, err);
}

static int do_disk(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)arena;
	return act_storage_disk(&s->storage, &c->disk, err);
}

static int do_seed(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)arena;
	return act_storage_seed(&s->storage, c->name, &c->seed, err);
}

/* Who sees it keeps its own descriptor; libvirt's event loop has another. */
static int do_console(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena, struct error *err)
{
	(void)a;
	(void)arena;
	return act_virt_console(s->virt, c->name, c->force, c->fd, c->hello, err);
}

static int (*const verbs[HYPER_VERB_MAX_])(struct serve *s, struct hyper_answer *a, const struct hyper_call *c, struct arena *arena,
					   struct error *err) = {
	[HYPER_EVENTS] = do_events, [HYPER_DOMAIN] = do_domain, [HYPER_DOMAINS] = do_domains, [HYPER_START] = do_start,
	[HYPER_ORDER] = do_order,   [HYPER_STOP] = do_stop,     [HYPER_POOL] = do_pool,       [HYPER_FILE] = do_file,
	[HYPER_DROP] = do_drop,     [HYPER_DISK] = do_disk,     [HYPER_SEED] = do_seed,       [HYPER_CONSOLE] = do_console,
};

/* ---- a call ------------------------------------------------------------------------------------------- */

struct caller {
	struct serve *serve;
	int           fd[HYPER_FDS]; /* owned: its own, and what the call is about; -1 */
};

static int read_all(struct sbuf *in, int fd)
{
	char part[4096];
	ssize_t n;

	while ((n = recv(fd, part, sizeof(part), 0)) > 0 && in->len < HYPER_BYTES_MAX)
		sbuf_add_bytes(in, part, (size_t)n);
	return n == 0 && !in->failed ? 0 : -EPIPE;
}

static bool is_given_up(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

/* libvirt and QEMU say what they like; JSON is UTF-8. */
static void clean(char *text)
{
	for (size_t n; *text; text += n) {
		n = utf8_len(text);
		if (n == 0) {
			*text = '?';
			n = 1;
		}
	}
}

static bool write_all(int fd, const char *text)
{
	size_t left = strlen(text);
	ssize_t n;

	for (; left; text += n, left -= (size_t)n) {
		n = send(fd, text, left, MSG_NOSIGNAL);
		if (n < 0)
			return false;
	}
	return true;
}

static bool answer(int fd, const struct hyper_answer *a)
{
	auto_(json_object_put) json_object *doc = hyper_answer_json(a);
	const char *text = doc ? json_text(doc) : NULL;

	return text && write_all(fd, text);
}

static void serve_call(struct serve *s, const int fd[HYPER_FDS], const struct sbuf *in)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct hyper_answer a = { 0 };
	struct hyper_call c = { 0 };
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	int r = json_parse(&doc, in->text, in->len, HYPER_BYTES_MAX, &err);

	if (r == 0)
		r = hyper_call_read(&c, doc, &err);
	c.fd = fd[1];
	if (r == 0)
		r = verbs[c.verb](s, &a, &c, &arena, &err);
	if (r < 0) {
		clean(err.text);
		a = (struct hyper_answer){ .code = r, .text = err.text };
	}
	if (!answer(fd[0], &a) && c.verb == HYPER_EVENTS)
		news_lost(&s->news);
	arena_done(&arena);
}

static void close_all(const int fd[HYPER_FDS])
{
	for (size_t i = 0; i < HYPER_FDS; i++)
		if (fd[i] >= 0)
			(void)close(fd[i]);
}

static void *converse(void *self)
{
	struct caller *c = self;
	struct sbuf in = { 0 };

	if (read_all(&in, c->fd[0]) == 0 && in.len && !is_given_up(c->fd[0]))
		serve_call(c->serve, c->fd, &in);
	sbuf_done(&in);
	close_all(c->fd);
	free(c);
	return NULL;
}

/* Where there is no memory for it, its caller sees the end of it. */
static void begin(struct serve *s, const int fd[HYPER_FDS])
{
	struct caller *c = malloc(sizeof(*c));

	if (c) {
		*c = (struct caller){ .serve = s };
		memcpy(c->fd, fd, sizeof(c->fd));
	}
	if (c && thread_start(NULL, converse, c) == 0)
		return;
	free(c);
	close_all(fd);
}

/* 1; 0: velad has gone; -errno. */
static int next_call(int calls, int fd[HYPER_FDS])
{
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(HYPER_FDS * sizeof(int))];
	} control;
	char byte;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(calls, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	fd[0] = fd[1] = -1;
	if (n <= 0)
		return n == 0 ? 0 : -errno;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len <= CMSG_LEN(HYPER_FDS * sizeof(int)))
		memcpy(fd, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return 1;
}

/* ---- the process ---------------------------------------------------------------------------------------- */

/* What is left once libvirt is being watched, by what needs it. */
static int sandbox(enum seccomp_how how, struct error *err)
{
	static const int calls[] = {
		SYS_recvmsg, SYS_recvfrom, SYS_sendto, SYS_sendmsg, SYS_poll, SYS_ppoll, SYS_shutdown,            /* calls, libvirt */
		SYS_socket, SYS_connect, SYS_getsockopt, SYS_setsockopt, SYS_getsockname, SYS_getpeername,        /* its connection */
		SYS_pipe2, SYS_eventfd2, SYS_fcntl, SYS_ioctl, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getpid, SYS_gettid,
		SYS_clone3, SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_exit, /* threads */
		SYS_exit_group, SYS_sched_yield, SYS_sched_getaffinity, SYS_prctl,
		SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex, SYS_getrandom,    /* memory */
		SYS_openat, SYS_read, SYS_write, SYS_writev, SYS_pread64, SYS_lseek, SYS_close, SYS_fstat, SYS_newfstatat, SYS_access,
		SYS_faccessat2, SYS_readlink, SYS_getdents64, SYS_mkdir, SYS_chmod, SYS_fchmod, SYS_fsync, SYS_renameat, SYS_unlinkat, /* files */
		SYS_unlink, SYS_ftruncate, SYS_statfs, SYS_uname, SYS_sysinfo,
		SYS_clock_gettime, SYS_clock_nanosleep, SYS_restart_syscall,                                       /* waiting */
	};

	return seccomp_allow(how, calls, ARRAY_SIZE(calls), true, err);
}

int serve_run(struct serve *s, struct error *err)
{
	int r, fd[HYPER_FDS];

	news_init(&s->news);
	(void)pthread_mutex_init(&s->storage.lock, NULL); /* cannot fail on Linux */
	r = act_virt_new(&s->virt, s->uri, err);
	if (r < 0)
		return r;
	s->storage.virt = s->virt;
	r = act_virt_watch(s->virt, news_add, &s->news, err);
	if (r == 0)
		r = sandbox(s->seccomp, err);
	if (r < 0)
		return r;
	while ((r = next_call(s->calls, fd)) != 0) {
		if (r > 0 && fd[0] >= 0)
			begin(s, fd);
		else if (r < 0 && r != -EINTR)
			return error_set(err, r, "cannot read calls: %s", strerror(-r));
	}
	return 0;
}
