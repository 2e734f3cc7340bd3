/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/server.h"
#include "base/clock.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "host/change.h"
#include "host/inventory.h"
#include "instance/instance.h"
#include "plan/gang.h"
#include "velad/current.h"
#include "velad/lease.h"
#include "velad/manager.h"
#include "velad/readers.h"
#include "velad/worker.h"

#define PLAN_TRIES  4
#define UID_MAX     32 /* plans of one user that are asked for; a client that is gone leaves its own behind */
#define LEFT_USEC   10000000u /* a plan that nobody came for by then is thrown away */

_Static_assert(LEASE_BUNDLES_MAX <= PLAN_GANG_MAX, "a lease may have more bundles than a gang");

/* ---- a plan of now ---------------------------------------------------------------------------------- */

static bool is_own(const char *owner, const char *name)
{
	static const char instance[] = "instance ";

	return name && strncmp(owner, instance, sizeof(instance) - 1) == 0 && strcmp(owner + sizeof(instance) - 1, name) == 0;
}

/* Who has what, but the instance `but`, which may be NULL; arrays in the arena. */
static int held_now(struct manager *m, struct plan_input *ret, const struct lease *except, size_t bundle, const char *but, struct arena *arena,
		    struct error *err)
{
	size_t ntaken = 0, nrooms = 0;
	struct plan_taken *taken = NULL;
	struct plan_room *room = NULL;
	int r = inst_taken(m->instances, &taken, &ntaken, arena, err);

	if (r == 0)
		r = inst_rooms(m->instances, &room, &nrooms, arena, err);
	for (size_t i = 0; r == 0 && i < ntaken; i++)
		if (!is_own(taken[i].owner, but))
			taken[ret->ntaken++] = taken[i];
	for (size_t i = 0; r == 0 && i < nrooms; i++)
		if (!is_own(room[i].owner, but))
			room[ret->nrooms++] = room[i];
	ret->taken = taken;
	ret->room = room;
	return r < 0 ? r : leases_hold(&m->leases, clock_usec(CLOCK_BOOTTIME), except, bundle, ret, arena, err);
}

int planner_taken(struct manager *m, const struct plan_taken **ret, size_t *n, struct arena *arena, struct error *err)
{
	struct plan_input in = { 0 };
	int r = held_now(m, &in, NULL, 0, NULL, arena, err);

	*ret = in.taken;
	*n = in.ntaken;
	return r;
}

int planner_sick(struct manager *m, struct plan_sick **ret, size_t *n, struct arena *arena, struct error *err)
{
	const struct stuck *s;
	struct plan_sick *all;
	size_t stuck = 0;
	int r = inst_quarantined(m->instances, ret, n, current_topo(m->now), arena, err);

	while (current_stuck(m->now, (unsigned)stuck))
		stuck++;
	if (r < 0 || !stuck)
		return r;
	all = arena_array(arena, *n + stuck, sizeof(*all));
	for (size_t i = 0; all && i < *n; i++)
		all[i] = (*ret)[i];
	*ret = all;
	for (unsigned i = 0; all && (s = current_stuck(m->now, i)); i++) {
		const char *why = bdf_is_none(s->bdf) ? NULL : arena_printf(arena, "reading its %s does not return", strrchr(s->path, '/') + 1);

		if (why)
			all[(*n)++] = (struct plan_sick){ s->bdf, why };
	}
	return all ? 0 : error_set(err, -ENOMEM, "no memory for a plan");
}

/* All but the request; arrays in the arena. */
static int input_of_now(struct manager *m, struct plan_input *ret, const struct lease *except, size_t bundle, const char *but,
			struct arena *arena, struct error *err)
{
	struct plan_input in = { .topo = current_topo(m->now), .policy = m->policy };
	struct plan_acs_held *held = NULL;
	struct plan_settings_held *settings = NULL;
	struct plan_sick *sick = NULL;
	struct plan_wear *wear = NULL;
	int r = held_now(m, &in, except, bundle, but, arena, err);

