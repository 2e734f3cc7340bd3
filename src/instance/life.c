/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/life.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "instance/guard.h"
#include "instance/jobs.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/quarantine.h"
#include "instance/replan.h"
#include "instance/rest.h"
#include "instance/state.h"
#include "instance/store.h"

#define POLL_MS 100

#define IN(s) (1u << INST_##s)

static const struct wish {
	enum op_kind op;
	unsigned     from;    /* states that it is for */
	const char  *instead; /* what to do in others */
} wishes[INST_ORDER_MAX_] = {
	[INST_START]  = { OP_START, IN(STOPPED), "it can be started once it is stopped" },
	[INST_STOP]   = { OP_STOP, IN(RUNNING) | IN(DEGRADED), "only one that runs can be stopped" },
	[INST_REBOOT] = { OP_REBOOT, IN(RUNNING) | IN(DEGRADED), "only one that runs can be rebooted" },
	[INST_RESET]  = { OP_RESET, IN(RUNNING) | IN(DEGRADED), "only one that runs can be reset" },
};

/* ---- asking for it -------------------------------------------------------------------------------------- */

struct asked {
	const char         *name;
	const struct wish  *wish;
	unsigned            grace;
	const struct plan  *plan; /* another one; NULL: it keeps its own */
};

static int add(struct store_tx *tx, uint64_t *ret_op, const struct rows_instance *in, enum op_kind kind, unsigned grace, struct error *err)
{
	int r = op_add(tx, ret_op, kind, in->name, time(NULL), err);

	if (r == 0)
		r = op_grace(tx, *ret_op, grace, err);
	return r < 0 ? r : rows_instance_operation(tx, in->name, *ret_op, err);
}

/* Its plan is for other places, and nobody has made another one: who started it does not know of that. */
static int check_place(struct store_tx *tx, const struct asked *a, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = a->wish->op != OP_START ? 0 : store_query(tx, &q, "SELECT device, text FROM finding WHERE instance = ? AND rule = ? ORDER BY device",
							  ARGS(ARG_TEXT(a->name), ARG_TEXT(ADOPT_MOVED)), err);

	if (r == 0 && q)
		r = store_next(q, err);
	return r > 0 ? error_set(err, -EBUSY, "instance %s: %s: %s", a->name, store_text(q, 0), store_text(q, 1)) : r;
}

static int begin(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	const struct asked *a = arg;
	struct rows_instance *in = NULL;
	enum inst_state state;
	uint64_t gate = 0;
	int r = rows_instance_find(tx, &in, a->name, arena, err);

	if (r == 0 && (!in || rows_is_holder(a->name)))
		return error_set(err, -ENOENT, "there is no instance %s", a->name);
	if (r == 0)
		r = op_gate(tx, &gate, a->name, err);
	if (r == 0 && !gate)
		r = op_check_none(tx, a->name, err);
	if (r == 0 && gate && a->wish->op == OP_STOP) { /* that is what it does, and it stops one that runs again by then */
		*ret_op = gate;
		return op_grace(tx, gate, a->grace ? a->grace : 1, err);
	}
	state = r == 0 && gate && a->wish->op == OP_START ? INST_STOPPED : r == 0 ? in->state : INST_FAILED; /* it is when its turn comes */
	if (r == 0 && !(a->wish->from >> state & 1))
		return error_set(err, -EBUSY, "instance %s is %s; %s", a->name, inst_state_text(in->state), a->wish->instead);
	if (r == 0)
		r = replan_forget_start(tx, a->name, err);
	if (r == 0)
		r = a->plan ? replan_store(tx, in, a->plan, arena, err) : check_place(tx, a, err);
	if (r == 0 && a->wish->op == OP_START && quarantine_check(tx, a->name, err) < 0)
		r = error_prefix(err, "instance %s", a->name);
	if (r == 0)
		r = manager_check_queue(tx, err);
	return r < 0 ? r : add(tx, ret_op, in, a->wish->op, a->grace, err);
}

int inst_order(struct inst_manager *m, uint64_t *ret_op, const char *name, enum inst_order order, unsigned grace, struct error *err)
{
	const struct asked a = { .name = name, .wish = &wishes[order], .grace = grace };

	return manager_begin(m, ret_op, begin, &a, err);
}

int inst_start(struct inst_manager *m, uint64_t *ret_op, const char *name, const struct plan *plan, struct error *err)
{
	const struct asked a = { .name = name, .wish = &wishes[INST_START], .plan = plan };

	return manager_begin(m, ret_op, begin, &a, err);
}

/* ---- start ---------------------------------------------------------------------------------------------- */

static int see(const struct act *act, enum act_domain *ret, const char *name, struct error *err)
{
	return act->ops->domain(act->self, ret, name, err);
}

static int end_failed(struct inst_manager *m, struct job *j, enum inst_state next, const struct error *why, struct error *err)
{
	struct error all = ERROR_INIT;

	(void)error_set(&all, why->code, "instance %s: %.450s", j->in->name, why->text);
	return job_end(m, j, next, false, &all, err);
}

