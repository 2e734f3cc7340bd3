/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reasons: why there is no bundle, what is nearest to one, and why it is this one and not another. */
#include <inttypes.h>
#include <string.h>

#include "plan/place.h"

/* One that the request could have. */
static bool is_held(const struct place *p)
{
	for (uint32_t g = 0; g < p->ngpus; g++)
		if (p->gpu[g].owner && (p->mine >> g & 1))
			return true;
	return false;
}

bool place_counts_short(struct place *p)
{
	const struct plan_request *req = p->in->request;
	uint64_t vfs = 0, want = req->vfs ? req->vfs : req->vfs_per_gpu * p->gpus;
	uint32_t can = (uint32_t)__builtin_popcountll(p->allowed);

	for (uint32_t n = 0; n < p->nnics; n++)
		vfs += p->nic[n].nvfs;
	if (can < p->gpus)
		place_reason(p->plan, "gpu.count", BDF_NONE, can == p->ngpus ? "fewer GPUs" : is_held(p) ? "fewer GPUs, or some given back" :
			     "fewer GPUs, or others that can be given", "%u of the host's %u GPU%s can be given, %" PRIu32 " %s wanted", can, p->ngpus,
			     p->ngpus == 1 ? "" : "s", p->gpus, p->gpus == 1 ? "is" : "are");
	if (vfs < want)
		place_reason(p->plan, "vf.count", BDF_NONE, "fewer VFs, more VFs per NIC port, or some given back",
			     "%" PRIu64 " VF%s can be given, %" PRIu64 " %s wanted", vfs, vfs == 1 ? "" : "s", want, want == 1 ? "is" : "are");
	if (place_drives_left(p) < req->nvme)
		place_reason(p->plan, "nvme.count", BDF_NONE, "fewer drives, or some that the host gives up",
			     "%u NVMe drive%s can be given, %" PRIu64 " %s wanted", place_drives_left(p), place_drives_left(p) == 1 ? "" : "s",
			     req->nvme, req->nvme == 1 ? "is" : "are");
	return can < p->gpus || vfs < want || place_drives_left(p) < req->nvme;
}

/* The same with another want; the answer is only looked at. */
static bool would(const struct place *p, const struct solve_want *w, const struct solve_free *f, struct solve_answer *a)
{
	return place_can(p, 0) && solve(a, p->host, f, w);
}

static const struct host_function *gpu_fn(const struct place *p, uint32_t g)
{
	return topo_at(p->in->topo, p->gpu[g].node)->fn;
}

static const char *less_of_limits(struct place *p)
{
	const struct plan_request *req = p->in->request;

	return req->rails && req->min_bandwidth ? "less bandwidth, or no rails" : req->rails ? "no rails" : "less bandwidth";
}

static void say_far(struct place *p)
{
	const char *max = topo_class_text(p->in->request->max_path);
	bool direct = p->in->request->gdr == PLAN_GDR_REQUIRED, far = p->in->request->max_path < TOPO_SYS;
	uint64_t near = 0;

	for (uint32_t g = 0; g < p->ngpus; g++) {
		enum topo_class c = p->gpu[g].nearest;

		if (!(p->allowed >> g & 1))
			continue;
		near += c <= p->in->request->max_path;
		if (p->gpu[g].barred && p->gpu[g].barred->path <= p->in->request->max_path && c > p->in->request->max_path)
			place_barred(p, p->gpu[g].barred);
		else if (c > p->in->request->max_path && c != TOPO_UNKNOWN)
			place_reason(p->plan, "path.too-far", gpu_fn(p, g)->bdf,
				     arena_printf(&p->plan->arena, "a path of %s or nearer", max),
				     "its nearest free VF is at %s", topo_class_text(c));
		else if (c == TOPO_UNKNOWN)
			place_reason(p->plan, "path.unknown", gpu_fn(p, g)->bdf, "a NIC whose place is known",
				     "no free VF with a known path to it");
		else if (p->in->request->rails && topo_at(p->in->topo, p->gpu[g].node)->rail < 0)
			place_reason(p->plan, "rail.none", gpu_fn(p, g)->bdf, "a NIC port that pairs with it, or no rails",
				     "it is on no rail");
		else if (p->want.own[g] == 0)
			place_reason(p->plan, "pair.none", gpu_fn(p, g)->bdf, less_of_limits(p),
				     "no NIC of %s carries what is asked for", p->in->request->rails ? "its rail" : "the host");
	}
	place_reason(p->plan, "bundle.none", BDF_NONE, far ? "a farther max_path, fewer GPUs or VFs, or devices given back" : "fewer GPUs or VFs, or devices given back",
		     "%" PRIu64 " of %d free GPUs have a free VF at %s or nearer%s, and no set of %" PRIu32 " with its VFs fits",
		     near, __builtin_popcountll(p->allowed), max, direct ? " with a direct route" : "", p->gpus);
}

