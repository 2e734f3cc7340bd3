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

/* As it would be asked for. */
static int ask(struct plan_request *ret, const struct topo *t, unsigned size, struct error *err)
{
	struct json_out o = json_out_new();
	auto_(json_object_put) json_object *doc = NULL;

	json_add_uint(&o, "gpus", size);
	json_add_uint(&o, "vfs_per_gpu", count_kind(t, HOST_NIC) > 0);
	json_add_string(&o, "max_path", "PIX");
	json_add_string(&o, "gdr", "off");
	doc = json_finish(&o);
	return doc ? plan_request_read(ret, doc, err) : error_set(err, -ENOMEM, "no memory for the capacity");
}

static int count(unsigned *ret, uint64_t *left, const struct plan_input *in, unsigned most, struct error *err)
{
	struct error too_many = ERROR_INIT;
	int r = plan_gang_count(ret, left, in, most, &too_many);

	if (r == -E2BIG) {
		*ret = UNCOUNTED;
		r = 0;
	}
	return r < 0 ? error_set(err, r, "%s", too_many.text) : r;
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

/* Devices that are in none of the bundles, each with the rule that keeps it out. */
static json_object *blocked(const struct place *p, const struct plan *why, const struct shape *s)
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
	if (s->size <= gpus)
		say_left(out, p, s->left, s->size);
	if (s->size <= gpus && s->left)
		plan_partitions_say(&p->partitions, p->in->topo, out, s->left, s->size);
	list = plan_reasons_json(out->reason, out->nreasons);
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

static int add_shape(struct json_out *o, json_object *list, const struct plan_input *now, unsigned size, bool first, struct error *err)
{
	struct plan_request request;
	struct plan_input in = *now, none = *now;
	auto_(place_close) struct place *p = NULL;
	struct plan *why = calloc(1, sizeof(*why));
	struct shape s = { .size = size };
	struct json_out one = json_out_new();
	uint64_t ignore;
	int r = why ? ask(&request, now->topo, size, err) : error_set(err, -ENOMEM, "no memory for the capacity");

	if (r < 0) {
		json_object_put(one.obj);
		free(why);
		return r;
	}
	in.request = none.request = &request;
	none.ntaken = 0;
	r = place_open(&p, why, &in, err);
	if (r == 0)
		r = count(&s.now, &s.left, &in, p->ngpus / size, err);
	if (r == 0)
		r = count(&s.empty, &ignore, &none, p->ngpus / size, err);
	if (r == 0 && first) {
		json_add_uint(o, "gpus", count_kind(now->topo, HOST_GPU));
		json_add_int(o, "free", __builtin_popcountll(p->usable));
		add_fragmentation(o, p);
	}
	json_add_uint(&one, "gpus", size);
	json_add_uint(&one, "vfs_per_gpu", request.vfs_per_gpu);
	json_add_string(&one, "max_path", topo_class_text(request.max_path));
	add_count(&one, "bundles", s.now);
	add_count(&one, "empty", s.empty);
	if (r == 0)
		json_add_made(&one, "blocked", blocked(p, why, &s));
	json_append_out(o, list, &one);
	plan_free(why);
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
		r = add_shape(&o, list, in, in->policy.shape[i].size, i == 0, err);
	json_add(&o, "shapes", list);
	if (r < 0) {
		json_object_put(o.obj);
		return r;
	}
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the capacity");
}
