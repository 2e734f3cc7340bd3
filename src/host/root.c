/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The door itself: a directory entered with openat2(RESOLVE_IN_ROOT), or a text host in memory. It counts
 * what it costs and, when asked, records what it gave. */
#include "host/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "host/rdmatopo.h"
#include "host/root_own.h"

#define TEXT_FILE_MAX (256u * 1024 * 1024)
#define READ_ALL_MAX  (1024 * 1024)

static void init_locks(struct host_root *r)
{
	(void)pthread_mutex_init(&r->vpd.lock, NULL); /* glibc: never fails without attributes */
	(void)pthread_mutex_init(&r->avoided.lock, NULL);
	kept_init(&r->kept);
}

int host_root_open(struct host_root **ret, const char *dir, struct error *err)
{
	auto_(host_root_close) struct host_root *r = calloc(1, sizeof(*r));
	struct stat ours, slash;

	if (!r)
		return error_set(err, -ENOMEM, "no memory");
	init_locks(r);
	r->fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->fd < 0)
		/* cppcheck-suppress memleak ; auto_ frees it, cppcheck does not know the attribute */
		return error_set(err, -errno, "cannot enter the root %s: %s", dir, strerror(errno));
	r->machine = fstat(r->fd, &ours) == 0 && stat("/", &slash) == 0 && ours.st_dev == slash.st_dev &&
		     ours.st_ino == slash.st_ino;
	*ret = steal(r);
	return 0;
}

int host_root_parse_text(struct host_root **ret, const char *text, size_t len, const char *name,
			 struct error *err)
{
	auto_(host_root_close) struct host_root *r = calloc(1, sizeof(*r));
	int e;

	if (!r)
		return error_set(err, -ENOMEM, "no memory");
	init_locks(r);
	r->fd = -1;
	e = rdmatopo_is(text, len) ? rdmatopo_parse(&r->text, text, len, name, err)
				   : text_host_parse(&r->text, text, len, name, err);
	if (e < 0)
		return e;
	*ret = steal(r);
	return 0;
}

int host_root_open_text(struct host_root **ret, const char *file, struct error *err)
{
	autofree char *text = NULL;
	size_t len;
	int r = file_read(&text, &len, file, TEXT_FILE_MAX);

	if (r < 0)
		return error_set(err, r, "cannot read the text host %s: %s", file, strerror(-r));
	return host_root_parse_text(ret, text, len, file, err);
}

struct host_root *host_root_close(struct host_root *r)
{
	if (r) {
		if (r->fd >= 0)
			(void)close(r->fd);
		text_host_free(r->text);
		text_host_free(r->record.host);
		kept_done(&r->kept);
		avoided_done(&r->avoided);
		(void)pthread_mutex_destroy(&r->vpd.lock);
		free(r->vpd.known);
		free(r);
	}
	return NULL;
}

void host_root_set_opener(struct host_root *r, int (*fn)(void *self, const char *path), void *self)
{
	r->opener = fn;
	r->opener_self = self;
}

int host_root_ask(struct host_root *r, const char *what)
{
	return r->opener && r->machine ? r->opener(r->opener_self, what) : -ENOSYS;
}

bool host_root_is_machine(const struct host_root *r)
{
	return r->machine;
}

struct host_stats host_root_stats(const struct host_root *r)
{
	return (struct host_stats){ .syscalls = r->syscalls, .config_dwords = r->config_dwords };
}

void host_record(struct host_root *r, const char *path, const char *value)
{
	record_add(&r->record, &(struct text_entry){ .path = path, .type = TEXT_FILE, .value = value });
}

int host_record_start(struct host_root *r, struct error *err)
{
	text_host_free(r->record.host);
	r->record = (struct recorder){ .host = text_host_new() };
	return r->record.host ? 0 : error_set(err, -ENOMEM, "no memory for a dump");
}

struct text_host *host_record_end(struct host_root *r, struct error *err)
{
	if (r->record.failed)
		r->record.host = text_host_free(r->record.host);
	if (!r->record.host)
		(void)error_set(err, -ENOMEM, "no memory for a dump");
	else
		text_host_sort(r->record.host);
	return steal(r->record.host);
}

const char *host_root_comment(const struct host_root *r)
{
	return r->text && r->text->comment ? r->text->comment : "";
}

/* ---- paths -------------------------------------------------------------------------------------- */

