/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/text — a text host (sys.txt) in memory: the files of one machine as reviewable text.
 *
 *   # velad text host 1            first line
 *   PATH<TAB>VALUE                 a file; \n, \t and \\ escaped
 *   PATH -> TARGET                 a symbolic link
 *   PATH<TAB>bytes SIZE            config space; then rows " 060: 10 00 ..." of up to 16 bytes, zero rows left out
 *   PATH<TAB>parts SIZE            config space read in part: rows left out and bytes "--" are not known
 *   PATH/                          an empty directory
 *   PATH ! EACCES                  it is there, but reading it fails with this error; ENODATA: nobody has read it
 *
 * Lines with # are comments. Paths are relative; their order in the file does not matter. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/auto.h"

struct error;

#define TEXT_MAGIC "# velad text host 1"

enum text_type { TEXT_FILE, TEXT_LINK, TEXT_BYTES, TEXT_DIR, TEXT_ERROR };

struct text_entry {
	const char    *path;
	enum text_type type;
	const char    *value; /* file, link */
	uint8_t       *bytes; /* bytes */
	size_t         len;   /* of bytes */
	uint8_t       *known; /* of bytes read in part: bit i is dword i; NULL: all are known */
	int            error; /* errno, positive */
	uint32_t       order; /* of adding, while a host is built */
};

struct text_host {
	struct arena       arena;
	struct text_entry *entry; /* sorted by path, none twice */
	size_t             n, size;
	size_t             bytes;   /* config space held, as a limit */
	const char        *comment; /* the comment lines above the first entry; NULL: none */
};

/* -EINVAL names the file and line. */
int text_host_parse(struct text_host **ret, const char *text, size_t len, const char *name, struct error *err);
struct text_host *text_host_free(struct text_host *t);
AUTO_DEFINE(struct text_host *, text_host_free);

const struct text_entry *text_host_find(const struct text_host *t, const char *path);
/* The first entry whose path is not before this one: where a directory's entries start. */
size_t text_host_from(const struct text_host *t, const char *path);

/* Whether something lies below a directory. Its entries need not follow it: "a-b/x" sorts before "a/x". */
bool text_host_has_below(const struct text_host *t, const char *path);

/* The beginning of a file, at most size bytes without a NUL. -errno, as opening and reading it would give. */
int text_host_read(const struct text_host *t, char *buf, size_t size, size_t *len, const char *path);
/* The target of a link, as readlink gives it. -ENOENT; -EINVAL: there is something else. */
int text_host_link(const struct text_host *t, char *buf, size_t size, const char *path);

/* Whether the dword at off was read. */
bool text_entry_knows(const struct text_entry *e, size_t off);

/* Building one (src/host/text_write.c): entries may come in any order and twice. The last one counts; config
 * space that was read twice is put together. What the format cannot say is left out. */
struct text_host *text_host_new(void);
struct text_entry *text_host_entry(struct text_host *t); /* a new one; NULL: no memory */
int   text_host_add(struct text_host *t, const struct text_entry *e); /* copies; -ENOMEM */
void  text_host_sort(struct text_host *t);
char *text_host_render(struct text_host *t); /* sorts; NULL: no memory; the caller frees */
