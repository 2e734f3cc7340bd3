/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what cloud-init will be given, so that a guest does not boot and then ignore it: cloud-init only logs what it does
 * not understand (https://docs.cloud-init.io, "User-data formats", "NoCloud"). */
#include "plan/seed.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"

#define MIB          (UINT64_C(1) << 20)
#define KEY_MAX      2000 /* an RSA key of 8192 bits has 1400 letters */
#define HOSTNAME_MAX 64   /* HOST_NAME_MAX, hostname(7) */
#define TAG_MAX      255

int plan_image_name_check(const char *key, const char *name, struct error *err)
{
	bool good = islower((unsigned char)*name) || isdigit((unsigned char)*name);

	for (const char *p = name; *p; p++)
		good = good && (islower((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '-' || *p == '.');
	if (!good || strlen(name) > PLAN_IMAGE_NAME_MAX)
		return error_set(err, -EINVAL, "%s \"%.60s\" must be lower-case letters, digits, - and ., beginning with a letter or digit, "
				 "at most %d", key, name, PLAN_IMAGE_NAME_MAX);
	return 0;
}

/* Labels of letters, digits and -, with dots between (RFC 1123, 2.1). */
static int check_hostname(const char *name, struct error *err)
{
	bool good = *name && strlen(name) <= HOSTNAME_MAX;

	for (const char *p = name; *p && good; p++) {
		bool edge = p == name || p[-1] == '.' || !p[1] || p[1] == '.';

		good = isalnum((unsigned char)*p) || (*p == '-' && !edge) || (*p == '.' && p != name && p[-1] != '.' && p[1]);
	}
	return good ? 0 : error_set(err, -EINVAL, "request.hostname \"%.80s\" is no host name: say letters, digits, - and ., at most %d",
				    name, HOSTNAME_MAX);
}

static int check_size(uint64_t size, const char *key, struct error *err)
{
	if (size >= PLAN_DISK_LEAST && size % MIB == 0 && size <= MIB << 24)
		return 0;
	return error_set(err, -EINVAL, "request.%s must be whole MiB, 1M to 16T; it is %llu bytes", key, (unsigned long long)size);
}

static const char *string_of(json_object *v)
{
	const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;

	return s && strlen(s) == (size_t)json_object_get_string_len(v) ? s : NULL; /* without a NUL in it */
}

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for a request");
}

/* ---- each member ------------------------------------------------------------------------------------- */

/* What cloud-init knows a text by: its first line. */
static bool known_format(const char *text)
{
	static const char *const first[] = { "#cloud-config", "#!", "#include", "#cloud-boothook", "#part-handler",
					     "## template: jinja", "Content-Type: multipart/", "MIME-Version:" };

	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		if (strncasecmp(text, first[i], strlen(first[i])) == 0)
			return true;
	return false;
}

static int read_user_data(struct plan_seed *s, json_object *v, struct arena *arena, struct error *err)
{
	const char *text = string_of(v);

	if (!v)
		return 0;
	if (!text)
		return error_set(err, -EINVAL, "request.user_data must be a string without NUL bytes");
	if (strlen(text) > PLAN_USER_DATA_MAX)
		return error_set(err, -E2BIG, "request.user_data has %zu bytes, at most %d are taken; let it #include the rest",
				 strlen(text), PLAN_USER_DATA_MAX);
	if (!known_format(text))
		return error_set(err, -EINVAL, "request.user_data begins with \"%.24s\", by which cloud-init knows no format; "
				 "its first line must be #cloud-config, or #!/bin/sh, or the like", text);
	s->user_data = arena_strdup(arena, text);
	return s->user_data ? 0 : no_memory(err);
}

/* "TYPE BASE64 [COMMENT]". The BASE64 begins with a length of four bytes below 2^8, three of which are zero (RFC 4253, 6.6). */
static bool is_key(const char *line)
{
	static const char *const types[] = { "ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
					     "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com" };
	static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
	size_t n = strcspn(line, " "), len = line[n] ? strspn(line + n + 1, base64) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i]) == n && strncmp(line, types[i], n) == 0)
			return len >= 64 && strncmp(line + n + 1, "AAAA", 4) == 0 && strchr(" ", line[n + 1 + len]);
	return false;
}

static int read_keys(struct plan_seed *s, json_object *v, struct arena *arena, struct error *err)
{
	size_t n = json_object_is_type(v, json_type_array) ? json_object_array_length(v) : 0;

	if (v && (n < 1 || n > PLAN_KEYS_MAX))
		return error_set(err, -EINVAL, "request.ssh_keys must be a list of 1 to %d public keys", PLAN_KEYS_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *line = string_of(json_object_array_get_idx(v, i));

		if (!line || strlen(line) > KEY_MAX || !utf8_printable(line) || !is_key(line))
			return error_set(err, -EINVAL, "request.ssh_keys[%zu] \"%.30s\" is no public key; say a line of a .pub file, such as "
					 "\"ssh-ed25519 AAAA... name\"", i, line ? line : "");
		s->key[s->nkeys] = arena_strdup(arena, line);
		if (!s->key[s->nkeys++])
			return no_memory(err);
	}
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct plan_tag *)a)->key, ((const struct plan_tag *)b)->key);
}

