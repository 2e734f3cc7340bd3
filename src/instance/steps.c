/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of steps, and the two walks over it; words.c has those of registers.
 *
 * What a step takes away is written down once per thing on the machine, by the first instance that
 * touches it (table "original"), and written back by the last one that holds it: instances that share the
 * VF count of a PF come and go in any order. A probe answers "is it already so?", so that nothing is
 * done twice, and a revert may be repeated after a crash. */
#include "instance/steps.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/parse.h"
#include "instance/steps_own.h"
#include "instance/store.h"

static int probe_vfio(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	int r;

	(void)step; /* there is one module */
	r = s->act.ops->vfio_loaded(s->act.self, &ret->so, err);
	if (r == 0)
		(void)snprintf(ret->value, sizeof(ret->value), "%s", ret->so ? "loaded" : "absent");
	return r;
}

static int apply_vfio(const struct steps *s, const struct rows_step *step, struct error *err)
{
	(void)step;
	return s->act.ops->vfio_load(s->act.self, err);
}

/* sriov_numvfs goes from 0 to n or from n to 0 only (drivers/pci/pci-sysfs.c, sriov_numvfs_store), and 0
 * would take VFs away that somebody may use: a PF with some, but too few, is refused. */
static int probe_vf_count(const struct steps *s, struct seen *ret, const struct rows_step *step,
			  struct error *err)
{
	uint64_t want;
	uint16_t now;
	int r;

	r = parse_uint(&want, step->to, 10, UINT16_MAX);
	if (r < 0)
		return error_set(err, -EINVAL, "\"%s\" is no VF count", step->to);
	r = s->act.ops->vf_count(s->act.self, &now, step->bdf, err);
	if (r < 0)
		return r;
	if (now > 0 && now < want)
		return error_set(err, -EBUSY, "it has %u VFs already and %u are needed; VFs can only be added to none: "
				 "remove those, or ask for fewer", (unsigned)now, (unsigned)want);
	ret->so = now >= want;
	(void)snprintf(ret->value, sizeof(ret->value), "%u", (unsigned)now);
	return 0;
}

static int apply_vf_count(const struct steps *s, const struct rows_step *step, struct error *err)
{
	uint64_t want;

	if (parse_uint(&want, step->to, 10, UINT16_MAX) < 0)
		return error_set(err, -EINVAL, "\"%s\" is no VF count", step->to);
	return s->act.ops->vf_count_set(s->act.self, step->bdf, (uint16_t)want, err);
}

/* A function that is gone took its driver, its override and its VFs with it (drivers/pci/probe.c,
 * pci_release_dev). That is so for VFs after a reboot, and for a device that was pulled. */
int steps_gone(const struct steps *s, const struct rows_step *step)
{
	log_info("instance %s: %s is gone from the host; nothing to give back", s->instance, step->target);
	return 0;
}

static int revert_vf_count(const struct steps *s, const struct rows_step *step, const char *original,
			   struct error *err)
{
	uint64_t want;
	uint16_t now;
	int r;

	if (parse_uint(&want, original, 10, UINT16_MAX) < 0)
		return error_set(err, -EBADMSG, "the store has \"%s\" as its original VF count", original);
	if (want > 0)
		return 0; /* velad only makes VFs where there are none: these are not its own */
	r = s->act.ops->vf_count(s->act.self, &now, step->bdf, err);
	if (r == -ENODEV)
		return steps_gone(s, step);
	if (r < 0)
		return r;
	return now == want ? 0 : s->act.ops->vf_count_set(s->act.self, step->bdf, (uint16_t)want, err);
}

/* "(none)": without a driver; "(new)": a VF that was not there when the plan was made. */
static const char *driver_name(const char *text)
{
	return text[0] == '(' ? "" : text;
}

static int want_driver(struct act_driver *ret, const char *driver, const char *override, struct error *err)
{
	if (strlen(driver) >= sizeof(ret->driver) || strlen(override) >= sizeof(ret->override))
		return error_set(err, -EINVAL, "driver name \"%.80s\" is too long", driver);
	(void)snprintf(ret->driver, sizeof(ret->driver), "%s", driver);
	(void)snprintf(ret->override, sizeof(ret->override), "%s", override);
	return 0;
}

