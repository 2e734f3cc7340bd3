/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan/capacity.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/gang.h"
#include "plan/place.h"

#define UNCOUNTED UINT32_MAX

struct shape {
	unsigned size, now, empty; /* UNCOUNTED: too many ways to look at */
	uint64_t left;             /* GPUs that could be given and are in none of the bundles */
};

static unsigned count_kind(const struct topo *t, enum host_kind kind)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++)
		n += topo_at(t, i)->fn->facts->kind == kind;
	return n;
}

static int count(unsigned *ret, uint64_t *left, const struct plan_input *in, unsigned most, struct error *err)
{
	struct error too_many = ERROR_INIT;
	int r = plan_gang_count(ret, left, in, most, &too_many);

	if (r == -ETIME) {
		*ret = UNCOUNTED;
		r = 0;
	}
	return r < 0 ? error_set(err, r, "%s", too_many.text) : r;
}

/* What keeps more from fitting: with less of it there would be more. */
static int say_short(struct plan *out, const struct plan_input *in, const struct shape *s, unsigned most, struct error *err)
{
	static const struct { const char *rule, *needed, *what; } what[] = {
		{ "capacity.cpus", "fewer vCPUs of each, or cores given back", "CPUs" },
		{ "capacity.memory", "less memory of each, or memory given back", "memory" },
		{ "capacity.routes", "gdr preferred, or what velactl acs plan says", "routes between GPUs and NICs" },
	};
	const struct plan_request *req = in->request;
	uint64_t page = req->hugepages ? req->hugepages : UINT64_C(64) << 20, ignore;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(what) && r == 0 && s->now != UNCOUNTED && s->now < most; i++) {
		struct plan_request less = *req; /* its strings stay the request's */
		struct plan_input with = *in;
		unsigned n = 0;

		with.request = &less;
		less.vcpus = i == 0 ? req->gpus : req->vcpus;
		less.memory = i == 1 ? page * req->gpus : req->memory;
		less.gdr = i == 2 ? PLAN_GDR_OFF : req->gdr;
		r = count(&n, &ignore, &with, most, err);
		if (r == 0 && n != UNCOUNTED && n > s->now)
			place_reason(out, what[i].rule, BDF_NONE, what[i].needed, "%u bundle%s of %u GPU%s would fit if it were not for %s", n,
				     n == 1 ? "" : "s", s->size, s->size == 1 ? "" : "s", what[i].what);
	}
	return r;
}

/* ---- what blocks more --------------------------------------------------------------------------- */

static bool is_of_interest(const struct topo *t, const char *device)
{
	struct bdf b;
	uint32_t at = bdf_parse(&b, device) ? topo_find(t, b) : TOPO_NONE;

	return at != TOPO_NONE && (topo_at(t, at)->fn->facts->kind == HOST_GPU || topo_at(t, at)->fn->facts->kind == HOST_NIC);
}

static void say_left(struct plan *out, const struct place *p, uint64_t left, unsigned size)
{
	uint64_t alone = 0;

	for (uint32_t g = 0; g < p->ngpus && g < PLACE_GPUS_MAX && p->want.vfs_per_gpu; g++)
		alone |= (uint64_t)(p->gpu[g].nearest > p->want.max_path) << g;
	for (left = left & alone ? left & alone : left; left; left &= left - 1) { /* the others lack these */
		uint32_t g = (uint32_t)__builtin_ctzll(left);
		struct bdf gpu = topo_at(p->in->topo, p->gpu[g].node)->fn->bdf;

		if (alone >> g & 1)
			place_reason(out, "capacity.no-nic", gpu, "a NIC port with free VFs below its switch",
				     "it is free, but its nearest free VF is at %s", topo_class_text(p->gpu[g].nearest));
		else
			place_reason(out, "capacity.left", gpu, "other GPUs free, with NICs of their own",
				     "it is free, but in no further bundle of %u", size);
	}
}

static bool has_short(const struct plan *out)
{
	for (size_t i = 0; i < out->nreasons; i++)
		if (strncmp(out->reason[i].rule, "capacity.", 9) == 0)
			return true;
	return false;
}

