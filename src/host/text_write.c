/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builder and writer of text hosts: what the recorder and converters put together, as sorted text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sbuf.h"
#include "host/text.h"

struct text_host *text_host_new(void)
{
	return calloc(1, sizeof(struct text_host));
}

struct text_entry *text_host_entry(struct text_host *t)
{
	if (t->n == t->size) {
		size_t size = t->size ? t->size * 2 : 256;
		struct text_entry *e = reallocarray(t->entry, size, sizeof(*e));

		if (!e)
			return NULL;
		t->entry = e;
		t->size = size;
	}
	t->entry[t->n] = (struct text_entry){ .order = (uint32_t)t->n };
	return &t->entry[t->n++];
}

/* No file of sysfs or proc has such a name; one of a made-up tree could begin a line of its own. */
static bool can_say(const struct text_entry *e)
{
	if (strchr(" #", e->path[0]) || strpbrk(e->path, "\t\n") || !*e->path)
		return false;
	if (strstr(e->path, " -> ") || strstr(e->path, " ! "))
		return false;
	return e->type != TEXT_LINK || (*e->value && !strpbrk(e->value, "\t\n"));
}

static void *copy_of(struct text_host *t, const void *p, size_t n, bool *failed)
{
	void *copy = p ? arena_array(&t->arena, n, 1) : NULL;

	if (copy)
		memcpy(copy, p, n);
	else if (p)
		*failed = true;
	return copy;
}

int text_host_add(struct text_host *t, const struct text_entry *e)
{
	struct text_entry *to;
	uint32_t order;
	bool failed = false;

	if (!can_say(e))
		return 0;
	to = text_host_entry(t);
	if (!to)
		return -ENOMEM;
	order = to->order;
	*to = *e;
	to->order = order;
	to->path = copy_of(t, e->path, strlen(e->path) + 1, &failed);
	to->value = copy_of(t, e->value, e->value ? strlen(e->value) + 1 : 0, &failed);
	to->bytes = copy_of(t, e->bytes, e->len, &failed);
	to->known = copy_of(t, e->known, e->len / 32 + 1, &failed);
	if (!failed)
		return 0;
	t->n--; /* half an entry has no path */
	return -ENOMEM;
}

static int by_path_then_order(const void *a, const void *b)
{
	const struct text_entry *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	return c ? c : (x->order > y->order) - (x->order < y->order);
}

/* What an earlier reading of a config space knew and the later one did not ask for. */
static void merge_parts(struct text_entry *to, const struct text_entry *from)
{
	if (to->type != TEXT_BYTES || from->type != TEXT_BYTES || !to->known || to->len != from->len)
		return;
	for (size_t off = 0; off < to->len; off += 4) {
		if (text_entry_knows(to, off) || !text_entry_knows(from, off))
			continue;
		memcpy(to->bytes + off, from->bytes + off, 4);
		to->known[off / 32] |= (uint8_t)(1u << (off / 4 % 8));
	}
}

void text_host_sort(struct text_host *t)
{
	size_t n = 0;

	if (t->n)
		qsort(t->entry, t->n, sizeof(*t->entry), by_path_then_order);
	for (size_t i = 0; i < t->n; i++) {
		struct text_entry *last = n ? &t->entry[n - 1] : NULL;

		if (!last || strcmp(last->path, t->entry[i].path) != 0) {
			t->entry[n++] = t->entry[i];
		} else if (t->entry[i].type != TEXT_ERROR || t->entry[i].error != ENODATA) { /* that would say less */
			merge_parts(&t->entry[i], last);
			*last = t->entry[i];
		}
	}
	t->n = n;
	for (size_t i = 0; i < n; i++)
		t->entry[i].order = (uint32_t)i;
}

static void render_value(struct sbuf *out, const char *s)
{
	while (*s) {
		size_t n = strcspn(s, "\n\t\\");

		sbuf_add_bytes(out, s, n);
		s += n;
		if (*s)
			sbuf_add(out, *s == '\n' ? "\\n" : *s == '\t' ? "\\t" : "\\\\"), s++;
	}
}

/* Of parts, a row is left out if nothing of it is known; of the whole, if it is zero. */
static bool row_shows(const struct text_entry *e, size_t off, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (e->known ? text_entry_knows(e, off + i) : e->bytes[off + i])
			return true;
	return false;
}

static void render_bytes(struct sbuf *out, const struct text_entry *e)
{
	static const char hex[] = "0123456789abcdef";

	sbuf_addf(out, "\t%s %zu\n", e->known ? "parts" : "bytes", e->len);
	for (size_t off = 0; off < e->len; off += 16) {
		size_t n = e->len - off < 16 ? e->len - off : 16;

		if (!row_shows(e, off, n))
			continue;
		while (e->known && !text_entry_knows(e, off + n - 1))
			n--;
		sbuf_addf(out, " %03zx:", off);
		for (size_t i = off; i < off + n; i++)
			if (text_entry_knows(e, i))
				sbuf_add_bytes(out, (char[]){ ' ', hex[e->bytes[i] >> 4], hex[e->bytes[i] & 15] }, 3);
			else
				sbuf_add(out, " --");
		sbuf_add(out, "\n");
	}
}

static void render_entry(struct sbuf *out, const struct text_entry *e)
{
	sbuf_add(out, e->path);
	switch (e->type) {
	case TEXT_BYTES:
		render_bytes(out, e);
		return;
	case TEXT_FILE:
		sbuf_add(out, "\t");
		render_value(out, e->value);
		break;
	case TEXT_LINK:
		sbuf_addf(out, " -> %s", e->value);
		break;
	case TEXT_DIR:
		sbuf_add(out, "/");
		break;
	case TEXT_ERROR:
		sbuf_addf(out, " ! %s", strerrorname_np(e->error));
		break;
	}
	sbuf_add(out, "\n");
}

char *text_host_render(struct text_host *t)
{
	struct sbuf out = { 0 };

	text_host_sort(t);
	sbuf_add(&out, TEXT_MAGIC "\n");
	sbuf_add(&out, t->comment ? t->comment : "");
	for (size_t i = 0; i < t->n; i++)
		if (t->entry[i].type != TEXT_DIR || !text_host_has_below(t, t->entry[i].path)) /* they show it */
			render_entry(&out, &t->entry[i]);
	return sbuf_steal(&out);
}