/* Value: "driver/override". The name of a driver is the name of a directory and has no slash. */
static int probe_bind(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	const char *to = driver_name(step->to), *from = driver_name(step->from);
	struct act_driver now = { 0 };
	int r;

	r = s->act.ops->driver(s->act.self, &now, step->bdf, err);
	if (r < 0)
		return r;
	if (*from && strcmp(from, to) != 0 && strcmp(now.driver, to) == 0)
		return error_set(err, -ESTALE, "somebody else bound it to %s since the plan was made (it had %s); "
				 "it may be in use: ask again", to, from);
	ret->so = strcmp(now.driver, to) == 0 && strcmp(now.override, to) == 0;
	(void)snprintf(ret->value, sizeof(ret->value), "%s/%s", now.driver, now.override);
	return 0;
}

static int apply_bind(const struct steps *s, const struct rows_step *step, struct error *err)
{
	struct act_driver want = { 0 };
	const char *to = driver_name(step->to);
	int r;

	r = want_driver(&want, to, to, err);
	return r < 0 ? r : s->act.ops->driver_set(s->act.self, step->bdf, &want, err);
}

static int revert_bind(const struct steps *s, const struct rows_step *step, const char *original,
		       struct error *err)
{
	struct act_driver now = { 0 }, want = { 0 };
	const char *slash = strchr(original, '/');
	char driver[STEP_VALUE_MAX];
	int r;

	if (!slash || (size_t)(slash - original) >= sizeof(driver))
		return error_set(err, -EBADMSG, "the store has \"%.80s\" as its original driver", original);
	(void)snprintf(driver, sizeof(driver), "%.*s", (int)(slash - original), original);
	r = want_driver(&want, driver, slash + 1, err);
	if (r < 0)
		return r;
	r = s->act.ops->driver(s->act.self, &now, step->bdf, err);
	if (r == -ENODEV)
		return steps_gone(s, step);
	if (r < 0)
		return r;
	if (strcmp(now.driver, want.driver) == 0 && strcmp(now.override, want.override) == 0)
		return 0;
	return s->act.ops->driver_set(s->act.self, step->bdf, &want, err);
}

static int probe_domain(const struct steps *s, struct seen *ret, const struct rows_step *step,
			struct error *err)
{
	enum act_domain now;
	int r;

	r = s->act.ops->domain(s->act.self, &now, step->target, err);
	if (r < 0)
		return r;
	if (now != ACT_DOMAIN_ABSENT)
		return error_set(err, -EEXIST, "libvirt has a domain of that name which is not of velad; "
				 "undefine it or take another name");
	ret->so = false;
	(void)snprintf(ret->value, sizeof(ret->value), "absent");
	return 0;
}

static int apply_domain(const struct steps *s, const struct rows_step *step, struct error *err)
{
	assert(s->xml != NULL);
	return s->act.ops->domain_start(s->act.self, step->target, s->xml, err);
}

static int revert_domain(const struct steps *s, const struct rows_step *step, const char *original,
			 struct error *err)
{
	(void)original; /* always "absent": see probe_domain */
	return s->act.ops->domain_stop(s->act.self, step->target, err);
}

/* vfio has no revert: other users of the module may have come since, unloading it would race with them,
 * and loaded without devices it does nothing. */
static const struct step_kind step_vfio = { probe_vfio, apply_vfio, NULL };
static const struct step_kind step_vf_count = { probe_vf_count, apply_vf_count, revert_vf_count };
static const struct step_kind step_bind = { probe_bind, apply_bind, revert_bind };
static const struct step_kind step_domain = { probe_domain, apply_domain, revert_domain };

static const struct step_kind *const kinds[PLAN_STEP_MAX_] = {
	[PLAN_STEP_VFIO]     = &step_vfio,
	[PLAN_STEP_VF_COUNT] = &step_vf_count,
	[PLAN_STEP_BIND]     = &step_bind,
	[PLAN_STEP_POWER]    = &step_power,
	[PLAN_STEP_DEVCTL]   = &step_devctl,
	[PLAN_STEP_DEVCTL2]  = &step_devctl2,
	[PLAN_STEP_ACS]      = &step_acs,
	[PLAN_STEP_DOMAIN]   = &step_domain,
};

static int commit_begun(const struct steps *s, struct rows_step *step, const struct seen *seen,
			struct error *err)
{
	enum step_state state = seen->so ? STEP_DONE : STEP_BEGUN; /* no effect to come: one commit will do */
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, s->store, err);
	if (r == 0)
		r = rows_original_keep(tx, step, seen->value, err);
	if (r == 0)
		r = rows_step_set(tx, s->instance, step->seq, state, seen->value, err);
	if (r == 0)
		r = store_commit(tx, err);
	if (r == 0)
		step->state = state;
	return r;
}

