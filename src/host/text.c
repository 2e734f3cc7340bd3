/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parser of text hosts. It takes foreign bytes: strict, bounded, fuzzed. */
#include "host/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"

#define TEXT_CONFIG_MAX  4096                 /* a PCIe config space */
#define TEXT_BYTES_MAX   (512u * 1024 * 1024) /* of 131,072 functions */
#define TEXT_ENTRIES_MAX (1u << 22)           /* 32 each of as many */

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

struct text_host *text_host_free(struct text_host *t)
{
	if (t) {
		arena_done(&t->arena);
		free(t->entry);
		free(t);
	}
	return NULL;
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

/* Config space is read by dwords: of four bytes all are known or none. */
static int know_dwords(struct parser *p, unsigned off, unsigned n, unsigned unread)
{
	for (unsigned i = 0; i < n; i += 4) {
		unsigned some = unread >> i & 0xf;

		if (n % 4 || (some && some != 0xf))
			return bad(p, "of each four bytes in parts of config space, all are known or all are \"--\"");
		if (!some)
			p->bytes->known[(off + i) / 32] |= (uint8_t)(1u << ((off + i) / 4 % 8));
	}
	return 0;
}

/* " 060: 10 00 ..." into the entry that is open. */
static int parse_row(struct parser *p, const char *s)
{
	unsigned off = 0, n = 0, unread = 0;

	if (!p->bytes)
		return bad(p, "a row of bytes without \"PATH<TAB>bytes SIZE\" above it");
	for (s++; hex_digit(*s) >= 0 && off < TEXT_CONFIG_MAX; s++)
		off = off << 4 | (unsigned)hex_digit(*s);
	if (*s++ != ':' || off % 16 || off < p->next)
		return bad(p, "the offset of a row must be a multiple of 16, above the row before, with a colon");
	for (; *s == ' ' && n < 16; n++, s += 2) {
		int hi = hex_digit(*++s), lo = hi >= 0 ? hex_digit(s[1]) : -1;

		if (p->bytes->known && s[0] == '-' && s[1] == '-')
			unread |= 1u << n;
		else if (lo < 0)
			return bad(p, "a byte must have two lower-case hex digits");
		if (off + n >= p->bytes->len)
			return bad(p, "the row goes beyond SIZE");
		p->bytes->bytes[off + n] = unread >> n & 1 ? 0 : (uint8_t)(hi << 4 | lo);
	}
	if (*s || n == 0)
		return bad(p, "a row has 1 to 16 bytes, each with one blank before it");
	p->next = off + 16;
	return p->bytes->known ? know_dwords(p, off, n, unread) : 0;
}

/* "bytes SIZE" or "parts SIZE". */
static int open_bytes(struct parser *p, struct text_entry *e, const char *value)
{
	bool parts = *value == 'p';
	uint64_t n = 0;

	if (parse_uint(&n, value + 6, 10, TEXT_CONFIG_MAX) < 0)
		return bad(p, "bytes SIZE must be a number up to 4096");
	if (parts && n % 4)
		return bad(p, "parts SIZE must be a multiple of 4");
	p->host->bytes += TEXT_CONFIG_MAX;
	if (p->host->bytes > TEXT_BYTES_MAX)
		return bad(p, "more config space than 131,072 functions have");
	e->type = TEXT_BYTES;
	e->len = n;
	e->bytes = arena_array(&p->host->arena, n, 1);
	e->known = parts ? arena_array(&p->host->arena, n / 32 + 1, 1) : NULL;
	if (!e->bytes || (parts && !e->known))
		return error_set(p->err, -ENOMEM, "no memory for %s", p->name);
	p->bytes = e;
	p->next = 0;
	return 0;
}

static int parse_error_name(struct parser *p, struct text_entry *e, const char *name)
{
	e->type = TEXT_ERROR;
	for (int n = 1; n < 134; n++) /* EHWPOISON, 133, is the last (errno.h) */
		if (strerrorname_np(n) && strcmp(strerrorname_np(n), name) == 0)
			e->error = n;
	return e->error ? 0 : bad(p, "after \" ! \" there must be the name of an error, as EACCES");
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static int parse_entry(struct parser *p, char *line)
{
	char *tab = strchr(line, '\t'), *arrow = tab ? NULL : strstr(line, " -> ");
	char *bang = tab || arrow ? NULL : strstr(line, " ! ");
	size_t n = strlen(line);
	struct text_entry *e;

	p->bytes = NULL;
	if (p->host->n == TEXT_ENTRIES_MAX)
		return bad(p, "more than 4,194,304 entries");
	e = text_host_entry(p->host);
	if (!e)
		return error_set(p->err, -ENOMEM, "no memory for %s", p->name);
	e->path = line;
	if (tab) {
		*tab++ = '\0';
		e->value = tab;
	} else if (arrow && arrow[4]) {
		*arrow = '\0';
		e->type = TEXT_LINK;
		e->value = arrow + 4;
	} else if (bang) {
		*bang = '\0';
		if (parse_error_name(p, e, bang + 3) < 0)
			return p->err->code;
	} else if (line[n - 1] == '/') {
		line[n - 1] = '\0';
		e->type = TEXT_DIR;
	} else {
		return bad(p, "neither \"PATH<TAB>VALUE\", \"PATH -> TARGET\", \"PATH/\" nor \"PATH ! ERROR\"");
	}
	if (strstr(e->path, " -> ") || strstr(e->path, " ! "))
		return bad(p, "a path cannot have \" -> \" or \" ! \" in it"); /* its directories would be other lines */
	if (!path_ok(e->path) || !*e->path)
		return bad(p, "the path must be relative, without empty, \".\" or \"..\" parts");
	if (tab && (ends_with(e->path, "/config") || ends_with(e->path, "/vpd")) && (strncmp(tab, "bytes ", 6) == 0 || strncmp(tab, "parts ", 6) == 0))
		return open_bytes(p, e, tab);
	if (tab && !unescape(tab))
		return bad(p, "unknown escape; only \\n, \\t and \\\\ are known");
	return 0;
}

/* The comment lines between the first line and the first entry say where a host comes from: dumps keep them. */
static bool keep_comment(struct text_host *t, const char *text)
{
	const char *from = text + strcspn(text, "\n"), *to = from + (*from == '\n');

	from = to;
	while (*to == '#')
		to += strcspn(to, "\n") + (to[strcspn(to, "\n")] == '\n');
	t->comment = arena_printf(&t->arena, "%.*s", (int)(to - from), from);
	return t->comment;
}

static int parse_lines(struct parser *p, char *text)
{
	char *line, *rest = text;
	int r = 0;

	if (!keep_comment(p->host, text))
		return error_set(p->err, -ENOMEM, "no memory for %s", p->name);

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

bool text_host_has_below(const struct text_host *t, const char *path)
{
	size_t n = strlen(path), lo = 0, hi = t->n;

	while (lo < hi) { /* as text_host_from(), of path and "/" without putting the two together */
		size_t mid = lo + (hi - lo) / 2;
		const char *at = t->entry[mid].path;
		int c = strncmp(at, path, n);

		if (c < 0 || (c == 0 && (unsigned char)at[n] < '/'))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->n && strncmp(t->entry[lo].path, path, n) == 0 && t->entry[lo].path[n] == '/';
}

int text_host_read(const struct text_host *t, char *buf, size_t size, size_t *len, const char *path)
{
	const struct text_entry *e = text_host_find(t, path);

	if (!e)
		return -ENOENT;
	if (e->type == TEXT_ERROR)
		return -e->error;
	if (e->type != TEXT_FILE)
		return e->type == TEXT_DIR ? -EISDIR : -EINVAL;
	*len = strnlen(e->value, size);
	memcpy(buf, e->value, *len);
	return 0;
}

int text_host_link(const struct text_host *t, char *buf, size_t size, const char *path)
{
	const struct text_entry *e = text_host_find(t, path);

	if (e && e->type == TEXT_LINK) {
		if (strlen(e->value) >= size)
			return -ENAMETOOLONG;
		(void)strcpy(buf, e->value);
		return 0;
	}
	if (e)
		return e->type == TEXT_ERROR ? -e->error : -EINVAL;
	return text_host_has_below(t, path) ? -EINVAL : -ENOENT; /* a directory that only its entries show */
}

bool text_entry_knows(const struct text_entry *e, size_t off)
{
	return off < e->len && (!e->known || e->known[off / 32] >> (off / 4 % 8) & 1);
}
