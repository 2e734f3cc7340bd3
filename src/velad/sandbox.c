/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lists, by what needs them; each is bounded, so that what is added has to be weighed. tests/hostsim runs velad under them, and dies of
 * what is on none. Who starts threads has what these need as well: they inherit its list. */
#include "velad/sandbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/log.h"

/* Every thread: locks and waiting, memory, the log and eventfds, its end; the clock, where the vDSO has none. */
#define ANY \
	SYS_futex, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_write, SYS_sendmsg, SYS_rt_sigprocmask, SYS_exit, SYS_clock_gettime

#define TIMED   SYS_restart_syscall                                               /* waiting for a time, where the process was stopped meanwhile */
#define STARTS  SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_mprotect            /* threads */
#define STAT    SYS_newfstatat, SYS_fstat                                         /* fstat(3) of glibc 2.36, and of 2.41 */
#define STORE   SYS_pread64, SYS_pwrite64, SYS_fdatasync
#define FIRST   SYS_openat, STAT                                                  /* of the store, who commits first after its start: the log's directory */
#define FILES   SYS_openat2, SYS_read, SYS_close, SYS_readlinkat, SYS_getdents64  /* of the machine */
#define LIBVIRT SYS_socketpair, SYS_setsockopt, SYS_read, SYS_shutdown, SYS_close /* a call of velad-libvirt */

static const int loop_calls[] = {
	SYS_accept4, SYS_recvfrom, SYS_sendmsg, SYS_sendto, SYS_shutdown, SYS_getsockopt,       /* clients, the service manager */
	SYS_socket, SYS_connect, SYS_recvmsg,                                                   /* velad-helper, uevents */
	SYS_epoll_wait, SYS_epoll_pwait2, SYS_epoll_ctl, SYS_timerfd_settime, SYS_gettid,       /* sd-event; the second since systemd 257 */
	SYS_read, SYS_close, SYS_statx, SYS_fcntl,                                              /* consoles' logs and sockets */
	STORE,
	SYS_write, SYS_futex, SYS_getrandom, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, /* all of it */
	SYS_clock_gettime, /* where the vDSO has no clock; the process ends in another thread */
};

static const int end_calls[] = {
	ANY, TIMED, STORE, STAT, SYS_ftruncate, SYS_unlink, SYS_fcntl, /* the store: the log's last pages, and the lock */
	SYS_close, SYS_shutdown, SYS_epoll_ctl, SYS_signalfd4,         /* clients, sd-event */
	SYS_exit_group,
};

static const int reader_calls[] = {
	ANY, FILES, SYS_pread64, STAT,
	SYS_socket, SYS_connect, SYS_sendto, SYS_recvmsg, SYS_epoll_wait, SYS_epoll_ctl, /* velad-helper */
	SYS_openat, SYS_mprotect, SYS_getrandom,                                         /* libraries that are loaded when they are needed */
	SYS_setsockopt, SYS_getsockopt, SYS_getsockname,                                 /* devlink by libnl, lldpd */
};

static const int planner_calls[] = { ANY };

static const int libvirt_calls[] = {
	ANY, TIMED, LIBVIRT, STORE,
	SYS_clock_nanosleep, /* before it asks again */
};

static const int operations_calls[] = {
	ANY, TIMED, STARTS, STORE, FIRST, FILES,
	SYS_ftruncate,       /* the store's log is put away */
	SYS_clock_nanosleep, /* until a guest has ended, a function has settled */
};

static const int keeper_calls[] = {
	ANY, TIMED, STORE, FIRST, FILES, /* the kernel's counts of errors */
	SYS_clock_nanosleep,
};

static const int consoles_calls[] = { ANY, TIMED, SYS_fcntl, SYS_sendto, SYS_close }; /* a client's socket */

static const int calls_calls[] = {
	ANY, TIMED, STARTS, FILES, SYS_pread64, STAT,
	SYS_socket, SYS_connect, SYS_sendto, SYS_recvmsg, /* velad-helper */
	SYS_socketpair, SYS_setsockopt, SYS_shutdown,     /* velad-libvirt */
};

static const int images_calls[] = {
	ANY, TIMED, STARTS, LIBVIRT,
	SYS_openat2, SYS_openat, STAT, SYS_lseek, SYS_ftruncate, SYS_fchmod, SYS_fsync, SYS_renameat, SYS_unlinkat,
};

