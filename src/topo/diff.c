/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compares the documents, so that no fact can be in them and not here. Functions that an update has not touched
 * share their record with the older inventory, and are not rendered. */
#include "topo/diff.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "host/inventory.h"
#include "topo/json.h"
#include "topo/topo.h"

struct diff {
	struct json_out out; /* of which only `failed` is used */
	json_object    *items;
	const char     *bdf, *kind; /* of what is being compared; NULL: the host */
};

static void add_item(struct diff *d, const char *what, const char *field, json_object *old, json_object *new)
{
	struct json_out item = json_out_new();

	json_add_string(&item, "bdf", d->bdf);
	json_add_string(&item, "kind", d->kind);
	json_add_string(&item, "what", what);
	json_add_string(&item, "field", field);
	item.failed |= json_object_object_add(item.obj, "old", json_object_get(old)) < 0; /* NULL is null */
	item.failed |= json_object_object_add(item.obj, "new", json_object_get(new)) < 0;
	json_append_out(&d->out, d->items, &item);
}

static void compare(struct diff *d, const char *field, json_object *a, json_object *b);

static void compare_member(struct diff *d, const char *field, const char *key, json_object *a, json_object *b)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s%s%s", field ? field : "", field ? "." : "", key);
	compare(d, path, json_object_object_get(a, key), json_object_object_get(b, key));
}

/* json_add() wants keys that outlive the object; these do not. Takes value. */
static void add_named(struct json_out *o, const char *key, json_object *value)
{
	if (value && json_object_object_add(o->obj, key, value) == 0)
		return;
	json_object_put(value);
	o->failed = true;
}

/* What an item of a list is known by: its name, or the number of a port. false: by nothing. */
static bool item_name(char buf[64], json_object *item)
{
	json_object *name = NULL, *port = NULL;

	if (!json_object_is_type(item, json_type_object))
		return false;
	if (json_object_object_get_ex(item, "name", &name))
		(void)snprintf(buf, 64, "%s", json_object_get_string(name));
	else if (json_object_object_get_ex(item, "port", &port))
		(void)snprintf(buf, 64, "port%s", json_object_get_string(port));
	return name || port;
}

/* A list as an object by its items' names; NULL: it is no such list. */
static json_object *by_name(struct diff *d, json_object *list)
{
	struct json_out o = json_out_new();
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0, i;

	for (i = 0; i < n; i++) {
		json_object *item = json_object_array_get_idx(list, i);
		char name[64];

		if (!item_name(name, item))
			break;
		add_named(&o, name, json_object_get(item));
	}
	d->out.failed |= o.failed;
	if (i == n && json_object_is_type(list, json_type_array))
		return json_finish(&o);
	json_object_put(o.obj);
	return NULL;
}

/* Objects by their members, "sriov.num", and lists by the names in them, "netdevs.eth0.mtu"; what is not there has
 * none. All else as a whole. */
static void compare(struct diff *d, const char *field, json_object *a, json_object *b)
{
	bool oa = json_object_is_type(a, json_type_object), ob = json_object_is_type(b, json_type_object);

	if (json_object_equal(a, b))
		return;
	if (json_object_is_type(a, json_type_array) && json_object_is_type(b, json_type_array)) {
		auto_(json_object_put) json_object *x = by_name(d, a), *y = by_name(d, b);

		if (x && y)
			compare(d, field, x, y);
		else
			add_item(d, "changed", field, a, b);
		return;
	}
	if (!(oa || ob) || (!oa && a) || (!ob && b)) {
		add_item(d, "changed", field, a, b);
		return;
	}
	if (oa) {
		json_object_object_foreach(a, key, value) {
			(void)value;
			compare_member(d, field, key, a, b);
		}
	}
	if (ob) {
		json_object_object_foreach(b, key, value) {
			(void)value;
			if (!oa || !json_object_object_get_ex(a, key, NULL))
				compare_member(d, field, key, a, b);
		}
	}
}

/* ---- functions -------------------------------------------------------------------------------------- */

static struct bdf parent_of(const struct topo *t, const struct topo_node *n)
{
	return n->parent == TOPO_NONE ? BDF_NONE : topo_at(t, n->parent)->fn->bdf;
}

