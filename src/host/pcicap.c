/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The config space walker. Every list is walked with a bitmap of visited offsets, so a hostile or broken
 * space costs at most one read per dword. Offsets as in linux/pci_regs.h. */
#include "host/pcicap.h"

#include <inttypes.h>
#include <linux/pci_regs.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"

struct walk {
	struct pcicap *cap;
	pcicap_read_fn read;
	void          *self;
};

/* Registers that lie side by side cost one call. */
static bool dwords(const struct walk *w, unsigned off, unsigned n, uint32_t *ret)
{
	return off + 4 * n <= PCI_CFG_SPACE_EXP_SIZE && w->read(w->self, (uint16_t)off, n, ret) == 0;
}

/* Those of a capability in the first 256 bytes: what follows has other meanings. */
static bool near_dwords(const struct walk *w, unsigned off, unsigned n, uint32_t *ret)
{
	return off + 4 * n <= PCI_CFG_SPACE_SIZE && dwords(w, off, n, ret);
}

static bool dword(const struct walk *w, unsigned off, uint32_t *ret)
{
	return dwords(w, off, 1, ret);
}

static uint16_t low(uint32_t v)
{
	return (uint16_t)v;
}

static uint16_t high(uint32_t v)
{
	return (uint16_t)(v >> 16);
}

static struct pcicap_link link_of(uint32_t reg)
{
	/* LnkCap and LnkSta share the layout: speed 3:0, width 9:4; more than 64 GT/s or x32 is no link */
	uint8_t speed = reg & 0xf, width = reg >> 4 & 0x3f;

	return (struct pcicap_link){ .speed = speed <= 6 ? speed : 0, .width = width <= 32 ? width : 0 };
}

/* Device and link registers; version 2 has second ones (7.5.3), which nothing before PCIe 2.0 has. */
static void read_pcie(const struct walk *w, unsigned at, uint32_t first)
{
	struct pcicap *c = w->cap;
	uint32_t v[4];
	bool link;

	c->pcie = HOST_PRESENT;
	c->pcie_at = (uint16_t)at;
	c->type = (enum pcicap_type)((high(first) & PCI_EXP_FLAGS_TYPE) >> 4);
	link = c->type != PCICAP_RCIEP && c->type != PCICAP_RCEC; /* no link registers there (7.5.3) */
	c->dev_known = near_dwords(w, at + PCI_EXP_DEVCAP, link ? 4 : 2, v);
	if (c->dev_known) {
		c->devcap = v[0];
		c->devctl = low(v[1]);
		c->flr = v[0] & PCI_EXP_DEVCAP_FLR;
		c->link_cap = link ? link_of(v[2]) : c->link_cap;
		c->port_known = link;
		c->port = link ? (uint8_t)(v[2] >> 24) : 0;
		c->link_now = link ? link_of(high(v[3])) : c->link_now;
		if (link && v[2] & PCI_EXP_LNKCAP_DLLLARC) /* of downstream ports only (7.5.3.6) */
			c->link_up = high(v[3]) & PCI_EXP_LNKSTA_DLLLA ? HOST_PRESENT : HOST_ABSENT;
	}
	c->dev2_known = (high(first) & PCI_EXP_FLAGS_VERS) >= 2 && near_dwords(w, at + PCI_EXP_DEVCAP2, 2, v);
	if (c->dev2_known) {
		c->devcap2 = v[0];
		c->devctl2 = low(v[1]);
	}
}

static void read_standard(const struct walk *w, unsigned at, uint32_t first)
{
	struct pcicap *c = w->cap;

	switch (first & 0xff) {
	case PCI_CAP_ID_EXP:
		if (c->pcie != HOST_PRESENT)
			read_pcie(w, at, first);
		break;
	case PCI_CAP_ID_MSI:
		c->msi = (struct pcicap_part){ .known = HOST_PRESENT, .ctl = high(first) };
		break;
	case PCI_CAP_ID_MSIX:
		c->msix = (struct pcicap_part){ .known = HOST_PRESENT, .ctl = high(first) };
		break;
	}
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
		read_standard(w, at, v);
	}
	return true;
}

static bool read_acs(const struct walk *w, unsigned at)
{
	uint32_t v;

	if (!dword(w, at + PCI_ACS_CAP, &v))
		return false;
	w->cap->acs = (struct pcicap_acs){
		.known = HOST_PRESENT, .at = (uint16_t)at, .cap = low(v), .ctl = high(v),
	};
	return true;
}