/* Devices that are in none of the bundles, each with the rule that keeps it out. */
static json_object *blocked(const struct place *p, const struct plan *why, const struct shape *s, struct error *err)
{
	struct plan *out = calloc(1, sizeof(*out));
	unsigned gpus = count_kind(p->in->topo, HOST_GPU);
	json_object *list = NULL;

	if (!out)
		return NULL;
	if (s->size > gpus)
		place_reason(out, "capacity.size", BDF_NONE, "a bigger host", "the host has %u GPU%s", gpus, gpus == 1 ? "" : "s");
	for (size_t i = 0; i < why->nreasons && s->now != gpus / s->size; i++)
		if (!*why->reason[i].device || is_of_interest(p->in->topo, why->reason[i].device))
			out->reason[out->nreasons++] = why->reason[i];
	if (s->size <= gpus && say_short(out, p->in, s, gpus / s->size, err) == 0) {
		if (!has_short(out))
			say_left(out, p, s->left, s->size);
		if (s->left)
			plan_partitions_say(&p->partitions, p->in->topo, out, s->left, s->size);
		list = plan_reasons_json(out->reason, out->nreasons);
	} else if (s->size > gpus) {
		list = plan_reasons_json(out->reason, out->nreasons);
	}
	plan_free(out);
	return list;
}

/* ---- the document ------------------------------------------------------------------------------- */

static void add_count(struct json_out *o, const char *key, unsigned n)
{
	if (n == UNCOUNTED)
		json_add(o, key, NULL);
	else
		json_add_uint(o, key, n);
}

/* FGD's measure (USENIX ATC'23) on whole bundles: of the free GPUs, weighted by how often each shape is asked for, the part
 * that can be in no bundle of it. null: no free GPU, or too many to weigh. */
static void add_fragmentation(struct json_out *o, const struct place *p)
{
	uint32_t weights = 0, free = (uint32_t)__builtin_popcountll(p->usable);
	char text[16];
	double f;

	for (size_t i = 0; i < p->host.nshapes && p->host.cap[0]; i++)
		weights += p->host.shape[i].weight;
	if (!weights || !free) {
		json_add(o, "fragmentation", NULL);
		return;
	}
	f = (double)solve_leftover(&p->host, p->usable) / ((double)weights * free);
	(void)snprintf(text, sizeof(text), "%.3f", f);
	json_add_made(o, "fragmentation", json_object_new_double_s(f, text));
}

static void add_head(struct json_out *o, const struct place *p)
{
	json_add_uint(o, "gpus", count_kind(p->in->topo, HOST_GPU));
	json_add_int(o, "free", __builtin_popcountll(p->usable));
	add_fragmentation(o, p);
}

static int add_counts(struct json_out *o, json_object *list, const struct plan_input *now, struct shape *s, bool first, struct error *err)
{
	struct plan_input none = *now;
	auto_(place_close) struct place *p = NULL;
	auto_(plan_free) struct plan *why = calloc(1, sizeof(*why));
	struct json_out one = json_out_new();
	uint64_t ignore;
	int r = why ? place_open(&p, why, now, err) : error_set(err, -ENOMEM, "no memory for the capacity");

	none.ntaken = none.nrooms = 0;
	none.vacant = true;
	if (r == 0)
		r = count(&s->now, &s->left, now, p->ngpus / s->size, err);
	if (r == 0)
		r = count(&s->empty, &ignore, &none, p->ngpus / s->size, err);
	if (r < 0) {
		json_object_put(one.obj);
		return r;
	}
	if (first)
		add_head(o, p);
	json_add_uint(&one, "gpus", s->size);
	json_add_uint(&one, "vfs_per_gpu", now->request->vfs_per_gpu);
	json_add_string(&one, "max_path", topo_class_text(now->request->max_path));
	json_add_made(&one, "request", plan_request_json(now->request));
	add_count(&one, "bundles", s->now);
	add_count(&one, "empty", s->empty);
	json_add_made(&one, "blocked", blocked(p, why, s, err));
	json_append_out(o, list, &one);
	return err->code;
}

static int add_shape(struct json_out *o, json_object *list, const struct plan_input *now, size_t i, struct error *err)
{
	struct plan_request request;
	struct plan_input in = *now;
	struct shape s = { .size = now->policy.shape[i].size };
	int r = plan_shape_request(&request, &now->policy, i, count_kind(now->topo, HOST_NIC) > 0, err);

	if (r < 0)
		return r;
	in.request = &request;
	r = add_counts(o, list, &in, &s, i == 0, err);
	plan_request_done(&request);
	return r;
}

int plan_capacity_json(json_object **ret, const struct plan_input *in, struct error *err)
{
	json_object *list = json_object_new_array();
	struct json_out o = json_out_new();
	int r = 0;

	json_add_uint(&o, "generation", topo_generation(in->topo));
	for (size_t i = 0; i < in->policy.nshapes && r == 0; i++)
		r = add_shape(&o, list, in, i, err);
	json_add(&o, "shapes", list);
	if (r < 0) {
		json_object_put(o.obj);
		return r;
	}
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the capacity");
}
