/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Access control: what the kernel enables, by default and by its command line, and what it takes for isolation;
 * drivers/pci/pci.c and drivers/pci/quirks.c as of 6.12, of the quirks those that the text host of a real machine needs.
 * pcie_acs_override is the out-of-tree patch of that name: a host that shows it is taken to have it. */
#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "sim.h"

enum {
	REQ_ACS_FLAGS = PCI_ACS_SV | PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_UF, /* drivers/iommu/iommu.c; also the default */
	REDIRECT = PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_EC,
	ALL = 0x7f,
};

struct control {
	uint16_t ctrl, fw; /* to be written, and as it was found */
};

/* ---- command line ----------------------------------------------------------------------------------- */

/* The value of an option (of "pci=": one of its comma-separated parts; the last of a kind counts). NULL: not there. */
static const char *option(char buf[SIM_PATH_MAX * 8], struct sim *s, const char *param, const char *key)
{
	const struct node *n = node_find(s, "proc/cmdline");
	autofree char *line = strdup(n && n->text ? n->text : "");
	char *rest = line, *word, *part;
	const char *found = NULL;

	while ((word = strsep(&rest, " \n"))) {
		if (strncmp(word, param, strlen(param)) != 0)
			continue;
		word += strlen(param);
		while ((part = strsep(&word, ",")))
			if (strncmp(part, key, strlen(key)) == 0 && strlen(part) < SIM_PATH_MAX * 8)
				found = strcpy(buf, part + strlen(key));
	}
	return found;
}

/* "6.8" is older than 6.11; a release that does not begin so is taken for a new one. */
static bool kernel_before(struct sim *s, unsigned major, unsigned minor)
{
	const struct node *n = node_find(s, "proc/sys/kernel/osrelease");
	unsigned a, b;

	return n && n->text && sscanf(n->text, "%u.%u", &a, &b) == 2 && (a < major || (a == major && b < minor));
}

/* pci_dev_str_match_path(): "[DOMAIN:]BUS:DEV.FN[/DEV.FN]...", the last part is the device's own. */
static int match_path(const struct node *dev, char *path)
{
	unsigned domain, bus, slot, fn;
	char *part, over;
	struct bdf b;

	while ((part = strrchr(path, '/'))) {
		if (sscanf(part, "/%x.%x%c", &slot, &fn, &over) != 2)
			return -1;
		if (!bdf_parse(&b, dev->name) || bdf_device(b) != slot || bdf_function(b) != fn)
			return 0;
		dev = sim_bridge(dev);
		if (!dev)
			return 0;
		*part = '\0';
	}
	if (sscanf(path, "%x:%x:%x.%x%c", &domain, &bus, &slot, &fn, &over) != 4) {
		domain = 0;
		if (sscanf(path, "%x:%x.%x%c", &bus, &slot, &fn, &over) != 3)
			return -1;
	}
	return bdf_parse(&b, dev->name) && b.domain == domain && b.bus == bus && bdf_device(b) == slot &&
	       bdf_function(b) == fn;
}

/* pci_dev_str_match(): 1, 0 or -1 for nonsense; *end is where it stopped reading. */
static int match_device(const struct node *dev, const char *text, const char **end)
{
	static const uint8_t at[] = { PCI_VENDOR_ID, PCI_DEVICE_ID, PCI_SUBSYSTEM_VENDOR_ID, PCI_SUBSYSTEM_ID };
	unsigned id[4] = { 0 };
	int n = 0;

	if (strncmp(text, "pci:", 4) == 0) {
		const struct node *config = config_of(dev);

		if (sscanf(text + 4, "%x:%x:%x:%x%n", &id[0], &id[1], &id[2], &id[3], &n) != 4 &&
		    sscanf(text + 4, "%x:%x%n", &id[0], &id[1], &n) != 2)
			return -1;
		*end = text + 4 + n;
		for (int i = 0; i < 4; i++)
			if (id[i] && (!config || id[i] != config_get16(config, at[i])))
				return 0;
		return 1;
	}
	*end = text + strcspn(text, ";");
	autofree char *path = strndup(text, (size_t)(*end - text));

	return match_path(dev, path ? path : (char[]){ "" });
}

