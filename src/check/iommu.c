/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: the IOMMU, its groups, and whether what they claim is so. */
#include <stdlib.h>
#include <string.h>

#include "check/rule.h"
#include "plan/plan.h"

static void iommu_off(struct check_run *run)
{
	if (run->inv->iommu == HOST_PRESENT) {
		if (run->inv->iommu_units > 0)
			check_pass(run, "it is on, with %d units", run->inv->iommu_units);
		else
			check_pass(run, "it is on");
		return;
	}
	if (run->inv->iommu == HOST_UNKNOWN)
		check_unknown(run, BDF_NONE, "make /sys/class/iommu readable", "cannot read whether there is one");
	else
		check_fix(run, check_fail(run, BDF_NONE, "the kernel has no IOMMU, and no function a group"), "%s",
			  plan_iommu_fix(run->inv));
}

static void intremap(struct check_run *run)
{
	if (run->inv->iommu != HOST_PRESENT || strcmp(run->inv->cpu_vendor, "ARM") == 0)
		return;
	if (run->inv->intremap == HOST_PRESENT)
		check_pass(run, "interrupts are remapped");
	else if (run->inv->intremap == HOST_UNKNOWN)
		check_unknown(run, BDF_NONE, "grep -m1 IO-APIC /proc/interrupts: IR-IO-APIC is remapped",
			      "whether interrupts are remapped cannot be read");
	else
		(void)check_fail(run, BDF_NONE, "interrupts are not remapped");
}

/* ---- groups --------------------------------------------------------------------------------------------- */

static void group_missing(struct check_run *run)
{
	for (size_t i = 0; run->inv->iommu == HOST_PRESENT && i < run->inv->nfn; i++) {
		const struct host_function *fn = &run->inv->fn[i];

		if (!check_is_given(fn->facts->kind))
			continue;
		if (fn->iommu_group >= 0)
			check_pass(run, "%s in a group", host_kind_text(fn->facts->kind));
		else
			(void)check_fail(run, fn->bdf, "the IOMMU is on, but this %s is in no group", host_kind_text(fn->facts->kind));
	}
}

static int by_group(const void *a, const void *b)
{
	const struct host_function *x = *(const struct host_function *const *)a, *y = *(const struct host_function *const *)b;

	return x->iommu_group != y->iommu_group ? (x->iommu_group > y->iommu_group) - (x->iommu_group < y->iommu_group)
						: bdf_cmp(x->bdf, y->bdf);
}

/* All endpoints that have a group, by group. *n 0: no memory. */
static const struct host_function **members(struct check_run *run, size_t *n)
{
	const struct host_function **m = arena_array(&run->report->arena, run->inv->nfn + 1, sizeof(*m));

	*n = 0;
	run->oom = run->oom || !m;
	for (size_t i = 0; m && i < run->inv->nfn; i++)
		if (run->inv->fn[i].iommu_group >= 0 && !host_kind_is_bridge(run->inv->fn[i].facts->kind))
			m[(*n)++] = &run->inv->fn[i];
	if (*n)
		qsort(m, *n, sizeof(*m), by_group);
	return m;
}

/* Functions of one device go together, VFs do not. */
static bool goes_along(const struct host_function *a, const struct host_function *b)
{
	return a == b || (!a->facts->is_vf && !b->facts->is_vf && bdf_same_device(a->bdf, b->bdf));
}

/* The kernel hands out a group only if a VFIO driver, or none, has each function of it; bridges do not count
 * (vfio_dev_viable(), drivers/vfio/group.c). */
static bool bars_group(const char *driver)
{
	return driver && *driver && strcmp(driver, "pci-stub") != 0 && !strstr(driver, "vfio");
}


