/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that are read before each plan stay open: two calls without a path to walk instead of three with one. An attribute of sysfs is made
 * anew for a read at its beginning, and says -ENODEV once what it belongs to is gone (fs/kernfs/file.c); a file of a simulated host that
 * was replaced has no name any more. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/root_own.h"

#define KEPT_MAX 256 /* of 16 nodes with two sizes of hugepages some hundred */

struct kept_file {
	char *path; /* owned, as is the descriptor */
	int   fd;
};

static void forget(struct kept *k, struct kept_file *f)
{
	(void)close(f->fd);
	free(f->path);
	*f = k->at[--k->n];
}

static bool is_gone(struct host_root *r, int fd)
{
	struct stat st;

	r->syscalls++;
	return fstat(fd, &st) < 0 || st.st_nlink == 0;
}

static struct kept_file *add(struct host_root *r, const char *path)
{
	struct kept_file *at = r->kept.n < KEPT_MAX ? reallocarray(r->kept.at, r->kept.n + 1, sizeof(*at)) : NULL, f;

	if (!at)
		return NULL;
	r->kept.at = at;
	f.path = strdup(path);
	f.fd = f.path ? root_open(r, path, O_RDONLY | O_NOCTTY) : -1;
	if (f.fd < 0) {
		free(f.path);
		return NULL;
	}
	r->syscalls++; /* its close */
	at[r->kept.n] = f;
	return &at[r->kept.n++];
}

/* Open and as it is now; NULL: it cannot be. */
static struct kept_file *find(struct host_root *r, const char *path)
{
	struct kept *k = &r->kept;

	for (size_t i = 0; i < k->n; i++) {
		if (strcmp(k->at[i].path, path) != 0)
			continue;
		if (!is_gone(r, k->at[i].fd))
			return &k->at[i];
		forget(k, &k->at[i]);
		break;
	}
	return add(r, path);
}

/* Bytes; -1: it is to be read as any other. Who finds the lock held does not wait for a read that may not return. */
static ssize_t read_kept(struct host_root *r, char *buf, size_t size, const char *path)
{
	struct kept_file *f;
	ssize_t n = -1;

	if (pthread_mutex_trylock(&r->kept.lock) != 0)
		return -1;
	f = find(r, path);
	if (f) {
		n = pread(f->fd, buf, size, 0);
		r->syscalls++;
		if (n < 0)
			forget(&r->kept, f);
	}
	(void)pthread_mutex_unlock(&r->kept.lock);
	return n;
}

int kept_read(struct host_root *r, char *buf, size_t size, size_t *len, const char *path)
{
	ssize_t n = progress_begin(r, path);

	if (n < 0)
		return (int)n;
	n = read_kept(r, buf, size, path);
	progress_end();
	if (n < 0 || (size_t)n >= size / 2) /* another one is there now, or none; or it is longer than one read */
		return root_read(r, buf, size, len, path, 0);
	*len = (size_t)n;
	return 0;
}

void kept_init(struct kept *k)
{
	(void)pthread_mutex_init(&k->lock, NULL); /* glibc: never fails without attributes */
}

void kept_done(struct kept *k)
{
	while (k->n)
		forget(k, &k->at[k->n - 1]);
	free(k->at);
	(void)pthread_mutex_destroy(&k->lock);
}
