/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Configuration space: finding registers, which of their bits take a write, and what a write sets off. Section
 * numbers are those of PCI Express Base 6.0. BARs, bus numbers, windows, slot, power, MSI, AER mask and SR-IOV
 * registers are the kernel's and read-only here, although hardware would take a write. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "sim.h"

uint16_t config_get16(const struct node *config, size_t off)
{
	return (uint16_t)(config->bytes[off] | config->bytes[off + 1] << 8);
}

void config_put16(struct node *config, size_t off, uint16_t v)
{
	config->bytes[off] = (uint8_t)v;
	config->bytes[off + 1] = (uint8_t)(v >> 8);
}

uint32_t config_get32(const struct node *config, size_t off)
{
	return config_get16(config, off) | (uint32_t)config_get16(config, off + 2) << 16;
}

/* pci_find_next_ext_capability(): as many steps as there is room for capabilities, at most. */
uint16_t config_ecap(const struct node *config, uint16_t id)
{
	size_t at = 0x100;

	for (int left = (4096 - 256) / 8; left && at >= 0x100 && at + 8 <= config->len; left--) {
		if (config_get16(config, at) == id)
			return (uint16_t)at;
		at = (size_t)config_get16(config, at + 2) >> 4 & 0xffc;
	}
	return 0;
}

uint16_t config_cap(const struct node *config, uint8_t id)
{
	size_t at = config->bytes[PCI_CAPABILITY_LIST] & 0xfc;

	for (int left = 48; left && at >= 0x40 && at + 2 <= config->len; left--, at = config->bytes[at + 1] & 0xfc)
		if (config->bytes[at] == id)
			return (uint16_t)at;
	return 0;
}

struct node *config_of(const struct node *dev)
{
	struct node *config = node_attr(dev, "config");

	return config && config->bytes && config->len >= 64 ? config : NULL;
}

int config_type(const struct node *dev)
{
	const struct node *config = config_of(dev);
	uint16_t exp = config ? config_cap(config, PCI_CAP_ID_EXP) : 0;

	return exp ? (config_get16(config, exp + PCI_EXP_FLAGS) & PCI_EXP_FLAGS_TYPE) >> 4 : CONFIG_CONVENTIONAL;
}

bool config_is_bridge(const struct node *dev)
{
	const struct node *config = config_of(dev);

	return config && (config->bytes[PCI_HEADER_TYPE] & 0x7f) == PCI_HEADER_TYPE_BRIDGE;
}

/* pci_setup_device() takes the bit, pci_scan_slot() sets it for functions above 0; VFs are scanned otherwise. */
bool config_multifunction(const struct node *dev)
{
	const struct node *config = config_of(dev);
	struct bdf b;

	if (dev->pf || !bdf_parse(&b, dev->name))
		return false;
	return bdf_function(b) != 0 || (config && config->bytes[PCI_HEADER_TYPE] & 0x80);
}

/* ---- masks ------------------------------------------------------------------------------------------ */

static void set16(uint8_t *mask, size_t off, uint16_t v)
{
	struct node m = { .bytes = mask };

	config_put16(&m, off, v);
}

/* 7.5.1: common registers, and those of a bridge. */
static void header(const struct node *config, bool vf, struct config_masks *m)
{
	uint16_t errors = PCI_STATUS_PARITY | PCI_STATUS_SIG_TARGET_ABORT | PCI_STATUS_REC_TARGET_ABORT |
			  PCI_STATUS_REC_MASTER_ABORT | PCI_STATUS_SIG_SYSTEM_ERROR | PCI_STATUS_DETECTED_PARITY;

	set16(m->w1c, PCI_STATUS, errors);
	if (vf) { /* memory of VFs is enabled in their PF, interrupts are messages (9.3.4.1.3) */
		set16(m->rw, PCI_COMMAND, PCI_COMMAND_MASTER);
		return;
	}
	set16(m->rw, PCI_COMMAND,
	      PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY | PCI_COMMAND_SERR |
		      PCI_COMMAND_INTX_DISABLE);
	m->rw[PCI_CACHE_LINE_SIZE] = m->rw[PCI_INTERRUPT_LINE] = 0xff; /* scratch for software */
	if ((config->bytes[PCI_HEADER_TYPE] & 0x7f) == PCI_HEADER_TYPE_BRIDGE) {
		set16(m->w1c, PCI_SEC_STATUS, errors);
		m->rw[PCI_BRIDGE_CONTROL] = PCI_BRIDGE_CTL_PARITY | PCI_BRIDGE_CTL_SERR | PCI_BRIDGE_CTL_ISA |
					    PCI_BRIDGE_CTL_VGA | PCI_BRIDGE_CTL_BUS_RESET;
	}
}

