/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is nearest to a bundle that cannot be: limits that are in its way, something that somebody has, fewer GPUs. Each of them is
 * planned, with all rules and routes, before it is said. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "plan/place.h"

#define MISSES_MAX 4
#define TRIES_MAX  64 /* plans of what might be, for one refusal */

struct miss {
	struct place *p;
	unsigned      said, tries;
};

struct plan *place_would(const struct plan_input *in)
{
	struct error none = ERROR_INIT; /* no memory: then nothing is said */
	struct plan_input bare = *in;
	struct plan *plan = NULL;

	bare.bare = true;
	if (plan_make(&plan, &bare, &none) < 0)
		return NULL;
	return plan->fits ? plan : plan_free(plan);
}

static struct plan *try(struct miss *m, const struct plan_input *in)
{
	return m->said < MISSES_MAX && m->tries++ < TRIES_MAX ? place_would(in) : NULL;
}

static bool fits(struct miss *m, const struct plan_input *in)
{
	auto_(plan_free) struct plan *plan = try(m, in);

	return plan != NULL;
}

static void say(struct miss *m, struct bdf device, const char *needed, const char *what)
{
	if (!needed || !what)
		return; /* no memory */
	place_reason(m->p->plan, "nearest", device, needed, "%s", what);
	m->said++;
}

/* ---- limits ------------------------------------------------------------------------------------- */

enum limit { LIMIT_PATH, LIMIT_GPU_PATH, LIMIT_BANDWIDTH, LIMIT_RAILS, LIMIT_SPREAD, LIMIT_GDR, LIMIT_NODE, LIMITS };

/* Without the limit; false: it has none. */
static bool lift(struct plan_request *r, enum limit l)
{
	const struct plan_request was = *r;

	switch (l) {
	case LIMIT_PATH:
		r->max_path = r->vfs || r->vfs_per_gpu ? TOPO_SYS : r->max_path;
		return !was.loose && r->max_path != was.max_path;
	case LIMIT_GPU_PATH:
		r->max_gpu_path = TOPO_UNKNOWN;
		return !was.loose && r->max_gpu_path != was.max_gpu_path;
	case LIMIT_BANDWIDTH:
		r->min_bandwidth = 0;
		return !was.loose && was.min_bandwidth;
	case LIMIT_RAILS:
		r->rails = false;
		return was.rails;
	case LIMIT_SPREAD:
		r->spread_pf = false;
		return was.spread_pf;
	case LIMIT_GDR:
		r->gdr = PLAN_GDR_PREFERRED;
		return was.gdr == PLAN_GDR_REQUIRED;
	case LIMIT_NODE:
		r->numa_node = -1;
		return was.numa_node >= 0;
	default:
		return false;
	}
}

/* What the request would say instead. */
static const char *instead(struct arena *a, const struct plan *plan, enum limit l)
{
	uint64_t gbit = plan->chosen.bandwidth * 8 / 1000000000u;

	switch (l) {
	case LIMIT_PATH: return arena_printf(a, "max_path %s", topo_class_text(plan->worst_path));
	case LIMIT_GPU_PATH: return arena_printf(a, "max_gpu_path %s", topo_class_text(plan->gpu_path));
	case LIMIT_BANDWIDTH: return gbit ? arena_printf(a, "min_bandwidth %" PRIu64, gbit) : "no min_bandwidth";
	case LIMIT_RAILS: return "no rails";
	case LIMIT_SPREAD: return "no spread";
	case LIMIT_GDR: return "gdr preferred";
	default: return "no numa_node";
	}
}

