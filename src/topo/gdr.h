/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/gdr — GPUDirect RDMA between one NIC and one GPU, as the three transactions it is made of. Pure. */

#include "host/inventory.h"
#include "topo/route.h"

enum topo_gdr_part {
	TOPO_GDR_WRITE,  /* the NIC writes GPU memory (receive) */
	TOPO_GDR_READ,   /* the NIC asks for GPU memory (send) */
	TOPO_GDR_ANSWER, /* the GPU answers, with Relaxed Ordering */
	TOPO_GDR_PARTS,
};

struct topo_gdr {
	enum host_known   ats; /* as it was told */
	struct topo_route part[TOPO_GDR_PARTS];
	enum topo_gdr_part worst; /* its verdict is that of the pair */
};

/* Whether such a function reaches GPU memory for a NIC: its PF, or its data-direct function, which then does it instead
 * (mlx5: by another way through the tree). */
bool topo_gdr_by(enum host_kind kind);
/* Whether the NIC (a VF: its PF) has the capability: only with it can requests be translated. That is what control of ports is planned
 * for; that they will be translated takes more: topo_ats_known(). */
enum host_known topo_gdr_ats(const struct topo *t, uint32_t nic);
/* nic: a PF, VF or data-direct function. ctl as in topo_route(). ats: whether its requests are translated; UNKNOWN: where it matters, so
 * are the routes. */
void topo_gdr(struct topo_gdr *ret, const struct topo *t, const uint16_t *ctl, enum host_known ats, uint32_t nic, uint32_t gpu);
