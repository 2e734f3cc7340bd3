/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VFs come and go as in drivers/pci/iov.c. Each has an IOMMU group of its own, as below a port that isolates
 * (what iommu_groups.py finds for the text hosts here). */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static unsigned long number(const struct node *dir, const char *attr, int base)
{
	const struct node *n = node_child(dir, attr, strlen(attr));

	return n && n->text ? strtoul(n->text, NULL, base) : 0;
}

/* pci_iov_virtfn_bus() and pci_iov_virtfn_devfn() */
static bool vf_name(char name[BDF_TEXT_MAX], const struct node *pf, unsigned i)
{
	struct bdf b;

	if (!bdf_parse(&b, pf->name) ||
	    !bdf_add(&b, b, (uint32_t)(number(pf, "sriov_offset", 10) + i * number(pf, "sriov_stride", 10))))
		return false;
	(void)bdf_text(name, b);
	return true;
}

/* ---- IOMMU groups ----------------------------------------------------------------------------------- */

/* iommu_group_alloc() takes the lowest number that is free (ida_alloc()). */
static void group_add(struct sim *s, const struct node *dev, const struct node *pf)
{
	const struct node *of_pf = node_child(pf, "iommu_group", 11), *type;
	char path[SIM_PATH_MAX], ups[SIM_PATH_MAX], target[2 * SIM_PATH_MAX];
	unsigned id = 0;

	if (!of_pf)
		return;
	while (node_find(s, "sys/kernel/iommu_groups/%u", id))
		id++;
	(void)node_path(path, dev);
	sim_ups(ups, path);
	(void)snprintf(target, sizeof(target), "%skernel/iommu_groups/%u", ups, id);
	(void)node_add(s, TEXT_LINK, target, "%s/iommu_group", path);
	(void)snprintf(target, sizeof(target), "../../../../%s", path + strlen("sys/"));
	(void)node_add(s, TEXT_LINK, target, "sys/kernel/iommu_groups/%u/devices/%s", id, dev->name);
	type = node_find(s, "sys/kernel/iommu_groups/%s/type", strrchr(of_pf->text, '/') + 1);
	if (type)
		(void)node_add(s, TEXT_FILE, type->text, "sys/kernel/iommu_groups/%u/type", id);
}

void sim_group_remove(struct sim *s, struct node *dev)
{
	const struct node *link = node_child(dev, "iommu_group", 11);
	const char *id = link ? strrchr(link->text, '/') + 1 : NULL;

	if (!id)
		return;
	node_remove(node_find(s, "sys/kernel/iommu_groups/%s/devices/%s", id, dev->name));
	if (!node_find(s, "sys/kernel/iommu_groups/%s/devices", id)->child)
		node_remove(node_find(s, "sys/kernel/iommu_groups/%s", id));
}

/* ---- one VF ----------------------------------------------------------------------------------------- */

/* Ids read ffff in a VF (SR-IOV 3.4.1.1); one PCI Express capability, an endpoint that can FLR. */
static void make_config(struct sim *s, const char *path, const struct node *pf)
{
	enum { EXP = 0x60 };
	const struct node *of_pf = node_child(pf, "config", 6);
	struct node *n = node_add(s, TEXT_BYTES, NULL, "%s/config", path);

	memset(n->bytes, 0, n->len);
	memset(n->bytes, 0xff, 4);
	n->bytes[PCI_STATUS] = PCI_STATUS_CAP_LIST;
	if (of_pf) {
		memcpy(n->bytes + PCI_CLASS_REVISION, of_pf->bytes + PCI_CLASS_REVISION, 4);
		memcpy(n->bytes + PCI_SUBSYSTEM_VENDOR_ID, of_pf->bytes + PCI_SUBSYSTEM_VENDOR_ID, 4);
	}
	n->bytes[PCI_CAPABILITY_LIST] = EXP;
	n->bytes[EXP] = PCI_CAP_ID_EXP;
	n->bytes[EXP + PCI_EXP_FLAGS] = 2;
	n->bytes[EXP + PCI_EXP_DEVCAP + 3] = PCI_EXP_DEVCAP_FLR >> 24;
}

static const char *text_of(const struct node *dir, const char *attr)
{
	const struct node *n = node_child(dir, attr, strlen(attr));

	return n && n->text ? n->text : "0";
}

static void make_uevent(struct sim *s, const struct node *dev)
{
	unsigned v = (unsigned)number(dev, "vendor", 16), d = (unsigned)number(dev, "device", 16);
	unsigned sv = (unsigned)number(dev, "subsystem_vendor", 16), sd = (unsigned)number(dev, "subsystem_device", 16);
	unsigned class = (unsigned)number(dev, "class", 16);
	char text[512], path[SIM_PATH_MAX];

	(void)snprintf(text, sizeof(text),
		       "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\n"
		       "MODALIAS=pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X",
		       class, v, d, sv, sd, dev->name, v, d, sv, sd, class >> 16, class >> 8 & 0xff, class & 0xff);
	(void)node_add(s, TEXT_FILE, text, "%s/uevent", node_path(path, dev));
}

