/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A connection that is upgraded (RFC 9110, 7.8). */
#include <velad/client.h>

#include <errno.h>
#include <stdio.h>

#include "client/wire.h"

int velad_open(struct velad_reply *ret, int *fd, const char *socket, const char *path, const char *protocol)
{
	char headers[160];
	struct wire w;
	int r = wire_open(&w, ret, socket, 0);

	(void)snprintf(headers, sizeof(headers), "Connection: Upgrade\r\nUpgrade: %.100s\r\n", protocol);
	w.bytes = true;
	if (r == 0)
		r = wire_ask(&w, "GET", path, headers, NULL);
	if (r == 0)
		r = wire_answer(&w);
	if (r == 0 && ret->status == 101) {
		*fd = w.fd;
		w.fd = -1;
	}
	wire_done(&w);
	return r;
}
