/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which GPUs and VFs can be given at all. Everyone left out gets a reason with the rule's name. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "plan/place.h"

/* A GPU comes with its audio; VFs of one device are each by itself. */
static bool is_freed(const struct place *p, struct bdf bdf)
{
	uint32_t at = p->in->freed ? topo_find(p->in->topo, *p->in->freed) : TOPO_NONE;

	return p->in->freed && (bdf_eq(*p->in->freed, bdf) ||
				(at != TOPO_NONE && topo_at(p->in->topo, at)->fn->facts->kind == HOST_GPU && bdf_same_device(*p->in->freed, bdf)));
}

bool place_gone(const struct place *p, const char *owner)
{
	return p->in->freed_owner && strcmp(p->in->freed_owner, owner) == 0;
}

const char *place_owner(const struct place *p, struct bdf bdf)
{
	for (size_t i = 0; i < p->in->ntaken; i++)
		if (bdf_eq(p->in->taken[i].bdf, bdf) && !place_gone(p, p->in->taken[i].owner))
			return is_freed(p, bdf) ? NULL : p->in->taken[i].owner;
	return NULL;
}

/* NULL: it is not quarantined. */
static const struct plan_sick *sick_bdf(const struct place *p, struct bdf bdf)
{
	for (size_t i = 0; i < p->in->nsick; i++)
		if (bdf_eq(p->in->sick[i].bdf, bdf) && !is_freed(p, bdf))
			return &p->in->sick[i];
	return NULL;
}

/* A port above it. */
static const struct plan_sick *sick_above(const struct place *p, struct bdf bdf)
{
	uint32_t at = p->in->nsick ? topo_find(p->in->topo, bdf) : TOPO_NONE;
	const struct plan_sick *sick = NULL;

	for (uint32_t up = at == TOPO_NONE ? at : topo_at(p->in->topo, at)->parent; up != TOPO_NONE && !sick; up = topo_at(p->in->topo, up)->parent)
		sick = sick_bdf(p, topo_at(p->in->topo, up)->fn->bdf);
	return sick;
}

/* It, a port above it, or another function of its device that would go along with it. */
static const struct plan_sick *sick_of(const struct place *p, const struct host_function *fn)
{
	const struct plan_sick *above = sick_above(p, fn->bdf);

	if (above)
		return above;
	for (size_t i = 0; i < p->in->nsick && !fn->facts->is_vf && fn->iommu_group >= 0; i++) {
		const struct host_function *o = host_function_find(topo_inventory(p->in->topo), p->in->sick[i].bdf);

		if (o && !o->facts->is_vf && bdf_same_device(o->bdf, fn->bdf) && o->iommu_group == fn->iommu_group && !is_freed(p, o->bdf))
			return &p->in->sick[i];
	}
	return sick_bdf(p, fn->bdf);
}

/* Audio, USB and the like of a GPU go along with it; a disk or a network port of the same device is somebody's. */
static bool goes_along(const struct host_function *o)
{
	unsigned base = o->facts->class >> 16; /* 01 storage, 02 network: PCI Code and ID Assignment 1.1, 1.2 and 1.3 */

	return o->facts->kind != HOST_NIC && o->facts->kind != HOST_NVME && base != 0x01 && base != 0x02;
}

