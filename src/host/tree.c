/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Links and directories through the door. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "host/root_own.h"

/* ---- links ------------------------------------------------------------------------------------------ */

static int read_target(struct host_root *r, char *buf, size_t size, int fd, const char *path)
{
	ssize_t n = readlinkat(fd, path, buf, size);

	r->syscalls++;
	if (n < 0)
		return errno == ENOENT && !*path ? -EINVAL : -errno; /* readlink(2), empty path: not a link */
	if ((size_t)n == size)
		return -ENAMETOOLONG;
	buf[n] = '\0';
	return 0;
}

static int dir_link(struct host_root *r, char *buf, size_t size, const char *path)
{
	/* the link itself must be opened: its parent may lie behind other links of the fixture */
	autoclose int fd = root_open(r, path, O_PATH | O_NOFOLLOW);

	if (fd < 0)
		return fd;
	r->syscalls++; /* close */
	return read_target(r, buf, size, fd, "");
}

/* What is no link: a directory, or something that a dump has as this error. */
static void record_other(struct host_root *r, const char *path, int error)
{
	const struct text_entry *e = r->text ? text_host_find(r->text, path) : NULL;
	int fd = r->text ? -1 : root_open(r, path, O_PATH | O_DIRECTORY | O_NOFOLLOW);

	if (fd >= 0 || (r->text && (!e || e->type == TEXT_DIR)))
		record_add(&r->record, &(struct text_entry){ .path = path, .type = TEXT_DIR });
	else
		record_add(&r->record, &(struct text_entry){ .path = path, .type = TEXT_ERROR, .error = error });
	if (fd >= 0)
		(void)close(fd);
}

/* Where a link should be and is none, a dump must lead to the same answer. */
static void record_asked(struct host_root *r, const char *path, const char *target, int e)
{
	if (r->record.host && e == -EINVAL)
		record_other(r, path, EINVAL);
	else
		record_link(&r->record, path, target, e);
}

int host_link(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	if (e == 0)
		e = r->text ? text_host_link(r->text, buf, size, path) : dir_link(r, buf, size, path);
	record_asked(r, path, buf, e);
	return e;
}

int host_link_plain(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	if (e == 0)
		e = r->text ? text_host_link(r->text, buf, size, path) : read_target(r, buf, size, r->fd, path);
	record_asked(r, path, buf, e);
	return e;
}

/* ---- directories ------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int names_add(struct host_names *names, size_t *size, struct arena *arena, const char *name, size_t len)
{
	char *copy;

	if (names->n == *size) {
		size_t more = *size ? *size * 2 : 64;
		const char **p = arena_array(arena, more, sizeof(*p));

		if (!p)
			return -ENOMEM;
		if (names->n)
			memcpy(p, names->name, names->n * sizeof(*p));
		names->name = p;
		*size = more;
	}
	copy = arena_alloc(arena, len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, len);
	names->name[names->n++] = copy;
	return 0;
}

/* getdents64(2) itself, not readdir(3): so the calls can be counted. */
static int dir_list(struct host_root *r, struct host_names *names, struct arena *arena, const char *path)
{
	autoclose int fd = root_open(r, path, O_RDONLY | O_DIRECTORY);
	alignas(struct dirent64) char buf[32768];
	ssize_t len = 1;
	size_t size = 0;

	if (fd < 0)
		return fd;
	r->syscalls++; /* close */
	while (len > 0) {
		len = getdents64(fd, buf, sizeof(buf));
		r->syscalls++;
		for (ssize_t at = 0; at < len; at += ((struct dirent64 *)(void *)(buf + at))->d_reclen) {
			const char *name = ((struct dirent64 *)(void *)(buf + at))->d_name;

			if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
			    names_add(names, &size, arena, name, strlen(name)) < 0)
				return -ENOMEM;
		}
	}
	return len < 0 ? -errno : 0;
}

static int text_list(struct host_root *r, struct host_names *names, struct arena *arena, const char *path)
{
	const struct text_entry *self = text_host_find(r->text, path);
	char prefix[HOST_PATH_MAX + 1];
	size_t n = strlen(path) + 1, size = 0, i;

	if (self && self->type != TEXT_DIR)
		return self->type == TEXT_ERROR ? -self->error : -ENOTDIR;
	(void)snprintf(prefix, sizeof(prefix), "%s/", path);
	i = text_host_from(r->text, prefix);
	if (!self && (i == r->text->n || strncmp(r->text->entry[i].path, prefix, n) != 0))
		return -ENOENT;
	for (; i < r->text->n && strncmp(r->text->entry[i].path, prefix, n) == 0; i++) {
		const char *name = r->text->entry[i].path + n;
		size_t len = strcspn(name, "/");
		const char *last = names->n ? names->name[names->n - 1] : NULL;
		int e = 0;

		/* "a/x", "a-b/y" and "a/z" sort so that a name's entries may be apart by others */
		if (!last || strlen(last) != len || memcmp(last, name, len) != 0)
			e = names_add(names, &size, arena, name, len);
		if (e < 0)
			return e;
	}
	return 0;
}

/* A dump must show what a listing showed: links, directories and files that nobody reads for themselves. */
static void record_child(struct host_root *r, const char *path)
{
	char target[HOST_PATH_MAX];

	if ((r->text ? text_host_link(r->text, target, sizeof(target), path) : dir_link(r, target, sizeof(target), path)) == 0)
		record_add(&r->record, &(struct text_entry){ .path = path, .type = TEXT_LINK, .value = target });
	else
		record_other(r, path, ENODATA);
}

static void record_names(struct host_root *r, const char *path, const struct host_names *names)
{
	char child[HOST_PATH_MAX];

	record_add(&r->record, &(struct text_entry){ .path = path, .type = TEXT_DIR });
	for (size_t i = 0; i < names->n; i++)
		if (snprintf(child, sizeof(child), "%s/%s", path, names->name[i]) < (int)sizeof(child))
			record_child(r, child);
}

int host_list(struct host_root *r, struct host_names *ret, struct arena *arena, const char *fmt, ...)
{
	struct host_names names = { 0 };
	char path[HOST_PATH_MAX];
	size_t n = 0;
	int e = PATH_OF(path, fmt);

	if (e == 0)
		e = r->text ? text_list(r, &names, arena, path) : dir_list(r, &names, arena, path);
	record_error(&r->record, path, e);
	if (e < 0)
		return e;
	if (names.n)
		qsort(names.name, names.n, sizeof(*names.name), by_name);
	for (size_t i = 0; i < names.n; i++)
		if (n == 0 || strcmp(names.name[n - 1], names.name[i]) != 0)
			names.name[n++] = names.name[i];
	names.n = n;
	if (r->record.host)
		record_names(r, path, &names);
	*ret = names;
	return 0;
}
