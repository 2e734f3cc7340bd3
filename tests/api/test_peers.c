/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits of one user, and the time of slow clients, by a clock of the test's own. */
#include <sys/socket.h>

#include "api/peers.h"
#include "support.h"

#define S UINT64_C(1000000)

struct pair {
	int              ours, theirs;
	struct api_peer *peer;
};

static struct api_peers all;

static struct pair join(uint64_t now)
{
	struct pair p = { 0 };
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	p.ours = fd[0];
	p.theirs = fd[1];
	p.peer = api_peer_new(&all, p.ours, now);
	return p;
}

static void leave(struct pair *p)
{
	if (p->peer)
		api_peer_free(&all, p->peer);
	(void)close(p->ours);
	(void)close(p->theirs);
}

static bool is_cut(const struct pair *p)
{
	char c;

	return recv(p->theirs, &c, 1, MSG_DONTWAIT) == 0;
}

static void connections_are_counted(void **state)
{
	struct pair p[API_UID_CONNECTIONS_MAX + API_UID_CONNECTIONS_MAX / 4], far, again;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = join(0);
		assert_non_null(p[i].peer);
		assert_int_equal(p[i].peer->refused, i >= API_UID_CONNECTIONS_MAX);
		assert_int_equal(p[i].peer->of->uid, getuid());
		assert_false(is_cut(&p[i]));
	}
	far = join(0);
	assert_null(far.peer);
	assert_true(is_cut(&far));
	leave(&far);
	for (size_t i = API_UID_CONNECTIONS_MAX - 1; i < ARRAY_SIZE(p); i++)
		leave(&p[i]);
	again = join(0);
	assert_false(again.peer->refused);
	leave(&again);
	for (size_t i = 0; i < API_UID_CONNECTIONS_MAX - 1; i++)
		leave(&p[i]);
	assert_null(all.first);
}

static void requests_and_bytes_are_counted(void **state)
{
	struct pair a = join(0), b = join(0);
	uint64_t refused = all.refused;

	(void)state;
	for (size_t i = 0; i < API_UID_REQUESTS_MAX; i++)
		assert_true(api_peer_begin(&all, i % 2 ? a.peer : b.peer));
	assert_false(api_peer_begin(&all, a.peer));
	assert_int_equal(all.refused, refused + 1);
	api_peer_end(b.peer, 0, 0);
	assert_true(api_peer_begin(&all, a.peer));
	assert_true(api_peer_hold(&all, a.peer, 2 * (size_t)API_UID_BYTES_MAX)); /* a single one may be larger */
	assert_false(api_peer_hold(&all, b.peer, 1));
	api_peer_end(a.peer, 2 * (size_t)API_UID_BYTES_MAX, 0);
	assert_true(api_peer_hold(&all, b.peer, API_UID_BYTES_MAX));
	assert_false(api_peer_hold(&all, a.peer, 1));
	leave(&a);
	leave(&b);
}

static void time_is_over(void **state)
{
	struct pair slow = join(10 * S), busy = join(10 * S), waits = join(10 * S);

	(void)state;
	waits.peer->waits = true;
	assert_true(api_peer_begin(&all, busy.peer));
	api_peer_end(busy.peer, 0, 40 * S);
	assert_int_equal(api_peers_sweep(&all, 50 * S), (10 + API_IDLE_SECONDS) * S);
	assert_false(is_cut(&slow));
	(void)api_peers_sweep(&all, (10 + API_IDLE_SECONDS) * S);
	assert_true(is_cut(&slow));
	assert_false(is_cut(&busy));
	assert_false(is_cut(&waits));
	leave(&slow);
	leave(&waits);
	assert_int_equal(api_peers_sweep(&all, 71 * S), (40 + API_IDLE_SECONDS) * S);
	leave(&busy);
	assert_int_equal(api_peers_sweep(&all, 72 * S), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_are_counted),
		cmocka_unit_test(requests_and_bytes_are_counted),
		cmocka_unit_test(time_is_over),
	};

	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
