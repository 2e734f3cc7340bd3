/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/server — HTTP/1.1 and JSON on one listening socket, driven by an sd-event loop. Handlers run on the
 * loop and must not block. Knows no domain. */

#include <systemd/sd-event.h>

#include "api/method.h"
#include "base/auto.h"

struct api_server; /* opaque */

#define API_BODY_MAX        (64 * 1024)
#define API_CONNECTIONS_MAX 64
#define API_IDLE_SECONDS    60

/* listen_fd is taken over. routes (ended by method NULL) and self are borrowed and outlive the server. */
int api_server_new(struct api_server **ret, sd_event *event, int listen_fd, const struct api_route *routes,
		   void *self, struct error *err);
struct api_server *api_server_free(struct api_server *s); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct api_server *, api_server_free);

/* A listening Unix socket with mode 0660. A stale socket file is replaced; one that somebody answers on is
 * -EADDRINUSE. Returns the descriptor. */
int api_listen(const char *path, struct error *err);
