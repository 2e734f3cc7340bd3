/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The filter is a row of comparisons: architecture, then the number against each that is allowed. */
#include "base/seccomp.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/strtab.h"

static const char *const names[SECCOMP_HOW_MAX_] = { "kill", "log", "off" };

int seccomp_how_parse(const char *text)
{
	return strtab_find(names, SECCOMP_HOW_MAX_, text);
}

const char *seccomp_how_text(enum seccomp_how how)
{
	return strtab_text(names, SECCOMP_HOW_MAX_, (int)how);
}

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(ARCH)
#define UNFILTERED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNFILTERED 1
#endif
#endif

#ifdef UNFILTERED

int seccomp_allow(enum seccomp_how how, const int *calls, size_t n, bool all_threads, struct error *err)
{
	(void)how;
	(void)calls;
	(void)n;
	(void)all_threads;
	(void)err;
	return 0;
}

#else

int seccomp_allow(enum seccomp_how how, const int *calls, size_t n, bool all_threads, struct error *err)
{
	/* x32 calls have bit 30 of the number set: they equal none of ours */
	struct sock_filter code[SECCOMP_CALLS_MAX + 6] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog prog = { .len = (unsigned short)(n + 6), .filter = code };

	assert(n <= SECCOMP_CALLS_MAX);
	if (how == SECCOMP_OFF)
		return 0;
	for (size_t i = 0; i < n; i++)
		code[4 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], (unsigned char)(n - i), 0);
	code[4 + n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, how == SECCOMP_KILL ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_LOG);
	code[5 + n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if ((all_threads && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all_threads ? SECCOMP_FILTER_FLAG_TSYNC : 0, &prog) != 0)
		return error_set(err, -errno, "cannot restrict system calls: %s; --seccomp off does without", strerror(errno));
	return 0;
}

#endif
