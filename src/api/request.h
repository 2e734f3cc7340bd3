/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/request — from one request to its answer (room-private): its route, its checks, the handler, and the answer's bytes. */

#include <time.h>

#include "api/conn.h"
#include "api/server.h"

struct requests {
	const struct api_route *routes; /* borrowed, as the next two */
	const struct api_keys  *keys;
	void                   *self;
	struct api_peers        peers;
	time_t                  date_of;
	char                    date[32]; /* RFC 9110, 5.6.7 */
	struct api_stats        stats;
};

/* The head is whole; a body may follow. 0: go on. Else it was answered, and its client sends what nobody wants to read: 1, or -errno. */
int request_begin(struct requests *s, struct conn *c);
/* As conn_send(); 1 with c->waits: the handler has no answer yet, and wants to be asked again at c->until at the latest. */
int request_answer(struct requests *s, struct conn *c);
/* It is no HTTP, or too much of it. */
int request_refuse(struct requests *s, struct conn *c);
