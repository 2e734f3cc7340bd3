/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the PCI functions. One readlink of sys/bus/pci/devices/X gives a function's whole chain of
 * ancestors; `uevent` gives ids, class and driver in one read, right also for VFs, whose config space
 * answers ffff for the ids (PCIe 9.3.4.1). vf.c reads most VFs, more cheaply. */
#include "host/pci.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "host/attr.h"
#include "host/read.h"

#define FUNCTIONS_MAX (1u << 20)
#define DRIVERS_MAX   4096

const char *pci_text(struct pci_reader *rd, const char *s)
{
	const char *p = s && *s ? arena_strdup(&rd->inv->arena, s) : "";

	return p ? p : "";
}

/* The bridge above and the root bus, from the path's parts, right to left. */
static void read_place(struct pci_reader *rd, struct host_facts *f)
{
	char path[HOST_PATH_MAX], *slash;
	struct bdf up;

	memcpy(path, rd->dir, sizeof(path));
	for (bool first = true; (slash = strrchr(path, '/')); first = false) {
		const char *part;

		*slash = '\0';
		if (first)
			f->dir = pci_text(rd, path);
		part = attr_last_part(path);
		if (attr_is_root_bus(part, strlen(part))) {
			f->root_bus = pci_text(rd, part);
			return;
		}
		if (bdf_is_none(f->parent) && bdf_parse(&up, part))
			f->parent = up;
	}
}

int pci_link(struct pci_reader *rd, char target[HOST_PATH_MAX], const char *name)
{
	return rd->bus_plain ? host_link_plain(rd->root, target, HOST_PATH_MAX, "sys/bus/pci/devices/%s", name) :
			       host_link(rd->root, target, HOST_PATH_MAX, "sys/bus/pci/devices/%s", name);
}

static int read_path(struct pci_reader *rd, const struct host_function *fn, struct host_facts *f, const char *name)
{
	char target[HOST_PATH_MAX];
	int r = rd->target ? 0 : pci_link(rd, target, name);

	if (r == 0 && attr_path(rd->dir, rd->target ? rd->target : target)) {
		read_place(rd, f);
		if (strcmp(attr_last_part(rd->dir), name) == 0 && *f->root_bus)
			return 0;
	}
	(void)snprintf(rd->dir, sizeof(rd->dir), "sys/bus/pci/devices/%s", name);
	f->dir = "sys/bus/pci/devices";
	f->parent = BDF_NONE;
	f->root_bus = "";
	return host_finding_add(rd->inv, "pci.place-unknown", fn->bdf,
				"its link below /sys/bus/pci/devices does not say where it sits, so it has no place in "
				"the tree");
}

static int own_link(struct pci_reader *rd, char target[HOST_PATH_MAX], const char *name)
{
	return rd->plain ? host_link_plain(rd->root, target, HOST_PATH_MAX, "%s/%s", rd->dir, name) :
			   host_link(rd->root, target, HOST_PATH_MAX, "%s/%s", rd->dir, name);
}

/* What cannot be used is no reason to guess, nor to stop: it becomes a finding. Absence is the caller's. */
static int judge(struct pci_reader *rd, int r, const char *name)
{
	if (r < 0 && r != -ENOENT && host_finding_add(rd->inv, "pci.attr-unreadable", rd->bdf, "cannot use its %s: %s",
						      name, r == -ERANGE ? "the number is too big" :
						      r == -EINVAL ? "it is not what it should be" :
						      r == -ETIMEDOUT ? "reading it does not return" : strerror(-r)) < 0)
		rd->oom = true;
	return r;
}

int pci_attr(struct pci_reader *rd, char *buf, size_t size, const char *name)
{
	return judge(rd, host_read(rd->root, buf, size, "%s/%s", rd->dir, name), name);
}

int pci_words(struct pci_reader *rd, char *buf, size_t size, const char *name)
{
	int r = host_read(rd->root, buf, size, "%s/%s", rd->dir, name);

	return judge(rd, r == 0 && !utf8_printable(buf) ? -EINVAL : r, name);
}

