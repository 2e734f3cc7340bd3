/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rails. A rail has the number of its GPU, counted in BDF order, so that hosts of one kind agree, even if one
 * of them lacks a NIC.
 *
 * GPUs pair at one path class: the nearest at which any GPU of the host has a NIC. GPUs that reach the same NICs
 * at that class are a group. In a group with at least as many NIC ports as GPUs each GPU, in BDF order,
 * takes the port with the widest path (links as good as both ends can do: an idle GPU's link is slow), then of a
 * card that no GPU has yet, then the first by BDF. In a group with fewer ports nobody pairs: which GPU should go
 * without is not a fact. A port that is left over joins the rail of its card if that has just one. */
#include "topo/rail.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/json.h"
#include "host/inventory.h"
#include "topo/path.h"

/* A host has 16 GPUs at most today. More than this is no host, and must not cost the square of its number. */
#define GPUS_MAX 64
#define NICS_MAX 256

struct rails {
	const struct topo *t;
	struct topo_node  *node;
	uint32_t           gpu[GPUS_MAX], nic[NICS_MAX];
	size_t             ngpus, nnics;
	uint8_t            class[GPUS_MAX][NICS_MAX];
	enum topo_class    level;
	bool               seen[GPUS_MAX]; /* its group is done */
};

static bool collect(struct rails *r)
{
	for (uint32_t i = 0; i < topo_count(r->t); i++) {
		enum host_kind kind = topo_at(r->t, i)->fn->facts->kind;

		if ((kind == HOST_GPU && r->ngpus == GPUS_MAX) || (kind == HOST_NIC && r->nnics == NICS_MAX))
			return false;
		if (kind == HOST_GPU)
			r->gpu[r->ngpus++] = i;
		else if (kind == HOST_NIC)
			r->nic[r->nnics++] = i;
	}
	r->level = TOPO_SYS;
	for (size_t g = 0; g < r->ngpus; g++)
		for (size_t n = 0; n < r->nnics; n++) {
			enum topo_class c = topo_path(r->t, r->gpu[g], r->nic[n]);

			r->class[g][n] = (uint8_t)c;
			r->level = c < r->level ? c : r->level;
		}
	return r->level < TOPO_SYS;
}

static bool same_card(const struct rails *r, size_t a, size_t b)
{
	return bdf_same_device(topo_at(r->t, r->nic[a])->fn->bdf, topo_at(r->t, r->nic[b])->fn->bdf);
}

/* Some port of its card is on a rail already. */
static bool card_used(const struct rails *r, size_t nic)
{
	for (size_t n = 0; n < r->nnics; n++)
		if (r->node[r->nic[n]].rail >= 0 && same_card(r, n, nic))
			return true;
	return false;
}

static int width_of(uint64_t *ret, const struct rails *r, size_t gpu, size_t nic)
{
	struct arena arena = { 0 };
	struct topo_walk w = { 0 };
	int e = topo_path_walk(&w, r->t, r->gpu[gpu], r->nic[nic], &arena);

	arena_done(&arena);
	*ret = w.most;
	return e;
}

static int pair(struct rails *r, size_t gpu)
{
	size_t best = r->nnics;
	uint64_t best_width = 0;
	bool best_used = false;

	for (size_t n = 0; n < r->nnics; n++) {
		bool used = card_used(r, n);
		uint64_t width;

		if (r->class[gpu][n] != r->level || r->node[r->nic[n]].rail >= 0)
			continue;
		if (width_of(&width, r, gpu, n) < 0)
			return -ENOMEM;
		if (best < r->nnics && (width < best_width || (width == best_width && (used || !best_used))))
			continue;
		best = n;
		best_width = width;
		best_used = used;
	}
	if (best < r->nnics)
		r->node[r->nic[best]].rail = r->node[r->gpu[gpu]].rail = (int32_t)gpu;
	return 0;
}

/* Have the two a NIC in common at this class? */
static bool one_group(const struct rails *r, size_t a, size_t b)
{
	for (size_t n = 0; n < r->nnics; n++)
		if (r->class[a][n] == r->level && r->class[b][n] == r->level)
			return true;
	return false;
}

static int pair_group(struct rails *r, size_t first)
{
	size_t member[GPUS_MAX], gpus = 0, nics = 0;

	for (size_t g = first; g < r->ngpus; g++)
		if (!r->seen[g] && one_group(r, first, g)) {
			r->seen[g] = true;
			member[gpus++] = g;
		}
	for (size_t n = 0; n < r->nnics; n++)
		nics += r->class[first][n] == r->level;
	for (size_t i = 0; i < gpus && gpus <= nics; i++)
		if (pair(r, member[i]) < 0)
			return -ENOMEM;
	return 0;
}

/* The rail of a card with one rail; -1: it has none, or several. */
static int32_t rail_of_card(const struct rails *r, size_t nic, const int32_t *rail)
{
	int32_t found = -1;

	for (size_t n = 0; n < r->nnics; n++) {
		if (!same_card(r, n, nic) || rail[n] < 0 || rail[n] == found)
			continue;
		if (found >= 0)
			return -1;
		found = rail[n];
	}
	return found;
}

static void join_cards(struct rails *r)
{
	int32_t rail[NICS_MAX]; /* of pairs only */

	for (size_t n = 0; n < r->nnics; n++)
		rail[n] = r->node[r->nic[n]].rail;
	for (size_t n = 0; n < r->nnics; n++)
		if (rail[n] < 0)
			r->node[r->nic[n]].rail = rail_of_card(r, n, rail);
}

int topo_rails_set(const struct topo *t, struct topo_node *node)
{
	autofree struct rails *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->t = t;
	r->node = node;
	for (uint32_t i = 0; i < topo_count(t); i++)
		node[i].rail = -1;
	if (!collect(r))
		return 0;
	for (size_t g = 0; g < r->ngpus; g++)
		if (!r->seen[g] && pair_group(r, g) < 0)
			return -ENOMEM;
	join_cards(r);
	return 0;
}

/* ---- NVLink ------------------------------------------------------------------------------------- */

#define NVIDIA 0x10de

/* The device id that all NVIDIA GPUs of the host have; -1: none, or several. */
static int nvidia_model(const struct topo *t, bool *switches)
{
	int model = -1;
	bool mixed = false;

	*switches = false;
	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct host_facts *f = topo_at(t, i)->fn->facts;

		*switches = *switches || f->kind == HOST_NVSWITCH;
		if (f->kind != HOST_GPU || f->vendor != NVIDIA)
			continue;
		mixed = mixed || (model >= 0 && model != f->device);
		model = f->device;
	}
	return mixed ? -1 : model;
}

