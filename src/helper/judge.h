/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* helper/judge — may velad have this? Every argument against the helper's own reading of the machine and its own copy of
 * velad.conf, as if velad were somebody else by now. */

#include "act/pci.h"
#include "act/wire.h"
#include "host/kind.h"

struct error;

struct judge {
	const struct act_pci *pci;          /* borrowed */
	struct host_kinds     kinds;
	const char           *overrides;    /* a directory: driver overrides that were there before velad's first; NULL: none kept */
};

/* -ENODEV: there is no such function; -EPERM: not velad's to ask, -EIO: it cannot be told. The text says why. */
int judge_call(const struct judge *j, const struct wire_call *c, struct error *err);
