/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/read — the parts of an inventory, each read by its own file (room-private). All return 0, -ENOMEM,
 * or an error that makes the whole inventory useless; everything else becomes a finding. */

#include "host/inventory.h"

/* src/host/pci.c: functions, their places, capabilities, drivers, groups */
int host_pci_read(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds, struct error *err);
/* src/host/numa.c: nodes, CPUs, memory, hugepages, distances */
int host_numa_read(struct inventory *inv, struct host_root *root, struct error *err);
/* src/host/system.c: kernel, CPU model, product, IOMMU, KVM */
int host_system_read(struct inventory *inv, struct host_root *root, struct error *err);
