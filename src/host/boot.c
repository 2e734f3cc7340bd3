/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Decodes the kernel's command line: the options that decide about IOMMU, ACS, ATS, vfio-pci and hugepages
 * (Documentation/admin-guide/kernel-parameters.txt). Words are split as lib/cmdline.c next_arg() does, "-" and
 * "_" in names are one (kernel/params.c), what follows "--" is init's, and the last of several counts. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "host/read.h"

struct note { /* in the order of preference; value "" matches any, "x=" a beginning */
	const char *name, *value, *note;
};

static const struct note notes[] = {
	{ "intel_iommu", "on", "Intel VT-d on" },
	{ "intel_iommu", "off", "Intel VT-d off: no device can be given to a guest" },
	{ "intel_iommu", "sm_on", "scalable mode" },
	{ "intel_iommu", "", "" },
	{ "amd_iommu", "on", "" },
	{ "amd_iommu", "off", "AMD-Vi off: no device can be given to a guest" },
	{ "amd_iommu", "", "" },
	{ "iommu", "pt", "the host's own DMA is not translated" },
	{ "iommu", "nopt", "the host's own DMA is translated" },
	{ "iommu", "off", "IOMMU off: no device can be given to a guest" },
	{ "iommu", "", "" },
	{ "iommu.passthrough", "1", "the host's own DMA is not translated" },
	{ "iommu.passthrough", "0", "the host's own DMA is translated" },
	{ "iommu.strict", "", "" },
	{ "pci", "noats", "ATS off: no device can use translated requests, so none goes direct past ACS" },
	{ "pci", "config_acs=", "ACS bits set at boot" },
	{ "pci",
	  "disable_acs_redir=", "peer-to-peer requests are not redirected at these ports, which joins IOMMU groups" },
	{ "pci", "realloc", "the kernel moves BARs that firmware placed badly" },
	{ "pci", "noaer", "PCIe errors are not reported" },
	{ "pci", "pcie_bus_perf", "payload size as large as each path allows" },
	{ "pci", "pcie_bus_safe", "payload size that every device of a tree can take" },
	{ "pci", "pcie_bus_peer2peer", "payload size 128 bytes everywhere" },
	{ "pci", "pcie_bus_tune_off", "payload size as firmware left it" },
	{ "pci", "", "" },
	{ "pcie_acs_override", "", "groups claim an isolation that the hardware does not give" },
	{ "pcie_aspm", "", "" },
	{ "vfio_pci.ids", "", "bound to vfio-pci when the module loads" },
	{ "vfio_pci.disable_idle_d3", "", "" },
	{ "vfio_iommu_type1.allow_unsafe_interrupts", "", "" },
	{ "default_hugepagesz", "", "" },
	{ "hugepagesz", "", "" },
	{ "hugepages", "", "" },
	{ "isolcpus", "", "" },
	{ "nohz_full", "", "" },
};

struct decoder {
	struct inventory *inv;
	struct host_boot *boot;
	size_t size;        /* of boot->option */
	uint64_t page_size; /* hugepagesz= so far; 0: the default size */
	int r;
};

static bool same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b)))
			return false;
	return *a == *b;
}

static const struct note *note_find(const char *name, const char *item)
{
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		size_t n = strlen(notes[i].value);

		if (same_name(notes[i].name, name) &&
		    (n == 0 || (notes[i].value[n - 1] == '=' ? strncmp(notes[i].value, item, n) == 0
							     : strcmp(notes[i].value, item) == 0)))
			return &notes[i];
	}
	return NULL;
}

static void add_option(struct decoder *d, const char *name, const char *item)
{
	const struct note *note = note_find(name, item);
	struct host_boot *b = d->boot;

	if (!note || d->r < 0)
		return;
	if (b->noptions == d->size) {
		size_t size = d->size ? d->size * 2 : 16;
		struct host_option *o = arena_array(&d->inv->arena, size, sizeof(*o));

		if (!o) {
			d->r = -ENOMEM;
			return;
		}
		if (b->noptions)
			memcpy(o, b->option, b->noptions * sizeof(*o));
		b->option = o;
		d->size = size;
	}
	b->option[b->noptions++] =
		(struct host_option){ .text = arena_printf(&d->inv->arena, "%s%s%s", name, *item ? "=" : "", item),
				      .note = note->note };
	if (!b->option[b->noptions - 1].text)
		d->r = -ENOMEM;
}

