/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/current.h"

#include <errno.h>
#include <json-c/json.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "act/act.h"
#include "act/remote.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "guest/guest.h"
#include "host/change.h"
#include "host/inventory.h"
#include "host/watch.h"
#include "instance/instance.h"
#include "topo/diff.h"
#include "topo/topo.h"
#include "velad/history.h"
#include "velad/patience.h"
#include "velad/worker.h"

#define YOUNG_USEC  1000000u  /* memory figures; without events, everything */
#define OLD_USEC    10000000u /* then what has no event, and is no register, is read anew */
#define QUIET_USEC  20000u    /* so long nothing comes: it is over */
#define BURST_USEC  500000u   /* so long one waits for that */

struct job { /* a thread's; nobody else touches it meanwhile */
	const struct current_env *env;
	struct topo              *old; /* a reference */
	struct host_changes       what;
	struct topo              *fresh;  /* NULL: there was nothing to read */
	bool                      check;  /* that the bus has what old has, and no more */
	bool                      whole;  /* everything was read */
	json_object              *items;  /* what differs from old; NULL: no old, nothing fresh, or no memory */
	bool                      helper; /* velad-helper was away: is it there again? */
	bool                      hears;  /* there is a watch */
	struct host_watch        *watch;  /* one that there can be now; NULL none */
	int                       r;
	struct error              err;
};

struct current {
	struct current_env  env;
	struct topo        *topo;
	uint64_t            scanned, host_read, controls_read; /* when everything, what concerns the host, registers were read */
	struct {
		uint64_t began, news; /* the last reading for a plan; began 0: none, or it failed */
	} plan;
	struct host_watch  *watch;  /* NULL: nothing can be heard */
	sd_event_source    *io[HOST_WATCH_FDS], *timer;
	struct patience     patience;  /* with velad-helper */
	struct host_changes heard;     /* and not looked at yet */
	struct host_changes disturbed; /* heard since velad last said that it has changed the machine */
	uint64_t            first;     /* when the first of `heard` came */
	bool                reading;   /* the thread has a job, which is not settled yet */
	struct worker      *worker;    /* owned */
	struct job          job;
	struct history      history;
};

/* ---- reading ---------------------------------------------------------------------------------------- */

/* What changed if that is possible, else everything. Called from either thread. */
static int look(struct topo **ret, bool *whole, const struct topo *old, const struct host_changes *what,
		const struct current_env *env, struct error *err)
{
	auto_(host_inventory_free) struct inventory *inv = NULL;
	int r = host_inventory_follow(&inv, whole, old ? topo_inventory(old) : NULL, what, env->root, env->kinds, err);

	if (r == 0)
		r = old ? topo_build_upon(ret, old, inv, err) : topo_build(ret, inv, 0, err);
	if (r == 0) {
		inv = NULL; /* the topology's now */
		return 0;
	}
	/* what the kernel said of some file is not what the API says of some object: -ENOENT is no 404 */
	err->code = r == -ENOMEM ? r : -ENODEV;
	return error_prefix(err, "reading the host");
}

/* Whether what came or went is more than VFs. */
static bool has_cards(json_object *items)
{
	bool any = false;

	for (size_t i = 0; i < json_object_array_length(items); i++) {
		json_object *item = json_object_array_get_idx(items, i);
		const char *what = json_object_get_string(json_object_object_get(item, "what"));
		const char *kind = json_object_get_string(json_object_object_get(item, "kind"));

		any = any || ((strcmp(what, "added") == 0 || strcmp(what, "removed") == 0) && kind && strcmp(kind, "vf") != 0);
	}
	return any;
}

static int number(struct current *c, struct topo *fresh, json_object *items, struct error *err)
{
	uint64_t generation;
	int r = inst_generation_next(c->env.instances, &generation, err);

	if (r < 0)
		return r;
	topo_number(fresh, generation);
	log_info("topology generation %llu: %zu functions, %zu findings", (unsigned long long)generation,
		 topo_count(fresh), topo_inventory(fresh)->nfindings);
	if (!c->topo) {
		c->history.before = generation;
		return 0;
	}
	history_log(generation, items);
	inst_machine_changed(c->env.instances);
	inst_rest(c->env.instances);
	if (has_cards(items))
		inst_cards_changed(c->env.instances);
	history_add(&c->history, generation, time(NULL), json_object_get(items));
	return 0;
}

/* Takes what the job has read. Without a difference it is kept only for what is none: memory, at which plans look. Or else one
 * inventory after the other would be kept, as the next borrows from it. */
