/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/acs_boot — the kernel argument of an ACS plan, for plan/acs. Pure. */

#include <stdbool.h>

#include "plan/acs.h"

/* Fills in what is said of the boot, and makes pairs that are impossible at run time "boot" where it makes them direct.
 * -ENOMEM. */
int plan_acs_boot(struct plan_acs *p, const struct topo *t, bool exclusive);

/* Where Direct Translated P2P would let it across: the first port that turns it away; TOPO_NONE. */
uint32_t plan_acs_turned_at(const struct topo_route *r);
