/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan/capacity.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strtab.h"
#include "plan/gang.h"
#include "plan/place.h"

#define PATIENCE 20000 /* steps of one search; there are some ten for each shape */

struct number {
	unsigned n;
	bool     more;  /* or more: there are too many ways to look at */
	uint64_t left;  /* GPUs that could be given and are in none of the bundles */
};

struct shape {
	unsigned      size;
	struct number now, empty;
};

static unsigned count_kind(const struct topo *t, enum host_kind kind)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++)
		n += topo_at(t, i)->fn->facts->kind == kind;
	return n;
}

struct filling { /* of a host, by bundle after bundle */
	struct plan_input  in;
	struct plan_taken *taken;
	struct plan_room  *rooms;
	struct plan       *plan[PLACE_GPUS_MAX];
	unsigned           n;
};

static struct filling *filling_free(struct filling *f)
{
	for (unsigned i = 0; f && i < f->n; i++)
		plan_free(f->plan[i]);
	if (f) {
		free(f->taken);
		free(f->rooms);
	}
	free(f);
	return NULL;
}
AUTO_DEFINE(struct filling *, filling_free);

static struct filling *filling_new(const struct plan_input *in)
{
	struct filling *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->in = *in;
	f->in.bare = true;
	f->taken = calloc(in->ntaken + PLACE_GPUS_MAX * (PLAN_GPUS_MAX * 9 + PLAN_VFS_MAX + PLAN_EXTRAS_MAX), sizeof(*f->taken));
	f->rooms = calloc(in->nrooms + PLACE_GPUS_MAX * SOLVE_NODES_MAX, sizeof(*f->rooms));
	if (!f->taken || !f->rooms)
		return filling_free(f);
	if (in->ntaken)
		memcpy(f->taken, in->taken, in->ntaken * sizeof(*f->taken));
	if (in->nrooms)
		memcpy(f->rooms, in->room, in->nrooms * sizeof(*f->rooms));
	f->in.taken = f->taken;
	f->in.room = f->rooms;
	return f;
}

/* GPUs that some bundle of this kind could have yet. */
static int usable(uint64_t *ret, const struct plan_input *in, struct error *err)
{
	auto_(place_close) struct place *p = NULL;
	auto_(plan_free) struct plan *why = calloc(1, sizeof(*why));
	int r = why ? place_open(&p, why, in, err) : error_set(err, -ENOMEM, "no memory for the capacity");

	if (r == 0)
		*ret = p->usable;
	return r;
}

/* One bundle after the other, each the best of what is left: at least so many fit at once, and no more than there are GPUs for. */
static int count_one_by_one(struct number *ret, const struct plan_input *in, unsigned most, struct error *err)
{
	auto_(filling_free) struct filling *f = filling_new(in);
	uint64_t all = 0, left = 0;
	bool fits = true;
	int r = f ? usable(&all, in, err) : error_set(err, -ENOMEM, "no memory for the capacity");

	if (r == 0 && (unsigned)__builtin_popcountll(all) / in->request->gpus < most)
		most = (unsigned)__builtin_popcountll(all) / in->request->gpus;
	while (r == 0 && fits && f->n < most) {
		struct plan *plan = NULL;

		r = plan_make(&plan, &f->in, err);
		fits = r == 0 && plan->fits;
		if (!fits) {
			plan_free(plan);
			continue;
		}
		f->plan[f->n++] = plan;
		plan_take(f->taken, &f->in.ntaken, plan, "another bundle");
		f->in.nrooms += plan_rooms(&f->rooms[f->in.nrooms], plan, "another bundle");
	}
	if (r == 0 && f->n >= ret->n && (r = usable(&left, &f->in, err)) == 0)
		*ret = (struct number){ .n = f->n, .left = left };
	ret->more = ret->n < most;
	return r;
}

