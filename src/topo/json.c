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

void topo_add_known(struct json_out *o, const char *key, int value)
{
	if (value < 0)
		json_add_string(o, key, NULL);
	else
		json_add_int(o, key, value);
}

void topo_add_bool(struct json_out *o, const char *key, enum host_known known)
{
	if (known == HOST_UNKNOWN)
		json_add_string(o, key, NULL);
	else
		json_add_bool(o, key, known == HOST_PRESENT);
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
		json_append(&o, nodes, topo_node_json(t, topo_at(t, i)));
	json_add(&o, "nodes", nodes);
	json_add_made(&o, "gpus", topo_gpus_json(t));
	topo_add_matrix(&o, t);
	topo_add_findings(&o, topo_inventory(t));
	return json_finish(&o);
}
