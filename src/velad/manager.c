/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Puts the daemon together, in the order of its parts' needs, and takes it apart in reverse. */
#include "velad/manager.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>

#include "act/act.h"
#include "api/server.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "host/inventory.h"
#include "instance/instance.h"
#include "topo/topo.h"
#include "velad/methods.h"

#define REFRESH_USEC 1000000

static uint64_t now_usec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- the topology --------------------------------------------------------------------------------- */

/* Everything of a topology but its generation, as text: two that differ in nothing else are one. NULL: no
 * memory. */
static char *topo_text(const struct topo *t)
{
	auto_(json_object_put) json_object *o = topo_json(t);

	if (!o)
		return NULL;
	json_object_object_del(o, "generation");
	return strdup(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
}

static int scan(struct topo **ret, struct manager *m, struct error *err)
{
	auto_(host_inventory_free) struct inventory *inv = NULL;
	int r = host_inventory_read(&inv, m->root, &m->kinds, err);

	if (r == 0)
		r = topo_build(ret, inv, m->topo ? topo_generation(m->topo) : 0, err);
	if (r == 0) {
		inv = NULL; /* the topology's now */
		return 0;
	}
	/* what the kernel said of some file is not what the API says of some object: -ENOENT is no 404 */
	err->code = r == -ENOMEM ? r : -ENODEV;
	return error_prefix(err, "reading the host");
}

static int number_next(struct manager *m, struct topo *fresh, struct error *err)
{
	uint64_t generation;
	int r = inst_generation_next(m->instances, &generation, err);

	if (r < 0)
		return r;
	topo_number(fresh, generation);
	log_info("topology generation %llu: %zu functions, %zu findings", (unsigned long long)generation,
		 topo_count(fresh), topo_inventory(fresh)->nfindings);
	return 0;
}

/* Kept also where nothing changed: memory figures are not in the text, and plans look at them. */
int manager_rescan(struct manager *m, struct error *err)
{
	auto_(topo_unref) struct topo *fresh = NULL;
	autofree char *text = NULL;
	int r = scan(&fresh, m, err);

	if (r < 0)
		return r;
	text = topo_text(fresh);
	if (!text)
		return error_set(err, -ENOMEM, "no memory for a topology");
	if (!m->topo_text || strcmp(text, m->topo_text) != 0)
		r = number_next(m, fresh, err);
	if (r < 0)
		return r;
	topo_unref(m->topo);
	m->topo = steal(fresh);
	free(m->topo_text);
	m->topo_text = steal(text);
	m->scanned = now_usec();
	return 0;
}

int manager_refresh(struct manager *m, struct error *err)
{
	return now_usec() - m->scanned < REFRESH_USEC ? 0 : manager_rescan(m, err);
}

static int on_changed(sd_event_source *source, int fd, uint32_t events, void *self)
{
	struct manager *m = self;
	struct error err = ERROR_INIT;
	eventfd_t n;

	(void)source;
	(void)events;
	(void)eventfd_read(fd, &n); /* how often does not matter */
	if (manager_rescan(m, &err) < 0)
		log_err("%s", err.text);
	return 0;
}

/* On a worker thread: the descriptor is all that may be touched. */
static void machine_changed(void *self)
{
	struct manager *m = self;

	(void)eventfd_write(m->changed_fd, 1); /* fails only if 2^64 writes were not read */
}

/* ---- libvirt -------------------------------------------------------------------------------------- */

static void domain_changed(void *self, const char *name, enum act_domain state)
{
	inst_domain_changed(self, name, state);
}

int manager_libvirt(struct manager *m, struct error *err)
{
	int r = 0;

	/* first, and whether or not libvirt is there: the watch finds it as soon as it comes */
	if (!m->watching) {
		r = act_domain_watch(m->machine, domain_changed, m->instances, err);
		m->watching = r == 0;
	}
	/* blocks on libvirt once; after that its answer is known */
	if (r == 0 && !m->domain_type[0])
		r = act_domain_type(m->machine, m->domain_type, err);
	return r;
}

/* ---- construction ----------------------------------------------------------------------------------- */

static int load_conf(struct manager *m, const struct manager_options *opt, struct error *err)
{
	int r = conf_load(&m->conf, opt->conf, err);

	return r < 0 ? r : host_kinds_load(&m->kinds, &m->conf, err);
}

static int open_store(struct manager *m, const struct manager_options *opt, struct error *err)
{
	char path[512];
	struct inst_env env = { .store = opt->store, .act = act_machine_act(m->machine), .changed = machine_changed,
				.self = m };

	if (!env.store) {
		if (mkdir(m->conf.state_dir, 0700) < 0 && errno != EEXIST)
			return error_set(err, -errno, "cannot make %s: %s", m->conf.state_dir, strerror(errno));
		if (snprintf(path, sizeof(path), "%s/velad.db", m->conf.state_dir) >= (int)sizeof(path))
			return error_set(err, -ENAMETOOLONG, "state_dir is too long: %s", m->conf.state_dir);
		env.store = path;
	}
	return inst_manager_new(&m->instances, &env, err);
}

static int watch_changes(struct manager *m, struct error *err)
{
	int r = sd_event_add_io(m->event, &m->changed, m->changed_fd, EPOLLIN, on_changed, m);

	return r < 0 ? error_set(err, r, "cannot watch for changes: %s", strerror(-r)) : 0;
}

static int serve(struct manager *m, const struct manager_options *opt, struct error *err)
{
	int fd = opt->listen_fd;

	if (fd < 0)
		fd = api_listen(opt->socket ? opt->socket : m->conf.socket, err);
	if (fd < 0)
		return fd;
	return api_server_new(&m->server, m->event, fd, velad_routes, m, err);
}

static int open_loop(struct manager *m, struct error *err)
{
	int r;

	m->changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->changed_fd < 0)
		return error_set(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	r = sd_event_default(&m->event);
	return r < 0 ? error_set(err, r, "cannot make an event loop: %s", strerror(-r)) : 0;
}

int manager_new(struct manager **ret, const struct manager_options *opt, struct error *err)
{
	auto_(manager_free) struct manager *m = calloc(1, sizeof(*m));
	struct error later = ERROR_INIT;
	int r;

	if (!m)
		return error_set(err, -ENOMEM, "no memory");
	r = open_loop(m, err);
	if (r == 0)
		r = load_conf(m, opt, err);
	if (r == 0)
		r = host_root_open(&m->root, opt->root, err);
	if (r == 0)
		r = act_machine_new(&m->machine, m->root, opt->libvirt ? opt->libvirt : m->conf.libvirt_uri, err);
	if (r == 0)
		r = open_store(m, opt, err);
	if (r == 0)
		r = manager_rescan(m, err);
	if (r == 0)
		r = watch_changes(m, err);
	if (r == 0)
		r = serve(m, opt, err);
	if (r < 0)
		return r;
	if (manager_libvirt(m, &later) < 0) /* the host can be looked at without it; create tries again */
		log_warning("%s", later.text);
	*ret = steal(m);
	return 0;
}

struct manager *manager_free(struct manager *m)
{
	if (!m)
		return NULL;
	api_server_free(m->server);
	if (m->machine)
		act_domain_unwatch(m->machine); /* its thread calls into the instances */
	inst_manager_free(m->instances); /* its worker calls the machine and writes changed_fd */
	act_machine_free(m->machine);
	sd_event_source_disable_unref(m->changed);
	topo_unref(m->topo);
	free(m->topo_text);
	host_root_close(m->root);
	if (m->changed_fd >= 0)
		(void)close(m->changed_fd);
	sd_event_unref(m->event);
	conf_done(&m->conf);
	free(m);
	return NULL;
}