/* 7.5.3.4: what the capability lacks is hard-wired; FLR and Bridge Retry read 0. */
static uint16_t device_control(uint32_t cap)
{
	unsigned mps = cap & PCI_EXP_DEVCAP_PAYLOAD; /* 128 << mps bytes at most */

	return (uint16_t)(PCI_EXP_DEVCTL_CERE | PCI_EXP_DEVCTL_NFERE | PCI_EXP_DEVCTL_FERE | PCI_EXP_DEVCTL_URRE |
			  PCI_EXP_DEVCTL_RELAX_EN |
			  (mps > 3   ? 7u
			   : mps > 1 ? 3u
				     : mps)
				  << 5 |
			  (cap & PCI_EXP_DEVCAP_EXT_TAG ? PCI_EXP_DEVCTL_EXT_TAG : 0) |
			  (cap & PCI_EXP_DEVCAP_PHANTOM ? PCI_EXP_DEVCTL_PHANTOM : 0) | PCI_EXP_DEVCTL_AUX_PME |
			  PCI_EXP_DEVCTL_NOSNOOP_EN | PCI_EXP_DEVCTL_READRQ);
}

/* 7.5.3.16; bit 12: 10-Bit Tag Requester Enable, for which Linux has no name. */
static uint16_t device_control2(uint32_t cap, bool port)
{
	return (uint16_t)((cap & 0xf ? PCI_EXP_DEVCTL2_COMP_TIMEOUT : 0) |
			  (cap & PCI_EXP_DEVCAP2_COMP_TMOUT_DIS ? PCI_EXP_DEVCTL2_COMP_TMOUT_DIS : 0) |
			  (cap & PCI_EXP_DEVCAP2_ARI && port ? PCI_EXP_DEVCTL2_ARI : 0) | PCI_EXP_DEVCTL2_ATOMIC_REQ |
			  (cap & PCI_EXP_DEVCAP2_ATOMIC_ROUTE ? PCI_EXP_DEVCTL2_ATOMIC_EGRESS_BLOCK : 0) |
			  PCI_EXP_DEVCTL2_IDO_REQ_EN | PCI_EXP_DEVCTL2_IDO_CMP_EN |
			  (cap & PCI_EXP_DEVCAP2_LTR ? PCI_EXP_DEVCTL2_LTR_EN : 0) | (cap & 0x20000 ? 0x1000 : 0) |
			  (cap & PCI_EXP_DEVCAP2_OBFF_MASK ? PCI_EXP_DEVCTL2_OBFF_WAKE_EN : 0));
}

static void express(const struct node *config, uint16_t at, struct config_masks *m)
{
	unsigned type = (config_get16(config, at + PCI_EXP_FLAGS) & PCI_EXP_FLAGS_TYPE) >> 4;
	bool port = type == PCI_EXP_TYPE_ROOT_PORT || type == PCI_EXP_TYPE_DOWNSTREAM;
	uint32_t cap = config_get32(config, at + PCI_EXP_DEVCAP), link = config_get32(config, at + PCI_EXP_LNKCAP);
	bool second = (config_get16(config, at + PCI_EXP_FLAGS) & PCI_EXP_FLAGS_VERS) >= 2;

	set16(m->rw, at + PCI_EXP_DEVCTL, device_control(cap));
	set16(m->w1c, at + PCI_EXP_DEVSTA, 0x0f); /* errors detected, 7.5.3.5 */
	if (second)
		set16(m->rw, at + PCI_EXP_DEVCTL2, device_control2(config_get32(config, at + PCI_EXP_DEVCAP2), port));
	if (type == PCI_EXP_TYPE_RC_END || type == PCI_EXP_TYPE_RC_EC)
		return;
	set16(m->rw, at + PCI_EXP_LNKCTL, /* 7.5.3.7 */
	      (uint16_t)(PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_CCC | PCI_EXP_LNKCTL_ES | PCI_EXP_LNKCTL_HAWD |
			 (link & PCI_EXP_LNKCAP_CLKPM ? PCI_EXP_LNKCTL_CLKREQ_EN : 0) |
			 (port ? PCI_EXP_LNKCTL_LD | PCI_EXP_LNKCTL_LBMIE | PCI_EXP_LNKCTL_LABIE
			       : PCI_EXP_LNKCTL_RCB)));
	if (port)
		set16(m->w1c, at + PCI_EXP_LNKSTA, PCI_EXP_LNKSTA_LBMS | PCI_EXP_LNKSTA_LABS);
}

