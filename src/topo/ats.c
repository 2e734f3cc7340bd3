/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "topo/ats.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <string.h>

#include "host/inventory.h"
#include "topo/route.h"

#define MELLANOX 0x15b3

struct work {
	struct topo_ats        *ret;
	const struct inventory *inv;
	const struct host_facts *pf; /* whose capability counts, and whose STU is its VFs' (10.5.1.4) */
	const char             *name; /* of that */
	bool                    vf;
	struct arena           *arena;
};

static int say(struct work *w, enum topo_ats_state state, const char *rule, const char *observed, const char *needed,
	       const char *fix)
{
	*w->ret = (struct topo_ats){ state, rule, observed, needed, fix };
	return observed && needed && fix ? 1 : -ENOMEM;
}

/* The rules return 1 once there is an answer, 0 to go on. */

/* A ConnectX whose firmware has ATS_ENABLED=False shows no capability at all. */
static int judge_capability(struct work *w)
{
	const struct host_facts *pf = w->pf;

	if (pf->cap.ats.known == HOST_PRESENT)
		return 0;
	if (pf->cap.ats.known == HOST_UNKNOWN)
		return say(w, TOPO_ATS_UNKNOWN, "ats.unread", arena_printf(w->arena, "whether %s has ATS cannot be read", w->name),
			   "its whole config space", "read the host as root");
	if (pf->cap.pcie == HOST_ABSENT)
		return say(w, TOPO_ATS_NO, "ats.absent",
			   arena_printf(w->arena, "%s is a conventional PCI device, which has no ATS", w->name),
			   "a PCIe NIC that has ATS", "use another NIC");
	if (pf->vendor == MELLANOX)
		return say(w, TOPO_ATS_NO, "ats.absent",
			   arena_printf(w->arena, "%s has no ATS capability: it is off in its firmware", w->name), "ATS_ENABLED",
			   arena_printf(w->arena, "mlxconfig -d %s set ATS_ENABLED=true, then reboot the host", w->name));
	return say(w, TOPO_ATS_NO, "ats.absent", arena_printf(w->arena, "%s has no ATS capability", w->name), "a NIC that has ATS",
		   "switch ATS on in its firmware or by its vendor's tool; without it there is no direct path in a guest");
}

/* pci_ats_init() and pci_std_enable_acs() look at pci_ats_disabled() (drivers/pci/ats.c, pci.c). */
static int judge_kernel(struct work *w)
{
	if (w->inv->system.boot.no_ats)
		return say(w, TOPO_ATS_NO, "ats.noats",
			   "the kernel was booted with pci=noats: it uses no ATS, and sets Translation Blocking at every port",
			   "a kernel that uses ATS", "take noats out of pci= of the kernel's command line, then reboot the host");
	if (w->inv->iommu == HOST_ABSENT)
		return say(w, TOPO_ATS_NO, "ats.iommu-off", "the IOMMU is off, so there is nobody to translate", "an IOMMU",
			   "switch VT-d or AMD-Vi on in the firmware's setup, boot with intel_iommu=on on Intel");
	if (w->inv->iommu == HOST_UNKNOWN || !*w->inv->cmdline)
		return say(w, TOPO_ATS_UNKNOWN, "ats.unread", w->inv->iommu == HOST_UNKNOWN ?
			   "whether the IOMMU is on is not known" : "the kernel's command line, which may have pci=noats, is not known",
			   "to know it", "read the host itself, or a whole dump of it");
	return 0;
}

static bool translates(const struct host_facts *pf)
{
	return pf->dma_domain && strncmp(pf->dma_domain, "DMA", 3) == 0;
}

/* A VF's ATS works only if the kernel has set the PF's STU before (pci_enable_ats(), drivers/pci/ats.c). Until 6.12 it
 * did so only when it enabled the PF's own ATS, which it does not where the PF's DMA is not translated (6c17c7d5936e,
 * "iommu: Allow ATS to work on VFs when the PF uses IDENTITY"). STU of 4 KiB is 0, as after a reset: Enable tells. */
