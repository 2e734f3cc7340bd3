/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The steps "lend", "scrub" and "reset", which do their work when they are reverted, in the reverse order.
 *
 * The original value of "lend" is how the function looked: "10DE:2330 48b02d0000000001 5x16 05 001d ats", that is its ids,
 * the serial number of its device, its link, its BARs that have addresses, its ACS control, and whether it has ATS. Of the
 * link only the lanes must be back: GPUs slow an idle link down by themselves. What a guest provokes is no fault of the
 * function: errors count while it is reset. ATS control itself is the IOMMU driver's.
 *
 * Effects here know the machine only: who runs them may be left alone with what hangs. The walk keeps the store. */
#include "instance/gate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "instance/guard.h"
#include "instance/jobs.h"
#include "instance/manager.h"
#include "instance/quarantine.h"
#include "instance/steps_own.h"
#include "instance/store.h"

#define LOOK_MAX 128

/* ---- how it looks ---------------------------------------------------------------------------------------- */

static const char *look_text(char ret[LOOK_MAX], const struct act_alive *a)
{
	char acs[8] = "-";

	if (a->acs >= 0)
		(void)snprintf(acs, sizeof(acs), "%04x", (unsigned)a->acs & 0xffff);
	(void)snprintf(ret, LOOK_MAX, "%s %s %ux%u %02x %s %s", *a->id ? a->id : "-", *a->serial ? a->serial : "-",
		       a->link.speed, a->link.width, a->bars, acs, a->ats ? "ats" : "-");
	return ret;
}

_Static_assert(ACT_SERIAL_MAX == 56, "look_parse() reads as many");

struct look {
	char     id[12], serial[ACT_SERIAL_MAX], acs[8], ats[4];
	unsigned speed, width, bars;
};

static int look_parse(struct look *ret, const char *text, struct error *err)
{
	if (sscanf(text, "%11s %55s %ux%u %x %7s %3s", ret->id, ret->serial, &ret->speed, &ret->width, &ret->bars, ret->acs,
		   ret->ats) != 7)
		return error_set(err, -EBADMSG, "the store has \"%.80s\" as how a function looked", text);
	return 0;
}

static bool both_differ(const char *a, const char *b)
{
	return strcmp(a, "-") != 0 && strcmp(b, "-") != 0 && strcmp(a, b) != 0;
}

/* Another device than the one that was lent: somebody changed the card. */
static int check_same(const struct look *was, const struct look *now, struct error *err)
{
	if (both_differ(was->id, now->id))
		return error_set(err, -ESTALE, "it is another device now: %s, and was %s", now->id, was->id);
	if (both_differ(was->serial, now->serial))
		return error_set(err, -ESTALE, "it is another device now: its serial number is %s, and was %s", now->serial, was->serial);
	return 0;
}

/* what NULL: it is whole. */
static int check_whole(const char *text, const struct act_alive *a, struct error *err)
{
	char now_text[LOOK_MAX];
	struct look was, now;
	int r = look_parse(&was, text, err);

	if (r == 0)
		r = look_parse(&now, look_text(now_text, a), err);
	if (r == 0)
		r = check_same(&was, &now, err);
	if (r < 0)
		return r;
	if (now.width < was.width)
		return error_set(err, -EIO, "its link has %u lanes, and had %u", now.width, was.width);
	if (was.bars & ~now.bars)
		return error_set(err, -EIO, "BARs %02x have lost their addresses", was.bars & ~now.bars);
	if (strcmp(was.acs, now.acs) != 0)
		return error_set(err, -EIO, "its ACS control is %s, and was %s", now.acs, was.acs);
	if (strcmp(was.ats, "ats") == 0 && strcmp(now.ats, "ats") != 0)
		return error_set(err, -EIO, "its ATS is gone");
	return 0;
}

static int silent(struct error *err)
{
	return error_set(err, -EIO, "it does not answer: its config space reads as ff; a power cycle may bring it back");
}

static int look(const struct act *act, struct act_alive *ret, struct bdf fn, struct error *err)
{
	int r = act->ops->alive(act->self, ret, fn, err);

	return r == 0 && !ret->answers ? silent(err) : r;
}

/* ---- quarantine ------------------------------------------------------------------------------------------ */

bool gate_concerns(enum plan_step_kind k)
{
	return k == PLAN_STEP_LEND || k == PLAN_STEP_SCRUB || k == PLAN_STEP_RESET || k == PLAN_STEP_BIND;
}