static bool read_ats(const struct walk *w, unsigned at)
{
	uint32_t v;

	if (!dword(w, at + PCI_ATS_CAP, &v))
		return false;
	w->cap->ats = (struct pcicap_ats){
		.known = HOST_PRESENT, .at = (uint16_t)at, .cap = low(v), .ctl = high(v),
	};
	return true;
}

static bool read_pri(const struct walk *w, unsigned at)
{
	uint32_t v;

	if (!dword(w, at + PCI_PRI_CTRL, &v))
		return false;
	w->cap->pri = (struct pcicap_part){ .known = HOST_PRESENT, .ctl = low(v) };
	return true;
}

static bool read_pasid(const struct walk *w, unsigned at)
{
	uint32_t v;

	if (!dword(w, at + PCI_PASID_CAP, &v))
		return false;
	w->cap->pasid = (struct pcicap_part){ .known = HOST_PRESENT, .cap = low(v), .ctl = high(v) };
	return true;
}

static bool read_sriov(const struct walk *w, unsigned at)
{
	uint32_t v[5]; /* from PCI_SRIOV_CTRL: control, TotalVFs, NumVFs, offset and stride, VF device id */

	if (!dwords(w, at + PCI_SRIOV_CTRL, 5, v))
		return false;
	w->cap->sriov = (struct pcicap_sriov){
		.known = HOST_PRESENT, .at = (uint16_t)at, .ctl = low(v[0]), .total = high(v[1]), .num = low(v[2]),
		.offset = low(v[3]), .stride = high(v[3]), .vf_device = high(v[4]),
	};
	return true;
}

/* Two dwords, the lower one first. What reads as all zeros or ones was never written by a vendor. */
static bool read_serial(const struct walk *w, unsigned at)
{
	uint32_t v[2];

	if (!dwords(w, at + 4, 2, v))
		return false;
	w->cap->serial = (uint64_t)v[1] << 32 | v[0];
	if (w->cap->serial == UINT64_MAX)
		w->cap->serial = 0;
	return true;
}

/* A pair of registers for each BAR; the first control register says how many pairs: 31:4 of the capability
 * are sizes 0..27, 31:16 of the control sizes 28..43; its 2:0 the BAR, 13:8 the size that is set. */
static bool read_rebar(const struct walk *w, unsigned at, struct pcicap_rebar *ret)
{
	unsigned n = 1;

	*ret = (struct pcicap_rebar){ .known = HOST_PRESENT };
	for (unsigned i = 0; i < n; i++) {
		uint32_t v[2];

		if (!dwords(w, at + PCI_REBAR_CAP + 8 * i, 2, v))
			return false;
		if (i == 0)
			n = (v[1] & PCI_REBAR_CTRL_NBAR_MASK) >> PCI_REBAR_CTRL_NBAR_SHIFT;
		if (n == 0 || n > 6 || (v[1] & PCI_REBAR_CTRL_BAR_IDX) > 5)
			break;
		ret->bar[i].bar = v[1] & PCI_REBAR_CTRL_BAR_IDX;
		ret->bar[i].size = v[1] >> 8 & 0x3f;
		ret->bar[i].sizes = v[0] >> 4 | (uint64_t)(v[1] >> 16) << 28;
		ret->n++;
	}
	return true;
}

#ifndef PCI_EXT_CAP_ID_VF_REBAR
#define PCI_EXT_CAP_ID_VF_REBAR 0x24 /* linux/pci_regs.h has it since 6.16 */
#endif

