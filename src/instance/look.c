/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What libvirt says of domains, held against what the store says of instances. */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "instance/life.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/reconcile.h"
#include "instance/state.h"
#include "instance/store.h"

/* What the state becomes when the domain is seen like this; the same state if nothing changes. */
static enum inst_state seen_state(enum inst_state now, enum act_domain domain)
{
	bool up = domain == ACT_DOMAIN_RUNNING;

	if ((now == INST_RUNNING || now == INST_DEGRADED) && !up)
		return INST_STOPPING;
	if (now == INST_STOPPED && up)
		return INST_RUNNING;
	return now;
}

/* One domain as it was seen, and what became of that. */
struct sight {
	const char     *name; /* of the domain */
	enum act_domain domain;
	const unsigned *since; /* domain_news before it was looked at; NULL: it is an event */
	bool            changed, ours, late;
};

/* Late: the guest may have changed since, and somebody may have noted that already. */
static int commit_seen(struct inst_manager *m, struct sight *s, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct rows_instance *in = NULL;
	enum inst_state before, next;
	int r;

	r = store_begin(&tx, m->store, err);
	s->late = r == 0 && s->since && *s->since != atomic_load(&m->domain_news);
	if (r == 0 && !s->late)
		r = rows_instance_of(tx, &in, s->name, arena, err);
	if (r < 0 || !in || rows_is_holder(in->name))
		return r;
	s->ours = true;
	r = op_check_none(tx, in->name, err);
	if (r < 0)
		return r == -EBUSY ? 0 : r; /* an operation: it is looked at when that has ended */
	s->changed = s->domain == ACT_DOMAIN_CHANGED;
	if (s->changed)
		return 0;
	before = in->state;
	next = seen_state(before, s->domain);
	if (next == before)
		return 0;
	if (next == INST_STOPPING)
		r = life_ended(m, tx, in, s->domain == ACT_DOMAIN_CRASHED, s->domain == ACT_DOMAIN_ABSENT ? RECONCILE_GONE : NULL, err);
	else
		r = inst_enter(tx, in, next, NULL, err);
	if (r == 0)
		r = store_commit(tx, err);
	if (r < 0)
		return r;
	log_info("instance %s: %s -> %s, its domain changed by itself", in->name, inst_state_text(before),
		 inst_state_text(next));
	s->changed = true;
	if (next == INST_STOPPING)
		pool_wake(m, POOL_QUEUE);
	return 0;
}

static void note(struct inst_manager *m, struct sight *s)
{
	struct arena arena = { 0 };
	struct error err = ERROR_INIT;

	if (commit_seen(m, s, &arena, &err) < 0)
		log_err("cannot note that domain %s changed: %s", s->name, err.text);
	arena_done(&arena);
}

bool manager_note_domain(struct inst_manager *m, bool *ours, const char *name, enum act_domain state)
{
	struct sight s = { .name = name, .domain = state };

	atomic_fetch_add(&m->domain_news, 1);
	note(m, &s);
	*ours = s.ours;
	return s.changed;
}

static int find_domain(struct inst_manager *m, const char **ret, const char *name, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct rows_instance *in = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = rows_instance_find(tx, &in, name, arena, err);
	*ret = in ? in->domain : NULL;
	return r;
}

static int look_at(struct inst_manager *m, const char *domain, struct error *err)
{
	unsigned since;
	struct sight s = { .name = domain, .since = &since };
	int r;

	do {
		since = atomic_load(&m->domain_news);
		r = m->env.act.ops->domain(m->env.act.self, &s.domain, domain, err);
		if (r == 0)
			note(m, &s); /* it logs */
	} while (r == 0 && s.late);
	return r;
}

int domain_look(struct inst_manager *m, const char *name, struct error *err)
{
	struct arena arena = { 0 };
	const char *domain = NULL;
	int r = find_domain(m, &domain, name, &arena, err);

	if (r == 0 && domain)
		r = look_at(m, domain, err);
	arena_done(&arena);
	return r;
}
