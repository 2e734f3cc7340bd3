/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What only a physical function has, or is asked for: config space, link, power, resets, SR-IOV. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <string.h>

#include "base/auto.h"
#include "base/strtab.h"
#include "host/attr.h"
#include "host/pci.h"
#include "host/root_own.h"
#include "host/vpd.h"

/* One of these words, as a constant; NULL: another, or the file is not there. */
static const char *read_word(struct pci_reader *rd, const char *const *words, int n, const char *name)
{
	char text[32];
	int i = pci_attr(rd, text, sizeof(text), name) == 0 ? strtab_find(words, n, text) : -1;

	return i < 0 ? NULL : words[i];
}

/* pci_power_names[] (drivers/pci/pci.c) but for "error" and "unknown". Before config space is read: that wakes a
 * function from D3cold (pci_config_pm_runtime_get()). */
static void read_power(struct pci_reader *rd, struct host_facts *f)
{
	static const char *const states[] = { "D0", "D1", "D2", "D3hot", "D3cold" };

	f->power_state = read_word(rd, states, ARRAY_SIZE(states), "power_state");
}

/* Asked only where the answer matters: what sleeps, what stands in a guest's way, and what must not sleep while one has
 * it. Whoever is "on" does not go to D3cold either (pm_runtime_forbid(), drivers/base/power/runtime.c). */
static void read_sleep(struct pci_reader *rd, const struct host_function *fn, struct host_facts *f)
{
	/* rtpm_status_str() and control_show(), drivers/base/power */
	static const char *const states[] = { "active", "suspended", "suspending", "resuming", "error", "unsupported" };
	static const char *const controls[] = { "on", "auto" };
	bool on_path = f->kind == HOST_GPU || f->kind == HOST_NIC || host_kind_is_bridge(f->kind);
	uint64_t n = 0;

	if (f->power_state && strcmp(f->power_state, "D0") != 0)
		f->runtime_status = read_word(rd, states, ARRAY_SIZE(states), "power/runtime_status");
	if (rd->was && fn->driver == rd->was_driver) { /* a driver may say it when it takes a function: vfio-pci says "auto" */
		f->power_control = rd->was->power_control;
		f->d3cold_allowed = rd->was->d3cold_allowed;
		return;
	}
	if (on_path)
		f->power_control = read_word(rd, controls, ARRAY_SIZE(controls), "power/control");
	if (f->kind == HOST_OTHER || f->power_control == controls[0])
		return;
	if (pci_number(rd, &n, 10, 1, "d3cold_allowed") == 0)
		f->d3cold_allowed = (int8_t)n;
}

static void read_override(struct pci_reader *rd, struct host_facts *f)
{
	char text[HOST_PATH_MAX];

	if (pci_words(rd, text, sizeof(text), "driver_override") == 0 && strcmp(text, "(null)") != 0)
		f->driver_override = pci_text(rd, text);
}

/* iommu_group_show_type(), drivers/iommu/iommu.c; since 4.19. One device's share of a guest's translations hangs on it
 * (topo/ats), and only a NIC's. */
static void read_domain(struct pci_reader *rd, const struct host_function *fn, struct host_facts *f)
{
	static const char *const types[] = { "identity", "DMA", "DMA-FQ", "blocked", "unmanaged" };
	char text[32];
	int i;

	if (f->kind != HOST_NIC || fn->iommu_group < 0 ||
	    host_read(rd->root, text, sizeof(text), "sys/kernel/iommu_groups/%d/type", fn->iommu_group) < 0)
		return;
	i = strtab_find(types, ARRAY_SIZE(types), text);
	f->dma_domain = i < 0 ? NULL : types[i];
}

/* The file is missing where the kernel knows no reset (pci_reset_supported()). */
static void read_resets(struct pci_reader *rd, struct host_facts *f)
{
	char text[256];
	int r;

	if (rd->was) {
		f->reset_methods = rd->was->reset_methods;
		return;
	}
	r = pci_words(rd, text, sizeof(text), "reset_method");
	if (r == 0 || r == -ENOENT)
		f->reset_methods = pci_text(rd, r == 0 ? text : "");
}

static struct pcicap_link sysfs_link(struct pci_reader *rd, const char *speed, const char *width)
{
	struct pcicap_link l = { 0 };
	uint64_t n = 0;
	char text[64];

	if (pci_attr(rd, text, sizeof(text), speed) == 0)
		l.speed = attr_speed(text);
	/* 255: unknown (PCIE_LNK_WIDTH_UNKNOWN) */
	if (pci_number(rd, &n, 10, 255, width) == 0 && n <= 32)
		l.width = (uint8_t)n;
	return l;
}