static int count(struct number *ret, const struct plan_input *in, unsigned most, struct error *err)
{
	struct error too_many = ERROR_INIT;
	struct plan_input soon = *in;
	int r;

	soon.patience = PATIENCE;
	*ret = (struct number){ 0 };
	r = plan_gang_count(&ret->n, &ret->left, &soon, most, &too_many);
	if (r == -ETIME)
		return count_one_by_one(ret, in, most, err);
	return r < 0 ? error_set(err, r, "%s", too_many.text) : r;
}

/* ---- what there is too little of ----------------------------------------------------------------- */

/* Each by itself, all else being without end: how many bundles it is enough for. */
static const struct bound {
	const char *rule, *what, *needed;
	bool        vfs, path, gdr, limits, cpus, memory, partition; /* what counts */
} bounds[] = {
	{ "capacity.gpus", "GPUs that can be given are", "GPUs given back, or what is said of them mended", .vfs = false },
	{ "capacity.vfs", "free VFs are", "fewer VFs of each, more VFs of each port, or some given back", .vfs = true },
	{ "capacity.path", "VFs near enough are", "a farther max_path, or near VFs given back", .vfs = true, .path = true },
	{ "capacity.routes", "routes that are direct are", "gdr preferred, or what velactl acs plan says", .vfs = true, .path = true, .gdr = true },
	{ "capacity.limits", "bandwidth, rails, ports, ways between GPUs and drives that are asked for are",
	  "less of min_bandwidth, rails, spread, max_gpu_path, nvme or mtu", .vfs = true, .path = true, .limits = true },
	{ "capacity.partition", "NVSwitch partitions that can be activated are", "partitions deactivated, or their GPUs given back", .partition = true },
	{ "capacity.cpus", "free CPUs in whole cores are", "fewer vCPUs of each, or cores given back", .cpus = true },
	{ "capacity.memory", "free memory is", "less memory of each, or memory given back", .memory = true },
};

#define OF_VFS 1 /* those from here on to the next three count them, too */

static struct plan_request only(const struct plan_request *req, const struct bound *b)
{
	struct plan_request r = *req; /* its strings stay the request's */

	r.max_path = b->path ? req->max_path : TOPO_SYS;
	r.gdr = b->gdr ? req->gdr : PLAN_GDR_OFF;
	if (!b->vfs)
		r.vfs = r.vfs_per_gpu = r.nvf_sets = 0;
	if (!b->limits) {
		r.min_bandwidth = r.nvme = r.mtu = 0;
		r.rails = r.spread_pf = false;
		r.max_gpu_path = TOPO_UNKNOWN;
	}
	return r;
}

/* Whether it counts at all: nobody asks for it, or what has been said tells it. */
static bool of_interest(const struct plan_request *req, const struct bound *b)
{
	bool limits = req->min_bandwidth || req->rails || req->spread_pf || req->max_gpu_path != TOPO_UNKNOWN || req->nvme || req->mtu;

	if (b->vfs && !req->vfs && !req->vfs_per_gpu)
		return b->limits && limits;
	return (!b->limits || limits) && (!b->gdr || req->gdr == PLAN_GDR_REQUIRED);
}

static int count_bound(struct number *ret, const struct plan_input *in, const struct bound *b, unsigned most, struct error *err)
{
	struct plan_request request = only(in->request, b);
	struct plan_input with = *in;

	with.request = &request;
	with.boundless = (b->cpus ? 0 : PLAN_BOUNDLESS_CPUS) | (b->memory ? 0 : PLAN_BOUNDLESS_MEMORY) |
			 (b->partition ? 0 : PLAN_BOUNDLESS_PARTITIONS);
	return count(ret, &with, most, err);
}

static const char *some_bundles(struct plan *out, const struct shape *s)
{
	const char *number = s->now.n ? arena_printf(&out->arena, "%u", s->now.n) : "no";
	const char *text = number ? arena_printf(&out->arena, "%s bundle%s of %u GPU%s", number, s->now.n < 2 ? "" : "s", s->size, s->size == 1 ? "" : "s") : NULL;

	return text ? text : "fewer";
}