/* One that nobody asked for, after a crash or a boot, is refused as any other. */
static int check_fit(struct inst_manager *m, const struct job *j, struct error *why)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, why);

	return r < 0 ? r : quarantine_check(tx, j->in->name, why);
}

/* Steps look first, so one that was interrupted goes on where it was. What fails leaves the instance stopped, with all that
 * it has: a start may be tried again, or the instance deleted. */
int life_run_start(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error why = ERROR_INIT;

	if (adopt_check(m, j, true, &why) == 0 && adopt_check_cards(m, j, &why) == 0 && check_fit(m, j, &why) == 0 &&
	    replan_give_back(&j->steps, &why) == 0 && job_apply(j, &why) == 0)
		return job_end(m, j, INST_RUNNING, false, NULL, err);
	return end_failed(m, j, INST_STOPPED, &why, err);
}

/* ---- stop ----------------------------------------------------------------------------------------------- */

static bool ends(struct inst_manager *m)
{
	bool stop;

	(void)pthread_mutex_lock(&m->lock);
	stop = m->stop;
	(void)pthread_mutex_unlock(&m->lock);
	return stop;
}

static bool is_cancelled(const struct job *j)
{
	return j->steps.cancel && *j->steps.cancel;
}

/* Until the guest is off, or its time is over. -ECANCELED; -EINTR: velad ends. */
static int await(struct inst_manager *m, const struct job *j, const struct act *act, enum act_domain *now, struct error *why)
{
	const struct timespec nap = { .tv_nsec = POLL_MS * 1000000L };
	uint64_t end = clock_ms() + 1000ull * j->op->grace;
	int r = 0;

	while (r == 0 && *now == ACT_DOMAIN_RUNNING && clock_ms() < end) {
		if (is_cancelled(j))
			return error_set(why, -ECANCELED, "it was cancelled; the guest was told to shut down, and may still do so");
		if (ends(m))
			return error_set(why, -EINTR, "velad ends");
		(void)nanosleep(&nap, NULL);
		r = see(act, now, j->in->domain, why);
	}
	return r;
}

/* ACPI's power button first, and the plug when that does not help in time. A guest without ACPI ends by the plug. */
static int stop(struct inst_manager *m, struct job *j, const struct act *act, struct error *why)
{
	enum act_domain now = ACT_DOMAIN_ABSENT;
	struct error refused = ERROR_INIT;
	int r = see(act, &now, j->in->domain, why);

	if (r == 0 && now == ACT_DOMAIN_RUNNING && j->op->grace > 0) {
		if (act->ops->domain_order(act->self, j->in->domain, ACT_ORDER_SHUTDOWN, &refused) == 0)
			r = await(m, j, act, &now, why);
		else
			log_warning("instance %s: %s; it is forced off", j->in->name, refused.text);
	}
	if (r < 0 || now != ACT_DOMAIN_RUNNING)
		return r;
	r = act->ops->domain_order(act->self, j->in->domain, ACT_ORDER_OFF, why);
	if (r == 0)
		r = see(act, &now, j->in->domain, why);
	if (r == 0 && now == ACT_DOMAIN_RUNNING)
		return error_set(why, -EREMOTEIO, "libvirt took the order to force domain %s off, and it still runs", j->in->domain);
	return r;
}

#define NOT_YET "what its guest had is not reset yet"

/* Why it ended stays, without what an earlier try said. NULL: nothing does. */
static const char *why_it_ended(struct job *j)
{
	const char *was = j->in->error, *tried = was ? strstr(was, NOT_YET) : NULL;

	return !tried ? was : tried == was ? NULL : arena_printf(&j->arena, "%.*s", (int)(tried - was) - 2, was);
}

static const char *join(struct job *j, const char *was, const char *now)
{
	return !was ? now : !now ? was : arena_printf(&j->arena, "%.200s; %s", was, now);
}

static const char *not_yet(struct job *j, const struct error *why)
{
	return join(j, why_it_ended(j), arena_printf(&j->arena, NOT_YET ": %.300s; that is tried again until it is", why->text));
}

int life_run_stop(struct inst_manager *m, struct job *j, struct error *err)
{
	struct guard_self self = { .guard = m->guard };
	const struct act act = guard_act(&self);
	struct error why = ERROR_INIT, away = ERROR_INIT;
	int r = stop(m, j, &act, &why);

	if (r == -EINTR) {
		*err = why;
		return r;
	}
	if (r < 0)
		return end_failed(m, j, INST_RUNNING, &why, err); /* look_after() sees how it is */
	r = rest(m, j, &away, err);
	if (r < 0)
		return r;
	if (away.code) {
		j->then = OP_GATE;
		j->note = not_yet(j, &away);
	}
	return job_end(m, j, j->then ? INST_STOPPING : INST_STOPPED, false, NULL, err);
}

/* ---- reboot, reset -------------------------------------------------------------------------------------- */

