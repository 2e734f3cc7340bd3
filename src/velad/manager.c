/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Puts the daemon together, in the order of its parts' needs, and takes it apart in reverse. */
#include "velad/manager.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/act.h"
#include "api/server.h"
#include "base/error.h"
#include "base/log.h"
#include "guest/guest.h"
#include "host/root.h"
#include "instance/instance.h"
#include "plan/plan.h"
#include "velad/capacity.h"
#include "velad/current.h"
#include "velad/methods.h"
#include "velad/planner.h"
#include "velad/operations.h"
#include "velad/pool.h"
#include "velad/remake.h"
#include "velad/sandbox.h"

static int on_changed(sd_event_source *source, int fd, uint32_t events, void *self)
{
	struct manager *m = self;
	eventfd_t n;

	(void)source;
	(void)events;
	(void)eventfd_read(fd, &n); /* how often does not matter */
	current_disturbed(m->now);
	return 0;
}

/* On a worker thread: the descriptor is all that may be touched. */
static void machine_changed(void *self)
{
	struct manager *m = self;

	(void)eventfd_write(m->changed_fd, 1); /* fails only if 2^64 writes were not read */
}

static int on_ended(sd_event_source *source, int fd, uint32_t events, void *self)
{
	struct manager *m = self;
	eventfd_t n;

	(void)source;
	(void)events;
	(void)eventfd_read(fd, &n);
	if (m->server)
		api_server_wake(m->server);
	pool_go_on(m);
	remake_start(m);
	return 0;
}

static void machine_read(void *self)
{
	struct manager *m = self;

	if (m->planner)
		planner_go_on(m->planner);
	if (m->server)
		api_server_wake(m->server);
	pool_go_on(m);
	remake_start(m);
}

static void capacity_counted(void *self)
{
	struct manager *m = self;

	inst_rest(m->instances);
	if (m->server)
		api_server_wake(m->server);
}

static void operation_ended(void *self)
{
	struct manager *m = self;

	(void)eventfd_write(m->ended_fd, 1);
}

/* ---- libvirt -------------------------------------------------------------------------------------- */

/* On the watch's thread. */
static void domain_changed(void *self, const char *name, enum act_domain state)
{
	struct manager *m = self;

	inst_domain_changed(m->instances, name, state);
	if (!name)
		operation_ended(m); /* who waits for libvirt looks again */
}

int manager_libvirt(struct manager *m, struct error *err)
{
	return act_domain_offer(m->machine, &m->offer, err);
}

/* ---- threads -------------------------------------------------------------------------------------- */

static void instances_begin(void *self, enum inst_thread as)
{
	static const enum sandbox_thread is[INST_THREAD_MAX_] = {
		[INST_THREAD_OPERATIONS] = SANDBOX_OPERATIONS, [INST_THREAD_KEEPER] = SANDBOX_KEEPER, [INST_THREAD_CONSOLES] = SANDBOX_CONSOLES,
		[INST_THREAD_CALLS] = SANDBOX_CALLS, [INST_THREAD_IMAGES] = SANDBOX_IMAGES,
	};
	struct manager *m = self;

	sandbox_thread(is[as], m->seccomp);
}

static void watch_begins(void *self)
{
	struct manager *m = self;

	sandbox_thread(SANDBOX_LIBVIRT, m->seccomp);
}

/* ---- construction ----------------------------------------------------------------------------------- */

static int check_release(const struct conf *c, struct error *err)
{
	if (*c->scrub != '/' && strcmp(c->scrub, "none") != 0)
		return error_set(err, -EINVAL, "[release] scrub must be the absolute path of a program, or none; it is \"%.80s\"", c->scrub);
	if (strcmp(c->on_crash, "leave") != 0 && strcmp(c->on_crash, "restart") != 0)
		return error_set(err, -EINVAL, "[guests] on_crash must be leave or restart; it is \"%.40s\"", c->on_crash);
	if (strcmp(c->on_host_boot, "leave") != 0 && strcmp(c->on_host_boot, "restart") != 0)
		return error_set(err, -EINVAL, "[guests] on_host_boot must be leave or restart; it is \"%.40s\"", c->on_host_boot);
	if (strcmp(c->no_reset, "quarantine") != 0 && strcmp(c->no_reset, "allow") != 0)
		return error_set(err, -EINVAL, "[release] no_reset must be quarantine or allow; it is \"%.40s\"", c->no_reset);
	return 0;
}

