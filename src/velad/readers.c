/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/readers.h"

#include <errno.h>
#include <json-c/json.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "act/act.h"
#include "act/remote.h"
#include "base/clock.h"
#include "base/log.h"
#include "guest/guest.h"
#include "host/inventory.h"
#include "host/progress.h"
#include "host/watch.h"
#include "topo/diff.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/timer.h"
#include "velad/worker.h"

#define READERS_MAX 12 /* each device that hangs takes one, and so does each port whose VFs take longer to be made than a file may */

struct reader {
	struct readers      *of;
	struct worker       *worker;   /* owned */
	struct reading       reading;  /* its own while it is busy */
	struct host_progress progress;
	struct stuck         stuck;    /* path "": it is not */
};

struct readers {
	struct readers_env env;
	struct reader      at[READERS_MAX];
	struct reader     *runs;  /* does the reading, or has done it; NULL: none */
	struct reading     failed; /* in place of one that no thread is left for */
	bool               has_failed;
	sd_event_source   *timer; /* owned: looks whether it still moves */
	uint64_t           files, since; /* it was at that file when it was looked at last, and when it was first */
};

/* ---- on the thread ---------------------------------------------------------------------------------- */

/* What changed if that is possible, else everything. */
static int look(struct reading *r, const struct host_changes *what, const struct current_env *env)
{
	auto_(host_inventory_free) struct inventory *inv = NULL;
	int e = host_inventory_follow(&inv, &r->whole, r->old ? topo_inventory(r->old) : NULL, what, env->root, env->kinds, &r->err);

	if (e == 0)
		e = r->old ? topo_build_upon(&r->fresh, r->old, inv, &r->err) : topo_build(&r->fresh, inv, 0, &r->err);
	if (e == 0) {
		inv = NULL; /* the topology's now */
		return 0;
	}
	/* what the kernel said of some file is not what the API says of some object: -ENOENT is no 404 */
	r->err.code = e == -ENOMEM ? e : -ENODEV;
	return error_prefix(&r->err, "reading the host");
}

bool readers_may_hear(const struct current_env *env)
{
	return env->uevents || host_root_is_machine(env->root);
}

/* What the loop may not do by itself: it opens no files. Before a plan also what writes its XML is loaded, once. */
static void work(void *self)
{
	struct reader *rd = self;
	struct reading *r = &rd->reading;
	const struct current_env *env = rd->of->env.env;
	struct host_changes what = r->what; /* its list stays the reading's */
	struct error ignored = ERROR_INIT; /* who writes XML is told */

	host_progress_here(&rd->progress);
	act_remote_hasty();
	if (what.lost || what.n)
		(void)malloc_trim(0); /* inventories and topologies have gone since */
	if (what.memory)
		(void)guest_load(&ignored);
	if (r->helper && act_machine_helper(env->machine, true, &ignored) == 0)
		what.lost = true; /* what it opens was not known */
	if (r->helper && what.lost && !r->hears && readers_may_hear(env))
		(void)host_watch_open(&r->watch, env->root, env->uevents, &ignored);
	if (r->check && !host_inventory_complete(topo_inventory(r->old), env->root)) {
		log_warning("functions came or went, and nothing was heard of it");
		what.lost = true;
	}
	r->lost = what.lost;
	if (host_changes_any(&what))
		r->r = look(r, &what, env);
	if (r->fresh && r->old)
		r->items = topo_diff(r->old, r->fresh);
}

/* ---- on the loop ------------------------------------------------------------------------------------ */

void reading_done(struct reading *r)
{
	host_changes_done(&r->what);
	topo_unref(r->old);
	topo_unref(r->fresh);
	json_object_put(r->items);
	(void)host_watch_close(r->watch);
	*r = (struct reading){ 0 };
}

static struct reader *idle(struct readers *rs)
{
	for (unsigned i = 0; i < READERS_MAX; i++)
		if (!rs->at[i].stuck.path[0])
			return &rs->at[i];
	return NULL;
}

void readers_start(struct readers *rs, struct reading *r)
{
	struct reader *rd = idle(rs);

	rs->files = 0; /* that number no file has */
	rs->runs = rd;
	if (!rd) {
		const struct stuck *s = &rs->at[0].stuck;

		rs->failed = *r;
		rs->failed.r = error_set(&rs->failed.err, -ENODEV, "the machine cannot be read: reading /%s has not returned for %llu s, nor have %d others; "
					 "look at the kernel's log, and reboot the host if they do not", s->path,
					 (unsigned long long)(clock_usec(CLOCK_MONOTONIC) - s->since) / 1000000, READERS_MAX - 1);
		rs->failed.lost = rs->has_failed = true;
	} else {
		rd->reading = *r;
		worker_start(rd->worker);
	}
	*r = (struct reading){ 0 };
}

static void watch_over(struct readers *rs, uint64_t now)
{
	timer_set(rs->timer, now + 1000ull * rs->env.env->look_ms / 4);
}

/* The function whose directory it is in; of a path without any, none. */
static struct bdf function_of(const char *path)
{
	struct bdf bdf = BDF_NONE, one;
	char text[HOST_PATH_MAX], *part, *rest = text;

	(void)strcpy(text, path);
	while ((part = strsep(&rest, "/")))
		if (bdf_parse(&one, part))
			bdf = one;
	return bdf;
}

