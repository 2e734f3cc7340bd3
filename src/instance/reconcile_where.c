/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A device is where its serial number is; a VF is where its PF is. What moves below a guest that may run, or to where another
 * instance or a stranger's domain is, stays where it was held. */
#include "instance/reconcile_where.h"

#include <string.h>

const struct reconcile_function *where_function(const struct work *w, struct bdf bdf)
{
	for (size_t i = 0; i < w->in->nfunctions; i++)
		if (bdf_eq(w->in->function[i].bdf, bdf))
			return &w->in->function[i];
	return NULL;
}

bool where_is_vf(const struct reconcile_device *d)
{
	return !bdf_eq(d->pf, BDF_NONE);
}

/* What can be seen of it while it has no VFs: itself, or its PF. */
static struct bdf physical(const struct reconcile_device *d)
{
	return where_is_vf(d) ? d->pf : d->bdf;
}

static uint32_t routing_id(struct bdf b)
{
	return (uint32_t)b.bus << 8 | b.devfn;
}

/* Where it is if its physical function is at `at`. */
static bool place(struct bdf *ret, const struct reconcile_device *d, struct bdf at)
{
	*ret = at;
	return !where_is_vf(d) || (routing_id(d->bdf) > routing_id(d->pf) && bdf_add(ret, at, routing_id(d->bdf) - routing_id(d->pf)));
}

/* One that is in its place again, or whose serial number nobody knows, is itself. */
static void locate(struct work *w, struct held *h)
{
	const struct reconcile_device *d = h->device;
	const struct reconcile_function *f = where_function(w, physical(d));

	h->other = f ? f->serial : NULL;
	h->where = f ? HERE : GONE;
	if (!*d->serial || (f && (!*f->serial || strcmp(f->serial, d->serial) == 0)))
		return;
	h->where = GONE;
	for (size_t i = 0; i < w->in->nfunctions; i++) {
		const struct reconcile_function *g = &w->in->function[i];

		if (g->vf || strcmp(g->serial, d->serial) != 0 || (g->bdf.devfn & 7) != (physical(d).devfn & 7))
			continue;
		h->where = h->where == GONE && place(&h->found, d, g->bdf) ? MOVED : TWICE;
		h->pf = where_is_vf(d) ? g->bdf : BDF_NONE;
	}
}

static bool is_known(const struct work *w, const struct act_guest *g)
{
	for (size_t i = 0; i < w->in->ninstances; i++)
		if (w->guest[i] == g)
			return true;
	return false;
}

/* The domain of nobody that has the function: one that runs before one that is off. NULL: none is seen to. */
const struct act_guest *where_taker(const struct work *w, struct bdf bdf)
{
	const struct act_guest *best = NULL;

	for (size_t i = 0; i < w->in->nguests && w->in->asked; i++) {
		const struct act_guest *g = &w->in->guest[i];

		if (!bdf_in(g->device, g->n, bdf) || is_known(w, g))
			continue;
		if (!best || (g->state == ACT_DOMAIN_RUNNING && best->state != ACT_DOMAIN_RUNNING))
			best = g;
	}
	return best;
}

/* What the store says of it cannot be held against anything. */
static bool is_opaque(const struct work *w, const struct reconcile_foreign *f)
{
	for (size_t i = 0; i < w->in->nguests && w->in->asked; i++)
		if (strcmp(w->in->guest[i].uuid, f->uuid) == 0)
			return !w->in->guest[i].known && !is_known(w, &w->in->guest[i]);
	return !w->in->asked;
}

/* Of what an instance holds no row of the store says so. */
bool where_is_foreign(const struct work *w, struct bdf bdf)
{
	bool ours = false;

	for (size_t i = 0; i < w->nheld; i++)
		ours = ours || bdf_eq(w->held[i].device->bdf, bdf);
	for (size_t i = 0; i < w->in->nforeign && !ours; i++)
		if (bdf_eq(w->in->foreign[i].bdf, bdf) && is_opaque(w, &w->in->foreign[i]))
			return true;
	return where_taker(w, bdf);
}

const struct held *where_holder(const struct work *w, struct bdf bdf, const struct held *but)
{
	for (size_t i = 0; i < w->nheld; i++)
		if (&w->held[i] != but && bdf_eq(w->held[i].at, bdf))
			return &w->held[i];
	return NULL;
}

const struct act_guest *where_guest(const struct work *w, const struct reconcile_instance *in)
{
	return w->guest[in - w->in->instance];
}

bool where_runs(const struct work *w, const struct reconcile_instance *in)
{
	const struct act_guest *g = where_guest(w, in);

	return g && g->state == ACT_DOMAIN_RUNNING;
}

/* Nothing of an instance that works, or may, is moved below it. */
static bool may_move(const struct work *w, const struct reconcile_instance *in)
{
	return w->in->asked && !in->busy && !where_runs(w, in);
}

/* Two that changed places move both, so each is first where it was found; then those give way whose place is another's. */
void where_locate(struct work *w)
{
	bool again = w->in->read;

	for (size_t i = 0; i < w->nheld && w->in->read; i++) {
		struct held *h = &w->held[i];

		locate(w, h);
		if (h->where == MOVED && may_move(w, h->in) && !where_is_foreign(w, h->found))
			h->at = h->found;
	}
	while (again) {
		again = false;
		for (size_t i = 0; i < w->nheld; i++) {
			struct held *h = &w->held[i];

			if (!bdf_eq(h->at, h->device->bdf) && where_holder(w, h->at, h)) {
				h->at = h->device->bdf;
				again = true;
			}
		}
	}
}