const struct host_function *plan_group_stranger(const struct topo *t, const struct host_function *fn)
{
	uint32_t at = (uint32_t)(fn - topo_inventory(t)->fn);

	for (uint32_t i = topo_at(t, at)->group_first; i != TOPO_NONE; i = topo_at(t, i)->group_next) {
		const struct host_function *o = topo_at(t, i)->fn;

		if (o != fn && !host_kind_is_bridge(o->facts->kind) &&
		    (fn->facts->is_vf || o->facts->is_vf || fn->facts->kind != HOST_GPU || !bdf_same_device(o->bdf, fn->bdf) || !goes_along(o)))
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

static bool excluded(struct place *p, const struct host_function *fn)
{
	const struct plan_request *req = p->in->request;

	if (!bdf_in(req->exclude, req->nexclude, fn->bdf))
		return false;
	place_reason(p->plan, "device.excluded", fn->bdf, "a device that is not excluded", "the request excludes it");
	return true;
}

static bool quarantined(struct place *p, const struct host_function *fn)
{
	const struct plan_sick *sick = sick_of(p, fn);

	if (sick)
		place_reason(p->plan, "device.quarantined", fn->bdf, "it looked at and out of quarantine, or another device",
			     "it is quarantined: %s", sick->reason);
	return sick != NULL;
}

/* False: a reason was given. */
static bool available(struct place *p, const struct host_function *fn, const char *what)
{
	const char *owner = place_owner(p, fn->bdf);

	if (quarantined(p, fn))
		return false;
	if (owner)
		place_reason(p->plan, "device.taken", fn->bdf, "a free device", "%s is held by %s", what, owner);
	return !owner;
}

static bool usable(struct place *p, const struct host_function *fn);

bool place_usable(struct place *p, const struct host_function *fn)
{
	return available(p, fn, "it") && usable(p, fn);
}

/* The rules that GPUs, VFs and drives share, whatever the request is and whoever has them. False: a reason was given. */
static bool usable(struct place *p, const struct host_function *fn)
{
	const struct host_function *stranger = plan_group_stranger(p->in->topo, fn);
	const char *driver = stranger ? host_driver_of(topo_inventory(p->in->topo), stranger) : NULL;
	char text[BDF_TEXT_MAX];

	if (dead(p, fn)) {
		return false;
	} else if (fn->iommu_group < 0) {
		place_reason(p->plan, "device.no-group", fn->bdf, "an IOMMU group", "it is in no IOMMU group");
	} else if (stranger) {
		place_reason(p->plan, "group.shared", fn->bdf, "a group of its own (ACS on every port above it)",
			     "IOMMU group %d also has %s (%s, %s%s), which would have to go along", fn->iommu_group,
			     bdf_text(text, stranger->bdf), host_kind_text(stranger->facts->kind),
			     driver && *driver ? "held by " : driver ? "without a driver" : "its driver unknown", driver ? driver : "");
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

bool place_degraded(struct place *p, const struct host_function *fn, uint32_t at)
{
	unsigned percent = place_link_percent(p->in->topo, at);

	if (percent >= p->in->policy.link_percent)
		return false;
	place_reason(p->plan, "link.degraded", fn->bdf,
		     arena_printf(&p->plan->arena, "%u %% ([plan] link_percent), or another device", p->in->policy.link_percent),
		     "its link carries %u %% of what both of its ends can do", percent);
	return true;
}

/* Its driver takes its VFs away when it goes, whoever holds them (pci_disable_sriov()). */
static bool gpu_sound(struct place *p, const struct host_function *fn, uint32_t at)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	if (!usable(p, fn))
		return false;
	if (fn->facts->numvfs_known && fn->facts->numvfs)
		place_reason(p->plan, "gpu.has-vfs", fn->bdf, "a GPU without VFs (0 in its sriov_numvfs)",
			     "%u of its VFs %s on", fn->facts->numvfs, fn->facts->numvfs == 1 ? "is" : "are");
	else if (fn->facts->numa_node < 0 && inv->nnodes > 1)
		place_reason(p->plan, "numa.unknown", fn->bdf, "a NUMA node (firmware: SRAT/_PXM; or write it to its numa_node)",
			     "its NUMA node is unknown on a host with %zu nodes", inv->nnodes);
	else
		return !place_degraded(p, fn, at);
	return false;
}

/* Whoever has it, or has it in quarantine, is noted where that alone stands against it. */
static bool gpu_usable(struct place *p, struct place_gpu *gpu, const struct host_function *fn)
{
	bool free = available(p, fn, "it");
	size_t said = p->plan->nreasons;
	bool sound = gpu_sound(p, fn, gpu->node);
	const struct plan_sick *sick = sick_of(p, fn);
	const char *owner = place_owner(p, fn->bdf);

	if (!free) /* one reason is enough */
		p->plan->nreasons = said;
	gpu->owner = sound && !sick ? owner : NULL;
	gpu->sick = sound && !owner ? sick : NULL;
	return free && sound;
}

static bool of_model(struct place *p, const struct host_function *fn)
{
	const struct plan_request *req = p->in->request;
	bool any = !req->nmodels;

	for (size_t i = 0; i < req->nmodels && !any; i++)
		any = plan_model_is(&p->in->policy, &req->model[i], fn->facts->vendor, fn->facts->device);
	if (!any)
		place_reason(p->plan, "gpu.model", fn->bdf, "a GPU of a model that the request names", "it is a %04x:%04x",
			     fn->facts->vendor, fn->facts->device);
	return any;
}

static int add_gpus(struct place *p, struct error *err)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	const struct plan_request *req = p->in->request;

	for (uint32_t i = 0; i < inv->nfn; i++) {
		const struct host_function *fn = &inv->fn[i];
		uint64_t bit = UINT64_C(1) << (p->ngpus % PLACE_GPUS_MAX);
		bool mine, good;
		size_t said;

		if (fn->facts->kind != HOST_GPU)
			continue;
		if (p->ngpus == PLACE_GPUS_MAX)
			return error_set(err, -E2BIG, "more than %d GPUs", PLACE_GPUS_MAX);
		p->gpu[p->ngpus++] = (struct place_gpu){ .node = i, .nearest = TOPO_UNKNOWN };
		mine = on_node(p, fn) && !excluded(p, fn) && of_model(p, fn);
		p->mine |= mine ? bit : 0;
		said = p->plan->nreasons;
		good = gpu_usable(p, &p->gpu[p->ngpus - 1], fn);
		if (!mine) /* one reason is enough */
			p->plan->nreasons = said;
		if (!good)
			continue;
		p->usable |= bit;
		p->allowed |= mine ? bit : 0;
		if (bdf_in(req->require, req->nrequire, fn->bdf)) {
			p->required |= bit;
			p->nrequired++;
		}
	}
	return 0;
}

/* Required ones go first. */
static void add_vf(struct place *p, struct place_nic *nic, struct bdf vf, uint16_t index)
{
	const struct plan_request *req = p->in->request;
	uint16_t at = nic->nvfs;

	if (bdf_in(req->require, req->nrequire, vf)) {
		for (; at > nic->required; at--) {
			nic->vf[at] = nic->vf[at - 1];
			nic->index[at] = nic->index[at - 1];
		}
		nic->required++;
		p->nrequired++;
	}
	nic->vf[at] = vf;
	nic->index[at] = index;
	nic->nvfs++;
}

/* VFs that are there: free, alone in their group. */
static void existing_vfs(struct place *p, struct place_nic *nic, const struct host_function *pf)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	for (size_t i = 0; i < inv->nfn && nic->nvfs < PLAN_VFS_MAX; i++) {
		const struct host_function *vf = &inv->fn[i];

		if (!vf->facts->is_vf || !bdf_eq(vf->facts->pf, pf->bdf))
			continue;
		nic->taken += place_owner(p, vf->bdf) != NULL;
		if (!excluded(p, vf) && available(p, vf, "VF") && usable(p, vf))
			add_vf(p, nic, vf->bdf, vf->vf_index);
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

		if (!bdf_add(&at, pf->bdf, off))
			continue;
		nic->taken += place_owner(p, at) != NULL;
		if (!place_owner(p, at) && !bdf_in(req->exclude, req->nexclude, at) && !sick_bdf(p, at))
			add_vf(p, nic, at, n);
	}
}

/* No cable, or the switch is off. An interface that is down does not say. */
static bool no_carrier(const struct inventory *inv, struct bdf bdf)
{
	for (size_t i = 0; i < inv->system.nnics; i++) {
		const struct host_nic *nic = &inv->system.nic[i];
		bool none = nic->nnetdevs > 0;

		for (size_t k = 0; k < nic->nnetdevs; k++)
			none = none && nic->netdev[k].carrier == 0;
		if (bdf_eq(nic->bdf, bdf))
			return none;
	}
	return false;
}

/* A VF's frames are at most what its port takes. True: a reason was given. */
static bool small_mtu(struct place *p, const struct host_function *fn)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	uint64_t want = p->in->request->mtu, least = UINT64_MAX;

	if (!want)
		return false;
	for (size_t i = 0; i < inv->system.nnics; i++)
		for (size_t k = 0; bdf_eq(inv->system.nic[i].bdf, fn->bdf) && k < inv->system.nic[i].nnetdevs; k++)
			least = inv->system.nic[i].netdev[k].mtu < least ? inv->system.nic[i].netdev[k].mtu : least;
	if (least != UINT64_MAX && least >= want)
		return false;
	if (least == UINT64_MAX || !least)
		place_reason(p->plan, "nic.mtu", fn->bdf, "a port with a network interface, whose MTU can be read", "its MTU is unknown");
	else
		place_reason(p->plan, "nic.mtu", fn->bdf, arena_printf(&p->plan->arena, "%" PRIu64 " (ip link set DEV mtu %" PRIu64 ")", want, want),
			     "its MTU is %" PRIu64, least);
	return true;
}