/* What is set of a function that a guest has, beside its driver. */
static const enum plan_step_kind set[] = { PLAN_STEP_VF, PLAN_STEP_DEVCTL, PLAN_STEP_DEVCTL2, PLAN_STEP_POWER };

/* It is not given back, and asking again may change nothing: that must not hold up the rest. Not so where nobody could be asked. */
static bool is_stuck(const struct gate *g, const struct rows_step *step, int r)
{
	bool is_set = step->kind == PLAN_STEP_BIND;

	for (size_t i = 0; i < ARRAY_SIZE(set); i++)
		is_set = is_set || step->kind == set[i];
	return is_set && bdf_in(g->mine, g->nmine, step->bdf) && r < 0 && r != -ENODEV && r != -ETIMEDOUT && r != -ENOMEM && r != -ENOTCONN;
}

bool gate_keeps(const struct gate *g, const struct rows_step *step, int r)
{
	if (is_stuck(g, step, r))
		return true;
	if (!gate_concerns(step->kind))
		return false;
	if (step->kind == PLAN_STEP_BIND)
		return g->closed && (r >= 0 || r == -ENODEV || r == -ETIMEDOUT);
	return g->closed || r == -ETIMEDOUT;
}

/* Of how it looked when it was lent; NULL: not known. */
static const char *serial_of(struct look *look, const char *was)
{
	struct error ignored = ERROR_INIT;

	return was && look_parse(look, was, &ignored) == 0 && strcmp(look->serial, "-") != 0 ? look->serial : NULL;
}

int gate_find(struct gate *ret, struct store_tx *tx, const struct rows_step *step, struct arena *arena, struct error *err)
{
	const struct rows_step lend = { .kind = PLAN_STEP_LEND, .target = step->target };
	struct quarantine *q = NULL;
	struct look look;
	int r = rows_original_find(tx, &ret->was, &lend, arena, err);

	if (r == 0)
		r = quarantine_find(tx, &q, step->bdf, serial_of(&look, ret->was), arena, err);
	ret->closed = q;
	ret->owed = q && q->driver;
	return r;
}

int gate_keep(struct store_tx *tx, const struct gate *g, const struct rows_step *step, const char *original, const struct error *why,
	      struct error *err)
{
	struct quarantine q = { .bdf = step->bdf, .pf = BDF_NONE, .reason = why->text, .since = time(NULL), .was = g->was,
				.hangs = why->code == -ETIMEDOUT };
	struct error said = *why;
	struct look look;

	if (why->code < 0 && why->code != -ETIMEDOUT && step->kind != PLAN_STEP_LEND && step->kind != PLAN_STEP_SCRUB && step->kind != PLAN_STEP_RESET)
		(void)error_prefix(&said, "it is not given back as it was");
	q.reason = said.text;
	if (step->kind == PLAN_STEP_BIND && original)
		q.driver = original;
	if (why->code != -ESTALE) /* another card is there: neither is given */
		q.serial = serial_of(&look, g->was);
	if (!g->closed)
		log_warning("%s is in quarantine: %s", step->target, said.text);
	return quarantine_put(tx, &q, err);
}

int gate_park(const struct steps *s, const struct rows_step *step, struct error *err)
{
	static const struct act_driver nobody = { .override = ACT_NOBODY };
	int r = s->act.ops->driver_set(s->act.self, step->bdf, &nobody, err);

	if (r < 0 && r != -ENODEV)
		log_warning("%s, which is in quarantine: %s", step->target, err->text);
	return r;
}

/* err has why; *err becomes the reason. */
static void condemn(struct error *err, const char *what)
{
	(void)error_prefix(err, "%s", what);
}

/* ---- lend ------------------------------------------------------------------------------------------------ */

/* A function that is lent again after its guest stood still must be the one that was lent at first. */
static int check_again(const struct steps *s, const char *now, struct error *err)
{
	struct look a, b;
	int r = s->gate->was ? look_parse(&a, s->gate->was, err) : 0;

	if (r < 0 || !s->gate->was)
		return r;
	r = look_parse(&b, now, err);
	return r < 0 ? r : check_same(&a, &b, err);
}

static int probe_lend(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	struct act_alive now;
	char text[LOOK_MAX];
	int r = s->act.ops->alive(s->act.self, &now, step->bdf, err);

	if (r < 0)
		return r;
	if (!now.answers) {
		(void)silent(err);
		return GATE_QUARANTINED;
	}
	ret->so = true;
	(void)snprintf(ret->value, sizeof(ret->value), "%s", look_text(text, &now));
	return check_again(s, ret->value, err);
}