int host_path(char path[HOST_PATH_MAX], const char *fmt, va_list ap)
{
	int n = vsnprintf(path, HOST_PATH_MAX, fmt, ap);

	return n > 0 && n < HOST_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* openat2(2): nothing in a fixture can lead out of it. EAGAIN: a rename raced with the walk. */
static int root_open_how(struct host_root *r, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | resolve };
	int fd, tries = 8;

	do {
		r->syscalls++;
		fd = (int)syscall(SYS_openat2, r->fd, path, &how, sizeof(how));
		if (fd < 0 && errno == ENOSYS && r->machine && !(resolve & RESOLVE_NO_SYMLINKS))
			fd = openat(r->fd, path, (int)how.flags); /* systemd's RestrictSUIDSGID=; and nothing leads out of "/" */
	} while (fd < 0 && (errno == EINTR || (errno == EAGAIN && --tries)));
	return fd < 0 ? -errno : fd;
}

int root_open(struct host_root *r, const char *path, uint64_t flags)
{
	return root_open_how(r, path, flags, 0);
}

int root_open_asked(struct host_root *r, const char *path)
{
	if (!r->opener)
		return root_open(r, path, O_RDONLY | O_NOCTTY);
	r->syscalls += 2; /* a message there, one back */
	return r->opener(r->opener_self, path);
}