static size_t missing_required(const struct place *p)
{
	size_t given = p->nrequired;

	for (uint32_t i = 0; i < p->ndrives; i++)
		given += p->drive[i].required;
	return p->in->request->nrequire > given ? p->in->request->nrequire - given : 0;
}

static void say_required(struct place *p)
{
	size_t missing = missing_required(p);

	place_barred_required(p);
	if (missing)
		place_reason(p->plan, "require.missing", BDF_NONE, "other required devices, or what is said of these mended",
			     "%zu of the %zu required devices cannot be given", missing, p->in->request->nrequire);
	else
		place_reason(p->plan, "require.apart", BDF_NONE, "other required devices, or a farther max_path",
			     "the required devices are too many, or too far from each other");
}

/* No bundle: too few devices, paths, required devices, or memory and CPUs. */
void place_why_not(struct place *p)
{
	struct solve_want w = p->want;
	struct solve_answer a;
	bool short_of_some = place_counts_short(p);

	if (p->plan->nreasons > PLACE_REASONS_MAX)
		p->plan->nreasons = PLACE_REASONS_MAX;
	w.any_nodes = true;
	w.cells = 0;
	plan_partitions_say(&p->partitions, p->in->topo, p->plan, p->usable & p->allowed, p->gpus);
	if (short_of_some) {
		place_nearest(p);
		return;
	}
	if (would(p, &w, &p->free, &a)) {
		place_cells_say(p, a.nvfs || a.gpus ? a.nodes : 0);
		place_nearest(p);
	} else {
		if (p->in->request->nrequire)
			say_required(p);
		if (p->in->request->nmodels > 1)
			place_reason(p->plan, "models.none", BDF_NONE, "other models, or devices given back",
				     "no set of %" PRIu32 " GPUs has one of each model, each GPU counted once", p->gpus);
		if ((p->in->request->vfs || p->in->request->vfs_per_gpu) && !missing_required(p))
			say_far(p);
		place_nearest(p);
	}
	if (p->plan->nreasons == 0)
		place_reason(p->plan, "bundle.none", BDF_NONE, "a smaller request", "no bundle fits");
}

/* ---- why this one ------------------------------------------------------------------------------- */

/* Paths to NICs count before those between GPUs, and sometimes at their cost. */
static void say_traded(struct place *p)
{
	struct plan_request without = *p->in->request; /* its strings stay the request's */
	struct plan_input in = *p->in;
	auto_(plan_free) struct plan *other = NULL;

	if (!p->best.nvfs || p->best.ngpus < 2 || p->best.gpu_path <= TOPO_PIX)
		return;
	without.vfs = without.vfs_per_gpu = without.nrequire = without.nvf_sets = 0;
	without.gdr = PLAN_GDR_OFF;
	for (size_t i = 0; i < p->in->request->nrequire; i++)
		if (bdf_in(p->plan->gpu, p->plan->ngpus, p->in->request->require[i]))
			without.require[without.nrequire++] = p->in->request->require[i];
	in.request = &without;
	other = place_would(&in);
	if (!other || other->gpu_path >= p->best.gpu_path)
		return;
	place_reason(p->plan, "gpus.apart", BDF_NONE,
		     "numa_node, or the GPUs in require, if a near way between GPUs matters more than to their NICs",
		     "the GPUs are at %s from each other; others are at %s, but not with free VFs at %s or nearer",
		     topo_class_text(p->best.gpu_path), topo_class_text(other->gpu_path), topo_class_text(p->best.worst_path));
}

static void keep_score(const struct place *p, struct plan_score *ret, const struct solve_answer *a)
{
	*ret = (struct plan_score){ .known = true, .score = a->score };
	if (a->nvfs && a->gpus && a->score.term[SCORE_BANDWIDTH] < SOLVE_WIDTHS_MAX - 1)
		ret->bandwidth = p->bandwidth[a->score.term[SCORE_BANDWIDTH]];
	for (uint64_t left = a->gpus; left; left &= left - 1)
		ret->gpu[ret->ngpus++] = gpu_fn(p, (uint32_t)__builtin_ctzll(left))->bdf;
}

