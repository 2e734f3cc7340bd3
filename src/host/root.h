/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/root — the only door to a machine's files: a directory (normally /), or a text host (sys.txt
 * or rdma_topo's JSON).
 *
 * Paths are relative ("sys/bus/pci/devices"), made from a format. A directory is entered with
 * openat2(RESOLVE_IN_ROOT), so no symlink of a fixture leaves it. A text host is read-only and does not
 * follow symlinks inside paths: use real paths ("sys/devices/..."), as host/pci.c does. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

struct arena;
struct error;
struct host_root; /* opaque */

#define HOST_PATH_MAX 1024

struct host_stats {
	uint64_t syscalls;      /* open, read, readlink, getdents, close made through this root */
	uint64_t config_dwords; /* config space dwords read: the cost that counts on real hardware */
};

int host_root_open(struct host_root **ret, const char *dir, struct error *err);
int host_root_open_text(struct host_root **ret, const char *file, struct error *err);
/* Takes the text itself (for tests and fuzzers), in either format; name is for errors. */
int host_root_parse_text(struct host_root **ret, const char *text, size_t len, const char *name,
			 struct error *err);
struct host_root *host_root_close(struct host_root *r); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct host_root *, host_root_close);

/* Files that this process may not read, and config space, whose reading ends after the header for it: fn gives a descriptor,
 * or -errno. It may be called on any thread. Set before anything is read. */
void host_root_set_opener(struct host_root *r, int (*fn)(void *self, const char *path), void *self);
/* Something else that the opener opens: a socket of the host's network namespace. -ENOSYS: there is none; this process opens it itself. */
#define HOST_ASK_UEVENTS "netlink/uevents"
#define HOST_ASK_LINKS   "netlink/links"
#define HOST_ASK_DEVLINK "netlink/devlink"
#define HOST_ASK_PARTITIONS "fmpm/partitions" /* a file with what fmpm -l prints */
int  host_root_ask(struct host_root *r, const char *what);
bool host_root_is_machine(const struct host_root *r); /* the root is "/": modules may be loaded for it */
struct host_stats host_root_stats(const struct host_root *r);

/* The whole text file without its final newline, NUL-terminated. -errno (-ENOENT: it is not there);
 * -EFBIG if it does not fit into size. Embedded NUL bytes end the text. */
int host_read(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* As host_read, of any length up to 1 MiB, in the arena. */
int host_read_all(struct host_root *r, char **ret, struct arena *arena, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Up to size bytes of a binary file, which sysfs gives a page at a time. -EOPNOTSUPP on a text host that does not have them all. */
int host_read_bytes(struct host_root *r, uint8_t *buf, size_t size, size_t *len, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* A descriptor for reading, or -errno; the caller closes it. -EOPNOTSUPP on a text host. */
int host_open(struct host_root *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One number and nothing else; base 10 or 16. -EINVAL, -ERANGE as parse_uint. */
int host_read_uint(struct host_root *r, uint64_t *ret, int base, uint64_t max, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* As host_read() and host_read_uint(), of what is read time and again: it stays open, and is as it is now all the same. */
int host_read_again(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int host_read_uint_again(struct host_root *r, uint64_t *ret, int base, uint64_t max, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The target of a symbolic link, as it stands there. */
int host_link(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Cheaper reading where no part of a path is a symbolic link, as in the real sys/devices: a link then costs
 * one system call, not three. host_read_plain() refuses with -ELOOP where a part is one. host_link_plain() is
 * only for directories that host_is_plain() or a successful host_read_plain() has shown to be plain. */
bool host_is_plain(struct host_root *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int  host_read_plain(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int  host_link_plain(struct host_root *r, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

struct host_names {
	const char **name; /* sorted bytewise, without . and .. */
	size_t       n;
};
int host_list(struct host_root *r, struct host_names *ret, struct arena *arena, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define HOST_CHUNK_MAX 256

/* Config space of one function, opened once and read by aligned dwords. */
struct host_config {
	struct host_root *root; /* borrowed */
	int               fd;   /* of a directory root; -1 */
	const void       *text; /* of a text root; borrowed */
	struct config_note *note; /* owned; NULL unless recording */
	uint16_t          chunk;   /* bytes read at once, a power of two; 0: what is asked for */
	uint16_t          at, len; /* the bytes read last */
	uint8_t           bytes[HOST_CHUNK_MAX];
};
int  host_config_open(struct host_config *ret, struct host_root *r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* n aligned dwords in one call; -ENODATA if not all of them can be read. */
int  host_config_read(struct host_config *c, uint16_t off, unsigned n, uint32_t *ret);
void host_config_close(struct host_config *c);

/* Writes value in one write(2). For act/ only. -EROFS on a text host. */
int host_write(struct host_root *r, const char *value, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with bytes at an offset, as config space takes them. -EIO: not all of them were taken. */
int host_write_at(struct host_root *r, const void *bytes, size_t len, size_t off, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* While a recorder is set, everything that is read through r is remembered, also that it could not be read. Of a
 * config space that is the standard header and the dwords that were asked for. */
struct text_host;
int               host_record_start(struct host_root *r, struct error *err);
struct text_host *host_record_end(struct host_root *r, struct error *err); /* the caller frees; NULL: no memory */
const char       *host_root_comment(const struct host_root *r); /* of a text host: its head comments; else "" */
/* For what was read from elsewhere: host/answer. */
void              host_record(struct host_root *r, const char *path, const char *value);