	if (r == 0)
		r = inst_acs_held(m->instances, &held, &in.nheld, arena, err);
	if (r == 0)
		r = inst_settings_held(m->instances, &settings, &in.nsettings, arena, err);
	if (r == 0)
		r = planner_sick(m, &sick, &in.nsick, arena, err);
	if (r == 0)
		r = inst_wear(m->instances, &wear, &in.nwear, arena, err);
	in.sick = sick;
	in.wear = wear;
	in.held = held;
	in.settings = settings;
	if (r == 0)
		*ret = in;
	return r;
}

int planner_input(struct manager *m, struct plan_input *ret, struct arena *arena, struct error *err)
{
	return input_of_now(m, ret, NULL, 0, NULL, arena, err);
}

/* One plan, or those of a gang. */
struct attempt {
	const struct plan_request *const *request;
	size_t              n;
	const struct lease *except; /* a bundle of a lease whose devices are free to it; NULL: none */
	size_t              bundle;
	const char         *but; /* likewise an instance; NULL: none */
	bool                gang;
	struct plan        *plan; /* owned; the result */
	struct plan_gang   *all;  /* or this */
};

static void attempt_done(struct attempt *a)
{
	a->plan = plan_free(a->plan);
	a->all = plan_gang_free(a->all);
}

static int try(struct attempt *a, struct plan_input *in, struct error *err)
{
	if (a->gang)
		return plan_gang_make(&a->all, in, a->request, a->n, err);
	in->request = a->request[0];
	return plan_make(&a->plan, in, err);
}

static int plan_now(struct manager *m, struct attempt *a, struct error *err)
{
	struct arena arena = { 0 };
	struct plan_input in;
	int r = input_of_now(m, &in, a->except, a->bundle, a->but, &arena, err);

	if (!m->memo)
		m->memo = plan_memo_new();
	in.memo = m->memo;
	if (r == 0)
		r = try(a, &in, err);
	arena_done(&arena);
	return r;
}

/* All that a plan stands on: its devices, their PFs, the ports above. One that does not fit stands on everything. */
static void basis(struct host_changes *which, const struct topo *t, const struct plan *plan)
{
	struct bdf at[PLAN_GPUS_MAX + 2 * PLAN_VFS_MAX + PLAN_EXTRAS_MAX];
	size_t n = 0;

	which->lost = !plan->fits;
	for (size_t i = 0; i < plan->ngpus; i++)
		at[n++] = plan->gpu[i];
	for (size_t i = 0; i < plan->nvfs; i++) {
		at[n++] = plan->vf[i].bdf;
		at[n++] = plan->vf[i].pf;
	}
	for (size_t i = 0; i < plan->ncompanions; i++)
		host_changes_add(which, plan->companion[i].bdf, HOST_CHANGE_ANEW);
	for (size_t i = 0; i < plan->nextras; i++)
		at[n++] = plan->extra[i].bdf;
	for (size_t i = 0; i < n; i++) {
		uint32_t up = topo_find(t, at[i]); /* a VF that is not there yet has none */

		for (; up != TOPO_NONE; up = topo_at(t, up)->parent)
			host_changes_add(which, topo_at(t, up)->fn->bdf, HOST_CHANGE_ANEW);
	}
}

static void basis_of(struct host_changes *which, const struct topo *t, const struct attempt *a)
{
	if (!a->gang)
		basis(which, t, a->plan);
	for (size_t i = 0; a->gang && i < a->all->n; i++) {
		struct host_changes one = { 0 };

		basis(&one, t, a->all->plan[i]);
		host_changes_merge(which, &one);
		host_changes_done(&one);
	}
	which->lost |= a->gang && !a->all->fits;
}

/* A plan is made from what was heard of, so what it stands on is read before it is believed: an event that did not
 * come, or never does (a write to driver_override or ACS), makes no wrong plan. As current_verify(). */
