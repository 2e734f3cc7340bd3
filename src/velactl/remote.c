/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The only file that calls velad. */
#include <errno.h>
#include <json-c/json.h>

#include "api/client.h"
#include "base/auto.h"
#include "velactl/ctl.h"
#include "velactl/source.h"

#define CALL_DEADLINE_MS 60000 /* velad reads the whole machine before it answers a plan */

static int socket_of(const char **ret, struct ctl *c, struct error *err)
{
	if (!c->args.socket && ctl_conf(c, err) < 0)
		return err->code;
	*ret = c->args.socket ? c->args.socket : c->conf.socket;
	return 0;
}

/* r, and a problem document for the reasons in it. */
static int keep_problem(struct ctl *c, struct api_reply *reply, int r, struct error *err)
{
	if (r < 0 && reply->reasons) { /* of a problem document, and only of one */
		json_object_put(c->problem);
		c->problem = steal(reply->body);
	} else if (r == -EINVAL || r == -E2BIG) {
		err->code = r = -EPROTO; /* the answer is not valid; the command line may well be */
	}
	api_reply_done(reply);
	return r;
}

int ctl_remote(json_object **ret, struct ctl *c, const char *method, const char *path, json_object *body,
	       struct error *err)
{
	struct api_reply reply = { 0 };
	const char *socket = NULL;
	int r = socket_of(&socket, c, err);

	if (r < 0)
		return r;
	r = api_call(&reply, socket, method, path, body, CALL_DEADLINE_MS, err);
	if (r == 0 && !reply.body)
		r = error_set(err, -EPROTO, "velad answered %s %s without a document", method, path);
	if (r == 0)
		*ret = steal(reply.body);
	return keep_problem(c, &reply, r, err);
}

int ctl_remote_open(int *fd, struct ctl *c, const char *path, const char *protocol, struct error *err)
{
	struct api_reply reply = { 0 };
	const char *socket = NULL;
	int r = socket_of(&socket, c, err);

	return r < 0 ? r : keep_problem(c, &reply, api_open(&reply, fd, socket, path, protocol, err), err);
}