static void judge_viable(struct check_run *run, const struct host_function *fn, const struct host_function *const *m, size_t n)
{
	char other[BDF_TEXT_MAX];

	for (size_t i = 0; i < n; i++) {
		const char *driver = host_driver_of(run->inv, m[i]);

		if (goes_along(fn, m[i]) || m[i]->facts->kind == HOST_DATA_DIRECT)
			continue;
		(void)bdf_text(other, m[i]->bdf);
		if (!driver) {
			check_unknown(run, fn->bdf, "make the driver link of that function readable",
				      "IOMMU group %d also has %s, whose driver is unknown", fn->iommu_group, other);
			return;
		}
		if (bars_group(driver)) {
			check_fix(run, check_fail(run, fn->bdf, "IOMMU group %d also has %s (%s), which driver %s has", fn->iommu_group,
						  other, host_kind_text(m[i]->facts->kind), driver),
				  "unbind %s from %s and give it to the same guest; or ACS on every port above the two, which makes groups "
				  "of their own (firmware setup: ACS, then a reboot)", other, driver);
			return;
		}
	}
	check_pass(run, "nothing in its group is held by a driver of the host");
}

/* What bars the group is the other rule's. */
static void judge_shared(struct check_run *run, const struct host_function *fn, const struct host_function *const *m, size_t n)
{
	const struct host_function *other = NULL;
	char name[BDF_TEXT_MAX];
	struct check_finding *f;

	for (size_t i = n; i-- > 0;) {
		if (goes_along(fn, m[i]))
			continue;
		if (m[i]->facts->kind != HOST_DATA_DIRECT && bars_group(host_driver_of(run->inv, m[i])))
			return;
		other = m[i];
	}
	if (!other) {
		check_pass(run, "alone in its group");
		return;
	}
	f = check_fail(run, fn->bdf, "IOMMU group %d also has %s (%s)", fn->iommu_group, bdf_text(name, other->bdf),
		       host_kind_text(other->facts->kind));
	if (other->facts->kind == HOST_DATA_DIRECT)
		check_fix(run, f, "as NVIDIA's rule for data-direct has it: both go to one guest, with the NIC that %s belongs to", name);
}

static void each_given(struct check_run *run,
		       void (*judge)(struct check_run *, const struct host_function *, const struct host_function *const *, size_t))
{
	size_t n, from = 0;
	const struct host_function **m = members(run, &n);

	for (size_t i = 1; n && i <= n; i++) {
		if (i < n && m[i]->iommu_group == m[from]->iommu_group)
			continue;
		for (size_t k = from; k < i; k++)
			if (check_is_given(m[k]->facts->kind))
				judge(run, m[k], &m[from], i - from);
		from = i;
	}
}

static void group_not_viable(struct check_run *run)
{
	each_given(run, judge_viable);
}

static void group_shared(struct check_run *run)
{
	each_given(run, judge_shared);
}

/* ---- what groups claim ---------------------------------------------------------------------------------- */

/* A switch port without ACS routes to its siblings whatever the groups say. */
static bool is_bare_dsp(const struct check_run *run, struct bdf bdf)
{
	const struct host_function *fn = host_function_find(run->inv, bdf);

	return fn && fn->facts->kind == HOST_DSP && fn->facts->cap.acs.known == HOST_ABSENT;
}

/* Findings of the topology with that id; of claims, those of bare ports are another rule's. */
static void from_topology(struct check_run *run, const char *id, bool bare)
{
	bool any = false, unread = false;

	for (size_t i = 0; i < run->inv->nfindings; i++) {
		const struct host_finding *f = &run->inv->finding[i];

		if (strcmp(f->id, id) != 0 || is_bare_dsp(run, f->bdf) != bare)
			continue;
		(void)check_fail(run, f->bdf, "%.*s", (int)check_said(f->text), f->text);
		any = true;
	}
	for (size_t i = 0; i < run->inv->nfn; i++)
		unread = unread || check_is_short(run->inv->fn[i].facts);
	if (!any && unread && run->inv->iommu == HOST_PRESENT)
		check_unknown(run, BDF_NONE, check_as_root, "ACS cannot be read, so nothing is known of what groups should be");
	else if (!any && run->inv->iommu == HOST_PRESENT)
		check_pass(run, "groups agree with the ACS bits of now");
}

