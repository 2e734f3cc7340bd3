/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what concerns the whole host: kernel, CPU model, product, IOMMU units, vfio-pci, KVM. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "host/read.h"

static const char *read_text(struct inventory *inv, struct host_root *root, const char *path)
{
	char text[4096];
	char *p;

	if (host_read(root, text, sizeof(text), "%s", path) < 0)
		return "";
	p = arena_strdup(&inv->arena, text);
	return p ? p : "";
}

/* The value of "key\t: value" in the first block of proc/cpuinfo. */
static const char *cpuinfo_get(struct inventory *inv, const char *text, const char *key)
{
	const char *p = strstr(text, key), *value;
	char *copy;

	p = p ? strchr(p, ':') : NULL;
	if (!p)
		return "";
	value = p + 1 + strspn(p + 1, " \t");
	copy = arena_printf(&inv->arena, "%.*s", (int)strcspn(value, "\n"), value);
	return copy ? copy : "";
}

static void read_cpu(struct inventory *inv, struct host_root *root)
{
	char text[2048];
	int r = host_read(root, text, sizeof(text), "proc/cpuinfo");

	if (r < 0 && r != -EFBIG) /* its beginning is enough: the first block */
		text[0] = '\0';
	inv->cpu_vendor = cpuinfo_get(inv, text, "vendor_id");
	inv->cpu_model = cpuinfo_get(inv, text, "model name");
}

/* An IOMMU driver registers each unit in class iommu (drivers/iommu/iommu-sysfs.c). */
static void read_iommu(struct inventory *inv, struct host_root *root)
{
	struct host_names names;
	int r = host_list(root, &names, &inv->arena, "sys/class/iommu");

	inv->iommu_known = r == 0 || r == -ENOENT;
	inv->iommu_units = r == 0 ? (unsigned)names.n : 0;
	for (size_t i = 0; r != 0 && i < inv->nfn; i++)
		if (inv->fn[i].iommu_group >= 0) { /* groups without units: another kernel's way, but it is on */
			inv->iommu_known = true;
			inv->iommu_units = 1;
			break;
		}
}

int host_system_read(struct inventory *inv, struct host_root *root, struct error *err)
{
	struct host_names names;

	(void)err;
	inv->kernel = read_text(inv, root, "proc/sys/kernel/osrelease");
	inv->cmdline = read_text(inv, root, "proc/cmdline");
	inv->dmi_vendor = read_text(inv, root, "sys/devices/virtual/dmi/id/sys_vendor");
	inv->dmi_product = read_text(inv, root, "sys/devices/virtual/dmi/id/product_name");
	inv->dmi_bios = read_text(inv, root, "sys/devices/virtual/dmi/id/bios_version");
	read_cpu(inv, root);
	read_iommu(inv, root);
	inv->vfio_pci_loaded = host_list(root, &names, &inv->arena, "sys/bus/pci/drivers/vfio-pci") == 0;
	inv->kvm = host_list(root, &names, &inv->arena, "sys/devices/virtual/misc/kvm") == 0;
	return 0;
}