static int adopt(struct current *c, struct job *j, bool memory, struct error *err)
{
	auto_(topo_unref) struct topo *t = steal(j->fresh);
	json_object *items = j->items;
	bool whole = j->whole;
	int r = 0;

	if (c->topo && !items)
		r = error_set(err, -ENOMEM, "no memory for a topology");
	else if (!items || json_object_array_length(items))
		r = number(c, t, items, err);
	if (r < 0) {
		c->heard.lost = true; /* or it would be forgotten */
		return r;
	}
	if (!items || json_object_array_length(items) || whole || memory) {
		topo_unref(c->topo);
		c->topo = steal(t);
	}
	if (whole)
		c->scanned = c->host_read = c->controls_read = clock_usec(CLOCK_MONOTONIC);
	return 0;
}

static bool may_hear(const struct current_env *env)
{
	return env->uevents || host_root_is_machine(env->root);
}

/* What the loop may not do by itself: it opens no files. Before a plan also what writes its XML is loaded, once. */
static void do_job(void *self)
{
	struct current *c = self;
	struct job *j = &c->job;
	struct error ignored = ERROR_INIT; /* who writes XML is told */

	act_remote_hasty();
	if (j->what.lost || j->what.n)
		(void)malloc_trim(0); /* inventories and topologies have gone since */
	if (j->what.memory)
		(void)guest_load(&ignored);
	if (j->helper && act_machine_helper(j->env->machine, true, &ignored) == 0)
		j->what.lost = true; /* what it opens was not known */
	if (j->helper && j->what.lost && !j->hears && may_hear(j->env))
		(void)host_watch_open(&j->watch, j->env->root, j->env->uevents, &ignored);
	if (j->check && !host_inventory_complete(topo_inventory(j->old), j->env->root)) {
		log_warning("functions came or went, and nothing was heard of it");
		j->what.lost = true;
	}
	if (host_changes_any(&j->what))
		j->r = look(&j->fresh, &j->whole, j->old, &j->what, j->env, &j->err);
	if (j->fresh && j->old)
		j->items = topo_diff(j->old, j->fresh);
}

/* ---- its end ---------------------------------------------------------------------------------------- */

static void job_done(struct job *j)
{
	host_changes_done(&j->what);
	topo_unref(j->old);
	topo_unref(j->fresh);
	json_object_put(j->items);
	(void)host_watch_close(j->watch);
	*j = (struct job){ 0 };
}

static void stop_hearing(struct current *c)
{
	for (int i = 0; i < HOST_WATCH_FDS; i++)
		c->io[i] = sd_event_source_disable_unref(c->io[i]);
	c->watch = host_watch_close(c->watch);
}

static int on_heard(sd_event_source *source, int fd, uint32_t events, void *self);

static int add_sources(struct current *c)
{
	int r = 0;

	for (size_t i = 0; i < HOST_WATCH_FDS && r >= 0; i++)
		if (host_watch_fd(c->watch, i) >= 0)
			r = sd_event_add_io(c->env.event, &c->io[i], host_watch_fd(c->watch, i), EPOLLIN, on_heard, c);
	return r;
}

/* The reader's. */
static void take_watch(struct current *c, struct job *j)
{
	if (!j->watch)
		return;
	c->watch = steal(j->watch);
	if (add_sources(c) < 0)
		stop_hearing(c);
	else
		log_info("changes of the machine are heard of from here on");
}

/* Waits for the thread, if it runs, and takes what it read. */
static int settle(struct current *c, struct error *err)
{
	struct job *j = &c->job;
	int r = 0;

	if (!c->reading)
		return 0;
	worker_await(c->worker);
	c->reading = false;
	if (j->fresh)
		r = adopt(c, j, j->what.memory || j->what.host, err);
	if (j->r < 0) {
		c->heard.lost = true;
		*err = j->err;
		r = j->r;
	}
	take_watch(c, j);
	job_done(j);
	patience_mind(&c->patience);
	return r;
}

/* As settle(), of what is to be read at once. It is read by the thread, too: reading takes system calls that the loop has
 * not got any more. check: that nothing came or went unheard, or else all is read. */
static int read_now(struct current *c, const struct host_changes *what, bool check, struct error *err)
{
	struct job *j = &c->job;
	int r = settle(c, err);

	if (r < 0)
		return r;
	*j = (struct job){ .env = &c->env, .old = c->topo ? topo_ref(c->topo) : NULL, .what = *what, .check = check,
			    .helper = patience_waits(&c->patience), .hears = c->watch };
	worker_start(c->worker);
	worker_await(c->worker);
	r = j->r;
	if (r < 0) {
		*err = j->err;
		c->heard.lost |= j->what.lost;
	} else if (j->fresh) {
		r = adopt(c, j, what->memory || what->host, err);
	}
	j->what = (struct host_changes){ 0 }; /* the caller's */
	take_watch(c, j);
	job_done(j);
	patience_mind(&c->patience);
	if (r == 0 && what->host)
		c->host_read = clock_usec(CLOCK_MONOTONIC);
	return r;
}

