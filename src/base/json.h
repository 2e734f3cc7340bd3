/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* json — json-c behind strict edges.
 *
 * Reading: one complete UTF-8 document, limited in size and depth, no trailing bytes, no duplicate keys.
 * Objects are read through field tables: an unknown key, a wrong type or a number out of range is
 * refused with the key named. */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/bdf.h"

struct arena;
struct error;

#define JSON_BYTES_MAX (64 * 1024) /* a request body */
#define JSON_DEPTH_MAX 16

AUTO_DEFINE(json_object *, json_object_put);

int json_parse(json_object **ret, const char *text, size_t len, size_t max, struct error *err);

enum json_kind {
	JSON_STRING,  /* char *, copied into the arena; no control characters */
	JSON_UINT,    /* uint64_t */
	JSON_INT,     /* int64_t */
	JSON_SIZE,    /* uint64_t bytes; a number, or a string such as "512M" */
	JSON_BOOL,    /* bool */
	JSON_OBJECT,  /* nested: fields in `sub`, same base pointer (offsets are absolute) */
	JSON_ANY,     /* json_object *, borrowed from the document */
};

struct json_field {
	const char              *key; /* NULL ends the table */
	enum json_kind           kind;
	size_t                   offset; /* into the struct being filled */
	bool                     required;
	int64_t                  min;    /* JSON_UINT, JSON_INT, JSON_SIZE; JSON_STRING: least length */
	uint64_t                 max;    /* inclusive; JSON_STRING: most bytes; 0: no limit of its own */
	const struct json_field *sub;
};

/* Fills the members of `into` whose keys are present; others keep what they had. where names the object
 * in errors ("request"). -EINVAL with a sentence, or -ENOMEM. */
int json_read(void *into, const struct json_field *fields, json_object *obj, const char *where,
	      struct arena *arena, struct error *err);

/* Building: each adds a member and takes what it is given; a failed allocation aborts nothing but makes
 * json_ok() false for that object (json-c reports it by return code, which these keep in one flag). */
struct json_out {
	json_object *obj; /* owned by the caller */
	bool         failed;
};

/* A key outlives the document (a literal), and is added once. */
void json_add(struct json_out *o, const char *key, json_object *value); /* takes value */
void json_add_made(struct json_out *o, const char *key, json_object *value); /* the same, but NULL is a failure */
void json_add_string(struct json_out *o, const char *key, const char *value); /* NULL: null */
void json_add_uint(struct json_out *o, const char *key, uint64_t value);
void json_add_int(struct json_out *o, const char *key, int64_t value);
void json_add_bdf(struct json_out *o, const char *key, struct bdf value); /* BDF_NONE: null */
void json_add_bool(struct json_out *o, const char *key, bool value);
void json_add_time(struct json_out *o, const char *key, int64_t seconds); /* of the epoch, as RFC 3339; 0: null */
void json_add_moment(struct json_out *o, const char *key, int64_t us); /* since 1970, as above, with all digits */

/* Nesting: a child is made, filled, and handed to its parent, which also takes over its failure. An array
 * that could not be made (NULL) fails the parent. */
struct json_out json_out_new(void);
void            json_add_out(struct json_out *o, const char *key, struct json_out *child);
void            json_append(struct json_out *o, json_object *array, json_object *item); /* takes item */
void            json_append_out(struct json_out *o, json_object *array, struct json_out *child);
/* The object, now the caller's; NULL if anything failed on the way. */
json_object    *json_finish(struct json_out *o);
/* The text of a document, whole, for keeping; it lives as long as the document does. NULL: no memory. json-c to 0.17 does
 * not look whether its buffer grew (json_object.c), and would give a text with a hole: where memory was short while it was made, it is read back. */
const char     *json_text(json_object *obj);
