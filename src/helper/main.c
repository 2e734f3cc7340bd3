/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velad-helper(8): the few things that velad asks of root. Parses no JSON and no XML. */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/seccomp.h"
#include "helper/programs.h"
#include "helper/serve.h"

enum { EXIT_USAGE = 2 };

static const char usage[] =
	"usage: velad-helper [--root DIR] [--conf FILE] [--socket PATH] [--user NAME|UID] [--idle SECONDS] [--keep DIR]\n"
	"                    [--seccomp HOW]\n"
	"\n"
	"Changes PCI functions for an unprivileged velad; systemd starts it when it is asked. See velad-helper(8).\n"
	"\n"
	"  --root DIR     the machine below DIR (/)\n"
	"  --conf FILE    velad's configuration: which functions are GPUs and NICs\n"
	"  --socket PATH  listen here when systemd hands no socket over\n"
	"  --user NAME    who may ask, besides root (velad)\n"
	"  --idle SECONDS end when nobody has asked for so long (30; 0: never)\n"
	"  --keep DIR     where driver overrides that others had set are kept (RUNTIME_DIRECTORY)\n"
	"  --seccomp HOW  at a system call that it should not need, \"kill\" it, \"log\" that, or \"off\" (kill)\n";

struct options {
	const char *root, *conf, *socket, *user, *idle, *keep;
	enum seccomp_how seccomp;
};

/* 0 go on, 1 done (help, version), -1 usage error, which getopt has printed. */
static int parse_options(struct options *o, int argc, char **argv)
{
	enum { ROOT = 256, CONF, SOCKET, USER, IDLE, KEEP, SECCOMP, HELP, VERSION };
	static const struct option options[] = {
		{ "root", required_argument, NULL, ROOT },     { "conf", required_argument, NULL, CONF },
		{ "socket", required_argument, NULL, SOCKET }, { "user", required_argument, NULL, USER },
		{ "idle", required_argument, NULL, IDLE },     { "keep", required_argument, NULL, KEEP },
		{ "seccomp", required_argument, NULL, SECCOMP }, { "help", no_argument, NULL, HELP },
		{ "version", no_argument, NULL, VERSION },
		{ 0 },
	};
	const char **to[] = { &o->root, &o->conf, &o->socket, &o->user, &o->idle, &o->keep };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c >= ROOT && c <= KEEP) {
			*to[c - ROOT] = optarg;
		} else if (c == SECCOMP && seccomp_how_parse(optarg) >= 0) {
			o->seccomp = (enum seccomp_how)seccomp_how_parse(optarg);
		} else if (c == HELP || c == VERSION) {
			(void)fputs(c == HELP ? usage : "velad-helper " VELAD_VERSION "\n", stdout);
			return 1;
		} else {
			return -1;
		}
	}
	if (optind < argc) {
		(void)fprintf(stderr, "velad-helper: unexpected argument \"%s\"; see velad-helper --help\n", argv[optind]);
		return -1;
	}
	return 0;
}

static int user_id(uid_t *ret, const char *name, struct error *err)
{
	const struct passwd *pw;
	uint64_t n;

	if (parse_uint(&n, name, 10, UINT32_MAX - 1) == 0) {
		*ret = (uid_t)n;
		return 0;
	}
	pw = getpwnam(name);
	if (!pw)
		return error_set(err, -ENOENT, "there is no user %s; systemd-sysusers makes it", name);
	*ret = pw->pw_uid;
	return 0;
}

static int listen_on(int *ret, const char *path, struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, -ENAMETOOLONG, "the socket path %s is longer than %zu bytes", path, sizeof(addr.sun_path) - 1);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	(void)unlink(path);
	(void)umask(0111); /* who may ask is decided by uid; systemd's socket is velad's alone */
	if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, SERVE_CONNECTIONS_MAX) < 0)
		return error_set(err, -errno, "cannot listen on %s: %s", path, strerror(errno));
	(void)umask(0077);
	*ret = steal_fd(&fd);
	return 0;
}

static int open_socket(int *ret, const char *path, struct error *err)
{
	int n = sd_listen_fds(1);

	if (n < 0)
		return error_set(err, n, "cannot take over the socket of systemd: %s", strerror(-n));
	if (n > 1 || (n == 1 && sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 1) <= 0))
		return error_set(err, -EINVAL, "systemd hands over something else than one SOCK_SEQPACKET socket; look at velad-helper.socket");
	if (n == 1)
		*ret = SD_LISTEN_FDS_START;
	else if (path)
		return listen_on(ret, path, err);
	else
		return error_set(err, -EINVAL, "no socket: systemd starts velad-helper, or give --socket");
	return 0;
}

