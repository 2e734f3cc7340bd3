/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the PCI functions. One readlink of sys/bus/pci/devices/X gives a function's whole chain of
 * ancestors; `uevent` gives ids, class and driver in one read, right also for VFs, whose config space
 * answers ffff for the ids (PCIe 9.3.4.1). The config space of VFs is not touched.
 *
 * VFs are most of a big host's functions, so they cost two files: `uevent` and `iommu_group`. The rest is the
 * PF's, by the kernel's own arithmetic (drivers/pci/iov.c): name, index, BARs. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "host/attr.h"
#include "host/read.h"

#define FUNCTIONS_MAX (1u << 20)
#define ATTR_MAX      4096

#define ROWS          13 /* of `resource`: six BARs, the ROM, six VF BARs */
#define RANGES_MAX    512 /* every function is looked for in each; the VFs of more PFs are read one by one */
#define VF_ROW        7  /* PCI_IOV_RESOURCES */

/* A PF whose first and last virtfn links lie where its First VF Offset and VF Stride say. */
struct pf_range {
	struct pf_range            *next;
	const struct host_function *pf;  /* while functions are being read; sorting moves them */
	struct bdf                  bdf; /* the PF's */
	int                         dir; /* length of the directory's name in pf->path, where its VFs are too */
	bool                        bars_known;
	struct host_bar             bar[6]; /* of VF 0 */
};

struct reader {
	struct inventory        *inv;
	struct host_root        *root;
	const struct host_kinds *kinds;
	bool                     bus_plain; /* no link in "sys/bus/pci/devices" */
	bool                     plain;     /* nor in the path of the function being read */
	struct pf_range         *range;     /* newest first: VFs follow their PF */
	size_t                   nranges;
	struct host_bar          row[ROWS]; /* `resource` of the function being read */
	size_t                   nrows;
	size_t                   config_short; /* functions whose config ends after the header (not root) */
};

