/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kinds of operations. An interrupted create is undone, for its plan was made for a machine that is no more; an
 * interrupted delete goes on. */
#include "instance/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sbuf.h"
#include "instance/gate.h"
#include "instance/hold.h"
#include "instance/life.h"
#include "instance/manager.h"
#include "instance/state.h"
#include "instance/store.h"
#include "instance/undo.h"

static const char *what(const struct job *j)
{
	return rows_is_holder(j->in->name) ? "" : "instance ";
}

/* What it has from now on, and in which boot it was started. */
static int note_devices(struct inst_manager *m, struct store_tx *tx, const struct job *j, enum inst_state next, bool drop, struct error *err)
{
	bool started = next == INST_RUNNING && (j->op->kind == OP_CREATE || j->op->kind == OP_START);
	int r = drop ? rows_devices_drop(tx, j->in->name, err) : rows_devices_identify(tx, j->in->name, err);

	return r == 0 && started ? rows_instance_boot(tx, j->in->name, m->adopt.boot, err) : r;
}

/* Somebody has asked for its deletion while an operation of velad's own ran: that comes next, and has the state already. */
static int is_taken_over(struct store_tx *tx, bool *ret, struct job *j, struct error *err)
{
	struct rows_instance *now = NULL;
	int r = op_is_own(j->op->kind) ? rows_instance_find(tx, &now, j->in->name, &j->arena, err) : 0;

	*ret = r == 0 && now && now->state == INST_DELETING;
	return r;
}

static int commit_end(struct inst_manager *m, struct job *j, enum inst_state next, bool drop_devices,
		      struct error *err)
{
	auto_(json_object_put) json_object *steps =
		json_steps(j->steps.step, j->steps.n, job_kinds[j->op->kind].backwards);
	auto_(store_end) struct store_tx *tx = NULL;
	bool over = false;
	int r;

	j->op->steps = steps ? json_text(steps) : NULL;
	if (!j->op->steps)
		return error_set(err, -ENOMEM, "no memory for the end of operation %llu",
				 (unsigned long long)j->op->id);
	r = store_begin(&tx, m->store, err);
	if (r == 0)
		atomic_fetch_add(&m->domain_news, 1);
	if (r == 0 && j->rest)
		r = steps_tell(tx, j->rest, err);
	if (r == 0)
		r = note_devices(m, tx, j, next, drop_devices, err);
	if (r == 0)
		r = is_taken_over(tx, &over, j, err);
	if (r == 0 && over)
		j->then = 0;
	else if (r == 0 && next != j->in->state) /* a reboot leaves it as it is */
		r = inst_enter(tx, j->in, next, j->op->detail ? j->op->detail : j->note, err);
	else if (r == 0 && j->note)
		r = rows_instance_error(tx, j->in->name, j->note, err);
	if (r == 0)
		r = op_finish(tx, j->op, err);
	if (r == 0 && j->then)
		r = undo_add(tx, j->then, j->in->name, true, err);
	if (r == 0)
		r = store_commit(tx, err);
	return r;
}

/* The machine is read again, so that who sees the end of an operation sees its effects as well. */
static void note_end(struct inst_manager *m, struct job *j, const struct error *why)
{
	j->op->state = j->cancelled ? OP_CANCELLED : why ? OP_FAILED : OP_SUCCEEDED;
	j->op->code = why ? why->code : 0;
	j->op->detail = why ? why->text : NULL;
	j->op->finished = time(NULL);
	span_end(&j->op->span);
	if (m->env.changed)
		m->env.changed(m->env.self);
}

int job_end(struct inst_manager *m, struct job *j, enum inst_state next, bool drop_devices, const struct error *why,
	    struct error *err)
{
	int r;

	if (why && crew_late(m->guard->crew)) /* what failed did so because velad ends; the next one finds it interrupted */
		return error_set(err, -EINTR, "%s was interrupted: %.300s", op_kind_text(j->op->kind), why->text);
	note_end(m, j, why);
	r = commit_end(m, j, next, drop_devices, err);
	if (r < 0)
		return r;
	if (j->then)
		pool_waits(m);
	if (j->cancelled)
		log_info("%s was cancelled: %s", op_kind_text(j->op->kind), why->text);
	else if (why)
		log_err("%s failed: %s", op_kind_text(j->op->kind), why->text);
	else
		log_info("%s%s: %s is done, it is %s", what(j), j->in->name, op_kind_text(j->op->kind), inst_state_text(next));
	return 0;
}

