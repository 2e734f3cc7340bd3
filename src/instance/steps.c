/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of steps; words.c has those of registers, walk.c the two walks over it.
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

/* Value: "1", "0"; "-": the kernel has no such switch. */
static int probe_autoprobe(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	int now = -1;
	int r = s->act.ops->autoprobe(s->act.self, &now, step->bdf, ACT_LOOK, err);

	if (r < 0)
		return r;
	ret->so = now <= 0;
	(void)snprintf(ret->value, sizeof(ret->value), "%s", now < 0 ? "-" : now ? "1" : "0");
	return 0;
}

static int apply_autoprobe(const struct steps *s, const struct rows_step *step, struct error *err)
{
	int now;

	return s->act.ops->autoprobe(s->act.self, &now, step->bdf, ACT_OFF, err);
}

static int revert_autoprobe(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	int now, r = strcmp(original, "1") == 0 ? s->act.ops->autoprobe(s->act.self, &now, step->bdf, ACT_ON, err) : 0;

	return r == -ENODEV ? steps_gone(s, step) : r;
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
	if (step->state == STEP_PENDING && *from && strcmp(from, to) != 0 && strcmp(now.driver, to) == 0 &&
	    !rows_is_holder(s->instance)) /* the pool uses nothing: who bound it may go on */
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

int steps_driver_back(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
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
	if (now != ACT_DOMAIN_ABSENT && step->state == STEP_PENDING)
		return error_set(err, -EEXIST, "libvirt has a domain of that name which is not of velad; "
				 "undefine it or take another name");
	ret->so = now == ACT_DOMAIN_RUNNING;
	(void)snprintf(ret->value, sizeof(ret->value), "absent"); /* before the first start */
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
static const struct step_kind step_autoprobe = { probe_autoprobe, apply_autoprobe, revert_autoprobe };
static const struct step_kind step_bind = { probe_bind, apply_bind, steps_driver_back };
static const struct step_kind step_domain = { probe_domain, apply_domain, revert_domain };

const struct step_kind *const step_kinds[PLAN_STEP_MAX_] = {
	[PLAN_STEP_DISK]     = &step_disk,
	[PLAN_STEP_SEED]     = &step_seed,
	[PLAN_STEP_IMAGE]    = &step_image,
	[PLAN_STEP_VFIO]     = &step_vfio,
	[PLAN_STEP_VF_COUNT] = &step_vf_count,
	[PLAN_STEP_AUTOPROBE] = &step_autoprobe,
	[PLAN_STEP_BIND]     = &step_bind,
	[PLAN_STEP_LEND]     = &step_lend,
	[PLAN_STEP_SCRUB]    = &step_scrub,
	[PLAN_STEP_RESET]    = &step_reset,
	[PLAN_STEP_VF]       = &step_vf,
	[PLAN_STEP_POWER]    = &step_power,
	[PLAN_STEP_DEVCTL]   = &step_devctl,
	[PLAN_STEP_DEVCTL2]  = &step_devctl2,
	[PLAN_STEP_ACS]      = &step_acs,
	[PLAN_STEP_PARTITION] = &step_partition,
	[PLAN_STEP_DOMAIN]   = &step_domain,
};
