/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strict reading and checked building of JSON on json-c. What json-c lets pass and we do not: duplicate
 * keys (the last one wins there), so the text is scanned for them by a counting second pass. */
#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/parse.h"

/* json-c merges duplicate keys silently. Count the keys that the text has (a colon outside of strings
 * follows each) and compare with the keys that the tree has. SIZE_MAX: single quotes, a comment,
 * NaN or Infinity, which json-c 0.16 lets pass even when strict. */
static size_t keys_in_text(const char *s, size_t len)
{
	bool in_string = false;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (in_string && s[i] == '\\')
			i++;
		else if (s[i] == '"')
			in_string = !in_string;
		else if (!in_string && s[i] == ':')
			n++;
		else if (!in_string && memchr("'/NI", s[i], 4))
			return SIZE_MAX;
	}
	return n;
}

static size_t keys_in_tree(json_object *o)
{
	size_t n = 0;

	if (json_object_is_type(o, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(o); i++)
			n += keys_in_tree(json_object_array_get_idx(o, i));
	} else if (json_object_is_type(o, json_type_object)) {
		json_object_object_foreach(o, key, value) {
			(void)key;
			n += 1 + keys_in_tree(value);
		}
	}
	return n;
}

int json_parse(json_object **ret, const char *text, size_t len, size_t max, struct error *err)
{
	auto_(json_object_put) json_object *o = NULL;
	struct json_tokener *tok;
	enum json_tokener_error e;
	size_t end, keys;

	if (len == 0)
		return error_set(err, -EINVAL, "empty text where JSON is needed");
	if (len > max || len > INT32_MAX)
		return error_set(err, -E2BIG, "JSON of %zu bytes is over the limit of %zu", len, max);
	tok = json_tokener_new_ex(JSON_DEPTH_MAX);
	if (!tok)
		return error_set(err, -ENOMEM, "no memory to parse JSON");
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)len);
	e = json_tokener_get_error(tok);
	if (e == json_tokener_continue && !memchr(text, '\0', len)) {
		/* a bare number at the top level ends only at the end of the text */
		json_object_put(o);
		o = json_tokener_parse_ex(tok, "", 1);
		e = json_tokener_get_error(tok);
		end = len;
	} else {
		end = json_tokener_get_parse_end(tok);
	}
	json_tokener_free(tok);
	if (e == json_tokener_continue)
		return error_set(err, -EINVAL, "JSON ends too early, after %zu bytes", len);
	if (e != json_tokener_success)
		return error_set(err, -EINVAL, "not JSON at byte %zu: %s", end, json_tokener_error_desc(e));
	for (; end < len; end++)
		if (!strchr(" \t\r\n", text[end]) || !text[end])
			return error_set(err, -EINVAL, "something follows the JSON document at byte %zu", end);
	keys = keys_in_text(text, len);
	if (keys == SIZE_MAX)
		return error_set(err, -EINVAL, "not JSON: a single quote, a comment, NaN or Infinity outside of a string");
	if (keys != keys_in_tree(o))
		return error_set(err, -EINVAL, "a key stands twice in one JSON object");
	*ret = steal(o);
	return 0;
}

static const struct json_field *field_find(const struct json_field *fields, const char *key)
{
	for (; fields->key; fields++)
		if (strcmp(fields->key, key) == 0)
			return fields;
	return NULL;
}

static int read_string(char **to, const struct json_field *f, json_object *v, const char *where,
		       struct arena *arena, struct error *err)
{
	const char *s = json_object_get_string(v);
	size_t n = (size_t)json_object_get_string_len(v);

	if (!json_object_is_type(v, json_type_string))
		return error_set(err, -EINVAL, "%s.%s must be a string", where, f->key);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return error_set(err, -EINVAL, "%s.%s has a control character at byte %zu", where,
					 f->key, i);
	if ((int64_t)n < f->min || (f->max && n > f->max))
		return error_set(err, -EINVAL, "%s.%s must have %lld to %llu bytes, it has %zu", where, f->key,
				 (long long)f->min, (unsigned long long)f->max, n);
	*to = arena_strdup(arena, s);
	return *to ? 0 : error_set(err, -ENOMEM, "no memory for %s.%s", where, f->key);
}

