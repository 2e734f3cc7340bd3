/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A connection that is upgraded (RFC 9110, 7.8), on a Unix socket of our own: libcurl keeps what comes behind a 101 to itself. */
#include <velad/client.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD_MAX  4096
#define BODY_MAX  (256 * 1024)

static int fail(struct velad_reply *ret, int code, const char *what, const char *socket)
{
	(void)snprintf(ret->error, sizeof(ret->error), "%s on %s: %s", what, socket, strerror(-code));
	return code;
}

static int reach(struct velad_reply *ret, int *fd, const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(to.sun_path))
		return fail(ret, -ENAMETOOLONG, "talking to velad", path);
	strcpy(to.sun_path, path);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return fail(ret, -errno, "talking to velad", path);
	if (connect(*fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		return 0;
	if (errno == EACCES)
		(void)snprintf(ret->error, sizeof(ret->error), "may not talk to velad on %s: join the group velad, or use sudo", path);
	else
		(void)snprintf(ret->error, sizeof(ret->error), "velad is not there on %s (%s): systemctl start velad.socket", path, strerror(errno));
	return errno == EACCES ? -EACCES : -ECONNREFUSED;
}

static int say(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Up to and with the empty line; byte by byte, because what is behind it is not ours. */
static int hear_head(int fd, char head[HEAD_MAX])
{
	size_t len = 0;

	while (len < HEAD_MAX - 1) {
		ssize_t n = recv(fd, head + len, 1, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		head[++len] = '\0';
		if (len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0)
			return 0;
	}
	return -E2BIG;
}

static size_t body_length(const char *head)
{
	static const char name[] = "\nContent-Length:";

	for (const char *p = strchr(head, '\n'); p; p = strchr(p + 1, '\n'))
		if (strncasecmp(p, name, sizeof(name) - 1) == 0)
			return strtoul(p + sizeof(name) - 1, NULL, 10);
	return 0;
}

static int hear_body(struct velad_reply *ret, int fd, size_t len)
{
	if (len > BODY_MAX)
		return -E2BIG;
	ret->body = calloc(1, len + 1);
	if (!ret->body)
		return -ENOMEM;
	while (ret->len < len) {
		ssize_t n = recv(fd, ret->body + ret->len, len - ret->len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		ret->len += (size_t)n;
	}
	return 0;
}

int velad_open(struct velad_reply *ret, int *fd, const char *socket, const char *path, const char *protocol)
{
	char head[HEAD_MAX];
	int on = -1, r, n;

	memset(ret, 0, sizeof(*ret));
	r = reach(ret, &on, socket);
	n = snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: velad\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", path, protocol);
	if (r == 0 && (n < 0 || n >= (int)sizeof(head)))
		r = fail(ret, -E2BIG, "talking to velad", socket);
	if (r == 0) {
		r = say(on, head, (size_t)n);
		if (r == 0)
			r = hear_head(on, head);
		if (r == 0 && sscanf(head, "HTTP/1.1 %d", &ret->status) != 1)
			r = -EIO;
		if (r == 0 && ret->status != 101)
			r = hear_body(ret, on, body_length(head));
		if (r < 0)
			r = fail(ret, r == -ENOMEM || r == -E2BIG ? r : -EIO, "talking to velad", socket);
	}
	if (r == 0 && ret->status == 101) {
		*fd = on;
		return 0;
	}
	if (on >= 0)
		(void)close(on);
	return r;
}
