/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Elements, attributes and text, two blanks a level. Libraries that write XML read it as well: libxml2 brings ICU and libstdc++, 2.3 MiB of
 * the memory of every velad. So what is written here is read with libxml2 by tests/guest. */
#include "guest/xml.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/utf8.h"

void xml_done(struct xml *x)
{
	sbuf_done(&x->out);
	*x = (struct xml){ 0 };
}

int xml_finish(struct xml *x, char **ret, struct error *err)
{
	char *text;

	while (x->depth)
		xml_close(x);
	if (x->bad[0])
		return error_set(err, -EINVAL,
				 "the value of %s in the domain XML has a control character or is not UTF-8; leave it out",
				 x->bad);
	text = x->failed ? NULL : sbuf_steal(&x->out);
	if (!text)
		return error_set(err, -ENOMEM, "no memory for the guest's XML");
	*ret = text;
	return 0;
}

/* XML 1.0, 2.2: tab, newline and carriage return are legal there, but not in any value of ours. U+FFFE and U+FFFF are not. */
static bool is_clean(const char *text)
{
	for (size_t n; *text; text += n) {
		n = utf8_len(text);
		if (n == 0 || (n == 1 && ((unsigned char)*text < 0x20 || *text == 0x7f)) ||
		    (n == 3 && memcmp(text, "\xef\xbf", 2) == 0 && (unsigned char)text[2] >= 0xbe))
			return false;
	}
	return true;
}

static bool refuse(struct xml *x, const char *where, const char *value)
{
	if (is_clean(value))
		return false;
	if (!x->bad[0])
		(void)snprintf(x->bad, sizeof(x->bad), "%s", where);
	return true;
}

/* XML 1.0, 2.4 and 3.1 */
static void escape(struct sbuf *out, const char *text)
{
	static const char *const as[] = { ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;" };

	while (*text) {
		size_t plain = strcspn(text, "&<>\"");

		sbuf_add_bytes(out, text, plain);
		text += plain;
		if (*text)
			sbuf_add(out, as[(unsigned char)*text++]);
	}
}

void xml_attr(struct xml *x, const char *name, const char *value)
{
	assert(x->in_tag);
	if (refuse(x, name, value))
		return;
	sbuf_addf(&x->out, " %s=\"", name);
	escape(&x->out, value);
	sbuf_add(&x->out, "\"");
}

/* NULL when memory ran out; the caller frees */
static char *format(struct xml *x, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static char *format(struct xml *x, const char *fmt, va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) >= 0)
		return text;
	x->failed = true;
	return NULL; /* text is undefined then (asprintf(3)) */
}

void xml_attrf(struct xml *x, const char *name, const char *fmt, ...)
{
	autofree char *value = NULL;
	va_list ap;

	va_start(ap, fmt);
	value = format(x, fmt, ap);
	va_end(ap);
	if (value)
		xml_attr(x, name, value);
}

static void end_tag(struct xml *x, const char *then)
{
	if (!x->in_tag)
		return;
	x->in_tag = false;
	sbuf_add(&x->out, ">");
	sbuf_add(&x->out, then);
}

static void indent(struct xml *x)
{
	for (size_t i = 0; i < x->depth; i++)
		sbuf_add(&x->out, "  ");
}

static void open_with(struct xml *x, const char *element, va_list ap)
{
	assert(x->depth < ARRAY_SIZE(x->open));
	end_tag(x, "\n");
	indent(x);
	sbuf_addf(&x->out, "<%s", element);
	x->open[x->depth++] = element;
	x->in_tag = true;
	x->in_text = false;
	for (const char *name; (name = va_arg(ap, const char *));)
		xml_attr(x, name, va_arg(ap, const char *));
}

void xml_open_pairs(struct xml *x, const char *element, ...)
{
	va_list ap;

	va_start(ap, element);
	open_with(x, element, ap);
	va_end(ap);
}

void xml_leaf_pairs(struct xml *x, const char *element, ...)
{
	va_list ap;

	va_start(ap, element);
	open_with(x, element, ap);
	va_end(ap);
	xml_close(x);
}

void xml_close(struct xml *x)
{
	const char *element;

	assert(x->depth);
	element = x->open[--x->depth];
	if (!x->in_tag && !x->in_text)
		indent(x);
	if (x->in_tag)
		sbuf_add(&x->out, "/>\n");
	else
		sbuf_addf(&x->out, "</%s>\n", element);
	x->in_tag = x->in_text = false;
}

static void put(struct xml *x, const char *value)
{
	end_tag(x, "");
	x->in_text = true;
	escape(&x->out, value);
}

void xml_text(struct xml *x, const char *element, const char *value)
{
	if (refuse(x, element, value))
		return;
	xml_open(x, element);
	put(x, value);
	xml_close(x);
}

void xml_textf(struct xml *x, const char *element, const char *fmt, ...)
{
	autofree char *value = NULL;
	va_list ap;

	va_start(ap, fmt);
	value = format(x, fmt, ap);
	va_end(ap);
	if (value)
		xml_text(x, element, value);
}

void xml_putf(struct xml *x, const char *fmt, ...)
{
	autofree char *value = NULL;
	va_list ap;

	va_start(ap, fmt);
	value = format(x, fmt, ap);
	va_end(ap);
	if (value && !refuse(x, "an element", value))
		put(x, value);
}
