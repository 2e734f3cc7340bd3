/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/call — one request, from its headers to the last byte of the answer, and what becomes of it before a handler is called. For api/server
 * only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/answer.h"
#include "api/method.h"
#include "api/peers.h"
#include "api/upgrade.h"
#include "base/sbuf.h"

struct error;

struct call {
	struct upgrade         upgrade; /* first: on_upgrade() gets the call */
	struct sbuf            body;
	struct api_peer       *peer;  /* borrowed: a connection outlives its requests */
	struct MHD_Connection *mhd;   /* borrowed, likewise */
	size_t                 held;  /* bytes of it that its user answers for */
	uint64_t               id;
	uint64_t               came;  /* when its handler was called first, or it was put into a batch last; 0: not yet */
	uint64_t               mark;  /* its handler's */
	uint64_t               until; /* it waits, at the latest until then; 0: it has not waited yet */
	struct call           *next;  /* that waits, or of the batch */
	const struct api_route *route; /* of one in the batch, and the next two, which live as long as the request */
	const char            *method, *url;
	uint64_t               hangs; /* what the answer hangs on */
	struct api_answer      answer; /* to be sent */
	bool                   too_large, over; /* its body; its user's bytes */
	bool                   gone;  /* its client, while it waited */
};

struct call_env { /* all borrowed */
	const struct api_keys *keys; /* NULL: no route is keyed */
	void                  *self; /* of handlers */
	struct api_peers      *peers;
	struct api_kept       *kept;
};

/* Calls the route's handler, unless the request or its key says that there is nothing to do. 0: the call has its answer; without one, it is to
 * be upgraded. API_WAIT: within *seconds. */
int call_ask(struct call *call, const struct call_env *env, const struct api_route *route, struct api_request *req, unsigned *seconds);
int call_over_limit(struct error *err); /* its user has too much under way: -EUSERS */