/* What kind a function is, and which program scrubs: never by what velad says. */
static int load(struct serve *s, const char *file, struct error *err)
{
	struct conf conf;
	int r = conf_load(&conf, file, err);

	if (r < 0)
		return r;
	r = host_kinds_load(&s->judge.kinds, &conf, err);
	if (r == 0 && *conf.scrub == '/' && (size_t)snprintf(s->scrub, sizeof(s->scrub), "%s", conf.scrub) >= sizeof(s->scrub))
		r = error_set(err, -EINVAL, "[release] scrub is longer than %zu bytes", sizeof(s->scrub) - 1);
	s->scrub_seconds = (unsigned)conf.scrub_seconds;
	if (r == 0 && (size_t)snprintf(s->logs, sizeof(s->logs), "%s", conf.console_dir) >= sizeof(s->logs))
		r = error_set(err, -EINVAL, "[daemon] console_dir is longer than %zu bytes", sizeof(s->logs) - 1);
	conf_done(&conf);
	return r;
}

static int make_sources(struct serve *s, struct error *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return s->signals < 0 || s->wake < 0 ? error_set(err, -errno, "cannot wait for signals: %s", strerror(errno)) : 0;
}

#define CALLS_MAX 50

/* What is left once the socket is there, by what needs it. Modules and programs are nowhere among them. */
static int sandbox(enum seccomp_how how, struct error *err)
{
	static const int calls[] = {
		SYS_poll, SYS_accept4, SYS_getsockopt, SYS_setsockopt, SYS_recvfrom, SYS_sendmsg,          /* calls */
		SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_exit, SYS_exit_group, /* a thread for each */
		SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, /* sd_notify() of systemd 257 */
		SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_mremap, SYS_futex,           /* memory */
		SYS_openat2, SYS_openat, SYS_read, SYS_pread64, SYS_write, SYS_pwrite64, SYS_close,        /* files */
		SYS_readlinkat, SYS_getdents64, SYS_newfstatat, SYS_fstat, SYS_unlink, /* fstat(3) of glibc 2.36, and of 2.41 */
		SYS_socket, SYS_bind, SYS_sendto,                                                          /* netlink */
		SYS_clock_gettime, SYS_clock_nanosleep, SYS_restart_syscall,                               /* waiting */
	};

	static_assert(ARRAY_SIZE(calls) <= CALLS_MAX, "velad-helper has that many system calls");
	return seccomp_allow(how, calls, ARRAY_SIZE(calls), true, err);
}

static int run(const struct options *o, struct error *err)
{
	auto_(host_root_close) struct host_root *root = NULL;
	struct act_pci pci = { .deadline_ms = ACT_PCI_DEADLINE_MS };
	struct serve s = { .judge = { .pci = &pci, .overrides = o->keep }, .programs = -1 };
	uint64_t idle;
	int r = parse_uint(&idle, o->idle, 10, 86400);

	if (r < 0)
		return error_set(err, r, "--idle %s is no number of seconds", o->idle);
	s.idle_seconds = (unsigned)idle;
	r = user_id(&s.uid, o->user, err);
	if (r == 0)
		r = load(&s, o->conf, err);
	if (r == 0)
		r = host_root_open(&root, o->root, err);
	pci.root = root;
	pci.fmpm = s.judge.kinds.fmpm;
	if (r == 0)
		r = make_sources(&s, err);
	if (r == 0)
		r = open_socket(&s.listening, o->socket, err);
	if (r < 0)
		return r;
	r = programs_start(&s, err);
	if (r == 0)
		r = sandbox(o->seccomp, err);
	if (r < 0)
		return r;
	(void)sd_notify(0, "READY=1");
	r = serve_run(&s, err);
	if (r < 0)
		log_err("%s", err->text);
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS); /* threads that hang in the kernel still use all of this */
}

int main(int argc, char **argv)
{
	struct options o = { .root = "/", .user = "velad", .idle = "30", .keep = getenv("RUNTIME_DIRECTORY") };
	struct error err = ERROR_INIT;
	int r;

	log_init(LOG_LEVEL_INFO);
	r = parse_options(&o, argc, argv);
	if (r != 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
	if (run(&o, &err) < 0) {
		log_err("%s", err.text);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