static int read_tags(struct plan_seed *s, json_object *v, struct arena *arena, struct error *err)
{
	if (!v)
		return 0;
	if (!json_object_is_type(v, json_type_object) || json_object_object_length(v) > PLAN_TAGS_MAX)
		return error_set(err, -EINVAL, "request.tags must be an object of at most %d strings", PLAN_TAGS_MAX);
	json_object_object_foreach(v, key, value) {
		const char *text = string_of(value);
		size_t n = strlen(key);

		if (!n || n > 63 || strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") != n)
			return error_set(err, -EINVAL, "request.tags has the key \"%.64s\"; keys are letters, digits and . _ / -, at most 63", key);
		if (!text || strlen(text) > TAG_MAX || !utf8_printable(text))
			return error_set(err, -EINVAL, "request.tags.%s must be a string of at most %d bytes, without control characters", key, TAG_MAX);
		s->tag[s->ntags] = (struct plan_tag){ arena_strdup(arena, key), arena_strdup(arena, text) };
		if (!s->tag[s->ntags].key || !s->tag[s->ntags++].value)
			return no_memory(err);
	}
	qsort(s->tag, s->ntags, sizeof(s->tag[0]), by_key);
	return 0;
}

/* cloud-init's networking config: {"version": 1 or 2, ...}. */
static int read_network(struct plan_seed *s, json_object *v, struct arena *arena, struct error *err)
{
	json_object *version = NULL;
	const char *text;

	if (!v)
		return 0;
	if (!json_object_is_type(v, json_type_object) || !json_object_object_get_ex(v, "version", &version) ||
	    !json_object_is_type(version, json_type_int) || json_object_get_int64(version) < 1 || json_object_get_int64(version) > 2)
		return error_set(err, -EINVAL, "request.network_config must be an object with \"version\": 1 or 2, as cloud-init has it");
	text = json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (text && strlen(text) > PLAN_NETWORK_MAX)
		return error_set(err, -E2BIG, "request.network_config has %zu bytes, at most %d are taken", strlen(text), PLAN_NETWORK_MAX);
	s->network = text ? arena_strdup(arena, text) : NULL;
	return s->network ? 0 : no_memory(err);
}

/* [{"size": "10G"}] */
static int read_disks(struct plan_seed *s, json_object *v, struct arena *arena, struct error *err)
{
	size_t n = json_object_is_type(v, json_type_array) ? json_object_array_length(v) : 0;

	if (v && (n < 1 || n > PLAN_DISKS_MAX))
		return error_set(err, -EINVAL, "request.disks must be a list of 1 to %d disks, {\"size\": \"10G\"} each", PLAN_DISKS_MAX);
	for (size_t i = 0; i < n; i++) {
		static const struct json_field fields[] = { { "size", JSON_SIZE, 0, .required = true }, { 0 } };
		int r = json_read(&s->disk[i], fields, json_object_array_get_idx(v, i), "request.disks", arena, err);

		if (r == 0)
			r = check_size(s->disk[i], "disks.size", err);
		if (r < 0)
			return r;
	}
	s->ndisks = n;
	return 0;
}

int plan_seed_read(struct plan_seed *s, const struct plan_seed_raw *raw, struct arena *arena, struct error *err)
{
	int r = s->image ? plan_image_name_check("request.image", s->image, err) : 0;

	if (r == 0 && s->disk_size && !s->image)
		r = error_set(err, -EINVAL, "request.disk_size is of the disk that begins as an image; say image, too");
	if (r == 0 && s->disk_size)
		r = check_size(s->disk_size, "disk_size", err);
	if (r == 0 && s->hostname)
		r = check_hostname(s->hostname, err);
	if (r == 0)
		r = read_user_data(s, raw->user_data, arena, err);
	if (r == 0)
		r = read_keys(s, raw->ssh_keys, arena, err);
	if (r == 0)
		r = read_tags(s, raw->tags, arena, err);
	if (r == 0)
		r = read_network(s, raw->network, arena, err);
	return r < 0 ? r : read_disks(s, raw->disks, arena, err);
}

bool plan_seed_wanted(const struct plan_seed *s)
{
	return s->image || s->user_data || s->nkeys || s->hostname || s->network;
}

/* ---- and back ---------------------------------------------------------------------------------------- */

json_object *plan_tags_json(const struct plan_seed *s)
{
	struct json_out o = json_out_new();

	for (size_t i = 0; i < s->ntags && !o.failed; i++)
		o.failed = json_object_object_add(o.obj, s->tag[i].key, json_object_new_string(s->tag[i].value)) < 0;
	return json_finish(&o);
}

static void add_lists(struct json_out *o, const struct plan_seed *s)
{
	json_object *keys = s->nkeys ? json_object_new_array() : NULL, *disks = s->ndisks ? json_object_new_array() : NULL;

	for (size_t i = 0; i < s->nkeys; i++)
		json_append(o, keys, json_object_new_string(s->key[i]));
	if (s->nkeys)
		json_add_made(o, "ssh_keys", keys);
	for (size_t i = 0; i < s->ndisks; i++) {
		struct json_out one = json_out_new();

		json_add_uint(&one, "size", s->disk[i]);
		json_append_out(o, disks, &one);
	}
	if (s->ndisks)
		json_add_made(o, "disks", disks);
	if (s->ntags)
		json_add_made(o, "tags", plan_tags_json(s));
}

void plan_seed_add(struct json_out *o, const struct plan_seed *s)
{
	if (s->image)
		json_add_string(o, "image", s->image);
	if (s->disk_size)
		json_add_uint(o, "disk_size", s->disk_size);
	if (s->hostname)
		json_add_string(o, "hostname", s->hostname);
	if (s->user_data)
		json_add_string(o, "user_data", s->user_data);
	if (s->network)
		json_add_made(o, "network_config", json_tokener_parse(s->network));
	add_lists(o, s);
}
