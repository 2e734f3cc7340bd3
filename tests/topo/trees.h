/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* trees — invented PCIe trees with random ACS, made as an inventory at once: for tests over many thousands. */

#include "support.h"
#include "topo/topo.h"

#define TREE_NODES 64

enum shape { RP, USP, DSP, PCI, END, BLIND }; /* PCI: a bridge to conventional PCI; BLIND: a bridge nobody could read */

struct tree {
	struct inventory *inv;
	enum shape        shape[TREE_NODES];
	int               parent[TREE_NODES];
	int               owner[TREE_NODES]; /* of a VF its PF's index, else its own */
	struct bdf        bdf[TREE_NODES];
	struct host_facts *facts[TREE_NODES];
	int               port[TREE_NODES];      /* Port Number; -1 unknown */
	int               egress[TREE_NODES];    /* bits of the Egress Control Vector; 0: not read */
	uint8_t           vector[TREE_NODES][32]; /* bit n % 8 of byte n / 8 */
	int               group[TREE_NODES];     /* function group; -1: ARI's registers were not read */
	bool              grouped[TREE_NODES];   /* has function groups enabled */
	unsigned          n, bus;
	int               bridge; /* a host bridge of the old Xeons', for one of the two root buses; -1 */
	uint64_t          seed;
};

static inline unsigned tree_random(struct tree *x, unsigned below)
{
	x->seed = x->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(x->seed >> 33) % below;
}

static inline void tree_random_acs(struct tree *x, struct pcicap_acs *acs)
{
	static const uint16_t caps[] = { 0x7f, 0x5f, 0x1f, 0x1f, 0x13, 0x4c, 0 };
	unsigned dice = tree_random(x, 20);

	acs->known = dice == 0 ? HOST_UNKNOWN : dice < 4 ? HOST_ABSENT : HOST_PRESENT;
	if (acs->known != HOST_PRESENT)
		return;
	acs->cap = caps[tree_random(x, 7)];
	acs->ctl = acs->cap & (tree_random(x, 2) ? 0x1d : tree_random(x, 0x80));
	if (tree_random(x, 3) == 0)
		acs->ctl |= acs->cap & 0x40;
}

/* Port numbers and vectors of whatever is asked about them, sizes that are no power of two, and some that are not read. */
static inline void tree_random_egress(struct tree *x, int i)
{
	static const uint16_t sizes[] = { 8, 8, 5, 32, 256, 0 };
	struct pcicap *c = &x->facts[i]->cap;

	x->port[i] = (int)tree_random(x, 12) - 1;
	c->port_known = x->port[i] >= 0;
	c->port = c->port_known ? (uint8_t)x->port[i] : 0;
	c->ari = tree_random(x, 8) ? tree_random(x, 2) ? HOST_PRESENT : HOST_ABSENT : HOST_UNKNOWN;
	x->group[i] = c->ari == HOST_PRESENT && tree_random(x, 4) ? (int)tree_random(x, 8) : -1;
	x->grouped[i] = x->group[i] >= 0 && tree_random(x, 2);
	if (x->group[i] >= 0)
		c->ari_groups = (struct pcicap_part){ HOST_PRESENT, 0, (uint16_t)(x->group[i] << 4 | (x->grouped[i] ? 2 : 0)) };
	if (!(c->acs.ctl & 0x20))
		return;
	c->acs.egress_bits = sizes[tree_random(x, 6)];
	x->egress[i] = c->acs.egress_bits;
	for (unsigned bit = 0; bit < c->acs.egress_bits; bit++) {
		unsigned on = tree_random(x, 2);

		x->vector[i][bit / 8] |= (uint8_t)(on << bit % 8);
		c->acs.egress[bit / 32] |= (uint32_t)on << bit % 32;
	}
}

static inline int tree_add(struct tree *x, int parent, enum shape shape, struct bdf bdf)
{
	static const enum pcicap_type type[] = { PCICAP_ROOT_PORT, PCICAP_USP, PCICAP_DSP, PCICAP_TO_PCI, PCICAP_ENDPOINT, PCICAP_NONE };
	static const enum host_kind kind[] = { HOST_ROOT_PORT, HOST_USP, HOST_DSP, HOST_BRIDGE, HOST_GPU, HOST_BRIDGE };
	struct host_facts *f = arena_alloc(&x->inv->arena, sizeof(*f));
	int i = (int)x->n++;

	*f = (struct host_facts){ .parent = parent < 0 ? BDF_NONE : x->bdf[parent], .dir = "",
				  .root_bus = parent >= 0 ? x->facts[parent]->root_bus : tree_random(x, 3) ? "pci0000:00" : "pci0000:80",
				  .kind = kind[shape], .numa_node = 0, .driver_override = "", .reset_methods = "", .pf = BDF_NONE };
	f->cap.type = type[shape];
	f->cap.pcie = shape == BLIND ? HOST_UNKNOWN : HOST_PRESENT;
	f->cap.acs.known = HOST_ABSENT;
	if (shape != PCI && shape != BLIND)
		tree_random_acs(x, &f->cap.acs);
	x->shape[i] = shape;
	x->parent[i] = parent;
	x->owner[i] = i;
	x->bdf[i] = bdf;
	x->facts[i] = f;
	tree_random_egress(x, i);
	return i;
}

