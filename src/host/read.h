/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/read — the parts of an inventory, each read by its own file (room-private). All return 0, -ENOMEM,
 * or an error that makes the whole inventory useless; everything else becomes a finding. */

#include "host/inventory.h"

#define HOST_FINDINGS_MAX 4096 /* a broken tree of 65,536 functions must not cost unbounded memory */

void host_findings_sort(struct inventory *inv); /* by function, then id: whatever the order of reading */


/* src/host/pci.c: functions, their places, capabilities, drivers, groups */
int host_pci_read(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds, struct error *err);
/* src/host/numa.c: nodes, CPUs, memory, hugepages, distances. old: what was read before, of which sizes of hugepages and distances are
 * taken where the nodes are the same; NULL: nothing. */
int host_numa_read(struct inventory *inv, const struct inventory *old, struct host_root *root, struct error *err);
/* src/host/system.c: kernel, CPU model, product, IOMMU, KVM; calls those below */
int host_system_read(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds, struct error *err);

/* Whether vfio-pci is there. */
void host_vfio_read(struct inventory *inv, struct host_root *root);

/* These return 0 or -ENOMEM. */
struct answers;
/* src/host/cpu.c: sockets, cores, their threads */
int host_cpu_read(struct inventory *inv, struct host_root *root);
/* src/host/boot.c: inv->cmdline decoded */
int host_boot_read(struct inventory *inv);
/* src/host/module.c: modules that matter and their parameters */
int host_module_read(struct inventory *inv, struct host_root *root);
/* src/host/net.c: what the network and RDMA stacks, devlink and lldpd say of each NIC */
int host_net_read(struct inventory *inv, struct host_root *root, struct answers *answers);
/* One NIC. */
int host_net_one(struct inventory *inv, struct host_root *root, const struct host_function *fn, struct host_nic *nic);
/* Only what a link event may have changed, into nic, which is a copy. 1; 0: other interfaces than before, so all has to
 * be read; -ENOMEM. */
int host_net_links(struct inventory *inv, struct host_root *root, const struct host_function *fn, struct host_nic *nic);
/* src/host/fabric.c: Fabric Manager */
int host_fabric_read(struct inventory *inv, struct host_root *root, struct answers *answers, const char *fmpm);

/* Foreign text in the arena; "" if it is empty, is not UTF-8, or has control characters. */
const char *host_text(struct inventory *inv, const char *text);
/* One file as host_text; "" if it cannot be read. */
const char *host_text_read(struct inventory *inv, struct host_root *root, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* "1048576kB" of "hugepages-1048576kB" in bytes; 0: it is no such name */
uint64_t host_pool_size(const char *name);
