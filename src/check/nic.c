/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: NICs, as guests get VFs of them. */
#include <string.h>

#include "check/rule.h"

#define MELLANOX 0x15b3

/* Calls judge for each NIC port that answers. */
static void each_nic(struct check_run *run, void (*judge)(struct check_run *, const struct host_function *))
{
	for (size_t i = 0; i < run->inv->nfn; i++)
		if (run->inv->fn[i].facts->kind == HOST_NIC && pcicap_answers(&run->inv->fn[i].facts->cap))
			judge(run, &run->inv->fn[i]);
}

static void judge_sriov(struct check_run *run, const struct host_function *nic)
{
	const struct pcicap_sriov *s = &nic->facts->cap.sriov;
	struct check_finding *f;
	char name[BDF_TEXT_MAX];

	if (s->known == HOST_UNKNOWN) {
		check_unknown(run, nic->bdf, check_is_short(nic->facts) ? check_as_root : "see what is said of its config space",
			      "whether it can have VFs cannot be read");
		return;
	}
	if (s->known == HOST_PRESENT && s->total) {
		check_pass(run, "up to %u VFs", s->total);
		return;
	}
	f = check_fail(run, nic->bdf, s->known == HOST_PRESENT ? "its firmware offers 0 VFs" : "it has no SR-IOV capability");
	if (nic->facts->vendor == MELLANOX)
		check_fix(run, f, "mlxconfig -d %s set SRIOV_EN=1 NUM_OF_VFS=8, SR-IOV on in the firmware setup, then reboot the host",
			  bdf_text(name, nic->bdf));
}

static void nic_sriov(struct check_run *run)
{
	if (run->inv->virtual != HOST_PRESENT) /* a guest's NIC is a VF, or has been taken its SR-IOV */
		each_nic(run, judge_sriov);
}

static void nic_count(struct check_run *run)
{
	size_t gpus = 0, nics = 0;

	for (size_t i = 0; i < run->inv->nfn; i++) {
		gpus += run->inv->fn[i].facts->kind == HOST_GPU;
		nics += run->inv->fn[i].facts->kind == HOST_NIC;
	}
	if (!gpus)
		return;
	if (nics < gpus)
		(void)check_fail(run, BDF_NONE, "%zu NIC ports for %zu GPUs", nics, gpus);
	else
		check_pass(run, "%zu NIC ports for %zu GPUs", nics, gpus);
}

/* ---- links ---------------------------------------------------------------------------------------------- */

static const struct host_nic *nic_of(const struct check_run *run, struct bdf bdf)
{
	for (size_t i = 0; i < run->inv->system.nnics; i++)
		if (bdf_eq(run->inv->system.nic[i].bdf, bdf))
			return &run->inv->system.nic[i];
	return NULL;
}

/* "4: ACTIVE" is read as "ACTIVE" (host/net). */
static void judge_rdma(struct check_run *run, struct bdf bdf, const struct host_rdma *r)
{
	for (size_t i = 0; i < r->nports; i++) {
		const struct host_rdma_port *p = &r->port[i];

		if (!*p->state)
			check_unknown(run, bdf, "make its ports/N/state readable", "the state of %s port %u is unknown", r->name, p->number);
		else if (strcmp(p->state, "ACTIVE") != 0)
			(void)check_fail(run, bdf, "%s port %u is %s%s%s", r->name, p->number, p->state, *p->phys_state ? ", physically " : "",
					 p->phys_state);
		else
			check_pass(run, "%s port %u is ACTIVE", r->name, p->number);
	}
}

/* Only NICs near a GPU: a port that is not used is no fault. */
static void nic_port_down(struct check_run *run)
{
	for (size_t i = 0; i < run->acs->npairs; i++) {
		const struct plan_acs_pair *p = &run->acs->pair[i];
		const struct host_nic *nic = nic_of(run, p->nic);
		bool again = false;

		for (size_t k = 0; k < i; k++)
			again = again || bdf_eq(run->acs->pair[k].nic, p->nic);
		for (size_t k = 0; nic && !again && k < nic->nrdma; k++)
			judge_rdma(run, p->nic, &nic->rdma[k]);
	}
}

const struct check_rule check_nic_rules[] = {
	{ "nic.sriov-off", CHECK_WARNING, "a NIC cannot have VFs", "Guests get VFs; a NIC whose firmware has SR-IOV off has none to give.",
	  "NVIDIA MFT, mlxconfig; PCI Express Base Specification 6.0, 9.3.3", "an SR-IOV capability with VFs",
	  "switch SR-IOV on in the NIC's firmware and in the firmware setup, then reboot the host", nic_sriov },
	{ "nic.count", CHECK_WARNING, "there are fewer NIC ports than GPUs",
	  "VFs of one port share its bandwidth: with fewer ports than GPUs no GPU has a full one.", "NVIDIA/nccl-tests issue 201",
	  "as many NIC ports as GPUs", "more NICs, below the GPUs' switches; or count on a share of a port for each GPU", nic_count },
	{ "nic.port-down", CHECK_WARNING, "an RDMA port of a NIC near a GPU is not active", "A guest's VF has no link while its port is down.",
	  "InfiniBand Architecture Specification 1.4, 14.2.5.6; Linux, Documentation/ABI/stable/sysfs-class-infiniband",
	  "port state ACTIVE", "check cable, transceiver and the switch's port; on InfiniBand also that a subnet manager runs", nic_port_down },
	{ 0 },
};