int job_wait(struct inst_manager *m, struct job *j, const struct error *why, bool drop_devices, struct error *err)
{
	bool said = j->op->detail && strcmp(j->op->detail, why->text) == 0, over = false;
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	if (crew_late(m->guard->crew)) /* as job_end() */
		return error_set(err, -EINTR, "%s was interrupted: %.300s", op_kind_text(j->op->kind), why->text);
	j->op->code = why->code;
	j->op->detail = why->text;
	j->op->tries++;
	r = store_begin(&tx, m->store, err);
	if (r == 0 && drop_devices)
		r = rows_devices_drop(tx, j->in->name, err);
	if (r == 0)
		r = is_taken_over(tx, &over, j, err);
	if (r == 0 && j->note && !over)
		r = rows_instance_error(tx, j->in->name, j->note, err);
	if (r == 0)
		r = op_wait(tx, j->op, err);
	if (r == 0 && over)
		r = op_yield(tx, j->in->name, err);
	if (r == 0)
		r = store_commit(tx, err);
	if (r < 0)
		return r;
	if (!said && !over)
		log_warning("%s failed, and is tried again: %s", op_kind_text(j->op->kind), why->text);
	if (m->env.changed)
		m->env.changed(m->env.self);
	pool_waits(m);
	return 0;
}

int job_end_alone(struct inst_manager *m, struct job *j, const struct error *why, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	if (why && crew_late(m->guard->crew)) /* as job_end() */
		return error_set(err, -EINTR, "%s was interrupted: %.300s", op_kind_text(j->op->kind), why->text);
	note_end(m, j, why); /* nothing alone can be cancelled */
	j->op->steps = "[]";
	r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = op_finish(tx, j->op, err);
	if (r == 0)
		r = store_commit(tx, err);
	if (r < 0)
		return r;
	if (why)
		log_err("%s failed: %s", op_kind_text(j->op->kind), why->text);
	else
		log_info("%s of %s is done", op_kind_text(j->op->kind), j->op->instance);
	return 0;
}

int job_check_whole(const struct inst_manager *m, const struct job *j, struct error *why)
{
	if (!j->interrupted)
		return 0;
	return error_set(why, -EINTR, "%s during %s", j->op->id <= m->inherited ? "velad was restarted" : "the store failed",
			 op_kind_text(j->op->kind));
}

/* A domain that somebody renamed keeps its new name. libvirt has it already, so it has nothing that XML would escape but & and <,
 * which are in no sane name, and are refused. */
static int rename_domain(char **xml, const char *from, const char *to, struct error *why)
{
	autofree char *old = NULL;
	struct sbuf b = { 0 };
	char *at;

	if (asprintf(&old, "<name>%s</name>", from) < 0) {
		old = NULL;
		return error_set(why, -ENOMEM, "no memory for domain %s", to);
	}
	at = strstr(*xml, old);
	if (!at)
		return 0;
	if (strpbrk(to, "&<"))
		return error_set(why, -EINVAL, "its domain was renamed to \"%.80s\"; give it another name without & and <", to);
	sbuf_addf(&b, "%.*s<name>%s</name>%s", (int)(at - *xml), *xml, to, at + strlen(old));
	free(*xml);
	*xml = sbuf_steal(&b);
	return *xml ? 0 : error_set(why, -ENOMEM, "no memory for domain %s", to);
}

int job_apply(struct job *j, struct error *why)
{
	autofree char *xml = NULL;
	int r = json_plan_xml(&xml, j->in->plan, why);

	if (r == 0 && strcmp(j->in->domain, j->in->name) != 0)
		r = rename_domain(&xml, j->in->name, j->in->domain, why);
	if (r < 0)
		return r;
	j->steps.xml = xml;
	j->steps.rest = &j->rest;
	r = steps_apply(&j->steps, why);
	j->steps.rest = NULL;
	j->steps.xml = NULL;
	return r;
}

/* Of what could not be given back, each function is in quarantine. What else is left (a port's VFs, control of a port) is held by its
 * steps. */
bool job_all_free(const struct job *j)
{
	bool left = false;

	for (size_t i = 0; i < j->steps.n; i++) {
		const struct rows_step *s = &j->steps.step[i];
		bool shared = s->kind == PLAN_STEP_VF_COUNT || s->kind == PLAN_STEP_AUTOPROBE || s->kind == PLAN_STEP_POWER || s->kind == PLAN_STEP_ACS ||
			      s->kind == PLAN_STEP_DEVCTL || s->kind == PLAN_STEP_DEVCTL2;
		bool undone = s->state == STEP_PENDING || s->state == STEP_REVERTED;

		left = left || (!undone && !s->sick && !shared);
	}
	return !left;
}

