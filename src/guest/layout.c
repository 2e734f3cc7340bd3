/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's PCIe tree. Devices are sorted by (cell, host bridge, host switch, BDF), which makes each guest subtree one
 * run of the list; walking it once emits the controllers in the order of their indices, so the guest's
 * BDF order is the host's. */
#include "guest/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/inventory.h"
#include "plan/plan.h"
#include "topo/path.h"

#define CELL_NONE UINT32_MAX

/* ---- collect --------------------------------------------------------------------------------------- */

static uint32_t cell_of(const struct plan *p, int numa_node)
{
	for (size_t i = 0; i < p->nmoved; i++)
		if (p->moved[i].node == numa_node) {
			numa_node = p->moved[i].home;
			break;
		}
	for (size_t i = 0; i < p->ncells && numa_node >= 0; i++)
		if (p->cell[i].host_node == numa_node)
			return (uint32_t)i;
	return CELL_NONE;
}

static int set_chain(struct guest_device *d, const struct topo *t, uint32_t at, struct error *err)
{
	unsigned n = 0;

	for (uint32_t s = topo_at(t, at)->usp; s != TOPO_NONE; s = topo_at(t, s)->usp)
		n++;
	if (n > GUEST_SWITCHES_MAX)
		return error_set(err, -E2BIG, "%s is below %u switches, one below the other; a guest has %d at most", d->alias, n,
				 GUEST_SWITCHES_MAX);
	d->nchain = n + 1;
	for (uint32_t s = at; s != TOPO_NONE; s = topo_at(t, s)->usp)
		d->chain[n--] = s;
	return 0;
}

static int add_device(struct guest_layout *l, const struct plan *p, const struct topo *t, struct bdf bdf,
		      struct bdf pf, const char *alias, struct error *err)
{
	struct guest_device *d = &l->device[l->ndevices];
	char name[BDF_TEXT_MAX];
	uint32_t at = topo_find(t, bdf);

	if (at == TOPO_NONE && !bdf_is_none(pf))
		at = topo_find(t, pf);
	if (at == TOPO_NONE)
		return error_set(err, -ESTALE, "%s of the plan is not on this host any more; plan again",
				 bdf_text(name, bdf));
	if (!alias)
		return error_set(err, -ENOMEM, "no memory for the guest's layout");
	d->bdf = bdf;
	d->alias = alias;
	d->host = topo_at(t, at);
	d->is_vf = !bdf_is_none(pf) || d->host->fn->facts->is_vf;
	d->cell = cell_of(p, d->host->fn->facts->numa_node);
	l->ndevices++;
	return set_chain(d, t, at, err);
}

/* Companions are counted per owner from 1: "ua-gpu0-1". */
static const char *companion_alias(struct guest_layout *l, const struct plan *p, size_t i)
{
	const char *owner = "ua-dev";
	unsigned nth = 1;

	for (size_t d = 0; d < l->ndevices; d++)
		if (bdf_eq(l->device[d].bdf, p->companion[i].of))
			owner = l->device[d].alias;
	for (size_t c = 0; c < i; c++)
		nth += bdf_eq(p->companion[c].of, p->companion[i].of);
	return arena_printf(&l->arena, "%s-%u", owner, nth);
}

static int collect(struct guest_layout *l, const struct plan *p, const struct topo *t, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < p->ngpus && r == 0; i++)
		r = add_device(l, p, t, p->gpu[i], BDF_NONE, arena_printf(&l->arena, "ua-gpu%zu", i), err);
	for (size_t i = 0; i < p->nvfs && r == 0; i++)
		r = add_device(l, p, t, p->vf[i].bdf, p->vf[i].pf, arena_printf(&l->arena, "ua-vf%zu", i), err);
	for (size_t i = 0; i < p->nextras && r == 0; i++)
		r = add_device(l, p, t, p->extra[i].bdf, BDF_NONE,
			       arena_printf(&l->arena, p->extra[i].nvswitch ? "ua-nvswitch%zu" : "ua-nvme%zu", i), err);
	for (size_t i = 0; i < p->ncompanions && r == 0; i++)
		r = add_device(l, p, t, p->companion[i].bdf, BDF_NONE, companion_alias(l, p, i), err);
	return r;
}

/* VFs are never functions of a shared slot: with ARI their function number means nothing (SR-IOV 2.1.2). */
static bool same_slot(const struct guest_device *a, const struct guest_device *b)
{
	return !a->is_vf && !b->is_vf && bdf_same_device(a->bdf, b->bdf);
}

/* One host switch, with those below it, is one in the guest: firmware that gives its devices different nodes, or
 * some none, must not split it, nor a device. */
