/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* guest/layout — where everything sits in the guest's PCIe tree, as numbers. Pure.
 *
 *   pcie-root --- pcie-expander-bus (one per guest NUMA cell and root complex of the host that have devices)
 *                   `- pcie-root-port (one per host switch that is below no other)
 *                        `- pcie-switch-upstream-port
 *                             `- pcie-switch-downstream-port (one per host device, or switch below this one)
 *                                  `- the device's functions, or a pcie-switch-upstream-port and so on
 *
 * A switch of switches that would have one thing below it in the guest is left out; all of them, where root ports are asked
 * for. A device with no switch above it on the host has a root port of its own. Devices whose NUMA node is not
 * among the cells hang below pcie-root, where the guest sees no node for them. A VF that does not exist
 * yet sits where its PF is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bdf.h"
#include "host/pcicap.h"

struct error;
struct plan;
struct topo;
struct topo_node;

enum guest_model { GUEST_PXB, GUEST_ROOT_PORT, GUEST_USP, GUEST_DSP };

/* Fixed places on pcie-root; q35 itself has slots 0 and 31 (hw/i386/pc_q35.c). */
#define GUEST_SLOT_DISK  1
#define GUEST_SLOT_RNG   2
#define GUEST_SLOT_FIRST 3
#define GUEST_SLOT_LAST  30
#define GUEST_SLOTS      32  /* of any other bus */
#define GUEST_SWITCHES_MAX 8 /* below each other; real hosts have two or three */
#define GUEST_BUSES      256 /* libvirt's controller index is the guest's bus, too: one byte each */

struct guest_addr {
	uint8_t bus, slot, function; /* bus: index of the controller above */
};

struct guest_controller {
	enum guest_model  model;
	uint8_t           index;
	struct guest_addr at;
	uint8_t           bus_nr; /* of the bus below it, as firmware numbers it; of a PXB it is given */
	uint32_t          cell;   /* of a PXB */
	bool              io;     /* of a root port: something below it has an I/O BAR, or may have */
	uint32_t          host;   /* topo index of what it stands for: of a USP the host's, of a port what is below it; else TOPO_NONE */
};

struct guest_device {
	struct bdf              bdf;
	const char             *alias;         /* "ua-gpu0", "ua-vf1", "ua-gpu0-1": a companion of gpu0 */
	struct guest_addr       at;
	bool                    multifunction; /* function 0 of a slot with more functions */
	const struct topo_node *host;          /* borrowed; of the PF if the VF does not exist yet */
	uint32_t                chain[GUEST_SWITCHES_MAX + 1]; /* topo indices: USPs from the top down, then its own, or its PF's */
	unsigned                nchain;
	uint32_t                cell;          /* UINT32_MAX: below pcie-root */
	uint32_t                root;          /* the same of all below one host bridge: topo index of the first device there */
	bool                    is_vf;
};

struct guest_layout {
	struct arena             arena; /* owns both arrays and their strings */
	struct guest_controller *controller; /* by index, from 1; pcie-root (0) is not listed */
	size_t                   ncontrollers;
	struct guest_device     *device; /* in guest address order */
	size_t                   ndevices;
	bool                     root_ports; /* no switch is mirrored */
	uint64_t                 mmio64; /* bytes of 64-bit MMIO window; 0 without devices */
	unsigned                 io_ports; /* ports whose devices have I/O BARs: a window of 4 KiB for each */
};

/* -E2BIG: more slots or buses than a guest has. -ESTALE: the plan names a device that topo lacks. */
int  guest_layout_build(struct guest_layout *ret, const struct plan *plan, const struct topo *topo,
			struct error *err);
/* The link above function i as the guest is told of it: as negotiated, but of an idle GPU's, which is slow meanwhile
 * (topo/link.c), the speed that both ends can do. 0 unknown. */
struct pcicap_link guest_link(const struct topo *t, uint32_t i);
/* The PCI address the guest sees there. */
struct bdf guest_bdf(const struct guest_layout *l, struct guest_addr at);
void guest_layout_done(struct guest_layout *l);