static int read_number(void *to, const struct json_field *f, json_object *v, const char *where,
		       struct error *err)
{
	char size[3][SIZE_TEXT_MAX];
	uint64_t u = 0;
	int r = -EINVAL;

	if (f->kind == JSON_SIZE && json_object_is_type(v, json_type_string)) {
		r = parse_size(&u, json_object_get_string(v));
		if (r < 0)
			return error_set(err, -EINVAL, "%s.%s is not a size: \"%.40s\" (say bytes, or 512M, 4G)",
					 where, f->key, json_object_get_string(v));
	} else if (!json_object_is_type(v, json_type_int)) {
		return error_set(err, -EINVAL, "%s.%s must be a whole number%s", where, f->key,
				 f->kind == JSON_SIZE ? " of bytes or a string such as \"512M\"" : "");
	} else if (f->kind == JSON_INT) {
		int64_t i = json_object_get_int64(v);

		if (i < f->min || (f->max && i > (int64_t)f->max))
			return error_set(err, -EINVAL, "%s.%s is %lld, allowed are %lld to %llu", where, f->key,
					 (long long)i, (long long)f->min, (unsigned long long)f->max);
		*(int64_t *)to = i;
		return 0;
	} else {
		/* json-c gives 0 for a negative number read as unsigned: look at the sign first */
		if (json_object_get_int64(v) < 0)
			return error_set(err, -EINVAL, "%s.%s is negative", where, f->key);
		u = json_object_get_uint64(v);
	}
	if (f->kind == JSON_SIZE && (u < (uint64_t)f->min || (f->max && u > f->max)))
		return error_set(err, -EINVAL, "%s.%s is %s, allowed are %s to %s", where, f->key, size_text(size[0], u), size_text(size[1], (uint64_t)f->min),
				 size_text(size[2], f->max ? f->max : UINT64_MAX));
	if (u < (uint64_t)f->min || (f->max && u > f->max))
		return error_set(err, -EINVAL, "%s.%s is %llu, allowed are %lld to %llu", where, f->key,
				 (unsigned long long)u, (long long)f->min,
				 (unsigned long long)(f->max ? f->max : UINT64_MAX));
	*(uint64_t *)to = u;
	return 0;
}

static int read_field(void *into, const struct json_field *f, json_object *v, const char *where,
		      struct arena *arena, struct error *err)
{
	void *to = (char *)into + f->offset;

	switch (f->kind) {
	case JSON_STRING:
		return read_string(to, f, v, where, arena, err);
	case JSON_UINT:
	case JSON_INT:
	case JSON_SIZE:
		return read_number(to, f, v, where, err);
	case JSON_BOOL:
		if (!json_object_is_type(v, json_type_boolean))
			return error_set(err, -EINVAL, "%s.%s must be true or false", where, f->key);
		*(bool *)to = json_object_get_boolean(v);
		return 0;
	case JSON_OBJECT:
		return json_read(into, f->sub, v, f->key, arena, err);
	case JSON_ANY:
		*(json_object **)to = v;
		return 0;
	}
	return error_set(err, -EINVAL, "%s.%s has an unknown kind", where, f->key);
}

int json_read(void *into, const struct json_field *fields, json_object *obj, const char *where,
	      struct arena *arena, struct error *err)
{
	if (!json_object_is_type(obj, json_type_object))
		return error_set(err, -EINVAL, "%s must be a JSON object", where);
	json_object_object_foreach(obj, key, value) {
		const struct json_field *f = field_find(fields, key);
		int r;

		if (!f)
			return error_set(err, -EINVAL, "%s has an unknown key \"%.60s\"", where, key);
		r = read_field(into, f, value, where, arena, err);
		if (r < 0)
			return r;
	}
	for (const struct json_field *f = fields; f->key; f++)
		if (f->required && !json_object_object_get_ex(obj, f->key, NULL))
			return error_set(err, -EINVAL, "%s lacks the key \"%s\"", where, f->key);
	return 0;
}