static const char *as_it_would_be(struct arena *a, const struct plan *plan, enum limit l)
{
	uint64_t gbit = plan->chosen.bandwidth * 8 / 1000000000u;

	switch (l) {
	case LIMIT_PATH: return arena_printf(a, "with GPU-NIC paths of %s", topo_class_text(plan->worst_path));
	case LIMIT_GPU_PATH: return arena_printf(a, "with GPU-GPU paths of %s", topo_class_text(plan->gpu_path));
	case LIMIT_BANDWIDTH: return gbit ? arena_printf(a, "with %" PRIu64 " Gb/s from GPU to NIC", gbit) : "if it did not matter what a way carries";
	case LIMIT_RAILS: return "with NICs of other rails";
	case LIMIT_SPREAD: return "with several VFs on one port";
	case LIMIT_GDR: return "if routes need not be direct";
	default: return "on another NUMA node";
	}
}

/* One limit lifted, or two; false: the request has not both, or it would not fit. */
static bool miss_without(struct miss *m, enum limit a, enum limit b)
{
	struct plan_request less = *m->p->in->request; /* its strings stay the request's */
	struct plan_input in = *m->p->in;
	struct arena *arena = &m->p->plan->arena;
	auto_(plan_free) struct plan *plan = NULL;

	in.request = &less;
	if (!lift(&less, a) || (b != a && !lift(&less, b)))
		return false;
	plan = try(m, &in);
	if (!plan)
		return false;
	if (a == b)
		say(m, BDF_NONE, instead(arena, plan, a), arena_printf(arena, "it would fit %s", as_it_would_be(arena, plan, a)));
	else
		say(m, BDF_NONE, arena_printf(arena, "%s and %s", instead(arena, plan, a), instead(arena, plan, b)),
		    arena_printf(arena, "it would fit %s, and %s", as_it_would_be(arena, plan, a), as_it_would_be(arena, plan, b)));
	return true;
}

static void miss_limits(struct miss *m)
{
	for (enum limit a = 0; a < LIMITS; a++)
		(void)miss_without(m, a, a);
	for (enum limit a = 0; a < LIMITS && !m->said; a++)
		for (enum limit b = a + 1; b < LIMITS && !m->said; b++)
			(void)miss_without(m, a, b);
}

/* Memory and CPUs of more nodes. */
static void miss_cells(struct miss *m)
{
	struct plan_request more = *m->p->in->request;
	struct plan_input in = *m->p->in;
	struct arena *arena = &m->p->plan->arena;

	in.request = &more;
	for (more.cells = more.cells ? more.cells + 1 : 2; !m->said && more.cells <= PLAN_CELLS_MAX && more.cells <= m->p->host->nnodes; more.cells++)
		if (more.cells <= more.vcpus && fits(m, &in))
			say(m, BDF_NONE, arena_printf(arena, "cells %" PRIu64, more.cells),
			    arena_printf(arena, "it would fit with memory and CPUs of %" PRIu64 " NUMA nodes", more.cells));
}

/* ---- what somebody has -------------------------------------------------------------------------- */

static bool free_it(struct miss *m, struct bdf bdf)
{
	struct plan_input in = *m->p->in;

	in.freed = &bdf;
	return fits(m, &in);
}

static void miss_sick(struct miss *m, const struct plan_sick *sick)
{
	for (size_t i = 0; i < m->p->plan->nreasons; i++) /* a port above several */
		if (strcmp(m->p->plan->reason[i].rule, "nearest") == 0) {
			char text[BDF_TEXT_MAX];

			if (strcmp(m->p->plan->reason[i].device, bdf_text(text, sick->bdf)) == 0)
				return;
		}
	if (free_it(m, sick->bdf))
		say(m, sick->bdf, "it looked at and out of quarantine", "it would fit if this were not quarantined");
}

/* One GPU that somebody has, or that is in quarantine. */
static void miss_gpus(struct miss *m)
{
	struct place *p = m->p;

	for (uint32_t g = 0; g < p->ngpus; g++) {
		struct bdf bdf = topo_at(p->in->topo, p->gpu[g].node)->fn->bdf;

		if (!(p->mine >> g & 1))
			continue;
		if (p->gpu[g].sick)
			miss_sick(m, p->gpu[g].sick);
		else if (p->gpu[g].owner && free_it(m, bdf))
			say(m, bdf, arena_printf(&p->plan->arena, "it given back by %s", p->gpu[g].owner), "it would fit if this were free");
	}
}

