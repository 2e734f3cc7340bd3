/* SPDX-License-Identifier: GPL-2.0-or-later */
/* echo SOCKET <ANSWER — the least that a server can do: whatever comes on a connection is answered with what stdin had, unread, by one thread
 * with epoll(7): a wait, a recv and a send for each call. No server of one thread makes more calls on the machine, so tests/bench/api asks
 * it with velad's requests for velad's answer, and shows velad and libvirtd beside it. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECTIONS 64

int main(int argc, char **argv)
{
	static char answer[1 << 16], request[1 << 16];
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = fread(answer, 1, sizeof(answer), stdin);
	int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), epoll = epoll_create1(EPOLL_CLOEXEC), n;
	struct epoll_event e[CONNECTIONS] = { { .events = EPOLLIN, .data.fd = listening } };

	if (argc != 2 || !len || snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", argv[1]) >= (int)sizeof(addr.sun_path))
		return 2;
	if (bind(listening, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(listening, CONNECTIONS) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, listening, e) < 0) {
		perror(argv[1]);
		return 1;
	}
	while ((n = epoll_wait(epoll, e, CONNECTIONS, -1)) >= 0)
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd;

			if (fd == listening) {
				struct epoll_event new = { .events = EPOLLIN, .data.fd = accept(listening, NULL, NULL) };

				(void)epoll_ctl(epoll, EPOLL_CTL_ADD, new.data.fd, &new);
			} else if (recv(fd, request, sizeof(request), 0) <= 0 || send(fd, answer, len, MSG_NOSIGNAL) != (ssize_t)len) {
				(void)close(fd);
			}
		}
	return 1;
}