/* By its hardware address of 20 bytes, or its RDMA port. */
bool place_is_infiniband(const struct inventory *inv, struct bdf pf)
{
	const struct host_nic *nic = NULL;
	bool is = false;

	for (size_t i = 0; i < inv->system.nnics; i++)
		if (bdf_eq(inv->system.nic[i].bdf, pf))
			nic = &inv->system.nic[i];
	for (size_t i = 0; nic && i < nic->nnetdevs; i++)
		is |= strlen(nic->netdev[i].mac) == 59;
	for (size_t i = 0; nic && i < nic->nrdma; i++)
		for (size_t k = 0; k < nic->rdma[i].nports; k++)
			is |= strcmp(nic->rdma[i].port[k].link_layer, "InfiniBand") == 0;
	return is;
}

/* What every VF is to have, and none of this port can. True: a reason was given. */
static bool other_link(struct place *p, const struct host_function *fn)
{
	const struct plan_request *r = p->in->request;
	uint32_t all = UINT32_MAX;
	char names[PLAN_VF_TEXT_MAX];

	for (size_t i = 0; i < r->nvf_sets; i++)
		all &= r->vf[i].has;
	all &= ~(PLAN_VF_GUIDS | PLAN_VF_BIT(PLAN_VF_LINK_STATE));
	if (!r->nvf_sets || !all || !place_is_infiniband(topo_inventory(p->in->topo), fn->bdf))
		return false;
	place_reason(p->plan, "nic.infiniband", fn->bdf, "an Ethernet port, or a request without it",
		     "its port is InfiniBand's, whose VFs have no %s", plan_vf_names(names, all));
	return true;
}