static void say_bound(struct plan *out, const struct plan_request *req, const struct bound *b, const struct shape *s)
{
	const char *what = b->what;

	if (b->memory && req->hugepages)
		what = arena_printf(&out->arena, "free pages of %llu MiB are", (unsigned long long)(req->hugepages >> 20));
	place_reason(out, b->memory && req->hugepages ? "capacity.hugepages" : b->rule, BDF_NONE,
		     b->memory && req->hugepages ? "less memory of each, more such pages, or some given back" : b->needed,
		     "%s enough for %s, whatever else there is", what ? what : b->what, some_bundles(out, s));
}

/* Of nothing by itself is there too little. */
static void say_together(struct plan *out, const struct number *of, unsigned most, const struct shape *s)
{
	const char *all = "";

	for (size_t i = 0; i < ARRAY_SIZE(bounds) && all; i++)
		if (!of[i].more && of[i].n < most)
			all = arena_printf(&out->arena, "%s%s%s enough for %u", all, *all ? ", " : "", bounds[i].what, of[i].n);
	place_reason(out, "capacity.together", BDF_NONE, "guests made anew nearer together, or less of each of these",
		     "%s%sbut in the same places for %s", all ? all : "", all && *all ? ", " : "of everything there is enough for more, ",
		     some_bundles(out, s));
}

/* What keeps more from fitting. */
static int say_short(struct plan *out, const struct plan_input *in, const struct shape *s, unsigned most, struct error *err)
{
	struct number of[ARRAY_SIZE(bounds)];
	bool said = false, of_vfs = false;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bounds) && r == 0; i++) {
		const struct bound *b = &bounds[i];

		of[i].more = true;
		if (!of_interest(in->request, b) || (b->vfs && of_vfs) || (said && i <= OF_VFS))
			continue;
		r = count_bound(&of[i], in, b, most, err);
		if (r < 0 || of[i].more || of[i].n != s->now.n)
			continue;
		say_bound(out, in->request, b, s);
		said = true;
		of_vfs = of_vfs || b->vfs;
		if (i == 0)
			return 0; /* all else would be in vain */
	}
	if (r == 0 && !said)
		say_together(out, of, most, s);
	return r;
}

/* ---- what blocks more --------------------------------------------------------------------------- */

static bool is_of_interest(const struct topo *t, const char *device)
{
	struct bdf b;
	uint32_t at = bdf_parse(&b, device) ? topo_find(t, b) : TOPO_NONE;

	return at != TOPO_NONE && (topo_at(t, at)->fn->facts->kind == HOST_GPU || topo_at(t, at)->fn->facts->kind == HOST_NIC);
}

/* The pair's own words, which the place tells its plan. */
static void say_barred(struct plan *out, struct place *p, uint32_t g)
{
	size_t said = p->plan->nreasons;

	place_barred(p, p->gpu[g].barred);
	if (p->plan->nreasons > said && out->nreasons < PLAN_REASONS_MAX)
		out->reason[out->nreasons++] = p->plan->reason[--p->plan->nreasons];
}

static void say_left(struct plan *out, struct place *p, uint64_t left, unsigned size)
{
	uint64_t alone = 0;

	for (uint32_t g = 0; g < p->ngpus && g < PLACE_GPUS_MAX && p->want.vfs_per_gpu; g++)
		alone |= (uint64_t)(p->gpu[g].nearest > p->want.max_path) << g;
	for (left = left & alone ? left & alone : left; left; left &= left - 1) { /* the others lack these */
		uint32_t g = (uint32_t)__builtin_ctzll(left);
		struct bdf gpu = topo_at(p->in->topo, p->gpu[g].node)->fn->bdf;

		if (alone >> g & 1 && p->gpu[g].barred)
			say_barred(out, p, g);
		else if (alone >> g & 1)
			place_reason(out, "capacity.no-nic", gpu, "a NIC port with free VFs below its switch",
				     "it is free, but its nearest free VF is at %s", topo_class_text(p->gpu[g].nearest));
		else
			place_reason(out, "capacity.left", gpu, "other GPUs free, with NICs of their own",
				     "it is free, but in no further bundle of %u", size);
	}
}