static void settle_cells(struct guest_layout *l)
{
	for (size_t i = 0; i < l->ndevices; i++) {
		struct guest_device *d = &l->device[i];

		for (size_t j = 0; j < l->ndevices; j++) {
			const struct guest_device *e = &l->device[j];

			if (e->cell < d->cell && (d->chain[0] == e->chain[0] || same_slot(d, e)))
				d->cell = e->cell;
		}
	}
}

/* Whose host bridge is not known are taken for one's. */
static void name_roots(struct guest_layout *l)
{
	for (size_t i = 0; i < l->ndevices; i++) {
		struct guest_device *d = &l->device[i];

		d->root = d->chain[0];
		for (size_t j = 0; j < l->ndevices; j++) {
			const struct guest_device *e = &l->device[j];

			if (e->chain[0] < d->root && strcmp(e->host->fn->facts->root_bus, d->host->fn->facts->root_bus) == 0)
				d->root = e->chain[0];
		}
	}
}

static bool same_root(const struct guest_device *a, const struct guest_device *b)
{
	return a->cell == b->cell && (a->cell == CELL_NONE || a->root == b->root);
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int device_cmp(const void *pa, const void *pb)
{
	const struct guest_device *a = pa, *b = pb;
	int c = COMPARE(a->cell, b->cell);

	c = c ? c : COMPARE(a->root, b->root);
	for (unsigned i = 0; !c && i < a->nchain && i < b->nchain; i++)
		c = COMPARE(a->chain[i], b->chain[i]);
	return c ? c : bdf_cmp(a->bdf, b->bdf);
}

/* ---- place ----------------------------------------------------------------------------------------- */

/* Whether the switch at this depth of d's chain is in the guest, too: it has d itself below it, or several things. */
static bool is_kept(const struct guest_layout *l, const struct guest_device *d, unsigned depth)
{
	if (l->root_ports || depth + 2 == d->nchain)
		return !l->root_ports;
	for (size_t i = 0; i < l->ndevices; i++) {
		const struct guest_device *e = &l->device[i];

		if (depth + 1 < e->nchain && e->chain[depth] == d->chain[depth] && e->chain[depth + 1] != d->chain[depth + 1])
			return true;
	}
	return false;
}

/* NULL: the guest has no bus left. */
static struct guest_controller *add_controller(struct guest_layout *l, enum guest_model model,
					       struct guest_addr at)
{
	struct guest_controller *c = &l->controller[l->ncontrollers];

	if (l->ncontrollers + 1 >= GUEST_BUSES)
		return NULL;
	*c = (struct guest_controller){ .model = model, .index = (uint8_t)(l->ncontrollers + 1), .at = at,
					 .host = TOPO_NONE };
	l->ncontrollers++;
	return c;
}

static int no_bus(struct error *err)
{
	return error_set(err, -E2BIG, "the guest needs more than the %d PCIe buses there are; ask for fewer devices",
			 GUEST_BUSES);
}

static int no_slot(struct error *err, const char *where, unsigned slots)
{
	return error_set(err, -E2BIG, "more than %u devices below one %s of the guest; ask for fewer devices", slots,
			 where);
}

struct walk { /* where the next controller of each level goes */
	struct guest_addr root, pxb; /* slot: the next free one */
	struct guest_addr dev;       /* bus of the slot in hand */
	struct {
		uint32_t          host;
		struct guest_addr dsp; /* slot: as above */
	} open[GUEST_SWITCHES_MAX]; /* switches, each below the one before */
	unsigned          nopen;
};

static int add_pxb(struct guest_layout *l, struct walk *w, uint32_t cell, struct error *err)
{
	struct guest_controller *c;

	if (w->root.slot > GUEST_SLOT_LAST)
		return no_slot(err, "pcie-root", GUEST_SLOT_LAST - GUEST_SLOT_FIRST + 1);
	c = add_controller(l, GUEST_PXB, w->root);
	if (!c)
		return no_bus(err);
	w->root.slot++;
	c->cell = cell;
	w->pxb = (struct guest_addr){ .bus = c->index };
	return 0;
}

static int add_root_port(struct guest_layout *l, struct walk *w, bool below_pxb, struct error *err)
{
	struct guest_addr *at = below_pxb ? &w->pxb : &w->root;
	struct guest_controller *c;

	if (at->slot >= (below_pxb ? GUEST_SLOTS : GUEST_SLOT_LAST + 1))
		return below_pxb ? no_slot(err, "pcie-expander-bus", GUEST_SLOTS)
				 : no_slot(err, "pcie-root", GUEST_SLOT_LAST - GUEST_SLOT_FIRST + 1);
	c = add_controller(l, GUEST_ROOT_PORT, *at);
	if (!c)
		return no_bus(err);
	at->slot++;
	w->dev = (struct guest_addr){ .bus = c->index };
	return 0;
}

static int add_usp(struct guest_layout *l, struct walk *w, uint32_t host, struct error *err)
{
	struct guest_controller *c = add_controller(l, GUEST_USP, w->dev);

	if (!c)
		return no_bus(err);
	c->host = host;
	w->open[w->nopen].host = host;
	w->open[w->nopen++].dsp = (struct guest_addr){ .bus = c->index };
	return 0;
}

static int add_dsp(struct guest_layout *l, struct walk *w, struct error *err)
{
	struct guest_addr *at = &w->open[w->nopen - 1].dsp;
	struct guest_controller *c;

	if (at->slot >= GUEST_SLOTS)
		return no_slot(err, "switch", GUEST_SLOTS);
	c = add_controller(l, GUEST_DSP, *at);
	if (!c)
		return no_bus(err);
	at->slot++;
	w->dev = (struct guest_addr){ .bus = c->index };
	return 0;
}

/* The port that a device or switch hangs at: of the innermost open switch, else of the root. */
static int add_port(struct guest_layout *l, struct walk *w, bool in_cell, uint32_t below, struct error *err)
{
	int r = w->nopen ? add_dsp(l, w, err) : add_root_port(l, w, in_cell, err);

	if (r == 0)
		l->controller[l->ncontrollers - 1].host = below;
	return r;
}

/* The controllers that d needs and prev, the device before it, has not brought. */
static int open_slot(struct guest_layout *l, struct walk *w, const struct guest_device *prev,
		     const struct guest_device *d, struct error *err)
{
	bool in_cell = d->cell != CELL_NONE, same = prev && same_root(prev, d);
	unsigned kept = 0;
	int r = in_cell && !same ? add_pxb(l, w, d->cell, err) : 0;

	if (!same)
		w->nopen = 0;
	for (unsigned i = 0; i + 1 < d->nchain && r == 0; i++) {
		if (!is_kept(l, d, i))
			continue;
		if (kept < w->nopen && w->open[kept].host == d->chain[i]) {
			kept++;
			continue;
		}
		w->nopen = kept; /* others are done */
		r = add_port(l, w, in_cell, d->chain[i], err);
		if (r == 0)
			r = add_usp(l, w, d->chain[i], err);
		kept = w->nopen;
	}
	w->nopen = r == 0 ? kept : w->nopen;
	return r < 0 ? r : add_port(l, w, in_cell, d->chain[d->nchain - 1], err);
}

/* Functions keep their numbers; a slot needs a function 0, so without one its lowest takes that place. */
static void place_functions(struct guest_device *d, size_t n, struct guest_addr at)
{
	for (size_t i = 0; i < n; i++) {
		d[i].at = at;
		d[i].at.function = i == 0 ? 0 : (uint8_t)bdf_function(d[i].bdf);
	}
	d[0].multifunction = n > 1;
}

static int place(struct guest_layout *l, struct error *err)
{
	struct walk w = { .root.slot = GUEST_SLOT_FIRST };
	size_t n;

	for (size_t i = 0; i < l->ndevices; i += n) {
		struct guest_device *d = &l->device[i];
		int r = open_slot(l, &w, i ? d - 1 : NULL, d, err);

		if (r < 0)
			return r;
		for (n = 1; i + n < l->ndevices && same_slot(d, d + n); n++)
			;
		place_functions(d, n, w.dev);
	}
	return 0;
}

/* ---- numbers --------------------------------------------------------------------------------------- */

/* Firmware walks each root bus depth first by slot, and gives each bridge the next number (seabios, src/fw/pciinit.c,
 * pci_bios_init_bus_rec(); edk2, MdeModulePkg PciScanBus()): the order of the indices. */
static void number_ports(struct guest_layout *l, size_t from, size_t to, unsigned next)
{
	for (size_t i = from; i < to; i++) {
		struct guest_controller *c = &l->controller[i];

		if (c->model != GUEST_PXB)
			c->bus_nr = (uint8_t)next;
		next = c->bus_nr + 1u;
	}
}

/* A PXB owns the bus numbers from its own up to the next PXB's (QEMU, docs/pci_expander_bridge.txt). Each
 * level gets what is below it and an equal share of what is left, for firmware that counts differently. */
static void number_buses(struct guest_layout *l)
{
	size_t npxb = 0, tail = l->ncontrollers, bus, share;

	for (size_t i = 0; i < l->ncontrollers; i++) {
		const struct guest_controller *c = &l->controller[i];

		npxb += c->model == GUEST_PXB;
		if (c->model == GUEST_ROOT_PORT && c->at.bus == 0 && tail == l->ncontrollers)
			tail = i; /* from here on all is below pcie-root, whose numbers come first */
	}
	share = (GUEST_BUSES - 1 - l->ncontrollers) / (npxb + 1);
	bus = 1 + l->ncontrollers - tail;
	for (size_t i = 0; i < tail; i++, bus++) {
		if (l->controller[i].model != GUEST_PXB)
			continue;
		bus += share;
		l->controller[i].bus_nr = (uint8_t)bus;
	}
	number_ports(l, 0, tail, 0);
	number_ports(l, tail, l->ncontrollers, 1);
}

static uint64_t round_up_pow2(uint64_t v)
{
	uint64_t p = 1;

	while (p < v && p < UINT64_C(1) << 62)
		p <<= 1;
	return p;
}

/* Firmware aligns each BAR to its size: twice the sum of the rounded BARs, rounded up itself, always
 * holds them. A VF that does not exist yet is taken for as large as its PF. */
#define MMIO64_LEAST (UINT64_C(2) << 30)
#define IORESOURCE_MEM_64 UINT64_C(0x100000) /* linux/ioport.h */

static void measure_mmio(struct guest_layout *l)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l->ndevices; i++)
		for (unsigned b = 0; b < 6; b++) {
			struct host_bar bar = host_bar_of(l->device[i].host->fn, b);

			if (bar.size && bar.flags & IORESOURCE_MEM_64 &&
			    __builtin_add_overflow(sum, round_up_pow2(bar.size), &sum))
				sum = UINT64_MAX / 2;
		}
	if (l->ndevices)
		l->mmio64 = sum > MMIO64_LEAST / 2 ? round_up_pow2(sum > UINT64_MAX / 2 ? sum : sum * 2) : MMIO64_LEAST;
}

