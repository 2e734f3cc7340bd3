/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/settings — device control and power of GPUs, NICs and the ports above them: what is not as GPUDirect wants it, and
 * what velad sets for a guest. Pure.
 *
 * Set, and given back: Relaxed Ordering and Max_Read_Request_Size of GPUs and of the PFs behind VFs, which drivers change
 * under traffic, too (pcie_set_readrq(), drivers/pci/pci.c); tags only of GPUs, which are idle between bind and the start
 * of the guest; that nothing on the way sleeps. Only found: payload sizes, which have to agree all the way and are the
 * kernel's to set at boot. Of VFs nothing: in them these bits are reserved, their PF's count (PCIe 6.0, 9.3.5.4). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bdf.h"
#include "plan/plan.h"

enum plan_settings_level {
	PLAN_SETTINGS_SLOW,    /* right, but slower than it could be */
	PLAN_SETTINGS_UNSAFE,  /* transactions may be lost */
	PLAN_SETTINGS_UNKNOWN, /* what matters cannot be read, or was not */
};

struct plan_settings_finding {
	const char              *rule; /* "settings.read-request": stable */
	enum plan_settings_level level;
	struct bdf               bdf;
	const char              *observed, *needed, *fix; /* fix: by hand, now or at boot */
	bool                     set;  /* velad sets it while a guest has the function, or is below the port */
};

/* Of these GPUs and NICs (PFs) and of the ports above them; fn NULL: of all of the host, but not of one with another. By
 * function, then rule; the array and its texts are in the arena. -ENOMEM. */
int plan_settings_check(struct plan_settings_finding **ret, size_t *n, const struct topo *t, const struct bdf *fn,
			size_t nfn, struct arena *arena);

/* What instances hold already: it needs a step although nothing is to be written, or the last of them would take it away. */
struct plan_settings_held {
	enum plan_step_kind kind;
	struct bdf          bdf;
};

struct plan_settings_bundle {
	const struct topo *topo;
	const struct bdf  *gpu, *companion, *pf; /* pf: each once */
	size_t             ngpus, ncompanions, npfs;
	const struct plan_settings_held *held;
	size_t             nheld;
};

struct plan_settings_step {
	enum plan_step_kind kind;
	struct bdf          bdf;
	const char         *from, *to;
	bool                early; /* before functions are bound: what is above them must not sleep then */
};

/* In the order in which they are done. -ENOMEM. */
int plan_settings_steps(struct plan_settings_step **ret, size_t *n, const struct plan_settings_bundle *b,
			struct arena *arena);

#define PLAN_POWER_AWAKE "on,0" /* power/control, d3cold_allowed; "unknown,-" where they are not known */
