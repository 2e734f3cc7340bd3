/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parser and writer of text hosts. The parser takes foreign bytes: strict, bounded, fuzzed. */
#include "host/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "base/sbuf.h"

#define TEXT_BYTES_MAX 4096 /* a PCIe config space */
#define TEXT_PATH_MAX  4096 /* PATH_MAX */

struct parser {
	struct text_host *host;
	const char       *name;
	size_t            line;
	struct text_entry *bytes; /* rows go here; NULL: none expected */
	size_t            next;   /* least offset of the next row */
	struct error     *err;
};

static int bad(struct parser *p, const char *what)
{
	return error_set(p->err, -EINVAL, "%s:%zu: %s", p->name, p->line, what);
}

struct text_host *text_host_new(void)
{
	return calloc(1, sizeof(struct text_host));
}

struct text_host *text_host_free(struct text_host *t)
{
	if (t) {
		arena_done(&t->arena);
		free(t->entry);
		free(t);
	}
	return NULL;
}

static struct text_entry *entry_new(struct text_host *t)
{
	if (t->n == t->size) {
		size_t size = t->size ? t->size * 2 : 256;
		struct text_entry *e = reallocarray(t->entry, size, sizeof(*e));

		if (!e)
			return NULL;
		t->entry = e;
		t->size = size;
	}
	t->entry[t->n] = (struct text_entry){ 0 };
	return &t->entry[t->n++];
}

/* A relative path without empty, "." or ".." parts. */
static bool path_ok(const char *p)
{
	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
		if (*p && !*++p)
			return false;
	}
	return true;
}

/* Undoes \n, \t and \\ in place; false on another escape. */
static bool unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s == '\\') {
			s++;
			if (*s != 'n' && *s != 't' && *s != '\\')
				return false;
			*to++ = *s == 'n' ? '\n' : *s == 't' ? '\t' : '\\';
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
	return true;
}

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* " 060: 10 00 ..." into the entry that is open. */
static int parse_row(struct parser *p, const char *s)
{
	unsigned off = 0, n = 0;

	if (!p->bytes)
		return bad(p, "a row of bytes without \"PATH<TAB>bytes SIZE\" above it");
	for (s++; hex_digit(*s) >= 0 && off < TEXT_BYTES_MAX; s++)
		off = off << 4 | (unsigned)hex_digit(*s);
	if (*s++ != ':' || off % 16 || off < p->next)
		return bad(p, "the offset of a row must be a multiple of 16, above the row before, with a colon");
	for (; *s == ' ' && n < 16; n++, s += 2) {
		int hi = hex_digit(*++s), lo = hi >= 0 ? hex_digit(s[1]) : -1;

		if (lo < 0)
			return bad(p, "a byte must have two lower-case hex digits");
		if (off + n >= p->bytes->len)
			return bad(p, "the row goes beyond SIZE");
		p->bytes->bytes[off + n] = (uint8_t)(hi << 4 | lo);
	}
	if (*s || n == 0)
		return bad(p, "a row has 1 to 16 bytes, each with one blank before it");
	p->next = off + 16;
	return 0;
}

