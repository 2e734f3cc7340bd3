/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routes and errors: two tables, both documented by docs/openapi.json and tested against it. */
#include "api/method.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"

static const struct api_error errors[] = {
	{ -EINVAL, 400, "invalid", "Bad Request" },
	{ -E2BIG, 413, "too_large", "Content Too Large" },
	{ -EPERM, 403, "denied", "Forbidden" },
	{ -EACCES, 403, "denied", "Forbidden" },
	{ -ENOENT, 404, "not_found", "Not Found" },
	{ -EOPNOTSUPP, 405, "method", "Method Not Allowed" },
	{ -EEXIST, 409, "exists", "Conflict" },
	{ -EBUSY, 409, "busy", "Conflict" },
	{ -ESTALE, 409, "stale_plan", "Conflict" },
	{ -ENOSPC, 409, "no_capacity", "Conflict" },
	{ -ENODEV, 503, "host", "Service Unavailable" },
	{ -EREMOTEIO, 503, "hypervisor", "Service Unavailable" },
	{ -ETIMEDOUT, 504, "timeout", "Gateway Timeout" },
	{ -EIO, 500, "internal", "Internal Server Error" }, /* the last: what the rest becomes */
};

const struct api_error *api_error_of(int code)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].code == code)
			return &errors[i];
	return &errors[ARRAY_SIZE(errors) - 1];
}

const struct api_error *api_error_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (strcmp(errors[i].name, name) == 0)
			return &errors[i];
	return NULL;
}

size_t api_error_count(void)
{
	return ARRAY_SIZE(errors);
}

const struct api_error *api_error_at(size_t i)
{
	return &errors[i];
}

/* Whether path has the shape of pattern; {…} stands for one non-empty part. */
static bool path_matches(const char *pattern, const char *path, char param[API_PARAM_MAX])
{
	const char *open = strchr(pattern, '{'), *rest;
	size_t head, len;

	if (!open)
		return strcmp(pattern, path) == 0;
	head = (size_t)(open - pattern);
	rest = strchr(open, '}') + 1;
	if (strncmp(pattern, path, head) != 0)
		return false;
	len = strcspn(path + head, "/");
	if (len == 0 || len >= API_PARAM_MAX || strcmp(path + head + len, rest) != 0)
		return false;
	memcpy(param, path + head, len);
	param[len] = '\0';
	return true;
}

const struct api_route *api_route_find(const struct api_route *routes, const char *method, const char *path,
				       char param[API_PARAM_MAX], char allow[64])
{
	size_t n = 0;

	param[0] = allow[0] = '\0';
	for (const struct api_route *r = routes; r->method; r++) {
		if (!path_matches(r->path, path, param))
			continue;
		if (strcmp(r->method, method) == 0)
			return r;
		n += (size_t)snprintf(allow + n, 64 - n, "%s%s", n ? ", " : "", r->method);
	}
	return NULL;
}

json_object *api_problem(const struct error *err, json_object *reasons)
{
	const struct api_error *e = api_error_of(err->code);
	struct json_out o = json_out_new();

	json_add_string(&o, "type", "about:blank");
	json_add_string(&o, "title", e->title);
	json_add_int(&o, "status", e->status);
	json_add_string(&o, "code", e->name);
	json_add_string(&o, "detail", err->text);
	json_add(&o, "reasons", reasons ? reasons : json_object_new_array());
	return json_finish(&o);
}
