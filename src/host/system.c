/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what concerns the whole host: kernel, CPU model, product, IOMMU units, vfio-pci, KVM; then the rest of
 * struct host_system, a file each. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/utf8.h"
#include "host/answer.h"
#include "host/path.h"
#include "host/read.h"

const char *host_text(struct inventory *inv, const char *text)
{
	const char *p = *text && utf8_printable(text) ? arena_strdup(&inv->arena, text) : "";

	return p ? p : "";
}

const char *host_text_read(struct inventory *inv, struct host_root *root, const char *fmt, ...)
{
	char path[HOST_PATH_MAX], text[4096];

	if (PATH_OF(path, fmt) < 0 || host_read(root, text, sizeof(text), "%s", path) < 0)
		return "";
	return host_text(inv, text);
}

/* The value of "key\t: value" in the first block of proc/cpuinfo, and what follows it; "" if there is none. */
static const char *cpuinfo_line(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	p = p ? strchr(p, ':') : NULL;
	return p ? p + 1 + strspn(p + 1, " \t") : "";
}

static const char *cpuinfo_get(struct inventory *inv, const char *text, const char *key)
{
	const char *value = cpuinfo_line(text, key);
	char line[256];

	(void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(value, "\n"), value);
	return host_text(inv, line);
}

/* "46 bits physical, 57 bits virtual" (arch/x86/kernel/cpu/proc.c); 0: not said */
static unsigned address_bits(const char *line)
{
	unsigned n = 0;

	return sscanf(line, "%u bits physical", &n) == 1 && n >= 32 && n <= 64 ? n : 0;
}

static bool has_word(const char *line, const char *word)
{
	size_t len = strlen(word), end = strcspn(line, "\n");

	for (const char *p = line; (p = strstr(p, word)) && p + len <= line + end; p += len)
		if (p > line && p[-1] == ' ' && (p[len] == ' ' || p[len] == '\n' || !p[len]))
			return true;
	return false;
}

/* Bit 31 of CPUID.1:ECX, which hypervisors set (arch/x86/include/asm/cpufeatures.h); elsewhere what the firmware calls
 * the machine. Without both nothing is known. */
static void read_virtual(struct inventory *inv, bool flag, bool flags_known)
{
	static const char *const vendor[] = { "QEMU", "KVM", "VMware, Inc.", "Xen", "innotek GmbH" };
	static const char *const product[] = { "Virtual Machine", "KVM", "Google Compute Engine", "OpenStack Nova", "VirtualBox" };

	inv->virtual = flag ? HOST_PRESENT : flags_known ? HOST_ABSENT : HOST_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(vendor); i++)
		if (strcmp(inv->dmi_vendor, vendor[i]) == 0)
			inv->virtual = HOST_PRESENT;
	for (size_t i = 0; i < ARRAY_SIZE(product); i++)
		if (strcmp(inv->dmi_product, product[i]) == 0)
			inv->virtual = HOST_PRESENT;
}

static void read_cpu(struct inventory *inv, struct host_root *root)
{
	char text[4096]; /* the flags of one CPU are about 1,500 bytes */
	const char *flags;
	int r = host_read(root, text, sizeof(text), "proc/cpuinfo");

	if (r < 0 && r != -EFBIG) /* its beginning is enough: the first block */
		text[0] = '\0';
	inv->cpu_vendor = cpuinfo_get(inv, text, "vendor_id");
	inv->cpu_model = cpuinfo_get(inv, text, "model name");
	if (!*inv->cpu_vendor && strcmp(cpuinfo_get(inv, text, "CPU implementer"), "0x41") == 0) {
		const char *part = cpuinfo_get(inv, text, "CPU part"); /* arch/arm64/include/asm/cputype.h */

		inv->cpu_vendor = "ARM";
		inv->cpu_model = strcmp(part, "0xd4f") == 0 ? "Neoverse V2" : part;
	}
	inv->phys_bits = address_bits(cpuinfo_line(text, "address sizes"));
	flags = cpuinfo_line(text, "flags");
	read_virtual(inv, has_word(flags, "hypervisor"), strchr(flags, '\n'));
}

static enum host_known is_there(struct inventory *inv, struct host_root *root, const char *dir)
{
	struct host_names names;
	int r = host_list(root, &names, &inv->arena, "%s", dir);

