/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The topology as a JSON document (docs/openapi.json). Unknown values are null, never 0. */
#include "topo/json.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "host/inventory.h"
#include "topo/rail.h"
#include "topo/topo.h"

void topo_add_text(struct json_out *o, const char *key, const char *value)
{
	json_add_string(o, key, value && *value ? value : NULL);
}

void topo_add_bdf(struct json_out *o, const char *key, struct bdf b)
{
	char text[BDF_TEXT_MAX];

	json_add_string(o, key, bdf_is_none(b) ? NULL : bdf_text(text, b));
}

void topo_add_known(struct json_out *o, const char *key, int value)
{
	if (value < 0)
		json_add_string(o, key, NULL);
	else
		json_add_int(o, key, value);
}

static const char *known_text(enum host_known k)
{
	return k == HOST_PRESENT ? "present" : k == HOST_ABSENT ? "absent" : "unknown";
}

static void add_width(struct json_out *o, const char *key, uint8_t width)
{
	topo_add_known(o, key, width ? width : -1);
}

static void add_speed(struct json_out *o, const char *key, uint8_t speed)
{
	json_add_string(o, key, speed ? pcicap_speed_text(speed) : NULL);
}

static void add_link(struct json_out *o, const struct host_function *fn)
{
	struct json_out l;

	if (!fn->facts->link_cap.speed && !fn->facts->link_now.speed && !fn->facts->link_cap.width && !fn->facts->link_now.width) {
		json_add_string(o, "link", NULL);
		return;
	}
	l = json_out_new();
	add_speed(&l, "speed", fn->facts->link_now.speed);
	add_width(&l, "width", fn->facts->link_now.width);
	add_speed(&l, "max_speed", fn->facts->link_cap.speed);
	add_width(&l, "max_width", fn->facts->link_cap.width);
	json_add_out(o, "link", &l);
}

static void add_bars(struct json_out *o, const struct host_function *fn)
{
	json_object *a = json_object_new_array();

	for (unsigned i = 0; i < 6; i++) {
		struct host_bar bar = host_bar_of(fn, i);
		struct json_out b;
		char start[24];

		if (!bar.size)
			continue;
		b = json_out_new();
		(void)snprintf(start, sizeof(start), "0x%llx", (unsigned long long)bar.start);
		json_add_int(&b, "index", (int)i);
		json_add_string(&b, "start", start);
		json_add_uint(&b, "size", bar.size);
		json_append_out(o, a, &b);
	}
	json_add(o, "bars", a);
}

static void add_hex(struct json_out *o, const char *key, unsigned v)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "0x%x", v);
	json_add_string(o, key, text);
}

static void add_caps(struct json_out *o, const struct host_function *fn)
{
	struct json_out acs = json_out_new(), ats = json_out_new(), sriov;

	json_add_string(&acs, "state", known_text(fn->facts->cap.acs.known));
	if (fn->facts->cap.acs.known == HOST_PRESENT) {
		add_hex(&acs, "cap", fn->facts->cap.acs.cap);
		add_hex(&acs, "ctl", fn->facts->cap.acs.ctl);
	}
	json_add_out(o, "acs", &acs);
	json_add_string(&ats, "state", known_text(fn->facts->cap.ats.known));
	if (fn->facts->cap.ats.known == HOST_PRESENT) {
		json_add_bool(&ats, "enabled", fn->facts->cap.ats.ctl & 0x8000);
		json_add_uint(&ats, "stu", fn->facts->cap.ats.ctl & 0x1f);
	}
	json_add_out(o, "ats", &ats);
	if (fn->facts->is_vf || fn->facts->cap.sriov.known != HOST_PRESENT)
		return;
	sriov = json_out_new();
	json_add_string(&sriov, "state", "present");
	json_add_uint(&sriov, "total", fn->facts->cap.sriov.total);
	topo_add_known(&sriov, "num", fn->facts->numvfs_known ? fn->facts->numvfs : -1);
	json_add_out(o, "sriov", &sriov);
}

static void add_resets(struct json_out *o, const struct host_function *fn)
{
	json_object *a = json_object_new_array();
	const char *p = fn->facts->reset_methods;

	while (*(p += strspn(p, " "))) {
		size_t n = strcspn(p, " ");

		json_append(o, a, json_object_new_string_len(p, (int)n));
		p += n;
	}
	json_add(o, "reset", a);
}

static json_object *node_json(const struct topo *t, const struct topo_node *node)
{
	const struct host_function *fn = node->fn;
	struct json_out o = json_out_new();
	char text[32];

	topo_add_bdf(&o, "bdf", fn->bdf);
	json_add_string(&o, "kind", host_kind_text(fn->facts->kind));
	(void)snprintf(text, sizeof(text), "%04x:%04x", fn->facts->vendor, fn->facts->device);
	json_add_string(&o, "id", text);
	(void)snprintf(text, sizeof(text), "%06x", fn->facts->class);
	json_add_string(&o, "class", text);
	topo_add_bdf(&o, "parent", node->parent == TOPO_NONE ? BDF_NONE : topo_at(t, node->parent)->fn->bdf);
	topo_add_text(&o, "root_bus", fn->facts->root_bus);
	topo_add_known(&o, "numa_node", fn->facts->numa_node);
	topo_add_known(&o, "iommu_group", fn->iommu_group);
	topo_add_text(&o, "driver", host_driver_of(topo_inventory(t), fn));
	topo_add_text(&o, "driver_override", fn->facts->driver_override);
	add_link(&o, fn);
	add_bars(&o, fn);
	add_caps(&o, fn);
	if (fn->facts->is_vf) {
		topo_add_bdf(&o, "pf", fn->facts->pf);
		topo_add_known(&o, "vf_index", fn->vf_index == HOST_VF_UNNUMBERED ? -1 : fn->vf_index);
	}
	add_resets(&o, fn);
	return json_finish(&o);
}

void topo_add_findings(struct json_out *o, const struct inventory *inv)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < inv->nfindings; i++) {
		struct json_out f = json_out_new();
		char text[BDF_TEXT_MAX];

		json_add_string(&f, "id", inv->finding[i].id);
		json_add_string(&f, "component",
				bdf_is_none(inv->finding[i].bdf) ? "host" : bdf_text(text, inv->finding[i].bdf));
		json_add_string(&f, "text", inv->finding[i].text);
		json_append_out(o, a, &f);
	}
	json_add(o, "findings", a);
}

json_object *topo_json(const struct topo *t)
{
	struct json_out o = json_out_new();
	json_object *nodes = json_object_new_array();

	json_add_uint(&o, "generation", topo_generation(t));
	for (uint32_t i = 0; i < topo_count(t); i++)
		json_append(&o, nodes, node_json(t, topo_at(t, i)));
	json_add(&o, "nodes", nodes);
	json_add_made(&o, "gpus", topo_gpus_json(t));
	topo_add_matrix(&o, t);
	topo_add_findings(&o, topo_inventory(t));
	return json_finish(&o);
}
