/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A path as a JSON document (docs/openapi.json, Path). Unknown values are null, never 0. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strtab.h"
#include "host/inventory.h"
#include "topo/json.h"
#include "topo/path.h"

static const char *const via_names[TOPO_VIA_MAX_] = {
	[TOPO_VIA_LINK] = "link", [TOPO_VIA_SWITCH] = "switch", [TOPO_VIA_DEVICE] = "device", [TOPO_VIA_BUS] = "bus",
	[TOPO_VIA_ROOT] = "root-complex", [TOPO_VIA_NODES] = "interconnect", [TOPO_VIA_UNKNOWN] = "unknown",
};

static void add_bandwidth(struct json_out *o, const char *key, uint64_t v)
{
	if (v)
		json_add_uint(o, key, v);
	else
		json_add(o, key, NULL);
}

static void add_speed(struct json_out *o, const char *key, uint8_t speed)
{
	json_add_string(o, key, speed ? pcicap_speed_text(speed) : NULL);
}

static void add_link(struct json_out *o, const struct topo *t, const struct topo_hop *hop, bool narrowest)
{
	const struct topo_link *l = &hop->link;
	struct json_out j;

	if (hop->via != TOPO_VIA_LINK) {
		json_add(o, "link", NULL);
		return;
	}
	j = json_out_new();
	json_add_bdf(&j, "port", topo_at(t, l->upper)->fn->bdf);
	json_add_bdf(&j, "below", topo_at(t, l->lower)->fn->bdf);
	add_speed(&j, "speed", l->now.speed);
	topo_add_known(&j, "width", l->now.width ? l->now.width : -1);
	add_bandwidth(&j, "bandwidth", topo_link_bandwidth(l->now));
	add_speed(&j, "max_speed", l->most.speed);
	topo_add_known(&j, "max_width", l->most.width ? l->most.width : -1);
	add_bandwidth(&j, "max_bandwidth", topo_link_bandwidth(l->most));
	topo_add_bool(&j, "up", l->up);
	json_add_bool(&j, "bottleneck", narrowest);
	json_add_out(o, "link", &j);
}

static void add_hop(struct json_out *o, json_object *hops, const struct topo *t, const struct topo_walk *w, size_t i)
{
	const struct topo_hop *hop = &w->hop[i];
	const struct host_function *fn = hop->node == TOPO_NONE ? NULL : topo_at(t, hop->node)->fn;
	struct json_out h = json_out_new();
	char id[16];

	json_add_string(&h, "kind", fn ? host_kind_text(fn->facts->kind) : "host-bridge");
	json_add_bdf(&h, "bdf", fn ? fn->bdf : BDF_NONE);
	if (fn)
		(void)snprintf(id, sizeof(id), "%04x:%04x", fn->facts->vendor, fn->facts->device);
	json_add_string(&h, "id", fn ? id : NULL);
	topo_add_text(&h, "root_bus", fn ? fn->facts->root_bus : hop->root_bus);
	topo_add_known(&h, "numa_node", hop->numa_node);
	json_add_string(&h, "via", hop->via == TOPO_VIA_NONE ? NULL : strtab_text(via_names, TOPO_VIA_MAX_, (int)hop->via));
	add_link(&h, t, hop, i == w->narrowest);
	json_append_out(o, hops, &h);
}

/* true, false, or null where one of the two is not known */
static void add_same(struct json_out *o, const char *key, bool known, bool same)
{
	if (known)
		json_add_bool(o, key, same);
	else
		json_add(o, key, NULL);
}

static void add_places(struct json_out *o, const struct topo *t, const struct topo_walk *w)
{
	const struct host_facts *a = topo_at(t, w->hop[0].node)->fn->facts, *b = topo_at(t, w->hop[w->n - 1].node)->fn->facts;
	int socket = topo_same_socket(t, w->hop[0].node, w->hop[w->n - 1].node);

	add_same(o, "same_host_bridge", *a->root_bus && *b->root_bus, strcmp(a->root_bus, b->root_bus) == 0);
	add_same(o, "same_numa_node", a->numa_node >= 0 && b->numa_node >= 0, a->numa_node == b->numa_node);
	add_same(o, "same_socket", socket >= 0, socket == 1);
	topo_add_known(o, "numa_distance", w->distance ? w->distance : -1);
}

static int find(uint32_t *ret, const struct topo *t, struct bdf bdf, struct error *err)
{
	char text[BDF_TEXT_MAX];

	*ret = topo_find(t, bdf);
	if (*ret == TOPO_NONE)
		return error_set(err, -ENOENT, "there is no function %s on this host; velactl topo --all lists them",
				 bdf_text(text, bdf));
	return 0;
}

static json_object *walk_json(const struct topo *t, const struct topo_walk *w)
{
	struct json_out o = json_out_new();
	json_object *hops = json_object_new_array();

	json_add_uint(&o, "generation", topo_generation(t));
	json_add_bdf(&o, "from", topo_at(t, w->hop[0].node)->fn->bdf);
	json_add_bdf(&o, "to", topo_at(t, w->hop[w->n - 1].node)->fn->bdf);
	json_add_string(&o, "class", topo_class_text(w->class));
	add_bandwidth(&o, "bandwidth", w->bandwidth);
	add_bandwidth(&o, "max_bandwidth", w->most);
	json_add_bool(&o, "root_complex", w->root);
	add_places(&o, t, w);
	for (size_t i = 0; i < w->n; i++)
		add_hop(&o, hops, t, w, i);
	json_add(&o, "hops", hops);
	return json_finish(&o);
}

int topo_path_json(json_object **ret, const struct topo *t, struct bdf a, struct bdf b, struct error *err)
{
	struct arena arena = { 0 };
	json_object *o = NULL;
	struct topo_walk w;
	uint32_t from, to;
	int r = find(&from, t, a, err);

	if (r == 0)
		r = find(&to, t, b, err);
	if (r < 0)
		return r;
	r = topo_path_walk(&w, t, from, to, &arena);
	if (r == 0)
		o = walk_json(t, &w);
	arena_done(&arena);
	if (!o)
		return error_set(err, -ENOMEM, "no memory for a path");
	*ret = o;
	return 0;
}
