/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which GPUs and VFs can be given at all. Everyone left out gets a reason with the rule's name. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "plan/place.h"

const char *place_owner(const struct place *p, struct bdf bdf)
{
	for (size_t i = 0; i < p->in->ntaken; i++)
		if (bdf_eq(p->in->taken[i].bdf, bdf))
			return p->in->taken[i].owner;
	return NULL;
}

const struct host_function *place_group_stranger(const struct place *p, const struct host_function *fn)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	for (size_t i = 0; i < inv->nfn; i++) {
		const struct host_function *o = &inv->fn[i];

		if (o->iommu_group == fn->iommu_group && o != fn && !host_kind_is_bridge(o->facts->kind) &&
		    (fn->facts->is_vf || o->facts->is_vf || !bdf_same_device(o->bdf, fn->bdf)))
			return o;
	}
	return NULL;
}

/* True: a reason was given. */
static bool dead(struct place *p, const struct host_function *fn)
{
	const struct pcicap *c = &fn->facts->cap;

	if (!c->dead && !c->bad_header)
		return false;
	place_reason(p->plan, "device.dead", fn->bdf, "a device that answers; reset or power-cycle it", "its %s reads as %02x",
		     c->dead ? "config space" : "header type", c->dead ? 0xff : c->header);
	return true;
}

/* The rules that a GPU and a VF share. False: a reason was given. */
static bool usable(struct place *p, const struct host_function *fn, const char *what)
{
	const struct plan_request *req = p->in->request;
	const struct host_function *stranger;
	const char *owner = place_owner(p, fn->bdf);
	char text[BDF_TEXT_MAX];

	if (bdf_in(req->exclude, req->nexclude, fn->bdf)) {
		place_reason(p->plan, "device.excluded", fn->bdf, "a device that is not excluded", "the request excludes it");
	} else if (owner) {
		place_reason(p->plan, "device.taken", fn->bdf, "a free device", "%s is held by %s", what, owner);
	} else if (dead(p, fn)) {
		return false;
	} else if (fn->iommu_group < 0) {
		place_reason(p->plan, "device.no-group", fn->bdf, "an IOMMU group", "it is in no IOMMU group");
	} else if ((stranger = place_group_stranger(p, fn))) {
		place_reason(p->plan, "group.shared", fn->bdf, "a group of its own (ACS on every port above it)",
			     "IOMMU group %d also has %s (%s), which would have to go along", fn->iommu_group,
			     bdf_text(text, stranger->bdf), host_kind_text(stranger->facts->kind));
	} else if (!host_driver_of(topo_inventory(p->in->topo), fn)) {
		place_reason(p->plan, "device.driver-unknown", fn->bdf, "a readable uevent or driver link, to give the driver back later",
			     "its driver is unknown");
	} else {
		return true;
	}
	return false;
}

static bool on_node(struct place *p, const struct host_function *fn)
{
	int64_t want = p->in->request->numa_node;

	/* one node only: firmware without SRAT says -1, and there is no other */
	if (want < 0 || fn->facts->numa_node == want || (fn->facts->numa_node < 0 && topo_inventory(p->in->topo)->nnodes == 1))
		return true;
	if (fn->facts->numa_node < 0)
		place_reason(p->plan, "numa.node", fn->bdf, "the node that the request names", "its NUMA node is unknown");
	else
		place_reason(p->plan, "numa.node", fn->bdf, "the node that the request names", "it is on NUMA node %d",
			     fn->facts->numa_node);
	return false;
}

/* Its driver takes its VFs away when it goes, whoever holds them (pci_disable_sriov()). */
static bool gpu_usable(struct place *p, const struct host_function *fn)
{
	if (!usable(p, fn, "it"))
		return false;
	if (fn->facts->numvfs_known && fn->facts->numvfs) {
		place_reason(p->plan, "gpu.has-vfs", fn->bdf, "a GPU without VFs (0 in its sriov_numvfs)",
			     "%u of its VFs %s on", fn->facts->numvfs, fn->facts->numvfs == 1 ? "is" : "are");
		return false;
	}
	return true;
}

static int add_gpus(struct place *p, struct error *err)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	for (uint32_t i = 0; i < inv->nfn; i++) {
		const struct host_function *fn = &inv->fn[i];

		if (fn->facts->kind != HOST_GPU || !on_node(p, fn) || !gpu_usable(p, fn))
			continue;
		if (fn->facts->numa_node < 0 && inv->nnodes > 1) {
			place_reason(p->plan, "numa.unknown", fn->bdf,
				     "a NUMA node (firmware: SRAT/_PXM; or write it to its numa_node)",
				     "its NUMA node is unknown on a host with %zu nodes", inv->nnodes);
			continue;
		}
		if (p->ngpus == PLACE_GPUS_MAX)
			return error_set(err, -E2BIG, "more than %d free GPUs; narrow the request with numa_node or exclude",
					 PLACE_GPUS_MAX);
		p->gpu[p->ngpus++] = (struct place_gpu){ .node = i, .nearest = TOPO_UNKNOWN };
	}
	return 0;
}

/* VFs that are there: free, alone in their group. */
static void existing_vfs(struct place *p, struct place_nic *nic, const struct host_function *pf)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	for (size_t i = 0; i < inv->nfn && nic->nvfs < PLAN_VFS_MAX; i++) {
		const struct host_function *vf = &inv->fn[i];

		if (!vf->facts->is_vf || !bdf_eq(vf->facts->pf, pf->bdf) || !usable(p, vf, "VF"))
			continue;
		nic->vf[nic->nvfs] = vf->bdf;
		nic->index[nic->nvfs++] = vf->vf_index;
	}
}

