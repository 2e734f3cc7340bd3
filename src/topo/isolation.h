/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/isolation — what reaches what without an IOMMU in between, by the routes of topo/route. Pure. */

#include "topo/route.h"

struct inventory;

struct topo_leak {
	uint32_t       from, to;
	bool           certain; /* the route is direct; else it cannot be told, which is no isolation either */
	enum topo_rule rule;
	uint32_t       decided; /* where; TOPO_NONE */
};

/* Untranslated requests between the functions of one set (a bundle) and all other endpoints, both ways, that are
 * not sure to pass the root complex. How many there are; the first `most` are written. Functions inside the
 * root complex are left out: what they send passes the IOMMU that their group stands for. */
size_t topo_leaks(struct topo_leak *ret, size_t most, const struct topo *t, const uint16_t *ctl, const uint32_t *set,
		  size_t n);

/* For topo_build(): IOMMU groups that claim more isolation than the ACS bits of today give, and groups that hold
 * together what these bits keep apart, become findings. Linear in the functions. -ENOMEM. */
int topo_groups_check(const struct topo *t, struct inventory *inv);