/* linux/ioport.h. VFs have none (SR-IOV 3.4.1.11). */
#define IORESOURCE_IO UINT64_C(0x100)

static bool has_io(const struct guest_device *d)
{
	for (unsigned b = 0; b < 6 && !d->is_vf; b++) {
		struct host_bar bar = host_bar_of(d->host->fn, b);

		if (bar.size && bar.flags & IORESOURCE_IO)
			return true;
	}
	return false;
}

static void measure_io(struct guest_layout *l)
{
	bool counted[GUEST_BUSES] = { false };

	for (size_t i = 0; i < l->ndevices; i++) {
		const struct guest_device *d = &l->device[i];
		bool io = has_io(d);

		l->io_ports += io && !counted[d->at.bus];
		counted[d->at.bus] |= io;
		for (unsigned at = d->at.bus; at && (io || !d->host->fn->facts->bars_known); at = l->controller[at - 1].at.bus)
			l->controller[at - 1].io = true;
	}
}

struct pcicap_link guest_link(const struct topo *t, uint32_t i)
{
	struct topo_link l = { 0 };

	(void)topo_link_above(t, &l, i);
	if (topo_at(t, i)->fn->facts->kind == HOST_GPU && l.most.speed)
		l.now.speed = l.most.speed;
	return l.now;
}

