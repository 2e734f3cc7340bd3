/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/current.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "host/change.h"
#include "host/inventory.h"
#include "host/watch.h"
#include "instance/instance.h"
#include "topo/diff.h"
#include "topo/topo.h"
#include "velad/history.h"
#include "velad/patience.h"
#include "velad/readers.h"
#include "velad/timer.h"

#define YOUNG_USEC  1000000u  /* memory figures; without events, everything */
#define OLD_USEC    10000000u /* then what has no event, and is no register, is read anew */
#define QUIET_USEC  20000u    /* so long nothing comes: it is over */
#define BURST_USEC  500000u   /* so long one waits for that */

#define AWAIT_USEC  1000u     /* so long the loop waits for a reading itself: most take less, and others come that much later */
#define AWAIT_ALL_USEC 100000u /* where nothing can be heard: each of a batch needs a reading of its own, and one that is waited for parts it */
#define RETRY_MS    1000u     /* what cannot be read is not asked again and again */
#define RETRY_MS_MAX 64000u
#define PAST_MAX    8
#define VERIFIES    (1ull << 63) /* of a mark: it is for what a plan stands on */

struct current {
	struct current_env  env;
	struct topo        *topo;
	uint64_t            scanned, host_read, controls_read; /* when everything, what concerns the host, registers were read */
	struct readers     *readers; /* owned */
	struct wanted { /* of the next reading */
		struct host_changes what;
		bool                check;              /* that nothing came or went unheard, or else all is read */
		bool                plan, host, controls; /* it is as fresh as these need it */
		bool                verify;               /* a plan stands on it */
		uint64_t            news; /* with plan: what the instances' number was before it began */
	} wanted, now; /* and of the one that is under way, without its list */
	struct {
		uint64_t            serial;
		struct host_changes what;
	} past[PAST_MAX]; /* what the last ones have read: others may be under way when who waited for one asks */
	uint64_t            serial, done; /* the numbers of the last that was begun, and that is through */
	struct {
		uint64_t     serial; /* of the last that failed; 0: none did */
		struct error err;
	} failed;
	struct backoff      retry;
	struct {
		uint64_t began, news; /* the last reading for a plan; began 0: none, or it failed */
	} plan;
	uint64_t            began; /* the one that is under way */
	struct host_watch  *watch;  /* NULL: nothing can be heard */
	sd_event_source    *io[HOST_WATCH_FDS], *timer;
	struct patience     patience;  /* with velad-helper */
	struct host_changes heard;     /* and not looked at yet */
	struct host_changes disturbed; /* heard since velad last said that it has changed the machine */
	uint64_t            first;     /* when the first of `heard` came */
	struct history      history;
	bool                ready, awaited; /* the first reading is through; who asked waits for one */
};

/* ---- what was read ---------------------------------------------------------------------------------- */

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
	if (history_has_cards(items))
		inst_cards_changed(c->env.instances);
	history_add(&c->history, generation, time(NULL), json_object_get(items));
	return 0;
}

/* Takes what was read. Without a difference it is kept only for what is none: memory, at which plans look. Or else one
 * inventory after the other would be kept, as the next borrows from it. */
