/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What functions refer to and what is not there: a NUMA node, VFs. A matter of the whole inventory, so that it is looked at
 * anew for each topology. */
#include "topo/missing.h"

#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "host/inventory.h"
#include "topo/topo.h"

/* The kernel has none of the memory and CPUs that are near to such a function. */
static int check_node(struct inventory *inv, const struct host_function *fn)
{
	int node = fn->facts->numa_node;

	if (node < 0 || !inv->nnodes || host_node_find(inv, node))
		return 0;
	return host_finding_add(inv, "topo.node-missing", fn->bdf,
				"it says that it is on NUMA node %d, which is not there: the firmware is wrong (_PXM, SRAT); write the "
				"right node to its numa_node", node);
}

static int check_vfs(struct inventory *inv, const struct host_function *fn, unsigned there)
{
	if (there >= fn->facts->numvfs)
		return 0;
	return host_finding_add(inv, "topo.vfs-missing", fn->bdf,
				"its sriov_numvfs is %u, but %u of its VFs are among the PCI functions; if it stays so, write 0 to it "
				"and then the number again", fn->facts->numvfs, there);
}

int topo_missing_check(const struct topo *t, struct inventory *inv)
{
	autofree uint16_t *vfs = calloc(topo_count(t) + 1, sizeof(*vfs));
	int r = vfs ? 0 : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < topo_count(t); i++) {
		const struct host_facts *f = inv->fn[i].facts;
		uint32_t pf = f->is_vf ? topo_find(t, f->pf) : TOPO_NONE;

		if (pf != TOPO_NONE)
			vfs[pf]++;
	}
	for (uint32_t i = 0; r == 0 && i < topo_count(t); i++) {
		if (inv->fn[i].facts->is_vf)
			continue;
		r = check_node(inv, &inv->fn[i]);
		if (r == 0)
			r = check_vfs(inv, &inv->fn[i], vfs[i]);
	}
	return r;
}