int pci_number(struct pci_reader *rd, uint64_t *ret, int base, uint64_t max, const char *name)
{
	return judge(rd, host_read_uint(rd->root, ret, base, max, "%s/%s", rd->dir, name), name);
}

int pci_linked(struct pci_reader *rd, struct bdf *ret, const char *name)
{
	char target[HOST_PATH_MAX];
	int r = own_link(rd, target, name);

	return judge(rd, r == 0 && !bdf_parse(ret, attr_last_part(target)) ? -EINVAL : r, name);
}

/* -EINVAL: no text that JSON can take. */
static int driver_index(struct pci_reader *rd, uint16_t *ret, const char *name)
{
	struct inventory *inv = rd->inv;
	size_t i = 0;

	while (i < inv->ndrivers && strcmp(inv->driver[i], name) != 0)
		i++;
	if (i == DRIVERS_MAX)
		return -E2BIG;
	if (i == inv->ndrivers && !utf8_printable(name))
		return -EINVAL;
	if (i == inv->ndrivers && i == inv->drivers_size) {
		size_t size = i ? 2 * i : 16;
		const char **grown = arena_array(&inv->arena, size, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		if (i)
			memcpy(grown, inv->driver, i * sizeof(*grown));
		inv->driver = grown;
		inv->drivers_size = size;
	}
	if (i == inv->ndrivers)
		inv->driver[inv->ndrivers++] = pci_text(rd, name);
	*ret = (uint16_t)i;
	return 0;
}

/* The kernel puts DRIVER= first (dev_uevent(), drivers/base/core.c), PCI_CLASS= after it: with the one and
 * without the other there is none. Without an uevent nobody has looked, and a missing link says nothing. */
int pci_read_driver(struct pci_reader *rd, struct host_function *fn, const char *uevent)
{
	char text[HOST_PATH_MAX];
	bool said = attr_uevent(text, uevent, "DRIVER") && *text;
	int r = 0;

	if (!said && attr_uevent(text, uevent, "PCI_CLASS"))
		return 0;
	if (!said)
		r = own_link(rd, text, "driver");
	if (r == 0)
		r = driver_index(rd, &fn->driver, attr_last_part(text));
	if (r == 0 || r == -ENOMEM || r == -E2BIG)
		return r;
	(void)judge(rd, r, "driver");
	fn->driver = HOST_DRIVER_UNKNOWN;
	return 0;
}

static uint16_t own_id(struct pci_reader *rd, const char *name)
{
	uint64_t v = 0;

	return pci_number(rd, &v, 16, 0xffff, name) == 0 ? (uint16_t)v : 0;
}

void pci_read_ids(struct pci_reader *rd, struct host_facts *f, const char *uevent)
{
	uint64_t class = 0;
	char text[64];

	if (!attr_uevent_pair(&f->vendor, &f->device, uevent, "PCI_ID")) {
		f->vendor = own_id(rd, "vendor");
		f->device = own_id(rd, "device");
	}
	if (!attr_uevent_pair(&f->subvendor, &f->subdevice, uevent, "PCI_SUBSYS_ID")) {
		f->subvendor = own_id(rd, "subsystem_vendor");
		f->subdevice = own_id(rd, "subsystem_device");
	}
	f->class = HOST_CLASS_UNKNOWN;
	if ((attr_uevent(text, uevent, "PCI_CLASS") && parse_uint(&class, text, 16, 0xffffff) == 0) ||
	    pci_number(rd, &class, 16, 0xffffff, "class") == 0)
		f->class = (uint32_t)class;
	if ((f->class == HOST_CLASS_UNKNOWN || !f->vendor) &&
	    host_finding_add(rd->inv, "pci.ids-unknown", rd->bdf, "neither uevent nor %s says what it is",
			     f->vendor ? "class" : "vendor") < 0)
		rd->oom = true;
}

/* The group's number is the last part of the link; none: the IOMMU does not translate this function. */
int pci_read_group(struct pci_reader *rd, struct host_function *fn)
{
	char target[HOST_PATH_MAX];
	uint64_t n = 0;
	int r = own_link(rd, target, "iommu_group");

	if (r == 0 && parse_uint(&n, attr_last_part(target), 10, INT32_MAX) == 0)
		fn->iommu_group = (int)n;
	else if (r != -ENOENT)
		return host_finding_add(rd->inv, "pci.group-unreadable", fn->bdf, "cannot read its IOMMU group: %s",
					r < 0 ? strerror(-r) : target);
	return 0;
}

static int read_numa(struct pci_reader *rd, const struct host_function *fn, struct host_facts *f)
{
	char text[32];
	int64_t node = -1;
	int r = host_read(rd->root, text, sizeof(text), "%s/numa_node", rd->dir);

	if (r == -ENOENT)
		return 0; /* kernel without CONFIG_NUMA */
	if (r < 0 || parse_int(&node, text, -1, INT16_MAX) < 0)
		return host_finding_add(rd->inv, "pci.numa-unreadable", fn->bdf, "its numa_node is no number");
	f->numa_node = (int)node;
	return 0;
}

/* The first six rows are the BARs (drivers/pci/pci-sysfs.c). */
void pci_read_bars(struct pci_reader *rd, struct host_facts *f)
{
	char text[PCI_ATTR_MAX];
	int r = pci_attr(rd, text, sizeof(text), "resource"), n = r == 0 ? attr_rows(rd->row, PCI_ROWS, text) : 0;

	if (n < 0)
		(void)judge(rd, n, "resource");
	rd->nrows = n < 0 ? 0 : (size_t)n;
	f->bars_known = rd->nrows > 0;
	for (size_t i = 0; i < 6; i++)
		f->bar[i] = i < rd->nrows ? rd->row[i] : (struct host_bar){ 0 };
}

enum host_kind pci_kind(const struct pci_reader *rd, const struct host_facts *f)
{
	struct host_id id = { .vendor = f->vendor, .device = f->device, .class = f->class };

	if (f->is_vf)
		return HOST_VF;
	/* a bus below needs a header of type 1: the PCIe capability of Intel's host bridge 8086:2f00 says root port, its
	 * header is of type 0; where no header can be read, the class says it */
	if (pcicap_answers(&f->cap) ? f->cap.header != PCI_HEADER_TYPE_BRIDGE : f->class >> 8 != 0x0604)
		return host_kinds_match(rd->kinds, id);
	if (f->cap.type == PCICAP_ROOT_PORT)
		return HOST_ROOT_PORT;
	if (f->cap.type == PCICAP_USP)
		return HOST_USP;
	if (f->cap.type == PCICAP_DSP)
		return HOST_DSP;
	return HOST_BRIDGE;
}

static void read_uevent(struct pci_reader *rd, char uevent[PCI_ATTR_MAX])
{
	int r = host_read_plain(rd->root, uevent, PCI_ATTR_MAX, "%s/uevent", rd->dir);

	rd->plain = r == 0;
	if (r == -ELOOP)
		r = host_read(rd->root, uevent, PCI_ATTR_MAX, "%s/uevent", rd->dir);
	if (judge(rd, r, "uevent") < 0)
		uevent[0] = '\0';
}

static struct host_facts *facts_new(struct pci_reader *rd)
{
	struct host_facts *f = arena_alloc(&rd->inv->arena, sizeof(*f));

	if (f)
		*f = (struct host_facts){ .parent = BDF_NONE, .pf = BDF_NONE, .numa_node = -1, .root_bus = "",
					  .driver_override = "", .d3cold_allowed = -1 };
	return f;
}

static int read_single(struct pci_reader *rd, struct host_function *fn, const char *name)
{
	struct host_facts *f = facts_new(rd);
	char uevent[PCI_ATTR_MAX];
	int r, physfn;

	if (!f)
		return -ENOMEM;
	f->cap.type = PCICAP_NONE;
	fn->facts = f;
	r = read_path(rd, fn, f, name);
	if (r < 0)
		return r;
	read_uevent(rd, uevent);
	physfn = rd->was ? -ENOENT : pci_linked(rd, &f->pf, "physfn");
	f->is_vf = physfn == 0;
	fn->vf_index = f->is_vf ? HOST_VF_UNNUMBERED : 0;
	pci_read_ids(rd, f, uevent);
	r = pci_read_driver(rd, fn, uevent);
	if (r == 0)
		r = pci_read_group(rd, fn);
	if (r == 0 && rd->was)
		f->numa_node = rd->was->numa_node;
	else if (r == 0)
		r = read_numa(rd, fn, f);
	f->kind = pci_kind(rd, f);
	if (r == 0 && f->is_vf)
		pci_read_bars(rd, f);
	else if (r == 0)
		r = pci_physical_read(rd, fn, f);
	if (physfn < 0 && physfn != -ENOENT)
		f->kind = HOST_OTHER; /* perhaps a VF: nothing that guests may be given */
	return r;
}

int pci_read_function(struct pci_reader *rd, struct host_function *fn, const char *name)
{
	int r;

	fn->iommu_group = -1;
	rd->bdf = fn->bdf;
	r = pci_vf_read(rd, fn, name);
	if (r == 0)
		r = read_single(rd, fn, name);
	if (rd->oom)
		return -ENOMEM;
	return r < 0 ? r : 0;
}

int pci_by_bdf(const void *a, const void *b)
{
	return bdf_cmp(((const struct host_function *)a)->bdf, ((const struct host_function *)b)->bdf);
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

/* Who is not root gets the header and little else. */
int pci_config_short(struct inventory *inv)
{
	size_t n = 0;

	for (size_t i = 0; i < inv->nfn; i++) {
		const struct pcicap *cap = &inv->fn[i].facts->cap;

		n += cap->readable && !cap->dead && !cap->broken && cap->pcie == HOST_UNKNOWN;
	}
	return n == 0 ? 0 : host_finding_add(inv, "pci.config-short", BDF_NONE,
					     "config space of %zu functions can be read only in part: port types, ACS and "
					     "ATS are unknown; read as root", n);
}

static int read_functions(struct pci_reader *rd, const struct host_names *names)
{
	struct inventory *inv = rd->inv;
	uint16_t none;
	int r = driver_index(rd, &none, "");

	for (size_t i = 0; i < names->n && r == 0; i++) {
		struct host_function *fn = &inv->fn[inv->nfn];

		if (!bdf_parse(&fn->bdf, names->name[i])) {
			r = host_finding_add(inv, "pci.name-unknown", BDF_NONE,
					     "\"%.60s\" below /sys/bus/pci/devices is no PCI address", names->name[i]);
			continue;
		}
		r = pci_read_function(rd, fn, names->name[i]);
		inv->nfn++;
	}
	if (inv->nfn)
		qsort(inv->fn, inv->nfn, sizeof(*inv->fn), pci_by_bdf);
	if (r == 0)
		r = drop_twins(inv);
	if (r == 0)
		r = pci_vf_number(rd);
	return r < 0 ? r : pci_config_short(inv);
}

static int read_bus(struct pci_reader *rd, struct arena *scratch, struct error *err)
{
	struct inventory *inv = rd->inv;
	struct host_names names;
	int r = host_list(rd->root, &names, scratch, "sys/bus/pci/devices");

	if (r < 0)
		return error_set(err, r, "cannot list /sys/bus/pci/devices: %s; is the root a Linux machine's?",
				 strerror(-r));
	if (names.n > FUNCTIONS_MAX)
		return error_set(err, -E2BIG, "%zu PCI functions are more than %u", names.n, FUNCTIONS_MAX);
	inv->fn = arena_array(&inv->arena, names.n, sizeof(*inv->fn));
	if (!inv->fn)
		return error_set(err, -ENOMEM, "no memory for %zu functions", names.n);
	rd->bus_plain = host_is_plain(rd->root, "sys/bus/pci/devices");
	r = read_functions(rd, &names);
	if (r == -E2BIG)
		return error_set(err, r, "the PCI functions have more than %d different drivers", DRIVERS_MAX);
	return r < 0 ? error_set(err, r, "no memory for the inventory") : 0;
}

int host_pci_read(struct inventory *inv, struct host_root *root, const struct host_kinds *kinds, struct error *err)
{
	struct pci_reader rd = { .inv = inv, .root = root, .kinds = kinds };
	struct arena scratch = { 0 };
	int r = read_bus(&rd, &scratch, err);

	arena_done(&scratch);
	return r;
}
