/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what concerns the whole host: kernel, CPU model, product, IOMMU units, vfio-pci, KVM; then the rest of
 * struct host_system, a file each. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "host/answer.h"
#include "host/read.h"

/* UTF-8 without overlong forms, surrogates and control characters, C1 included (RFC 3629): it goes into JSON. */
static bool text_ok(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		static const struct {
			unsigned char mask, is, more;
			uint32_t least;
		} forms[] = { { 0x80, 0, 0, 0x20 },
			      { 0xe0, 0xc0, 1, 0xa0 },
			      { 0xf0, 0xe0, 2, 0x800 },
			      { 0xf8, 0xf0, 3, 0x10000 } };
		size_t f = 0;
		uint32_t c;

		while (f < ARRAY_SIZE(forms) && (*s & forms[f].mask) != forms[f].is)
			f++;
		if (f == ARRAY_SIZE(forms))
			return false;
		c = *s++ & (unsigned char)~forms[f].mask;
		for (unsigned i = 0; i < forms[f].more; i++, s++) {
			if ((*s & 0xc0) != 0x80)
				return false;
			c = c << 6 | (*s & 0x3f);
		}
		if (c < forms[f].least || c == 0x7f || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return false;
	}
	return true;
}

const char *host_text(struct inventory *inv, const char *text)
{
	const char *p = *text && text_ok(text) ? arena_strdup(&inv->arena, text) : "";

	return p ? p : "";
}

const char *host_text_read(struct inventory *inv, struct host_root *root, const char *fmt, ...)
{
	char path[HOST_PATH_MAX], text[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n < 0 || n >= (int)sizeof(path) || host_read(root, text, sizeof(text), "%s", path) < 0)
		return "";
	return host_text(inv, text);
}

/* The value of "key\t: value" in the first block of proc/cpuinfo. */
static const char *cpuinfo_get(struct inventory *inv, const char *text, const char *key)
{
	const char *p = strstr(text, key), *value;
	char line[256];

	p = p ? strchr(p, ':') : NULL;
	if (!p)
		return "";
	value = p + 1 + strspn(p + 1, " \t");
	(void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(value, "\n"), value);
	return host_text(inv, line);
}

static void read_cpu(struct inventory *inv, struct host_root *root)
{
	char text[2048];
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

void host_vfio_read(struct inventory *inv, struct host_root *root)
{
	struct host_names names;

	inv->vfio_pci_loaded = host_list(root, &names, &inv->arena, "sys/bus/pci/drivers/vfio-pci") == 0;
}

int host_system_read(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds, struct error *err)
{
	struct host_names names;
	int r;

	inv->kernel = host_text_read(inv, root, "proc/sys/kernel/osrelease");
	inv->cmdline = host_text_read(inv, root, "proc/cmdline");
	inv->dmi_vendor = host_text_read(inv, root, "sys/devices/virtual/dmi/id/sys_vendor");
	inv->dmi_product = host_text_read(inv, root, "sys/devices/virtual/dmi/id/product_name");
	inv->dmi_bios = host_text_read(inv, root, "sys/devices/virtual/dmi/id/bios_version");
	read_cpu(inv, root);
	read_iommu(inv, root);
	host_vfio_read(inv, root);
	inv->kvm = host_list(root, &names, &inv->arena, "sys/devices/virtual/misc/kvm") == 0;
	r = host_cpu_read(inv, root);
	if (r == 0)
		r = host_boot_read(inv);
	if (r == 0)
		r = host_module_read(inv, root);
	if (r == 0)
		r = read_reserves(inv, root);
	if (r == 0)
		r = read_asked(inv, root, kinds);
	return r < 0 ? error_set(err, r, "no memory for the inventory") : 0;
}
