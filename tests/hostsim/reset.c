/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Resets: what is left in the registers (PCI Express Base 6.0), and what the kernel puts back (drivers/pci/pci.c as of
 * 6.12). A reset through sysfs saves and restores the one function; one that a write to configuration space starts
 * (secondary bus reset, link disable, FLR) is not seen by the kernel, and nothing is restored. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "sim.h"

/* ---- hardware --------------------------------------------------------------------------------------- */

/* BARs keep their type bits; of a bridge also bus numbers and windows go (7.5.1.2, 7.5.1.3). */
static void clear_addresses(struct node *config)
{
	bool bridge = (config->bytes[PCI_HEADER_TYPE] & 0x7f) == PCI_HEADER_TYPE_BRIDGE;
	size_t rom = bridge ? PCI_ROM_ADDRESS1 : PCI_ROM_ADDRESS;

	for (size_t at = PCI_BASE_ADDRESS_0; at < (bridge ? PCI_BASE_ADDRESS_2 : PCI_CARDBUS_CIS); at += 4) {
		bool high = at > PCI_BASE_ADDRESS_0 && (config->bytes[at - 4] & 7) == PCI_BASE_ADDRESS_MEM_TYPE_64;

		config->bytes[at] &= high ? 0 : 0x0f;
		memset(config->bytes + at + 1, 0, 3);
	}
	memset(config->bytes + rom, 0, 4);
	if (!bridge)
		return;
	memset(config->bytes + PCI_PRIMARY_BUS, 0, 4);
	for (size_t at = PCI_IO_BASE; at < PCI_PREF_BASE_UPPER32; at += at == PCI_IO_BASE ? 4 : 2) {
		config->bytes[at] &= 0x0f;
		config->bytes[at + 1] &= at == PCI_IO_BASE ? 0x0f : 0;
	}
	memset(config->bytes + PCI_PREF_BASE_UPPER32, 0, 12);
}

/* Controls that are not writable here, but that a reset clears: MSI, MSI-X, power, SR-IOV (9.3.3.3: VF Enable, and with
 * it the VFs), PASID, PRI. */
