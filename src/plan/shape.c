/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests that name a shape of velad.conf: its keys become theirs. A key that both have is a contradiction, whatever its
 * values are: one of them was not meant. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/conf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "plan/plan.h"

/* Of lines with one name the last counts. */
static const struct conf_line *shape_named(const struct conf *conf, const char *name)
{
	for (size_t i = conf->nshapes; i > 0; i--)
		if (strcmp(conf->shape[i - 1].key, name) == 0)
			return &conf->shape[i - 1];
	return NULL;
}

static int read_keys(json_object **ret, const struct conf_line *line, struct error *err)
{
	int r = json_parse(ret, line->value, strlen(line->value), JSON_BYTES_MAX, err);

	if (r == 0 && !json_object_is_type(*ret, json_type_object))
		r = error_set(err, -EINVAL, "it is no JSON object with keys of a request");
	return r < 0 ? error_prefix(err, "%s", line->where) : 0;
}

int plan_shapes_check(const struct conf *conf, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < conf->nshapes && r == 0; i++) {
		json_object *keys = NULL;

		r = read_keys(&keys, &conf->shape[i], err);
		if (r == 0 && json_object_object_get_ex(keys, "shape", NULL))
			r = error_set(err, -EINVAL, "%s: a shape of a shape; say its keys", conf->shape[i].where);
		json_object_put(keys);
	}
	return r;
}

static int unknown(const struct conf *conf, const char *name, struct error *err)
{
	struct sbuf names = { 0 };

	for (size_t i = 0; i < conf->nshapes; i++)
		sbuf_addf(&names, "%s%s", i ? ", " : "", conf->shape[i].key);
	error_set(err, -EINVAL, "request.shape is \"%.24s\"; [shapes] of velad.conf has %.150s", name, names.text ? names.text : "none");
	sbuf_done(&names);
	return -EINVAL;
}

static int add_keys(json_object *obj, const struct conf_line *line, struct error *err)
{
	auto_(json_object_put) json_object *keys = NULL;
	int r = read_keys(&keys, line, err);

	if (r < 0)
		return r;
	json_object_object_foreach(keys, key, value) {
		if (json_object_object_get_ex(obj, key, NULL))
			return error_set(err, -EINVAL, "request has %s, and so has its shape %.24s; leave one of them out", key, line->key);
		if (json_object_object_add(obj, key, json_object_get(value)) < 0)
			return error_set(err, -ENOMEM, "no memory for the request");
	}
	return 0;
}

int plan_request_read_shaped(struct plan_request *ret, json_object *obj, const struct conf *conf, struct error *err)
{
	const struct conf_line *line;
	json_object *shape = NULL;
	int r;

	if (!json_object_is_type(obj, json_type_object) || !json_object_object_get_ex(obj, "shape", &shape))
		return plan_request_read(ret, obj, err);
	if (!json_object_is_type(shape, json_type_string))
		return error_set(err, -EINVAL, "request.shape must be a name of [shapes]");
	line = shape_named(conf, json_object_get_string(shape));
	if (!line)
		return unknown(conf, json_object_get_string(shape), err);
	json_object_object_del(obj, "shape");
	r = add_keys(obj, line, err);
	return r < 0 ? r : plan_request_read(ret, obj, err);
}
