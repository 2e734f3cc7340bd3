/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The filter is a row of comparisons: architecture, then the number against each that is allowed; then what it ends in. */
#include "base/seccomp.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
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

bool seccomp_works(void)
{
	return false;
}

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

bool seccomp_works(void)
{
	return true;
}

enum { HEAD_LEN = 4, CLONE = 1, ALLOWED = 4, TAIL_LEN = 6 };

static bool has(const int *calls, size_t n, int call)
{
	for (size_t i = 0; i < n; i++)
		if (calls[i] == call)
			return true;
	return false;
}

static unsigned deny(enum seccomp_how how)
{
	return how == SECCOMP_KILL ? SECCOMP_RET_KILL_PROCESS : how == SECCOMP_LOG ? SECCOMP_RET_LOG : SECCOMP_RET_ERRNO | ENOSYS;
}

/* Little endian: of clone(2)'s first argument the flags are the first word. */
int seccomp_allow(enum seccomp_how how, const int *calls, size_t n, bool all_threads, struct error *err)
{
	/* x32 calls have bit 30 of the number set: they equal none of ours */
	struct sock_filter code[HEAD_LEN + SECCOMP_CALLS_MAX + TAIL_LEN] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	const bool only_threads = has(calls, n, SYS_clone) && !has(calls, n, SYS_clone3);
	const struct sock_filter tail[TAIL_LEN] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, only_threads ? 4 : 2, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])), /* [CLONE] */
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, deny(how)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), /* [ALLOWED] */
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};
	struct sock_fprog prog = { .len = (unsigned short)(HEAD_LEN + n + TAIL_LEN), .filter = code };

	assert(n <= SECCOMP_CALLS_MAX);
	if (how == SECCOMP_OFF)
		return 0;
	for (size_t i = 0; i < n; i++) {
		size_t to = only_threads && calls[i] == SYS_clone ? CLONE : ALLOWED;

		code[HEAD_LEN + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], (unsigned char)(n - i - 1 + to), 0);
	}
	memcpy(&code[HEAD_LEN + n], tail, sizeof(tail));
	if ((all_threads && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all_threads ? SECCOMP_FILTER_FLAG_TSYNC : 0, &prog) != 0)
		return error_set(err, -errno, "cannot restrict system calls: %s; --seccomp off does without", strerror(errno));
	return 0;
}

#endif
