/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/reset — whether a function may be reset, by whom else it would hit. Pure: the caller says what is around it. */

#include <stddef.h>

#include "base/bdf.h"

enum plan_reset {
	PLAN_RESET_FUNCTION, /* by itself: nothing else is touched */
	PLAN_RESET_BUS,      /* by its bus, on which it is alone */
	PLAN_RESET_NONE,     /* the kernel knows no way */
	PLAN_RESET_HITS,     /* it would hit others: `hit` is the first */
	PLAN_RESET_TOGETHER, /* by its bus, with others of its own holder: through the port above, for the kernel does not do that for one */
};

struct plan_reset_in {
	const char       *methods; /* of reset_method: "flr bus"; "" none */
	struct bdf        fn;
	const struct bdf *bus;     /* on the same bus, without fn */
	size_t            nbus;
	const struct bdf *vf;      /* its VFs: they go with it, whatever the method */
	size_t            nvfs;
	const struct bdf *mine;    /* of the same holder */
	size_t            nmine;
};

enum plan_reset plan_reset_choose(struct bdf *hit, const struct plan_reset_in *in);