/* VFs that a vf-count step would make: at PF + offset + n * stride (PCIe 9.2.1.2). */
static void future_vfs(struct place *p, struct place_nic *nic, const struct host_function *pf)
{
	const struct plan_request *req = p->in->request;

	nic->make = pf->facts->cap.sriov.total < p->in->policy.vfs_per_pf ? pf->facts->cap.sriov.total : p->in->policy.vfs_per_pf;
	for (uint16_t n = 0; n < nic->make && nic->nvfs < PLAN_VFS_MAX; n++) {
		uint32_t off = pf->facts->cap.sriov.offset + (uint32_t)n * pf->facts->cap.sriov.stride;
		struct bdf at;

		if (!bdf_add(&at, pf->bdf, off) || place_owner(p, at) || bdf_in(req->exclude, req->nexclude, at))
			continue;
		nic->vf[nic->nvfs] = at;
		nic->index[nic->nvfs++] = n;
	}
}

static bool nic_usable(struct place *p, const struct host_function *fn)
{
	const char *driver = host_driver_of(topo_inventory(p->in->topo), fn);

	if (dead(p, fn))
		return false;
	if (fn->facts->cap.sriov.known != HOST_PRESENT || fn->facts->cap.sriov.total == 0)
		place_reason(p->plan, "nic.no-sriov", fn->bdf,
			     "SR-IOV on (NVIDIA: mlxconfig -d DEV set SRIOV_EN=1 NUM_OF_VFS=8, then a cold boot)",
			     "it can have no VFs (SR-IOV %s)",
			     fn->facts->cap.sriov.known == HOST_UNKNOWN ? "unknown" : "off in its firmware or absent");
	else if (!fn->facts->numvfs_known)
		place_reason(p->plan, "nic.vfs-unknown", fn->bdf, "a readable sriov_numvfs", "its VF count cannot be read");
	else if (!driver && !fn->facts->numvfs)
		place_reason(p->plan, "nic.driver-unknown", fn->bdf, "a readable uevent or driver link",
			     "its driver is unknown, and so whether it can make VFs");
	else if (driver && !*driver && !fn->facts->numvfs)
		place_reason(p->plan, "nic.no-driver", fn->bdf, "the NIC's own driver", "no driver that could make VFs");
	else
		return true;
	return false;
}

static int add_nics(struct place *p, struct error *err)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	for (uint32_t i = 0; i < inv->nfn; i++) {
		const struct host_function *fn = &inv->fn[i];
		struct place_nic *nic = &p->nic[p->nnics];

		if (fn->facts->kind != HOST_NIC || (!p->in->request->gpus && !on_node(p, fn)) || !nic_usable(p, fn))
			continue;
		if (p->nnics == PLACE_NICS_MAX)
			return error_set(err, -E2BIG, "more than %d NIC ports", PLACE_NICS_MAX);
		*nic = (struct place_nic){ .node = i, .exists = fn->facts->numvfs > 0 };
		if (nic->exists)
			existing_vfs(p, nic, fn);
		else
			future_vfs(p, nic, fn);
		if (nic->nvfs)
			p->nnics++;
		else
			place_reason(p->plan, "nic.no-free-vf", fn->bdf, "a free VF", "none of its %u VFs can be given",
				     nic->exists ? fn->facts->numvfs : nic->make);
	}
	return 0;
}

/* Names in require that nobody has, or that are neither GPU nor VF. */
static void check_required(struct place *p)
{
	const struct plan_request *req = p->in->request;

	for (size_t i = 0; i < req->nrequire; i++) {
		uint32_t at = topo_find(p->in->topo, req->require[i]);
		enum host_kind k = at == TOPO_NONE ? HOST_OTHER : topo_at(p->in->topo, at)->fn->facts->kind;
		bool future = false;

		for (uint32_t n = 0; n < p->nnics; n++)
			for (uint16_t v = 0; v < p->nic[n].nvfs; v++)
				future = future || bdf_eq(p->nic[n].vf[v], req->require[i]);
		if (at == TOPO_NONE && !future)
			place_reason(p->plan, "device.unknown", req->require[i], "a function of this host (velactl topo --all)",
				     "there is no such function");
		else if (at != TOPO_NONE && k != HOST_GPU && k != HOST_VF)
			place_reason(p->plan, "device.kind", req->require[i], "a GPU or a VF", "it is a %s", host_kind_text(k));
	}
}

int place_candidates(struct place *p, struct error *err)
{
	const struct plan_request *req = p->in->request;
	int r = 0;

	/* what nobody asked for needs no reasons */
	if (req->gpus || req->nrequire)
		r = add_gpus(p, err);
	if (r == 0 && (req->vfs || req->vfs_per_gpu || req->nrequire))
		r = add_nics(p, err);
	if (r < 0)
		return r;
	check_required(p);
	for (uint32_t g = 0; g < p->ngpus; g++) {
		for (uint32_t n = 0; n < p->nnics; n++)
			p->path[g][n] = (uint8_t)topo_path(p->in->topo, p->gpu[g].node, p->nic[n].node);
		for (uint32_t h = 0; h < p->ngpus; h++)
			p->gpu_path[g][h] = (uint8_t)topo_path(p->in->topo, p->gpu[g].node, p->gpu[h].node);
	}
	r = place_gdr(p, err);
	for (uint32_t g = 0; g < p->ngpus; g++)
		for (uint32_t n = 0; n < p->nnics; n++)
			if (p->path[g][n] < p->gpu[g].nearest)
				p->gpu[g].nearest = (enum topo_class)p->path[g][n];
	return r;
}
