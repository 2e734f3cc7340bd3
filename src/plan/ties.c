/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the routes of one bundle tell of others: a function that another one reaches, which somebody has, can only be in a
 * bundle together with that. So the search goes on without looking at routes of bundles that nobody would want. */
#include "plan/place.h"

/* Bits of the GPU or NIC port that a function comes with; none: it is in no bundle. */
struct whose {
	uint64_t gpus, nics;
};

static bool goes_with_gpu(const struct host_function *fn, const struct host_function *gpu)
{
	return fn == gpu || (!fn->facts->is_vf && fn->facts->kind != HOST_GPU && bdf_same_device(fn->bdf, gpu->bdf) &&
			     fn->iommu_group == gpu->iommu_group);
}

/* A port of which VFs are still to be made stands for them. */
static bool goes_with_nic(const struct host_function *fn, const struct place_nic *nic, const struct host_function *pf)
{
	if (!nic->exists)
		return fn == pf;
	return fn->facts->is_vf && bdf_eq(fn->facts->pf, pf->bdf) && bdf_in(nic->vf, nic->nvfs, fn->bdf);
}

static struct whose whose(const struct place *p, uint32_t at)
{
	const struct host_function *fn = topo_at(p->in->topo, at)->fn;
	struct whose w = { 0 };

	for (uint32_t g = 0; g < p->ngpus; g++)
		w.gpus |= (uint64_t)goes_with_gpu(fn, topo_at(p->in->topo, p->gpu[g].node)->fn) << g;
	for (uint32_t n = 0; n < p->nnics && !w.gpus; n++)
		w.nics |= (uint64_t)goes_with_nic(fn, &p->nic[n], topo_at(p->in->topo, p->nic[n].node)->fn) << n;
	return w;
}

void place_tie(struct place *p, const struct solve_ties *known, uint32_t mine, uint32_t other)
{
	struct whose a = whose(p, mine), b = whose(p, other);
	unsigned i = (unsigned)__builtin_ctzll(a.gpus ? a.gpus : a.nics | UINT64_C(1) << 63);
	bool with = (b.gpus & p->want.allowed) || (b.nics & p->want.nics);

	if (!a.gpus && !a.nics) {
		p->learnt = place_bar_drive(p, mine) || p->learnt;
		return;
	}
	p->learnt = true;
	/* known: with another VF of that port it would be as now */
	if (a.gpus && (!with || (b.gpus & known->gpu_gpus[i]) || (b.nics & known->gpu_nics[i]))) {
		p->want.allowed &= ~a.gpus;
	} else if (a.gpus) {
		p->ties.gpu_gpus[i] |= b.gpus;
		p->ties.gpu_nics[i] |= b.nics;
	} else if (!with || (b.gpus & known->nic_gpus[i]) || (b.nics & known->nic_nics[i])) {
		p->want.nics &= ~a.nics;
	} else {
		p->ties.nic_gpus[i] |= b.gpus;
		p->ties.nic_nics[i] |= b.nics;
	}
	p->want.ties = &p->ties;
}

void place_bar(struct place *p, uint32_t gpu, uint32_t nic)
{
	uint64_t bit = UINT64_C(1) << nic;

	p->learnt = p->learnt || (p->want.own[gpu] & bit);
	p->barred[gpu] |= bit;
	p->want.own[gpu] &= ~bit;
}