static bool same_driver(const char *a, const char *b) /* NULL: unknown */
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* One record of both: an update has not touched it. Never the other way round: an equal one that was read anew. */
static bool untouched(const struct topo *old, const struct topo_node *a, const struct topo *new, const struct topo_node *b)
{
	return a->fn->facts == b->fn->facts && a->fn->iommu_group == b->fn->iommu_group && a->fn->vf_index == b->fn->vf_index &&
	       bdf_eq(parent_of(old, a), parent_of(new, b)) &&
	       same_driver(host_driver_of(topo_inventory(old), a->fn), host_driver_of(topo_inventory(new), b->fn));
}

static void name(struct diff *d, char bdf[BDF_TEXT_MAX], const struct topo_node *n)
{
	d->bdf = bdf_text(bdf, n->fn->bdf);
	d->kind = host_kind_text(n->fn->facts->kind);
}

static void add_function(struct diff *d, const char *what, const struct topo_node *n)
{
	char bdf[BDF_TEXT_MAX];

	name(d, bdf, n);
	add_item(d, what, NULL, NULL, NULL);
	d->bdf = d->kind = NULL;
}

static void compare_nodes(struct diff *d, const struct topo *old, const struct topo_node *a, const struct topo *new,
			  const struct topo_node *b)
{
	auto_(json_object_put) json_object *x = NULL, *y = NULL;
	char bdf[BDF_TEXT_MAX];

	if (untouched(old, a, new, b))
		return;
	name(d, bdf, b);
	x = topo_node_json(old, a);
	y = topo_node_json(new, b);
	if (x && y)
		compare(d, NULL, x, y);
	else
		d->out.failed = true;
	d->bdf = d->kind = NULL;
}

static void compare_functions(struct diff *d, const struct topo *old, const struct topo *new)
{
	uint32_t i = 0, k = 0;

	while (i < topo_count(old) || k < topo_count(new)) {
		const struct topo_node *a = i < topo_count(old) ? topo_at(old, i) : NULL;
		const struct topo_node *b = k < topo_count(new) ? topo_at(new, k) : NULL;
		int c = !a ? 1 : !b ? -1 : bdf_cmp(a->fn->bdf, b->fn->bdf);

		if (c == 0)
			compare_nodes(d, old, a, new, b);
		else
			add_function(d, c < 0 ? "removed" : "added", c < 0 ? a : b);
		i += c <= 0;
		k += c >= 0;
	}
}

/* ---- what is not of one function ---------------------------------------------------------------------- */

/* {"BDF" or "-": {"ID": [TEXT, ...]}} */
static json_object *findings_json(struct diff *d, const struct inventory *inv)
{
	struct json_out o = json_out_new();

	for (size_t i = 0; i < inv->nfindings; i++) {
		const struct host_finding *f = &inv->finding[i];
		struct json_out of = { 0 };
		char bdf[BDF_TEXT_MAX];
		json_object *texts;

		if (!json_object_object_get_ex(o.obj, bdf_text(bdf, f->bdf), &of.obj)) {
			of = json_out_new();
			add_named(&o, bdf, of.obj);
			if (o.failed)
				break;
		}
		if (!json_object_object_get_ex(of.obj, f->id, &texts)) {
			texts = json_object_new_array();
			add_named(&of, f->id, texts);
		}
		json_append(&of, texts, json_object_new_string(f->text));
		o.failed |= of.failed;
	}
	d->out.failed |= o.failed;
	return o.obj;
}

static void compare_findings(struct diff *d, json_object *a, json_object *b)
{
	json_object_object_foreach(a, key, of) {
		d->bdf = strcmp(key, "-") == 0 ? NULL : key;
		compare(d, "finding", of, json_object_object_get(b, key));
	}
	json_object_object_foreach(b, added, more) {
		d->bdf = strcmp(added, "-") == 0 ? NULL : added;
		if (!json_object_object_get_ex(a, added, NULL))
			compare(d, "finding", NULL, more);
	}
	d->bdf = NULL;
}

