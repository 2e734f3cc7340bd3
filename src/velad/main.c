/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velad(8): options, signals, the loop. */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include "base/error.h"
#include "base/log.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/manager.h"
#include "velad/sandbox.h"

enum { EXIT_USAGE = 2 };

static const char usage[] =
	"usage: velad [--root DIR] [--uevents PATH] [--conf FILE] [--socket PATH] [--store FILE] [--libvirt URI]\n"
	"             [--helper PATH | --no-helper] [--seccomp HOW] [--debug]\n"
	"\n"
	"The per-host daemon that starts KVM guests with GPUs and SR-IOV VFs; see velad(8).\n"
	"\n"
	"  --root DIR     read and change the machine below DIR (/)\n"
	"  --uevents PATH hear of its changes from this socket, not from the kernel; for simulated machines\n"
	"  --conf FILE    configuration (/etc/velad/velad.conf, or the built-in one)\n"
	"  --socket PATH  listen here when systemd hands no socket over\n"
	"  --store FILE   state (state_dir/velad.db)\n"
	"  --libvirt URI  hypervisor\n"
	"  --helper PATH  have this machine changed by velad-helper, at this socket; the default unless velad is root\n"
	"  --no-helper    change it in this process\n"
	"  --seccomp HOW  with a helper: at a system call that it should not need, \"kill\" it, \"log\" that, or \"off\" (kill)\n"
	"  --debug        log more\n";

/* 0 go on, 1 done (help, version), -1 usage error, which getopt has printed. */
static int parse_options(struct manager_options *o, int argc, char **argv)
{
	enum { ROOT = 256, CONF, SOCKET, STORE, LIBVIRT, UEVENTS, HELPER, NO_HELPER, SECCOMP, DEBUG, HELP, VERSION };
	static const struct option options[] = {
		{ "root", required_argument, NULL, ROOT },       { "conf", required_argument, NULL, CONF },
		{ "socket", required_argument, NULL, SOCKET },   { "store", required_argument, NULL, STORE },
		{ "libvirt", required_argument, NULL, LIBVIRT }, { "uevents", required_argument, NULL, UEVENTS },
		{ "helper", required_argument, NULL, HELPER },   { "no-helper", no_argument, NULL, NO_HELPER },
		{ "seccomp", required_argument, NULL, SECCOMP },
		{ "debug", no_argument, NULL, DEBUG },           { "help", no_argument, NULL, HELP },
		{ "version", no_argument, NULL, VERSION },       { 0 },
	};
	const char **to[] = { &o->root, &o->conf, &o->socket, &o->store, &o->libvirt, &o->uevents, &o->helper };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c >= ROOT && c <= HELPER) {
			*to[c - ROOT] = optarg;
		} else if (c == NO_HELPER) {
			o->no_helper = true;
		} else if (c == SECCOMP && seccomp_how_parse(optarg) >= 0) {
			o->seccomp = (enum seccomp_how)seccomp_how_parse(optarg);
		} else if (c == DEBUG) {
			log_init(LOG_LEVEL_DEBUG);
		} else if (c == HELP || c == VERSION) {
			(void)fputs(c == HELP ? usage : "velad " VELAD_VERSION "\n", stdout);
			return 1;
		} else {
			return -1;
		}
	}
	if (optind < argc) {
		(void)fprintf(stderr, "velad: unexpected argument \"%s\"; see velad --help\n", argv[optind]);
		return -1;
	}
	return 0;
}

static int on_hup(sd_event_source *source, const struct signalfd_siginfo *si, void *self)
{
	struct manager *m = self;

	(void)source;
	(void)si;
	current_refresh(m->now);
	return 0;
}

/* SIGTERM and SIGINT end the loop (a NULL handler exits it), SIGHUP reads the host anew. The service manager hears of it, too. */
static int watch_signals(struct manager *m, struct error *err)
{
	int r = sd_event_add_signal(m->event, NULL, SIGTERM, NULL, NULL);

	if (r >= 0)
		r = sd_event_add_signal(m->event, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(m->event, NULL, SIGHUP, on_hup, m);
	if (r >= 0)
		return notify_open(&m->notify, m->event, err);
	return error_set(err, r, "cannot watch signals: %s", strerror(-r));
}

/* Before any thread starts: all of them inherit it, so that only the loop gets these. */
static void block_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
}

