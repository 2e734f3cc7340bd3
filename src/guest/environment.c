/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What NCCL is told in the guest: lines NAME=VALUE without comments, which /etc/nccl.conf and /etc/environment both take
 * (NVIDIA, NCCL user guide, Environment Variables). */
#include <errno.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "guest/guest.h"
#include "host/inventory.h"
#include "topo/topo.h"

#define MELLANOX 0x15b3

/* NCCL takes a list of prefixes. mlx5_0 is what the driver says; rdma-core's rule names it by its place then, rocep1s0 or
 * ibp1s0 (rdma-core, kernel-boot/rdma-persistent-naming.rules). Other vendors' names are not known to be stable. */
static bool are_mellanox(const struct plan *plan, const struct topo *topo)
{
	for (size_t i = 0; i < plan->nvfs; i++) {
		uint32_t pf = topo_find(topo, plan->vf[i].pf);

		if (pf == TOPO_NONE || topo_at(topo, pf)->fn->facts->vendor != MELLANOX)
			return false;
	}
	return plan->nvfs;
}

int guest_environment(char **ret, const struct plan *plan, const struct topo *topo, struct error *err)
{
	struct sbuf text = { 0 };

	if (plan->ngpus)
		sbuf_add(&text, "NCCL_TOPO_FILE=" GUEST_NCCL_PATH "\n");
	if (plan->ngpus && plan->nvfs)
		sbuf_add(&text, "NCCL_IB_PCI_RELAXED_ORDERING=2\n"); /* where the device can; 1 would fail where it cannot */
	if (plan->ngpus && are_mellanox(plan, topo))
		sbuf_add(&text, "NCCL_IB_HCA=mlx5,rocep,ibp\n");
	*ret = sbuf_steal(&text);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the guest's environment");
}
