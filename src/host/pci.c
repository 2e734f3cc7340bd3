/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the PCI functions. One readlink of sys/bus/pci/devices/X gives a function's whole chain of
 * ancestors; `uevent` gives ids, class and driver in one read, right also for VFs, whose config space
 * answers ffff for the ids (PCIe 9.3.4.1). The config space of VFs is not touched. */
#include <ctype.h>
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "host/read.h"

#define FUNCTIONS_MAX (1u << 20)
#define ATTR_MAX      4096

struct reader {
	struct inventory        *inv;
	struct host_root        *root;
	const struct host_kinds *kinds;
	size_t                   config_short; /* functions whose config ends after the header (not root) */
};

static const char *text_in(struct reader *rd, const char *s)
{
	const char *p = s && *s ? arena_strdup(&rd->inv->arena, s) : "";

	return p ? p : "";
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "../../../devices/pci0000:15/..." seen from sys/bus/pci/devices. */
static bool resolve(char out[HOST_PATH_MAX], const char *target)
{
	int up = 0, n;

	for (; strncmp(target, "../", 3) == 0; target += 3)
		up++;
	if (up != 3 || strstr(target, "..") || strncmp(target, "devices/", 8) != 0)
		return false;
	n = snprintf(out, HOST_PATH_MAX, "sys/%s", target);
	return n > 0 && n < HOST_PATH_MAX;
}

/* "pci0000:15", the host bridge's directory. */
static bool is_root_bus(const char *part, size_t len)
{
	return len > 3 && strncmp(part, "pci", 3) == 0 && isxdigit((unsigned char)part[3]) && memchr(part, ':', len);
}

/* The bridge above and the root bus, from the path's parts, right to left. */
static void read_place(struct reader *rd, struct host_function *fn)
{
	char path[HOST_PATH_MAX], *slash;
	struct bdf up;

	(void)snprintf(path, sizeof(path), "%s", fn->path);
	while ((slash = strrchr(path, '/'))) {
		const char *part;

		*slash = '\0';
		part = last_part(path);
		if (is_root_bus(part, strlen(part))) {
			fn->root_bus = text_in(rd, part);
			return;
		}
		if (bdf_is_none(fn->parent) && bdf_parse(&up, part))
			fn->parent = up;
	}
}

static int read_path(struct reader *rd, struct host_function *fn, const char *name)
{
	char target[HOST_PATH_MAX], path[HOST_PATH_MAX];
	int r = host_link(rd->root, target, sizeof(target), "sys/bus/pci/devices/%s", name);

	if (r == 0 && resolve(path, target)) {
		fn->path = text_in(rd, path);
		read_place(rd, fn);
		if (strcmp(last_part(path), name) == 0 && *fn->root_bus)
			return 0;
	}
	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", name);
	fn->path = text_in(rd, path);
	fn->parent = BDF_NONE;
	fn->root_bus = "";
	return host_finding_add(rd->inv, "pci.place-unknown", fn->bdf,
				"its link below /sys/bus/pci/devices does not say where it sits, so it has no place in "
				"the tree");
}

/* The value of KEY= in an uevent; false if it is not there. */
static bool uevent_get(char out[64], const char *uevent, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = uevent; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (strncmp(p, key, n) == 0 && p[n] == '=')
			return snprintf(out, 64, "%.*s", (int)strcspn(p + n + 1, "\n"), p + n + 1) < 64;
	return false;
}

static bool pair_of(uint16_t *a, uint16_t *b, char *text)
{
	char *colon = strchr(text, ':');
	uint64_t x = 0, y = 0;

	if (!colon)
		return false;
	*colon = '\0';
	if (parse_uint(&x, text, 16, 0xffff) < 0 || parse_uint(&y, colon + 1, 16, 0xffff) < 0)
		return false;
	*a = (uint16_t)x;
	*b = (uint16_t)y;
	return true;
}

static uint64_t attr_hex(struct reader *rd, const struct host_function *fn, const char *attr, uint64_t max)
{
	uint64_t v = 0;

	return host_read_uint(rd->root, &v, 16, max, "%s/%s", fn->path, attr) == 0 ? v : 0;
}

static void read_driver(struct reader *rd, struct host_function *fn, const char *uevent)
{
	char text[HOST_PATH_MAX];

	if (uevent_get(text, uevent, "DRIVER") && *text)
		fn->driver = text_in(rd, text);
	else if (host_link(rd->root, text, sizeof(text), "%s/driver", fn->path) == 0)
		fn->driver = text_in(rd, last_part(text));
	if (host_read(rd->root, text, sizeof(text), "%s/driver_override", fn->path) == 0 &&
	    strcmp(text, "(null)") != 0)
		fn->driver_override = text_in(rd, text);
}

static void read_ids(struct reader *rd, struct host_function *fn, const char *uevent)
{
	uint64_t class = 0;
	char text[64];

	if (!uevent_get(text, uevent, "PCI_ID") || !pair_of(&fn->vendor, &fn->device, text)) {
		fn->vendor = (uint16_t)attr_hex(rd, fn, "vendor", 0xffff);
		fn->device = (uint16_t)attr_hex(rd, fn, "device", 0xffff);
	}
	if (!uevent_get(text, uevent, "PCI_SUBSYS_ID") || !pair_of(&fn->subvendor, &fn->subdevice, text)) {
		fn->subvendor = (uint16_t)attr_hex(rd, fn, "subsystem_vendor", 0xffff);
		fn->subdevice = (uint16_t)attr_hex(rd, fn, "subsystem_device", 0xffff);
	}
	if (uevent_get(text, uevent, "PCI_CLASS") && parse_uint(&class, text, 16, 0xffffff) == 0)
		fn->class = (uint32_t)class;
	else
		fn->class = (uint32_t)attr_hex(rd, fn, "class", 0xffffff);
}

/* The group's number is the last part of the link; none: the IOMMU does not translate this function. */
static int read_group(struct reader *rd, struct host_function *fn)
{
	char target[HOST_PATH_MAX];
	uint64_t n = 0;
	int r = host_link(rd->root, target, sizeof(target), "%s/iommu_group", fn->path);

	if (r == 0 && parse_uint(&n, last_part(target), 10, INT32_MAX) == 0)
		fn->iommu_group = (int)n;
	else if (r != -ENOENT)
		return host_finding_add(rd->inv, "pci.group-unreadable", fn->bdf, "cannot read its IOMMU group: %s",
					r < 0 ? strerror(-r) : target);
	return 0;
}

static int read_numa(struct reader *rd, struct host_function *fn)
{
	char text[32];
	int64_t node = -1;
	int r = host_read(rd->root, text, sizeof(text), "%s/numa_node", fn->path);

	if (r == -ENOENT)
		return 0; /* kernel without CONFIG_NUMA */
	if (r < 0 || parse_int(&node, text, -1, INT16_MAX) < 0)
		return host_finding_add(rd->inv, "pci.numa-unreadable", fn->bdf, "its numa_node is no number");
	fn->numa_node = (int)node;
	return 0;
}

/* "0xSTART 0xEND 0xFLAGS" per line; the first six are the BARs (drivers/pci/pci-sysfs.c). */
static void read_bars(struct reader *rd, struct host_function *fn)
{
	char text[ATTR_MAX], *line, *rest = text;

	if (host_read(rd->root, text, sizeof(text), "%s/resource", fn->path) < 0)
		return;
	for (int i = 0; i < 6 && (line = strsep(&rest, "\n")); i++) {
		uint64_t v[3] = { 0 };
		char *word;
		int n = 0;

		while (n < 3 && (word = strsep(&line, " ")))
			if (parse_uint(&v[n++], word, 16, UINT64_MAX) < 0)
				return;
		if (n == 3 && v[2] && v[1] > v[0])
			fn->bar[i] = (struct host_bar){ .start = v[0], .size = v[1] - v[0] + 1, .flags = v[2] };
	}
}

/* "32.0 GT/s PCIe" as the code of LnkCap; 0 for "Unknown" and the like. */
static uint8_t speed_of(const char *text)
{
	for (uint8_t code = 1; code <= 6; code++) {
		const char *name = pcicap_speed_text(code);

		if (strncmp(text, name, strlen(name)) == 0)
			return code;
	}
	return 0;
}

static struct pcicap_link sysfs_link(struct reader *rd, const struct host_function *fn, const char *which)
{
	struct pcicap_link l = { 0 };
	uint64_t width = 0;
	char text[64];

	if (host_read(rd->root, text, sizeof(text), "%s/%s_link_speed", fn->path, which) == 0)
		l.speed = speed_of(text);
	if (host_read_uint(rd->root, &width, 10, 32, "%s/%s_link_width", fn->path, which) == 0)
		l.width = (uint8_t)width;
	return l;
}

static int config_read(void *self, uint16_t off, uint32_t *ret)
{
	return host_config_dword(self, off, ret);
}

static int read_config(struct reader *rd, struct host_function *fn)
{
	struct host_config c;
	int r = host_config_open(&c, rd->root, "%s/config", fn->path);

	if (r == 0) {
		pcicap_walk(&fn->cap, config_read, &c);
		host_config_close(&c);
	}
	if (r < 0 || !fn->cap.readable)
		return host_finding_add(rd->inv, "pci.config-unreadable", fn->bdf, "cannot read its config space%s%s",
					r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
	if (fn->cap.dead)
		return host_finding_add(rd->inv, "pci.config-dead", fn->bdf,
					"its config space reads as ff: it fell off the bus or sleeps in D3cold");
	if (fn->cap.broken)
		return host_finding_add(rd->inv, "pci.config-broken", fn->bdf,
					"its capability list loops or leaves the config space; what lies behind is unknown");
	if (fn->cap.pcie == HOST_UNKNOWN)
		rd->config_short++;
	return 0;
}

/* The driver may allow fewer VFs than the capability has (pci_sriov_set_totalvfs(): igb allows 7 of 8), and
 * sysfs says what it allows. Where config space ends early for this reader, sysfs has the rest as well. */
static void read_sriov(struct reader *rd, struct host_function *fn)
{
	struct pcicap_sriov *s = &fn->cap.sriov;
	uint64_t n = 0;

	if (s->known == HOST_ABSENT)
		return;
	if (host_read_uint(rd->root, &n, 10, UINT16_MAX, "%s/sriov_numvfs", fn->path) < 0)
		return;
	fn->numvfs_known = true;
	fn->numvfs = (uint16_t)n;
	if (host_read_uint(rd->root, &n, 10, UINT16_MAX, "%s/sriov_totalvfs", fn->path) == 0)
		s->total = (uint16_t)n;
	if (s->known == HOST_PRESENT)
		return;
	s->known = HOST_PRESENT;
	if (host_read_uint(rd->root, &n, 10, UINT16_MAX, "%s/sriov_offset", fn->path) == 0)
		s->offset = (uint16_t)n;
	if (host_read_uint(rd->root, &n, 10, UINT16_MAX, "%s/sriov_stride", fn->path) == 0)
		s->stride = (uint16_t)n;
}

static void read_vf(struct reader *rd, struct host_function *fn)
{
	char target[HOST_PATH_MAX];

	if (host_link(rd->root, target, sizeof(target), "%s/physfn", fn->path) == 0 &&
	    bdf_parse(&fn->pf, last_part(target)))
		fn->is_vf = true;
}

static enum host_kind kind_of(struct reader *rd, const struct host_function *fn)
{
	struct host_id id = { .vendor = fn->vendor, .device = fn->device, .class = fn->class };

	if (fn->is_vf)
		return HOST_VF;
	if (fn->cap.type == PCICAP_ROOT_PORT)
		return HOST_ROOT_PORT;
	if (fn->cap.type == PCICAP_USP)
		return HOST_USP;
	if (fn->cap.type == PCICAP_DSP)
		return HOST_DSP;
	if (fn->class >> 8 == 0x0604 || (fn->cap.readable && !fn->cap.dead && fn->cap.header == PCI_HEADER_TYPE_BRIDGE))
		return HOST_BRIDGE;
	return host_kinds_match(rd->kinds, id);
}

static void read_link(struct reader *rd, struct host_function *fn)
{
	fn->link_cap = fn->cap.link_cap;
	fn->link_now = fn->cap.link_now;
	if (fn->cap.pcie == HOST_UNKNOWN) {
		fn->link_cap = sysfs_link(rd, fn, "max");
		fn->link_now = sysfs_link(rd, fn, "current");
	}
}

static int read_function(struct reader *rd, struct host_function *fn, const char *name)
{
	char uevent[ATTR_MAX], text[256];
	int r;

	fn->parent = fn->pf = BDF_NONE;
	fn->numa_node = fn->iommu_group = -1;
	fn->root_bus = fn->driver = fn->driver_override = fn->reset_methods = "";
	fn->cap.type = PCICAP_NONE;
	r = read_path(rd, fn, name);
	if (r < 0)
		return r;
	if (host_read(rd->root, uevent, sizeof(uevent), "%s/uevent", fn->path) < 0)
		uevent[0] = '\0';
	read_vf(rd, fn);
	read_ids(rd, fn, uevent);
	read_driver(rd, fn, uevent);
	r = read_group(rd, fn);
	if (r == 0)
		r = read_numa(rd, fn);
	if (r == 0 && !fn->is_vf)
		r = read_config(rd, fn);
	if (r < 0)
		return r;
	if (!fn->is_vf) {
		read_link(rd, fn);
		read_sriov(rd, fn);
	}
	read_bars(rd, fn);
	if (host_read(rd->root, text, sizeof(text), "%s/reset_method", fn->path) == 0)
		fn->reset_methods = text_in(rd, text);
	fn->kind = kind_of(rd, fn);
	return 0;
}

static int by_bdf(const void *a, const void *b)
{
	return bdf_cmp(((const struct host_function *)a)->bdf, ((const struct host_function *)b)->bdf);
}

/* A VF's index on its PF: (routing id - PF - first offset) / stride (PCIe 9.2.1.2). */
static void number_vfs(struct inventory *inv)
{
	for (size_t i = 0; i < inv->nfn; i++) {
		struct host_function *vf = &inv->fn[i];
		const struct host_function *pf = vf->is_vf ? host_function_find(inv, vf->pf) : NULL;
		struct bdf at;

		for (uint16_t n = 0; pf && n < pf->cap.sriov.total; n++) {
			uint32_t off = pf->cap.sriov.offset + (uint32_t)n * pf->cap.sriov.stride;

			if (!bdf_add(&at, pf->bdf, off) || !bdf_eq(at, vf->bdf))
				continue;
			vf->vf_index = n;
			break;
		}
	}
}

/* "0A:00.0" and "0a:00.0" would be one function: the first one stays. */
static int drop_twins(struct inventory *inv)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < inv->nfn && r == 0; i++) {
		if (n && bdf_eq(inv->fn[n - 1].bdf, inv->fn[i].bdf))
			r = host_finding_add(inv, "pci.name-twice", inv->fn[i].bdf, "the bus lists this function twice");
		else
			inv->fn[n++] = inv->fn[i];
	}
	inv->nfn = n;
	return r;
}

