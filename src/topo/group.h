/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/group — the IOMMU groups that Linux would form from given ACS control words. Pure. What the kernel did form is in
 * the inventory; this is for words that would be there after the next boot. */

#include <stdint.h>

#include "topo/topo.h"

/* By node, the node that stands for its group: two functions share a group if theirs are the same. ctl as in topo_route().
 * pci_device_group(), drivers/iommu/iommu.c, as of 6.12: its quirks of single devices are not modelled, and what cannot be
 * read counts as isolating, so that no group is relied on that may not come to be. */
void topo_groups(uint32_t *ret, const struct topo *t, const uint16_t *ctl);
