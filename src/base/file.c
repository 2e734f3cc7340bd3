/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"

int file_read_fd(char **ret, size_t *ret_len, int fd, size_t max)
{
	autofree char *buf = NULL;
	size_t len = 0, size = 0;

	for (;;) {
		ssize_t n;

		if (size - len < 2) {
			char *p = realloc(buf, size = size ? size * 2 : 8192);

			if (!p)
				return -ENOMEM;
			buf = p;
		}
		n = read(fd, buf + len, size - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		len += (size_t)n;
		if (len > max)
			return -EFBIG;
		if (n == 0)
			break;
	}
	buf[len] = '\0';
	*ret = steal(buf);
	*ret_len = len;
	return 0;
}

int file_read(char **ret, size_t *ret_len, const char *path, size_t max)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return -errno;
	return file_read_fd(ret, ret_len, fd, max);
}