static bool nic_usable(struct place *p, const struct host_function *fn, uint32_t at)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	const char *driver = host_driver_of(inv, fn);

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
	else if (no_carrier(inv, fn->bdf))
		place_reason(p->plan, "nic.no-link", fn->bdf, "a link to its switch (cable, transceiver, the switch's port)",
			     "its port is up, but has no link");
	else
		return !small_mtu(p, fn) && !other_link(p, fn) && !place_degraded(p, fn, at);
	return false;
}

/* What it could give, it does not. */
static void set_aside(struct place *p, struct place_nic *nic)
{
	nic->aside = nic->nvfs;
	p->nrequired -= nic->required;
	nic->nvfs = nic->required = 0;
}

static int add_nics(struct place *p, struct error *err)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	for (uint32_t i = 0; i < inv->nfn; i++) {
		const struct host_function *fn = &inv->fn[i];
		struct place_nic *nic = &p->nic[p->nnics];
		bool sick;

		if (fn->facts->kind != HOST_NIC || (!p->gpus && !on_node(p, fn)) || !nic_usable(p, fn, i))
			continue;
		if (p->nnics == PLACE_NICS_MAX)
			return error_set(err, -E2BIG, "more than %d NIC ports", PLACE_NICS_MAX);
		*nic = (struct place_nic){ .node = i, .exists = fn->facts->numvfs > 0 };
		if (nic->exists)
			existing_vfs(p, nic, fn);
		else
			future_vfs(p, nic, fn);
		p->nnics++;
		sick = quarantined(p, fn);
		nic->sick = sick ? sick_of(p, fn) : NULL;
		if (sick)
			set_aside(p, nic);
		else if (!nic->exists && !p->in->policy.vfs_per_pf)
			place_reason(p->plan, "nic.no-vfs", fn->bdf, "VFs from [pool] vfs; or vfs_on_demand = yes there", "it has no VFs");
		else if (!nic->nvfs)
			place_reason(p->plan, "nic.no-free-vf", fn->bdf, "a free VF", "none of its %u VFs can be given",
				     nic->exists ? fn->facts->numvfs : nic->make);
	}
	return 0;
}

