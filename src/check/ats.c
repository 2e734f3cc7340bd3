/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: whether requests of NICs below a switch with a GPU will be translated in a guest. topo/ats judges; each of
 * its answers is a rule here. */
#include <string.h>

#include "check/rule.h"
#include "topo/ats.h"
#include "topo/route.h"

/* The physical function of the pair's NIC, if this is the first pair with it below a common switch; else TOPO_NONE. */
static uint32_t nic_of(const struct check_run *run, size_t i)
{
	const struct plan_acs_pair *p = &run->acs->pair[i];
	uint32_t nic = topo_physical(run->t, topo_find(run->t, p->nic));

	if (p->path > TOPO_PXB || run->inv->iommu == HOST_ABSENT || run->inv->system.boot.no_ats)
		return TOPO_NONE; /* other rules' */
	for (size_t k = 0; k < i; k++)
		if (run->acs->pair[k].path <= TOPO_PXB && topo_physical(run->t, topo_find(run->t, run->acs->pair[k].nic)) == nic)
			return TOPO_NONE;
	return nic;
}

/* Answers come in this order, and what was not come to is not ok. */
static int step_of(const char *rule)
{
	static const char *const order[] = { "ats.unread", "ats.absent", "ats.identity", "ats.platform" };

	for (int i = 0; i < 4; i++)
		if (strcmp(order[i], rule) == 0)
			return i < 1 ? 1 : i;
	return *rule ? 0 : 4;
}

static void judge(struct check_run *run, uint32_t nic, const struct topo_ats *a)
{
	struct bdf bdf = topo_at(run->t, nic)->fn->bdf;
	char name[BDF_TEXT_MAX];

	if (step_of(a->rule) > step_of(run->rule->id)) {
		check_pass(run, "%s", bdf_text(name, bdf));
	} else if (strcmp(a->rule, run->rule->id) == 0 && a->state == TOPO_ATS_NO) {
		struct check_finding *f = check_fail(run, bdf, "%s", a->observed);

		check_needed(run, f, "%s", a->needed);
		check_fix(run, f, "%s", a->fix);
	} else if (strcmp(a->rule, run->rule->id) == 0 || (strcmp(a->rule, "ats.unread") == 0 && strcmp(run->rule->id, "ats.absent") == 0)) {
		check_unknown(run, bdf, strcmp(a->rule, "ats.unread") == 0 ? check_as_root : a->fix, "%s", a->observed);
	}
}

static void ats(struct check_run *run)
{
	for (size_t i = 0; i < run->acs->npairs; i++) {
		uint32_t nic = nic_of(run, i);
		struct topo_ats a;

		if (nic == TOPO_NONE)
			continue;
		if (run->acs->pair[i].state == PLAN_ACS_DIRECT && topo_at(run->t, nic)->fn->facts->cap.ats.known == HOST_ABSENT)
			continue; /* direct without it: data-direct */
		if (topo_ats(&a, run->t, nic, topo_at(run->t, nic)->fn->facts->kind == HOST_NIC, &run->report->arena) < 0)
			run->oom = true;
		else
			judge(run, nic, &a);
	}
}

const struct check_rule check_ats_rules[] = {
	{ "ats.absent", CHECK_ERROR, "a NIC below a switch with a GPU has no ATS",
	  "In a guest only translated requests go straight from NIC to GPU; the rest goes up to the IOMMU at a fraction of the bandwidth. "
	  "Where firmware has ATS off, the capability is not there at all.",
	  "NVIDIA, optimizing VM configuration for AI inference, appendix; NVIDIA/nccl issue 949", "the ATS capability, on by firmware",
	  "mlxconfig -d BDF set ATS_ENABLED=true, or another vendor's tool, then reboot the host", ats },
	{ "ats.identity", CHECK_ERROR, "the kernel sets no STU for VFs of a NIC whose own DMA is not translated",
	  "VFs use the PF's Smallest Translation Unit. Before Linux 6.12 the kernel did not set it where the PF is in an identity domain "
	  "(iommu=pt): ATS of the VF then cannot be enabled.",
	  "Linux commit 6c17c7d5936e, in 6.12", "Linux 6.12 or later, or a PF whose DMA is translated", "a kernel of 6.12 or later; or iommu=nopt",
	  ats },
	{ "ats.platform", CHECK_WARNING, "firmware may not allow ATS below a root port",
	  "The kernel enables ATS only where the firmware's tables say so: DMAR ATSR, IVRS, IORT.",
	  "Intel VT-d specification, 8.5; AMD IOMMU specification, 5.2", "ATS control Enable+ of a PF whose DMA is translated",
	  "ATS on in the firmware setup", ats },
	{ 0 },
};
