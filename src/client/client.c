/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The client library: HTTP/1.1 over a Unix socket. Uses nothing else of the project, so that programs under other licences may
 * link it. Not libcurl: it brings 35 libraries, which were nine tenths of what velactl did. */
#include <velad/client.h>

#include <stdlib.h>
#include <string.h>

#include "client/wire.h"

int velad_call(struct velad_reply *ret, const char *socket, const char *method, const char *path, const char *body,
	       long timeout_ms)
{
	struct wire w;
	int r = wire_open(&w, ret, socket, timeout_ms);

	if (r == 0)
		r = wire_ask(&w, method, path, "", body);
	if (r == 0)
		r = wire_answer(&w);
	wire_done(&w);
	return r;
}

void velad_reply_done(struct velad_reply *r)
{
	free(r->body);
	memset(r, 0, sizeof(*r));
}
