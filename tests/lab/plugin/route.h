/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a transaction of an emulated function goes: through which ports, by the bits that they hold at that moment.
 * QEMU itself delivers by address; this is what the hardware would do (PCI Express Base Specification 6.0, 6.12).
 */
#ifndef HGX_ROUTE_H
#define HGX_ROUTE_H

#include "hw/pci/pci_device.h"

/* The numbers are read by guests: see engine.h. In the order from best to worst. */
enum route {
	ROUTE_NONE,
	ROUTE_MEMORY,			/* up, and into the host's memory */
	ROUTE_DIRECT,			/* across a switch to a peer */
	ROUTE_REDIRECTED,		/* up to the root complex, and down again to a peer */
	ROUTE_BLOCKED,			/* a port refused it */
};

/* What decided, at the port that did. */
enum rule {
	RULE_NONE,
	RULE_PLAIN,			/* nothing turned it away */
	RULE_DT,			/* Direct Translated P2P */
	RULE_RO,			/* Completion Redirect spares Relaxed Ordering */
	RULE_RR,			/* P2P Request Redirect */
	RULE_CR,			/* P2P Completion Redirect */
	RULE_ROOT,			/* the root complex: no port below it has that address */
	RULE_SV,			/* Source Validation: not a bus below the port */
	RULE_TB,			/* Translation Blocking */
	RULE_NO_UF,			/* it would leave the port that it came from, and Upstream Forwarding is off */
};

struct tlp {
	PCIDevice *from;
	bool completion;		/* goes to TO_BUS; a request goes to ADDRESS */
	bool translated;		/* of a request: ADDRESS was got by ATS */
	bool relaxed;			/* Relaxed Ordering */
	uint64_t address;
	uint8_t to_bus;
};

struct trip {
	enum route route;
	enum rule rule;
	PCIDevice *port;		/* NULL: no port decided */
	bool root;			/* it came to the root complex */
};

/* ROUTE_MEMORY or ROUTE_REDIRECTED for what comes to the root complex: PEER says whether a function has the target. */
struct trip route_tlp(const struct tlp *tlp, bool peer);

#endif
