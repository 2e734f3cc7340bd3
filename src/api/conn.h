/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/conn — one client's connection (room-private). http_parser takes requests apart, one at a time; what the client has not taken of
 * an answer is kept until it does. Whoever owns it asks conn_next() when epoll tells of it. */

#include <http_parser.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/peers.h"
#include "base/sbuf.h"

#define CONN_HEAD_MAX (32 * 1024) /* bytes of target and headers */

struct conn {
	struct api_peers *peers;  /* borrowed */
	struct api_peer  *peer;   /* owned */
	int               fd;     /* owned */
	int               epoll;  /* borrowed */
	uint32_t          events; /* that epoll waits for */
	http_parser       parser;
	struct sbuf       url, head, body; /* head: name, NUL, value, NUL, ... */
	struct sbuf       rest, out;       /* read and not taken apart; not sent yet */
	size_t            taken, sent;     /* of rest, of out */
	size_t            held;   /* bytes that its user answers for */
	uint64_t          until;  /* its request waits, at the latest until then; 0: it has not waited yet */
	struct conn      *next;   /* that waits; or of all */
	bool              in_value, whole, big; /* of the header; the request; the head */
	bool              begun, too_large, over, last; /* it counts; its body; its user's bytes; no request after this one */
	bool              waits;
};

enum conn_news { CONN_NOTHING, CONN_HEAD, CONN_REQUEST, CONN_BAD, CONN_GONE };

/* fd and peer are taken over; NULL: no memory, or epoll takes no more. */
struct conn *conn_new(int epoll, int fd, struct api_peers *peers, struct api_peer *peer);
void         conn_free(struct conn *c);

/* Reads at most once. A head without its body comes first; CONN_BAD: it is no HTTP, and what it is instead is in the parser. */
enum conn_news conn_next(struct conn *c);
const char    *conn_header(const struct conn *c, const char *name); /* NULL: not there */
/* 0: all of it is sent; 1: not yet, and epoll waits for that; -errno: the client is gone. */
int  conn_send(struct conn *c, const char *head, size_t head_len, const char *text, size_t len);
int  conn_flush(struct conn *c);  /* likewise */
int  conn_watch(struct conn *c, uint32_t events);
void conn_reset(struct conn *c);  /* the request is over */
bool conn_has_more(const struct conn *c);