/* One item of a comma list, as "pt" of iommu=pt,strict. */
static void decode_item(struct decoder *d, const char *name, const char *item)
{
	struct host_boot *b = d->boot;

	add_option(d, name, item);
	if (same_name(name, "iommu") && (strcmp(item, "pt") == 0 || strcmp(item, "nopt") == 0))
		b->passthrough = strcmp(item, "pt") == 0;
	else if (same_name(name, "intel_iommu") && (strcmp(item, "on") == 0 || strcmp(item, "off") == 0))
		b->intel_iommu_on = strcmp(item, "on") == 0;
	else if (same_name(name, "pci") && strcmp(item, "noats") == 0)
		b->no_ats = true;
	else if (same_name(name, "pci") && strcmp(item, "noaer") == 0)
		b->no_aer = true;
}

static void add_pool(struct decoder *d, const char *count, int node)
{
	struct host_boot_pool p = { .page_size = d->page_size, .node = node };

	if (d->boot->npools < HOST_BOOT_POOLS_MAX && parse_uint(&p.count, count, 10, UINT64_MAX) == 0)
		d->boot->pool[d->boot->npools++] = p;
}

/* "16", or "0:8,1:8" per node (mm/hugetlb.c hugepages_setup()). */
static void decode_hugepages(struct decoder *d, char *value)
{
	char *part;

	while ((part = strsep(&value, ","))) {
		char *colon = strchr(part, ':');
		uint64_t node = 0;

		if (!colon) {
			add_pool(d, part, -1);
			continue;
		}
		*colon = '\0';
		if (parse_uint(&node, part, 10, INT16_MAX) == 0)
			add_pool(d, colon + 1, (int)node);
	}
}

/* Options whose value is one thing, commas or not; false: it is a comma list. */
static bool decode_whole(struct decoder *d, const char *name, char *value)
{
	struct host_boot *b = d->boot;
	uint64_t size = 0;

	if (same_name(name, "hugepages")) {
		decode_hugepages(d, value);
	} else if (same_name(name, "hugepagesz") || same_name(name, "default_hugepagesz")) {
		if (parse_size(&size, value) < 0)
			return true;
		d->page_size = same_name(name, "hugepagesz") ? size : 0;
		if (!d->page_size)
			b->default_page = size;
	} else if (same_name(name, "iommu.passthrough")) {
		if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)
			b->passthrough = *value == '1';
	} else if (same_name(name, "vfio_pci.ids")) {
		b->vfio_ids = host_text(d->inv, value);
	} else if (same_name(name, "pcie_acs_override")) {
		b->acs_override = true;
	} else {
		return !note_find(name, value) || same_name(name, "isolcpus") || same_name(name, "nohz_full");
	}
	return true;
}

static void decode(struct decoder *d, char *word)
{
	char *value = strchr(word, '='), *item;

	if (value)
		*value++ = '\0';
	else
		value = word + strlen(word);
	if (!note_find(word, value) && !note_find(word, ""))
		return;
	item = arena_strdup(&d->inv->arena, value); /* decode_whole() cuts it up */
	if (!item) {
		d->r = -ENOMEM;
		return;
	}
	if (decode_whole(d, word, item)) {
		add_option(d, word, value);
		return;
	}
	while ((item = strsep(&value, ",")))
		decode_item(d, word, item);
}

/* The next word, its quotes taken out; NULL at the end. Blanks between quotes do not end it. */
static char *next_word(char **at)
{
	char *p = *at + strspn(*at, " \t\n"), *to = p, *word = p;
	bool quoted = false;

	if (!*p)
		return NULL;
	for (; *p && (quoted || !strchr(" \t\n", *p)); p++) {
		if (*p == '"')
			quoted = !quoted;
		else
			*to++ = *p;
	}
	*at = p + !!*p;
	*to = '\0';
	return word;
}

static int findings(struct inventory *inv)
{
	const struct host_boot *b = &inv->system.boot;
	int r = 0;

	if (b->acs_override)
		r = host_finding_add(
			inv, "boot.acs-override", BDF_NONE,
			"the kernel was booted with pcie_acs_override: IOMMU groups claim an isolation that the "
			"hardware does not give; boot without it");
	if (r == 0 && b->intel_iommu_on && inv->iommu == HOST_ABSENT &&
	    strcmp(inv->cpu_vendor, "GenuineIntel") == 0)
		r = host_finding_add(
			inv, "boot.iommu-missing", BDF_NONE,
			"intel_iommu=on, and yet the kernel has no IOMMU: switch VT-d on in the firmware's setup");
	return r;
}

int host_boot_read(struct inventory *inv)
{
	struct decoder d = { .inv = inv, .boot = &inv->system.boot };
	char *text = arena_strdup(&inv->arena, inv->cmdline), *word;

	d.boot->passthrough = -1;
	d.boot->vfio_ids = "";
	if (!text)
		return -ENOMEM;
	while (d.r == 0 && (word = next_word(&text)) && strcmp(word, "--") != 0)
		decode(&d, word);
	return d.r < 0 ? d.r : findings(inv);
}