void config_masks(const struct node *config, struct config_masks *ret)
{
	bool vf = config_get16(config, 0) == 0xffff; /* 9.3.4.1.1 */
	uint16_t exp = config_cap(config, PCI_CAP_ID_EXP), acs = config_ecap(config, PCI_EXT_CAP_ID_ACS);
	uint16_t ats = config_ecap(config, PCI_EXT_CAP_ID_ATS), aer = config_ecap(config, PCI_EXT_CAP_ID_ERR);
	bool on = ats && config_get16(config, ats + PCI_ATS_CTRL) & PCI_ATS_CTRL_ENABLE;

	memset(ret, 0, sizeof(*ret));
	header(config, vf, ret);
	if (exp && !vf && exp + 0x3cu <= config->len) /* the PF's settings hold for its VFs (9.3.5) */
		express(config, exp, ret);
	if (acs)
		set16(ret->rw, acs + PCI_ACS_CTRL, config_get16(config, acs + PCI_ACS_CAP) & 0x7f); /* 7.7.11.3 */
	/* The smallest translation unit is fixed while ATS is on; a VF's is its PF's and reads 0 (10.5.1.3). */
	if (ats)
		set16(ret->rw, ats + PCI_ATS_CTRL, PCI_ATS_CTRL_ENABLE | (vf || on ? 0 : 0x1f));
	if (aer) { /* 7.8.4.2, 7.8.4.5 */
		memset(ret->w1c + aer + PCI_ERR_UNCOR_STATUS, 0xff, 4);
		memset(ret->w1c + aer + PCI_ERR_COR_STATUS, 0xff, 4);
	}
}

/* ---- writes ----------------------------------------------------------------------------------------- */

/* A port in whose link nothing is: it holds the bus in reset (7.5.1.3.13), or its link is disabled (7.5.3.7). */
static bool holds(const struct node *config)
{
	uint16_t exp = config_cap(config, PCI_CAP_ID_EXP);

	return (config->bytes[PCI_HEADER_TYPE] & 0x7f) == PCI_HEADER_TYPE_BRIDGE &&
	       (config->bytes[PCI_BRIDGE_CONTROL] & PCI_BRIDGE_CTL_BUS_RESET ||
		(exp && config->bytes[exp + PCI_EXP_LNKCTL] & PCI_EXP_LNKCTL_LD));
}

static void mute_below(struct node *port, bool mute)
{
	for (struct node *c = port->child; c; c = c->next)
		if (sim_is_device(c)) {
			c->mute = mute || c->broken;
			mute_below(c, mute);
		}
}

/* Bit 15 of device control, of a function that has FLR (7.5.3.4). */
static bool asks_flr(const struct node *config, const char *value, size_t len, size_t off)
{
	uint16_t exp = config_cap(config, PCI_CAP_ID_EXP);
	size_t at = exp + PCI_EXP_DEVCTL + 1u;

	return exp && config_get32(config, exp + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR && at >= off && at < off + len &&
	       (uint8_t)value[at - off] & PCI_EXP_DEVCTL_BCR_FLR >> 8;
}

/* pci_write_config(), drivers/pci/pci-sysfs.c: what goes beyond the end is cut off, all of it is EFBIG here
 * as in sysfs_kf_bin_write() (fs/sysfs/file.c). A write to a device that is away is lost without an error. */
int config_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *dev = n->parent;
	struct config_masks m;
	bool held;

	(void)s;
	if (n->len < 64 || (size_t)off >= n->len)
		return -EFBIG;
	if (dev->mute)
		return 0;
	config_masks(n, &m);
	held = holds(n);
	for (size_t i = 0; i < len && (size_t)off + i < n->len; i++) {
		uint8_t *b = &n->bytes[(size_t)off + i], rw = m.rw[(size_t)off + i], v = (uint8_t)value[i];

		*b = (uint8_t)((*b & ~rw & ~(v & m.w1c[(size_t)off + i])) | (v & rw));
	}
	if (asks_flr(n, value, len, (size_t)off))
		reset_function(dev, true);
	if (holds(n) != held) {
		if (!held)
			reset_below(dev);
		mute_below(dev, !held);
	}
	return 0;
}