static inline struct bdf tree_at(unsigned bus, unsigned dev, unsigned fn)
{
	return (struct bdf){ .bus = (uint8_t)bus, .devfn = (uint8_t)(dev << 3 | fn) };
}

/* One or two functions, perhaps with VFs. */
static inline void tree_add_device(struct tree *x, int parent, unsigned bus)
{
	int pf = tree_add(x, parent, END, tree_at(bus, 0, 0));

	if (tree_random(x, 2)) {
		x->facts[pf]->kind = HOST_NIC;
		x->facts[pf]->cap.ats.known = tree_random(x, 8) ? HOST_PRESENT : (enum host_known)tree_random(x, 2);
	}
	if (tree_random(x, 3) == 0) {
		int second = tree_add(x, parent, END, tree_at(bus, 0, 1));

		x->facts[pf]->cap.multifunction = x->facts[second]->cap.multifunction = true;
	}
	for (unsigned v = tree_random(x, 3) == 0 ? 2 : 0; v; v--) {
		int vf = tree_add(x, parent, END, tree_at(bus, 1, v));

		x->facts[vf]->is_vf = true;
		x->facts[vf]->kind = HOST_VF;
		x->facts[vf]->pf = x->bdf[pf];
		x->facts[vf]->cap.acs = (struct pcicap_acs){ 0 };
		x->owner[vf] = pf;
	}
}

static inline void tree_grow(struct tree *x, int port, unsigned depth);

static inline void tree_number(struct tree *x, int bridge, unsigned secondary)
{
	x->facts[bridge]->cap.secondary = (uint8_t)secondary;
	x->facts[bridge]->cap.subordinate = (uint8_t)x->bus;
	if (tree_random(x, 40) == 0) /* somebody else's numbers: Source Validation has something to refuse */
		x->facts[bridge]->cap.subordinate = (uint8_t)secondary;
}

static inline void tree_add_switch(struct tree *x, int parent, unsigned bus, unsigned depth)
{
	int usp = tree_add(x, parent, USP, tree_at(bus, 0, 0));
	unsigned inner = ++x->bus;

	if (tree_random(x, 4) == 0) { /* the switch's own endpoint */
		int own = tree_add(x, parent, END, tree_at(bus, 0, 1));

		x->facts[usp]->cap.multifunction = x->facts[own]->cap.multifunction = true;
	}
	for (unsigned d = 0, n = 1 + tree_random(x, 3); d < n && x->n < TREE_NODES - 12; d++) {
		int dsp = tree_add(x, usp, tree_random(x, 40) ? DSP : BLIND, tree_at(inner, d, 0));

		tree_grow(x, dsp, depth + 1);
	}
	tree_number(x, usp, inner);
}

static inline void tree_grow(struct tree *x, int port, unsigned depth)
{
	unsigned bus = ++x->bus, dice = tree_random(x, 10);

	if (dice < 4 && depth < 3) {
		tree_add_switch(x, port, bus, depth);
	} else if (dice == 4 && depth < 3) {
		int bridge = tree_add(x, port, PCI, tree_at(bus, 0, 0));
		unsigned inner = ++x->bus;

		for (unsigned d = 0; d < 2; d++)
			(void)tree_add(x, bridge, END, tree_at(inner, d, 0));
		tree_number(x, bridge, inner);
	} else {
		tree_add_device(x, port, bus);
	}
	tree_number(x, port, bus);
}

static inline int tree_by_bdf(const void *a, const void *b)
{
	return bdf_cmp(((const struct host_function *)a)->bdf, ((const struct host_function *)b)->bdf);
}

static inline struct topo *tree_make(struct tree *x, uint64_t seed)
{
	static const char *const cpu[] = { "Intel(R) Xeon(R) Platinum 8480+", "AMD EPYC 9654", "QEMU Virtual CPU", "" };
	struct error err = ERROR_INIT;
	struct topo *t = NULL;

	*x = (struct tree){ .inv = calloc(1, sizeof(*x->inv)), .seed = seed * 7919 + 1 };
	x->inv->refs = 1;
	x->inv->kernel = x->inv->cmdline = "";
	x->inv->cpu_model = cpu[tree_random(x, 4)];
	for (unsigned r = 0, n = 1 + tree_random(x, 2); r < n; r++)
		tree_grow(x, tree_add(x, -1, RP, tree_at(0, r + 1, 0)), 0);
	if (tree_random(x, 4) == 0)
		(void)tree_add(x, -1, END, tree_at(0, 9, 0)); /* inside the root complex */
	x->bridge = -1;
	if (tree_random(x, 4) == 0) {
		x->bridge = tree_add(x, -1, END, tree_at(0, 0, 0));
		x->facts[x->bridge]->kind = HOST_OTHER;
		x->facts[x->bridge]->vendor = 0x8086;
		x->facts[x->bridge]->device = tree_random(x, 2) ? 0x2f00 : 0x6f00; /* Broadwell's is not in the kernel's list */
	}
	x->inv->fn = arena_array(&x->inv->arena, x->n, sizeof(*x->inv->fn));
	x->inv->nfn = x->n;
	for (unsigned i = 0; i < x->n; i++)
		x->inv->fn[i] = (struct host_function){ .bdf = x->bdf[i], .facts = x->facts[i], .iommu_group = -1 };
	qsort(x->inv->fn, x->n, sizeof(*x->inv->fn), tree_by_bdf);
	assert_int_equal(topo_build(&t, x->inv, 1, &err), 0);
	return t;
}
