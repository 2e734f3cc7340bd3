/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The routes of a bundle: which GPU-NIC pairs can be direct, what has to be written for it, and whether anything
 * reaches the bundle from outside, or it reaches anything, without an IOMMU in between. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "plan/place.h"
#include "topo/ats.h"
#include "topo/isolation.h"

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for a plan");
}

static int make_base(struct place *p, struct error *err)
{
	if (!p->acs_base)
		p->acs_base = plan_acs_base(p->in->topo, p->in->held, p->in->nheld, &p->plan->arena);
	return p->acs_base ? 0 : no_memory(err);
}

/* Direct by the ports' words, and by the NIC's ATS, where it hangs on that: no plan changes how untranslated requests
 * go (plan/acs.h). *ats: OK, where there is nothing to say of it. */
static int is_direct(struct place *p, bool *ret, struct topo_ats *ats, const struct plan_acs_pair *pair)
{
	uint32_t nic = topo_find(p->in->topo, pair->nic);
	struct topo_route plain;
	int r = 0;

	*ats = (struct topo_ats){ .state = TOPO_ATS_OK };
	*ret = pair->state == PLAN_ACS_DIRECT || pair->state == PLAN_ACS_PLANNED;
	if (!*ret || pair->ats != HOST_PRESENT)
		return 0;
	topo_route(&plain, p->in->topo, NULL, nic, topo_find(p->in->topo, pair->gpu), (struct topo_tlp){ .type = TOPO_WRITE });
	if (plain.verdict != TOPO_DIRECT)
		r = topo_ats(ats, p->in->topo, nic, true, &p->plan->arena);
	*ret = ats->state == TOPO_ATS_OK;
	return r;
}

/* ---- candidates ----------------------------------------------------------------------------------------- */

/* Pairs are independent of each other: no write for one takes anything from another (plan/acs.h). */
int place_gdr(struct place *p, struct error *err)
{
	struct plan_acs_want *want;
	struct arena arena = { 0 };
	size_t n = 0;
	int r;

	if (p->in->request->gdr != PLAN_GDR_REQUIRED)
		return 0;
	want = arena_array(&arena, (size_t)p->ngpus * p->nnics, sizeof(*want));
	for (uint32_t g = 0; want && g < p->ngpus; g++)
		for (uint32_t k = 0; k < p->nnics; k++)
			want[n++] = (struct plan_acs_want){ topo_at(p->in->topo, p->nic[k].node)->fn->bdf,
							    topo_at(p->in->topo, p->gpu[g].node)->fn->bdf };
	r = want ? make_base(p, err) : no_memory(err);
	if (r == 0)
		r = plan_acs_make(&p->candidates, p->in->topo, p->acs_base, want, n, err);
	arena_done(&arena);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct plan_acs_pair *pair = &p->candidates->pair[i];
		struct place_gpu *gpu = &p->gpu[i / p->nnics];
		struct topo_ats ats;
		bool direct;

		r = is_direct(p, &direct, &ats, pair) < 0 ? no_memory(err) : 0;
		if (r < 0 || direct)
			continue;
		p->path[i / p->nnics][i % p->nnics] = TOPO_UNKNOWN;
		if (!gpu->barred || pair->path < gpu->barred->path)
			gpu->barred = pair;
	}
	return r;
}

/* ---- the bundle's pairs --------------------------------------------------------------------------------- */

/* Of a VF that is not there yet, its PF: the same port, the same ATS. */
static struct bdf nic_of(const struct plan_vf *vf)
{
	return vf->exists ? vf->bdf : vf->pf;
}

/* Between a VF and a GPU of the bundle, both by their number in it; UNKNOWN: they are no pair. */
static enum topo_class path_between(const struct place *p, size_t vf, size_t gpu)
{
	uint8_t g = p->best.gpu[gpu], n = p->best.vf_nic[vf];

	return p->want.own[g] >> n & 1 ? (enum topo_class)p->path[g][n] : TOPO_UNKNOWN;
}

/* A GPU goes with its VFs; one that has none of its own, with those that are nearest to it. */
static bool goes_with(const struct place *p, size_t vf, size_t gpu)
{
	const struct plan *plan = p->plan;

	for (size_t v = 0; v < plan->nvfs; v++)
		if (bdf_eq(plan->vf[v].gpu, plan->gpu[gpu]))
			return bdf_eq(plan->vf[vf].gpu, plan->gpu[gpu]);
	for (size_t v = 0; v < plan->nvfs; v++)
		if (path_between(p, v, gpu) < path_between(p, vf, gpu))
			return false;
	return true;
}

