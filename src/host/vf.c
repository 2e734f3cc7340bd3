/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VFs are most of a big host's functions, so they cost two files: `uevent` and `iommu_group`. The rest is the
 * PF's, by the kernel's own arithmetic (drivers/pci/iov.c): name, index, BARs. Their config space is not
 * touched, nor their driver_override and reset_method. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/attr.h"
#include "host/pci.h"

#define RANGES_MAX 512 /* every function is looked for in each; the VFs of more PFs are read one by one */
#define VF_ROW     7   /* PCI_IOV_RESOURCES */

/* VF n is at routing id PF + offset + n * stride (PCIe 9.2.1.2). */
bool pci_vf_place(struct bdf *ret, struct bdf pf, const struct host_facts *f, unsigned n)
{
	return bdf_add(ret, pf, f->cap.sriov.offset + n * f->cap.sriov.stride);
}

bool pci_vf_index(uint16_t *ret, struct bdf at, const struct host_facts *pf, struct bdf bdf, unsigned count)
{
	const struct pcicap_sriov *s = &pf->cap.sriov;
	int from = at.bus << 8 | at.devfn, to = bdf.bus << 8 | bdf.devfn, off = to - from - s->offset;

	if (bdf.domain != at.domain || off < 0 || (s->stride ? off % s->stride : off))
		return false;
	off = s->stride ? off / s->stride : 0;
	*ret = (uint16_t)off;
	return (unsigned)off < count;
}

/* The VF rows of a PF's `resource` are all its VFs' BARs in a row: total times one (sriov_init()). */
const struct host_bar *pci_vf_bars(struct pci_reader *rd, unsigned config_total)
{
	struct host_bar *bar;

	if (rd->nrows < PCI_ROWS || config_total == 0)
		return NULL;
	for (int i = 0; i < 6; i++)
		if (rd->row[VF_ROW + i].size % config_total)
			return NULL;
	bar = arena_array(&rd->inv->arena, 6, sizeof(*bar));
	for (int i = 0; i < 6 && bar; i++) {
		bar[i] = rd->row[VF_ROW + i];
		bar[i].size /= config_total;
	}
	rd->oom = rd->oom || !bar;
	return bar;
}

int pci_range_add(struct pci_reader *rd, const struct host_facts *pf)
{
	const unsigned ends[] = { 0, pf->numvfs ? pf->numvfs - 1u : 0 };
	struct pci_range *range;

	if (!rd->plain || rd->nranges == RANGES_MAX || !*pf->root_bus || !pf->numvfs || pf->cap.sriov.known != HOST_PRESENT)
		return 0;
	for (int i = 0; i < 2; i++) {
		struct bdf want, got;
		char name[16];

		(void)snprintf(name, sizeof(name), "virtfn%u", ends[i]);
		if (!pci_vf_place(&want, rd->bdf, pf, ends[i]) || pci_linked(rd, &got, name) < 0 || !bdf_eq(want, got))
			return 0;
	}
	range = arena_alloc(&rd->inv->arena, sizeof(*range));
	if (!range)
		return -ENOMEM;
	*range = (struct pci_range){ .next = rd->range, .bdf = rd->bdf, .pf = pf };
	rd->range = range;
	rd->nranges++;
	return 0;
}

static struct pci_range *range_find(const struct pci_reader *rd, uint16_t *index, struct bdf bdf)
{
	struct pci_range *at = rd->range;

	while (at && !pci_vf_index(index, at->bdf, at->pf, bdf, at->pf->numvfs))
		at = at->next;
	return at;
}

/* True: the PF's numbers lead here, and a function with the ids of its VFs is here, beside the PF. */
static bool read_vf_uevent(struct pci_reader *rd, struct host_facts *vf, const struct host_facts *pf,
			   char uevent[PCI_ATTR_MAX], const char *name)
{
	char dir[HOST_PATH_MAX];

	if (snprintf(dir, sizeof(dir), "%s/%s", pf->dir, name) >= (int)sizeof(dir) ||
	    host_read_plain(rd->root, uevent, PCI_ATTR_MAX, "%s/uevent", dir) < 0)
		return false;
	if (!attr_uevent_pair(&vf->vendor, &vf->device, uevent, "PCI_ID") || vf->vendor != pf->vendor ||
	    (pf->cap.sriov.vf_device && vf->device != pf->cap.sriov.vf_device))
		return false;
	memcpy(rd->dir, dir, sizeof(dir));
	rd->plain = true;
	return true;
}

/* A VF sits in the chip of its PF, so its node is the PF's. Its own file says what the bus had when the VF was
 * made (pci_device_add()); a node that an operator wrote to the PF's file to correct firmware is not in it. */
