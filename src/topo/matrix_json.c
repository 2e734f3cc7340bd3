/* SPDX-License-Identifier: GPL-2.0-or-later */
/* "matrix": the path class of every pair of devices. It grows with the square of their number, so it has an end. */
#include <json-c/json.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "host/inventory.h"
#include "topo/json.h"
#include "topo/topo.h"

#define DEVICES_MAX 256

struct devices {
	uint32_t at[DEVICES_MAX]; /* BDF order */
	size_t   n, left_out;
};

/* Where there are too many, drives go first, then NVSwitches and NICs. */
static void collect(struct devices *d, const struct topo *t)
{
	static const enum host_kind order[] = { HOST_GPU, HOST_NIC, HOST_NVSWITCH, HOST_NVME };
	size_t count[HOST_KIND_MAX_] = { 0 }, take[HOST_KIND_MAX_] = { 0 }, room = DEVICES_MAX;

	for (uint32_t i = 0; i < topo_count(t); i++)
		count[topo_at(t, i)->fn->facts->kind]++;
	for (size_t o = 0; o < ARRAY_SIZE(order); o++) {
		size_t n = count[order[o]];

		take[order[o]] = n < room ? n : room;
		d->left_out += n - take[order[o]];
		room -= take[order[o]];
	}
	for (uint32_t i = 0; i < topo_count(t); i++) {
		enum host_kind k = topo_at(t, i)->fn->facts->kind;

		if (take[k]) {
			take[k]--;
			d->at[d->n++] = i;
		}
	}
}

static void append_known(struct json_out *o, json_object *array, int v)
{
	if (v >= 0)
		json_append(o, array, json_object_new_int(v));
	else if (!array || json_object_array_add(array, NULL) < 0) /* json-c: a NULL item is null */
		o->failed = true;
}

static void add_rows(struct json_out *o, const struct topo *t, const struct devices *d)
{
	json_object *class[TOPO_CLASS_MAX_], *rows = json_object_new_array();

	/* the cells of one class are one object: json-c counts references */
	for (int c = 0; c < TOPO_CLASS_MAX_; c++)
		class[c] = json_object_new_string(topo_class_text((enum topo_class)c));
	for (size_t a = 0; a < d->n; a++) {
		json_object *row = json_object_new_array_ext((int)d->n);

		for (size_t b = 0; b < d->n; b++)
			json_append(o, row, json_object_get(class[topo_path(t, d->at[a], d->at[b])]));
		json_append(o, rows, row);
	}
	for (int c = 0; c < TOPO_CLASS_MAX_; c++)
		json_object_put(class[c]);
	json_add(o, "rows", rows);
}

static void add_cpus(struct json_out *o, json_object *cpus, const struct topo *t, const struct host_function *fn)
{
	const struct host_node *n = host_node_find(topo_inventory(t), fn->facts->numa_node);
	struct sbuf text = { 0 };

	if (!n || !n->cpus_known) { /* json-c: a NULL item is null */
		o->failed = json_object_array_add(cpus, NULL) < 0 || o->failed;
		return;
	}
	cpuset_write(&text, &n->cpus);
	o->failed = o->failed || text.failed;
	json_append(o, cpus, json_object_new_string(text.text ? text.text : ""));
	sbuf_done(&text);
}

void topo_add_matrix(struct json_out *o, const struct topo *t)
{
	json_object *devices = json_object_new_array(), *cpus = json_object_new_array();
	json_object *numa = json_object_new_array(), *rails = json_object_new_array();
	struct json_out m = json_out_new();
	struct devices d = { .n = 0 };
	char text[BDF_TEXT_MAX];

	collect(&d, t);
	for (size_t i = 0; i < d.n; i++) {
		const struct topo_node *node = topo_at(t, d.at[i]);

		json_append(&m, devices, json_object_new_string(bdf_text(text, node->fn->bdf)));
		add_cpus(&m, cpus, t, node->fn);
		append_known(&m, numa, node->fn->facts->numa_node);
		append_known(&m, rails, node->rail);
	}
	json_add(&m, "devices", devices);
	add_rows(&m, t, &d);
	json_add(&m, "cpus", cpus);
	json_add(&m, "numa", numa);
	json_add(&m, "rails", rails);
	json_add_uint(&m, "left_out", d.left_out);
	json_add_out(o, "matrix", &m);
}
