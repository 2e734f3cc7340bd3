/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lists, by what needs them; each is bounded, so that what is added has to be weighed. tests/hostsim runs velad under them, and dies of
 * what is on none. */
#include "velad/sandbox.h"

#include <assert.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "base/seccomp.h"

#define LOOP_CALLS_MAX    31
#define PROCESS_CALLS_MAX 60

/* velad's loop: HTTP clients, the store, consoles' logs, velad-helper (which opens those). */
static const int loop_calls[] = {
	SYS_accept4, SYS_recvfrom, SYS_sendmsg, SYS_sendto, SYS_shutdown, SYS_getsockopt,       /* clients, the service manager */
	SYS_socket, SYS_connect, SYS_recvmsg,                                                   /* velad-helper, uevents */
	SYS_epoll_wait, SYS_epoll_pwait2, SYS_epoll_ctl, SYS_timerfd_settime, SYS_gettid,       /* sd-event; the second since systemd 257 */
	SYS_read, SYS_close, SYS_statx, SYS_fcntl,                                              /* consoles' logs and sockets */
	SYS_pread64, SYS_pwrite64, SYS_fdatasync,                                               /* the store */
	SYS_write, SYS_futex, SYS_getrandom, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, /* all of it */
	SYS_clock_gettime, /* where the vDSO has no clock; the process ends in another thread */
};
static_assert(ARRAY_SIZE(loop_calls) <= LOOP_CALLS_MAX, "the loop has that many system calls");

/* Besides: threads, velad-libvirt's client, all that is read of the machine, the store's files, images, lists of devlink and lldpd, the end of
 * the process. */
static const int more_calls[] = {
	SYS_clone3, SYS_clone, /* the latter under RestrictNamespaces=, which forbids the former (systemd.exec(5)) */
	SYS_set_robust_list, SYS_rseq, SYS_rt_sigprocmask, SYS_exit, SYS_exit_group, SYS_mprotect,
	SYS_setsockopt, SYS_socketpair, SYS_poll, SYS_getsockname,
	SYS_openat2, SYS_getdents64, SYS_openat, SYS_readlinkat, SYS_lseek,
	SYS_newfstatat, SYS_fstat, /* fstat(3) of glibc 2.36, and of 2.41 */
	SYS_unlink, SYS_ftruncate, SYS_fchmod, SYS_fsync, SYS_renameat, SYS_unlinkat,
	SYS_clock_nanosleep, SYS_restart_syscall, SYS_getpid,
	SYS_signalfd4, SYS_seccomp, /* taking apart; the latter only takes away */
};
static_assert(ARRAY_SIZE(loop_calls) + ARRAY_SIZE(more_calls) <= PROCESS_CALLS_MAX, "the process has that many system calls");

int sandbox_loop(enum seccomp_how how, struct error *err)
{
	return seccomp_allow(how, loop_calls, ARRAY_SIZE(loop_calls), false, err);
}

int sandbox_process(enum seccomp_how how, struct error *err)
{
	int calls[ARRAY_SIZE(loop_calls) + ARRAY_SIZE(more_calls)];

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = i < ARRAY_SIZE(loop_calls) ? loop_calls[i] : more_calls[i - ARRAY_SIZE(loop_calls)];
	return seccomp_allow(how, calls, ARRAY_SIZE(calls), true, err);
}