static struct host_facts vf_facts(const struct pci_range *range)
{
	struct host_facts f = { .parent = range->pf->parent, .root_bus = range->pf->root_bus, .dir = range->pf->dir,
				.kind = HOST_VF, .numa_node = range->pf->numa_node, .driver_override = "",
				.d3cold_allowed = -1, .is_vf = true, .pf = range->bdf };

	f.cap.type = PCICAP_NONE;
	return f;
}

static bool same_ids(const struct host_facts *a, const struct host_facts *b)
{
	return a->vendor == b->vendor && a->device == b->device && a->subvendor == b->subvendor &&
	       a->subdevice == b->subdevice && a->class == b->class;
}

static const struct host_facts *facts_keep(struct pci_reader *rd, const struct host_facts *f)
{
	struct host_facts *copy = arena_alloc(&rd->inv->arena, sizeof(*copy));

	if (copy)
		*copy = *f;
	return copy;
}

int pci_vf_read(struct pci_reader *rd, struct host_function *fn, const char *name)
{
	char uevent[PCI_ATTR_MAX];
	uint16_t index = 0;
	struct pci_range *at = range_find(rd, &index, fn->bdf);
	struct host_facts vf;
	int r;

	if (!at)
		return 0;
	vf = vf_facts(at);
	if (!read_vf_uevent(rd, &vf, at->pf, uevent, name))
		return 0;
	pci_read_ids(rd, &vf, uevent);
	vf.shared = vf.bars_known = at->pf->vf_bar;
	if (vf.shared)
		memcpy(vf.bar, at->pf->vf_bar, sizeof(vf.bar));
	else
		pci_read_bars(rd, &vf);
	fn->facts = vf.shared && at->vf && same_ids(&vf, at->vf) ? at->vf : facts_keep(rd, &vf);
	if (!fn->facts)
		return -ENOMEM;
	at->vf = fn->facts;
	fn->vf_index = index;
	r = pci_read_driver(rd, fn, uevent);
	if (r == 0)
		r = pci_read_group(rd, fn);
	return r < 0 ? r : 1;
}

static bool in_range(const struct pci_reader *rd, struct bdf pf)
{
	const struct pci_range *at = rd->range;

	while (at && !bdf_eq(at->bdf, pf))
		at = at->next;
	return at;
}

static void vf_of(struct host_function *vf, const struct host_facts *pf, uint16_t index)
{
	vf->vf_index = index;
	((struct host_facts *)vf->facts)->numa_node = pf->numa_node; /* its own: no range led to it */
}

/* The VFs that a PF's virtfn links name, for a PF whose numbers they contradict. */
static void number_by_links(struct pci_reader *rd, const struct host_function *pf)
{
	char name[16];
	struct bdf at;

	rd->bdf = pf->bdf;
	(void)host_function_dir(rd->dir, pf);
	for (unsigned n = 0; n < pf->facts->numvfs; n++) {
		struct host_function *vf;

		(void)snprintf(name, sizeof(name), "virtfn%u", n);
		if (pci_linked(rd, &at, name) < 0)
			return;
		vf = (struct host_function *)host_function_find(rd->inv, at);
		if (vf && vf->facts->is_vf && bdf_eq(vf->facts->pf, pf->bdf))
			vf_of(vf, pf->facts, (uint16_t)n);
	}
}

int pci_vf_number(struct pci_reader *rd)
{
	struct inventory *inv = rd->inv;
	int r = 0;

	rd->plain = false; /* of these paths nothing is known here */
	for (size_t i = 0; i < inv->nfn; i++)
		if (!inv->fn[i].facts->is_vf && inv->fn[i].facts->numvfs && !in_range(rd, inv->fn[i].bdf))
			number_by_links(rd, &inv->fn[i]);
	for (size_t i = 0; i < inv->nfn && r == 0; i++) {
		struct host_function *vf = &inv->fn[i];
		const struct host_function *pf = vf->facts->is_vf ? host_function_find(inv, vf->facts->pf) : NULL;
		uint16_t index = 0;

		if (!vf->facts->is_vf || vf->vf_index != HOST_VF_UNNUMBERED)
			continue;
		if (pf && pci_vf_index(&index, pf->bdf, pf->facts, vf->bdf, pf->facts->cap.sriov.total))
			vf_of(vf, pf->facts, index);
		else
			r = host_finding_add(inv, "pci.vf-index-unknown", vf->bdf,
					     "neither its PF's links nor its PF's numbers say which VF it is");
	}
	return r;
}