static int apply_nothing(const struct steps *s, const struct rows_step *step, struct error *err)
{
	(void)s, (void)step, (void)err;
	return 0;
}

static int is_whole(const struct steps *s, struct bdf fn, const char *was, struct error *err)
{
	struct act_alive now = { 0 };
	int r = look(&s->act, &now, fn, err);

	if (r == 0)
		r = check_whole(was, &now, err);
	if (r < 0 && r != -ENODEV)
		condemn(err, r == -ENOTCONN ? "how it is now is not known" : "it is not as it was when it was lent");
	return r;
}

/* How a step of the gate ends. Where velad-helper was not there, nothing is known, and it is tried again. */
static int end_of(const struct steps *s, const struct rows_step *step, int r)
{
	return r == -ENODEV ? steps_gone(s, step) : r < 0 && r != -ENOTCONN ? GATE_QUARANTINED : r;
}

static int revert_lend(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	return end_of(s, step, is_whole(s, step->bdf, original, err));
}

int gate_verify(const struct steps *s, struct bdf fn, struct error *err)
{
	return s->gate->was ? is_whole(s, fn, s->gate->was, err) : 0;
}

const struct step_kind step_lend = { probe_lend, apply_nothing, revert_lend };

/* ---- scrub ----------------------------------------------------------------------------------------------- */

static int probe_used(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	(void)s, (void)step, (void)err;
	ret->so = true;
	(void)snprintf(ret->value, sizeof(ret->value), "used");
	return 0;
}

static int scrub(const struct steps *s, struct bdf fn, struct error *err)
{
	const struct inst_release *release = &s->gate->release;

	if (!release->scrub)
		return 0; /* taken out of the configuration since, which the documents show */
	return s->act.ops->scrub(s->act.self, fn, release->scrub, release->scrub_seconds, err);
}

static int revert_scrub(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	int r = scrub(s, step->bdf, err);

	(void)original;
	if (r < 0 && r != -ENODEV)
		condemn(err, "it was not scrubbed");
	return end_of(s, step, r);
}

const struct step_kind step_scrub = { probe_used, apply_nothing, revert_scrub };

/* ---- reset ----------------------------------------------------------------------------------------------- */

/* Whether the kernel has counted uncorrectable errors meanwhile. */
static bool erred(const struct host_aer *before, const struct host_aer *after)
{
	return before->known && after->known && (after->nonfatal > before->nonfatal || after->fatal > before->fatal);
}

/* What cannot be reset by itself may be given back all the same, if the operator says so; what would hit others never. */
static bool is_allowed(const struct steps *s, int r, struct error *why)
{
	if (r != -ENOTTY || !s->gate->release.unreset)
		return false;
	log_warning("instance %s: %s; it is given back as [release] no_reset says", s->instance, why->text);
	*why = ERROR_INIT;
	return true;
}

/* One that does not answer may come back by its reset. */
static int reset(const struct steps *s, struct bdf fn, struct error *err)
{
	struct act_alive before = { 0 }, after = { 0 };
	int r = s->act.ops->alive(s->act.self, &before, fn, err);

	if (r == 0)
		r = s->act.ops->reset(s->act.self, fn, s->gate->mine, s->gate->nmine, err);
	if (r < 0)
		return is_allowed(s, r, err) ? 0 : r;
	r = s->act.ops->alive(s->act.self, &after, fn, err);
	if (r == 0 && erred(&before.aer, &after.aer))
		return error_set(err, -EIO, "the kernel has counted uncorrectable PCIe errors meanwhile");
	return r;
}

static int revert_reset(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	int r = reset(s, step->bdf, err);

	(void)original;
	if (r < 0 && r != -ENODEV)
		condemn(err, "it was not reset");
	return end_of(s, step, r);
}

/* What has another driver by now somebody has taken back, or a boot of the host: a guest left nothing in it. */
static int check_vfio(const struct steps *s, struct bdf fn, struct error *err)
{
	struct act_driver now = { 0 };
	int r = s->act.ops->driver(s->act.self, &now, fn, err);

	return r == 0 && strcmp(now.driver, "vfio-pci") != 0 ? error_set(err, -ENODEV, "it has not vfio-pci, but %s",
									 *now.driver ? now.driver : "no driver") : r;
}