static int commit_state(const struct steps *s, struct rows_step *step, enum step_state state,
			bool drop_original, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, s->store, err);
	if (r == 0)
		r = rows_step_set(tx, s->instance, step->seq, state, NULL, err);
	if (r == 0 && drop_original)
		r = rows_original_drop(tx, step, err);
	if (r == 0)
		r = store_commit(tx, err);
	if (r == 0)
		step->state = state;
	return r;
}

/* Who looks at what is kept must not set again what is given back just now. */
static void lock_kept(const struct steps *s, const struct rows_step *step)
{
	if (s->kept && step->kind == PLAN_STEP_ACS)
		(void)pthread_mutex_lock(s->kept);
}

static void unlock_kept(const struct steps *s, const struct rows_step *step)
{
	if (s->kept && step->kind == PLAN_STEP_ACS)
		(void)pthread_mutex_unlock(s->kept);
}

static int apply_one(const struct steps *s, struct rows_step *step, struct error *err)
{
	const struct step_kind *kind = kinds[step->kind];
	struct seen seen = { 0 };
	int r;

	r = kind->probe(s, &seen, step, err);
	if (r == 0)
		r = commit_begun(s, step, &seen, err);
	if (r < 0 || seen.so)
		return r;
	r = kind->apply(s, step, err);
	return r < 0 ? r : commit_state(s, step, STEP_DONE, false, err);
}

int steps_apply(const struct steps *s, struct error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct rows_step *step = &s->step[i];
		int r;

		lock_kept(s, step);
		r = apply_one(s, step, err);
		unlock_kept(s, step);
		if (r < 0)
			return error_prefix(err, "step %s %s", plan_step_text(step->kind), step->target);
	}
	return 0;
}

/* What others who hold the target make of it, and its original value; NULL: there is none. */
struct former {
	const char *original, **others;
	size_t      nothers;
};

static int find_original(const struct steps *s, struct former *ret, const struct rows_step *step, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r;

	r = store_begin(&tx, s->store, err);
	if (r == 0)
		r = rows_step_others(tx, &ret->others, &ret->nothers, s->instance, step, arena, err);
	if (r == 0)
		r = rows_original_find(tx, &ret->original, step, arena, err);
	return r;
}

/* A step that was never begun is looked at as well: while it waited, the last other holder of its target
 * may have gone and left the original to it. */
static int revert_one(const struct steps *s, struct rows_step *step, struct error *err)
{
	const struct step_kind *kind = kinds[step->kind];
	struct arena arena = { 0 };
	struct former f = { 0 };
	bool original, shared;
	struct error ignored = ERROR_INIT;
	int r;

	if (step->state == STEP_REVERTED)
		return 0;
	r = find_original(s, &f, step, &arena, err);
	original = f.original;
	shared = f.nothers > 0;
	if (r == 0 && original && !shared && kind->revert)
		r = kind->revert(s, step, f.original, err);
	else if (r == 0 && original && shared && kind->release && step->state != STEP_PENDING)
		r = kind->release(s, step, f.original, f.others, f.nothers, err);
	arena_done(&arena);
	if (r < 0) {
		if (step->state != STEP_PENDING || original)
			(void)commit_state(s, step, STEP_FAILED, false, &ignored); /* r is what counts */
		return r;
	}
	if (step->state == STEP_PENDING && (!original || shared))
		return 0;
	return commit_state(s, step, STEP_REVERTED, original && !shared, err);
}

int steps_revert(const struct steps *s, struct error *err)
{
	int first = 0;

	for (size_t i = s->n; i-- > 0;) {
		struct rows_step *step = &s->step[i];
		struct error e = ERROR_INIT;
		int r;

		lock_kept(s, step);
		r = revert_one(s, step, &e);
		unlock_kept(s, step);
		if (r == 0)
			continue;
		(void)error_prefix(&e, "step %s %s", plan_step_text(step->kind), step->target);
		if (first == 0) {
			*err = e;
			first = r;
		} else {
			log_err("instance %s: cannot revert %s", s->instance, e.text); /* the first is the caller's */
		}
		/* Unbinding a function that a guest has open waits for that guest (drivers/vfio/vfio_main.c,
		 * vfio_unregister_group_dev), perhaps for ever. */
		if (step->kind == PLAN_STEP_DOMAIN)
			break;
	}
	return first;
}
