/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writing XML through libxml2's xmlTextWriter. No XML is ever made by printf. */
#include "guest/xml.h"

#include <errno.h>
#include <libxml/parserInternals.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/lazy.h"
#include "guest/guest.h"

#define FUNCTIONS(X) \
	X(xmlBufferContent) X(xmlBufferCreate) X(xmlBufferFree) X(xmlFreeTextWriter) X(xmlGetUTF8Char) X(xmlNewTextWriterMemory) \
	X(xmlTextWriterEndDocument) X(xmlTextWriterEndElement) X(xmlTextWriterSetIndent) X(xmlTextWriterSetIndentString) \
	X(xmlTextWriterStartElement) X(xmlTextWriterWriteAttribute) X(xmlTextWriterWriteElement) X(xmlTextWriterWriteString)

LAZY_LIBRARY("libxml2.so.2", FUNCTIONS)

static struct lib lib; /* it stays: nothing of it is of one document */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	if (!lib_open(&lib))
		lib_close(&lib), lib = (struct lib){ 0 };
}

int guest_load(struct error *err)
{
	(void)pthread_once(&once, load);
	return lib.handle ? 0 : error_set(err, -ENOPKG, "cannot load libxml2.so.2, which writes the guest's XML; install libxml2");
}

#define S(text) ((const xmlChar *)(text))

int xml_init(struct xml *x, struct error *err)
{
	*x = (struct xml){ 0 };
	if (guest_load(err) < 0)
		return err->code;
	x->buf = lib.xmlBufferCreate();
	if (x->buf)
		x->out = lib.xmlNewTextWriterMemory(x->buf, 0);
	if (!x->out)
		return error_set(err, -ENOMEM, "no memory for the guest's XML");
	(void)lib.xmlTextWriterSetIndent(x->out, 1); /* looks only */
	(void)lib.xmlTextWriterSetIndentString(x->out, S("  "));
	return 0;
}

void xml_done(struct xml *x)
{
	if (x->out)
		lib.xmlFreeTextWriter(x->out);
	if (x->buf)
		lib.xmlBufferFree(x->buf);
	*x = (struct xml){ 0 };
}

int xml_finish(struct xml *x, char **ret, struct error *err)
{
	char *text;

	if (lib.xmlTextWriterEndDocument(x->out) < 0)
		x->failed = true;
	if (x->bad[0])
		return error_set(err, -EINVAL,
				 "the value of %s in the domain XML has a control character or is not UTF-8; leave it out",
				 x->bad);
	text = x->failed ? NULL : strdup((const char *)lib.xmlBufferContent(x->buf));
	if (!text)
		return error_set(err, -ENOMEM, "no memory for the guest's XML");
	*ret = text;
	return 0;
}

/* XML 1.0, 2.2: tab, newline and carriage return are legal there, but not in any value of ours. libxml2
 * takes overlong UTF-8 (RFC 3629, 3); other readers of the XML need not. */
static bool is_clean(const char *text)
{
	const xmlChar *p = S(text);

	while (*p) {
		int len = (int)strnlen((const char *)p, 4);
		int c = lib.xmlGetUTF8Char(p, &len);

		if (c < 0x20 || c == 0x7f || !IS_CHAR(c))
			return false;
		if (len != (c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4))
			return false;
		p += len;
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

static void check(struct xml *x, int r)
{
	if (r < 0)
		x->failed = true;
}

void xml_attr(struct xml *x, const char *name, const char *value)
{
	if (!refuse(x, name, value))
		check(x, lib.xmlTextWriterWriteAttribute(x->out, S(name), S(value)));
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

static void open_with(struct xml *x, const char *element, va_list ap)
{
	check(x, lib.xmlTextWriterStartElement(x->out, S(element)));
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
	check(x, lib.xmlTextWriterEndElement(x->out));
}

void xml_text(struct xml *x, const char *element, const char *value)
{
	if (!refuse(x, element, value))
		check(x, lib.xmlTextWriterWriteElement(x->out, S(element), S(value)));
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
		check(x, lib.xmlTextWriterWriteString(x->out, S(value)));
}
