/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/reconcile_rules.h"

#include <stddef.h>
#include <string.h>

const char *const reconcile_rules[] = { LIBVIRT_UNKNOWN, RENAMED, RUNS, UNPROVISIONED, SHARED, ELSEWHERE, MISSING, BOUND, GROUP, P2P_LOST, NULL };

bool reconcile_finds(const char *rule)
{
	for (size_t i = 0; reconcile_rules[i]; i++)
		if (strcmp(reconcile_rules[i], rule) == 0)
			return true;
	return false;
}