static int open_bytes(struct parser *p, struct text_entry *e, const char *size)
{
	uint64_t n = 0;

	if (parse_uint(&n, size, 10, TEXT_BYTES_MAX) < 0)
		return bad(p, "bytes SIZE must be a number up to 4096");
	e->type = TEXT_BYTES;
	e->len = n;
	e->bytes = arena_array(&p->host->arena, n, 1);
	if (!e->bytes)
		return error_set(p->err, -ENOMEM, "no memory for %s", p->name);
	p->bytes = e;
	p->next = 0;
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static int parse_entry(struct parser *p, char *line)
{
	char *tab = strchr(line, '\t'), *arrow = tab ? NULL : strstr(line, " -> ");
	size_t n = strlen(line);
	struct text_entry *e;

	p->bytes = NULL;
	e = entry_new(p->host);
	if (!e)
		return error_set(p->err, -ENOMEM, "no memory for %s", p->name);
	e->path = line;
	if (tab) {
		*tab++ = '\0';
		e->value = tab;
	} else if (arrow) {
		*arrow = '\0';
		e->type = TEXT_LINK;
		e->value = arrow + 4;
	} else if (line[n - 1] == '/') {
		line[n - 1] = '\0';
		e->type = TEXT_DIR;
	} else {
		return bad(p, "neither \"PATH<TAB>VALUE\", \"PATH -> TARGET\" nor \"PATH/\"");
	}
	if (!path_ok(e->path) || !*e->path)
		return bad(p, "the path must be relative, without empty, \".\" or \"..\" parts");
	if (tab && ends_with(e->path, "/config") && strncmp(tab, "bytes ", 6) == 0)
		return open_bytes(p, e, tab + 6);
	if (tab && !unescape(tab))
		return bad(p, "unknown escape; only \\n, \\t and \\\\ are known");
	return 0;
}

static int parse_lines(struct parser *p, char *text)
{
	char *line, *rest = text;
	int r = 0;

	for (line = strsep(&rest, "\n"); line && r == 0; line = strsep(&rest, "\n")) {
		p->line++;
		if (p->line == 1 && strcmp(line, TEXT_MAGIC) != 0)
			return error_set(p->err, -EINVAL, "%s is not a text host: its first line is not \"%s\"",
					 p->name, TEXT_MAGIC);
		if (*line == ' ')
			r = parse_row(p, line);
		else if (*line && *line != '#')
			r = parse_entry(p, line);
	}
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct text_entry *)a)->path, ((const struct text_entry *)b)->path);
}

int text_host_parse(struct text_host **ret, const char *text, size_t len, const char *name, struct error *err)
{
	auto_(text_host_free) struct text_host *t = text_host_new();
	struct parser p = { .host = t, .name = name, .err = err };
	char *copy;
	int r;

	if (memchr(text, '\0', len))
		return error_set(err, -EINVAL, "%s is not a text host: it has a NUL byte", name);
	copy = t ? arena_array(&t->arena, len + 1, 1) : NULL;
	if (!copy)
		return error_set(err, -ENOMEM, "no memory for %s", name);
	memcpy(copy, text, len);
	r = parse_lines(&p, copy);
	if (r < 0)
		return r;
	if (t->n)
		qsort(t->entry, t->n, sizeof(*t->entry), by_path);
	for (size_t i = 1; i < t->n; i++)
		if (strcmp(t->entry[i - 1].path, t->entry[i].path) == 0)
			return error_set(err, -EINVAL, "%s has %s twice", name, t->entry[i].path);
	*ret = steal(t);
	return 0;
}

size_t text_host_from(const struct text_host *t, const char *path)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(t->entry[mid].path, path) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct text_entry *text_host_find(const struct text_host *t, const char *path)
{
	size_t i = text_host_from(t, path);

	return i < t->n && strcmp(t->entry[i].path, path) == 0 ? &t->entry[i] : NULL;
}

int text_host_link(const struct text_host *t, char *buf, size_t size, const char *path)
{
	const struct text_entry *e = text_host_find(t, path);
	size_t at;

	if (e && e->type == TEXT_LINK) {
		if (strlen(e->value) >= size)
			return -ENAMETOOLONG;
		(void)strcpy(buf, e->value);
		return 0;
	}
	if (e)
		return -EINVAL;
	at = text_host_from(t, path); /* a directory that only its entries show is no link either */
	while (at < t->n && strncmp(t->entry[at].path, path, strlen(path)) == 0)
		if (t->entry[at++].path[strlen(path)] == '/')
			return -EINVAL;
	return -ENOENT;
}