/* The best of other GPUs that their routes allow, too. */
static void keep_next(struct place *p)
{
	struct plan_input in = *p->in;
	struct solve_want w = p->want;
	auto_(plan_free) struct plan *next = NULL;
	struct solve_answer a;

	w.without = p->answer.gpus;
	if (!w.without || !would(p, &w, &p->free, &a))
		return;
	in.other_than = p->plan->gpu;
	in.nother_than = p->plan->ngpus;
	next = place_would(&in);
	if (next)
		p->plan->next = next->chosen;
}

void place_why_this(struct place *p)
{
	keep_score(p, &p->plan->chosen, &p->answer);
	if (p->in->bare)
		return;
	say_traded(p);
	keep_next(p);
}

/* ---- what was lost ------------------------------------------------------------------------------ */

static void add_note(struct place *p, const char *rule, const char *needed, const char *observed)
{
	struct plan_reason *all = arena_array(&p->plan->arena, p->plan->nnotes + 1, sizeof(*all));

	if (!all)
		return;
	if (p->plan->nnotes)
		memcpy(all, p->plan->note, p->plan->nnotes * sizeof(*all));
	all[p->plan->nnotes++] = (struct plan_reason){ .rule = rule, .device = "", .observed = observed ? observed : "", .needed = needed };
	p->plan->note = all;
}

static bool node_is(const struct place *p, struct bdf bdf, int node)
{
	uint32_t at = topo_find(p->in->topo, bdf);

	return at != TOPO_NONE && topo_at(p->in->topo, at)->fn->facts->numa_node == node;
}

/* A cell is not where its devices are. */
static void note_moved(struct place *p)
{
	struct plan_reason r;

	for (size_t m = 0; m < p->plan->nmoved; m++) {
		struct bdf device = BDF_NONE;

		for (size_t i = p->plan->nextras; i > 0; i--)
			device = node_is(p, p->plan->extra[i - 1].bdf, p->plan->moved[m].node) ? p->plan->extra[i - 1].bdf : device;
		for (size_t i = p->plan->nvfs; i > 0; i--)
			device = node_is(p, p->plan->vf[i - 1].pf, p->plan->moved[m].node) ? p->plan->vf[i - 1].pf : device;
		for (size_t i = p->plan->ngpus; i > 0; i--)
			device = node_is(p, p->plan->gpu[i - 1], p->plan->moved[m].node) ? p->plan->gpu[i - 1] : device;
		if (place_home_say(p, &r, place_node_index(p, p->plan->moved[m].node), device))
			add_note(p, r.rule, r.needed, r.observed);
	}
}

void place_losses(struct place *p)
{
	const struct plan_request *req = p->in->request;
	const struct place_choice *c = &p->best;
	struct arena *arena = &p->plan->arena;
	uint64_t gbit = p->plan->chosen.bandwidth * 8 / 1000000000u;

	note_moved(p);
	if (req->loose && c->nvfs && c->ngpus && c->worst_path > req->max_path)
		add_note(p, "loose.path", "devices given back, or fewer",
			 arena_printf(arena, "the farthest GPU is at %s from its NIC, %s was wanted", topo_class_text(c->worst_path), topo_class_text(req->max_path)));
	if (req->loose && c->gpu_path > req->max_gpu_path)
		add_note(p, "loose.gpu-path", "devices given back, or fewer",
			 arena_printf(arena, "GPUs are at %s from each other, %s was wanted", topo_class_text(c->gpu_path), topo_class_text(req->max_gpu_path)));
	if (req->loose && c->nvfs && gbit < req->min_bandwidth)
		add_note(p, "loose.bandwidth", "devices given back, or links as good as they could be",
			 gbit ? arena_printf(arena, "the narrowest way from a GPU to its NIC carries %" PRIu64 " Gb/s, %" PRIu64 " were wanted", gbit, req->min_bandwidth)
			      : "what some way from a GPU to its NIC carries is not known");
	if (p->partitions.mode == PLAN_FABRIC_WHOLE && c->ngpus && !req->exclusive)
		add_note(p, "fabric.whole", "an exclusive guest, or FABRIC_MODE 1 (shared NVSwitch)",
			 "the NVSwitches are shared out to nobody: there is no NVLink in this guest");
	if (p->partitions.mode == PLAN_FABRIC_SHARED && c->ngpus && !p->plan->partitioned)
		add_note(p, "partition.not-here", "it activated (fmpm -a) where Fabric Manager runs, before the guest starts",
			 "the partition of these GPUs is from the board's table: Fabric Manager is not on this host, and velad cannot activate it");
}
