/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs a program with posix_spawn(3) and reads what it prints, for so long and no longer. */
#include "host/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/sbuf.h"

/* Signals as a fresh program expects them: velad blocks some and ignores SIGPIPE. */
static int attributes(posix_spawnattr_t *at)
{
	sigset_t none, all;
	int e = posix_spawnattr_init(at);

	if (e)
		return e;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawnattr_setsigmask(at, &none); /* these fail on a bad argument only */
	(void)posix_spawnattr_setsigdefault(at, &all);
	(void)posix_spawnattr_setpgroup(at, 0);
	return posix_spawnattr_setflags(at, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn(pid_t *pid, char *const argv[], int out)
{
	char *const env[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, (char[]){ "LC_ALL=C" }, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t at;
	int e = posix_spawn_file_actions_init(&files);

	if (e)
		return e;
	e = attributes(&at);
	if (!e) {
		e = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
		if (!e)
			e = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
		if (!e)
			e = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
		if (!e)
			e = posix_spawn(pid, argv[0], &files, &at, argv, env);
		(void)posix_spawnattr_destroy(&at);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return e;
}

static int read_output(struct sbuf *out, int fd, size_t max, int64_t end)
{
	char buf[4096];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - (int64_t)clock_ms();
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return -ETIMEDOUT;
		n = read(fd, buf, sizeof(buf));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		if (n > 0)
			sbuf_add_bytes(out, buf, (size_t)n);
		if (out->len > max)
			return -EFBIG;
	}
}

/* It may close its output and live on. */
static int reap(pid_t pid, int64_t end)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	int status = 0;
	pid_t p;

	while ((p = waitpid(pid, &status, WNOHANG)) == 0 && (int64_t)clock_ms() < end)
		(void)nanosleep(&pause, NULL);
	if (p == 0) {
		(void)kill(-pid, SIGKILL);
		(void)waitpid(pid, &status, 0);
		return -ETIMEDOUT;
	}
	return p == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EREMOTEIO;
}

int child_output(char **ret, char *const argv[], size_t max, unsigned timeout_ms)
{
	int64_t end = (int64_t)clock_ms() + timeout_ms;
	struct sbuf out = { 0 };
	int fds[2], r, e;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	e = spawn(&pid, argv, fds[1]);
	(void)close(fds[1]);
	r = e ? -e : read_output(&out, fds[0], max, end);
	(void)close(fds[0]);
	if (!e) {
		int ended;

		if (r < 0)
			(void)kill(-pid, SIGKILL);
		ended = reap(pid, r < 0 ? INT64_MAX : end);
		r = r < 0 ? r : ended;
	}
	if (r == 0 && !(*ret = sbuf_steal(&out)))
		r = -ENOMEM;
	sbuf_done(&out);
	return r;
}