static int make_acs(struct place *p, struct error *err)
{
	const struct plan *plan = p->plan;
	struct arena arena = { 0 };
	struct plan_acs_want *want = arena_array(&arena, plan->ngpus * plan->nvfs, sizeof(*want));
	size_t n = 0;
	int r = want ? make_base(p, err) : no_memory(err);

	for (size_t g = 0; r == 0 && g < plan->ngpus; g++) {
		size_t first = n;

		for (size_t v = 0; v < plan->nvfs; v++) {
			struct plan_acs_want w = { nic_of(&plan->vf[v]), plan->gpu[g] };
			bool there = false;

			for (size_t i = first; i < n; i++)
				there = there || bdf_eq(want[i].nic, w.nic);
			if (!there && goes_with(p, v, g))
				want[n++] = w;
		}
	}
	if (r == 0)
		r = plan_acs_make(&p->acs, p->in->topo, p->acs_base, want, n, err);
	arena_done(&arena);
	return r;
}

/* What becomes of the traffic of a pair that is not direct, why, and what would help. -ENOMEM. */
static int explain(struct place *p, struct plan_reason *ret, const struct plan_acs_pair *pair)
{
	struct arena *arena = &p->plan->arena;
	char nic[BDF_TEXT_MAX], gpu[BDF_TEXT_MAX];
	struct topo_ats ats;
	bool direct;
	int r = is_direct(p, &direct, &ats, pair);
	bool of_ats = ats.state != TOPO_ATS_OK;
	enum topo_verdict then = !of_ats ? pair->then : ats.state == TOPO_ATS_NO ? TOPO_REDIRECTED : TOPO_UNDECIDED;

	*ret = (struct plan_reason){
		.rule = of_ats ? ats.rule : "gdr.not-direct",
		.device = arena_strdup(arena, bdf_text(gpu, pair->gpu)),
		.observed = arena_printf(arena, "its traffic with NIC %s is %s: %s", bdf_text(nic, pair->nic), topo_verdict_text(then),
					 of_ats ? ats.observed : pair->why),
		.needed = of_ats ? arena_printf(arena, "%s: %s", ats.needed, ats.fix) :
				   arena_strdup(arena, *pair->fix ? pair->fix : "another GPU or NIC, or gdr preferred"),
	};
	return r < 0 || !ret->device || !ret->observed || !ret->needed ? -ENOMEM : 0;
}

void place_barred(struct place *p, const struct plan_acs_pair *pair)
{
	struct plan_reason why;

	if (explain(p, &why, pair) == 0) /* reasons are as many as there is memory for */
		place_reason(p->plan, why.rule, pair->gpu, why.needed, "%s", why.observed);
}

static bool requires_of(const struct place *p, const struct place_nic *nic)
{
	const struct plan_request *req = p->in->request;

	for (uint16_t v = 0; v < nic->nvfs; v++)
		if (bdf_in(req->require, req->nrequire, nic->vf[v]))
			return true;
	return false;
}

void place_barred_required(struct place *p)
{
	const struct plan_request *req = p->in->request;

	for (size_t i = 0; p->candidates && i < p->candidates->npairs; i++) {
		const struct plan_acs_pair *pair = &p->candidates->pair[i];
		struct topo_ats ats;
		bool direct;

		if (bdf_in(req->require, req->nrequire, pair->gpu) && requires_of(p, &p->nic[i % p->nnics]) &&
		    is_direct(p, &direct, &ats, pair) == 0 && !direct)
			place_barred(p, pair);
	}
}

static void refuse_pair(struct place *p, const struct plan_acs_pair *pair)
{
	p->refused = true;
	if (p->plan->nreasons < PLACE_REASONS_MAX)
		place_barred(p, pair);
	for (size_t g = 0; g < p->plan->ngpus; g++)
		for (size_t v = 0; v < p->plan->nvfs; v++)
			if (bdf_eq(p->plan->gpu[g], pair->gpu) && bdf_eq(nic_of(&p->plan->vf[v]), pair->nic))
				place_bar(p, p->best.gpu[g], p->best.vf_nic[v]);
}

static int judge_pairs(struct place *p, struct error *err)
{
	struct plan *plan = p->plan;
	int r = 0;

	if (p->in->request->gdr == PLAN_GDR_OFF || !plan->ngpus || !plan->nvfs)
		return 0;
	r = make_acs(p, err);
	if (r < 0)
		return r;
	plan->note = arena_array(&plan->arena, p->acs->npairs, sizeof(*plan->note));
	if (!plan->note)
		return no_memory(err);
	for (size_t i = 0; i < p->acs->npairs && r == 0; i++) {
		struct topo_ats ats;
		bool direct;

		r = is_direct(p, &direct, &ats, &p->acs->pair[i]);
		if (r < 0 || direct)
			continue;
		if (p->in->request->gdr == PLAN_GDR_REQUIRED)
			refuse_pair(p, &p->acs->pair[i]);
		else
			r = explain(p, &plan->note[plan->nnotes++], &p->acs->pair[i]);
	}
	return r < 0 ? no_memory(err) : 0;
}