#define REST_GIVEN_BACK "that is in quarantine, the rest was given back"

static const char *given_back(const struct job *j)
{
	for (size_t i = 0; i < j->steps.n; i++)
		if (j->steps.step[i].sick)
			return REST_GIVEN_BACK;
	return "everything was given back";
}

/* What another domain has is not reset below it. Where nothing was begun there is nothing to be careful of; and where libvirt cannot be
 * asked, the step that ends the guest fails, and nothing is touched that it may have. */
static int check_before_revert(struct inst_manager *m, struct job *j, struct error *why)
{
	bool begun = false;

	for (size_t i = 0; i < j->steps.n; i++)
		begun = begun || (j->steps.step[i].state != STEP_PENDING && j->steps.step[i].state != STEP_REVERTED);
	return rows_is_holder(j->in->name) || !begun ? 0 : adopt_check(m, j, false, why);
}

int job_revert(struct inst_manager *m, struct job *j, struct error *why)
{
	int r = check_before_revert(m, j, why);

	return r < 0 ? r : steps_revert(&j->steps, why);
}

/* Takes back what was begun. */
static int undo(struct inst_manager *m, struct job *j, const struct error *why, struct error *err)
{
	struct error left = ERROR_INIT, all = ERROR_INIT;
	const char *name = j->in->name;
	bool clean;

	j->steps.undo = true;
	clean = job_revert(m, j, &left) == 0;
	j->then = clean ? 0 : OP_UNDO;
	j->cancelled = clean && why->code == -ECANCELED && j->cancel;
	if (clean)
		(void)error_set(&all, why->code, "%s%s: %s; %s", what(j), name, why->text, given_back(j));
	else if (job_all_free(j) && left.code != -ETIMEDOUT)
		(void)error_set(&all, why->code, "%s%s: %.200s; its devices were given back, but not all that was done for it: %.180s; " UNDO_AGAIN,
				what(j), name, why->text, left.text);
	else if (job_all_free(j))
		(void)error_set(&all, why->code, "%s%s: %.200s; " REST_GIVEN_BACK, what(j), name, why->text);
	else
		(void)error_set(&all, why->code, "%s%s: %.200s; its devices stay held, for what was done could not be "
				"given back: %.180s; " UNDO_AGAIN, what(j), name, why->text, left.text);
	return job_end(m, j, j->cancelled ? INST_DELETED : INST_FAILED, clean || job_all_free(j), &all, err);
}

static int run_create(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error why = ERROR_INIT;

	if (job_check_whole(m, j, &why) == 0 && adopt_check(m, j, true, &why) == 0 && job_apply(j, &why) == 0)
		return job_end(m, j, INST_RUNNING, false, NULL, err);
	return undo(m, j, &why, err);
}

static int run_delete(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error left = ERROR_INIT, all = ERROR_INIT;

	if (job_revert(m, j, &left) == 0)
		return job_end(m, j, INST_DELETED, true, NULL, err);
	j->then = OP_UNDO;
	(void)error_set(&all, left.code, "%s%s: %.320s; %s", what(j), j->in->name, left.text,
			!job_all_free(j) ? "its devices stay held; " UNDO_AGAIN :
			left.code == -ETIMEDOUT ? REST_GIVEN_BACK "; delete it again when the call has returned" :
						  "its devices were given back, the rest is tried again until it can be; delete it again then");
	return job_end(m, j, INST_FAILED, job_all_free(j), &all, err);
}

static int run_image_add(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error why = ERROR_INIT;
	int r = job_check_whole(m, j, &why);

	if (r == 0)
		r = steps_apply(&j->steps, &why);
	return r == 0 ? job_end(m, j, INST_RUNNING, false, NULL, err) : undo(m, j, &why, err);
}

/* An interrupted apply whose steps are all done goes on; any other is undone, as a create is. */
static int apply(struct inst_manager *m, struct job *j, struct error *why)
{
	bool done = j->interrupted;
	int r;

	for (size_t i = 0; i < j->steps.n; i++)
		done = done && j->steps.step[i].state == STEP_DONE;
	r = done ? 0 : job_check_whole(m, j, why);
	return r < 0 || done ? r : steps_apply(&j->steps, why);
}

