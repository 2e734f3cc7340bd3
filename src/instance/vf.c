/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The step "vf": a VF has what its guest was promised, and else what is standard, whatever its last user left. What it
 * was before comes back when it is given back. Before a VF is the host's own again: a driver of the host must not see it
 * with a tenant's address. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "instance/steps_own.h"
#include "plan/vf.h"

_Static_assert(STEP_VALUE_MAX >= PLAN_VF_TEXT_MAX, "a value has room for all settings of a VF");

/* What fresh VFs differ in, from driver to driver. */
#define VARIES (PLAN_VF_ADDRESS | PLAN_VF_BIT(PLAN_VF_SPOOF_CHECK))

/* One to a step: that something is not as asked counts more than what was there before. */
static void note(const struct steps *s, const char *rule, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void note(const struct steps *s, const char *rule, const char *fmt, ...)
{
	va_list ap;

	if (!s->note) /* nobody asks what giving back meets */
		return;
	s->note->rule = rule;
	va_start(ap, fmt);
	(void)vsnprintf(s->note->text.text, sizeof(s->note->text.text), fmt, ap); /* a cut text still says it */
	va_end(ap);
}

static int wanted(struct plan_vf_settings *asked, struct plan_vf_settings *whole, const struct rows_step *step, struct error *err)
{
	int r = plan_vf_parse(asked, step->to, err);

	if (r == 0)
		*whole = plan_vf_whole(asked);
	return r;
}

static int probe_vf(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	struct plan_vf_settings asked = { 0 }, want = { 0 }, now = { 0 };
	struct error why = ERROR_INIT;
	int r = wanted(&asked, &want, step, err);

	if (r < 0)
		return r;
	r = s->act.ops->vf(s->act.self, &now, step->bdf, NULL, &why);
	if (r == -ENETDOWN && !(asked.has & ~PLAN_VF_ADDRESS))
		return 0; /* apply_vf() says it */
	*err = why;
	if (r < 0)
		return r;
	ret->so = plan_vf_changes(&now, &want) == 0 && (asked.has & ~now.has) == 0;
	(void)plan_vf_text(ret->value, &now);
	return 0;
}

/* A driver that has no such thing cannot be asked for it. */
static int check_has(const struct steps *s, const struct plan_vf_settings *now, const struct plan_vf_settings *asked,
		     struct error *err)
{
	uint32_t lacks = asked->has & ~now->has & ~s->vf_may_refuse;
	char names[PLAN_VF_TEXT_MAX];

	if (!lacks)
		return 0;
	return error_set(err, -ENXIO, "the driver of its PF has no %.100s; leave it out of the request, or list it in [vf] may_refuse",
			 plan_vf_names(names, lacks));
}

static void say_left(const struct steps *s, const struct rows_step *step, const struct plan_vf_settings *now, uint32_t left)
{
	struct plan_vf_settings was = plan_vf_pick(now, left);
	char text[PLAN_VF_TEXT_MAX];

	if (left)
		note(s, "vf.left", "%s was left with %s by whoever had it before; it is set back first", step->target, plan_vf_text(text, &was));
}

/* One message of the kernel after the other. What may be refused is said, and goes on. */
static int set(const struct steps *s, const struct rows_step *step, const struct plan_vf_settings *now,
	       const struct plan_vf_settings *want, struct error *err)
{
	uint32_t changes = plan_vf_changes(now, want), group;
	struct plan_vf_settings ignored;

	while ((group = plan_vf_group(changes))) {
		struct plan_vf_settings some = plan_vf_pick(want, group & now->has);
		uint32_t mine = changes & group;
		struct error why = ERROR_INIT;
		int r;

		changes &= ~group;
		r = s->act.ops->vf(s->act.self, &ignored, step->bdf, &some, &why);
		if (r == -ENXIO && !(mine & ~s->vf_may_refuse))
			note(s, "vf.refused", "%s", why.text);
		else if (r == -ENXIO)
			return error_set(err, r, "%.180s; change the request, or list it in [vf] may_refuse", why.text);
		else if (r < 0) {
			*err = why;
			return r;
		}
	}
	return 0;
}

/* Where nothing is asked but an address, and the PF has no interface, the guest has the VF as it is. */
static int apply_vf(const struct steps *s, const struct rows_step *step, struct error *err)
{
	struct plan_vf_settings asked = { 0 }, want = { 0 }, now = { 0 };
	struct error why = ERROR_INIT;
	int r = wanted(&asked, &want, step, err);

	if (r == 0)
		r = s->act.ops->vf(s->act.self, &now, step->bdf, NULL, &why);
	if (r == -ENETDOWN && !(asked.has & ~PLAN_VF_ADDRESS)) {
		note(s, "vf.unseen", "%s: its settings are as they were, and unknown: %s", step->target, why.text);
		return 0;
	}
	if (why.code)
		*err = why;
	if (r == 0)
		r = check_has(s, &now, &asked, err);
	if (r < 0)
		return r;
	say_left(s, step, &now, plan_vf_changes(&now, &want) & ~asked.has & ~VARIES);
	return set(s, step, &now, &want, err);
}

static int revert_vf(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	struct plan_vf_settings was = { 0 }, now = { 0 };
	struct error why = ERROR_INIT;
	int r = 0;

	if (!*original)
		return 0; /* it was not seen */
	if (plan_vf_parse(&was, original, &why) < 0)
		return error_set(err, -EBADMSG, "the store has \"%.80s\" as what it was before", original);
	r = s->act.ops->vf(s->act.self, &now, step->bdf, NULL, &why);
	if (r == -ENODEV)
		return steps_gone(s, step);
	*err = why;
	return r < 0 ? r : set(s, step, &now, &was, err);
}

const struct step_kind step_vf = { probe_vf, apply_vf, revert_vf };