int gate_reset(const struct steps *s, struct bdf fn, struct error *err)
{
	int r = check_vfio(s, fn, err);

	if (r == 0)
		r = reset(s, fn, err);

	if (r == -ENOTTY || r == -EBUSY) { /* it cannot be, or would hit others: that is for its delete to say */
		*err = ERROR_INIT;
		return 0;
	}
	if (r < 0 && r != -ENODEV)
		condemn(err, "it was not reset");
	return r;
}

const struct step_kind step_reset = { probe_used, apply_nothing, revert_reset };

/* ---- out of quarantine ----------------------------------------------------------------------------------- */

/* A card that was changed is looked at as one that an operator has put there. */
static int verify(const struct steps *s, const struct rows_step *step, struct error *why)
{
	struct act_alive now;
	int r = look(&s->act, &now, step->bdf, why);

	if (r == 0 && s->gate->was)
		r = check_whole(s->gate->was, &now, why);
	if (r != -ESTALE)
		return r;
	log_info("%s: %s", step->target, why->text);
	*why = ERROR_INIT;
	return 0;
}

/* A function that is gone took with it what it had; if it comes again, "lend" looks at it. */
static int cleanse(const struct steps *s, const struct rows_step *step, const char *driver, struct error *why)
{
	int r = s->gate->was ? reset(s, step->bdf, why) : 0;

	if (r == 0 && s->gate->was)
		r = scrub(s, step->bdf, why);
	if (r == 0)
		r = verify(s, step, why);
	if (r == 0 && driver)
		r = steps_driver_back(s, step, driver, why);
	if (r != -ENODEV)
		return r;
	*why = ERROR_INIT;
	return steps_gone(s, step);
}

static const char *owner_of(const struct plan_taken *taken, size_t n, struct bdf bdf)
{
	for (size_t i = 0; i < n; i++)
		if (bdf_eq(taken[i].bdf, bdf))
			return taken[i].owner;
	return NULL;
}

/* Whom a reset may hit: what the same stopped instance has; of one that nobody has, what of its device nobody has, if that is there
 * and no driver of the host works with it (act/reset). */
static int find_mine(struct gate *ret, struct store_tx *tx, const struct quarantine *q, struct bdf bdf, struct arena *arena, struct error *err)
{
	struct plan_taken *taken = NULL;
	const char *owner;
	struct bdf *mine;
	size_t n = 0;
	int r = rows_devices(tx, &taken, &n, arena, err);

	if (r < 0)
		return r;
	mine = arena_array(arena, n + 9, sizeof(*mine));
	if (!mine)
		return error_set(err, -ENOMEM, "no memory for rows of the store");
	ret->mine = mine;
	mine[ret->nmine++] = bdf;
	owner = owner_of(taken, n, bdf);
	ret->held = owner;
	for (size_t i = 0; i < n && owner; i++)
		if (!bdf_eq(taken[i].bdf, bdf) && strcmp(taken[i].owner, owner) == 0)
			mine[ret->nmine++] = taken[i].bdf;
	for (unsigned f = 0; f < 8 && !owner && bdf_is_none(q->pf); f++) { /* not of a VF: its neighbours are others' */
		struct bdf o = { .domain = bdf.domain, .bus = bdf.bus, .devfn = (uint8_t)((bdf.devfn & 0xf8) | f) };

		if (!bdf_eq(o, bdf) && !owner_of(taken, n, o))
			mine[ret->nmine++] = o;
	}
	return 0;
}

static int find_row(struct inst_manager *m, struct quarantine **ret, struct gate *gate, struct bdf bdf, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct act_alive now = { 0 };
	struct error ignored = ERROR_INIT;
	bool known = m->env.act.ops->alive(m->env.act.self, &now, bdf, &ignored) == 0 && now.answers && *now.serial;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = quarantine_find_any(tx, ret, bdf, known ? now.serial : NULL, arena, err);
	if (r < 0 || !*ret)
		return r;
	gate->was = (*ret)->was;
	return find_mine(gate, tx, *ret, bdf, arena, err);
}

static int drop_row(struct inst_manager *m, const struct quarantine *q, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = quarantine_drop(tx, q, err);
	return r < 0 ? r : store_commit(tx, err);
}

/* ---- when what hung has returned ------------------------------------------------------------------------- */

/* Whether the call that ran out of time is over, and how it looks now. well: it answers, and is a port: no guest had it, and whoever
 * needs one of its settings reads that first; but in quarantine it would hold up all that is below it. */