/* GPUs are named where it is for something that has a place in the tree. */
static bool is_about_gpus(const struct plan *out)
{
	static const char *const others[] = { "capacity.cpus", "capacity.memory", "capacity.hugepages" };

	for (size_t i = 0; i < out->nreasons; i++)
		if (strncmp(out->reason[i].rule, "capacity.", 9) == 0 && strtab_find(others, ARRAY_SIZE(others), out->reason[i].rule) < 0)
			return true;
	return false;
}

/* Devices that are in none of the bundles, each with the rule that keeps it out. */
static json_object *blocked(struct place *p, const struct plan *why, const struct shape *s, struct error *err)
{
	struct plan *out = calloc(1, sizeof(*out));
	unsigned gpus = count_kind(p->in->topo, HOST_GPU);
	json_object *list = NULL;

	if (!out)
		return NULL;
	if (s->size > gpus)
		place_reason(out, "capacity.size", BDF_NONE, "a bigger host", "the host has %u GPU%s", gpus, gpus == 1 ? "" : "s");
	if (s->now.more)
		place_reason(out, "capacity.not-decided", BDF_NONE, "a narrower request",
			     "%s fit, one taken after the other; whether more do was not decided in %d steps", some_bundles(out, s), PATIENCE);
	for (size_t i = 0; i < why->nreasons && s->now.n != gpus / s->size; i++)
		if (!*why->reason[i].device || is_of_interest(p->in->topo, why->reason[i].device))
			out->reason[out->nreasons++] = why->reason[i];
	if (s->size <= gpus && (p->off || s->now.more || s->now.n >= gpus / s->size || say_short(out, p->in, s, gpus / s->size, err) == 0)) {
		if (!s->now.more && is_about_gpus(out))
			say_left(out, p, s->now.left, s->size);
		if (s->now.left)
			plan_partitions_say(&p->partitions, p->in->topo, out, s->now.left, s->size);
		list = plan_reasons_json(out->reason, out->nreasons);
	} else if (s->size > gpus) {
		list = plan_reasons_json(out->reason, out->nreasons);
	}
	plan_free(out);
	return list;
}

/* ---- the document ------------------------------------------------------------------------------- */

static void add_count(struct json_out *o, const char *key, const char *at_least, struct number c)
{
	if (c.more)
		json_add(o, key, NULL);
	else
		json_add_uint(o, key, c.n);
	json_add_uint(o, at_least, c.n);
}

/* FGD's measure (USENIX ATC'23) on whole bundles: of the free GPUs, weighted by how often each shape is asked for, the part
 * that is in no bundle of it, with all that the shape asks for. */
struct fragments {
	uint64_t free, left; /* weighted */
	bool     unknown;    /* of some shape: too many ways to look at */
};

static void add_fragmentation(struct json_out *o, const struct fragments *all)
{
	char text[16];
	double f;

	if (!all->free || all->unknown) {
		json_add(o, "fragmentation", NULL);
		return;
	}
	f = (double)all->left / (double)all->free;
	(void)snprintf(text, sizeof(text), "%.3f", f);
	json_add_made(o, "fragmentation", json_object_new_double_s(f, text));
}

/* As near as the host has it at its best, for a bundle that is farther apart is none that one would want. */
static int tighten(struct plan_request *req, const struct plan_input *none, struct error *err)
{
	struct plan_input in = *none;
	auto_(plan_free) struct plan *best = NULL;
	int r;

	req->max_path = TOPO_SYS;
	in.request = req;
	in.bare = true;
	r = plan_make(&best, &in, err);
	if (r < 0 || !best->fits)
		return r;
	if (best->nvfs)
		req->max_path = best->worst_path;
	if (best->ngpus > 1)
		req->max_gpu_path = best->gpu_path;
	return 0;
}

