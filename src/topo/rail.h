/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/rail — which NIC ports pair with which GPU, and which GPUs share an NVLink domain, as far as facts go. */

#include "topo/topo.h"

/* For topo_build(), when the graph stands: fills node[].rail. -ENOMEM. */
int topo_rails_set(const struct topo *t, struct topo_node *node);

/* The NVLink domain of a GPU or NVSwitch; -1 unknown. Only a vendor's tools see NVLink. A GPU in a partition of
 * Fabric Manager is on its fabric. What PCI shows: NVSwitch functions, so there is a fabric, one per host; and
 * if all NVIDIA GPUs are of one model, they are what is on it. With several models nobody says which.
 * NVSwitches of another host or tray do not show at all. */
int topo_nvlink_domain(const struct topo *t, uint32_t i);

/* "gpus": per GPU its rail, NICs and NVLink domain. NULL: no memory. */
struct json_object *topo_gpus_json(const struct topo *t);