	return r == 0 ? HOST_PRESENT : r == -ENOENT ? HOST_ABSENT : HOST_UNKNOWN;
}

/* What a unit of VT-d translates at most: MGAW, bits 21:16 of its Capability Register, and what its page tables have levels
 * for, SAGAW, bits 12:8: 2 39, 4 48, 8 57 (Intel VT-d specification, 11.4.2). Units of AMD's do not say; Linux's tables for
 * them take 64 bits (drivers/iommu/amd). VT-d's units have no parent (drivers/iommu/intel/dmar.c): they are virtual devices.
 * 0: unknown. */
static unsigned unit_bits(struct host_root *root, const char *unit)
{
	unsigned mgaw, levels;
	uint64_t cap;

	if (host_read_uint(root, &cap, 16, UINT64_MAX, "sys/devices/virtual/iommu/%s/intel-iommu/cap", unit) < 0)
		return 0;
	mgaw = (unsigned)(cap >> 16 & 0x3f) + 1;
	levels = cap >> 11 & 1 ? 57 : cap >> 10 & 1 ? 48 : cap >> 9 & 1 ? 39 : 0;
	return levels < mgaw ? levels : mgaw;
}

static void read_iommu_bits(struct inventory *inv, struct host_root *root, const struct host_names *units)
{
	for (size_t i = 0; i < units->n; i++) {
		unsigned bits = unit_bits(root, units->name[i]);

		if (bits && (!inv->iommu_bits || bits < inv->iommu_bits))
			inv->iommu_bits = bits;
	}
}

/* An IOMMU driver registers each unit in class iommu (drivers/iommu/iommu-sysfs.c). */
static void read_iommu(struct inventory *inv, struct host_root *root)
{
	struct host_names names;
	int r = host_list(root, &names, &inv->arena, "sys/class/iommu");

	inv->iommu_units = r == 0 ? (int)names.n : r == -ENOENT ? 0 : -1;
	inv->iommu_bits = 0;
	if (r == 0)
		read_iommu_bits(inv, root, &names);
	inv->iommu = inv->iommu_units < 0 ? HOST_UNKNOWN : inv->iommu_units ? HOST_PRESENT : HOST_ABSENT;
	for (size_t i = 0; r != 0 && i < inv->nfn; i++)
		if (inv->fn[i].iommu_group >= 0) { /* groups without units: another kernel's way, but it is on */
			inv->iommu = HOST_PRESENT;
			inv->iommu_units = -1;
			break;
		}
}

/* What the kernel promised to mappings and has not handed out yet, per size; only known for the whole host. */
static int read_reserves(struct inventory *inv, struct host_root *root)
{
	struct host_system *s = &inv->system;
	struct host_names names;

	if (host_list(root, &names, &inv->arena, "sys/kernel/mm/hugepages") < 0 || !names.n)
		return 0;
	s->reserve = arena_array(&inv->arena, names.n, sizeof(*s->reserve));
	if (!s->reserve)
		return -ENOMEM;
	for (size_t i = 0; i < names.n; i++) {
		struct host_reserve r = { .page_size = host_pool_size(names.name[i]) };

		if (r.page_size && host_read_uint(root, &r.reserved, 10, UINT64_MAX,
						  "sys/kernel/mm/hugepages/%s/resv_hugepages", names.name[i]) == 0)
			s->reserve[s->nreserves++] = r;
	}
	return 0;
}

/* Documentation/ABI/testing/sysfs-bus-pci, /sys/bus/pci/slots: address is "0000:19:00" of a slot with a device in it. */
static int read_slots(struct inventory *inv, struct host_root *root)
{
	struct host_system *s = &inv->system;
	struct host_names names;

	if (host_list(root, &names, &inv->arena, "sys/bus/pci/slots") < 0 || !names.n)
		return 0;
	s->slot = arena_array(&inv->arena, names.n, sizeof(*s->slot));
	if (!s->slot)
		return -ENOMEM;
	for (size_t i = 0; i < names.n; i++) {
		struct host_slot *slot = &s->slot[s->nslots];
		char text[16], bdf[24];

		if (host_read(root, text, sizeof(text), "sys/bus/pci/slots/%s/address", names.name[i]) < 0)
			continue;
		(void)snprintf(bdf, sizeof(bdf), "%s.0", text);
		slot->name = host_text(inv, names.name[i]);
		s->nslots += *slot->name && bdf_parse(&slot->bdf, bdf);
	}
	return 0;
}

