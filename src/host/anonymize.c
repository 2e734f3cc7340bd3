/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is replaced is found in two ways: by its notation, wherever it stands (MAC addresses, GUIDs, UUIDs, IP
 * addresses), and by the name of its file or key (host/secret), after which it is looked for everywhere else. */
#include "host/anonymize.h"

#include <ctype.h>
#include <errno.h>
#include <linux/pci_regs.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/sbuf.h"
#include "base/strtab.h"
#include "host/secret.h"
#include "host/text.h"

struct value {
	enum anonymize_class class;
	const char          *from, *to;
	size_t               len;  /* of from */
	bool                 sought; /* everywhere: it is in the list of those that begin with the same byte */
	struct value        *next;
};

struct work {
	struct text_host        *host;
	struct anonymize_counts *count;
	void                    *tree; /* of struct value, tsearch(3) */
	struct value            *literal[256];
	bool                     failed;
};

static const char *const class_names[ANONYMIZE_MAX_] = {
	[ANONYMIZE_MAC] = "MAC addresses", [ANONYMIZE_GUID] = "GUIDs",         [ANONYMIZE_UUID] = "UUIDs",
	[ANONYMIZE_SERIAL] = "serials",    [ANONYMIZE_NAME] = "host names",    [ANONYMIZE_ADDRESS] = "IP addresses",
	[ANONYMIZE_ARGUMENT] = "boot arguments and descriptions",
};

const char *anonymize_class_text(enum anonymize_class c)
{
	return strtab_text(class_names, ANONYMIZE_MAX_, (int)c);
}

static int by_class_then_text(const void *a, const void *b)
{
	const struct value *x = a, *y = b;

	return x->class != y->class ? (x->class > y->class) - (x->class < y->class) : strcmp(x->from, y->from);
}

static char *replacement(struct arena *arena, enum anonymize_class class, size_t n, const char *from)
{
	switch (class) {
	case ANONYMIZE_MAC:
		return arena_printf(arena, "02%010zx", n);
	case ANONYMIZE_GUID: /* EUI-64 of such a MAC address */
		return arena_printf(arena, "020000fffe%06zx", n & 0xffffff);
	case ANONYMIZE_UUID: /* version 4, variant 1 (RFC 4122) */
		return arena_printf(arena, "00000000000040008000%012zx", n);
	case ANONYMIZE_ADDRESS: /* of an IPv6 address as text, or the digits of an IPv4 address */
		return strchr(from, ':') ? arena_printf(arena, "2001:db8::%zx:%zx", n >> 16 & 0xffff, n & 0xffff)
					 : arena_printf(arena, "%08zx", 0xc6120000 + n % 0x20000);
	case ANONYMIZE_NAME:
		return arena_printf(arena, "host-%zu", n);
	case ANONYMIZE_ARGUMENT:
		return arena_printf(arena, "hidden-%zu", n);
	default:
		return arena_printf(arena, "serial-%zu", n);
	}
}

static struct value *value_new(struct work *w, const struct value *key)
{
	struct arena *arena = &w->host->arena;
	struct value *v = arena_alloc(arena, sizeof(*v));

	if (!v)
		return NULL;
	*v = (struct value){ .class = key->class, .len = strlen(key->from) };
	v->from = arena_strdup(arena, key->from);
	v->to = replacement(arena, key->class, ++w->count->values[key->class], key->from);
	return v->from && v->to && tsearch(v, &w->tree, by_class_then_text) ? v : NULL;
}

static struct value *value_of(struct work *w, enum anonymize_class class, const char *from)
{
	const struct value key = { .class = class, .from = from };
	struct value *const *found = tfind(&key, &w->tree, by_class_then_text), *v = found ? *found : value_new(w, &key);

	w->failed |= !v;
	return v;
}

static void put(struct work *w, struct sbuf *out, const struct value *v)
{
	sbuf_add(out, v ? v->to : "");
	w->count->places[v ? v->class : 0]++;
}

/* ---- by notation -------------------------------------------------------------------------------- */

static bool zero(const char *digits, size_t n)
{
	return strspn(digits, "0") >= n;
}

/* Replaces n digits in place: nothing where they say "none", "all" or the link-local prefix. */
static void hide_digits(struct work *w, char *digits, size_t n, enum anonymize_class class)
{
	char from[40];
	struct value *v;

	if (zero(digits, n) || strspn(digits, "f") >= n || (n == 16 && strncmp(digits, "fe80000000000000", n) == 0))
		return;
	(void)snprintf(from, sizeof(from), "%.*s", (int)n, digits);
	v = value_of(w, class, from);
	if (!v)
		return;
	memcpy(digits, v->to, n);
	w->count->places[class]++;
}

