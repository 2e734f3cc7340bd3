/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel tries the methods of reset_method in order, and goes on to the next where one does not work
 * (__pci_reset_function_locked(), drivers/pci/pci.c). "bus" is a secondary bus reset of the bridge above, and so is the
 * slot reset behind the same word; the kernel does them only for a function that is alone on its bus
 * (pci_parent_bus_reset(), pci_dev_reset_slot_function()), but does not count the VFs of a PF, which are on a bus of
 * their own. So a function with a method of its own hits nobody but its VFs. All of a bus are reset by reset_subordinate of the
 * port above. */
#include "plan/reset.h"

#include <stdbool.h>
#include <string.h>

static bool is_word(const char *at, size_t n, const char *word)
{
	return strlen(word) == n && strncmp(at, word, n) == 0;
}

/* pci_reset_fn_methods[]: device_specific, acpi, flr, af_flr and pm are of one function. A word that is not known here is
 * taken for one that is not. */
static void count_methods(const char *methods, size_t *own, size_t *others)
{
	static const char *const of_function[] = { "device_specific", "acpi", "flr", "af_flr", "pm" };

	*own = *others = 0;
	for (const char *at = methods + strspn(methods, " \n"); *at; at += strspn(at, " \n")) {
		size_t n = strcspn(at, " \n");
		bool is = false;

		for (size_t i = 0; i < sizeof(of_function) / sizeof(of_function[0]); i++)
			is = is || is_word(at, n, of_function[i]);
		*(is ? own : others) += 1;
		at += n;
	}
}

static bool is_mine(const struct plan_reset_in *in, struct bdf fn)
{
	for (size_t i = 0; i < in->nmine; i++)
		if (bdf_eq(in->mine[i], fn))
			return true;
	return bdf_eq(in->fn, fn);
}

static bool stranger(struct bdf *hit, const struct plan_reset_in *in, const struct bdf *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_mine(in, at[i])) {
			*hit = at[i];
			return true;
		}
	return false;
}

enum plan_reset plan_reset_choose(struct bdf *hit, const struct plan_reset_in *in)
{
	size_t own, others;

	count_methods(in->methods, &own, &others);
	*hit = BDF_NONE;
	if (own + others == 0)
		return PLAN_RESET_NONE;
	if (stranger(hit, in, in->vf, in->nvfs))
		return PLAN_RESET_HITS;
	if (own)
		return PLAN_RESET_FUNCTION;
	if (stranger(hit, in, in->bus, in->nbus))
		return PLAN_RESET_HITS;
	return in->nbus ? PLAN_RESET_TOGETHER : PLAN_RESET_BUS;
}