static int domain_of(const struct topo *t, const struct host_function *fn, int model, bool switches)
{
	const struct host_facts *f = fn->facts;

	if (f->kind == HOST_GPU && host_fabric_module(&topo_inventory(t)->system.fabric, fn->bdf) >= 0)
		return 0;
	if (!switches || (f->kind != HOST_NVSWITCH && f->kind != HOST_GPU))
		return -1;
	return f->kind == HOST_NVSWITCH || (f->vendor == NVIDIA && f->device == model) ? 0 : -1;
}

int topo_nvlink_domain(const struct topo *t, uint32_t i)
{
	bool switches;
	int model = nvidia_model(t, &switches);

	return domain_of(t, topo_at(t, i)->fn, model, switches);
}

/* ---- the document ------------------------------------------------------------------------------- */

static void add_number(struct json_out *o, const char *key, int v)
{
	if (v < 0)
		json_add(o, key, NULL);
	else
		json_add_int(o, key, v);
}

/* The NIC ports of a rail, and how near the first paired one is. */
static void add_nics(struct json_out *o, const struct topo *t, uint32_t gpu, const uint32_t *nic, size_t n)
{
	json_object *list = json_object_new_array();
	enum topo_class class = TOPO_CLASS_MAX_;
	char text[BDF_TEXT_MAX];

	for (size_t i = 0; i < n; i++) {
		enum topo_class c;

		if (topo_at(t, nic[i])->rail != topo_at(t, gpu)->rail)
			continue;
		c = topo_path(t, gpu, nic[i]);
		class = c < class ? c : class;
		json_append(o, list, json_object_new_string(bdf_text(text, topo_at(t, nic[i])->fn->bdf)));
	}
	json_add(o, "nics", list);
	json_add_string(o, "path", class == TOPO_CLASS_MAX_ ? NULL : topo_class_text(class));
}

json_object *topo_gpus_json(const struct topo *t)
{
	struct json_out o = { .obj = json_object_new_array() };
	uint32_t nic[NICS_MAX];
	bool switches;
	int model = nvidia_model(t, &switches);
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++)
		if (topo_at(t, i)->fn->facts->kind == HOST_NIC && topo_at(t, i)->rail >= 0)
			nic[n++] = i; /* no more of them than NICS_MAX are on rails */
	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct topo_node *node = topo_at(t, i);
		struct json_out g;
		char text[BDF_TEXT_MAX];

		if (node->fn->facts->kind != HOST_GPU)
			continue;
		g = json_out_new();
		json_add_string(&g, "bdf", bdf_text(text, node->fn->bdf));
		add_number(&g, "rail", node->rail);
		add_nics(&g, t, i, nic, node->rail < 0 ? 0 : n);
		add_number(&g, "nvlink_domain", domain_of(t, node->fn, model, switches));
		json_append_out(&o, o.obj, &g);
	}
	return json_finish(&o);
}