/* Its thread keeps the reading; a copy of what that was to do is done by the next. */
static void leave(struct readers *rs, const char *path)
{
	struct reader *rd = rs->runs;
	const struct reading *was = &rd->reading;
	struct reading again = { .old = was->old ? topo_ref(was->old) : NULL, .check = was->check, .helper = was->helper, .hears = was->hears };

	log_warning("reading /%s has not returned for %u s; until it does, what it says is unknown", path,
		    (unsigned)((clock_usec(CLOCK_MONOTONIC) - rs->since) / 1000000));
	(void)strcpy(rd->stuck.path, path);
	rd->stuck.bdf = function_of(path);
	rd->stuck.since = rs->since;
	if (host_avoid(rs->env.env->root, path) < 0)
		log_err("no memory to avoid /%s", path); /* the next thread hangs there as well */
	host_changes_merge(&again.what, &was->what);
	readers_start(rs, &again);
}

void readers_look(struct readers *rs)
{
	char path[HOST_PATH_MAX];
	uint64_t now = clock_usec(CLOCK_MONOTONIC), n;

	if (!rs->runs || !worker_busy(rs->runs->worker))
		return; /* what is through is told */
	n = host_progress_get(&rs->runs->progress, path);
	if (n != rs->files || !*path) {
		rs->files = n;
		rs->since = now;
	} else if (now - rs->since >= 1000ull * rs->env.env->look_ms) {
		leave(rs, path);
	}
	if (rs->has_failed)
		rs->env.through(rs->env.self);
	else
		watch_over(rs, now);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *self)
{
	(void)source, (void)usec;
	readers_look(self);
	return 0;
}

static void on_through(void *self)
{
	struct reader *rd = self;
	struct stuck was = rd->stuck;
	struct readers *rs = rd->of;

	if (!was.path[0]) {
		rs->env.through(rs->env.self); /* also of one that was taken before this came: others may wait for that */
		return;
	}
	log_info("reading /%s has returned after %llu s", was.path, (unsigned long long)(clock_usec(CLOCK_MONOTONIC) - was.since) / 1000000);
	rd->stuck.path[0] = '\0';
	host_forgive(rs->env.env->root, was.path);
	reading_done(&rd->reading); /* it is of long ago */
	rs->env.returned(rs->env.self, &was);
}

/* Others are waited for a moment only; the timer looks after what takes longer. */
bool readers_await(struct readers *rs, uint64_t usec)
{
	if (!rs->runs || worker_await_for(rs->runs->worker, usec))
		return true;
	watch_over(rs, clock_usec(CLOCK_MONOTONIC));
	return false;
}

struct reading *readers_take(struct readers *rs)
{
	struct reader *rd = rs->runs;

	if (rs->has_failed) {
		rs->has_failed = false;
		return &rs->failed;
	}
	if (!rd || worker_busy(rd->worker))
		return NULL;
	rs->runs = NULL;
	return &rd->reading;
}

bool readers_under_way(const struct readers *rs)
{
	return rs->runs || rs->has_failed;
}

const struct stuck *readers_stuck(const struct readers *rs, unsigned i)
{
	for (unsigned k = 0; k < READERS_MAX; k++)
		if (rs->at[k].stuck.path[0] && i-- == 0)
			return &rs->at[k].stuck;
	return NULL;
}

int readers_too_slow(struct readers *rs, struct error *err)
{
	char path[HOST_PATH_MAX] = "";

	if (rs->runs)
		(void)host_progress_get(&rs->runs->progress, path);
	return error_set(err, -ETIMEDOUT, "the machine was not read in time%s%s; ask again, and look at the kernel's log",
			 *path ? ": velad is at /" : "", path);
}

static int start_threads(struct readers *rs, struct error *err)
{
	const struct current_env *env = rs->env.env;
	int r = 0;

	for (unsigned i = 0; i < READERS_MAX && r == 0; i++) {
		struct reader *rd = &rs->at[i];

		rd->of = rs;
		host_progress_init(&rd->progress);
		r = worker_new(&rd->worker, env->event,
			       &(struct worker_does){ "that reads the machine", SANDBOX_READER, env->seccomp, work, on_through, rd }, err);
	}
	return r;
}

int readers_new(struct readers **ret, const struct readers_env *env, struct error *err)
{
	struct readers *rs = calloc(1, sizeof(*rs));
	int r;

	if (!rs)
		return error_set(err, -ENOMEM, "no memory");
	rs->env = *env;
	r = timer_new(&rs->timer, env->env->event, on_timer, rs);
	if (r < 0)
		(void)error_set(err, r, "cannot watch over readings: %s", strerror(-r));
	else
		r = start_threads(rs, err);
	if (r < 0)
		(void)readers_free(rs);
	else
		*ret = rs;
	return r;
}

bool readers_free(struct readers *rs)
{
	bool all = true;

	if (!rs)
		return true;
	sd_event_source_disable_unref(rs->timer);
	for (unsigned i = 0; i < READERS_MAX; i++) {
		struct reader *rd = &rs->at[i];

		if (!rd->of)
			continue;
		if (rd->worker && !worker_await_for(rd->worker, rd->stuck.path[0] ? 0 : 1000ull * rs->env.env->look_ms)) {
			all = false;
			continue;
		}
		worker_free(rd->worker);
		reading_done(&rd->reading);
		host_progress_done(&rd->progress);
	}
	reading_done(&rs->failed);
	if (all)
		free(rs);
	return all;
}
