/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The settings of a bundle that was found: what velad sets for it, and as notes what it cannot. */
#include <errno.h>
#include <string.h>

#include "plan/place.h"
#include "plan/settings.h"

static size_t take_pfs(const struct plan *plan, struct bdf *pf)
{
	size_t n = 0;

	for (size_t v = 0; v < plan->nvfs; v++)
		if (!bdf_in(pf, n, plan->vf[v].pf))
			pf[n++] = plan->vf[v].pf;
	return n;
}

static int add_note(struct plan *plan, const struct plan_settings_finding *f)
{
	char device[BDF_TEXT_MAX];
	struct plan_reason *note = &plan->note[plan->nnotes++];

	*note = (struct plan_reason){
		.rule = f->rule,
		.device = arena_strdup(&plan->arena, bdf_text(device, f->bdf)),
		.observed = f->observed,
		.needed = arena_printf(&plan->arena, "%s: %s", f->needed, f->fix),
	};
	return note->device && note->needed ? 0 : -ENOMEM;
}

static int take_notes(struct place *p, const struct bdf *fn, size_t nfn)
{
	struct plan *plan = p->plan;
	struct plan_reason *note = plan->note;
	struct plan_settings_finding *f;
	size_t n;
	int r = plan_settings_check(&f, &n, p->in->topo, fn, nfn, &plan->arena);

	if (r < 0)
		return r;
	plan->note = arena_array(&plan->arena, plan->nnotes + n, sizeof(*plan->note));
	if (!plan->note)
		return -ENOMEM;
	if (plan->nnotes)
		memcpy(plan->note, note, plan->nnotes * sizeof(*note));
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!f[i].set)
			r = add_note(plan, &f[i]);
	return r;
}

int place_settings(struct place *p)
{
	struct plan *plan = p->plan;
	struct bdf *fn = arena_array(&plan->arena, plan->ngpus + plan->nvfs, sizeof(*fn));
	struct bdf *companion = arena_array(&plan->arena, plan->ncompanions, sizeof(*companion));
	struct plan_settings_bundle b = { .topo = p->in->topo, .gpu = fn, .ngpus = plan->ngpus, .companion = companion,
					  .ncompanions = plan->ncompanions, .held = p->in->settings, .nheld = p->in->nsettings };
	int r;

	if (p->in->request->gdr == PLAN_GDR_OFF || !plan->ngpus || !plan->nvfs)
		return 0;
	if (!fn || !companion)
		return -ENOMEM;
	memcpy(fn, plan->gpu, plan->ngpus * sizeof(*fn));
	for (size_t i = 0; i < plan->ncompanions; i++)
		companion[i] = plan->companion[i].bdf;
	b.pf = fn + plan->ngpus;
	b.npfs = take_pfs(plan, fn + plan->ngpus);
	r = plan_settings_steps(&p->settings, &p->nsettings, &b, &plan->arena);
	return r < 0 ? r : take_notes(p, fn, b.ngpus + b.npfs);
}