/* 0.0.0.0, 127.x and masks name no machine. */
static void hide_ipv4(struct work *w, char *digits)
{
	if (strncmp(digits, "00", 2) != 0 && strncmp(digits, "7f", 2) != 0 && strncmp(digits, "ff", 2) != 0)
		hide_digits(w, digits, 8, ANONYMIZE_ADDRESS);
}

/* Two halves, subnet prefix and GUID, or an IPv4 address (RoCE: ::ffff:a.b.c.d). */
static void hide_gid(struct work *w, char *digits)
{
	if (zero(digits, 20) && strncmp(digits + 20, "ffff", 4) == 0) {
		hide_ipv4(w, digits + 24);
		return;
	}
	hide_digits(w, digits, 16, ANONYMIZE_GUID);
	hide_digits(w, digits + 16, 16, ANONYMIZE_GUID);
}

static void hide_shape(struct work *w, struct sbuf *out, const struct secret_shape *shape, const char *s)
{
	char digits[41] = "";
	size_t n = 0;

	for (size_t i = 0; shape->form[i]; i++)
		if (shape->form[i] == 'h')
			digits[n++] = (char)tolower((unsigned char)s[i]);
	if (shape->gid)
		hide_gid(w, digits + shape->keep);
	else
		hide_digits(w, digits + shape->keep, n - shape->keep, shape->class);
	n = 0;
	for (size_t i = 0; shape->form[i]; i++)
		sbuf_add_bytes(out, shape->form[i] == 'h' ? &digits[n++] : &s[i], 1);
}