static int verify(struct manager *m, const struct attempt *a, uint64_t *mark, struct error *err)
{
	struct host_changes which = { 0 };
	int r;

	basis_of(&which, current_topo(m->now), a);
	r = current_verify(m->now, &which, mark, err);
	host_changes_done(&which);
	return r;
}

static int make(struct manager *m, struct attempt *a, uint64_t *mark, struct error *err)
{
	for (unsigned tries = 0; tries < PLAN_TRIES; tries++) {
		int r = plan_now(m, a, err);

		if (r < 0)
			return r;
		r = verify(m, a, mark, err);
		if (r == 0)
			return 0;
		attempt_done(a);
		if (r != CURRENT_DIFFERS)
			return r;
	}
	return error_set(err, -ESTALE, "the machine changed %d times while this was planned; try again when it is quiet",
			 PLAN_TRIES);
}

int planner_make(struct manager *m, struct plan **ret, const struct plan_request *request, const struct lease *except,
	       size_t bundle, uint64_t *mark, struct error *err)
{
	struct attempt a = { .request = &request, .n = 1, .except = except, .bundle = bundle };
	int r = make(m, &a, mark, err);

	if (r == 0)
		*ret = a.plan;
	return r;
}

int planner_remake(struct manager *m, struct plan **ret, const struct plan_request *request, uint64_t *mark, struct error *err)
{
	struct attempt a = { .request = &request, .n = 1, .but = request->name };
	int r = make(m, &a, mark, err);

	if (r == 0)
		*ret = a.plan;
	return r;
}

/* ---- the thread ------------------------------------------------------------------------------------- */

enum stage { QUEUED, RUNS, MADE, HERE /* by the loop: it has been made too often */ };

/* A request that waits. While it runs, input and attempt are the thread's. */
struct asked {
	struct asked              *next;
	uint64_t                   id; /* of the HTTP request */
	uid_t                      uid;
	enum stage                 stage;
	bool                       gone; /* nobody comes for it */
	unsigned                   tries;
	uint64_t                   made; /* when, or asked for last */
	uint64_t                   mark; /* of velad/current, while it is queued */
	struct plan_request       *request; /* owned */
	const struct plan_request **at;     /* owned: each of these */
	struct arena               arena;
	struct plan_input          in;
	struct topo               *topo; /* a reference */
	struct attempt             a;
	int                        r;
	struct error               err;
};

struct planner {
	struct manager *m;
	struct worker  *worker; /* owned */
	struct asked   *first, *runs; /* owned; one of them, or NULL */
};

static void input_done(struct asked *e)
{
	attempt_done(&e->a);
	e->topo = topo_unref(e->topo);
	arena_done(&e->arena);
}

static struct asked *asked_free(struct asked *e)
{
	input_done(e);
	for (size_t i = 0; i < e->a.n; i++)
		plan_request_done(&e->request[i]);
	free(e->request);
	free(e->at);
	free(e);
	return NULL;
}

static struct asked *find(const struct planner *p, uint64_t id)
{
	struct asked *e = p->first;

	while (e && (e->id != id || e->gone))
		e = e->next;
	return e;
}

static void drop(struct planner *p, struct asked *e)
{
	struct asked **at = &p->first;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	asked_free(e);
}

static void work(void *self)
{
	struct planner *p = self;
	struct asked *e = p->runs;

	e->r = try(&e->a, &e->in, &e->err);
}

/* Ends with one that runs, with one for which the machine is being read, or without any that waits. */
static void begin_next(struct planner *p)
{
	for (struct asked *e = p->first; e && !p->runs; e = e->next) {
		if (e->stage != QUEUED)
			continue;
		e->err = ERROR_INIT;
		e->r = current_catch_up(p->m->now, CURRENT_PLAN, &e->mark, &e->err);
		if (e->r == CURRENT_WAIT)
			return;
		if (e->r == 0)
			e->r = planner_input(p->m, &e->in, &e->arena, &e->err);
		e->stage = e->r == 0 ? RUNS : MADE;
		e->made = clock_usec(CLOCK_MONOTONIC);
		if (e->r < 0)
			continue;
		e->topo = topo_ref((struct topo *)e->in.topo); /* its reference is no part of what never changes */
		p->runs = e;
		worker_start(p->worker);
	}
}