static int adopt(struct current *c, struct reading *j, struct error *err)
{
	auto_(topo_unref) struct topo *t = steal(j->fresh);
	json_object *items = j->items;
	int r = 0;

	if (c->topo && !items)
		r = error_set(err, -ENOMEM, "no memory for a topology");
	else if (!items || json_object_array_length(items))
		r = number(c, t, items, err);
	if (r < 0)
		return r;
	if (!items || json_object_array_length(items) || j->whole || j->what.memory || j->what.host) {
		topo_unref(c->topo);
		c->topo = steal(t);
	}
	if (j->whole)
		c->scanned = c->host_read = c->controls_read = clock_usec(CLOCK_MONOTONIC);
	return 0;
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
static void take_watch(struct current *c, struct reading *j)
{
	if (!j->watch)
		return;
	c->watch = steal(j->watch);
	if (add_sources(c) < 0)
		stop_hearing(c);
	else
		log_info("changes of the machine are heard of from here on");
}

static void arm(struct current *c, uint64_t in)
{
	uint64_t now = clock_usec(CLOCK_MONOTONIC), at = now + in;

	if (!c->first)
		c->first = now;
	timer_set(c->timer, at > c->first + BURST_USEC ? c->first + BURST_USEC : at);
}

/* What was to be read is read later; what a plan needs of this moment is not. */
static void failed(struct current *c, const struct reading *j, const struct error *err)
{
	if (c->retry.ms == 0 || strcmp(c->failed.err.text, err->text) != 0)
		log_err("%s", err->text);
	c->plan.began = 0;
	c->failed.serial = c->serial;
	c->failed.err = *err;
	host_changes_merge(&c->heard, &j->what);
	c->heard.lost |= j->lost;
	c->heard.memory = c->heard.host = false;
	backoff_failed(&c->retry, clock_ms(), RETRY_MS, RETRY_MS_MAX);
}

static void succeeded(struct current *c)
{
	uint64_t now = clock_usec(CLOCK_MONOTONIC);

	c->retry = (struct backoff){ 0 };
	c->host_read = c->now.host ? now : c->host_read;
	c->controls_read = c->now.controls ? now : c->controls_read;
	if (c->now.plan) {
		c->plan.began = c->began;
		c->plan.news = c->now.news;
	}
}

/* Takes what was read, if that is through. */
static void settle(struct current *c)
{
	struct reading *j = readers_take(c->readers);
	uint64_t before = c->topo ? topo_generation(c->topo) : 0;
	struct error err = ERROR_INIT;
	int r;

	if (!j)
		return;
	c->done = c->serial;
	err = j->err;
	r = j->r < 0 ? j->r : j->fresh ? adopt(c, j, &err) : 0;
	if (r < 0)
		failed(c, j, &err);
	else
		succeeded(c);
	if (r == 0 && c->now.verify && topo_generation(c->topo) != before)
		log_warning("the machine differs from what was heard of; planning anew");
	take_watch(c, j);
	host_changes_done(&c->past[c->serial % PAST_MAX].what);
	c->past[c->serial % PAST_MAX].serial = c->serial;
	c->past[c->serial % PAST_MAX].what = j->what;
	j->what = (struct host_changes){ 0 };
	reading_done(j);
	patience_mind(&c->patience);
}

/* All that is wanted, and was heard. Not while one is under way. */
static void begin(struct current *c)
{
	struct reading j = { .old = c->topo ? topo_ref(c->topo) : NULL, .helper = patience_waits(&c->patience), .hears = c->watch };

	host_changes_merge(&c->wanted.what, &c->heard);
	host_changes_done(&c->heard);
	c->first = 0;
	c->serial++;
	c->began = clock_usec(CLOCK_MONOTONIC);
	j.what = c->wanted.what;
	j.check = c->wanted.check && !j.what.lost;
	c->wanted.what = (struct host_changes){ 0 };
	c->now = c->wanted;
	c->wanted = (struct wanted){ 0 };
	readers_start(c->readers, &j);
}

static int await_read(struct current *c)
{
	c->awaited = true;
	return CURRENT_WAIT;
}

/* What is wanted, at once. */
static int go(struct current *c, uint64_t *mark, uint64_t as, struct error *err)
{
	if (readers_under_way(c->readers)) { /* that began before this was wanted */
		*mark = (c->serial + 1) | as;
		return await_read(c);
	}
	begin(c);
	if (!readers_await(c->readers, c->watch ? AWAIT_USEC : AWAIT_ALL_USEC)) {
		*mark = c->serial | as;
		return await_read(c);
	}
	settle(c);
	if (c->failed.serial != c->serial)
		return 0;
	*err = c->failed.err;
	return err->code;
}

/* By itself; also because velad-helper may be there again, for which a reading asks as well. */
static void start(void *self)
{
	struct current *c = self;

	if (readers_under_way(c->readers))
		return; /* on_through() comes */
	begin(c);
	if (readers_await(c->readers, 0))
		settle(c);
}

static int on_quiet(sd_event_source *source, uint64_t usec, void *self)
{
	struct current *c = self;

	(void)source, (void)usec;
	if (host_changes_any(&c->heard))
		start(c);
	return 0;
}

static bool is_wanted(const struct current *c)
{
	return host_changes_any(&c->wanted.what) || c->wanted.check;
}

static void on_through(void *self)
{
	struct current *c = self;

	settle(c);
	if (!c->ready)
		return;
	if (is_wanted(c))
		start(c);
	else if (host_changes_any(&c->heard) && !readers_under_way(c->readers))
		timer_set(c->timer, clock_usec(CLOCK_MONOTONIC) + c->retry.ms * 1000ull);
	if (!c->awaited)
		return;
	c->awaited = false;
	c->env.read(c->env.self);
}

/* What it says, and perhaps much else of that function, is known no more than what it was. */
static void on_returned(void *self, const struct stuck *file)
{
	struct current *c = self;

	if (bdf_is_none(file->bdf))
		c->heard.lost = true;
	else
		host_changes_add(&c->heard, file->bdf, HOST_CHANGE_ANEW);
	c->retry = (struct backoff){ 0 };
	arm(c, 0);
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

	if (!readers_may_hear(&c->env))
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
static void want_controls(struct current *c)
{
	const struct inventory *inv = topo_inventory(c->topo);

	if (c->wanted.what.lost || clock_usec(CLOCK_MONOTONIC) - c->controls_read < YOUNG_USEC)
		return;
	for (size_t i = 0; i < inv->nfn; i++)
		if (!inv->fn[i].facts->is_vf)
			host_changes_add(&c->wanted.what, inv->fn[i].bdf, HOST_CHANGE_STATE);
	c->wanted.controls = true;
}

static void want(struct current *c, enum current_need need)
{
	struct wanted *w = &c->wanted;

	w->what.lost |= is_old(c, need);
	w->what.memory |= need == CURRENT_PLAN;
	w->plan |= need == CURRENT_PLAN;
	if (need == CURRENT_HOST && clock_usec(CLOCK_MONOTONIC) - c->host_read >= YOUNG_USEC)
		w->what.host = w->host = true;
	if (need == CURRENT_CONTROLS || need == CURRENT_TOPOLOGY)
		want_controls(c);
	w->check |= c->watch != NULL;
}

/* 0: the reading that was waited for is through. */
static int waited(struct current *c, uint64_t mark, struct error *err)
{
	mark &= ~VERIFIES;
	if (c->done < mark)
		return await_read(c);
	if (c->failed.serial < mark)
		return 0;
	*err = c->failed.err;
	return err->code;
}

int current_catch_up(struct current *c, enum current_need need, uint64_t *mark, struct error *err)
{
	settle(c);
	if (*mark) {
		int r = waited(c, *mark, err);

		if (r < 0 || (r == 0 && !(*mark & VERIFIES)))
			*mark = 0;
		return r;
	}
	if (c->watch)
		hear(c);
	want(c, need);
	if (!is_wanted(c) && !host_changes_any(&c->heard))
		return 0;
	return go(c, mark, 0, err);
}

int current_catch_up_for(struct current *c, uint64_t came, uint64_t news, uint64_t *mark, struct error *err)
{
	bool same;

	settle(c);
	if (!*mark && c->watch) {
		hear(c);
		same = !host_changes_any(&c->heard);
		if (same && readers_under_way(c->readers) && c->now.plan && c->began > came && c->now.news == news) {
			*mark = c->serial;
			return await_read(c);
		}
		if (same && !readers_under_way(c->readers) && c->plan.began > came && c->plan.news == news)
			return 0;
	}
	c->wanted.news = news;
	return current_catch_up(c, CURRENT_PLAN, mark, err);
}

/* Not where that is too long ago. */
static bool has_read(const struct current *c, uint64_t serial, const struct host_changes *which)
{
	return c->past[serial % PAST_MAX].serial == serial && host_changes_cover(&c->past[serial % PAST_MAX].what, which);
}

int current_verify(struct current *c, const struct host_changes *which, uint64_t *mark, struct error *err)
{
	uint64_t before, had = *mark & VERIFIES ? *mark & ~VERIFIES : 0;
	int r = 0;

	if (!c->watch || !host_changes_any(which))
		return 0; /* all of it was read for this plan, or it stands on no function */
	settle(c);
	if (had)
		r = waited(c, *mark, err);
	if (r == CURRENT_WAIT)
		return r;
	*mark = 0;
	if (r < 0 || (had && has_read(c, had, which)))
		return r;
	before = topo_generation(c->topo);
	host_changes_merge(&c->wanted.what, which);
	c->wanted.verify = true;
	r = go(c, mark, VERIFIES, err);
	return r == 0 && topo_generation(c->topo) != before ? CURRENT_DIFFERS : r;
}

int current_too_slow(struct current *c, struct error *err)
{
	return readers_too_slow(c->readers, err);
}

void current_refresh(struct current *c)
{
	c->wanted.what.lost = true;
	start(c);
}

const struct stuck *current_stuck(const struct current *c, unsigned i)
{
	return readers_stuck(c->readers, i);
}

/* Events said what changed, but not all of it: an override that is written after the last of them has none. */
void current_disturbed(struct current *c)
{
	if (!c->watch) {
		current_refresh(c);
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
	return history_changes(&c->history, ret, since, topo_generation(c->topo), err);
}

const struct topo *current_topo(const struct current *c)
{
	return c->topo;
}

static int make_timer(struct current *c, struct error *err)
{
	int r;

	c->patience = (struct patience){ .machine = c->env.machine, .look = start, .self = c, .back = c->env.helper_back, .env = c->env.self };
	r = timer_new(&c->timer, c->env.event, on_quiet, c);
	if (r >= 0)
		r = patience_init(&c->patience, c->env.event);
	return r < 0 ? error_set(err, r, "cannot wait for changes: %s", strerror(-r)) : 0;
}

bool current_helper_away(struct current *c)
{
	patience_mind(&c->patience);
	return patience_waits(&c->patience);
}

/* Without a loop that runs yet. */
static int read_first(struct current *c, struct error *err)
{
	c->wanted.what.lost = true;
	begin(c);
	while (!readers_await(c->readers, 1000ull * c->env.look_ms / 4))
		readers_look(c->readers);
	settle(c);
	c->ready = true;
	if (c->failed.serial)
		*err = c->failed.err;
	return err->code;
}

int current_new(struct current **ret, const struct current_env *env, struct error *err)
{
	struct current *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, -ENOMEM, "no memory");
	c->env = *env;
	r = make_timer(c, err);
	if (r == 0)
		r = readers_new(&c->readers, &(struct readers_env){ &c->env, on_through, on_returned, c }, err);
	if (r == 0)
		r = listen_to(c, err);
	if (r == 0)
		r = read_first(c, err);
	if (r == 0)
		*ret = c;
	else
		(void)current_free(c);
	return r;
}

bool current_free(struct current *c)
{
	bool all = !c || readers_free(c->readers);

	if (!c)
		return true;
	stop_hearing(c);
	sd_event_source_disable_unref(c->timer);
	patience_done(&c->patience);
	host_changes_done(&c->heard);
	host_changes_done(&c->disturbed);
	host_changes_done(&c->wanted.what);
	for (size_t i = 0; i < PAST_MAX; i++)
		host_changes_done(&c->past[i].what);
	history_done(&c->history);
	if (!all)
		return false;
	topo_unref(c->topo);
	free(c);
	return true;
}
