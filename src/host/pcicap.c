/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The config space walker. Every list is walked with a bitmap of visited offsets, so a hostile or broken
 * space costs at most one read per dword. Offsets as in linux/pci_regs.h. */
#include "host/pcicap.h"

#include <linux/pci_regs.h>
#include <string.h>

struct walk {
	struct pcicap *cap;
	pcicap_read_fn read;
	void          *self;
};

static bool dword(const struct walk *w, unsigned off, uint32_t *ret)
{
	return off <= 0xffc && w->read(w->self, (uint16_t)(off & ~3u), ret) == 0;
}

/* The 16-bit register at an even offset. */
static bool word(const struct walk *w, unsigned off, uint16_t *ret)
{
	uint32_t v;

	if (!dword(w, off, &v))
		return false;
	*ret = (uint16_t)(off & 2 ? v >> 16 : v);
	return true;
}

static struct pcicap_link link_of(uint32_t reg)
{
	/* LnkCap and LnkSta share the layout: speed 3:0, width 9:4; more than 64 GT/s or x32 is no link */
	uint8_t speed = reg & 0xf, width = reg >> 4 & 0x3f;

	return (struct pcicap_link){ .speed = speed <= 6 ? speed : 0, .width = width <= 32 ? width : 0 };
}

static void read_pcie(const struct walk *w, unsigned at, uint32_t first)
{
	struct pcicap *c = w->cap;
	uint16_t flags = (uint16_t)(first >> 16), sta;
	uint32_t v;

	c->pcie = HOST_PRESENT;
	c->pcie_at = (uint16_t)at;
	c->type = (enum pcicap_type)((flags & PCI_EXP_FLAGS_TYPE) >> 4);
	if (dword(w, at + PCI_EXP_DEVCAP, &v)) {
		c->devcap = v;
		c->flr = v & PCI_EXP_DEVCAP_FLR;
	}
	(void)word(w, at + PCI_EXP_DEVCTL, &c->devctl);
	if (c->type == PCICAP_RCIEP || c->type == PCICAP_RCEC)
		return; /* no link registers there (7.5.3) */
	if (dword(w, at + PCI_EXP_LNKCAP, &v))
		c->link_cap = link_of(v);
	if (word(w, at + PCI_EXP_LNKSTA, &sta))
		c->link_now = link_of(sta);
}

/* The list of the first 256 bytes. True: it was seen to its end. */
static bool walk_standard(const struct walk *w)
{
	uint64_t seen = 0;
	uint32_t v;
	unsigned at;

	if (!(w->cap->status & PCI_STATUS_CAP_LIST))
		return true;
	if (!dword(w, w->cap->header == PCI_HEADER_TYPE_CARDBUS ? PCI_CB_CAPABILITY_LIST : PCI_CAPABILITY_LIST, &v))
		return false;
	for (at = v & 0xfc; at; at = v >> 8 & 0xfc) {
		if (at < 0x40 || seen >> (at / 4) & 1) {
			w->cap->broken = true;
			return false;
		}
		seen |= UINT64_C(1) << (at / 4);
		if (!dword(w, at, &v))
			return false;
		if (v == UINT32_MAX) {
			w->cap->broken = true;
			return false;
		}
		if ((v & 0xff) == PCI_CAP_ID_EXP && w->cap->pcie != HOST_PRESENT)
			read_pcie(w, at, v);
	}
	return true;
}

static bool read_acs(const struct walk *w, unsigned at)
{
	uint32_t v;

	if (!dword(w, at + PCI_ACS_CAP, &v))
		return false;
	w->cap->acs = (struct pcicap_acs){
		.known = HOST_PRESENT, .at = (uint16_t)at, .cap = (uint16_t)v, .ctl = (uint16_t)(v >> 16),
	};
	return true;
}

static bool read_ats(const struct walk *w, unsigned at)
{
	uint32_t v;

	if (!dword(w, at + PCI_ATS_CAP, &v))
		return false;
	w->cap->ats = (struct pcicap_ats){
		.known = HOST_PRESENT, .at = (uint16_t)at, .cap = (uint16_t)v, .ctl = (uint16_t)(v >> 16),
	};
	return true;
}