static void read_link(struct pci_reader *rd, struct host_facts *f)
{
	f->link_cap = f->cap.link_cap;
	f->link_now = f->cap.link_now;
	if (f->cap.pcie == HOST_UNKNOWN) {
		f->link_cap = sysfs_link(rd, "max_link_speed", "max_link_width");
		f->link_now = sysfs_link(rd, "current_link_speed", "current_link_width");
	}
}

static int config_read(void *self, uint16_t off, unsigned n, uint32_t *ret)
{
	return host_config_read(self, off, n, ret);
}

static int read_config(struct pci_reader *rd, struct host_facts *f)
{
	struct host_config c;
	int r = host_config_open(&c, rd->root, "%s/config", rd->dir);

	if (r == 0) {
		c.chunk = rd->chunk;
		pcicap_walk(&f->cap, config_read, &c);
		host_config_close(&c);
	}
	if (r < 0 || !f->cap.readable)
		return host_finding_add(rd->inv, "pci.config-unreadable", rd->bdf, "cannot read its config space%s%s",
					r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
	if (f->cap.dead)
		return host_finding_add(rd->inv, "pci.config-dead", rd->bdf, "its config space reads as ff: it %s",
					!f->power_state ? "fell off the bus or sleeps in D3cold" :
					strcmp(f->power_state, "D3cold") == 0 ? "sleeps in D3cold" :
					"fell off the bus");
	if (f->cap.bad_header)
		return host_finding_add(rd->inv, "pci.header-broken", rd->bdf,
					"its header type reads as %02x, which is none: it answers only in part, so its capabilities "
					"are unknown; reset or power-cycle it", f->cap.header);
	if (f->cap.broken)
		return host_finding_add(rd->inv, "pci.config-broken", rd->bdf,
					"its capability list loops or leaves the config space; what lies behind is unknown");
	return 0;
}

static bool sriov_number(struct pci_reader *rd, uint16_t *ret, const char *name)
{
	uint64_t n = 0;
	int r = pci_number(rd, &n, 10, UINT16_MAX, name);

	if (r == 0)
		*ret = (uint16_t)n;
	return r == 0;
}

/* The driver may allow fewer VFs than the capability has (pci_sriov_set_totalvfs(): igb allows 7 of 8), and
 * sysfs says what it allows. Where config space ends early for this reader, sysfs has the rest as well. VFs of
 * others than NICs are not velad's to make: of those that have none (VF Enable is off, 9.3.3.3.1) no more is asked. */
static void read_sriov(struct pci_reader *rd, struct host_facts *f)
{
	struct pcicap_sriov *s = &f->cap.sriov;

	if (s->known == HOST_PRESENT && f->kind != HOST_NIC && !(s->ctl & PCI_SRIOV_CTRL_VFE)) {
		f->numvfs_known = true;
		return;
	}
	if (s->known == HOST_ABSENT || !sriov_number(rd, &f->numvfs, "sriov_numvfs"))
		return;
	f->numvfs_known = true;
	(void)sriov_number(rd, &s->total, "sriov_totalvfs");
	if (s->known == HOST_PRESENT)
		return;
	s->known = HOST_PRESENT;
	(void)sriov_number(rd, &s->offset, "sriov_offset");
	(void)sriov_number(rd, &s->stride, "sriov_stride");
}

static void read_vpd(struct pci_reader *rd, struct host_facts *f)
{
	char serial[VPD_SERIAL_MAX] = "";

	if (rd->root->vpd.wanted && (f->kind == HOST_GPU || f->kind == HOST_NIC) && pcicap_answers(&f->cap) && !f->cap.serial)
		host_vpd_serial(serial, rd->root, rd->bdf, rd->dir);
	f->vpd_serial = pci_text(rd, serial);
}

int pci_physical_read(struct pci_reader *rd, const struct host_function *fn, struct host_facts *f)
{
	unsigned config_total;
	int r;

	read_power(rd, f);
	r = read_config(rd, f);
	if (r < 0)
		return r;
	f->kind = pci_kind(rd, f);
	config_total = f->cap.sriov.total;
	read_domain(rd, fn, f);
	read_override(rd, f);
	read_vpd(rd, f);
	read_link(rd, f);
	read_sriov(rd, f);
	pci_read_bars(rd, f);
	f->vf_bar = pci_vf_bars(rd, config_total);
	read_resets(rd, f);
	read_sleep(rd, fn, f);
	return pci_range_add(rd, f);
}
