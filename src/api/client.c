/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client library's answer as JSON, and problem documents as errors. */
#include "api/client.h"

#include <errno.h>
#include <string.h>
#include <velad/client.h>

#include "api/method.h"
#include "base/error.h"
#include "base/json.h"

#define REPLY_MAX ((size_t)256 * 1024 * 1024) /* as the client library's */

static const char *string_at(json_object *o, const char *key)
{
	json_object *v = NULL;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : NULL;
}

/* A problem document as an error; its reasons go to the caller. */
static int problem(struct api_reply *reply, struct error *err)
{
	const char *code = string_at(reply->body, "code"), *detail = string_at(reply->body, "detail");
	const struct api_error *e = code ? api_error_named(code) : NULL;
	json_object *reasons = NULL;

	if (json_object_object_get_ex(reply->body, "reasons", &reasons) &&
	    json_object_is_type(reasons, json_type_array))
		reply->reasons = json_object_get(reasons);
	if (!e || !detail)
		return error_set(err, -EIO, "velad answered with status %d and no problem document", reply->status);
	return error_set(err, e->code, "%s", detail);
}

/* What came, as JSON or an error. */
static int take(struct api_reply *ret, struct velad_reply *reply, int r, struct error *err)
{
	*ret = (struct api_reply){ .status = reply->status };
	if (r < 0) { /* a socket that is closed to us is a daemon that is not there, for the caller */
		r = error_set(err, r == -EACCES ? -ECONNREFUSED : r, "%s", reply->error);
	} else if (reply->len && json_parse(&ret->body, reply->body, reply->len, REPLY_MAX, err) < 0) {
		err->code = -EPROTO; /* -EINVAL would blame the request */
		r = error_prefix(err, "the answer of velad, status %d", reply->status);
	}
	velad_reply_done(reply);
	return r == 0 && ret->status >= 400 ? problem(ret, err) : r;
}

int api_open(struct api_reply *ret, int *fd, const char *socket, const char *path, const char *protocol, struct error *err)
{
	struct velad_reply reply;
	int r = take(ret, &reply, velad_open(&reply, fd, socket, path, protocol), err);

	return r == 0 && ret->status != 101 ? error_set(err, -EPROTO, "velad answered with status %d, not 101", ret->status) : r;
}

int api_call(struct api_reply *ret, const char *socket, const char *method, const char *path, json_object *body,
	     long timeout_ms, struct error *err)
{
	struct velad_reply reply;
	int r = velad_call(&reply, socket, method, path, body ? json_object_to_json_string(body) : NULL, timeout_ms);

	return take(ret, &reply, r, err);
}

void api_reply_done(struct api_reply *r)
{
	json_object_put(r->body);
	json_object_put(r->reasons);
	*r = (struct api_reply){ 0 };
}