void json_add(struct json_out *o, const char *key, json_object *value)
{
	/* no search for the key, no copy of it: keys are literals, and each is added once */
	if (!o->obj || json_object_object_add_ex(o->obj, key, value, JSON_C_OBJECT_ADD_KEY_IS_NEW | JSON_C_OBJECT_KEY_IS_CONSTANT) < 0) {
		json_object_put(value);
		o->failed = true;
	}
}

void json_add_made(struct json_out *o, const char *key, json_object *value)
{
	if (value)
		json_add(o, key, value);
	else
		o->failed = true;
}

void json_add_string(struct json_out *o, const char *key, const char *value)
{
	if (value)
		json_add_made(o, key, json_object_new_string(value));
	else
		json_add(o, key, NULL);
}

void json_add_uint(struct json_out *o, const char *key, uint64_t value)
{
	json_add_made(o, key, json_object_new_uint64(value));
}

void json_add_int(struct json_out *o, const char *key, int64_t value)
{
	json_add_made(o, key, json_object_new_int64(value));
}

void json_add_bdf(struct json_out *o, const char *key, struct bdf value)
{
	char text[BDF_TEXT_MAX];

	json_add_string(o, key, bdf_is_none(value) ? NULL : bdf_text(text, value));
}

void json_add_bool(struct json_out *o, const char *key, bool value)
{
	json_add_made(o, key, json_object_new_boolean(value));
}

void json_add_time(struct json_out *o, const char *key, int64_t seconds)
{
	time_t t = (time_t)seconds;
	char text[32];
	struct tm tm;

	if (seconds > 0 && gmtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		json_add_string(o, key, text);
	else
		json_add(o, key, NULL);
}

void json_add_moment(struct json_out *o, const char *key, int64_t us)
{
	time_t t = (time_t)(us / 1000000);
	char text[48];
	size_t n = 0;
	struct tm tm;

	if (us > 0 && gmtime_r(&t, &tm))
		n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	if (n > 0)
		(void)snprintf(text + n, sizeof(text) - n, ".%06dZ", (int)(us % 1000000));
	json_add_string(o, key, n > 0 ? text : NULL);
}

struct json_out json_out_new(void)
{
	struct json_out o = { .obj = json_object_new_object() };

	o.failed = !o.obj;
	return o;
}

void json_add_out(struct json_out *o, const char *key, struct json_out *child)
{
	o->failed = o->failed || child->failed;
	if (child->obj)
		json_add(o, key, child->obj);
}

void json_append(struct json_out *o, json_object *array, json_object *item)
{
	if (array && item && json_object_array_add(array, item) == 0)
		return;
	json_object_put(item);
	o->failed = true;
}

void json_append_out(struct json_out *o, json_object *array, struct json_out *child)
{
	o->failed = o->failed || child->failed;
	json_append(o, array, child->obj);
}

json_object *json_finish(struct json_out *o)
{
	if (o->failed) {
		json_object_put(o->obj);
		o->obj = NULL;
	}
	return o->obj;
}

const char *json_text(json_object *obj)
{
	auto_(json_object_put) json_object *again = NULL;
	struct error ignored = ERROR_INIT;
	const char *text;

	errno = 0;
	text = json_object_to_json_string_ext(obj, JSON_C_TO_STRING_PLAIN);
	if (text && !errno) /* where there is no memory malloc(3) says so, though json-c does not */
		return text;
	if (!text || json_parse(&again, text, strlen(text), SIZE_MAX, &ignored) < 0)
		return NULL;
	return json_object_equal(obj, again) ? text : NULL;
}
