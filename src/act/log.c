/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files by name in one directory; a name is a guest's (plan/request.h) and was checked by the caller. */
#include "act/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

static int log_path(char *path, size_t size, const char *dir, const char *name, unsigned file, struct error *err)
{
	int n = file ? snprintf(path, size, "%s/%s.log.%u", dir, name, file - 1) : snprintf(path, size, "%s/%s.log", dir, name);

	if (file >= ACT_LOG_FILES)
		return error_set(err, -ENOENT, "the console log of %s has fewer than %u files", name, file);
	return n < (int)size ? 0 : error_set(err, -ENAMETOOLONG, "the path of the console log of %s is too long: %s", name, dir);
}

int act_log_open(const char *dir, const char *name, unsigned file, struct error *err)
{
	autoclose int fd = -1;
	char path[512];
	struct stat st;
	int r = log_path(path, sizeof(path), dir, name, file, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno == ENOENT ? -ENOENT : -EIO, "cannot open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, -EIO, "%s is no file that a console's log can be", path);
	return steal_fd(&fd);
}

int act_log_drop(const char *dir, const char *name, struct error *err)
{
	char path[512];

	for (unsigned i = 0; i < ACT_LOG_FILES; i++) {
		int r = log_path(path, sizeof(path), dir, name, i, err);

		if (r < 0)
			return r;
		if (unlink(path) < 0 && errno != ENOENT)
			return error_set(err, -EIO, "cannot remove %s, which an earlier guest of that name left: %s", path, strerror(errno));
	}
	return 0;
}