int host_pci_read(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds, struct error *err)
{
	struct reader rd = { .inv = inv, .root = root, .kinds = kinds };
	struct host_names names;
	int r = host_list(root, &names, &inv->arena, "sys/bus/pci/devices");

	if (r < 0)
		return error_set(err, r, "cannot list /sys/bus/pci/devices: %s; is the root a Linux machine's?",
				 strerror(-r));
	if (names.n > FUNCTIONS_MAX)
		return error_set(err, -E2BIG, "%zu PCI functions are more than %u", names.n, FUNCTIONS_MAX);
	inv->fn = arena_array(&inv->arena, names.n, sizeof(*inv->fn));
	if (!inv->fn)
		return error_set(err, -ENOMEM, "no memory for %zu functions", names.n);
	for (size_t i = 0; i < names.n && r == 0; i++) {
		struct host_function *fn = &inv->fn[inv->nfn];

		if (!bdf_parse(&fn->bdf, names.name[i])) {
			r = host_finding_add(inv, "pci.name-unknown", BDF_NONE,
					     "\"%.60s\" below /sys/bus/pci/devices is no PCI address", names.name[i]);
			continue;
		}
		r = read_function(&rd, fn, names.name[i]);
		inv->nfn++;
	}
	if (r == 0 && rd.config_short)
		r = host_finding_add(inv, "pci.config-short", BDF_NONE,
				     "config space of %zu functions can be read only in part: port types, ACS and ATS are "
				     "unknown; read as root", rd.config_short);
	if (inv->nfn)
		qsort(inv->fn, inv->nfn, sizeof(*inv->fn), by_bdf);
	if (r == 0)
		r = drop_twins(inv);
	if (r < 0)
		return error_set(err, r, "no memory for the inventory");
	number_vfs(inv);
	return 0;
}