/* Ports that the new holder has, too, stay as they are. */
static int run_apply(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error why = ERROR_INIT, all = ERROR_INIT;

	if (apply(m, j, &why) < 0)
		return undo(m, j, &why, err);
	if (hold_drop_others(m, &j->steps, &why) == 0)
		return job_end(m, j, INST_RUNNING, false, NULL, err);
	(void)error_set(&all, why.code, "%s: it is applied, but of what was applied before: %.300s", j->in->name, why.text);
	return job_end(m, j, INST_RUNNING, false, &all, err);
}

/* One that was interrupted goes on: each step looks first. What a device cannot is no reason to take the others back. */
static int run_pool_apply(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error why = ERROR_INIT, dropped = ERROR_INIT, all = ERROR_INIT;
	size_t failed = 0, groups = 0;
	int r = hold_pool_apply(&j->steps, &failed, &groups, &why);

	if (r == -ECANCELED)
		return undo(m, j, &why, err);
	if (r == 0 && hold_drop_others(m, &j->steps, &dropped) == 0)
		return job_end(m, j, INST_RUNNING, false, NULL, err);
	if (r < 0)
		(void)error_set(&all, why.code, "pool: %.400s; %zu of %zu are ready", why.text, failed ? groups - failed : 0, groups);
	else
		(void)error_set(&all, dropped.code, "pool: it is ready, but of what was in it before: %.300s", dropped.text);
	return job_end(m, j, INST_RUNNING, false, &all, err);
}

static int run_restore(struct inst_manager *m, struct job *j, struct error *err)
{
	struct error left = ERROR_INIT, others = ERROR_INIT, all = ERROR_INIT;
	int r = hold_drop_others(m, &j->steps, &others);

	if (steps_revert(&j->steps, &left) == 0 && r == 0)
		return job_end(m, j, INST_DELETED, false, NULL, err);
	if (r < 0)
		left = others;
	j->then = OP_UNDO;
	(void)error_set(&all, left.code, "%s: %.320s; what is left stays held; " UNDO_AGAIN, j->in->name, left.text);
	return job_end(m, j, INST_FAILED, false, &all, err);
}

/* A guest that starts resets its functions. And what libvirt told about a domain while its create ran was not noted (it
 * was not "running" yet). */
void job_look_after(struct inst_manager *m, const struct job *j)
{
	struct error err = ERROR_INIT;

	if (keep_look(m, KEEP_ALL, &err) < 0)
		log_warning("%s", err.text); /* it is tried again on the timer */
	if (j->in)
		adopt_look_after(m, j->in->name);
	if (!j->in || rows_is_holder(j->in->name) || (j->in->state != INST_RUNNING && j->in->state != INST_STOPPED))
		return; /* a holder has no domain, and is not stopped for that */
	if (domain_look(m, j->in->name, &err) == 0)
		return;
	log_warning("instance %s: cannot look at its domain after %s: %s", j->in->name, op_kind_text(j->op->kind), err.text);
	pool_wake(m, POOL_LOOK); /* what is not known is to be shown so */
}

/* What a delete has taken away does not come back, nor what a restore gave up: those go on. */
const struct job_kind job_kinds[OP_KIND_MAX_] = {
	[OP_CREATE] = { .run = run_create, .enters = INST_PROVISIONING, .cancels = true },
	[OP_DELETE] = { .run = run_delete, .backwards = true },
	[OP_ACS_APPLY] = { .run = run_apply, .enters = INST_PROVISIONING, .cancels = true },
	[OP_ACS_RESTORE] = { .run = run_restore, .backwards = true },
	[OP_START] = { .run = life_run_start, .enters = INST_PROVISIONING },
	[OP_STOP] = { .run = life_run_stop, .enters = INST_STOPPING },
	[OP_REBOOT] = { .run = life_run_reboot },
	[OP_RESET] = { .run = life_run_reset },
	[OP_UNQUARANTINE] = { .run = gate_run_release, .alone = true },
	[OP_IMAGE_ADD] = { .run = run_image_add, .enters = INST_PROVISIONING },
	[OP_IMAGE_DELETE] = { .run = run_delete, .backwards = true },
	[OP_POOL_APPLY] = { .run = run_pool_apply, .enters = INST_PROVISIONING, .cancels = true },
	[OP_POOL_RELEASE] = { .run = run_restore, .backwards = true },
	[OP_GATE] = { .run = life_run_gate },
	[OP_UNDO] = { .run = undo_run, .backwards = true },
};