/* A VF of this port that somebody has, and with which it would fit; NULL: none. */
static const struct plan_taken *spare_vf(struct miss *m, struct bdf pf)
{
	const struct plan_input *in = m->p->in;

	for (size_t i = 0; i < in->ntaken; i++) {
		const struct host_function *fn = host_function_find(topo_inventory(in->topo), in->taken[i].bdf);

		if (fn && fn->facts->is_vf && bdf_eq(fn->facts->pf, pf) && free_it(m, fn->bdf))
			return &in->taken[i];
	}
	return NULL;
}

/* The same of a NIC port: a VF that somebody has, or all where it is quarantined. */
static void miss_nics(struct miss *m)
{
	struct place *p = m->p;

	for (uint32_t k = 0; k < p->nnics; k++) {
		struct bdf pf = topo_at(p->in->topo, p->nic[k].node)->fn->bdf;
		const struct plan_taken *vf;

		if (p->nic[k].aside) {
			miss_sick(m, p->nic[k].sick);
			continue;
		}
		vf = p->nic[k].taken && m->said < MISSES_MAX ? spare_vf(m, pf) : NULL;
		if (vf)
			say(m, pf, arena_printf(&p->plan->arena, "one of its VFs given back by %s", vf->owner), "it would fit if one more VF of this were free");
	}
}

static void miss_owner(struct miss *m, const char *owner)
{
	const struct place *p = m->p;
	struct plan_input in = *p->in;

	in.freed_owner = owner;
	if (fits(m, &in))
		say(m, BDF_NONE, arena_printf(&p->plan->arena, "%s deleted or released", owner),
		    arena_printf(&p->plan->arena, "it would fit if %s gave back all that it has", owner));
}

/* All that one guest or lease has: of CPUs and memory no single one counts. */
static void miss_owners(struct miss *m)
{
	const struct plan_input *in = m->p->in;

	for (size_t i = 0; i < in->ntaken + in->nrooms; i++) {
		const char *owner = i < in->ntaken ? in->taken[i].owner : in->room[i - in->ntaken].owner;
		bool before = false;

		for (size_t k = 0; k < i && !before; k++)
			before = strcmp(k < in->ntaken ? in->taken[k].owner : in->room[k - in->ntaken].owner, owner) == 0;
		if (!before)
			miss_owner(m, owner);
	}
}

/* ---- fewer -------------------------------------------------------------------------------------- */

static void miss_drives(struct miss *m)
{
	struct plan_request less = *m->p->in->request;
	struct plan_input in = *m->p->in;
	uint32_t drives = place_drives_left(m->p);

	in.request = &less;
	if (drives >= less.nvme)
		return;
	less.nvme = drives;
	if (fits(m, &in))
		say(m, BDF_NONE, drives ? arena_printf(&m->p->plan->arena, "%u NVMe drive%s", drives, drives == 1 ? "" : "s") : "no NVMe drives",
		    "it would fit with fewer drives");
}

static void miss_count(struct miss *m)
{
	struct plan_request less = *m->p->in->request;
	struct plan_input in = *m->p->in;

	in.request = &less;
	if (less.exclusive || less.nmodels > 1)
		return;
	while (!m->said && less.gpus > 1) {
		less.gpus--;
		if (fits(m, &in))
			say(m, BDF_NONE, arena_printf(&m->p->plan->arena, "%" PRIu64 " GPU%s", less.gpus, less.gpus == 1 ? "" : "s"),
			    "it would fit with fewer GPUs");
	}
}

void place_nearest(struct place *p)
{
	static void (*const less[])(struct miss *) = { miss_drives, miss_owners, miss_count };
	struct miss m = { .p = p };

	if (p->in->bare)
		return;
	miss_limits(&m);
	miss_cells(&m);
	miss_gpus(&m);
	miss_nics(&m);
	for (size_t i = 0; i < ARRAY_SIZE(less) && !m.said; i++)
		less[i](&m);
}