static void group_claims_more(struct check_run *run)
{
	from_topology(run, "group.claims-more", false);
}

static void group_switch_flaw(struct check_run *run)
{
	from_topology(run, "group.claims-more", true);
}

static void group_coarse(struct check_run *run)
{
	from_topology(run, "group.coarse", false);
}

const struct check_rule check_iommu_rules[] = {
	{ "iommu.off", CHECK_ERROR, "the IOMMU is off",
	  "Without an IOMMU a device of a guest could write to any memory of the host; VFIO does not give it away.",
	  "Linux, Documentation/driver-api/vfio.rst", "an IOMMU that the kernel uses",
	  "VT-d or AMD-Vi on in the firmware setup; on Intel also intel_iommu=on on the kernel command line", iommu_off },
	{ "iommu.intremap", CHECK_ERROR, "interrupts are not remapped",
	  "Without it a guest's device could raise any interrupt of the host, so VFIO refuses the group.",
	  "Linux, drivers/vfio/vfio_iommu_type1.c, vfio_iommu_type1_attach_group()", "interrupt remapping",
	  "interrupt remapping (x2APIC) on in the firmware setup; no intremap=off on the kernel command line", intremap },
	{ "iommu.group-missing", CHECK_ERROR, "a GPU or VF is in no IOMMU group",
	  "VFIO gives groups to guests, so what is in none cannot be given. Some IOMMU units do not cover every root port.",
	  "Linux, Documentation/driver-api/vfio.rst", "an IOMMU group",
	  "look for the device's root port in the DMAR or IVRS messages of the kernel log; update the firmware", group_missing },
	{ 0 },
};

const struct check_rule check_group_rules[] = {
	{ "group.not-viable", CHECK_ERROR, "a driver of the host has a function in the group of a GPU or VF",
	  "VFIO refuses a group of which a host driver still has a function (\"group is not viable\").",
	  "Linux, drivers/vfio/group.c; kubevirt/kubevirt issue 4950", "only functions that go to the same guest, on vfio-pci or on no driver",
	  "unbind the other function, or ACS on every port above", group_not_viable },
	{ "group.shared", CHECK_WARNING, "a GPU or VF shares its IOMMU group",
	  "What shares a group can only go to one guest together; velad leaves such devices out.",
	  "Linux, drivers/iommu/iommu.c, REQ_ACS_FLAGS", "a group of its own",
	  "ACS on every port above, in the firmware setup; a NIC or GPU below a port that has ACS", group_shared },
	{ "group.claims-more", CHECK_ERROR, "groups claim an isolation that ACS does not give",
	  "Groups are formed once, when a function is found. Clearing ACS bits later does not join them: two guests then reach each "
	  "other's devices past the IOMMU.",
	  "Linux, drivers/iommu/iommu.c; NVIDIA/NV-Kernels pull 20", "redirects on in every port between two groups",
	  "set the redirects again by pci=config_acs= and reboot; until then give all of it to one tenant", group_claims_more },
	{ "group.switch-flaw", CHECK_ERROR, "a group stands alone below a switch port without ACS",
	  "Linux gives what is below two ports of a switch groups of their own even where these ports have no ACS: the switch routes "
	  "between them past the IOMMU.",
	  "linux-iommu, \"Fix incorrect iommu_groups with PCIe switches\", 2025-06-30", "ACS on the switch's downstream ports",
	  "switch firmware that has ACS; until then give all below this switch to one tenant", group_switch_flaw },
	{ "group.coarse", CHECK_WARNING, "a group holds together what ACS keeps apart",
	  "A group formed from other ACS bits than those of now is bigger than it has to be.",
	  "Linux, drivers/iommu/iommu.c", "groups formed from the ACS bits of now", "reboot, so that the kernel forms the groups anew",
	  group_coarse },
	{ 0 },
};