/* A node that is not there; names in require that nobody has, or that are neither GPU nor VF. */
static void check_required(struct place *p)
{
	const struct plan_request *req = p->in->request;

	if (req->numa_node >= 0 && !host_node_find(topo_inventory(p->in->topo), (int)req->numa_node))
		place_reason(p->plan, "numa.node-missing", BDF_NONE, "a node of this host (velactl host), or no numa_node", "there is no NUMA node %d",
			     (int)req->numa_node);

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
		else if (at != TOPO_NONE && k != HOST_GPU && k != HOST_VF && (k != HOST_NVME || !req->nvme))
			place_reason(p->plan, "device.kind", req->require[i],
				     k == HOST_NVSWITCH ? "an exclusive guest and FABRIC_MODE 0: then NVSwitches go along" : "a GPU, a VF, or with nvme a drive",
				     "it is a %s", host_kind_text(k));
	}
}

static void say_unknown_models(struct place *p)
{
	const struct plan_request *req = p->in->request;
	const struct plan_policy *policy = &p->in->policy;
	struct sbuf names = { 0 };

	for (size_t i = 0; i < policy->nnamed_models; i++)
		sbuf_addf(&names, "%s%s", i ? ", " : "", policy->named_model[i].name);
	for (size_t i = 0; i < req->nmodels; i++)
		if (!plan_model_known(policy, &req->model[i]))
			place_reason(p->plan, "model.unknown", BDF_NONE,
				     arena_printf(&p->plan->arena, "vendor:device, or a name of [models]: %s", names.text ? names.text : "there is none"),
				     "no model is called \"%s\"", req->model[i].name);
	sbuf_done(&names);
}

/* Everything is looked at, because leftovers count too; but what nobody asked for needs no reasons. */
int place_candidates(struct place *p, struct error *err)
{
	const struct plan_request *req = p->in->request;
	size_t before = p->plan->nreasons;
	int r;

	say_unknown_models(p);
	r = add_gpus(p, err);

	if (!p->gpus && !req->nrequire)
		p->plan->nreasons = before;
	before = p->plan->nreasons;
	if (r == 0)
		r = add_nics(p, err);
	if (!req->vfs && !req->vfs_per_gpu && !req->nrequire)
		p->plan->nreasons = before;
	if (r < 0)
		return r;
	place_drives(p);
	check_required(p);
	for (uint32_t g = 0; g < p->ngpus; g++)
		for (uint32_t n = 0; n < p->nnics; n++)
			p->path[g][n] = (uint8_t)topo_path(p->in->topo, p->gpu[g].node, p->nic[n].node);
	r = place_gdr(p, err);
	for (uint32_t g = 0; g < p->ngpus; g++)
		for (uint32_t n = 0; n < p->nnics; n++)
			if (p->nic[n].nvfs && p->path[g][n] < p->gpu[g].nearest)
				p->gpu[g].nearest = (enum topo_class)p->path[g][n];
	return r;
}
