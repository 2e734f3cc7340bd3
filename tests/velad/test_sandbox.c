/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each kind of thread has the system calls of its list, which is short, and no other: it dies of any of the rest that the process has. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/thread.h"
#include "support.h"
#include "velad/sandbox.h"

static bool is_on(const int *calls, size_t n, int call)
{
	for (size_t i = 0; i < n; i++)
		if (calls[i] == call)
			return true;
	return false;
}

static void lists_are_short(void **state)
{
	int all[SECCOMP_CALLS_MAX];
	size_t n, most = sandbox_process_calls(all);

	(void)state;
	for (int t = 0; t < SANDBOX_THREAD_MAX_; t++) {
		const int *calls = sandbox_calls((enum sandbox_thread)t, &n);

		print_message("%-16s %2zu system calls\n", sandbox_text((enum sandbox_thread)t), n);
		assert_in_range(n, 1, SANDBOX_CALLS_MAX);
		assert_in_range(strlen(sandbox_text((enum sandbox_thread)t)), 1, 15); /* prctl(2), PR_SET_NAME */
		for (size_t i = 0; i < n; i++) {
			assert_false(is_on(calls, i, calls[i]));
			assert_true(is_on(all, most, calls[i]));
		}
	}
	print_message("the process      %2zu\n", most);
	assert_in_range(most, 1, 75);
}

/* No programs, no other processes, no privilege, nothing of the kernel's own. */
static void some_calls_nobody_has(void **state)
{
	static const int never[] = { SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_clone3, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
				     SYS_kill, SYS_tgkill, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_setuid, SYS_setgid,
				     SYS_setresuid, SYS_capset, SYS_bpf, SYS_perf_event_open, SYS_init_module, SYS_finit_module, SYS_kexec_load, SYS_keyctl,
				     SYS_userfaultfd, SYS_io_uring_setup, SYS_open_by_handle_at, SYS_ioctl, SYS_bind, SYS_listen, SYS_memfd_create, SYS_reboot };
	int all[SECCOMP_CALLS_MAX];
	size_t n = sandbox_process_calls(all);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		assert_false(is_on(all, n, never[i]));
}

/* What is started inherits the list: all that a thread does until it ends is on it. */
static void who_starts_threads_can_end_them(void **state)
{
	static const enum sandbox_thread starts[] = { SANDBOX_OPERATIONS, SANDBOX_CALLS, SANDBOX_IMAGES };
	static const int needs[] = { SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_rt_sigprocmask, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_madvise,
				     SYS_futex, SYS_exit };
	size_t n;

	(void)state;
	for (int t = 0; t < SANDBOX_THREAD_MAX_; t++) {
		const int *calls = sandbox_calls((enum sandbox_thread)t, &n);
		bool does = false;

		for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
			does = does || starts[i] == (enum sandbox_thread)t;
		assert_int_equal(is_on(calls, n, SYS_clone), does);
		for (size_t i = 0; does && i < ARRAY_SIZE(needs); i++)
			assert_true(is_on(calls, n, needs[i]));
	}
}

/* ---- in a process of its own ------------------------------------------------------------------------------ */

#define CANNOT 100

static struct {
	enum sandbox_thread as;
	long                call;
} now;

/* With arguments that none of them takes. */
static void *begin_and_call(void *self)
{
	(void)self;
	sandbox_thread(now.as, SECCOMP_KILL);
	(void)syscall(now.call, -1, -1, -1, -1, -1, -1);
	(void)syscall(SYS_exit, 0); /* or the loop's, which does not end, dies of it */
	return NULL;
}