static const char *text_in(struct reader *rd, const char *s)
{
	const char *p = s && *s ? arena_strdup(&rd->inv->arena, s) : "";

	return p ? p : "";
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
		part = attr_last_part(path);
		if (attr_is_root_bus(part, strlen(part))) {
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
	int r = rd->bus_plain ? host_link_plain(rd->root, target, sizeof(target), "sys/bus/pci/devices/%s", name) :
				host_link(rd->root, target, sizeof(target), "sys/bus/pci/devices/%s", name);

	if (r == 0 && attr_path(path, target)) {
		fn->path = text_in(rd, path);
		read_place(rd, fn);
		if (strcmp(attr_last_part(path), name) == 0 && *fn->root_bus)
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

static int own_link(struct reader *rd, const struct host_function *fn, char target[HOST_PATH_MAX], const char *name)
{
	return rd->plain ? host_link_plain(rd->root, target, HOST_PATH_MAX, "%s/%s", fn->path, name) :
			   host_link(rd->root, target, HOST_PATH_MAX, "%s/%s", fn->path, name);
}

/* The function that one of its links names, as physfn and virtfn0 do. */
static bool linked_function(struct reader *rd, const struct host_function *fn, struct bdf *ret, const char *name)
{
	char target[HOST_PATH_MAX];

	return own_link(rd, fn, target, name) == 0 && bdf_parse(ret, attr_last_part(target));
}

static uint64_t attr_hex(struct reader *rd, const struct host_function *fn, const char *attr, uint64_t max)
{
	uint64_t v = 0;

	return host_read_uint(rd->root, &v, 16, max, "%s/%s", fn->path, attr) == 0 ? v : 0;
}

/* The kernel puts DRIVER= first (dev_uevent(), drivers/base/core.c), PCI_CLASS= after it: with the one and
 * without the other there is none. */
static void read_driver(struct reader *rd, struct host_function *fn, const char *uevent)
{
	char text[HOST_PATH_MAX];

	if (attr_uevent(text, uevent, "DRIVER") && *text)
		fn->driver = text_in(rd, text);
	else if (!attr_uevent(text, uevent, "PCI_CLASS") && own_link(rd, fn, text, "driver") == 0)
		fn->driver = text_in(rd, attr_last_part(text));
}

static void read_override(struct reader *rd, struct host_function *fn)
{
	char text[HOST_PATH_MAX];

	if (host_read(rd->root, text, sizeof(text), "%s/driver_override", fn->path) == 0 &&
	    strcmp(text, "(null)") != 0)
		fn->driver_override = text_in(rd, text);
}

static void read_ids(struct reader *rd, struct host_function *fn, const char *uevent)
{
	uint64_t class = 0;
	char text[64];

	if (!attr_uevent(text, uevent, "PCI_ID") || !attr_pair(&fn->vendor, &fn->device, text)) {
		fn->vendor = (uint16_t)attr_hex(rd, fn, "vendor", 0xffff);
		fn->device = (uint16_t)attr_hex(rd, fn, "device", 0xffff);
	}
	if (!attr_uevent(text, uevent, "PCI_SUBSYS_ID") || !attr_pair(&fn->subvendor, &fn->subdevice, text)) {
		fn->subvendor = (uint16_t)attr_hex(rd, fn, "subsystem_vendor", 0xffff);
		fn->subdevice = (uint16_t)attr_hex(rd, fn, "subsystem_device", 0xffff);
	}
	if (attr_uevent(text, uevent, "PCI_CLASS") && parse_uint(&class, text, 16, 0xffffff) == 0)
		fn->class = (uint32_t)class;
	else
		fn->class = (uint32_t)attr_hex(rd, fn, "class", 0xffffff);
}

/* The group's number is the last part of the link; none: the IOMMU does not translate this function. */
static int read_group(struct reader *rd, struct host_function *fn)
{
	char target[HOST_PATH_MAX];
	uint64_t n = 0;
	int r = own_link(rd, fn, target, "iommu_group");

	if (r == 0 && parse_uint(&n, attr_last_part(target), 10, INT32_MAX) == 0)
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

/* The first six rows are the BARs (drivers/pci/pci-sysfs.c). */
static void read_bars(struct reader *rd, struct host_function *fn)
{
	char text[ATTR_MAX];

	rd->nrows = 0;
	if (host_read(rd->root, text, sizeof(text), "%s/resource", fn->path) == 0)
		rd->nrows = attr_rows(rd->row, ROWS, text);
	for (size_t i = 0; i < 6; i++)
		fn->bar[i] = i < rd->nrows ? rd->row[i] : (struct host_bar){ 0 };
}

static struct pcicap_link sysfs_link(struct reader *rd, const struct host_function *fn, const char *which)
{
	struct pcicap_link l = { 0 };
	uint64_t width = 0;
	char text[64];

	if (host_read(rd->root, text, sizeof(text), "%s/%s_link_speed", fn->path, which) == 0)
		l.speed = attr_speed(text);
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

/* A VF sits in the chip of its PF, so its node is the PF's. Its own file says what the bus had when the VF was
 * made (pci_device_add()); a node that an operator wrote to the PF's file to correct firmware is not in it. */
static void vf_of(struct host_function *vf, const struct host_function *pf, uint16_t index)
{
	vf->is_vf = true;
	vf->pf = pf->bdf;
	vf->vf_index = index;
	vf->numa_node = pf->numa_node;
}

/* VF n is at routing id PF + offset + n * stride (PCIe 9.2.1.2). */
static bool vf_place(struct bdf *ret, const struct host_function *pf, unsigned n)
{
	return bdf_add(ret, pf->bdf, pf->cap.sriov.offset + n * pf->cap.sriov.stride);
}

static bool vf_index(uint16_t *ret, const struct host_function *pf, struct bdf bdf, unsigned count)
{
	const struct pcicap_sriov *s = &pf->cap.sriov;
	int from = pf->bdf.bus << 8 | pf->bdf.devfn, to = bdf.bus << 8 | bdf.devfn, off = to - from - s->offset;

	if (bdf.domain != pf->bdf.domain || off < 0 || (s->stride ? off % s->stride : off))
		return false;
	off = s->stride ? off / s->stride : 0;
	*ret = (uint16_t)off;
	return (unsigned)off < count;
}

/* The VF rows of a PF's `resource` are all its VFs' BARs in a row: total times one (sriov_init()). */
static bool vf_bars(struct host_bar bar[6], const struct reader *rd, unsigned total)
{
	for (int i = 0; i < 6; i++) {
		bar[i] = rd->row[VF_ROW + i];
		if (rd->nrows < ROWS || total == 0 || bar[i].size % total)
			return false;
		bar[i].size /= total;
	}
	return true;
}

/* Trusts a PF's numbers only where its own links agree at both ends. */
static int range_add(struct reader *rd, const struct host_function *pf, unsigned config_total)
{
	const unsigned ends[] = { 0, pf->numvfs ? pf->numvfs - 1u : 0 };
	struct pf_range *range;

	if (!rd->plain || rd->nranges == RANGES_MAX || !*pf->root_bus || !pf->numvfs || pf->cap.sriov.known != HOST_PRESENT)
		return 0;
	for (int i = 0; i < 2; i++) {
		struct bdf want, got;
		char name[16];

		(void)snprintf(name, sizeof(name), "virtfn%u", ends[i]);
		if (!vf_place(&want, pf, ends[i]) || !linked_function(rd, pf, &got, name) || !bdf_eq(want, got))
			return 0;
	}
	range = arena_alloc(&rd->inv->arena, sizeof(*range));
	if (!range)
		return -ENOMEM;
	*range = (struct pf_range){ .next = rd->range, .pf = pf, .bdf = pf->bdf,
				    .dir = (int)(attr_last_part(pf->path) - pf->path) };
	range->bars_known = vf_bars(range->bar, rd, config_total);
	rd->range = range;
	rd->nranges++;
	return 0;
}

/* True: the PF's numbers lead here, and a function with the ids of its VFs is here, beside the PF. */
static bool read_vf_uevent(struct reader *rd, struct host_function *fn, const struct pf_range *at, char *uevent,
			   const char *name)
{
	const struct host_function *pf = at->pf;
	char path[HOST_PATH_MAX], text[64];

	if (snprintf(path, sizeof(path), "%.*s%s", at->dir, pf->path, name) >= (int)sizeof(path) ||
	    host_read_plain(rd->root, uevent, ATTR_MAX, "%s/uevent", path) < 0)
		return false;
	if (!attr_uevent(text, uevent, "PCI_ID") || !attr_pair(&fn->vendor, &fn->device, text) ||
	    fn->vendor != pf->vendor || (pf->cap.sriov.vf_device && fn->device != pf->cap.sriov.vf_device))
		return false;
	fn->path = text_in(rd, path);
	return true;
}

static const struct pf_range *range_find(const struct reader *rd, uint16_t *index, struct bdf bdf)
{
	const struct pf_range *at = rd->range;

	while (at && !vf_index(index, at->pf, bdf, at->pf->numvfs))
		at = at->next;
	return at;
}

/* 1: it was a VF, and is read. 0: unknown yet. */
static int read_vf(struct reader *rd, struct host_function *fn, const char *name)
{
	char uevent[ATTR_MAX];
	uint16_t index = 0;
	const struct pf_range *at = range_find(rd, &index, fn->bdf);
	int r;

	if (!at || !read_vf_uevent(rd, fn, at, uevent, name))
		return 0;
	rd->plain = true;
	vf_of(fn, at->pf, index);
	fn->parent = at->pf->parent;
	fn->root_bus = at->pf->root_bus;
	fn->kind = HOST_VF;
	read_ids(rd, fn, uevent);
	read_driver(rd, fn, uevent);
	r = read_group(rd, fn);
	if (!at->bars_known)
		read_bars(rd, fn);
	for (int i = 0; at->bars_known && i < 6; i++) {
		fn->bar[i] = at->bar[i];
		fn->bar[i].start += fn->bar[i].size * index;
	}
	return r < 0 ? r : 1;
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

static void read_uevent(struct reader *rd, struct host_function *fn, char uevent[ATTR_MAX])
{
	int r = host_read_plain(rd->root, uevent, ATTR_MAX, "%s/uevent", fn->path);

	rd->plain = r == 0;
	if (r == -ELOOP)
		r = host_read(rd->root, uevent, ATTR_MAX, "%s/uevent", fn->path);
	if (r < 0)
		uevent[0] = '\0';
}

/* What only a physical function has, or is asked for. */
static int read_physical(struct reader *rd, struct host_function *fn)
{
	unsigned config_total;
	char text[256];
	int r = read_config(rd, fn);

	if (r < 0)
		return r;
	config_total = fn->cap.sriov.total;
	read_override(rd, fn);
	read_link(rd, fn);
	read_sriov(rd, fn);
	read_bars(rd, fn);
	if (host_read(rd->root, text, sizeof(text), "%s/reset_method", fn->path) == 0)
		fn->reset_methods = text_in(rd, text);
	return range_add(rd, fn, config_total);
}

static int read_function(struct reader *rd, struct host_function *fn, const char *name)
{
	char uevent[ATTR_MAX];
	int r;

	fn->parent = fn->pf = BDF_NONE;
	fn->numa_node = fn->iommu_group = -1;
	fn->root_bus = fn->driver = fn->driver_override = fn->reset_methods = "";
	fn->cap.type = PCICAP_NONE;
	r = read_vf(rd, fn, name);
	if (r != 0)
		return r < 0 ? r : 0;
	r = read_path(rd, fn, name);
	if (r < 0)
		return r;
	read_uevent(rd, fn, uevent);
	fn->is_vf = linked_function(rd, fn, &fn->pf, "physfn");
	fn->vf_index = fn->is_vf ? HOST_VF_UNNUMBERED : 0;
	read_ids(rd, fn, uevent);
	read_driver(rd, fn, uevent);
	r = read_group(rd, fn);
	if (r == 0)
		r = read_numa(rd, fn);
	if (r == 0 && !fn->is_vf)
		r = read_physical(rd, fn);
	if (r == 0 && fn->is_vf)
		read_bars(rd, fn);
	fn->kind = kind_of(rd, fn);
	return r;
}

static int by_bdf(const void *a, const void *b)
{
	return bdf_cmp(((const struct host_function *)a)->bdf, ((const struct host_function *)b)->bdf);
}

static bool in_range(const struct reader *rd, struct bdf pf)
{
	const struct pf_range *at = rd->range;

	while (at && !bdf_eq(at->bdf, pf))
		at = at->next;
	return at;
}

/* The VFs that a PF's virtfn links name, for a PF whose numbers they contradict. */
static void number_by_links(struct reader *rd, const struct host_function *pf)
{
	struct inventory *inv = rd->inv;
	char name[16];
	struct bdf at;

	for (unsigned n = 0; n < pf->numvfs; n++) {
		struct host_function *vf;

		(void)snprintf(name, sizeof(name), "virtfn%u", n);
		if (!linked_function(rd, pf, &at, name))
			return;
		vf = (struct host_function *)host_function_find(inv, at);
		if (vf && vf->is_vf && bdf_eq(vf->pf, pf->bdf))
			vf_of(vf, pf, (uint16_t)n);
	}
}

/* The VFs that no range led to. */
static int number_vfs(struct reader *rd)
{
	struct inventory *inv = rd->inv;
	int r = 0;

	rd->plain = false; /* of these paths nothing is known here */
	for (size_t i = 0; i < inv->nfn; i++)
		if (!inv->fn[i].is_vf && inv->fn[i].numvfs && !in_range(rd, inv->fn[i].bdf))
			number_by_links(rd, &inv->fn[i]);
	for (size_t i = 0; i < inv->nfn && r == 0; i++) {
		struct host_function *vf = &inv->fn[i];
		const struct host_function *pf = vf->is_vf ? host_function_find(inv, vf->pf) : NULL;
		uint16_t index = 0;

		if (!vf->is_vf || vf->vf_index != HOST_VF_UNNUMBERED)
			continue;
		if (pf && vf_index(&index, pf, vf->bdf, pf->cap.sriov.total))
			vf_of(vf, pf, index);
		else
			r = host_finding_add(inv, "pci.vf-index-unknown", vf->bdf,
					     "neither its PF's links nor its PF's numbers say which VF it is");
	}
	return r;
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
	rd.bus_plain = host_is_plain(root, "sys/bus/pci/devices");
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
	if (r == 0)
		r = number_vfs(&rd);
	return r < 0 ? error_set(err, r, "no memory for the inventory") : 0;
}
