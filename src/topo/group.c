/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A function has a group of its own where every port from the bridge above it up to the root isolates; else it is of that
 * bridge's group, for the bridge was there first. Functions of one device that do not isolate share one. */
#include "topo/group.h"

#include "host/inventory.h"
#include "topo/route.h"

#define REQ_ACS_FLAGS (TOPO_ACS_SV | TOPO_ACS_RR | TOPO_ACS_CR | TOPO_ACS_UF)

/* pci_acs_flags_enabled(): bits that the capability lacks count as hard-wired. */
static bool flags_enabled(const struct topo *t, const uint16_t *ctl, uint32_t i)
{
	const struct pcicap_acs *acs = &topo_at(t, i)->fn->facts->cap.acs;
	uint16_t want = REQ_ACS_FLAGS & acs->cap;

	if (acs->known != HOST_PRESENT)
		return acs->known == HOST_UNKNOWN;
	return ((ctl ? ctl[i] : acs->ctl) & want) == want;
}

/* pci_acs_enabled(): conventional functions and bridges to them never isolate; functions other than ports have to only
 * if they are one of several in their device. */
static bool isolates(const struct topo *t, const uint16_t *ctl, uint32_t i)
{
	const struct host_facts *f = topo_at(t, i)->fn->facts;

	if (f->is_vf || f->cap.pcie == HOST_UNKNOWN)
		return true;
	if (f->cap.pcie == HOST_ABSENT)
		return false;
	switch (f->cap.type) {
	case PCICAP_TO_PCI:
	case PCICAP_FROM_PCI:
	case PCICAP_RCEC:
		return false;
	case PCICAP_ROOT_PORT:
	case PCICAP_DSP:
		return flags_enabled(t, ctl, i);
	default:
		return !f->cap.multifunction || flags_enabled(t, ctl, i);
	}
}

/* pci_acs_path_enabled(), up to the root */
static bool path_isolates(const struct topo *t, const uint16_t *ctl, uint32_t i)
{
	while (i != TOPO_NONE && isolates(t, ctl, i))
		i = topo_at(t, i)->parent;
	return i == TOPO_NONE;
}

/* get_pci_function_alias_group() */
static uint32_t first_of_device(const struct topo *t, const uint16_t *ctl, uint32_t i)
{
	uint32_t first = i;

	if (!topo_at(t, i)->fn->facts->cap.multifunction || isolates(t, ctl, i))
		return i;
	while (first && bdf_same_device(topo_at(t, first - 1)->fn->bdf, topo_at(t, i)->fn->bdf))
		first--;
	while (isolates(t, ctl, first))
		first++;
	return first;
}

void topo_groups(uint32_t *ret, const struct topo *t, const uint16_t *ctl)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		uint32_t at = i, up;

		while ((up = topo_at(t, at)->parent) != TOPO_NONE && !path_isolates(t, ctl, up))
			at = up;
		ret[i] = first_of_device(t, ctl, at);
	}
}
