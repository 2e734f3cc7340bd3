/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists of instances: whole documents, or what a table of a hundred of them shows. */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "instance/manager.h"
#include "instance/state.h"
#include "instance/store.h"

#define BYTES_MAX (16 * 1024 * 1024) /* our own text */

static json_object *member(json_object *o, const char *key, json_type type)
{
	json_object *v = json_object_object_get(o, key);

	return json_object_is_type(v, type) ? v : NULL;
}

/* One member of each of a list of objects. */
static void add_each(struct json_out *o, const char *key, json_object *list, const char *of)
{
	json_object *all = json_object_new_array();

	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		json_append(o, all, json_object_get(json_object_object_get(json_object_array_get_idx(list, i), of)));
	json_add_made(o, key, all);
}

static void add_member(struct json_out *o, const char *key, json_object *from)
{
	json_add(o, key, json_object_get(json_object_object_get(from, key)));
}

static int brief(struct store_tx *tx, json_object **ret, const char *name, struct arena *arena, struct error *err)
{
	auto_(json_object_put) json_object *request = NULL, *plan = NULL;
	struct rows_instance *in = NULL;
	json_object *bundle, *tags;
	struct json_out o;
	int r = rows_instance_find(tx, &in, name, arena, err);

	if (r == 0)
		r = json_parse(&request, in->request, strlen(in->request), BYTES_MAX, err);
	if (r == 0)
		r = json_parse(&plan, in->plan, strlen(in->plan), BYTES_MAX, err);
	if (r < 0)
		return error_prefix(err, "instance %s", name);
	bundle = member(plan, "bundle", json_type_object);
	tags = member(request, "tags", json_type_object);
	o = json_out_new();
	json_add_string(&o, "name", in->name);
	json_add_string(&o, "uuid", in->uuid);
	json_add_string(&o, "state", inst_state_text(in->state));
	json_add_string(&o, "error", in->error);
	json_add_time(&o, "created", in->created);
	json_add_uint(&o, "generation", in->generation);
	json_add_uint(&o, "operation", in->operation);
	add_member(&o, "vcpus", request);
	add_member(&o, "memory", request);
	add_each(&o, "gpus", member(bundle, "gpus", json_type_array), "bdf");
	add_each(&o, "vfs", member(bundle, "vfs", json_type_array), "bdf");
	add_each(&o, "nodes", member(bundle, "cells", json_type_array), "host_node");
	json_add_made(&o, "tags", tags ? json_object_get(tags) : json_object_new_object());
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for an answer");
}

static int list_json(struct inst_manager *m, struct store_tx *tx, json_object **ret, const struct inst_filter *f, struct arena *arena,
		     struct error *err)
{
	json_object *list = json_object_new_array();
	struct json_out o = json_out_new();
	const char **names;
	size_t n = 0;
	int r = rows_instance_names(tx, &names, &n, f, arena, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		json_object *one = NULL;

		r = f->brief ? brief(tx, &one, names[i], arena, err) : json_instance(m, tx, &one, names[i], arena, err);
		json_append(&o, list, one);
	}
	json_add_made(&o, "instances", list);
	json_add_string(&o, "next", r == 0 && f->limit && n == f->limit ? names[n - 1] : NULL);
	if (r < 0)
		o.failed = true;
	*ret = json_finish(&o);
	return r < 0 || *ret ? r : error_set(err, -ENOMEM, "no memory for an answer");
}

static int check_state(const char *state, struct error *err)
{
	struct sbuf all = { 0 };

	if (!state || inst_state_parse(state) >= 0)
		return 0;
	for (int i = 0; i < INST_STATE_MAX_; i++)
		sbuf_addf(&all, "%s%s", i ? ", " : "", inst_state_text((enum inst_state)i));
	(void)error_set(err, -EINVAL, "\"%.40s\" is no state of an instance; they are %s", state, all.text ? all.text : "");
	sbuf_done(&all);
	return -EINVAL;
}

int inst_list_json(struct inst_manager *m, struct json_object **ret, const struct inst_filter *f, struct error *err)
{
	static const struct inst_filter any = { 0 };
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	int r = f ? check_state(f->state, err) : 0;

	if (r == 0)
		r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = list_json(m, tx, ret, f ? f : &any, &arena, err);
	arena_done(&arena);
	return r;
}
