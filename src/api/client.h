/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/client — one call to velad over its Unix socket. */

#include "base/auto.h"

struct error;
struct json_object;

struct api_reply {
	int                 status;  /* HTTP */
	struct json_object *body;    /* owned by the caller, who puts it; NULL: none */
	struct json_object *reasons; /* of a problem document; likewise */
};

/* body NULL: none is sent. timeout_ms 0: none. A problem document becomes err (its code through the
 * table of api/method.h, its detail as text) and reasons. -ECONNREFUSED: velad is not there, or may not be
 * talked to; the text names the socket and the fix. -ETIMEDOUT. */
int api_call(struct api_reply *ret, const char *socket, const char *method, const char *path,
	     struct json_object *body, long timeout_ms, struct error *err);
/* A connection that speaks another protocol from now on; the caller closes it. Likewise. */
int api_open(struct api_reply *ret, int *fd, const char *socket, const char *path, const char *protocol, struct error *err);
void api_reply_done(struct api_reply *r);