static int judge_stu(struct work *w)
{
	const struct host_facts *pf = w->pf;
	int pt = w->inv->system.boot.passthrough;
	bool enabled = pf->cap.ats.ctl & PCI_ATS_CTRL_ENABLE, identity = pf->dma_domain ? !translates(pf) : pt == 1;
	enum host_known fixed = host_kernel_since(w->inv->kernel, 6, 12);
	const char *kernel = *w->inv->kernel ? w->inv->kernel : "?", *observed;

	if (enabled || fixed == HOST_PRESENT || translates(pf) || (!pf->dma_domain && pt == 0))
		return 0;
	if (identity)
		observed = arena_printf(w->arena, "the DMA of PF %s is not translated (%s), so kernel %s %s set the STU that its VFs need",
					w->name, pf->dma_domain ? arena_printf(w->arena, "its IOMMU group is of type %s", pf->dma_domain) : "iommu=pt",
					kernel,
					fixed == HOST_ABSENT ? "does not" : "may not");
	else
		observed = arena_printf(w->arena, "whether the DMA of PF %s is translated is not known, and if not, kernel %s %s set the STU "
					"that its VFs need", w->name, kernel, fixed == HOST_ABSENT ? "does not" : "may not");
	return say(w, identity && fixed == HOST_ABSENT ? TOPO_ATS_NO : TOPO_ATS_UNKNOWN, "ats.identity", observed,
		   "kernel 6.12 or newer, or a PF whose DMA is translated",
		   "boot a kernel from 6.12 on, or this one with iommu=nopt instead of iommu=pt");
}

/* A PF whose DMA the kernel translates has its ATS enabled, where it may (iommu drivers do it at attach). */
static int judge_platform(struct work *w)
{
	if (!w->vf || !translates(w->pf) || w->pf->cap.ats.ctl & PCI_ATS_CTRL_ENABLE)
		return 0;
	return say(w, TOPO_ATS_UNKNOWN, "ats.platform",
		   arena_printf(w->arena, "the kernel translates the DMA of PF %s, and has not enabled its ATS: the firmware's tables may not "
				"allow it there (DMAR ATSR, IVRS)", w->name), "ATS control Enable+ of the PF",
		   "switch ATS on in the firmware's setup (\"ATS\", \"VT-d ATS\", \"IOMMU ATS\"), then look at the kernel's log");
}

int topo_ats(struct topo_ats *ret, const struct topo *t, uint32_t at, bool vf, struct arena *arena)
{
	static int (*const rule[])(struct work *w) = { judge_capability, judge_kernel, judge_stu, judge_platform };
	const struct host_function *fn = topo_at(t, topo_physical(t, at))->fn;
	struct work w = { .ret = ret, .inv = topo_inventory(t), .pf = fn->facts, .arena = arena,
			  .vf = vf || topo_at(t, at)->fn->facts->is_vf };
	char name[BDF_TEXT_MAX];
	int r = 0;

	w.name = bdf_text(name, fn->bdf);
	*ret = (struct topo_ats){ TOPO_ATS_OK, "", "", "", "" };
	for (size_t i = 0; i < ARRAY_SIZE(rule) && r == 0; i++)
		if (rule[i] != judge_stu || w.vf)
			r = rule[i](&w);
	return r < 0 ? r : 0;
}

enum host_known topo_ats_known(const struct topo *t, uint32_t at)
{
	static const enum host_known known[] = { [TOPO_ATS_OK] = HOST_PRESENT, [TOPO_ATS_NO] = HOST_ABSENT, [TOPO_ATS_UNKNOWN] = HOST_UNKNOWN };
	struct arena arena = { 0 };
	struct topo_ats ats;
	int r = topo_ats(&ats, t, at, topo_at(t, at)->fn->facts->kind == HOST_NIC, &arena);

	arena_done(&arena);
	return r < 0 ? HOST_UNKNOWN : known[ats.state];
}
