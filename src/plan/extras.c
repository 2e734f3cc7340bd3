/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NVMe drives that a request wants, and NVSwitches that go along with all GPUs.
 *
 * A drive is given only if no driver of the host's has it: what a driver has may be mounted, swapped to, part of an array
 * or a pool, or open in a program, and no file says all of that. NVSwitches are one guest's only if it has all GPUs and
 * Fabric Manager left them whole (FABRIC_MODE 0): it runs in the guest then. */
#include <stdlib.h>
#include <string.h>

#include "plan/place.h"

static const struct host_function *fn_at(const struct place *p, uint32_t node)
{
	return topo_at(p->in->topo, node)->fn;
}

/* ---- drives --------------------------------------------------------------------------------------------- */

static bool drive_usable(struct place *p, const struct host_function *fn, uint32_t at)
{
	const struct plan_request *req = p->in->request;
	const char *driver = host_driver_of(topo_inventory(p->in->topo), fn);

	if (bdf_in(req->exclude, req->nexclude, fn->bdf)) {
		place_reason(p->plan, "device.excluded", fn->bdf, "a device that is not excluded", "the request excludes it");
		return false;
	}
	if (!place_usable(p, fn) || place_degraded(p, fn, at))
		return false;
	if (fn->facts->numvfs_known && fn->facts->numvfs)
		place_reason(p->plan, "nvme.has-vfs", fn->bdf, "a drive without VFs (0 in its sriov_numvfs)", "%u of its VFs %s on",
			     fn->facts->numvfs, fn->facts->numvfs == 1 ? "is" : "are");
	else if (driver && *driver && strcmp(driver, "vfio-pci") != 0)
		place_reason(p->plan, "nvme.host", fn->bdf,
			     "a drive that the host gives up (vfio-pci or nothing in its driver_override, and it unbound)",
			     "driver %s of the host has it, and its disks may be in use", driver);
	else
		return true;
	return false;
}

void place_drives(struct place *p)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	const struct plan_request *req = p->in->request;

	for (uint32_t i = 0; i < inv->nfn && req->nvme; i++) {
		bool required = bdf_in(req->require, req->nrequire, inv->fn[i].bdf);

		if (inv->fn[i].facts->kind != HOST_NVME || !drive_usable(p, &inv->fn[i], i) || p->ndrives == PLACE_DRIVES_MAX)
			continue;
		p->drive[p->ndrives++] = (struct place_drive){ .node = i, .required = required };
		p->nrequired += required;
	}
}

bool place_bar_drive(struct place *p, uint32_t node)
{
	for (uint32_t i = 0; i < p->ndrives; i++)
		if (p->drive[i].node == node && !p->drive[i].barred) {
			p->drive[i].barred = true;
			return true;
		}
	return false;
}

uint32_t place_drives_left(const struct place *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->ndrives; i++)
		n += !p->drive[i].barred;
	return n;
}

/* From a GPU of the bundle; without one, whether it is on a node of the guest's. */
static unsigned way_to(const struct place *p, const struct place_drive *d, uint32_t nth)
{
	const struct place_choice *c = &p->best;
	int node = fn_at(p, d->node)->facts->numa_node;

	if (c->ngpus)
		return (unsigned)topo_path(p->in->topo, p->gpu[c->gpu[nth % c->ngpus]].node, d->node);
	for (uint64_t left = c->nodes; left; left &= left - 1)
		if (p->node[__builtin_ctzll(left)] == node)
			return 0;
	return 1;
}

static void add_extra(struct plan *plan, const struct host_function *fn, bool nvswitch)
{
	plan->extra[plan->nextras++] = (struct plan_extra){ .bdf = fn->bdf, .numa_node = fn->facts->numa_node, .nvswitch = nvswitch };
}

/* Required ones first; then each GPU in turn gets the nearest, and of equals the first. */
static void take_drives(struct place *p)
{
	bool has[PLACE_DRIVES_MAX] = { false };

	for (uint32_t k = 0; k < p->in->request->nvme; k++) {
		uint32_t best = p->ndrives;

		for (uint32_t i = 0; i < p->ndrives; i++) {
			const struct place_drive *d = &p->drive[i], *b = best < p->ndrives ? &p->drive[best] : NULL;

			if (has[i] || d->barred)
				continue;
			if (!b || d->required > b->required || (d->required == b->required && way_to(p, d, k) < way_to(p, b, k)))
				best = i;
		}
		if (best == p->ndrives)
			return; /* there are enough: place_can() */
		has[best] = true;
		add_extra(p->plan, fn_at(p, p->drive[best].node), false);
	}
}

/* ---- NVSwitches ----------------------------------------------------------------------------------------- */

static void take_switches(struct place *p)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	if (!p->in->request->exclusive || p->partitions.mode != PLAN_FABRIC_WHOLE)
		return;
	for (size_t i = 0; i < inv->nfn; i++) {
		const struct host_function *fn = &inv->fn[i];

		if (fn->facts->kind != HOST_NVSWITCH)
			continue;
		if (!place_usable(p, fn) || p->plan->nextras == PLAN_EXTRAS_MAX) {
			place_reason(p->plan, "nvswitch.missing", fn->bdf, "all NVSwitches free, each in a group of its own",
				     "it cannot go along, and without it the guest's GPUs have no NVLink");
			p->refused = true;
			return;
		}
		add_extra(p->plan, fn, true);
	}
}

static int by_bdf(const void *a, const void *b)
{
	return bdf_cmp(((const struct plan_extra *)a)->bdf, ((const struct plan_extra *)b)->bdf);
}

void place_take_extras(struct place *p)
{
	take_drives(p);
	take_switches(p);
	if (p->plan->nextras)
		qsort(p->plan->extra, p->plan->nextras, sizeof(p->plan->extra[0]), by_bdf);
}
