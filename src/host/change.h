/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/change — which functions may differ from what an inventory says. A set of places to look at. */

#include <stdbool.h>
#include <stddef.h>

#include "base/bdf.h"

#define HOST_CHANGES_MAX 4096 /* reading everything costs no more than reading so many */

enum host_change_what {
	HOST_CHANGE_STATE = 1, /* of the function: driver, VFs, registers */
	HOST_CHANGE_ANEW = 3,  /* it came, went or moved: it may be another device now */
	HOST_CHANGE_NET = 4,   /* of network interfaces or RDMA devices below it */
};

struct host_change {
	struct bdf bdf;
	unsigned   what;
};

struct host_changes {
	struct host_change *at; /* owned; sorted by BDF, none twice */
	size_t              n, size;
	bool                lost;   /* there are others, nobody knows which: read everything */
	bool                memory; /* free memory, hugepages and vfio-pci, too */
	bool                host;   /* all that concerns the whole host, too */
};

/* Beyond the limit, and without memory, `lost` is set. */
void host_changes_add(struct host_changes *c, struct bdf bdf, unsigned what);
void host_changes_merge(struct host_changes *c, const struct host_changes *more);
bool host_changes_cover(const struct host_changes *c, const struct host_changes *which); /* the functions of which are in c, with what is said of them */
void host_changes_done(struct host_changes *c); /* empty then, and usable */

static inline bool host_changes_any(const struct host_changes *c)
{
	return c->n || c->lost || c->memory || c->host;
}
