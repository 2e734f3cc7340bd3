/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/peers — who is connected (room-private): what one user may have at a time, and how long a client may take. A user
 * over a limit is refused; the others do not notice. A client that is slow or silent is cut off when its time is over,
 * however it spreads its bytes. The clock is the caller's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define API_CONNECTIONS_MAX     256
#define API_UID_CONNECTIONS_MAX 64
#define API_UID_REQUESTS_MAX    32                 /* begun and not answered, those that wait among them */
#define API_UID_BYTES_MAX       (16 * 1024 * 1024) /* bodies and answers under way; a single one may be larger */
#define API_IDLE_SECONDS        60 /* to send a request, from the end of the one before; to take the answer */
#define API_REFUSED_SECONDS     2  /* to send one that will be refused */

struct api_uid {
	uid_t    uid;
	unsigned connections, requests; /* connections 0: this slot is free */
	size_t   bytes;
};

struct api_peer { /* one connection */
	struct api_uid  *of;
	struct api_peer *next;
	uint64_t         since;   /* usec: its time began */
	int              fd;      /* borrowed */
	bool             refused; /* its user has too many */
	bool             waits;   /* a handler has it: that has a time-out of its own */
};

struct api_peers {
	struct api_uid   uid[API_CONNECTIONS_MAX]; /* as many as connections: there is always room */
	struct api_peer *first;
	uint64_t         refused; /* connections and requests, ever */
};

/* NULL: no memory, or it has far too many; the connection is shut down. */
struct api_peer *api_peer_new(struct api_peers *all, int fd, uint64_t now);
void             api_peer_free(struct api_peers *all, struct api_peer *p);

/* One request more of this connection's user; false: it has as many as it may. */
bool api_peer_begin(struct api_peers *all, struct api_peer *p);
void api_peer_end(struct api_peer *p, size_t bytes, uint64_t now); /* with what it held */
/* That many bytes more; false: its user holds too many. */
bool api_peer_hold(struct api_peers *all, struct api_peer *p, size_t bytes);

/* Shuts down who is over its time; when to look again, 0: nobody is there. */
uint64_t api_peers_sweep(struct api_peers *all, uint64_t now);