/* What paths and plans take from NUMA nodes and never changes by use. */
static json_object *nodes_json(struct diff *d, const struct inventory *inv)
{
	struct json_out o = json_out_new();

	for (size_t i = 0; i < inv->nnodes; i++) {
		struct json_out n = json_out_new();
		json_object *distance = json_object_new_array();
		struct sbuf cpus = { 0 };
		char key[16];

		cpuset_write(&cpus, &inv->node[i].cpus);
		json_add_string(&n, "cpus", cpus.text ? cpus.text : "");
		n.failed |= cpus.failed;
		sbuf_done(&cpus);
		for (size_t k = 0; k < inv->nnodes; k++)
			json_append(&n, distance, json_object_new_int(inv->node[i].distance[k]));
		json_add(&n, "distance", distance);
		(void)snprintf(key, sizeof(key), "node%d", inv->node[i].id);
		o.failed |= n.failed;
		add_named(&o, key, n.obj);
	}
	d->out.failed |= o.failed;
	return o.obj;
}

static const struct host_nic *nic_of(const struct inventory *inv, struct bdf bdf)
{
	for (size_t i = 0; i < inv->system.nnics; i++)
		if (bdf_eq(inv->system.nic[i].bdf, bdf))
			return &inv->system.nic[i];
	return NULL;
}

/* Interfaces, ports and firmware of NICs that are in both; of the others there is nothing to compare with. */
static void compare_nics(struct diff *d, const struct inventory *old, const struct inventory *new)
{
	char bdf[BDF_TEXT_MAX];

	for (size_t i = 0; i < new->system.nnics && old->system.nic != new->system.nic; i++) {
		const struct host_nic *was = nic_of(old, new->system.nic[i].bdf);
		auto_(json_object_put) json_object *a = was ? topo_nic_json(was) : NULL, *b = NULL;

		if (!was)
			continue;
		b = topo_nic_json(&new->system.nic[i]);
		d->out.failed |= !a || !b;
		d->bdf = bdf_text(bdf, was->bdf);
		d->kind = host_kind_text(HOST_NIC);
		if (a && b)
			compare(d, NULL, a, b);
	}
	d->bdf = d->kind = NULL;
}

static void tell_hosts(struct diff *d, const struct topo *old, const struct topo *new)
{
	auto_(json_object_put) json_object *a = nodes_json(d, topo_inventory(old)), *b = nodes_json(d, topo_inventory(new));
	auto_(json_object_put) json_object *x = findings_json(d, topo_inventory(old)), *y = findings_json(d, topo_inventory(new));

	if (d->out.failed)
		return;
	compare(d, NULL, a, b);
	compare_findings(d, x, y);
}

static bool same_nodes(const struct inventory *a, const struct inventory *b)
{
	bool same = a->nnodes == b->nnodes;

	for (size_t i = 0; same && i < a->nnodes; i++)
		same = a->node[i].id == b->node[i].id && memcmp(&a->node[i].cpus, &b->node[i].cpus, sizeof(a->node[i].cpus)) == 0 &&
		       memcmp(a->node[i].distance, b->node[i].distance, a->nnodes * sizeof(a->node[i].distance[0])) == 0;
	return same;
}

static bool same_findings(const struct inventory *a, const struct inventory *b)
{
	bool same = a->nfindings == b->nfindings;

	for (size_t i = 0; same && i < a->nfindings; i++)
		same = bdf_eq(a->finding[i].bdf, b->finding[i].bdf) && strcmp(a->finding[i].id, b->finding[i].id) == 0 &&
		       strcmp(a->finding[i].text, b->finding[i].text) == 0;
	return same;
}

static void compare_hosts(struct diff *d, const struct topo *old, const struct topo *new)
{
	if (!same_nodes(topo_inventory(old), topo_inventory(new)) || !same_findings(topo_inventory(old), topo_inventory(new)))
		tell_hosts(d, old, new);
}

json_object *topo_diff(const struct topo *old, const struct topo *new)
{
	struct diff d = { .items = json_object_new_array() };

	if (!d.items)
		return NULL;
	compare_functions(&d, old, new);
	compare_nics(&d, topo_inventory(old), topo_inventory(new));
	compare_hosts(&d, old, new);
	if (d.out.failed) {
		json_object_put(d.items);
		return NULL;
	}
	return d.items;
}

json_object *topo_change_json(uint64_t generation, int64_t time, json_object *items)
{
	struct json_out o = json_out_new();

	json_add_uint(&o, "generation", generation);
	json_add_time(&o, "time", time);
	json_add(&o, "items", items);
	return json_finish(&o);
}