/* What is needed besides until everything is open. */
static const int start_calls[] = {
	SYS_seccomp, SYS_prctl, SYS_rt_sigaction,                                                   /* lists; glibc, before the first thread */
	SYS_mkdir, SYS_getpid, SYS_geteuid, SYS_epoll_create1, SYS_eventfd2, SYS_timerfd_create,    /* what is opened */
	SYS_poll, SYS_ppoll, SYS_getuid, SYS_getegid, SYS_getgid, SYS_fstatfs, SYS_sched_getaffinity, /* newer libraries */
};

#define LIST(kind, list, text) [kind] = { text, list, ARRAY_SIZE(list) }

static const struct {
	const char *text;
	const int  *calls;
	size_t      n;
} lists[SANDBOX_THREAD_MAX_] = {
	LIST(SANDBOX_LOOP, loop_calls, "velad"),
	LIST(SANDBOX_END, end_calls, "velad-end"),
	LIST(SANDBOX_READER, reader_calls, "velad-reader"),
	LIST(SANDBOX_PLANNER, planner_calls, "velad-planner"),
	LIST(SANDBOX_LIBVIRT, libvirt_calls, "velad-events"),
	LIST(SANDBOX_OPERATIONS, operations_calls, "velad-operation"),
	LIST(SANDBOX_KEEPER, keeper_calls, "velad-keeper"),
	LIST(SANDBOX_CONSOLES, consoles_calls, "velad-consoles"),
	LIST(SANDBOX_CALLS, calls_calls, "velad-calls"),
	LIST(SANDBOX_IMAGES, images_calls, "velad-images"),
};

#define BOUND(list) static_assert(ARRAY_SIZE(list) <= SANDBOX_CALLS_MAX, "a thread has that many system calls")
BOUND(loop_calls);
BOUND(end_calls);
BOUND(reader_calls);
BOUND(planner_calls);
BOUND(libvirt_calls);
BOUND(operations_calls);
BOUND(keeper_calls);
BOUND(consoles_calls);
BOUND(calls_calls);
BOUND(images_calls);

const char *sandbox_text(enum sandbox_thread t)
{
	return lists[t].text;
}

const int *sandbox_calls(enum sandbox_thread t, size_t *n)
{
	*n = lists[t].n;
	return lists[t].calls;
}

static size_t add(int *to, size_t n, const int *calls, size_t more)
{
	for (size_t i = 0; i < more; i++) {
		size_t k = 0;

		while (k < n && to[k] != calls[i])
			k++;
		assert(k < SECCOMP_CALLS_MAX);
		to[k] = calls[i];
		n += k == n;
	}
	return n;
}

size_t sandbox_process_calls(int to[SECCOMP_CALLS_MAX])
{
	size_t n = add(to, 0, start_calls, ARRAY_SIZE(start_calls));

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		n = add(to, n, lists[i].calls, lists[i].n);
	return n;
}

static int by_byte(const void *a, const void *b)
{
	return *(const char *)a - *(const char *)b;
}

/* Which libraries do once, in whatever thread it comes first. */
static void do_once(void)
{
	char bytes[2048] = { 0 }; /* qsort(3) of glibc 2.36 asks how much memory there is, if it wants more than 1 KiB of it */

	qsort(bytes, sizeof(bytes), 1, by_byte);
	tzset();
}

int sandbox_process(enum seccomp_how how, struct error *err)
{
	int calls[SECCOMP_CALLS_MAX];
	size_t n = sandbox_process_calls(calls);

	do_once();
	return seccomp_allow(how == SECCOMP_KILL ? SECCOMP_REFUSE : how, calls, n, true, err);
}

void sandbox_thread(enum sandbox_thread t, enum seccomp_how how)
{
	struct error err = ERROR_INIT;

	if (how == SECCOMP_OFF)
		return;
	(void)prctl(PR_SET_NAME, lists[t].text); /* it may fail: a name is for people */
	if (seccomp_allow(how, lists[t].calls, lists[t].n, false, &err) < 0) {
		log_err("the thread %s: %s", lists[t].text, err.text);
		_exit(EXIT_FAILURE);
	}
}