static void arm(struct current *c, uint64_t in)
{
	uint64_t now = clock_usec(CLOCK_MONOTONIC), at = now + in;

	if (!c->first)
		c->first = now;
	if (at > c->first + BURST_USEC)
		at = c->first + BURST_USEC;
	if (sd_event_source_set_time(c->timer, at) < 0 || sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT) < 0)
		log_err("cannot set a timer"); /* the next plan catches up */
}

static void start(struct current *c)
{
	c->first = 0;
	c->job = (struct job){ .env = &c->env, .old = topo_ref(c->topo), .what = c->heard, .helper = patience_waits(&c->patience),
			       .hears = c->watch };
	c->heard = (struct host_changes){ 0 };
	c->reading = true;
	worker_start(c->worker);
}

/* velad-helper may be there again. While the thread reads, it asks as well. */
static void look_for_helper(void *self)
{
	struct current *c = self;

	if (!c->reading)
		start(c);
}

static int on_quiet(sd_event_source *source, uint64_t usec, void *self)
{
	struct current *c = self;

	(void)source, (void)usec;
	if (!c->reading && host_changes_any(&c->heard)) /* else on_done() comes */
		start(c);
	return 0;
}

static void on_done(void *self)
{
	struct current *c = self;
	struct error err = ERROR_INIT;

	if (settle(c, &err) < 0)
		log_err("%s", err.text);
	if (host_changes_any(&c->heard))
		arm(c, err.code ? YOUNG_USEC : 0); /* what cannot be read is not asked again and again */
}

/* ---- hearing ---------------------------------------------------------------------------------------- */

static void hear(struct current *c)
{
	struct host_changes more = { 0 };
	int r = host_watch_read(c->watch, &more);

	if (more.lost)
		log_warning("changes of the machine were lost; reading all of it");
	host_changes_merge(&c->heard, &more);
	host_changes_merge(&c->disturbed, &more);
	host_changes_done(&more);
	if (r < 0) {
		log_warning("no changes can be heard of any more (%s); everything is read each time", strerror(-r));
		stop_hearing(c);
	}
}

static int on_heard(sd_event_source *source, int fd, uint32_t events, void *self)
{
	struct current *c = self;

	(void)source, (void)fd, (void)events;
	hear(c);
	inst_machine_changed(c->env.instances); /* a reset may have made it */
	if (host_changes_any(&c->heard))
		arm(c, QUIET_USEC);
	return 0;
}

/* Before the first reading: what changes meanwhile is heard of. */
static int listen_to(struct current *c, struct error *err)
{
	struct error why = ERROR_INIT;
	int r = 0;

	if (!may_hear(&c->env))
		return 0;
	if (host_watch_open(&c->watch, c->env.root, c->env.uevents, &why) < 0) {
		if (c->env.uevents)
			return error_set(err, why.code, "%s", why.text);
		log_warning("%s; everything is read each time", why.text);
		return 0;
	}
	r = add_sources(c);
	return r < 0 ? error_set(err, r, "cannot wait for changes: %s", strerror(-r)) : 0;
}

/* ---- the door --------------------------------------------------------------------------------------- */

/* What has to be read beside what was heard of; true: everything. */
static bool is_old(const struct current *c, enum current_need need)
{
	uint64_t age = clock_usec(CLOCK_MONOTONIC) - c->scanned;

	if (need == CURRENT_ALL)
		return true;
	if (!c->watch)
		return need == CURRENT_PLAN || age >= YOUNG_USEC;
	return need == CURRENT_TOPOLOGY && age >= OLD_USEC;
}

/* Registers have no event. VFs have none of their own that are read. */
static bool add_controls(const struct current *c, struct host_changes *what)
{
	const struct inventory *inv = topo_inventory(c->topo);

	if (what->lost || clock_usec(CLOCK_MONOTONIC) - c->controls_read < YOUNG_USEC)
		return false;
	for (size_t i = 0; i < inv->nfn; i++)
		if (!inv->fn[i].facts->is_vf)
			host_changes_add(what, inv->fn[i].bdf, HOST_CHANGE_STATE);
	return true;
}

