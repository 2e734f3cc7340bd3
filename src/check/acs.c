/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: ports and NICs on the way between a GPU and the NICs near it. The pairs are those of the ACS plan. */
#include <string.h>

#include "check/rule.h"
#include "topo/route.h"

static bool below_one_switch(const struct plan_acs_pair *p)
{
	return p->path <= TOPO_PXB;
}

static const struct host_function *function_of(const struct check_run *run, struct bdf bdf)
{
	return topo_at(run->t, topo_find(run->t, bdf))->fn;
}

/* The first pair of each GPU, which is with the nearest NIC only if no NIC is below a switch with it. */
static void route_apart(struct check_run *run)
{
	for (size_t i = 0; i < run->acs->npairs; i++) {
		const struct plan_acs_pair *p = &run->acs->pair[i];
		char nic[BDF_TEXT_MAX];

		if ((i && bdf_eq(p->gpu, p[-1].gpu)) || run->inv->virtual == HOST_PRESENT)
			continue;
		if (below_one_switch(p))
			check_pass(run, "a NIC below the GPU's own switch");
		else if (p->path == TOPO_UNKNOWN)
			check_unknown(run, p->gpu, "look at velactl topo: a NUMA node or host bridge is not known",
				      "the path to its nearest NIC is unknown");
		else
			(void)check_fail(run, p->gpu, "its nearest NIC is %s, at %s: through the root complex", bdf_text(nic, p->nic),
					 topo_class_text(p->path));
	}
}

/* Why pairs below one switch cannot be direct, other than for ATS. */
static void no_dt(struct check_run *run)
{
	for (size_t i = 0; i < run->acs->npairs; i++) {
		const struct plan_acs_pair *p = &run->acs->pair[i];
		char nic[BDF_TEXT_MAX], gpu[BDF_TEXT_MAX];
		bool turned = p->rule == TOPO_RULE_RR || p->rule == TOPO_RULE_NO_P2P;

		if (!below_one_switch(p) || p->ats != HOST_PRESENT)
			continue;
		if (p->state == PLAN_ACS_IMPOSSIBLE && turned)
			(void)check_fail(run, p->port, "ACSCap 0x%02x has no Direct Translated P2P, so %s does not reach GPU %s directly",
					 function_of(run, p->port)->facts->cap.acs.cap, bdf_text(nic, p->nic), bdf_text(gpu, p->gpu));
		else if (p->state != PLAN_ACS_UNKNOWN && p->state != PLAN_ACS_BOOT)
			check_pass(run, "%s and GPU %s: %s", bdf_text(nic, p->nic), bdf_text(gpu, p->gpu), plan_acs_state_text(p->state));
	}
}

/* Whatever else stands in the way of a pair below one switch. */
static void gdr_direct(struct check_run *run)
{
	for (size_t i = 0; i < run->acs->npairs; i++) {
		const struct plan_acs_pair *p = &run->acs->pair[i];
		char gpu[BDF_TEXT_MAX];

		if (!below_one_switch(p))
			continue;
		(void)bdf_text(gpu, p->gpu);
		if (p->state == PLAN_ACS_UNKNOWN)
			check_unknown(run, p->nic, *p->fix ? p->fix : "velactl routes --explain says where it is not known",
				      "whether it reaches GPU %s directly is unknown: %s", gpu, p->why);
		else if (p->state == PLAN_ACS_BOOT || /* a data-direct function's ports are not set up */
			 (p->state == PLAN_ACS_IMPOSSIBLE && p->rule != TOPO_RULE_RR && p->rule != TOPO_RULE_NO_P2P))
			check_fix(run, check_fail(run, p->nic, "it does not reach GPU %s directly: %s", gpu, p->why), "%s",
				  *p->fix ? p->fix : run->rule->fix);
		else if (p->state != PLAN_ACS_IMPOSSIBLE && (!p->hinges || p->translated == TOPO_ATS_OK)) /* else ats.absent, acs.no-dt, ats.identity say so */
			check_pass(run, "GPU %s: %s", gpu, plan_acs_state_text(p->state));
	}
}

/* ---- ports ---------------------------------------------------------------------------------------------- */

/* Calls judge for each port above a GPU or NIC of a pair, once. */
static void each_port(struct check_run *run, void (*judge)(struct check_run *, const struct host_function *))
{
	bool *seen = arena_array(&run->report->arena, topo_count(run->t) + 1, sizeof(*seen));

	run->oom = run->oom || !seen;
	for (size_t i = 0; seen && i < run->acs->npairs * 2; i++) {
		struct bdf end = i % 2 ? run->acs->pair[i / 2].nic : run->acs->pair[i / 2].gpu;
		uint32_t at = topo_at(run->t, topo_find(run->t, end))->parent;

		for (; at != TOPO_NONE && !seen[at]; at = topo_at(run->t, at)->parent) {
			enum host_kind kind = topo_at(run->t, at)->fn->facts->kind;

			seen[at] = true;
			if (kind == HOST_DSP || kind == HOST_ROOT_PORT || check_is_short(topo_at(run->t, at)->fn->facts))
				judge(run, topo_at(run->t, at)->fn);
		}
	}
}

