/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/change — which functions may differ from what an inventory says. A set of places to look at. */

#include <stdbool.h>
#include <stddef.h>

#include "base/bdf.h"

#define HOST_CHANGES_MAX 4096 /* reading everything costs no more than reading so many */

struct host_change {
	struct bdf bdf;
	bool       anew; /* it may be another device now; else at most its state differs */
};

struct host_changes {
	struct host_change *at; /* owned; sorted by BDF, none twice */
	size_t              n, size;
	bool                lost;   /* there are others, nobody knows which: read everything */
	bool                host;   /* what concerns the whole host, too: memory, hugepages, modules */
};

/* Beyond the limit, and without memory, `lost` is set. */
void host_changes_add(struct host_changes *c, struct bdf bdf, bool anew);
void host_changes_merge(struct host_changes *c, const struct host_changes *more);
void host_changes_done(struct host_changes *c); /* empty then, and usable */

static inline bool host_changes_any(const struct host_changes *c)
{
	return c->n || c->lost || c->host;
}