static int order(struct inst_manager *m, struct job *j, enum act_order what, struct error *err)
{
	struct guard_self self = { .guard = m->guard };
	const struct act act = guard_act(&self);
	struct error why = ERROR_INIT;

	if (act.ops->domain_order(act.self, j->in->domain, what, &why) == 0)
		return job_end(m, j, j->in->state, false, NULL, err);
	return end_failed(m, j, j->in->state, &why, err);
}

/* One that was interrupted may have been done: it is not done twice. */
static int once(struct inst_manager *m, struct job *j, enum act_order what, struct error *err)
{
	struct error why = ERROR_INIT;

	if (job_check_whole(m, j, &why) < 0)
		return end_failed(m, j, j->in->state, &why, err);
	return order(m, j, what, err);
}

int life_run_reboot(struct inst_manager *m, struct job *j, struct error *err)
{
	return once(m, j, ACT_ORDER_REBOOT, err);
}

int life_run_reset(struct inst_manager *m, struct job *j, struct error *err)
{
	return once(m, j, ACT_ORDER_RESET, err);
}

/* ---- a guest that ended by itself ------------------------------------------------------------------------ */

/* A client's stop may have been answered with it by now, which leaves its grace. */
static int read_grace(struct inst_manager *m, struct job *j, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct op *op = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = op_find(tx, &op, j->op->id, &j->arena, err);
	j->op->grace = op ? op->grace : 0;
	return r;
}

/* It may run again, by somebody else's hand: then what it has was reset by vfio-pci, and is in use. */
int life_run_gate(struct inst_manager *m, struct job *j, struct error *err)
{
	struct guard_self self = { .guard = m->guard };
	const struct act act = guard_act(&self);
	enum act_domain now = ACT_DOMAIN_ABSENT;
	struct error why = ERROR_INIT;
	bool known = see(&act, &now, j->in->domain, &why) == 0;
	int r;

	if (known && now == ACT_DOMAIN_RUNNING) {
		r = read_grace(m, j, err);
		return r < 0 ? r : j->op->grace ? life_run_stop(m, j, err) : job_end(m, j, INST_RUNNING, false, NULL, err);
	}
	r = known ? rest(m, j, &why, err) : 0;
	if (r < 0)
		return r;
	if (why.code) {
		j->note = not_yet(j, &why);
		return job_wait(m, j, &why, false, err);
	}
	j->note = join(j, why_it_ended(j), j->note);
	return job_end(m, j, INST_STOPPED, false, NULL, err);
}

/* ---- a guest that crashed ------------------------------------------------------------------------------- */

/* A clock that was set back makes no crash of tomorrow: such a one does not count. */
static int count_crash(struct store_tx *tx, const char *name, int64_t seconds, int64_t *ret, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int64_t now = time(NULL);
	int r = store_exec(tx, "DELETE FROM crash WHERE at < ? OR at > ?", ARGS(ARG_INT(now - seconds), ARG_INT(now)), err);

	if (r == 0)
		r = store_exec(tx, "INSERT INTO crash(instance, at) VALUES(?, ?)", ARGS(ARG_TEXT(name), ARG_INT(now)), err);
	if (r == 0)
		r = store_query(tx, &q, "SELECT count(*) FROM crash WHERE instance = ?", ARGS(ARG_TEXT(name)), err);
	if (r == 0)
		r = store_next(q, err);
	*ret = r > 0 ? store_int(q, 0) : 0;
	return r < 0 ? r : 0;
}

static int crashed(struct inst_manager *m, struct store_tx *tx, const struct rows_instance *in, struct error *err)
{
	const struct inst_crash *c = &m->env.crash;
	struct error why = ERROR_INIT;
	int64_t n = 0;
	uint64_t op;
	int r = count_crash(tx, in->name, c->seconds, &n, err);

	if (r < 0)
		return r;
	if (!c->restart)
		(void)error_set(&why, -EREMOTEIO, "the guest crashed; see its console log");
	else if (n > c->limit)
		(void)error_set(&why, -EREMOTEIO, "the guest crashed %lld times within %u s and is left stopped; see its console log",
				(long long)n, c->seconds);
	else
		(void)error_set(&why, -EREMOTEIO, "the guest crashed and is started again (%lld of %u times); see its console log",
				(long long)n, c->limit);
	r = rows_instance_error(tx, in->name, why.text, err);
	if (r == 0 && c->restart && n <= c->limit)
		r = add(tx, &op, in, OP_START, 0, err);
	if (r == 0)
		log_warning("instance %s: %s", in->name, why.text);
	return r;
}

int life_ended(struct inst_manager *m, struct store_tx *tx, struct rows_instance *in, bool by_fault, const char *text, struct error *err)
{
	uint64_t op;
	int r = inst_enter(tx, in, INST_STOPPING, text, err);

	if (r == 0)
		r = add(tx, &op, in, OP_GATE, 0, err);
	return r == 0 && by_fault ? crashed(m, tx, in, err) : r;
}
