/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The listening socket, where systemd hands none over. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "api/server.h"
#include "base/error.h"

/* Clears the way for bind(2): a socket file that nobody listens on (ECONNREFUSED) is removed. One that
 * somebody answers on, be it with a full backlog (EAGAIN), is not. */
static int make_room(const struct sockaddr_un *addr, struct error *err)
{
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (lstat(addr->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return 0; /* bind says what is wrong with it */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno == EAGAIN)
		return error_set(err, -EADDRINUSE, "another velad answers on %s", addr->sun_path);
	if (errno == ECONNREFUSED)
		(void)unlink(addr->sun_path); /* bind says so if it could not be removed */
	return 0;
}

/* Mode 0660 without the process's umask, which other threads need: the file gets the mode of the
 * descriptor less the umask (unix_bind_bsd() in net/unix/af_unix.c), so it is never open too wide. */
static int bind_socket(int fd, const struct sockaddr_un *addr)
{
	if (fchmod(fd, 0660) < 0 || bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ||
	    chmod(addr->sun_path, 0660) < 0 || listen(fd, 128) < 0)
		return -errno;
	return 0;
}

int api_listen(const char *path, struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	autoclose int fd = -1;
	int r;

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, -ENAMETOOLONG, "the socket path %s is longer than %zu bytes", path,
				 sizeof(addr.sun_path) - 1);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	r = make_room(&addr, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	r = bind_socket(fd, &addr);
	if (r < 0)
		return error_set(err, r, "cannot listen on %s: %s", path, strerror(-r));
	return steal_fd(&fd);
}
