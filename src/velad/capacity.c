/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/capacity.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "base/error.h"
#include "plan/capacity.h"
#include "plan/plan.h"
#include "velad/worker.h"

struct job { /* the thread's while there is one; nobody else touches it meanwhile */
	struct arena      arena;
	struct plan_input in;
	struct topo      *topo; /* a reference */
	json_object      *doc;
	int               r;
	struct error      err;
};

struct capacity {
	struct worker   *worker; /* owned */
	struct job       job;
	bool             counts; /* there is a job that is not settled yet */
	uint64_t         of, begun; /* when the host was as it was counted; of the job */
	json_object     *doc;    /* owned: the last count; NULL: it failed */
	struct error     err;
	void           (*ready)(void *self);
	void            *self;
};

static void count(void *self)
{
	struct capacity *c = self;
	struct job *j = &c->job;

	j->err = ERROR_INIT;
	j->r = plan_capacity_json(&j->doc, &j->in, &j->err);
}

static void job_done(struct job *j)
{
	json_object_put(j->doc);
	topo_unref(j->topo);
	arena_done(&j->arena);
	*j = (struct job){ 0 };
}

static void on_counted(void *self)
{
	struct capacity *c = self;

	if (!c->counts)
		return;
	json_object_put(c->doc);
	c->doc = c->job.r == 0 ? steal(c->job.doc) : NULL;
	c->err = c->job.err;
	c->of = c->begun;
	c->counts = false;
	job_done(&c->job);
	c->ready(c->self);
}

int capacity_new(struct capacity **ret, sd_event *event, enum seccomp_how how, void (*ready)(void *self), void *self, struct error *err)
{
	auto_(capacity_free) struct capacity *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, -ENOMEM, "no memory");
	c->ready = ready;
	c->self = self;
	r = worker_new(&c->worker, event, &(struct worker_does){ "that counts", SANDBOX_PLANNER, how, count, on_counted, c }, err);
	if (r == 0)
		*ret = steal(c);
	return r;
}

struct capacity *capacity_free(struct capacity *c)
{
	if (!c)
		return NULL;
	worker_free(c->worker);
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

void capacity_count(struct capacity *c, const struct plan_input *in, struct arena *arena, uint64_t now)
{
	struct job *j = &c->job;

	*j = (struct job){ .arena = *arena, .in = *in };
	*arena = (struct arena){ 0 };
	j->topo = topo_ref((struct topo *)in->topo);
	c->counts = true;
	c->begun = now;
	worker_start(c->worker);
}
