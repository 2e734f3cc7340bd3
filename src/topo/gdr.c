/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "topo/gdr.h"

bool topo_gdr_by(enum host_kind kind)
{
	return kind == HOST_NIC || kind == HOST_DATA_DIRECT;
}

/* Requests are translated where the NIC has ATS; a VF has it only if its PF has (PCIe 10.5.1). */
static void request(struct topo_route *ret, const struct topo *t, const uint16_t *ctl, uint32_t nic, uint32_t gpu,
		    enum topo_tlp_type type, enum host_known ats)
{
	struct topo_route translated;

	topo_route(ret, t, ctl, nic, gpu, (struct topo_tlp){ .type = type, .translated = ats == HOST_PRESENT });
	if (ats != HOST_UNKNOWN)
		return;
	topo_route(&translated, t, ctl, nic, gpu, (struct topo_tlp){ .type = type, .translated = true });
	if (translated.verdict == ret->verdict)
		return;
	ret->verdict = TOPO_UNDECIDED;
	ret->rule = TOPO_RULE_ATS;
	ret->decided = topo_physical(t, nic);
	ret->nports = 0;
	ret->iommu = false;
	ret->turn = TOPO_NONE;
}

enum host_known topo_gdr_ats(const struct topo *t, uint32_t nic)
{
	return topo_at(t, topo_physical(t, nic))->fn->facts->cap.ats.known;
}

void topo_gdr(struct topo_gdr *ret, const struct topo *t, const uint16_t *ctl, enum host_known ats, uint32_t nic, uint32_t gpu)
{
	static const int badness[] = { [TOPO_DIRECT] = 0, [TOPO_REDIRECTED] = 1, [TOPO_UNDECIDED] = 2, [TOPO_BLOCKED] = 3 };

	ret->ats = ats;
	ret->worst = TOPO_GDR_WRITE;
	request(&ret->part[TOPO_GDR_WRITE], t, ctl, nic, gpu, TOPO_WRITE, ret->ats);
	request(&ret->part[TOPO_GDR_READ], t, ctl, nic, gpu, TOPO_READ, ret->ats);
	topo_route(&ret->part[TOPO_GDR_ANSWER], t, ctl, gpu, nic, (struct topo_tlp){ .type = TOPO_COMPLETION, .relaxed = true });
	for (enum topo_gdr_part p = TOPO_GDR_READ; p < TOPO_GDR_PARTS; p++)
		if (badness[ret->part[p].verdict] > badness[ret->part[ret->worst].verdict])
			ret->worst = p;
}
