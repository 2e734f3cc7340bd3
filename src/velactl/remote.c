/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The only file that calls velad. */
#include <errno.h>
#include <json-c/json.h>

#include "api/client.h"
#include "base/auto.h"
#include "velactl/ctl.h"
#include "velactl/source.h"

#define CALL_DEADLINE_MS 60000 /* velad reads the whole machine before it answers a plan */

int ctl_remote(json_object **ret, struct ctl *c, const char *method, const char *path, json_object *body,
	       struct error *err)
{
	const char *socket = c->args.socket;
	struct api_reply reply = { 0 };
	int r;

	if (!socket && ctl_conf(c, err) < 0)
		return err->code;
	if (!socket)
		socket = c->conf.socket;
	r = api_call(&reply, socket, method, path, body, CALL_DEADLINE_MS, err);
	if (r == 0 && !reply.body)
		r = error_set(err, -EPROTO, "velad answered %s %s without a document", method, path);
	if (r == 0) {
		*ret = steal(reply.body);
	} else if (reply.reasons) { /* of a problem document, and only of one */
		json_object_put(c->problem);
		c->problem = steal(reply.body);
	} else if (r == -EINVAL || r == -E2BIG) {
		err->code = r = -EPROTO; /* the answer is not valid; the command line may well be */
	}
	api_reply_done(&reply);
	return r;
}