static int socket_from_systemd(int *fd, struct error *err)
{
	int n = sd_listen_fds(1);

	if (n < 0)
		return error_set(err, n, "cannot take over the socket of systemd: %s", strerror(-n));
	if (n > 1)
		return error_set(err, -EINVAL, "systemd hands over %d sockets, velad has one; look at velad.socket", n);
	if (n == 1 && sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_STREAM, 1) <= 0)
		return error_set(err, -EINVAL, "systemd hands over no listening Unix socket; look at velad.socket");
	*fd = n == 1 ? SD_LISTEN_FDS_START : -1;
	return 0;
}

/* ---- the loop ------------------------------------------------------------------------------------------------ */

/* Takes everything apart, and ends the process, in a thread that still may, because the loop's own may not any more. */
struct finisher {
	struct manager *m; /* owned */
	pthread_t       thread;
	pthread_mutex_t turn; /* held until the loop has ended */
	int             status;
};

static void *finish(void *self)
{
	struct finisher *f = self;

	sandbox_thread(SANDBOX_END, f->m->seccomp);
	(void)pthread_mutex_lock(&f->turn);
	(void)manager_free(f->m);
	exit(f->status);
}

static int loop(struct manager *m, struct error *err)
{
	char text[64];
	int r;

	(void)snprintf(text, sizeof(text), "READY=1\nSTATUS=%zu PCI functions", topo_count(current_topo(m->now)));
	notify_send(&m->notify, text);
	r = sd_event_loop(m->event);
	notify_send(&m->notify, "STOPPING=1");
	return r < 0 ? error_set(err, r, "the event loop failed: %s", strerror(-r)) : 0;
}

/* Takes m. From here on this thread has the loop's system calls only. */
static int loop_sandboxed(struct manager *m, struct error *err)
{
	struct finisher f = { .m = m };
	sd_id128_t id;
	int r;

	(void)pthread_mutex_init(&f.turn, NULL); /* glibc: never fails without attributes */
	(void)pthread_mutex_lock(&f.turn);
	r = pthread_create(&f.thread, NULL, finish, &f);
	if (r) {
		(void)manager_free(m);
		return error_set(err, -r, "cannot start a thread: %s", strerror(r));
	}
	if (log_is_journal()) /* libsystemd opens its socket here, once */
		(void)sd_journal_send("MESSAGE=velad " VELAD_VERSION " has the system calls of velad/sandbox from here on", "PRIORITY=6", NULL);
	(void)sd_id128_get_boot(&id); /* libraries read these files once, and could not do it later */
	(void)sd_id128_get_machine(&id);
	sandbox_thread(SANDBOX_LOOP, m->seccomp);
	r = loop(m, err);
	if (r < 0)
		log_err("%s", err->text);
	f.status = r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	(void)pthread_mutex_unlock(&f.turn);
	(void)pthread_join(f.thread, NULL); /* it does not end before the process */
	return r;
}

static int run(struct manager_options *o, struct error *err)
{
	auto_(manager_free) struct manager *m = NULL;
	int r = socket_from_systemd(&o->listen_fd, err);

	if (r == 0)
		r = manager_new(&m, o, err);
	if (r == 0)
		r = watch_signals(m, err);
	if (r < 0)
		return r;
	return m->seccomp != SECCOMP_OFF ? loop_sandboxed(steal(m), err) : loop(m, err);
}

/* One heap: what threads of their own would have costs memory, and system calls to grow and shrink. Limits of glibc's, said: so they do not
 * grow with what is freed (mallopt(3)). What one reading needs for a moment is no part of the heap; what each plan needs stays until nothing
 * is to be done (instance/pool), for pages that go and come again are a fault each. */
static void spare_memory(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	(void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

int main(int argc, char **argv)
{
	struct manager_options o = { .root = "/", .listen_fd = -1 };
	struct error err = ERROR_INIT;
	int r;

	spare_memory();
	log_init(LOG_LEVEL_INFO);
	r = parse_options(&o, argc, argv);
	if (r != 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
	block_signals();
	if (run(&o, &err) < 0) {
		log_err("%s", err.text);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
