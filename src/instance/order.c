/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/order.h"

#include <string.h>

#define KIND(k) (1u << PLAN_STEP_##k)

/* A kind that is not in the table waits for all, and all for it. */
static const struct {
	bool     known;
	unsigned needs; /* kinds, of any target; and whatever comes before it on its own target */
} kinds[PLAN_STEP_MAX_] = {
	[PLAN_STEP_VFIO]     = { true, 0 },
	[PLAN_STEP_AUTOPROBE] = { true, 0 },
	[PLAN_STEP_VF_COUNT] = { true, 0 },
	/* of what is bound; so resets come after all words on the way back, and all at once */
	[PLAN_STEP_POWER]    = { true, KIND(RESET) },
	[PLAN_STEP_BIND]     = { true, KIND(VFIO) | KIND(VF_COUNT) | KIND(POWER) },
	[PLAN_STEP_LEND]     = { true, 0 },
	[PLAN_STEP_SCRUB]    = { true, 0 },
	[PLAN_STEP_RESET]    = { true, KIND(VF_COUNT) | KIND(POWER) }, /* what sleeps is not reset */
	/* what a driver does when it lets go of a function, or takes it, comes before; and a path between functions is opened
	 * only when none of them is the host's any more */
	[PLAN_STEP_VF]       = { true, KIND(VF_COUNT) | KIND(POWER) | KIND(BIND) },
	[PLAN_STEP_DEVCTL]   = { true, KIND(VF_COUNT) | KIND(BIND) | KIND(RESET) },
	[PLAN_STEP_DEVCTL2]  = { true, KIND(VF_COUNT) | KIND(BIND) | KIND(RESET) },
	[PLAN_STEP_ACS]      = { true, KIND(VF_COUNT) | KIND(BIND) },
};

/* Two words of one function, neither of which cares for the other. Not so power: what is written to a function in D3hot is lost when it
 * wakes, as the kernel restores what it saved (pci_pm_runtime_resume(), drivers/pci/pci-driver.c); so it is kept awake for all words. */
static bool apart(const struct rows_step *a, const struct rows_step *b)
{
	const unsigned words = KIND(DEVCTL) | KIND(DEVCTL2);

	return a->kind != b->kind && words >> a->kind & 1 && words >> b->kind & 1;
}

bool order_needs(const struct rows_step *b, const struct rows_step *a)
{
	if (apart(a, b))
		return false;
	return !kinds[b->kind].known || !kinds[a->kind].known || kinds[b->kind].needs >> a->kind & 1 || strcmp(a->target, b->target) == 0;
}

static bool may_begin(const struct rows_step *step, size_t n, const bool *done, bool backwards, size_t i)
{
	for (size_t k = 0; k < i && !backwards; k++)
		if (!done[k] && order_needs(&step[i], &step[k]))
			return false;
	for (size_t k = i + 1; k < n && backwards; k++)
		if (!done[k] && order_needs(&step[k], &step[i]))
			return false;
	return true;
}

size_t order_next(size_t *ret, const struct rows_step *step, size_t n, const bool *done, bool backwards)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		if (!done[i] && may_begin(step, n, done, backwards, i))
			ret[found++] = i;
	return found;
}