/* "1011101@": the last character is bit 0, x leaves a bit. NULL: no such flags. */
static const char *parse_flags(const char *p, uint16_t *mask, uint16_t *flags)
{
	size_t n = strcspn(p, "@");

	if (!p[n] || n > 16)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		char c = p[n - 1 - i];

		if (!strchr("01xX", c))
			return NULL;
		*mask |= (uint16_t)(c == '0' || c == '1' ? 1u << i : 0);
		*flags |= (uint16_t)(c == '1' ? 1u << i : 0);
	}
	return p + n + 1;
}

/* __pci_config_acs(). Until "PCI/ACS: Fix 'pci=config_acs=' parameter" (6.15, and in stable series) it kept the first
 * entry's flags and so took the next entry's for a part of the device's name, which ended the list; and it mixed up
 * which bits come from the firmware. */
static void config_acs(const struct node *dev, struct control *c, bool old, const char *p, uint16_t mask,
		       uint16_t flags)
{
	bool own = mask == 0;
	int r = 0;

	while (p && *p) {
		if (own && !(old && mask)) {
			mask = flags = 0;
			p = parse_flags(p, &mask, &flags);
			if (!p || mask & ~ALL)
				return;
		}
		r = match_device(dev, p, &p);
		if (r != 0 || (*p != ';' && *p != ','))
			break;
		p++;
	}
	if (r != 1)
		return;
	if (old)
		c->ctrl = (uint16_t)((c->ctrl & ~mask) | (c->fw & mask) | flags);
	else
		c->ctrl = (uint16_t)((c->fw & ~mask) | (flags & mask));
}

/* ---- enabling --------------------------------------------------------------------------------------- */

/* pci_acs_enable is set by pci_request_acs(), which IOMMU drivers call; the command line is obeyed without one, too.
 * Before 6.11 there was no config_acs, and disable_acs_redir just cleared its bits. */
void acs_enable(struct sim *s, struct node *dev)
{
	struct node *config = config_of(dev);
	uint16_t at = config ? config_ecap(config, PCI_EXT_CAP_ID_ACS) : 0, cap;
	char buf[SIM_PATH_MAX * 8];
	struct control c;

	if (!at)
		return;
	cap = config_get16(config, at + PCI_ACS_CAP) & ALL;
	c.fw = c.ctrl = config_get16(config, at + PCI_ACS_CTRL);
	if (sim_iommu(s)) /* pci_std_enable_acs() */
		c.ctrl |= cap & (REQ_ACS_FLAGS | (option(buf, s, "pci=", "noats") ? PCI_ACS_TB : 0));
	if (kernel_before(s, 6, 11)) {
		c.fw = c.ctrl;
		config_acs(dev, &c, false, option(buf, s, "pci=", "disable_acs_redir="), REDIRECT, 0);
	} else {
		config_acs(dev, &c, s->old_parser, option(buf, s, "pci=", "disable_acs_redir="), REDIRECT,
			   (uint16_t)~REDIRECT);
		config_acs(dev, &c, s->old_parser, option(buf, s, "pci=", "config_acs="), 0, 0);
	}
	config_put16(config, at + PCI_ACS_CTRL, c.ctrl & cap);
}

/* ---- ATS -------------------------------------------------------------------------------------------- */

/* iommu_group_show_type(); a text host may lack the file. */
static bool translates(struct sim *s, const struct node *dev)
{
	const struct node *type = node_find(s, "sys/kernel/iommu_groups/%d/type", group_of(dev));
	char buf[SIM_PATH_MAX * 8];
	const char *pt = option(buf, s, "iommu=", "pt");

	return type && type->text ? strncmp(type->text, "DMA", 3) == 0 : !pt;
}

/* A VF's ATS works only if the kernel has set its PF's STU: when it enabled the PF's own ATS, or, from 6.12 on, when it
 * found it (pci_enable_ats(), pci_prepare_ats(), drivers/pci/ats.c). Out of a guest a function is in its group's own domain
 * again. */