int text_host_add(struct text_host *t, const struct text_entry *e)
{
	struct text_entry copy = { .type = e->type, .len = e->len };
	struct text_entry *to;

	copy.path = arena_strdup(&t->arena, e->path);
	copy.value = e->value ? arena_strdup(&t->arena, e->value) : NULL;
	copy.bytes = e->bytes ? arena_array(&t->arena, e->len, 1) : NULL;
	if (!copy.path || (e->value && !copy.value) || (e->bytes && !copy.bytes))
		return -ENOMEM;
	if (copy.bytes)
		memcpy(copy.bytes, e->bytes, e->len);
	to = entry_new(t);
	if (!to)
		return -ENOMEM;
	*to = copy;
	return 0;
}

/* Sorts and drops earlier duplicates; the order of adding decides, so the sort has to be stable. */
void text_host_sort(struct text_host *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) /* qsort is not stable: len of a non-bytes entry is free, use it */
		if (t->entry[i].type != TEXT_BYTES)
			t->entry[i].len = i;
	if (t->n)
		qsort(t->entry, t->n, sizeof(*t->entry), by_path);
	for (size_t i = 0; i < t->n; i++) {
		struct text_entry *last = n ? &t->entry[n - 1] : NULL;

		if (!last || strcmp(last->path, t->entry[i].path) != 0)
			t->entry[n++] = t->entry[i];
		else if (t->entry[i].type == TEXT_BYTES || t->entry[i].len > last->len)
			*last = t->entry[i];
	}
	t->n = n;
	for (size_t i = 0; i < n; i++)
		if (t->entry[i].type != TEXT_BYTES)
			t->entry[i].len = 0;
}

static void render_value(struct sbuf *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '\n')
			sbuf_add(out, "\\n");
		else if (*s == '\t')
			sbuf_add(out, "\\t");
		else if (*s == '\\')
			sbuf_add(out, "\\\\");
		else
			sbuf_add_bytes(out, s, 1);
	}
}

static void render_bytes(struct sbuf *out, const struct text_entry *e)
{
	static const uint8_t zero[16];

	sbuf_addf(out, "\tbytes %zu\n", e->len);
	for (size_t off = 0; off < e->len; off += 16) {
		size_t n = e->len - off < 16 ? e->len - off : 16;

		if (memcmp(e->bytes + off, zero, n) == 0)
			continue;
		sbuf_addf(out, " %03zx:", off);
		for (size_t i = 0; i < n; i++)
			sbuf_addf(out, " %02x", e->bytes[off + i]);
		sbuf_add(out, "\n");
	}
}

/* Whether something lies below a directory. Its entries need not follow it: "a-b/x" sorts before "a/x". */
static bool has_entries(const struct text_host *t, const char *path)
{
	char prefix[TEXT_PATH_MAX + 2];
	size_t n = (size_t)snprintf(prefix, sizeof(prefix), "%s/", path), at;

	if (n >= sizeof(prefix))
		return false;
	at = text_host_from(t, prefix);
	return at < t->n && strncmp(t->entry[at].path, prefix, n) == 0;
}

char *text_host_render(struct text_host *t, const char *comment)
{
	struct sbuf out = { 0 };

	text_host_sort(t);
	sbuf_add(&out, TEXT_MAGIC "\n");
	if (comment && *comment)
		sbuf_addf(&out, "# %s\n", comment);
	for (size_t i = 0; i < t->n; i++) {
		const struct text_entry *e = &t->entry[i];

		if (e->type == TEXT_DIR && has_entries(t, e->path))
			continue; /* they show it */
		sbuf_add(&out, e->path);
		if (e->type == TEXT_BYTES) {
			render_bytes(&out, e);
			continue;
		}
		sbuf_add(&out, e->type == TEXT_FILE ? "\t" : e->type == TEXT_LINK ? " -> " : "/");
		if (e->type == TEXT_FILE)
			render_value(&out, e->value);
		else if (e->type == TEXT_LINK)
			sbuf_add(&out, e->value);
		sbuf_add(&out, "\n");
	}
	return sbuf_steal(&out);
}
