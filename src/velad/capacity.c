/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/capacity.h"

#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cpuset.h"
#include "base/error.h"
#include "base/thread.h"
#include "plan/capacity.h"
#include "plan/plan.h"

struct job { /* the thread's while there is one; nobody else touches it meanwhile */
	struct arena      arena;
	struct plan_input in;
	struct topo      *topo; /* a reference */
	json_object      *doc;
	int               r;
	struct error      err;
};

struct capacity {
	pthread_t        thread; /* made at the start, when this process still may make any */
	bool             has_thread;
	pthread_mutex_t  lock;   /* of the next two */
	pthread_cond_t   turn;
	bool             asked, ended; /* there is a job; there will be none any more */
	struct job       job;
	bool             counts; /* there is a job that is not settled yet */
	uint64_t         of, begun; /* when the host was as it was counted; of the job */
	json_object     *doc;    /* owned: the last count; NULL: it failed */
	struct error     err;
	int              fd;     /* eventfd, owned */
	sd_event_source *source; /* owned */
	void           (*ready)(void *self);
	void            *self;
};

/* ---- the thread ------------------------------------------------------------------------------------- */

static void *run(void *arg)
{
	struct capacity *c = arg;
	struct job *j = &c->job;

	(void)pthread_mutex_lock(&c->lock);
	for (;;) {
		while (!c->asked && !c->ended)
			(void)pthread_cond_wait(&c->turn, &c->lock);
		if (c->ended)
			break;
		(void)pthread_mutex_unlock(&c->lock);
		j->err = ERROR_INIT;
		j->r = plan_capacity_json(&j->doc, &j->in, &j->err);
		(void)pthread_mutex_lock(&c->lock);
		c->asked = false;
		(void)eventfd_write(c->fd, 1); /* fails only if 2^64 writes were not read */
	}
	(void)pthread_mutex_unlock(&c->lock);
	return NULL;
}

static void end_thread(struct capacity *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->ended = true;
	(void)pthread_cond_broadcast(&c->turn);
	(void)pthread_mutex_unlock(&c->lock);
	if (c->has_thread)
		(void)pthread_join(c->thread, NULL);
	(void)pthread_cond_destroy(&c->turn);
	(void)pthread_mutex_destroy(&c->lock);
}

/* ---- the loop's side -------------------------------------------------------------------------------- */

static void job_done(struct job *j)
{
	json_object_put(j->doc);
	topo_unref(j->topo);
	arena_done(&j->arena);
	*j = (struct job){ 0 };
}

static int on_counted(sd_event_source *source, int fd, uint32_t events, void *self)
{
	struct capacity *c = self;
	eventfd_t n;
	bool asked;

	(void)source;
	(void)events;
	(void)eventfd_read(fd, &n);
	(void)pthread_mutex_lock(&c->lock);
	asked = c->asked;
	(void)pthread_mutex_unlock(&c->lock);
	if (asked || !c->counts)
		return 0;
	json_object_put(c->doc);
	c->doc = c->job.r == 0 ? steal(c->job.doc) : NULL;
	c->err = c->job.err;
	c->of = c->begun;
	c->counts = false;
	job_done(&c->job);
	c->ready(c->self);
	return 0;
}

int capacity_new(struct capacity **ret, sd_event *event, void (*ready)(void *self), void *self, struct error *err)
{
	auto_(capacity_free) struct capacity *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, -ENOMEM, "no memory");
	c->ready = ready;
	c->self = self;
	(void)pthread_mutex_init(&c->lock, NULL); /* glibc: neither fails without attributes */
	(void)pthread_cond_init(&c->turn, NULL);
	c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->fd < 0)
		return error_set(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	r = sd_event_add_io(event, &c->source, c->fd, EPOLLIN, on_counted, c);
	if (r < 0)
		return error_set(err, r, "cannot watch for counts: %s", strerror(-r));
	r = thread_start(&c->thread, run, c);
	c->has_thread = r == 0;
	if (r)
		return error_set(err, -r, "cannot start the thread that counts: %s", strerror(r));
	*ret = steal(c);
	return 0;
}

struct capacity *capacity_free(struct capacity *c)
{
	if (!c)
		return NULL;
	end_thread(c);
	sd_event_source_disable_unref(c->source);
	if (c->fd >= 0)
		(void)close(c->fd);
	job_done(&c->job);
	json_object_put(c->doc);
	free(c);
	return NULL;
}

int capacity_get(struct capacity *c, json_object **ret, uint64_t since, struct error *err)
{
	if (!c->of || c->of < since)
		return 0;
	if (!c->doc) {
		*err = c->err;
		return err->code;
	}
	*ret = json_object_get(c->doc);
	return 1;
}

bool capacity_counts(const struct capacity *c)
{
	return c->counts;
}

/* What a lease's cells refer to is the lease's, which may end meanwhile. */
static int own_rooms(struct plan_input *in, struct arena *arena)
{
	struct plan_room *room = arena_array(arena, in->nrooms + 1, sizeof(*room));

	for (size_t i = 0; room && i < in->nrooms; i++) {
		struct cpuset *cpus = in->room[i].cpus ? arena_alloc(arena, sizeof(*cpus)) : NULL;

		if (in->room[i].cpus && !cpus)
			return -ENOMEM;
		if (cpus)
			*cpus = *in->room[i].cpus;
		room[i] = in->room[i];
		room[i].cpus = cpus;
	}
	in->room = room;
	return room ? 0 : -ENOMEM;
}

int capacity_count(struct capacity *c, const struct plan_input *in, struct arena *arena, uint64_t now, struct error *err)
{
	struct job *j = &c->job;

	*j = (struct job){ .arena = *arena, .in = *in };
	*arena = (struct arena){ 0 };
	if (own_rooms(&j->in, &j->arena) < 0) {
		job_done(j);
		return error_set(err, -ENOMEM, "no memory for the capacity");
	}
	j->topo = topo_ref((struct topo *)in->topo);
	c->counts = true;
	c->begun = now;
	(void)pthread_mutex_lock(&c->lock);
	c->asked = true;
	(void)pthread_cond_broadcast(&c->turn);
	(void)pthread_mutex_unlock(&c->lock);
	return 0;
}