static bool look_again(struct inst_manager *m, const struct quarantine *q, bool *well, struct error *reason)
{
	struct act_alive now = { 0 };
	struct act_driver driver = { 0 };
	struct error why = ERROR_INIT;
	int r = m->env.act.ops->alive(m->env.act.self, &now, q->bdf, &why);

	if (r == 0 && now.answers)
		r = m->env.act.ops->driver(m->env.act.self, &driver, q->bdf, &why);
	if (r == -ETIMEDOUT)
		return false;
	if (r == 0 && !now.answers)
		(void)silent(&why);
	*well = r == 0 && now.answers && !q->was && !q->driver && strcmp(driver.driver, "pcieport") == 0;
	(void)error_set(reason, -EIO, "%.300s; that call is over, and now: %.120s%s", q->reason, r < 0 || !now.answers ? why.text : "it answers, driver ",
			r < 0 || !now.answers ? "" : *driver.driver ? driver.driver : "(none)");
	return true;
}

static int list_hanging(struct inst_manager *m, struct quarantine **ret, size_t *n, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	return r < 0 ? r : quarantine_list(tx, ret, n, arena, err);
}

static int say_again(struct inst_manager *m, const struct quarantine *q, const char *reason, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = quarantine_say(tx, q, reason, err);
	return r == 0 ? store_commit(tx, err) : r;
}

int gate_look_again(struct inst_manager *m, struct error *err)
{
	struct arena arena = { 0 };
	struct quarantine *q = NULL;
	size_t n = 0;
	int r = list_hanging(m, &q, &n, &arena, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct error reason = ERROR_INIT;
		bool well = false;

		if (!q[i].hangs || !look_again(m, &q[i], &well, &reason))
			continue;
		if (well)
			log_info("out of quarantine: %s", reason.text);
		r = well ? drop_row(m, &q[i], err) : say_again(m, &q[i], reason.text, err);
	}
	arena_done(&arena);
	return r;
}

static int find_original(struct inst_manager *m, const char **ret, const struct rows_step *step, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	return r < 0 ? r : rows_original_find(tx, ret, step, arena, err);
}

static int drop_original(struct inst_manager *m, const struct rows_step *step, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = rows_original_drop(tx, step, err);
	return r < 0 ? r : store_commit(tx, err);
}

/* What the delete of its guest could not set back. */
static int set_back(struct inst_manager *m, struct job *j, const struct steps *s, const struct rows_step *bind, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(set) && !s->gate->held; i++) {
		struct rows_step step = { .kind = set[i], .target = bind->target, .bdf = bind->bdf };
		const char *original = NULL;

		r = find_original(m, &original, &step, &j->arena, err);
		if (r < 0 || !original)
			continue;
		r = step_kinds[step.kind]->revert(s, &step, original, err);
		if (r == 0 || r == -ENODEV)
			r = drop_original(m, &step, err);
	}
	return r;
}

static int release(struct inst_manager *m, struct job *j, const struct rows_step *step, struct error *why, struct error *err)
{
	struct guard_self self = { .guard = m->guard };
	struct gate gate = { .release = m->env.release };
	struct steps_note note = { 0 };
	const struct steps s = { .act = guard_act(&self), .gate = &gate, .instance = "(quarantine)", .note = &note,
				 .vf_may_refuse = m->env.vf_may_refuse };
	struct quarantine *q = NULL;
	int r = find_row(m, &q, &gate, step->bdf, &j->arena, err);

	if (r < 0 || !q) /* this was done before a crash */
		return r;
	if (q->away || (adopt_check_function(m, step->bdf, why) == 0 && set_back(m, j, &s, step, why) == 0 &&
			cleanse(&s, step, q->driver, why) == 0))
		r = drop_row(m, q, err);
	return r;
}

int gate_run_release(struct inst_manager *m, struct job *j, struct error *err)
{
	struct rows_step step = { .kind = PLAN_STEP_BIND, .target = j->op->instance, .bdf = BDF_NONE };
	struct targets_hold hold = { .name = &step.target, .n = 1 }; /* a delete may come to it meanwhile */
	struct error why = ERROR_INIT, all = ERROR_INIT;
	int r;

	if (!bdf_parse(&step.bdf, step.target))
		return job_end_alone(m, j, &(struct error){ -EBADMSG, "the store has an operation on what is no BDF" }, err);
	targets_lock(&m->targets, &hold);
	r = release(m, j, &step, &why, err);
	targets_unlock(&m->targets, &hold);
	if (r < 0)
		return r;
	if (why.code)
		(void)error_set(&all, why.code, "%s stays in quarantine: %.400s", step.target, why.text);
	return job_end_alone(m, j, why.code ? &all : NULL, err);
}
