/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A call that is on no list ends the process, or is done and logged; one thread's list is its own. */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/seccomp.h"
#include "base/thread.h"
#include "support.h"

static const int calls[] = { SYS_getppid, SYS_exit_group };

/* How a child ended that did this under the filter: its status, or minus its signal. */
static int after(enum seccomp_how how, long call)
{
	struct error err = ERROR_INIT;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (seccomp_allow(how, calls, ARRAY_SIZE(calls), true, &err) < 0)
			_exit(100);
		(void)syscall(call, 0, 0, 0);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void what_is_on_the_list_is_done(void **state)
{
	(void)state;
	assert_int_equal(after(SECCOMP_KILL, SYS_getppid), 0);
}

static void what_is_not_ends_the_process(void **state)
{
	static const long worst[] = { SYS_execve, SYS_ptrace, SYS_socket, SYS_openat, SYS_mount, SYS_setuid, SYS_clone, SYS_bpf, SYS_init_module,
				      SYS_kexec_load, SYS_process_vm_readv, SYS_keyctl, SYS_unshare, SYS_setns, SYS_userfaultfd, SYS_perf_event_open,
				      SYS_kill, SYS_io_uring_setup, SYS_pivot_root, SYS_reboot };

	(void)state;
	if (!seccomp_works())
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(worst); i++)
		assert_int_equal(after(SECCOMP_KILL, worst[i]), -SIGSYS);
}

static void or_is_logged(void **state)
{
	(void)state;
	assert_int_equal(after(SECCOMP_LOG, SYS_uname), 0);
	assert_int_equal(after(SECCOMP_OFF, SYS_uname), 0);
}

static void *ask(void *self)
{
	(void)self;
	(void)syscall(SYS_getuid); /* the thread that started this one may not any more */
	(void)syscall(SYS_exit_group, 7);
	return NULL;
}

/* As velad's: all have one list, and then a thread alone a shorter one. */
static void a_thread_may_have_less(void **state)
{
	static const int more[] = { SYS_getuid, SYS_exit_group, SYS_exit, SYS_futex, SYS_seccomp, SYS_clone3, SYS_clone, SYS_mmap, SYS_mprotect, SYS_rseq,
				    SYS_set_robust_list, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_munmap, SYS_madvise, SYS_brk };
	static const int fewer[] = { SYS_exit_group, SYS_futex };

	(void)state;
	if (!seccomp_works())
		skip();
	for (int loop = 0; loop < 2; loop++) {
		struct error err = ERROR_INIT;
		pthread_t thread;
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			if (seccomp_allow(SECCOMP_KILL, more, ARRAY_SIZE(more), true, &err) < 0)
				_exit(100);
			if (!loop && thread_start(&thread, ask, NULL) == 0)
				(void)pthread_join(thread, NULL); /* it ends the process */
			if (seccomp_allow(SECCOMP_KILL, fewer, ARRAY_SIZE(fewer), false, &err) < 0)
				_exit(100);
			(void)syscall(SYS_getuid);
			_exit(101);
		}
		assert_true(pid > 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (loop)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
		else
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
}

/* Of clone(2) its flags are looked at, and clone3(2), of which they cannot be, is as one that this kernel does not have. */
static void threads_and_no_processes(void **state)
{
	static const int list[] = { SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_exit, SYS_exit_group, SYS_futex, SYS_mmap, SYS_mprotect, SYS_munmap,
				    SYS_madvise, SYS_brk, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_getuid };
	enum { THREAD, FORK, CLONE3, HOW_MAX };

	(void)state;
	if (!seccomp_works())
		skip();
	for (int how = 0; how < HOW_MAX; how++) {
		struct error err = ERROR_INIT;
		pthread_t thread;
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			if (seccomp_allow(SECCOMP_KILL, list, ARRAY_SIZE(list), true, &err) < 0)
				_exit(100);
			if (how == THREAD && thread_start(&thread, ask, NULL) == 0)
				(void)pthread_join(thread, NULL); /* it ends the process */
			else if (how == CLONE3)
				_exit(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS ? 7 : 101);
			else
				(void)fork();
			_exit(102);
		}
		assert_true(pid > 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (how == FORK)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
		else
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_on_the_list_is_done),
		cmocka_unit_test(what_is_not_ends_the_process),
		cmocka_unit_test(or_is_logged),
		cmocka_unit_test(a_thread_may_have_less),
		cmocka_unit_test(threads_and_no_processes),
	};

	return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}