int current_catch_up(struct current *c, enum current_need need, struct error *err)
{
	struct host_changes what;
	bool controls = false;
	int r = settle(c, err);

	if (r < 0)
		*err = ERROR_INIT; /* it is tried again here */
	if (c->watch)
		hear(c);
	what = c->heard;
	c->heard = (struct host_changes){ 0 };
	what.lost |= is_old(c, need);
	what.memory = need == CURRENT_PLAN;
	what.host = need == CURRENT_HOST && clock_usec(CLOCK_MONOTONIC) - c->host_read >= YOUNG_USEC;
	if (need == CURRENT_CONTROLS || need == CURRENT_TOPOLOGY)
		controls = add_controls(c, &what);
	r = c->watch || host_changes_any(&what) ? read_now(c, &what, c->watch && !what.lost, err) : 0;
	if (r == 0 && controls)
		c->controls_read = clock_usec(CLOCK_MONOTONIC);
	if (r < 0)
		host_changes_merge(&c->heard, &what);
	host_changes_done(&what);
	return r;
}

int current_catch_up_for(struct current *c, uint64_t came, uint64_t news, struct error *err)
{
	uint64_t began = clock_usec(CLOCK_MONOTONIC);
	int r;

	if (c->watch)
		hear(c);
	if (c->watch && !c->reading && !host_changes_any(&c->heard) && c->plan.began > came && c->plan.news == news)
		return 0;
	r = current_catch_up(c, CURRENT_PLAN, err);
	c->plan.began = r == 0 ? began : 0;
	c->plan.news = news;
	return r;
}

int current_verify(struct current *c, const struct host_changes *which, struct error *err)
{
	uint64_t before = topo_generation(c->topo);
	int r;

	if (!c->watch || !host_changes_any(which))
		return 0; /* all of it was read for this plan, or it stands on no function */
	r = read_now(c, which, false, err);
	if (r == 0 && topo_generation(c->topo) != before)
		log_warning("the machine differs from what was heard of; planning anew");
	return r < 0 ? r : topo_generation(c->topo) != before;
}

/* Events said what changed, but not all of it: an override that is written after the last of them has none. */
void current_disturbed(struct current *c)
{
	struct error err = ERROR_INIT;

	if (!c->watch) {
		if (current_catch_up(c, CURRENT_ALL, &err) < 0)
			log_err("%s", err.text);
		return;
	}
	hear(c);
	host_changes_merge(&c->heard, &c->disturbed);
	host_changes_done(&c->disturbed);
	if (host_changes_any(&c->heard))
		arm(c, 0);
}

int current_changes(struct current *c, json_object **ret, uint64_t since, struct error *err)
{
	struct json_out o;
	json_object *list;

	if (!history_reaches(&c->history, since))
		return error_set(err, -EIDRM, "what changed since generation %llu is not known any more; get the topology, and "
				 "go on from its generation", (unsigned long long)since);
	o = json_out_new();
	list = history_json(&c->history, since);
	json_add_uint(&o, "generation", topo_generation(c->topo));
	o.failed |= !list;
	json_add(&o, "changes", list);
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
}

const struct topo *current_topo(const struct current *c)
{
	return c->topo;
}

static int make_timer(struct current *c, struct error *err)
{
	int r;

	c->patience = (struct patience){ .machine = c->env.machine, .look = look_for_helper, .self = c, .back = c->env.helper_back, .env = c->env.self };
	r = sd_event_add_time(c->env.event, &c->timer, CLOCK_MONOTONIC, 0, 1, on_quiet, c);
	if (r >= 0)
		r = sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
	if (r >= 0)
		r = patience_init(&c->patience, c->env.event);
	return r < 0 ? error_set(err, r, "cannot wait for changes: %s", strerror(-r)) : 0;
}

bool current_helper_away(struct current *c)
{
	patience_mind(&c->patience);
	return patience_waits(&c->patience);
}

int current_new(struct current **ret, const struct current_env *env, struct error *err)
{
	auto_(current_free) struct current *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, -ENOMEM, "no memory");
	c->env = *env;
	r = make_timer(c, err);
	if (r == 0)
		r = worker_new(&c->worker, env->event, &(struct worker_does){ "that reads the machine", SANDBOX_READER, env->seccomp, do_job, on_done, c }, err);
	if (r == 0)
		r = listen_to(c, err);
	if (r == 0)
		r = read_now(c, &(struct host_changes){ .lost = true }, false, err);
	if (r == 0)
		*ret = steal(c);
	return r;
}

struct current *current_free(struct current *c)
{
	if (!c)
		return NULL;
	worker_free(c->worker);
	job_done(&c->job);
	stop_hearing(c);
	sd_event_source_disable_unref(c->timer);
	patience_done(&c->patience);
	host_changes_done(&c->heard);
	host_changes_done(&c->disturbed);
	history_done(&c->history);
	topo_unref(c->topo);
	free(c);
	return NULL;
}
