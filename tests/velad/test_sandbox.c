/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each kind of thread has the system calls of its list, which is short, and no other: it dies of any of the rest that the process has. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/thread.h"
#include "instance/store.h"
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
	bool                ill; /* it lived, but could not do it */
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

/* How a process ends in which such a thread does that: 0 well, 1 ill, or minus the signal. */
static int end_of(void *(*thread_main)(void *self), enum sandbox_thread as, long call)
{
	struct error err = ERROR_INIT;
	pthread_t thread;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		now.as = as;
		now.call = call;
		if (sandbox_process(SECCOMP_KILL, &err) < 0 || thread_start(&thread, thread_main, NULL) != 0)
			_exit(CANNOT);
		(void)pthread_join(thread, NULL);
		_exit(now.ill);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int after(enum sandbox_thread as, long call)
{
	return end_of(begin_and_call, as, call);
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
	else
		now.ill = thread_start(&thread, nothing, self) != 0 || pthread_join(thread, NULL) != 0 || thread_start(NULL, nothing, NULL) != 0;
	return NULL;
}

static int start(enum sandbox_thread as, long how)
{
	return end_of(begin_and_start, as, how);
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

/* ---- the store ------------------------------------------------------------------------------------------------ */

static char store_path[] = "/tmp/velad-sandbox-XXXXXX/velad.db";

/* Its process opened the store below the process's list, as velad does, and nobody has committed yet. */
static void *begin_and_commit(void *self)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct error err = ERROR_INIT;

	sandbox_thread(now.as, SECCOMP_KILL);
	now.ill = store_begin(&tx, self, &err) < 0 || store_exec(tx, "UPDATE meta SET generation = generation + 1", NO_ARGS, &err) < 0 ||
		  store_commit(tx, &err) < 0;
	return NULL;
}

/* On the thread that has the process's list only. */
static void *open_and_commit(void *self)
{
	struct error err = ERROR_INIT;
	struct store *s = NULL;
	pthread_t thread;

	(void)mallopt(M_ARENA_MAX, 1); /* as velad: a heap of the thread's own would take more calls */
	if (store_open(&s, store_path, &err) < 0 || thread_start(&thread, begin_and_commit, s) != 0)
		_exit(CANNOT);
	(void)pthread_join(thread, NULL);
	return self;
}

/* An operation's, while velad still waits for its helper. */
static void who_commits_first_lives(void **state)
{
	static const enum sandbox_thread may[] = { SANDBOX_OPERATIONS, SANDBOX_KEEPER };
	struct error err = ERROR_INIT;
	struct store *s = NULL;
	char log[64];

	(void)state;
	if (!seccomp_works())
		skip();
	*strrchr(store_path, '/') = '\0';
	assert_non_null(mkdtemp(store_path));
	store_path[strlen(store_path)] = '/';
	(void)snprintf(log, sizeof(log), "%s-wal", store_path);
	assert_int_equal(store_open(&s, store_path, &err), 0); /* the tables are not its first commit */
	(void)store_close(s);
	for (size_t i = 0; i < ARRAY_SIZE(may); i++) /* the second finds the first's in the log */
		if (end_of(open_and_commit, may[i], 0) != 0)
			fail_msg("%s does not live", sandbox_text(may[i]));
	(void)unlink(store_path);
	(void)unlink(log);
	*strrchr(store_path, '/') = '\0';
	assert_int_equal(rmdir(store_path), 0);
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
		cmocka_unit_test(who_commits_first_lives),
	};

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