static void on_planned(void *self)
{
	struct planner *p = self;
	struct asked *e = p->runs;

	if (!e)
		return;
	p->runs = NULL;
	inst_rest(p->m->instances);
	e->stage = MADE;
	e->made = clock_usec(CLOCK_MONOTONIC);
	if (e->gone)
		drop(p, e);
	begin_next(p);
	if (p->m->server)
		api_server_wake(p->m->server);
}

void planner_go_on(struct planner *p)
{
	begin_next(p);
}

int planner_new(struct planner **ret, struct manager *m, struct error *err)
{
	struct planner *p = calloc(1, sizeof(*p));
	int r = p ? 0 : error_set(err, -ENOMEM, "no memory for plans");

	if (r == 0) {
		p->m = m;
		r = worker_new(&p->worker, m->event, &(struct worker_does){ "that plans", SANDBOX_PLANNER, m->seccomp, work, on_planned, p }, err);
	}
	if (r == 0)
		*ret = p;
	else
		free(p);
	return r;
}

struct planner *planner_free(struct planner *p)
{
	if (!p)
		return NULL;
	worker_free(p->worker);
	while (p->first)
		drop(p, p->first);
	free(p);
	return NULL;
}

/* ---- those who wait --------------------------------------------------------------------------------- */

int planner_waits(struct manager *m, const struct api_request *req, struct error *err)
{
	struct asked *e = find(m->planner, req->id);

	if (!e || e->stage >= MADE)
		return 0;
	if (!req->late)
		return API_WAIT;
	e->gone = true;
	if (e->stage == QUEUED)
		drop(m->planner, e);
	return error_set(err, -ETIMEDOUT, "this was not planned within %d seconds; ask again, or for less", API_WAIT_MAX);
}

/* What clients that are gone have left. */
static void sweep(struct planner *p)
{
	uint64_t now = clock_usec(CLOCK_MONOTONIC);
	struct asked *next;

	for (struct asked *e = p->first; e; e = next) {
		next = e->next;
		if (e->stage >= MADE && now - e->made > LEFT_USEC)
			drop(p, e);
	}
}

static int check_room(const struct planner *p, uid_t uid, struct error *err)
{
	unsigned n = 0;

	for (const struct asked *e = p->first; e; e = e->next)
		n += e->uid == uid;
	return n < UID_MAX ? 0 : error_set(err, -EUSERS, "this user has %u plans under way; try again in a second", n);
}

/* Who begins is told at once what went wrong; nobody else waits where nothing runs. */
static int wait_for(struct planner *p, struct asked *e, struct error *err)
{
	int r;

	begin_next(p);
	if (e->stage != MADE)
		return API_WAIT;
	*err = e->err;
	r = e->r;
	drop(p, e);
	return r;
}

static int ask(struct planner *p, const struct api_request *req, struct plan_request *request, size_t n, bool gang, struct error *err)
{
	struct asked *e, **at = &p->first;
	int r;

	sweep(p);
	r = check_room(p, req->uid, err);
	e = r == 0 ? calloc(1, sizeof(*e)) : NULL;
	if (e) {
		*e = (struct asked){ .id = req->id, .uid = req->uid, .request = calloc(n, sizeof(*request)), .at = calloc(n, sizeof(*e->at)) };
		e->a = (struct attempt){ .request = e->at, .gang = gang };
	}
	if (r == 0 && (!e || !e->request || !e->at)) {
		if (e)
			asked_free(e);
		r = error_set(err, -ENOMEM, "no memory for a plan");
	}
	if (r < 0)
		return r;
	for (; e->a.n < n; e->a.n++) {
		e->request[e->a.n] = request[e->a.n];
		request[e->a.n] = (struct plan_request){ 0 };
		e->at[e->a.n] = &e->request[e->a.n];
	}
	while (*at)
		at = &(*at)->next;
	*at = e;
	return wait_for(p, e, err);
}

