/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The step that activates the guest's partition of NVSwitches before it starts, and deactivates it when it has ended. */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/parse.h"
#include "instance/steps_own.h"

static int number(unsigned *ret, const struct rows_step *step, struct error *err)
{
	uint64_t n;

	if (parse_uint(&n, step->target, 10, INT32_MAX) < 0)
		return error_set(err, -EBADMSG, "\"%.40s\" is no number of a partition", step->target);
	*ret = (unsigned)n;
	return 0;
}

static int set(const struct steps *s, bool *active, const struct rows_step *step, enum act_want want, struct error *err)
{
	unsigned id = 0;
	int r = number(&id, step, err);

	return r < 0 ? r : s->act.ops->partition(s->act.self, active, id, want, err);
}

static int probe(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	bool active = false;
	int r = set(s, &active, step, ACT_LOOK, err);

	if (r == 0 && active && step->state == STEP_PENDING)
		return error_set(err, -ESTALE, "somebody activated it since the plan was made; ask again");
	ret->so = active;
	(void)snprintf(ret->value, sizeof(ret->value), "inactive");
	return r;
}

static int apply(const struct steps *s, const struct rows_step *step, struct error *err)
{
	bool active;

	return set(s, &active, step, ACT_ON, err);
}

static int revert(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	bool active;

	(void)original; /* always "inactive": see probe() */
	return set(s, &active, step, ACT_OFF, err);
}

const struct step_kind step_partition = { probe, apply, revert };