/* ---- isolation ------------------------------------------------------------------------------------------ */

static size_t bundle_nodes(const struct place *p, uint32_t *set)
{
	const struct plan *plan = p->plan;
	size_t n = 0;

	for (size_t i = 0; i < plan->ngpus; i++)
		set[n++] = topo_find(p->in->topo, plan->gpu[i]);
	for (size_t i = 0; i < plan->ncompanions; i++)
		set[n++] = topo_find(p->in->topo, plan->companion[i].bdf);
	for (size_t i = 0; i < plan->nextras; i++)
		set[n++] = topo_find(p->in->topo, plan->extra[i].bdf);
	for (size_t i = 0; i < plan->nvfs; i++) {
		uint32_t at = topo_find(p->in->topo, nic_of(&plan->vf[i]));
		size_t k = 0;

		while (k < n && set[k] != at)
			k++;
		if (k == n)
			set[n++] = at;
	}
	return n;
}

/* Who has the function at the far end of a leak; NULL: nobody, so that nobody is hurt yet. The host has what one of
 * its drivers has. */
static const char *victim(const struct place *p, uint32_t at)
{
	const struct host_function *fn = topo_at(p->in->topo, at)->fn;
	const char *owner = place_owner(p, fn->bdf), *driver = host_driver_of(topo_inventory(p->in->topo), fn);

	if (owner)
		return owner;
	if (!driver)
		return "perhaps the host";
	return *driver && strcmp(driver, "vfio-pci") != 0 ? "the host" : NULL;
}

static void judge_leak(struct place *p, const struct solve_ties *known, const struct topo_leak *leak, bool inward)
{
	uint32_t mine = inward ? leak->to : leak->from, other = inward ? leak->from : leak->to;
	const char *who = victim(p, other);
	char a[BDF_TEXT_MAX], b[BDF_TEXT_MAX], port[BDF_TEXT_MAX];
	struct bdf at = leak->decided == TOPO_NONE ? BDF_NONE : topo_at(p->in->topo, leak->decided)->fn->bdf;

	if (!leak->certain || !who)
		return;
	p->refused = true;
	place_tie(p, known, mine, other);
	if (p->plan->nreasons < PLACE_REASONS_MAX)
		place_reason(p->plan, "isolation.leak", topo_at(p->in->topo, mine)->fn->bdf,
			     "the redirects of ACS on there (pci=config_acs= and a reboot), or other devices",
			     "a request of %s for %s does not pass the IOMMU, and %s has %s: at %s it %s",
			     bdf_text(a, topo_at(p->in->topo, leak->from)->fn->bdf), bdf_text(b, topo_at(p->in->topo, leak->to)->fn->bdf),
			     who, inward ? a : b, bdf_is_none(at) ? "no port" : bdf_text(port, at), topo_rule_text(leak->rule));
}

/* The writes of this plan change no untranslated route (plan/acs.h): today's words tell. */
static int judge_isolation(struct place *p, struct error *err)
{
	const struct plan *plan = p->plan;
	const struct solve_ties known = p->ties;
	struct arena arena = { 0 };
	uint32_t *set = arena_array(&arena, plan->ngpus + plan->ncompanions + plan->nextras + plan->nvfs, sizeof(*set));
	size_t nset = set ? bundle_nodes(p, set) : 0, n = topo_leaks(NULL, 0, p->in->topo, NULL, set, nset);
	struct topo_leak *leak = arena_array(&arena, n, sizeof(*leak));
	int r = set && leak ? 0 : no_memory(err);

	if (r == 0 && n)
		n = topo_leaks(leak, n, p->in->topo, NULL, set, nset);
	for (size_t i = 0; r == 0 && i < n; i++) {
		bool inward = false;

		for (size_t k = 0; k < nset; k++)
			inward = inward || set[k] == leak[i].to;
		judge_leak(p, &known, &leak[i], inward);
	}
	arena_done(&arena);
	return r;
}

int place_routes(struct place *p, struct error *err)
{
	int r;

	p->acs = plan_acs_free(p->acs);
	r = judge_pairs(p, err);
	return r < 0 ? r : judge_isolation(p, err);
}