/* False: a register of a capability that is there could not be read, so nothing is known to be absent. */
static bool read_extended(const struct walk *w, unsigned at, uint32_t header)
{
	struct pcicap *c = w->cap;

	switch (PCI_EXT_CAP_ID(header)) {
	case PCI_EXT_CAP_ID_ACS:
		return read_acs(w, at);
	case PCI_EXT_CAP_ID_ATS:
		return read_ats(w, at);
	case PCI_EXT_CAP_ID_PRI:
		return read_pri(w, at);
	case PCI_EXT_CAP_ID_PASID:
		return read_pasid(w, at);
	case PCI_EXT_CAP_ID_SRIOV:
		return read_sriov(w, at);
	case PCI_EXT_CAP_ID_DSN:
		return read_serial(w, at);
	case PCI_EXT_CAP_ID_REBAR:
		return read_rebar(w, at, &c->rebar);
	case PCI_EXT_CAP_ID_VF_REBAR:
		return read_rebar(w, at, &c->vf_rebar);
	case PCI_EXT_CAP_ID_ERR:
		c->aer = HOST_PRESENT;
		break;
	case PCI_EXT_CAP_ID_ARI:
		c->ari = HOST_PRESENT;
		c->ari_at = (uint16_t)at;
		break;
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

/* What Egress Control goes by, of the few that have it on: the vector, and the function groups of a multi-function
 * device. Bits 15:8 of the ACS capability register are the vector's size, 0 for 256. */
static void read_egress(const struct walk *w)
{
	struct pcicap_acs *acs = &w->cap->acs;
	unsigned bits = acs->cap >> 8 ? acs->cap >> 8 : 256;
	uint32_t v;

	if (acs->known != HOST_PRESENT || !(acs->ctl & PCI_ACS_EC))
		return;
	acs->egress_bits = (uint16_t)bits;
	for (unsigned i = 0; 32 * i < bits; i++)
		if (!dword(w, acs->at + PCI_ACS_EGRESS_CTL_V + 4 * i, &acs->egress[i]))
			acs->egress_bits = 0;
	if (w->cap->ari_at && dword(w, w->cap->ari_at + PCI_ARI_CAP, &v))
		w->cap->ari_groups = (struct pcicap_part){ .known = HOST_PRESENT, .cap = low(v), .ctl = high(v) };
}

static void unknown_is_absent(enum host_known *const *k, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (*k[i] == HOST_UNKNOWN)
			*k[i] = HOST_ABSENT;
}

static bool read_header(const struct walk *w)
{
	struct pcicap *c = w->cap;
	uint32_t v[4], bus; /* ids, command and status, class and revision, header type */

	if (!dwords(w, PCI_VENDOR_ID, 4, v))
		return false;
	c->readable = true;
	c->dead = v[0] == UINT32_MAX && v[2] == UINT32_MAX;
	if (c->dead)
		return false;
	c->vendor = low(v[0]);
	c->device = high(v[0]);
	c->command = low(v[1]);
	c->status = high(v[1]);
	c->class = v[2] >> 8;
	c->revision = (uint8_t)v[2];
	c->header = v[3] >> 16 & 0x7f;
	c->multifunction = v[3] >> 16 & 0x80;
	c->bad_header = c->header > PCI_HEADER_TYPE_CARDBUS;
	if (c->bad_header)
		return false;
	if (c->header == PCI_HEADER_TYPE_BRIDGE && dword(w, PCI_PRIMARY_BUS, &bus)) {
		c->secondary = (uint8_t)(bus >> 8);
		c->subordinate = (uint8_t)(bus >> 16);
	}
	return true;
}

void pcicap_walk(struct pcicap *ret, pcicap_read_fn read, void *self)
{
	enum host_known *const standard[] = { &ret->pcie, &ret->msi.known, &ret->msix.known };
	enum host_known *const extended[] = { &ret->acs.known, &ret->ats.known, &ret->sriov.known, &ret->pri.known,
					      &ret->pasid.known, &ret->aer, &ret->ari, &ret->rebar.known,
					      &ret->vf_rebar.known };
	const struct walk w = { .cap = ret, .read = read, .self = self };

	*ret = (struct pcicap){ .type = PCICAP_NONE };
	if (!read_header(&w) || !walk_standard(&w))
		return;
	unknown_is_absent(standard, ARRAY_SIZE(standard));
	if (ret->pcie == HOST_ABSENT || walk_extended(&w)) /* conventional PCI has no extended list */
		unknown_is_absent(extended, ARRAY_SIZE(extended));
	read_egress(&w);
}

const char *pcicap_serial_text(char ret[PCICAP_SERIAL_MAX], const struct pcicap *c)
{
	ret[0] = '\0';
	if (c->serial)
		(void)snprintf(ret, PCICAP_SERIAL_MAX, "%016" PRIx64, c->serial);
	return ret;
}

const char *host_known_text(enum host_known k)
{
	return k == HOST_PRESENT ? "present" : k == HOST_ABSENT ? "absent" : "unknown";
}

const char *pcicap_speed_text(uint8_t speed)
{
	static const char *const text[] = { "?",         "2.5 GT/s",  "5.0 GT/s", "8.0 GT/s",
					    "16.0 GT/s", "32.0 GT/s", "64.0 GT/s" };

	return text[speed <= 6 ? speed : 0];
}
