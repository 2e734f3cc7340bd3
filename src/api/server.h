/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/server — HTTP/1.1 and JSON on one listening socket, driven by an sd-event loop. Handlers run on the
 * loop and must not block. Knows no domain. */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "api/method.h"
#include "base/auto.h"

struct api_server; /* opaque */

#define API_BODY_MAX (64 * 1024)

/* Bytes that a connection has for a request line and headers, and then for the answer's headers: what a head is over is answered with 414 or
 * 431. libmicrohttpd clears all of it for every request: its own 32 KiB are too much for that. */
#define API_HEAD_MAX (8 * 1024)

struct api_stats { /* since the start */
	uint64_t answers[6]; /* by the first digit of their status */
	uint64_t refused;    /* connections and requests of users over their limits */
	unsigned connections; /* now */
};

/* listen_fd is taken over. routes (ended by method NULL), keys (NULL: no route is keyed), batch (NULL: none is batched) and self
 * are borrowed and outlive the server. */
int api_server_new(struct api_server **ret, sd_event *event, int listen_fd, const struct api_route *routes,
		   const struct api_keys *keys, const struct api_batch *batch, void *self, struct error *err);
struct api_server *api_server_free(struct api_server *s); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct api_server *, api_server_free);

/* What handlers wait for may have come: those that answered API_WAIT are called again. On the loop. */
void api_server_wake(struct api_server *s);
const struct api_stats *api_server_stats(struct api_server *s);

/* A listening Unix socket with mode 0660. A stale socket file is replaced; one that somebody answers on is
 * -EADDRINUSE. Returns the descriptor. */
int api_listen(const char *path, struct error *err);