static bool read_sriov(const struct walk *w, unsigned at)
{
	struct pcicap_sriov s = { .known = HOST_PRESENT, .at = (uint16_t)at };

	if (!word(w, at + PCI_SRIOV_CTRL, &s.ctl) || !word(w, at + PCI_SRIOV_TOTAL_VF, &s.total) ||
	    !word(w, at + PCI_SRIOV_NUM_VF, &s.num) || !word(w, at + PCI_SRIOV_VF_OFFSET, &s.offset) ||
	    !word(w, at + PCI_SRIOV_VF_STRIDE, &s.stride) || !word(w, at + PCI_SRIOV_VF_DID, &s.vf_device))
		return false;
	w->cap->sriov = s;
	return true;
}

/* False: a register of a capability that is there could not be read, so nothing is known to be absent. */
static bool read_extended(const struct walk *w, unsigned at, uint32_t header)
{
	switch (PCI_EXT_CAP_ID(header)) {
	case PCI_EXT_CAP_ID_ACS:
		return read_acs(w, at);
	case PCI_EXT_CAP_ID_ATS:
		return read_ats(w, at);
	case PCI_EXT_CAP_ID_SRIOV:
		return read_sriov(w, at);
	}
	return true;
}

/* The extended list from 0x100. True: it was seen to its end. */
static bool walk_extended(const struct walk *w)
{
	uint8_t seen[PCI_CFG_SPACE_EXP_SIZE / 4 / 8] = { 0 };
	uint32_t v;
	unsigned at = PCI_CFG_SPACE_SIZE;

	do {
		if (at < PCI_CFG_SPACE_SIZE || at & 3 || seen[at / 32] >> (at / 4 % 8) & 1) {
			w->cap->broken = true;
			return false;
		}
		seen[at / 32] |= (uint8_t)(1u << (at / 4 % 8));
		if (!dword(w, at, &v))
			return false;
		if (v == UINT32_MAX) { /* no extended space behind this bridge, or the device is gone */
			w->cap->broken = at != PCI_CFG_SPACE_SIZE;
			return false;
		}
		if (!read_extended(w, at, v))
			return false;
		at = PCI_EXT_CAP_NEXT(v);
	} while (at);
	return true;
}

static void unknown_is_absent(enum host_known *k)
{
	if (*k == HOST_UNKNOWN)
		*k = HOST_ABSENT;
}

static bool read_header(const struct walk *w)
{
	struct pcicap *c = w->cap;
	uint32_t id, cmd, class, head;

	if (!dword(w, PCI_VENDOR_ID, &id) || !dword(w, PCI_COMMAND, &cmd) ||
	    !dword(w, PCI_CLASS_REVISION, &class) || !dword(w, PCI_CACHE_LINE_SIZE, &head))
		return false;
	c->readable = true;
	c->dead = id == UINT32_MAX && class == UINT32_MAX;
	if (c->dead)
		return false;
	c->vendor = (uint16_t)id;
	c->device = (uint16_t)(id >> 16);
	c->command = (uint16_t)cmd;
	c->status = (uint16_t)(cmd >> 16);
	c->class = class >> 8;
	c->header = head >> 16 & 0x7f;
	c->multifunction = head >> 16 & 0x80;
	if (c->header > PCI_HEADER_TYPE_CARDBUS) { /* 7f: a device that is not all there */
		c->broken = true;
		return false;
	}
	if (c->header == PCI_HEADER_TYPE_BRIDGE && dword(w, PCI_PRIMARY_BUS, &head)) {
		c->secondary = (uint8_t)(head >> 8);
		c->subordinate = (uint8_t)(head >> 16);
	}
	return true;
}

void pcicap_walk(struct pcicap *ret, pcicap_read_fn read, void *self)
{
	const struct walk w = { .cap = ret, .read = read, .self = self };
	bool ends;

	*ret = (struct pcicap){ .type = PCICAP_NONE };
	if (!read_header(&w) || !walk_standard(&w))
		return;
	unknown_is_absent(&ret->pcie);
	ends = ret->pcie == HOST_ABSENT || walk_extended(&w); /* conventional PCI has no extended list */
	if (!ends)
		return;
	unknown_is_absent(&ret->acs.known);
	unknown_is_absent(&ret->ats.known);
	unknown_is_absent(&ret->sriov.known);
}

const char *pcicap_speed_text(uint8_t speed)
{
	static const char *const text[] = { "?",         "2.5 GT/s",  "5.0 GT/s", "8.0 GT/s",
					    "16.0 GT/s", "32.0 GT/s", "64.0 GT/s" };

	return text[speed <= 6 ? speed : 0];
}