static int after(enum sandbox_thread as, long call)
{
	struct error err = ERROR_INIT;
	pthread_t thread;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		now.as = as;
		now.call = call;
		if (sandbox_process(SECCOMP_KILL, &err) < 0 || thread_start(&thread, begin_and_call, NULL) != 0)
			_exit(CANNOT);
		(void)pthread_join(thread, NULL);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void a_thread_dies_beyond_its_list(void **state)
{
	int all[SECCOMP_CALLS_MAX];
	size_t n, most = sandbox_process_calls(all), died = 0;

	(void)state;
	if (!seccomp_works())
		skip();
	for (int t = 0; t < SANDBOX_THREAD_MAX_; t++) {
		const int *calls = sandbox_calls((enum sandbox_thread)t, &n);

		for (size_t i = 0; i < most; i++)
			if (!is_on(calls, n, all[i])) {
				if (after((enum sandbox_thread)t, all[i]) != -SIGSYS)
					fail_msg("%s: system call %d does not end it", sandbox_text((enum sandbox_thread)t), all[i]);
				died++;
			}
		assert_int_equal(after((enum sandbox_thread)t, SYS_execve), -SIGSYS); /* that nobody has */
	}
	print_message("%zu of %zu\n", died, most * SANDBOX_THREAD_MAX_);
	assert_true(died > most * SANDBOX_THREAD_MAX_ / 2);
}

static void without_a_list_it_is_refused(void **state)
{
	struct error err = ERROR_INIT;
	int status = 0;
	pid_t pid;

	(void)state;
	if (!seccomp_works())
		skip();
	pid = fork();
	if (pid == 0) {
		if (sandbox_process(SECCOMP_KILL, &err) < 0)
			_exit(CANNOT);
		_exit(syscall(SYS_execve, "/bin/true", NULL, NULL) < 0 && errno == ENOSYS && getpid() > 0 ? 0 : 1);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void and_of_nothing_that_is_on_it(void **state)
{
	size_t n;

	(void)state;
	if (!seccomp_works())
		skip();
	for (int t = 0; t < SANDBOX_THREAD_MAX_; t++) {
		const int *calls = sandbox_calls((enum sandbox_thread)t, &n);
		bool ends = is_on(calls, n, SYS_exit);

		for (size_t i = 0; i < n && ends; i++)
			if (calls[i] != SYS_clone && after((enum sandbox_thread)t, calls[i]) == -SIGSYS) /* with these flags it would be a process */
				fail_msg("%s: system call %d ends it", sandbox_text((enum sandbox_thread)t), calls[i]);
	}
}

/* ---- threads that start others ----------------------------------------------------------------------------- */

static void *nothing(void *self)
{
	return self;
}

static void *begin_and_start(void *self)
{
	pthread_t thread;

	sandbox_thread(now.as, SECCOMP_KILL);
	if (now.call == SYS_fork)
		(void)fork();
	else if (thread_start(&thread, nothing, self) != 0 || pthread_join(thread, NULL) != 0 || thread_start(NULL, nothing, NULL) != 0)
		*(bool *)self = false;
	return NULL;
}

static int start(enum sandbox_thread as, long how)
{
	struct error err = ERROR_INIT;
	bool well = true;
	pthread_t thread;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		now.as = as;
		now.call = how;
		if (sandbox_process(SECCOMP_KILL, &err) < 0 || thread_start(&thread, begin_and_start, &well) != 0)
			_exit(CANNOT);
		(void)pthread_join(thread, NULL);
		_exit(well ? 0 : 1);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void threads_start_threads_and_no_processes(void **state)
{
	(void)state;
	if (!seccomp_works())
		skip();
	assert_int_equal(start(SANDBOX_CALLS, SYS_clone), 0);
	assert_int_equal(start(SANDBOX_OPERATIONS, SYS_clone), 0);
	assert_int_equal(start(SANDBOX_IMAGES, SYS_clone), 0);
	assert_int_equal(start(SANDBOX_CALLS, SYS_fork), -SIGSYS);
	assert_int_equal(start(SANDBOX_OPERATIONS, SYS_fork), -SIGSYS);
	assert_int_equal(start(SANDBOX_KEEPER, SYS_clone), -SIGSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_short),
		cmocka_unit_test(some_calls_nobody_has),
		cmocka_unit_test(who_starts_threads_can_end_them),
		cmocka_unit_test(a_thread_dies_beyond_its_list),
		cmocka_unit_test(without_a_list_it_is_refused),
		cmocka_unit_test(and_of_nothing_that_is_on_it),
		cmocka_unit_test(threads_start_threads_and_no_processes),
	};

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
