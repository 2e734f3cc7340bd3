/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* guest/xml — libxml2's writer with sticky failures: write freely, ask once at the end.
 *
 * libxml2 escapes; what XML 1.0 cannot carry (control characters, bytes that are not UTF-8) is refused
 * and the place remembered, because libxml2 itself would pass it on. */

#include <libxml/xmlwriter.h>
#include <stdbool.h>

struct error;

struct xml {
	xmlBufferPtr     buf; /* owned */
	xmlTextWriterPtr out; /* owned */
	bool             failed;
	char             bad[64]; /* "" or the element or attribute whose value was refused */
};

int   xml_init(struct xml *x, struct error *err);
void  xml_done(struct xml *x);
int   xml_finish(struct xml *x, char **ret, struct error *err); /* the text; the caller frees */

/* Attributes follow as pairs of name and value. */
#define xml_open(x, ...) xml_open_pairs(x, __VA_ARGS__, (const char *)NULL)
#define xml_leaf(x, ...) xml_leaf_pairs(x, __VA_ARGS__, (const char *)NULL)
void xml_open_pairs(struct xml *x, const char *element, ...) __attribute__((sentinel));
void xml_leaf_pairs(struct xml *x, const char *element, ...) __attribute__((sentinel));
void xml_attr(struct xml *x, const char *name, const char *value); /* of the element just opened */
void xml_attrf(struct xml *x, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void xml_close(struct xml *x);
void xml_text(struct xml *x, const char *element, const char *value);
void xml_textf(struct xml *x, const char *element, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void xml_putf(struct xml *x, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* into the open element */