static bool unread(struct check_run *run, const struct host_function *port)
{
	if (port->facts->cap.acs.known != HOST_UNKNOWN)
		return false;
	check_unknown(run, port->bdf, check_is_short(port->facts) ? check_as_root : "see what is said of its config space",
		      "its ACS cannot be read");
	return true;
}

/* Then group.switch-flaw says so, which is graver. */
static bool is_claimed(const struct check_run *run, struct bdf port)
{
	for (size_t i = 0; i < run->inv->nfindings; i++)
		if (bdf_eq(run->inv->finding[i].bdf, port) && strcmp(run->inv->finding[i].id, "group.claims-more") == 0)
			return true;
	return false;
}

static void judge_missing(struct check_run *run, const struct host_function *port)
{
	if (unread(run, port) || is_claimed(run, port->bdf))
		return;
	if (port->facts->cap.acs.known == HOST_PRESENT)
		check_pass(run, "%s has ACS", host_kind_text(port->facts->kind));
	else if (port->facts->kind == HOST_DSP)
		(void)check_fail(run, port->bdf, "a switch's downstream port without ACS, above a GPU or NIC");
	else
		check_fix(run, check_fail(run, port->bdf, "a root port without ACS, above a GPU or NIC"),
			  "ACS on in the firmware setup; what shares its IOMMU group (velactl show BDF) goes to one guest together");
}

static void acs_missing(struct check_run *run)
{
	each_port(run, judge_missing);
}

static void judge_blocking(struct check_run *run, const struct host_function *port)
{
	if (unread(run, port) || port->facts->cap.acs.known == HOST_ABSENT)
		return;
	if (port->facts->cap.acs.ctl & TOPO_ACS_TB)
		(void)check_fail(run, port->bdf, "Translation Blocking is set (ACSCtl 0x%02x)", port->facts->cap.acs.ctl);
	else
		check_pass(run, "not set");
}

static void acs_tb(struct check_run *run)
{
	each_port(run, judge_blocking);
}

static void judge_egress(struct check_run *run, const struct host_function *port)
{
	if (unread(run, port) || port->facts->cap.acs.known == HOST_ABSENT)
		return;
	if (port->facts->cap.acs.ctl & TOPO_ACS_EC)
		(void)check_fail(run, port->bdf, "P2P Egress Control is set (ACSCtl 0x%02x)", port->facts->cap.acs.ctl);
	else
		check_pass(run, "not set");
}

static void acs_ec(struct check_run *run)
{
	each_port(run, judge_egress);
}

const struct check_rule check_acs_rules[] = {
	{ "acs.no-dt", CHECK_ERROR, "a switch port on the way cannot let translated requests through",
	  "A port that redirects requests lets translated ones across only by Direct Translated P2P.",
	  "PCI Express Base Specification 6.0, 6.12.1.1", "Direct Translated P2P in the port's ACS capability",
	  "switch firmware that has it, or a NIC below another port of the GPU's switch", no_dt },
	{ "gdr.direct", CHECK_ERROR, "NIC and GPU below one switch cannot reach each other directly",
	  "What goes through the root complex is slower, and on some platforms lost.", "NVIDIA/nccl issues 603, 949 and 2171",
	  "a direct route", "velactl routes --explain NIC GPU says which port stands in the way", gdr_direct },
	{ "route.apart", CHECK_WARNING, "a GPU has no NIC below its own switch",
	  "Between root ports traffic passes the root complex; those of Intel have no Direct Translated P2P at all.",
	  "kubevirt/kubevirt issue 19103; PCI Express Base Specification 6.0, 6.12", "a NIC below the GPU's own PCIe switch",
	  "move the NIC to a slot below that switch; else GPUDirect RDMA works through the root complex, slower", route_apart },
	{ "acs.missing", CHECK_ERROR, "a port above a GPU or NIC has no ACS",
	  "A port without ACS isolates nothing: what is below it and beside it can only go to one guest together.",
	  "PCI Express Base Specification 6.0, 6.12; Linux, REQ_ACS_FLAGS", "an ACS capability",
	  "switch firmware that has ACS; until then give all below this switch to one tenant", acs_missing },
	{ "acs.tb", CHECK_WARNING, "a port on the way blocks translated requests",
	  "Folklore writes 0x7f to every port, and the kernel does the like with pci=noats: that refuses the requests that are to go direct.",
	  "PCI Express Base Specification 6.0, 6.12.1.1", "Translation Blocking off",
	  "stop the script that sets it, or boot without pci=noats; velad clears it on the way of a guest's GPUs", acs_tb },
	{ "acs.ec", CHECK_WARNING, "a port on the way controls egress",
	  "What Egress Control refuses depends on a vector of each port; neither Linux nor NVIDIA's setting uses it.",
	  "PCI Express Base Specification 6.0, 6.12.1.1", "P2P Egress Control off", "stop the script or firmware setting that sets it", acs_ec },
	{ 0 },
};