int guest_layout_build(struct guest_layout *ret, const struct plan *plan, const struct topo *topo,
		       struct error *err)
{
	struct guest_layout l = { .root_ports = plan->root_ports };
	int r;

	l.device = arena_array(&l.arena, plan->ngpus + plan->nvfs + plan->ncompanions + plan->nextras + 1, sizeof(*l.device));
	l.controller = arena_array(&l.arena, GUEST_BUSES, sizeof(*l.controller));
	if (!l.device || !l.controller)
		r = error_set(err, -ENOMEM, "no memory for the guest's layout");
	else
		r = collect(&l, plan, topo, err);
	if (r == 0) {
		settle_cells(&l);
		name_roots(&l);
		qsort(l.device, l.ndevices, sizeof(*l.device), device_cmp);
		r = place(&l, err);
	}
	if (r < 0) {
		guest_layout_done(&l);
		return r;
	}
	number_buses(&l);
	measure_mmio(&l);
	measure_io(&l);
	*ret = l;
	return 0;
}

struct bdf guest_bdf(const struct guest_layout *l, struct guest_addr at)
{
	return (struct bdf){ .bus = at.bus ? l->controller[at.bus - 1].bus_nr : 0,
			     .devfn = (uint8_t)(at.slot << 3 | at.function) };
}

void guest_layout_done(struct guest_layout *l)
{
	arena_done(&l->arena);
	*l = (struct guest_layout){ 0 };
}
