/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lists, by what needs them. tests/hostsim/test_helper.sh runs velad under them, and counts them. */
#include "velad/sandbox.h"

#include <sys/syscall.h>

#include "base/auto.h"
#include "base/seccomp.h"

/* velad's loop: HTTP clients, the store, facts of the machine, velad-helper (for facts only). */
static const int loop_calls[] = {
	SYS_accept4, SYS_recvfrom, SYS_sendmsg, SYS_sendto, SYS_shutdown, SYS_getsockopt, /* clients */
	SYS_socket, SYS_connect, SYS_recvmsg,                                             /* velad-helper, uevents */
	SYS_epoll_wait, SYS_epoll_ctl, SYS_timerfd_settime, SYS_gettid,                   /* sd-event */
	SYS_openat2, SYS_getdents64, SYS_readlinkat, SYS_read, SYS_close,                 /* facts */
	SYS_newfstatat, SYS_fcntl,                                                        /* logs, consoles' sockets */
	SYS_pread64, SYS_pwrite64, SYS_fdatasync,                                         /* the store */
	SYS_write, SYS_futex, SYS_getrandom, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap,   /* all of it */
	SYS_madvise,
	SYS_clock_gettime, SYS_exit_group, /* the former where the vDSO has no clock */
};

/* Besides: threads, velad-libvirt's client, the store's files, images, lists of devlink and lldpd, the end of the process. */
static const int more_calls[] = {
	SYS_clone3, SYS_clone, /* the latter under RestrictNamespaces=, which forbids the former (systemd.exec(5)) */
	SYS_set_robust_list, SYS_rseq, SYS_rt_sigprocmask, SYS_exit, SYS_setsockopt, SYS_socketpair, SYS_mprotect,
	SYS_getpid, SYS_openat, SYS_lseek, SYS_unlink, SYS_ftruncate, SYS_access, SYS_geteuid,
	SYS_mkdir, SYS_chmod, SYS_fchmod, SYS_fsync, SYS_renameat, SYS_unlinkat,
	SYS_getuid, SYS_getgid, SYS_getegid, /* sd_notify() of systemd 257 */
	SYS_poll, SYS_ppoll, SYS_eventfd2, SYS_getsockname, SYS_clock_nanosleep, SYS_restart_syscall,
	SYS_signalfd4, SYS_seccomp, /* taking apart; the latter only takes away */
};

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