static bool same_room(const struct plan_room *a, const struct plan_room *b)
{
	bool same = a->node == b->node && a->memory == b->memory && a->hugepages == b->hugepages && a->exclusive == b->exclusive &&
		    a->backed == b->backed && !a->cpus == !b->cpus;

	return same && (!a->cpus || memcmp(a->cpus, b->cpus, sizeof(*a->cpus)) == 0);
}

/* CURRENT_DIFFERS: others took or gave something since it was planned. */
static int has_changed(struct manager *m, const struct asked *e, struct error *err)
{
	struct arena arena = { 0 };
	struct plan_input now = { 0 };
	int r = held_now(m, &now, NULL, 0, NULL, &arena, err);
	bool same = now.ntaken == e->in.ntaken && now.nrooms == e->in.nrooms;

	for (size_t i = 0; r == 0 && same && i < now.ntaken; i++)
		same = bdf_eq(now.taken[i].bdf, e->in.taken[i].bdf);
	for (size_t i = 0; r == 0 && same && i < now.nrooms; i++)
		same = same_room(&now.room[i], &e->in.room[i]);
	arena_done(&arena);
	return r < 0 || same ? r : CURRENT_DIFFERS;
}

/* Whether what was planned is so at this moment. By its number it is the same, but for what memory is free. */
static int believe(struct manager *m, struct asked *e, uint64_t *mark, bool holds, struct error *err)
{
	int r = e->r;

	*err = e->err;
	if (r == 0)
		r = topo_generation(e->topo) != topo_generation(current_topo(m->now)) ? CURRENT_DIFFERS : verify(m, &e->a, mark, err);
	if (r == 0 && holds)
		r = has_changed(m, e, err);
	return r;
}

/* Where it is planned again and again, it is at last here, where nothing comes between. */
static int take(struct manager *m, struct attempt *ret, const struct api_request *req, struct plan_request *request, size_t n, bool gang, bool holds,
		struct error *err)
{
	struct planner *p = m->planner;
	struct asked *e = find(p, req->id);
	int r;

	if (!e)
		return ask(p, req, request, n, gang, err);
	r = e->stage == HERE ? CURRENT_DIFFERS : believe(m, e, req->mark, holds, err);
	if (r == CURRENT_DIFFERS) {
		input_done(e);
		if (e->stage != HERE && ++e->tries < PLAN_TRIES && !req->late) {
			*req->mark = 0;
			e->stage = QUEUED;
			return wait_for(p, e, err);
		}
		e->stage = HERE;
		r = make(m, &e->a, req->mark, err);
	}
	if (r == CURRENT_WAIT && !req->late) {
		e->made = clock_usec(CLOCK_MONOTONIC);
		return API_WAIT;
	}
	if (r == CURRENT_WAIT)
		r = current_too_slow(m->now, err);
	if (r == 0) {
		*ret = e->a;
		e->a.plan = NULL;
		e->a.all = NULL;
	}
	drop(p, e);
	return r;
}

int planner_take(struct manager *m, struct plan **ret, const struct api_request *req, struct plan_request *request, bool holds, struct error *err)
{
	struct attempt a = { 0 };
	int r = take(m, &a, req, request, 1, false, holds, err);

	if (r == 0)
		*ret = a.plan;
	return r;
}

int planner_take_gang(struct manager *m, struct plan_gang **ret, const struct api_request *req, struct plan_request *request, size_t n, bool holds,
		      struct error *err)
{
	struct attempt a = { 0 };
	int r = take(m, &a, req, request, n, true, holds, err);

	if (r == 0)
		*ret = a.all;
	return r;
}