static void clear_controls(struct node *config)
{
	static const struct {
		uint16_t id, at, keep;
		bool extended;
	} control[] = {
		{ PCI_CAP_ID_PM, PCI_PM_CTRL, (uint16_t)~PCI_PM_CTRL_STATE_MASK, false },
		{ PCI_CAP_ID_MSI, PCI_MSI_FLAGS, (uint16_t) ~(PCI_MSI_FLAGS_ENABLE | PCI_MSI_FLAGS_QSIZE), false },
		{ PCI_CAP_ID_MSIX, PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_QSIZE, false },
		{ PCI_EXT_CAP_ID_SRIOV, PCI_SRIOV_CTRL, 0, true },
		{ PCI_EXT_CAP_ID_SRIOV, PCI_SRIOV_NUM_VF, 0, true },
		{ PCI_EXT_CAP_ID_PASID, PCI_PASID_CTRL, 0, true },
		{ PCI_EXT_CAP_ID_PRI, PCI_PRI_CTRL, 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(control); i++) {
		uint16_t id = control[i].id;
		uint16_t at = control[i].extended ? config_ecap(config, id) : config_cap(config, (uint8_t)id);

		if (at)
			config_put16(config, at + control[i].at,
				     config_get16(config, at + control[i].at) & control[i].keep);
	}
}

/* 7.5.3.4: 512 bytes at a time, relaxed ordering, no snoop. 6.6.2: FLR leaves the payload size and link controls. */
static void default_express(struct node *config, const struct config_masks *m, const struct node *old, bool flr)
{
	uint16_t exp = config_cap(config, PCI_CAP_ID_EXP);
	struct node rw = { .bytes = (uint8_t *)m->rw };
	uint16_t control = PCI_EXP_DEVCTL_READRQ_512B | PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_NOSNOOP_EN;

	if (!exp)
		return;
	control &= config_get16(&rw, exp + PCI_EXP_DEVCTL);
	if (flr) {
		control |= config_get16(old, exp + PCI_EXP_DEVCTL) & PCI_EXP_DEVCTL_PAYLOAD;
		config_put16(config, exp + PCI_EXP_LNKCTL, config_get16(old, exp + PCI_EXP_LNKCTL));
	}
	config_put16(config, exp + PCI_EXP_DEVCTL, control);
}

/* The VFs of a PF that was reset: their registers are as new, and without VF Enable nobody answers for them. */
static void reset_vfs(struct node *pf)
{
	for (struct node *c = pf->parent->child; c; c = c->next)
		if (c->pf == pf) {
			reset_function(c, true);
			c->mute = true;
		}
}

void reset_function(struct node *dev, bool flr)
{
	struct node *config = config_of(dev);
	uint8_t before[4096] = { 0 };
	struct config_masks m;

	if (!config)
		return;
	memcpy(before, config->bytes, config->len < sizeof(before) ? config->len : sizeof(before));
	config_masks(config, &m);
	for (size_t i = 0; i < config->len && i < sizeof(before); i++)
		config->bytes[i] &=
			(uint8_t) ~(m.rw[i] | (i < 0x100 ? m.w1c[i] : 0)); /* AER status is sticky (7.8.4) */
	default_express(config, &m, &(struct node){ .bytes = before }, flr);
	clear_addresses(config);
	clear_controls(config);
	reset_vfs(dev);
}

void reset_below(struct node *port)
{
	for (struct node *c = port->child; c; c = c->next)
		if (sim_is_device(c)) {
			reset_function(c, false);
			reset_below(c);
		}
}

/* ---- the kernel's resets ---------------------------------------------------------------------------- */

/* sriov_restore_state(): VF Enable and NumVFs as before; the VFs answer again, unconfigured. */
static void restore_vfs(struct node *pf)
{
	for (struct node *c = pf->parent->child; c; c = c->next)
		if (c->pf == pf)
			c->mute = c->broken;
}

/* pci_restore_state() puts back what pci_save_state() kept and what the kernel remembers; but ACS control comes from
 * pci_enable_acs(), which ORs the default onto what it finds, and ATS control from pci_restore_ats_state(), which knows
 * only an ATS that the kernel enabled. So what others wrote there is gone. */
static void restore(struct sim *s, struct node *dev, const uint8_t *saved)
{
	struct node *config = config_of(dev);
	uint16_t acs = config_ecap(config, PCI_EXT_CAP_ID_ACS), ats = config_ecap(config, PCI_EXT_CAP_ID_ATS);

	memcpy(config->bytes, saved, config->len);
	if (acs)
		config_put16(config, acs + PCI_ACS_CTRL, 0);
	if (ats && !dev->ats)
		config_put16(config, ats + PCI_ATS_CTRL, 0);
	acs_enable(s, dev);
	restore_vfs(dev);
}

/* pci_dev_wait() gives up on a device that reads ff after its reset, with ENOTTY. */
int reset_restore(struct sim *s, struct node *dev, bool flr)
{
	struct node *config = config_of(dev);
	uint8_t saved[4096];

	if (!config || config->len > sizeof(saved))
		return -ENOTTY;
	memcpy(saved, config->bytes, config->len);
	reset_function(dev, flr);
	if (s->now.mute)
		dev->broken = dev->mute = true;
	if (dev->mute)
		return -ENOTTY;
	restore(s, dev, saved);
	return 0;
}

/* pci_parent_bus_reset(): below a port, no bridge itself, and alone on its bus. */
static bool alone(const struct node *dev)
{
	for (const struct node *c = dev->parent->child; c; c = c->next)
		if (c != dev && sim_is_device(c))
			return false;
	return sim_bridge(dev) && !config_is_bridge(dev);
}

/* One of pci_reset_fn_methods[]. pci_pm_reset() needs a function that loses its state in D3hot. */
static int reset_by(struct sim *s, struct node *dev, const char *method)
{
	struct node *config = config_of(dev);
	uint16_t pm = config ? config_cap(config, PCI_CAP_ID_PM) : 0;

	if (strcmp(method, "bus") == 0 || strcmp(method, "cxl_bus") == 0)
		return alone(dev) ? reset_restore(s, dev, false) : -ENOTTY;
	if (strcmp(method, "pm") == 0 && (!pm || config_get16(config, pm + PCI_PM_CTRL) & PCI_PM_CTRL_NO_SOFT_RESET))
		return -ENOTTY;
	return reset_restore(s, dev, true);
}

/* reset_store(), drivers/pci/pci-sysfs.c; __pci_reset_function_locked() goes on to the next method on ENOTTY. */
int reset_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	const struct node *methods = node_attr(n->parent, "reset_method");
	autofree char *words = methods ? strdup(methods->text) : NULL;
	char *rest = words, *word, *end;
	int r = -ENOTTY;

	(void)len;
	(void)off;
	if (strtoul(value, &end, 0) != 1 || (*end && *end != '\n'))
		return -EINVAL;
	while (r == -ENOTTY && (word = strsep(&rest, " ")))
		r = *word ? reset_by(s, n->parent, word) : -ENOTTY;
	return r;
}

/* reset_subordinate_store(), drivers/pci/pci-sysfs.c: each function below is saved, reset with the bus, and restored. */
int reset_subordinate_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	char *end;
	int r = 0;

	(void)len;
	(void)off;
	if (strtoul(value, &end, 0) != 1 || (*end && *end != '\n'))
		return -EINVAL;
	for (struct node *c = n->parent->child; c; c = c->next)
		if (sim_is_device(c)) {
			int one = reset_restore(s, c, false);

			r = r < 0 ? r : one;
		}
	return r;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at++)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

/* reset_method_store(): "" is none, "default" all, otherwise some that the device can. */
int reset_method_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	autofree char *copy = strndup(value, strcspn(value, "\n")), *words = copy ? strdup(copy) : NULL;
	char *rest = words, *word;

	(void)s;
	(void)len;
	(void)off;
	if (!words)
		return -ENOMEM;
	if (strcmp(copy, "default") == 0) {
		node_text(n, n->methods);
		return 0;
	}
	while ((word = strsep(&rest, " ")))
		if (*word && !has_word(n->methods, word))
			return -EINVAL;
	node_text(n, copy);
	return 0;
}
