/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routes and errors: two tables, both documented by docs/openapi.json and tested against it. */
#include "api/method.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"

static const struct api_error errors[] = {
	{ -EINVAL, 400, "Bad Request" },
	{ -E2BIG, 413, "Content Too Large" },
	{ -EPERM, 403, "Forbidden" },
	{ -EACCES, 403, "Forbidden" },
	{ -ENOENT, 404, "Not Found" },
	{ -EOPNOTSUPP, 405, "Method Not Allowed" },
	{ -EEXIST, 409, "Conflict" },
	{ -EBUSY, 409, "Conflict" },
	{ -ESTALE, 409, "Conflict" },
	{ -ECANCELED, 409, "Conflict" }, /* how an operation ended; no request is answered with it */
	{ -EIDRM, 410, "Gone" },
	{ -EREMCHG, 412, "Precondition Failed" },
	{ -EKEYREJECTED, 422, "Unprocessable Content" },
	{ -ETIME, 422, "Unprocessable Content" }, /* it may fit or not: a search that was given up */
	{ -EUSERS, 503, "Service Unavailable" },
	{ -ENOSPC, 409, "Conflict" },
	{ -ENODEV, 503, "Service Unavailable" },
	{ -EREMOTEIO, 503, "Service Unavailable" },
	{ -ETIMEDOUT, 504, "Gateway Timeout" },
	{ -EIO, 500, "Internal Server Error" }, /* the last: what the rest becomes */
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
	int code = error_named(name);

	return code ? api_error_of(code) : NULL;
}

size_t api_error_count(void)
{
	return ARRAY_SIZE(errors);
}

const struct api_error *api_error_at(size_t i)
{
	return &errors[i];
}

/* One part of a path, percent-encoded (RFC 3986 2.1). Nothing that velad names has other than printable
 * ASCII: what decodes to anything else, "%00" above all, is no name. */
static bool decode_part(char ret[API_PARAM_MAX], const char *part, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		uint64_t c = (unsigned char)part[i];

		if (c == '%') {
			char hex[3] = "";

			if (len - i < 3)
				return false;
			memcpy(hex, part + i + 1, 2);
			if (parse_uint(&c, hex, 16, UINT8_MAX) < 0)
				return false;
			i += 2;
		}
		if (c <= 0x20 || c >= 0x7f || n == API_PARAM_MAX - 1)
			return false;
		ret[n++] = (char)c;
	}
	ret[n] = '\0';
	return n > 0;
}

/* Whether path has the shape of pattern; {…} stands for one non-empty part. */
static bool path_matches(const char *pattern, const char *path, char param[API_PARAM_MAX])
{
	size_t len;

	for (; *pattern && *pattern != '{' && *pattern == *path; pattern++)
		path++;
	if (*pattern != '{')
		return *pattern == *path;
	len = strcspn(path, "/");
	return strcmp(path + len, strchr(pattern, '}') + 1) == 0 && decode_part(param, path, len);
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
		assert(n < 64); /* a path has a handful of methods */
	}
	return NULL;
}

int api_query_set(struct api_request *req, const struct api_route *route, const char *name, const char *value,
		  struct error *err)
{
	size_t i = 0, n = 0;
	char all[160] = "";

	while (i < API_QUERY_MAX && route->query[i] && strcmp(route->query[i], name) != 0)
		i++;
	if (i < API_QUERY_MAX && route->query[i]) {
		if (*req->query[i])
			return error_set(err, -EINVAL, "the query parameter \"%s\" is there twice", name);
		if (value && decode_part(req->query[i], value, strlen(value)))
			return 0;
		*req->query[i] = '\0';
		return error_set(err, -EINVAL, "the value of the query parameter \"%s\" is no printable text of 1 to %d bytes",
				 name, API_PARAM_MAX - 1);
	}
	for (i = 0; i < API_QUERY_MAX && route->query[i] && n < sizeof(all); i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "; it takes ", route->query[i]);
	return error_set(err, -EINVAL, "this path takes no query parameter \"%.60s\"%s", name, all);
}

/* A list of "tag", separated by commas; or an asterisk, which any document matches. */
static bool tag_listed(const char *list, const char *etag)
{
	size_t len = strlen(etag);

	for (const char *p = list + strspn(list, " \t,"); *p; p += strspn(p, " \t,")) {
		bool weak = strncmp(p, "W/", 2) == 0;
		const char *open = weak ? p + 2 : p, *end;

		if (*p == '*')
			return true;
		end = *open == '"' ? strchr(open + 1, '"') : NULL;
		if (!end)
			return false;
		if (!weak && (size_t)(end - open - 1) == len && memcmp(open + 1, etag, len) == 0)
			return true;
		p = end + 1;
	}
	return false;
}

int api_if_match(const struct api_request *req, const char *etag, const char *what, struct error *err)
{
	if (!req->if_match || tag_listed(req->if_match, etag))
		return 0;
	return error_set(err, -EREMCHG, "%s is \"%s\" by now, and If-Match says %.60s; get it again, look, and go on from there",
			 what, etag, req->if_match);
}

/* JSON is UTF-8 (RFC 8259 8.1), but a text may quote what a client sent, and may have been cut within a
 * character. */
static void clean_utf8(char *text)
{
	while (*text) {
		size_t n = utf8_len(text);

		if (n == 0)
			*text = '?';
		text += n ? n : 1;
	}
}

json_object *api_problem(const struct error *err, json_object *reasons)
{
	const struct api_error *e = api_error_of(err->code);
	struct json_out o = json_out_new();
	struct error clean = *err;

	clean_utf8(clean.text);
	json_add_string(&o, "type", "about:blank");
	json_add_string(&o, "title", e->title);
	json_add_int(&o, "status", e->status);
	json_add_string(&o, "code", error_name(e->code));
	json_add_string(&o, "detail", clean.text);
	json_add(&o, "reasons", reasons ? reasons : json_object_new_array());
	return json_finish(&o);
}