const char *host_slot_of(const struct inventory *inv, struct bdf bdf)
{
	const struct host_function *fn = host_function_find(inv, bdf);

	for (; fn; fn = host_function_find(inv, fn->facts->is_vf ? fn->facts->pf : fn->facts->parent))
		for (size_t i = 0; i < inv->system.nslots; i++)
			if (bdf_same_device(inv->system.slot[i].bdf, fn->bdf))
				return inv->system.slot[i].name;
	return NULL;
}

/* Beside the files: what has to be asked for. */
static int read_asked(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds)
{
	struct answers answers;
	int r = answers_init(&answers, root);

	if (r == 0)
		r = host_net_read(inv, root, &answers);
	if (r == 0)
		r = host_fabric_read(inv, root, &answers, kinds->fmpm);
	answers_done(&answers);
	return r;
}

/* Its module file; unknown where the kernel's modules are not where they should be. */
static enum host_known vfio_on_disk(struct inventory *inv, struct host_root *root)
{
	struct host_names names;
	char dir[HOST_PATH_MAX];

	(void)snprintf(dir, sizeof(dir), "lib/modules/%s", inv->kernel);
	if (!*inv->kernel || is_there(inv, root, dir) != HOST_PRESENT)
		return HOST_UNKNOWN;
	if (host_list(root, &names, &inv->arena, "%s/kernel/drivers/vfio/pci", dir) < 0)
		return is_there(inv, root, strcat(dir, "/kernel")) == HOST_PRESENT ? HOST_ABSENT : HOST_UNKNOWN;
	for (size_t i = 0; i < names.n; i++)
		if (strncmp(names.name[i], "vfio-pci.ko", strlen("vfio-pci.ko")) == 0)
			return HOST_PRESENT;
	return HOST_ABSENT;
}

void host_vfio_read(struct inventory *inv, struct host_root *root)
{
	inv->vfio_pci = is_there(inv, root, "sys/bus/pci/drivers/vfio-pci");
	inv->vfio_module = inv->vfio_pci == HOST_PRESENT ? HOST_PRESENT : vfio_on_disk(inv, root);
}

/* The names of remapped interrupts' chips begin with IR- (drivers/iommu/intel/irq_remapping.c, drivers/iommu/amd/iommu.c).
 * The lowest numbers are those of the I/O APIC. */
static void read_intremap(struct inventory *inv, struct host_root *root)
{
	inv->intremap = HOST_UNKNOWN;
	for (unsigned irq = 0; irq < 32 && inv->intremap == HOST_UNKNOWN; irq++) {
		const char *chip = host_text_read(inv, root, "sys/kernel/irq/%u/chip_name", irq);

		if (strncmp(chip, "IR-", 3) == 0)
			inv->intremap = HOST_PRESENT;
		else if (strcmp(chip, "IO-APIC") == 0)
			inv->intremap = HOST_ABSENT;
	}
}

int host_system_read(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds, struct error *err)
{
	int r;

	inv->kernel = host_text_read(inv, root, "proc/sys/kernel/osrelease");
	inv->cmdline = host_text_read(inv, root, "proc/cmdline");
	inv->dmi_vendor = host_text_read(inv, root, "sys/devices/virtual/dmi/id/sys_vendor");
	inv->dmi_product = host_text_read(inv, root, "sys/devices/virtual/dmi/id/product_name");
	inv->dmi_bios = host_text_read(inv, root, "sys/devices/virtual/dmi/id/bios_version");
	read_cpu(inv, root);
	read_iommu(inv, root);
	read_intremap(inv, root);
	host_vfio_read(inv, root);
	inv->kvm = is_there(inv, root, "sys/devices/virtual/misc/kvm");
	r = host_cpu_read(inv, root);
	if (r == 0)
		r = host_boot_read(inv);
	if (r == 0)
		r = host_module_read(inv, root);
	if (r == 0)
		r = read_reserves(inv, root);
	if (r == 0)
		r = read_slots(inv, root);
	if (r == 0)
		r = read_asked(inv, root, kinds);
	return r < 0 ? error_set(err, r, "no memory for the inventory") : 0;
}
