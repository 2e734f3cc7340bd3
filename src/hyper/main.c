/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velad-libvirt(8): options, and the half that starts the working one again whenever it has ended. That is a copy of this process: so it is
 * of velad's own build, whatever lies on the disk by then, and costs no start of a program. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "hyper/serve.h"

enum { EXIT_USAGE = 2 };

#define SHORT_MS 1000 /* who lives no longer than that is started later and later */
#define FIRST_MS 50
#define LATE_MS  5000

static const char usage[] =
	"usage: velad-libvirt --uri URI --pool NAME --dir DIR [--seccomp HOW]\n"
	"\n"
	"Talks to libvirt for velad, which starts it; see velad-libvirt(8).\n"
	"\n"
	"  --uri URI      hypervisor\n"
	"  --pool NAME    libvirt's storage pool with guests' disks\n"
	"  --dir DIR      its directory\n"
	"  --seccomp HOW  at a system call that it should not need, \"kill\" it, \"log\" that, or \"off\" (kill)\n";

/* 0 go on, 1 done (help, version), -1 usage error, which getopt has printed. */
static int parse_options(struct serve *s, int argc, char **argv)
{
	enum { URI = 256, POOL, DIR, SECCOMP, HELP, VERSION };
	static const struct option options[] = {
		{ "uri", required_argument, NULL, URI },         { "pool", required_argument, NULL, POOL },
		{ "dir", required_argument, NULL, DIR },         { "seccomp", required_argument, NULL, SECCOMP },
		{ "help", no_argument, NULL, HELP },             { "version", no_argument, NULL, VERSION },
		{ 0 },
	};
	const char **to[] = { &s->uri, &s->storage.at.pool, &s->storage.at.dir };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c >= URI && c <= DIR) {
			*to[c - URI] = optarg;
		} else if (c == SECCOMP && seccomp_how_parse(optarg) >= 0) {
			s->seccomp = (enum seccomp_how)seccomp_how_parse(optarg);
		} else if (c == HELP || c == VERSION) {
			(void)fputs(c == HELP ? usage : "velad-libvirt " VELAD_VERSION "\n", stdout);
			return 1;
		} else {
			return -1;
		}
	}
	if (optind == argc && s->uri && s->storage.at.pool && s->storage.at.dir)
		return 0;
	(void)fputs("velad-libvirt: velad starts it, and says --uri, --pool and --dir; see velad-libvirt --help\n", stderr);
	return -1;
}

/* ---- the working half ----------------------------------------------------------------------------------- */

struct worker {
	pid_t    pid;        /* 0: there is none */
	uint64_t begun, due; /* ms */
	unsigned late;
};

/* It does not outlive this half: who would end it? */
static pid_t begin(struct serve *s)
{
	pid_t parent = getpid(), pid = fork();
	struct error err = ERROR_INIT;
	sigset_t none;
	int r;

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)close(HYPER_FD_LIFE);
	r = serve_run(s, &err);
	if (r < 0)
		log_err("%s", err.text);
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS); /* threads that hang still use all of this */
}

/* One that hangs in the kernel is not waited for. */
static void end(struct worker *w)
{
	if (w->pid > 0)
		(void)kill(w->pid, SIGKILL);
	w->pid = 0;
}

/* One that ends at once is begun later and later. */
static void plan_next(struct worker *w)
{
	uint64_t now = clock_ms();

	w->late = now - w->begun >= SHORT_MS ? 0 : w->late ? 2 * w->late : FIRST_MS;
	if (w->late > LATE_MS)
		w->late = LATE_MS;
	w->due = now + w->late;
}

/* True: the working half saw that velad has gone. */
static bool reap(struct worker *w)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != w->pid)
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
			return true;
		log_warning("what talks to libvirt has ended, %s %d, and is started again", WIFSIGNALED(status) ? "signal" : "status",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		w->pid = 0;
		plan_next(w);
	}
	return false;
}

static int keep_one(struct worker *w, struct serve *s)
{
	uint64_t now = clock_ms();

	if (w->pid <= 0 && now >= w->due) {
		w->begun = now;
		w->pid = begin(s);
		if (w->pid < 0)
			plan_next(w);
	}
	return w->pid > 0 ? -1 : (int)(w->due - now);
}

/* Until velad has gone. */
static int supervise(struct serve *s, int signals, struct error *err)
{
	struct pollfd on[] = { { HYPER_FD_LIFE, POLLIN, 0 }, { signals, POLLIN, 0 } };
	struct signalfd_siginfo si;
	struct worker w = { 0 };
	char bytes[64];

	for (;;) {
		int n = poll(on, ARRAY_SIZE(on), keep_one(&w, s));

		if (n < 0 && errno != EINTR)
			return error_set(err, -errno, "cannot wait: %s", strerror(errno));
		if (n > 0 && on[1].revents && read(signals, &si, sizeof(si)) > 0 && reap(&w))
			return 0;
		if (n <= 0 || !on[0].revents)
			continue;
		n = (int)recv(HYPER_FD_LIFE, bytes, sizeof(bytes), MSG_DONTWAIT);
		end(&w);
		if (n == 0)
			return 0;
		log_warning("what talks to libvirt hangs, is ended and started again");
	}
}

static int run(struct serve *s, struct error *err)
{
	sigset_t set;
	int signals;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	(void)fcntl(HYPER_FD_CALLS, F_SETFD, FD_CLOEXEC); /* they are descriptors: that was looked at */
	(void)fcntl(HYPER_FD_LIFE, F_SETFD, FD_CLOEXEC);
	return signals < 0 ? error_set(err, -errno, "cannot wait for signals: %s", strerror(errno)) : supervise(s, signals, err);
}

static bool is_socket(int fd, int type)
{
	socklen_t len = sizeof(int);
	int is = -1;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &is, &len) == 0 && is == type;
}

int main(int argc, char **argv)
{
	static struct serve s = { .calls = HYPER_FD_CALLS };
	struct error err = ERROR_INIT;
	int r;

	log_init(LOG_LEVEL_INFO);
	r = parse_options(&s, argc, argv);
	if (r != 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
	if (!is_socket(HYPER_FD_CALLS, SOCK_SEQPACKET) || !is_socket(HYPER_FD_LIFE, SOCK_STREAM)) {
		log_err("descriptors %d and %d are not velad's sockets; velad starts this program", HYPER_FD_CALLS, HYPER_FD_LIFE);
		return EXIT_USAGE;
	}
	if (run(&s, &err) < 0) {
		log_err("%s", err.text);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
