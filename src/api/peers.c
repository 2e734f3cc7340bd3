/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/peers.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/auto.h"

#define SECOND UINT64_C(1000000)

static uid_t peer_uid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ? (uid_t)-1 : cred.uid;
}

static struct api_uid *find_uid(struct api_peers *all, uid_t uid)
{
	struct api_uid *free = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(all->uid); i++) {
		if (all->uid[i].connections && all->uid[i].uid == uid)
			return &all->uid[i];
		if (!all->uid[i].connections && !free)
			free = &all->uid[i];
	}
	if (free)
		*free = (struct api_uid){ .uid = uid };
	return free;
}

struct api_peer *api_peer_new(struct api_peers *all, int fd, uint64_t now)
{
	struct api_uid *u = find_uid(all, peer_uid(fd));
	/* some over the limit are told so; more of them would take room from others */
	bool far = !u || u->connections >= API_UID_CONNECTIONS_MAX + API_UID_CONNECTIONS_MAX / 4;
	struct api_peer *p = far ? NULL : calloc(1, sizeof(*p));

	if (!p) {
		all->refused++;
		(void)shutdown(fd, SHUT_RDWR); /* its owner closes it */
		return NULL;
	}
	*p = (struct api_peer){ .of = u, .fd = fd, .since = now, .next = all->first,
				.refused = u->connections >= API_UID_CONNECTIONS_MAX };
	u->connections++;
	all->first = p;
	return p;
}

void api_peer_free(struct api_peers *all, struct api_peer *p)
{
	struct api_peer **at = &all->first;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->of->connections--;
	free(p);
}

bool api_peer_begin(struct api_peers *all, struct api_peer *p)
{
	if (p->refused || p->of->requests >= API_UID_REQUESTS_MAX) {
		all->refused++;
		return false;
	}
	p->of->requests++;
	return true;
}

void api_peer_end(struct api_peer *p, size_t bytes, uint64_t now)
{
	assert(p->of->requests && p->of->bytes >= bytes);
	p->of->requests--;
	p->of->bytes -= bytes;
	p->since = now;
}

bool api_peer_hold(struct api_peers *all, struct api_peer *p, size_t bytes)
{
	if (p->of->bytes && p->of->bytes + bytes > API_UID_BYTES_MAX) {
		all->refused++;
		return false;
	}
	p->of->bytes += bytes;
	return true;
}

uint64_t api_peers_sweep(struct api_peers *all, uint64_t now)
{
	uint64_t next = 0;

	for (struct api_peer *p = all->first; p; p = p->next) {
		uint64_t end = p->since + SECOND * (p->refused ? API_REFUSED_SECONDS : API_IDLE_SECONDS);

		if (p->waits)
			end = now + SECOND * API_IDLE_SECONDS;
		if (end <= now) {
			(void)shutdown(p->fd, SHUT_RDWR); /* the server sees the end of it, and closes it */
			end = now + SECOND;
		}
		if (!next || end < next)
			next = end;
	}
	return next;
}