bool host_is_plain(struct host_root *r, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int fd = PATH_OF(path, fmt);

	if (r->text)
		return fd == 0; /* a text host does not follow links */
	if (fd == 0)
		fd = root_open_how(r, path, O_PATH, RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return false;
	(void)close(fd);
	r->syscalls++;
	return true;
}

/* ---- files -------------------------------------------------------------------------------------- */

static int read_file(struct host_root *r, char *buf, size_t size, size_t *len, const char *path, uint64_t resolve)
{
	autoclose int fd = root_open_how(r, path, O_RDONLY | O_NOCTTY, resolve);
	size_t n = 0;

	if (fd < 0)
		return fd;
	r->syscalls++; /* close */
	while (n < size) {
		ssize_t got = read(fd, buf + n, size - n);

		r->syscalls++;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		n += (size_t)got;
		/* sysfs gives a whole attribute in one read; a short read is its end (fs/kernfs/file.c) */
		if (got == 0 || (size_t)got < size / 2)
			break;
	}
	*len = n;
	return 0;
}

int root_read(struct host_root *r, char *buf, size_t size, size_t *len, const char *path, uint64_t resolve)
{
	int e = progress_begin(r, path);

	if (e == 0) {
		e = read_file(r, buf, size, len, path, resolve);
		progress_end();
	}
	return e;
}

/* more: what was cut off begins so; a dump has it, so that it is cut for the next reader, too. */
static void record_text(struct host_root *r, const char *path, const char *text, char more)
{
	autofree char *longer = NULL;

	if (r->record.host && more && asprintf(&longer, "%s%c", text, more) < 0) {
		longer = NULL;
		r->record.failed = true;
	}
	record_add(&r->record, &(struct text_entry){ .path = path, .type = TEXT_FILE, .value = longer ? longer : text });
}

enum how {
	ONCE,
	PLAIN, /* no link leads there */
	AGAIN, /* it stays open */
};

static int read_bytes(struct host_root *r, char *buf, size_t size, size_t *len, const char *path, enum how how)
{
	if (r->text)
		return text_host_read(r->text, buf, size, len, path);
	return how == AGAIN ? kept_read(r, buf, size, len, path) : root_read(r, buf, size, len, path, how == PLAIN ? RESOLVE_NO_SYMLINKS : 0);
}

/* Text up to a NUL byte, without its final newline. -EFBIG if it was cut; buf then has its beginning. */
static int read_path(struct host_root *r, char *buf, size_t size, const char *path, enum how how)
{
	size_t len = 0;
	int e = read_bytes(r, buf, size, &len, path, how);
	bool cut = len == size;
	char last;

	record_error(&r->record, path, e);
	if (e < 0)
		return e;
	last = cut ? buf[size - 1] : '\0';
	len -= cut;
	buf[len] = '\0';
	len = strlen(buf);
	if (!r->text && len && buf[len - 1] == '\n' && !cut) /* a text host has it without already */
		buf[len - 1] = '\0';
	record_text(r, path, buf, cut && len + 1 == size ? last : '\0');
	return cut ? -EFBIG : 0;
}

int host_read(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	return e < 0 ? e : read_path(r, buf, size, path, ONCE);
}

int host_read_again(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	return e < 0 ? e : read_path(r, buf, size, path, AGAIN);
}

int host_read_plain(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	return e < 0 ? e : read_path(r, buf, size, path, PLAIN);
}

int host_read_all(struct host_root *r, char **ret, struct arena *arena, const char *fmt, ...)
{
	autofree char *buf = NULL;
	char path[HOST_PATH_MAX];
	size_t size = 4096;
	int e = PATH_OF(path, fmt);

	while (e == 0 || (e == -EFBIG && size < READ_ALL_MAX)) {
		free(buf);
		buf = malloc(size *= 4);
		if (!buf)
			return -ENOMEM;
		e = read_path(r, buf, size, path, ONCE);
		if (e == 0)
			break;
	}
	if (e < 0)
		return e;
	*ret = arena_strdup(arena, buf);
	return *ret ? 0 : -ENOMEM;
}

static int text_bytes(struct text_host *host, uint8_t *buf, size_t size, size_t *len, const char *path)
{
	const struct text_entry *t = text_host_find(host, path);

	if (!t || t->type != TEXT_BYTES || t->known)
		return -EOPNOTSUPP;
	*len = t->len < size ? t->len : size;
	memcpy(buf, t->bytes, *len);
	return 0;
}

static int read_all_bytes(struct host_root *r, uint8_t *buf, size_t size, size_t *len, const char *path)
{
	autoclose int fd = -1;
	ssize_t got = 1;

	fd = root_open(r, path, O_RDONLY | O_NOCTTY);
	if (fd == -EACCES)
		fd = root_open_asked(r, path);
	r->syscalls += fd >= 0; /* close */
	for (*len = 0; fd >= 0 && *len < size && got; *len += got > 0 ? (size_t)got : 0) {
		got = read(fd, buf + *len, size - *len);
		r->syscalls++;
		if (got < 0 && errno != EINTR)
			return -errno;
	}
	return fd < 0 ? fd : 0;
}

int host_read_bytes(struct host_root *r, uint8_t *buf, size_t size, size_t *len, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	if (e == 0 && r->text)
		return text_bytes(r->text, buf, size, len, path);
	if (e == 0)
		e = progress_begin(r, path);
	if (e < 0)
		return e;
	e = read_all_bytes(r, buf, size, len, path);
	progress_end();
	return e;
}

int host_open(struct host_root *r, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	return e < 0 ? e : r->text ? -EOPNOTSUPP : root_open(r, path, O_RDONLY | O_NOCTTY);
}

static int uint_of(uint64_t *ret, const char *buf, int e, int base, uint64_t max)
{
	if (e < 0)
		return e == -EFBIG ? -EINVAL : e;
	return parse_uint(ret, buf, base, max);
}

int host_read_uint(struct host_root *r, uint64_t *ret, int base, uint64_t max, const char *fmt, ...)
{
	char path[HOST_PATH_MAX], buf[64];
	int e = PATH_OF(path, fmt);

	return uint_of(ret, buf, e == 0 ? read_path(r, buf, sizeof(buf), path, ONCE) : e, base, max);
}

int host_read_uint_again(struct host_root *r, uint64_t *ret, int base, uint64_t max, const char *fmt, ...)
{
	char path[HOST_PATH_MAX], buf[64];
	int e = PATH_OF(path, fmt);

	return uint_of(ret, buf, e == 0 ? read_path(r, buf, sizeof(buf), path, AGAIN) : e, base, max);
}

/* One call: each write(2) is one store() of the attribute. */
static int write_path(struct host_root *r, const char *path, const void *bytes, size_t len, size_t off, int flags)
{
	autoclose int fd = r->text ? -EROFS : root_open(r, path, O_WRONLY | O_NOCTTY | flags);
	ssize_t n;

	if (fd < 0)
		return fd;
	r->syscalls += 2;
	n = off ? pwrite(fd, bytes, len, (off_t)off) : write(fd, bytes, len);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int host_write(struct host_root *r, const char *value, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	return e < 0 ? e : write_path(r, path, value, strlen(value), 0, O_TRUNC);
}

int host_write_at(struct host_root *r, const void *bytes, size_t len, size_t off, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	return e < 0 ? e : write_path(r, path, bytes, len, off, 0);
}
