/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/text — a text host (sys.txt) in memory: the files of one machine as reviewable text.
 *
 *   # velad text host 1            first line
 *   PATH<TAB>VALUE                 a file; \n, \t and \\ escaped
 *   PATH -> TARGET                 a symbolic link
 *   PATH<TAB>bytes SIZE            config space; then rows " 060: 10 00 ..." of up to 16 bytes, zero rows left out
 *   PATH/                          an empty directory
 *
 * Lines with # are comments. Paths are relative; their order in the file does not matter. */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/auto.h"

struct error;

#define TEXT_MAGIC "# velad text host 1"

enum text_type { TEXT_FILE, TEXT_LINK, TEXT_BYTES, TEXT_DIR };

struct text_entry {
	const char    *path;
	enum text_type type;
	const char    *value; /* file, link */
	uint8_t       *bytes; /* bytes */
	size_t         len;   /* of bytes */
};

struct text_host {
	struct arena       arena;
	struct text_entry *entry; /* sorted by path, none twice */
	size_t             n, size;
};

/* -EINVAL names the file and line. */
int text_host_parse(struct text_host **ret, const char *text, size_t len, const char *name, struct error *err);
struct text_host *text_host_free(struct text_host *t);
AUTO_DEFINE(struct text_host *, text_host_free);

const struct text_entry *text_host_find(const struct text_host *t, const char *path);
/* The first entry whose path is not before this one: where a directory's entries start. */
size_t text_host_from(const struct text_host *t, const char *path);

/* The target of a link, as readlink gives it. -ENOENT; -EINVAL: there is something else. */
int text_host_link(const struct text_host *t, char *buf, size_t size, const char *path);

/* Building one (the recorder): entries may come in any order and twice; the last one counts. */
struct text_host *text_host_new(void);
int   text_host_add(struct text_host *t, const struct text_entry *e); /* copies; -ENOMEM */
void  text_host_sort(struct text_host *t);
char *text_host_render(struct text_host *t, const char *comment); /* sorts; NULL: no memory */