static int add_fragments(struct fragments *all, const struct place *p, const struct plan_input *none, struct shape s, uint32_t weight,
			 struct error *err)
{
	struct plan_request request = *p->in->request; /* its strings stay the request's */
	struct plan_input in = *p->in;
	uint32_t free = (uint32_t)__builtin_popcountll(p->allowed);
	int r = tighten(&request, none, err);

	in.request = &request;
	if (r == 0)
		r = count(&s.now, &in, p->ngpus / s.size, err);
	if (r < 0)
		return r;
	all->unknown = all->unknown || s.now.more;
	all->free += (uint64_t)weight * free;
	all->left += (uint64_t)weight * (free - s.now.n * s.size);
	return 0;
}

static struct plan_input vacated(const struct plan_input *now)
{
	struct plan_input none = *now;

	none.ntaken = none.nrooms = 0;
	none.vacant = true;
	return none;
}

static int add_counts(struct fragments *all, json_object *list, const struct plan_input *now, struct shape *s, uint32_t weight, struct error *err)
{
	struct plan_input none = vacated(now);
	auto_(place_close) struct place *p = NULL;
	auto_(plan_free) struct plan *why = calloc(1, sizeof(*why));
	struct json_out one, o = { .obj = list };
	int r = why ? place_open(&p, why, now, err) : error_set(err, -ENOMEM, "no memory for the capacity");

	if (r == 0)
		r = count(&s->now, now, p->ngpus / s->size, err);
	if (r == 0)
		r = count(&s->empty, &none, p->ngpus / s->size, err);
	if (r == 0)
		r = add_fragments(all, p, &none, *s, weight, err);
	if (r < 0)
		return r;
	one = json_out_new();
	json_add_uint(&one, "gpus", s->size);
	json_add_uint(&one, "vfs_per_gpu", now->request->vfs_per_gpu);
	json_add_string(&one, "max_path", topo_class_text(now->request->max_path));
	json_add_made(&one, "request", plan_request_json(now->request));
	add_count(&one, "bundles", "bundles_at_least", s->now);
	add_count(&one, "empty", "empty_at_least", s->empty);
	json_add_made(&one, "blocked", blocked(p, why, s, err));
	json_append_out(&o, list, &one);
	return err->code ? err->code : o.failed ? error_set(err, -ENOMEM, "no memory for the capacity") : 0;
}

static int add_shape(struct fragments *all, json_object *list, const struct plan_input *now, size_t i, struct error *err)
{
	struct plan_request request;
	struct plan_input in = *now;
	struct shape s = { .size = now->policy.shape[i].size };
	int r = plan_shape_request(&request, &now->policy, i, count_kind(now->topo, HOST_NIC) > 0, err);

	if (r < 0)
		return r;
	in.request = &request;
	r = add_counts(all, list, &in, &s, now->policy.shape[i].weight, err);
	plan_request_done(&request);
	return r;
}

/* GPUs that some request could have. */
static int count_free(unsigned *ret, const struct plan_input *now, struct error *err)
{
	const struct plan_request one = { .gpus = 1, .name = (char *)"", .tenant = (char *)"", .numa_node = -1, .max_path = TOPO_SYS };
	struct plan_input in = *now;
	uint64_t all = 0;
	int r;

	in.request = &one;
	r = usable(&all, &in, err);
	*ret = (unsigned)__builtin_popcountll(all);
	return r;
}

int plan_capacity_json(json_object **ret, const struct plan_input *in, struct error *err)
{
	json_object *list = json_object_new_array();
	struct json_out o = json_out_new();
	struct fragments all = { 0 };
	unsigned free = 0;
	int r = count_free(&free, in, err);

	for (size_t i = 0; i < in->policy.nshapes && r == 0; i++)
		r = add_shape(&all, list, in, i, err);
	json_add_uint(&o, "generation", topo_generation(in->topo));
	json_add_uint(&o, "gpus", count_kind(in->topo, HOST_GPU));
	json_add_uint(&o, "free", free);
	add_fragmentation(&o, &all);
	json_add(&o, "shapes", list);
	if (r < 0) {
		json_object_put(o.obj);
		return r;
	}
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the capacity");
}
