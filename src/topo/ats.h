/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/ats — whether what a NIC asks for will be translated in a guest: only then can it go direct past ACS. Pure.
 *
 * The kernel enables ATS of a function when VFIO attaches it to the guest's I/O address space, which is after planning;
 * here is what can be known before. Whether the firmware's tables let it (DMAR ATSR, IVRS, IORT) shows only then, so
 * "ok" is a plan, and ATS control of the function is looked at while the guest runs. The GPU's own ATS has no part in
 * what a NIC asks for. */

#include "base/arena.h"
#include "topo/topo.h"

enum topo_ats_state { TOPO_ATS_OK, TOPO_ATS_NO, TOPO_ATS_UNKNOWN };

struct topo_ats {
	enum topo_ats_state state;
	const char *rule;     /* "ats.identity"; "" where it is OK, like all below */
	const char *observed; /* what is there */
	const char *needed;
	const char *fix;      /* what to do, commands in full */
};

/* at: a PF, a VF or a data-direct function. vf: what the guest gets is a VF of it, which need not exist yet; of a VF it
 * goes without saying. Texts are in the arena. -ENOMEM. */
int topo_ats(struct topo_ats *ret, const struct topo *t, uint32_t at, bool vf, struct arena *arena);
/* The same without words, of what a guest gets of the function: of a NIC its VFs. PRESENT: they will be translated. */
enum host_known topo_ats_known(const struct topo *t, uint32_t at);