static int load_conf(struct manager *m, const struct manager_options *opt, struct error *err)
{
	int r = conf_load(&m->conf, opt->conf, err);

	if (r == 0)
		r = host_kinds_load(&m->kinds, &m->conf, err);
	if (r == 0)
		r = check_release(&m->conf, err);
	if (r == 0)
		r = plan_policy_load(&m->policy, &m->conf, err);
	if (r == 0)
		r = plan_pool_load(&m->pool, &m->conf, err);
	if (r == 0 && plan_vf_bits(&m->vf_may_refuse, m->conf.vf_may_refuse, err) < 0)
		r = error_prefix(err, "[vf] may_refuse");
	return r;
}

static struct inst_deadlines deadlines(const struct conf *c)
{
	return (struct inst_deadlines){
		.look_ms = 1000 * (unsigned)c->deadline.look,
		.bind_ms = 1000 * (unsigned)c->deadline.bind,
		.vfs_ms = 1000 * (unsigned)c->deadline.vfs,
		.reset_ms = 1000 * (unsigned)c->deadline.reset,
		.domain_ms = 1000 * (unsigned)c->deadline.domain,
		.start_ms = 1000 * (unsigned)c->deadline.start,
		.stop_ms = 1000 * (unsigned)c->deadline.stop,
	};
}

static int open_store(struct manager *m, const struct manager_options *opt, struct error *err)
{
	char path[512];
	struct inst_env env = { .store = opt->store, .act = act_machine_act(m->machine), .changed = machine_changed,
				.ended = operation_ended, .begins = instances_begin,
				.self = m, .root = m->root, .workers = (unsigned)m->conf.workers,
				.deadlines = deadlines(&m->conf), .keep_ms = (unsigned)m->conf.keep_milliseconds,
				.restart = strcmp(m->conf.on_host_boot, "restart") == 0,
				.crash = { .restart = strcmp(m->conf.on_crash, "restart") == 0,
					   .limit = (unsigned)m->conf.crash_limit, .seconds = (unsigned)m->conf.crash_seconds },
				.release = { .scrub = *m->conf.scrub == '/' ? m->conf.scrub : NULL,
					     .scrub_seconds = (unsigned)m->conf.scrub_seconds,
					     .unreset = strcmp(m->conf.no_reset, "allow") == 0 },
				.keep_seconds = (unsigned)m->conf.keep_seconds, .vf_may_refuse = m->vf_may_refuse };

	if (!env.store) {
		if (mkdir(m->conf.state_dir, 0700) < 0 && errno != EEXIST)
			return error_set(err, -errno, "cannot make %s: %s", m->conf.state_dir, strerror(errno));
		if (snprintf(path, sizeof(path), "%s/velad.db", m->conf.state_dir) >= (int)sizeof(path))
			return error_set(err, -ENAMETOOLONG, "state_dir is too long: %s", m->conf.state_dir);
		env.store = path;
	}
	return inst_manager_new(&m->instances, &env, err);
}

/* Root can do by itself what the helper is for; others need it. */
static int open_machine(struct manager *m, const struct manager_options *opt, struct error *err)
{
	const char *helper = opt->helper ? opt->helper : opt->no_helper || geteuid() == 0 ? NULL : m->conf.helper;
	const struct inst_deadlines at_most = deadlines(&m->conf);
	const struct act_hypervisor hyper = {
		.program = opt->libvirt_program, .uri = opt->libvirt ? opt->libvirt : m->conf.libvirt_uri,
		.seccomp = helper ? seccomp_how_text(opt->seccomp) : NULL,
		.images = { m->conf.images_pool, m->conf.images_dir, m->conf.images_source, m->conf.console_dir },
		.look_ms = at_most.domain_ms, .start_ms = at_most.start_ms, .stop_ms = at_most.stop_ms,
		.helper_seconds = (unsigned)m->conf.deadline.helper_start,
		.begins = watch_begins, .self = m,
	};

	m->has_helper = helper;
	m->seccomp = helper ? opt->seccomp : SECCOMP_OFF;
	return act_machine_new(&m->machine, m->root, &hyper, helper, m->kinds.fmpm, err);
}

/* The pool may have been left, or not be begun. It is gone on with by the loop, not within a reading. */
static void helper_back(void *self)
{
	struct manager *m = self;

	m->pool_waits = true;
	inst_helper_back(m->instances);
	operation_ended(m);
}