void ats_attach(struct sim *s, struct node *dev, bool guest)
{
	struct node *config = config_of(dev), *pf = dev->pf ? config_of(dev->pf) : NULL;
	uint16_t at = config ? config_ecap(config, PCI_EXT_CAP_ID_ATS) : 0, up = pf ? config_ecap(pf, PCI_EXT_CAP_ID_ATS) : 0;
	char buf[SIM_PATH_MAX * 8];
	bool on = guest || translates(s, dev);

	if (!at || group_of(dev) < 0 || option(buf, s, "pci=", "noats"))
		return;
	if (dev->pf && kernel_before(s, 6, 12) && !(up && config_get16(pf, up + PCI_ATS_CTRL) & PCI_ATS_CTRL_ENABLE))
		on = false;
	dev->ats = on;
	config_put16(config, at + PCI_ATS_CTRL, (uint16_t)((config_get16(config, at + PCI_ATS_CTRL) & ~PCI_ATS_CTRL_ENABLE) |
							   (on ? PCI_ATS_CTRL_ENABLE : 0)));
}

/* ---- isolation -------------------------------------------------------------------------------------- */

/* pcie_acs_overrides() of the patch: only PCI Express functions without the capability. */
static bool overridden(struct sim *s, const struct node *dev, int type)
{
	bool port = type == PCI_EXP_TYPE_ROOT_PORT || type == PCI_EXP_TYPE_DOWNSTREAM;
	char buf[SIM_PATH_MAX * 8], id[32];

	if (config_ecap(config_of(dev), PCI_EXT_CAP_ID_ACS))
		return false;
	(void)snprintf(id, sizeof(id), "id:%04x:%04x", config_get16(config_of(dev), PCI_VENDOR_ID),
		       config_get16(config_of(dev), PCI_DEVICE_ID));
	return (port && option(buf, s, "pcie_acs_override=", "downstream")) ||
	       (!port && config_multifunction(dev) && option(buf, s, "pcie_acs_override=", "multifunction")) ||
	       option(buf, s, "pcie_acs_override=", id);
}

/* pci_dev_acs_enabled[]: functions that isolate without a capability that says so. The PCH's root ports need the kernel's
 * help for it, pci_quirk_enable_intel_pch_acs(), which it gives when there is an IOMMU. */
static bool quirk(struct sim *s, const struct node *dev, int type)
{
	static const struct {
		uint16_t vendor, first, last;
		bool     pch;
	} known[] = {
		{ 0x8086, 0x8d10, 0x8d1e, true },  /* Wellsburg (X99) PCH */
		{ 0x8086, 0x10fb, 0x10fb, false }, /* 82599: pci_quirk_mf_endpoint_acs() */
	};
	uint16_t vendor = config_get16(config_of(dev), PCI_VENDOR_ID), id = config_get16(config_of(dev), PCI_DEVICE_ID);

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (vendor == known[i].vendor && id >= known[i].first && id <= known[i].last)
			return known[i].pch ? type == PCI_EXP_TYPE_ROOT_PORT && sim_iommu(s) : true;
	return false;
}

/* pci_acs_flags_enabled(): a bit that the capability lacks counts as hard-wired; a capability that is missing does not. */
static bool flags_enabled(const struct node *config)
{
	uint16_t at = config_ecap(config, PCI_EXT_CAP_ID_ACS), want;

	if (!at)
		return false;
	want = REQ_ACS_FLAGS & (config_get16(config, at + PCI_ACS_CAP) | PCI_ACS_EC);
	return (config_get16(config, at + PCI_ACS_CTRL) & want) == want;
}

/* Conventional functions and bridges to them never isolate, ports do by their flags, other functions have no peers
 * unless they are one of several. */
bool acs_enabled(struct sim *s, const struct node *dev)
{
	int type = config_type(dev);

	if (type != CONFIG_CONVENTIONAL && (overridden(s, dev, type) || quirk(s, dev, type)))
		return true;
	switch (type) {
	case CONFIG_CONVENTIONAL:
	case PCI_EXP_TYPE_PCIE_BRIDGE:
	case PCI_EXP_TYPE_PCI_BRIDGE:
	case PCI_EXP_TYPE_RC_EC:
		return false;
	case PCI_EXP_TYPE_DOWNSTREAM:
	case PCI_EXP_TYPE_ROOT_PORT:
		return flags_enabled(config_of(dev));
	default:
		return !config_multifunction(dev) || flags_enabled(config_of(dev));
	}
}
