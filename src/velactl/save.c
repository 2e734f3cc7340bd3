/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Beside its place, then renamed: a reader never sees half a file, and a full disk costs no old one. */
#include "velactl/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* Some file systems tell only at fsync or close that the disk is full (close(2)). */
static int finish(int *fd, bool plain)
{
	int r = plain && fsync(*fd) < 0 ? -errno : 0;

	if (close(steal_fd(fd)) < 0 && r == 0)
		r = -errno;
	return r;
}

static int write_special(const char *path, const char *text, size_t len)
{
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	int r = fd < 0 ? -errno : write_all(fd, text, len);

	return r < 0 ? r : finish(&fd, false);
}

/* mkstemp(3) makes files for their owner only; this one gets the mode that open(2) would have given. */
static mode_t mode_of(const struct stat *old)
{
	mode_t mask;

	if (old)
		return old->st_mode & 0777;
	mask = umask(0);
	(void)umask(mask);
	return 0666 & ~mask;
}

static int replace(const char *path, mode_t mode, const char *text, size_t len)
{
	autofree char *name = NULL;
	autoclose int fd = -1;
	int r;

	if (asprintf(&name, "%s.XXXXXX", path) < 0) {
		name = NULL; /* undefined then (asprintf(3)) */
		return -ENOMEM;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text, len);
	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (r == 0)
		r = finish(&fd, true);
	if (r == 0 && rename(name, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(name); /* the error before is the one to tell */
	return r;
}

int ctl_save(const char *path, const char *text, size_t len, struct error *err)
{
	autofree char *real = realpath(path, NULL); /* a link stays one, its file is replaced */
	struct stat st;
	bool old = stat(path, &st) == 0;
	int r;

	if (old && S_ISDIR(st.st_mode))
		r = -EISDIR;
	else if (old && !S_ISREG(st.st_mode))
		r = write_special(path, text, len);
	else
		r = replace(real ? real : path, mode_of(old ? &st : NULL), text, len);
	if (r == 0)
		return 0;
	/* a file, not an object of velad: exit status 1 whatever the errno */
	return error_set(err, -EIO, "cannot write %s: %s", path, strerror(-r));
}