static int open_current(struct manager *m, const struct manager_options *opt, struct error *err)
{
	struct current_env env = { .event = m->event, .root = m->root, .kinds = &m->kinds, .instances = m->instances,
				   .machine = m->machine, .helper_back = helper_back, .read = machine_read, .self = m,
				   .look_ms = deadlines(&m->conf).look_ms, .seccomp = m->seccomp, .uevents = opt->uevents };

	return current_new(&m->now, &env, err);
}

static int watch_changes(struct manager *m, struct error *err)
{
	int r = sd_event_add_io(m->event, &m->changed, m->changed_fd, EPOLLIN, on_changed, m);

	if (r >= 0)
		r = sd_event_add_io(m->event, &m->ended, m->ended_fd, EPOLLIN, on_ended, m);
	return r < 0 ? error_set(err, r, "cannot watch for changes: %s", strerror(-r)) : 0;
}

/* First of all: who comes while the machine is read waits for its answer, and is not refused. */
static int listen_early(struct manager *m, const struct manager_options *opt, struct error *err)
{
	m->listen_fd = opt->listen_fd >= 0 ? opt->listen_fd : api_listen(opt->socket ? opt->socket : m->conf.socket, err);
	return m->listen_fd < 0 ? m->listen_fd : 0;
}

static int serve(struct manager *m, struct error *err)
{
	int fd = m->listen_fd;

	m->listen_fd = -1; /* taken over */
	return api_server_new(&m->server, m->event, fd, velad_routes, &operations_keys, &methods_batch, m, err);
}

static int open_loop(struct manager *m, struct error *err)
{
	int r;

	m->changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	m->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->changed_fd < 0 || m->ended_fd < 0)
		return error_set(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	r = sd_event_default(&m->event);
	return r < 0 ? error_set(err, r, "cannot make an event loop: %s", strerror(-r)) : 0;
}

int manager_new(struct manager **ret, const struct manager_options *opt, struct error *err)
{
	auto_(manager_free) struct manager *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return error_set(err, -ENOMEM, "no memory");
	m->listen_fd = m->notify.fd = -1;
	if (gethostname(m->host_name, sizeof(m->host_name) - 1) < 0)
		*m->host_name = '\0';
	r = open_loop(m, err);
	if (r == 0)
		r = load_conf(m, opt, err);
	if (r == 0)
		r = listen_early(m, opt, err);
	if (r == 0)
		r = host_root_open(&m->root, opt->root, err);
	if (r == 0)
		r = open_machine(m, opt, err);
	if (r == 0)
		r = sandbox_process(m->seccomp, err); /* there is no thread yet, and no program is started any more */
	if (r == 0)
		r = open_store(m, opt, err);
	if (r == 0)
		r = open_current(m, opt, err);
	if (r == 0)
		r = watch_changes(m, err);
	if (r == 0)
		r = capacity_new(&m->capacity, m->event, m->seccomp, capacity_counted, m, err);
	if (r == 0)
		r = planner_new(&m->planner, m, err);
	if (r == 0)
		r = serve(m, err);
	if (r == 0) /* whether or not libvirt is there: the watch finds it as soon as it comes */
		r = act_domain_watch(m->machine, domain_changed, m, err);
	if (r < 0)
		return r;
	pool_begin(m);
	*ret = steal(m);
	return 0;
}

struct manager *manager_free(struct manager *m)
{
	bool hangs = false;

	if (!m)
		return NULL;
	api_server_free(m->server);
	if (m->machine)
		act_domain_unwatch(m->machine); /* its thread calls into the instances */
	capacity_free(m->capacity);
	planner_free(m->planner);
	plan_memo_free(m->memo);
	hangs = !current_free(m->now); /* its threads read the root, and it numbers generations */
	if (m->instances) { /* its threads call the machine and write changed_fd */
		inst_manager_stop(m->instances);
		hangs = inst_hanging(m->instances) > 0 || hangs;
	}
	inst_manager_free(m->instances);
	if (hangs) /* in the machine: it ends with the process */
		return NULL;
	act_machine_free(m->machine);
	notify_done(&m->notify);
	sd_event_source_disable_unref(m->changed);
	sd_event_source_disable_unref(m->ended);
	sd_event_source_disable_unref(m->again);
	host_root_close(m->root);
	if (m->listen_fd >= 0)
		(void)close(m->listen_fd);
	if (m->changed_fd >= 0)
		(void)close(m->changed_fd);
	if (m->ended_fd >= 0)
		(void)close(m->ended_fd);
	sd_event_unref(m->event);
	leases_done(&m->leases);
	sbuf_done(&m->metrics);
	conf_done(&m->conf);
	free(m);
	return NULL;
}