static void make_files(struct sim *s, const char *path, const struct node *pf)
{
	static const char *const inherited[] = { "vendor", "class", "revision", "subsystem_vendor", "subsystem_device",
						 "numa_node" };
	static const char *const own[][2] = { { "driver_override", "(null)" }, { "enable", "0" }, { "irq", "0" },
					      { "power_state", "D0" }, { "d3cold_allowed", "1" }, { "reset", NULL },
					      { "current_link_speed", "Unknown" }, { "current_link_width", "0" },
					      { "max_link_speed", "Unknown" }, { "max_link_width", "0" } };
	char device[16];

	for (size_t i = 0; i < ARRAY_SIZE(inherited); i++)
		(void)node_add(s, TEXT_FILE, text_of(pf, inherited[i]), "%s/%s", path, inherited[i]);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		(void)node_add(s, TEXT_FILE, own[i][1], "%s/%s", path, own[i][0]);
	(void)snprintf(device, sizeof(device), "0x%s", text_of(pf, "sriov_vf_device"));
	(void)node_add(s, TEXT_FILE, device, "%s/device", path);
	node_add(s, TEXT_FILE, "flr", "%s/reset_method", path)->methods = "flr";
	make_config(s, path, pf);
}

/* pci_iov_add_virtfn(): the device, its links, then the driver that wants it (drivers_autoprobe). */
static bool vf_add(struct sim *s, struct node *pf, unsigned i)
{
	char name[BDF_TEXT_MAX], path[SIM_PATH_MAX], target[2 * SIM_PATH_MAX], up[SIM_PATH_MAX];
	struct node *vf;

	if (!vf_name(name, pf, i))
		return false;
	(void)node_path(up, pf->parent);
	if (strlen(up) + sizeof(name) >= sizeof(path))
		return false;
	(void)snprintf(path, sizeof(path), "%.*s/%s", (int)(sizeof(path) - sizeof(name) - 1), up, name);
	make_files(s, path, pf);
	vf = node_find(s, "%s", path);
	make_uevent(s, vf);
	group_add(s, vf, pf);
	(void)snprintf(target, sizeof(target), "../%s", pf->name);
	(void)node_add(s, TEXT_LINK, target, "%s/physfn", path);
	(void)snprintf(target, sizeof(target), "../%s", name);
	(void)node_add(s, TEXT_LINK, target, "%s/virtfn%u", node_path(up, pf), i);
	(void)snprintf(target, sizeof(target), "../../../%s", path + strlen("sys/"));
	(void)node_add(s, TEXT_LINK, target, "sys/bus/pci/devices/%s", name);
	sim_attach_writers(vf);
	vf->home = pf->home;
	sim_probe(s, vf);
	return true;
}

/* pci_iov_remove_virtfn() */
static void vf_remove(struct sim *s, struct node *pf, unsigned i)
{
	char name[BDF_TEXT_MAX], path[SIM_PATH_MAX];
	struct node *vf = vf_name(name, pf, i) ? sim_device(s, name) : NULL;

	node_remove(node_find(s, "%s/virtfn%u", node_path(path, pf), i));
	if (!vf)
		return;
	sim_driver_set(s, vf, "");
	sim_group_remove(s, vf);
	node_remove(node_find(s, "sys/bus/pci/devices/%s", name));
	node_remove(vf);
}

/* ---- the PF ----------------------------------------------------------------------------------------- */

/* VF Enable, VF Memory Space Enable and NumVFs in the PF's SR-IOV capability, as sriov_enable() leaves them. */
static void set_count(struct node *pf, unsigned n)
{
	struct node *config = node_child(pf, "config", 6);
	uint16_t at = config ? config_ecap(config, PCI_EXT_CAP_ID_SRIOV) : 0;
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", n);
	node_text(node_child(pf, "sriov_numvfs", 12), text);
	if (!at)
		return;
	config->bytes[at + PCI_SRIOV_CTRL] &= (uint8_t)~(PCI_SRIOV_CTRL_VFE | PCI_SRIOV_CTRL_MSE);
	config->bytes[at + PCI_SRIOV_CTRL] |= n ? PCI_SRIOV_CTRL_VFE | PCI_SRIOV_CTRL_MSE : 0;
	config->bytes[at + PCI_SRIOV_NUM_VF] = (uint8_t)n;
	config->bytes[at + PCI_SRIOV_NUM_VF + 1] = (uint8_t)(n >> 8);
}

void sriov_disable(struct sim *s, struct node *pf)
{
	unsigned now = (unsigned)number(pf, "sriov_numvfs", 10);

	if (!now)
		return;
	for (unsigned i = 0; i < now; i++)
		vf_remove(s, pf, i);
	set_count(pf, 0);
}

/* sriov_numvfs_store(), the checks in its order. vfio_pci_core_sriov_configure() says ENOENT unless the module
 * was loaded with enable_sriov; pcieport has no sriov_configure at all. */
int sriov_numvfs_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *pf = n->parent;
	const char *driver = sim_driver(pf);
	unsigned now = (unsigned)number(pf, "sriov_numvfs", 10);
	unsigned long want;
	char *end;

	(void)len;
	(void)off;
	want = strtoul(value, &end, 0);
	if (end == value || (*end && *end != '\n') || *value == '-' || want > UINT16_MAX)
		return -EINVAL;
	if (want > number(pf, "sriov_totalvfs", 10))
		return -ERANGE;
	if (want == now)
		return 0;
	if (!driver[0] || strcmp(driver, SIM_VFIO) == 0 || strcmp(driver, "pcieport") == 0)
		return -ENOENT;
	if (want && now)
		return -EBUSY;
	if (!want)
		sriov_disable(s, pf);
	else
		set_count(pf, (unsigned)want);
	for (unsigned i = 0; i < want; i++)
		if (!vf_add(s, pf, i)) {
			sriov_disable(s, pf); /* sriov_add_vfs() takes back those before */
			return -ENOMEM;
		}
	return 0;
}
