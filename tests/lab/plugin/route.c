/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The walk of one transaction, from its function up through the ports above. ACS acts where it enters a port from
 * below; the way down is free. Ports of this machine have no Egress Control, and functions no ACS of their own.
 */
#include "qemu/osdep.h"

#include "route.h"

#include "hw/pci/pci_bridge.h"
#include "hw/pci/pci_bus.h"
#include "hw/pci/pcie.h"

static PCIDevice *above(PCIDevice *d)
{
	return pci_get_bus(d)->parent_dev;
}

/* The ACS control word as it is now; a port without the capability has no bit set. */
static unsigned int acs_of(PCIDevice *port)
{
	return port->exp.acs_cap ? pci_get_word(port->config + port->exp.acs_cap + PCI_ACS_CTRL) : 0;
}

static bool has_bus(PCIDevice *port, uint8_t bus)
{
	return bus >= port->config[PCI_SECONDARY_BUS] && bus <= port->config[PCI_SUBORDINATE_BUS];
}

static bool has_address(PCIDevice *port, uint64_t address)
{
	static const uint8_t windows[] = { PCI_BASE_ADDRESS_SPACE_MEMORY, PCI_BASE_ADDRESS_MEM_PREFETCH };

	if (!(pci_get_word(port->config + PCI_COMMAND) & PCI_COMMAND_MEMORY))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++)
		if (address >= pci_bridge_get_base(port, windows[i]) && address <= pci_bridge_get_limit(port, windows[i]))
			return true;
	return false;
}

static bool is_below(PCIDevice *port, const struct tlp *tlp)
{
	return tlp->completion ? has_bus(port, tlp->to_bus) : has_address(port, tlp->address);
}

/* Does another downstream port of PORT's switch lead to the target? */
static bool sibling_leads(PCIDevice *port, const struct tlp *tlp)
{
	PCIBus *bus = pci_get_bus(port);

	for (size_t i = 0; i < ARRAY_SIZE(bus->devices); i++) {
		PCIDevice *d = bus->devices[i];

		if (d && d != port && IS_PCI_BRIDGE(d) && is_below(d, tlp))
			return true;
	}
	return false;
}

/* 6.12.1.1: what a port refuses of what comes from below. RULE_NONE: nothing. */
static enum rule refused_by(PCIDevice *port, const struct tlp *tlp)
{
	unsigned int acs = acs_of(port);

	if (acs & PCI_ACS_SV && !tlp->completion && !has_bus(port, pci_dev_bus_num(tlp->from)))
		return RULE_SV;
	if (acs & PCI_ACS_TB && tlp->translated)
		return RULE_TB;
	if (!(acs & PCI_ACS_UF) && is_below(port, tlp))
		return RULE_NO_UF;
	return RULE_NONE;
}

/* 6.12.3, 6.12.4: what a downstream port does with what is for its neighbour. */
static enum rule peer_rule(PCIDevice *port, const struct tlp *tlp)
{
	unsigned int acs = acs_of(port);

	if (tlp->completion) {
		if (!(acs & PCI_ACS_CR))
			return RULE_PLAIN;
		return tlp->relaxed ? RULE_RO : RULE_CR;
	}
	if (tlp->translated && acs & PCI_ACS_DT)
		return RULE_DT;
	return acs & PCI_ACS_RR ? RULE_RR : RULE_PLAIN;
}

struct trip route_tlp(const struct tlp *tlp, bool peer)
{
	struct trip trip = { .rule = RULE_ROOT };

	for (PCIDevice *port = above(tlp->from); port; port = above(port)) {
		uint8_t type = pci_is_express(port) ? pcie_cap_get_type(port) : PCI_EXP_TYPE_PCI_BRIDGE;
		enum rule rule;

		if (type != PCI_EXP_TYPE_DOWNSTREAM && type != PCI_EXP_TYPE_ROOT_PORT)
			continue;
		rule = refused_by(port, tlp);
		if (rule != RULE_NONE)
			return (struct trip){ ROUTE_BLOCKED, rule, port };
		if (trip.rule == RULE_ROOT)
			trip.port = port;
		if (type == PCI_EXP_TYPE_ROOT_PORT || !sibling_leads(port, tlp))
			continue;
		rule = peer_rule(port, tlp);
		if (rule != RULE_RR && rule != RULE_CR)
			return (struct trip){ ROUTE_DIRECT, rule, port };
		trip.rule = rule;
	}
	if (!peer)
		return (struct trip){ .route = ROUTE_MEMORY, .root = true };
	return (struct trip){ ROUTE_REDIRECTED, trip.rule, trip.port, true };
}
