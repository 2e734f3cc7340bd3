/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Configuration space: which bits take a write, and what a reset leaves. Secondary bus reset (a port, with
 * everything below it) is not modelled. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define ACS_DEFAULT 0x1d /* SV RR CR UF: pci_std_enable_acs(), drivers/pci/pci.c */

static uint16_t get16(const struct node *config, size_t off)
{
	return (uint16_t)(config->bytes[off] | config->bytes[off + 1] << 8);
}

static void put16(struct node *config, size_t off, uint16_t v)
{
	config->bytes[off] = (uint8_t)v;
	config->bytes[off + 1] = (uint8_t)(v >> 8);
}

/* pci_find_next_ext_capability(): as many steps as there is room for capabilities, at most. */
uint16_t config_ecap(const struct node *config, uint16_t id)
{
	size_t at = 0x100;

	for (int left = (4096 - 256) / 8; left && at >= 0x100 && at + 8 <= config->len; left--) {
		if (get16(config, at) == id)
			return (uint16_t)at;
		at = (size_t)get16(config, at + 2) >> 4 & 0xffc;
	}
	return 0;
}

static uint16_t capability(const struct node *config, uint8_t id)
{
	size_t at = config->bytes[PCI_CAPABILITY_LIST] & 0xfc;

	for (int left = 48; left && at >= 0x40; left--, at = config->bytes[at + 1] & 0xfc)
		if (config->bytes[at] == id)
			return (uint16_t)at;
	return 0;
}

/* The writable bits of every byte; all others are hard-wired, status bits (write 1 to clear) included. */
static void masks(const struct node *config, uint8_t mask[4096])
{
	bool vf = get16(config, 0) == 0xffff;
	uint16_t command = vf ? PCI_COMMAND_MASTER : /* a VF's memory is enabled in its PF (SR-IOV 3.4.1.3) */
				PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY |
					PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE;
	uint16_t exp = capability(config, PCI_CAP_ID_EXP), acs = config_ecap(config, PCI_EXT_CAP_ID_ACS);
	uint16_t ats = config_ecap(config, PCI_EXT_CAP_ID_ATS);
	struct node m = { .bytes = mask };

	memset(mask, 0, 4096);
	put16(&m, PCI_COMMAND, command);
	if (exp)
		put16(&m, exp + PCI_EXP_DEVCTL, (uint16_t)~PCI_EXP_DEVCTL_BCR_FLR); /* FLR reads 0 */
	if (acs)
		put16(&m, acs + PCI_ACS_CTRL, get16(config, acs + PCI_ACS_CAP) & 0x7f);
	if (ats)
		put16(&m, ats + PCI_ATS_CTRL, PCI_ATS_CTRL_ENABLE | 0x1f); /* and the smallest translation unit */
}

/* pci_write_config(), drivers/pci/pci-sysfs.c: what goes beyond the end is cut off, all of it is EFBIG here
 * as in sysfs_kf_bin_write() (fs/sysfs/file.c). */
int config_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	uint8_t mask[4096];

	(void)s;
	if (n->len < 64 || (size_t)off >= n->len)
		return -EFBIG;
	masks(n, mask);
	for (size_t i = 0; i < len && (size_t)off + i < n->len; i++) {
		uint8_t *b = &n->bytes[(size_t)off + i], m = mask[(size_t)off + i];

		*b = (uint8_t)((*b & ~m) | ((uint8_t)value[i] & m));
	}
	return 0;
}

/* pci_restore_state() calls pci_enable_acs(), which ORs the default onto what the register holds. */
void config_enable_acs(struct sim *s, struct node *config)
{
	uint16_t at = config_ecap(config, PCI_EXT_CAP_ID_ACS);
	const struct node *iommu = node_find(s, "sys/class/iommu");

	if (at && iommu && iommu->child) /* pci_request_acs() is called by the IOMMU drivers */
		put16(config, at + PCI_ACS_CTRL,
		      get16(config, at + PCI_ACS_CTRL) | (get16(config, at + PCI_ACS_CAP) & ACS_DEFAULT));
}

/* reset_store(): the function's own registers are saved and restored around the reset, ACS control is not. */
int reset_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *config = node_child(n->parent, "config", 6), *methods = node_child(n->parent, "reset_method", 12);
	uint16_t acs;
	char *end;

	(void)len;
	(void)off;
	if (strtoul(value, &end, 0) != 1 || (*end && *end != '\n'))
		return -EINVAL;
	if (!methods || !methods->text[0] || !config)
		return -ENOTTY;
	acs = config_ecap(config, PCI_EXT_CAP_ID_ACS);
	if (acs)
		put16(config, acs + PCI_ACS_CTRL, 0);
	config_enable_acs(s, config);
	return 0;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at++)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

/* reset_method_store(), drivers/pci/pci.c: "" is none, "default" all, otherwise some that the device can. */
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
