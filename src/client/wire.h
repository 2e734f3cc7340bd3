/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* client/wire — one request and its answer on a Unix socket (room-private). http_parser reads the answer; what it says is
 * in struct velad_reply. */

#include <http_parser.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <velad/client.h>

struct wire {
	struct velad_reply *reply;
	const char         *socket; /* its path */
	int                 fd;     /* -1: none */
	uint64_t            until;  /* ms, CLOCK_MONOTONIC; 0: for ever */
	http_parser         parser;
	size_t              size;   /* of reply->body */
	bool                bytes;  /* it may be a 101: its head is read byte by byte, because what is behind it is not ours */
	bool                done, failed; /* the answer is whole; no memory, or too much of it */
	int                 code;   /* of what failed: negative errno */
};

/* All return 0 or what velad_call() returns, with a sentence in reply->error. */
int wire_open(struct wire *w, struct velad_reply *reply, const char *socket, long timeout_ms);
int wire_ask(struct wire *w, const char *method, const char *path, const char *headers, const char *body); /* body NULL: none */
/* Up to the answer's end, or the end of the head of a 101: what is behind that is not read. */
int  wire_answer(struct wire *w);
void wire_done(struct wire *w);