static void hide_address(struct work *w, struct sbuf *out, const char *s, size_t len, bool v4)
{
	char digits[9] = "", from[64];
	unsigned b[4];

	(void)snprintf(from, sizeof(from), "%.*s", (int)len, s);
	if (!v4) {
		put(w, out, value_of(w, ANONYMIZE_ADDRESS, from));
		return;
	}
	(void)sscanf(from, "%3u.%3u.%3u.%3u", &b[0], &b[1], &b[2], &b[3]); /* secret_ipv4() has seen them */
	(void)snprintf(digits, sizeof(digits), "%02x%02x%02x%02x", b[0] & 255, b[1] & 255, b[2] & 255, b[3] & 255);
	hide_ipv4(w, digits);
	(void)sscanf(digits, "%2x%2x%2x%2x", &b[0], &b[1], &b[2], &b[3]);
	sbuf_addf(out, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
}

/* ---- texts -------------------------------------------------------------------------------------- */

static const struct value *literal_at(const struct work *w, const char *s, const char *end)
{
	for (const struct value *v = w->literal[(unsigned char)*s]; v; v = v->next)
		if (v->len <= (size_t)(end - s) && strncmp(s, v->from, v->len) == 0 &&
		    (s + v->len == end || !isalnum((unsigned char)s[v->len])))
			return v;
	return NULL;
}

enum { LITERALS = 1, IPV4 = 2 };

/* One word boundary: copies or replaces, and says how far it got. */
static size_t hide_at(struct work *w, struct sbuf *out, const char *s, const char *end, unsigned how)
{
	const struct value *v = how & LITERALS ? literal_at(w, s, end) : NULL;
	const struct secret_shape *shape = v ? NULL : secret_shape_at(s, end);
	size_t n = 0;

	if (v) {
		put(w, out, v);
		return v->len;
	}
	if (shape) {
		hide_shape(w, out, shape, s);
		return strlen(shape->form);
	}
	n = secret_ipv6(s, end);
	if (n)
		hide_address(w, out, s, n, false);
	else if (how & IPV4 && (n = secret_ipv4(s, end)))
		hide_address(w, out, s, n, true);
	if (n)
		return n;
	sbuf_add_bytes(out, s, 1);
	return 1;
}

static size_t letters(const char *s, const char *end)
{
	size_t n = 0;

	while (s + n < end && isalnum((unsigned char)s[n]))
		n++;
	return n;
}

/* Words begin behind what is neither letter nor digit; only there something can begin. */
static void hide_text(struct work *w, struct sbuf *out, const char *s, size_t len, unsigned how)
{
	const char *end = s + len;

	while (s < end) {
		size_t n = hide_at(w, out, s, end, how), rest = isalnum((unsigned char)s[n - 1]) ? letters(s + n, end) : 0;

		sbuf_add_bytes(out, s + n, rest);
		s += n + rest;
	}
}

/* The value of a key is replaced as a whole, by its notation where it has one. */
static void hide_span(struct work *w, struct sbuf *out, const struct secret_span *span, const char *text)
{
	const struct secret_shape *shape = secret_shape_whole(text + span->at, span->len);
	autofree char *from = strndup(text + span->at, span->len);

	if (shape)
		hide_shape(w, out, shape, text + span->at);
	else if (!from)
		w->failed = true;
	else if (zero(from, span->len))
		sbuf_add(out, from);
	else
		put(w, out, value_of(w, span->class, from));
}

static const char *hidden(struct work *w, const char *path, const char *text, unsigned how)
{
	struct secret_span span = { 0 };
	struct sbuf out = { 0 };
	size_t at = 0, len = strlen(text);
	const char *copy;

	while (path && secret_span_next(&span, path, text)) {
		hide_text(w, &out, text + at, span.at - at, how);
		hide_span(w, &out, &span, text);
		at = span.at + span.len;
	}
	hide_text(w, &out, text + at, len - at, how);
	if (!out.failed && out.len == len && memcmp(out.text ? out.text : "", text, len) == 0)
		copy = text;
	else
		copy = out.failed ? NULL : arena_strdup(&w->host->arena, out.text ? out.text : "");
	sbuf_done(&out);
	w->failed |= !copy;
	return copy;
}

static void look_for(struct work *w, enum anonymize_class class, const char *from)
{
	struct value *v = value_of(w, class, from);

	if (!v || v->sought)
		return;
	v->sought = true;
	v->next = w->literal[(unsigned char)*from];
	w->literal[(unsigned char)*from] = v;
}

/* Values of keys that are long and odd enough to be looked for in all other texts. */
static void collect(struct work *w, const struct text_entry *e)
{
	struct secret_span span = { 0 };

	while (e->type == TEXT_FILE && secret_span_next(&span, e->path, e->value)) {
		autofree char *from = strndup(e->value + span.at, span.len);
		char *dot;

		w->failed |= !from;
		if (!from || span.class == ANONYMIZE_ARGUMENT || secret_shape_whole(from, span.len) || zero(from, span.len))
			continue;
		if (span.class == ANONYMIZE_NAME ? span.len < 2 : span.len < 4 || !strpbrk(from, "0123456789"))
			continue;
		look_for(w, span.class, from);
		dot = span.class == ANONYMIZE_NAME ? strchr(from, '.') : NULL;
		if (dot && dot - from >= 2) { /* the host part of a domain name may stand alone */
			*dot = '\0';
			look_for(w, span.class, from);
		}
	}
}

/* ---- config space ------------------------------------------------------------------------------- */

static uint32_t dword(const struct text_entry *e, size_t off)
{
	const uint8_t *b = e->bytes + off;

	return text_entry_knows(e, off) && off + 4 <= e->len
		       ? (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24 : 0;
}

/* Device Serial Number (PCIe 7.9.3): an EUI-64, its lower dword first. */
static void hide_serial(struct work *w, struct text_entry *e, size_t at)
{
	unsigned long long v;
	char digits[17];

	(void)snprintf(digits, sizeof(digits), "%08x%08x", dword(e, at + 8), dword(e, at + 4));
	hide_digits(w, digits, 16, ANONYMIZE_GUID);
	v = strtoull(digits, NULL, 16);
	for (size_t i = 0; i < 8 && at + 12 <= e->len; i++)
		e->bytes[at + 4 + i] = text_entry_knows(e, at + 4 + i) ? (uint8_t)(v >> 8 * i) : 0;
}

static void hide_config(struct work *w, struct text_entry *e)
{
	size_t at = PCI_CFG_SPACE_SIZE;

	for (int left = PCI_CFG_SPACE_EXP_SIZE / 8; left && at >= PCI_CFG_SPACE_SIZE; left--) {
		uint32_t head = dword(e, at);

		if (PCI_EXT_CAP_ID(head) == PCI_EXT_CAP_ID_DSN)
			hide_serial(w, e, at);
		at = PCI_EXT_CAP_NEXT(head);
	}
}

static void hide_entry(struct work *w, struct text_entry *e)
{
	const char *last = strrchr(e->path, '/'), *path = e->path;
	bool ids = last && strcmp(last, "/uevent") == 0; /* names of drivers, not of hosts */

	if (e->type == TEXT_BYTES)
		hide_config(w, e);
	if (e->type == TEXT_FILE)
		e->value = hidden(w, path, e->value, (ids ? 0 : LITERALS) | (secret_is_version(path) ? 0 : IPV4));
	if (e->type == TEXT_LINK)
		e->value = hidden(w, NULL, e->value, IPV4);
	e->path = hidden(w, NULL, path, IPV4);
}

static void keep(void *value)
{
	(void)value; /* the arena's */
}

int anonymize(struct text_host *t, struct anonymize_counts *ret)
{
	struct work w = { .host = t, .count = ret };

	*ret = (struct anonymize_counts){ 0 };
	for (size_t i = 0; i < t->n; i++)
		collect(&w, &t->entry[i]);
	for (size_t i = 0; i < t->n && !w.failed; i++)
		hide_entry(&w, &t->entry[i]);
	tdestroy(w.tree, keep);
	if (w.failed)
		return -ENOMEM;
	text_host_sort(t);
	return 0;
}
