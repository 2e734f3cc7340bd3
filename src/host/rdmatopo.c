/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Converts rdma_topo's dumps. They are foreign bytes: JSON by base/json, limits on everything, fuzzed. */
#include "host/rdmatopo.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/bdf.h"
#include "base/error.h"
#include "base/lazy.h"
#include "base/json.h"
#include "host/attr.h"
#include "host/root.h"
#include "host/text.h"

#define JSON_MAX      (64u * 1024 * 1024) /* 65,536 functions of 1 KiB */
#define FUNCTIONS_MAX 65536
#define CONFIG_MAX    4096
#define PACKED_MAX    8192 /* base64 of 4096 bytes that do not shrink, and more */
#define NAMES_MAX     4096 /* of one subsystem: a PF's VFs have functions of their own */

struct function {
	struct text_host *host;
	struct error     *err;
	const char       *name;  /* of the file */
	void            **seen;  /* tree of struct bdf, tsearch(3) */
	size_t            index;
	const char       *bdf;   /* "" until realpath was read */
	char              path[HOST_PATH_MAX];
};

static int bad(struct function *fn, const char *member, const char *what)
{
	return error_set(fn->err, -EINVAL, "%s: function %zu%s%s%s: %s%s%s", fn->name, fn->index, *fn->bdf ? " (" : "",
			 fn->bdf, *fn->bdf ? ")" : "", member, *member ? ": " : "", what);
}

static int add(struct function *fn, enum text_type type, const char *value, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static int add(struct function *fn, enum text_type type, const char *value, const char *fmt, ...)
{
	char path[2 * HOST_PATH_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n >= HOST_PATH_MAX)
		return bad(fn, "", "a path of it is too long");
	if (text_host_add(fn->host, &(struct text_entry){ .path = path, .type = type, .value = value }) < 0)
		return error_set(fn->err, -ENOMEM, "no memory for %s", fn->name);
	return 0;
}

/* A string member without control characters; NULL, with the error set, if it is none. */
static const char *text_of(struct function *fn, json_object *o, const char *key)
{
	json_object *v = NULL;
	const char *s;

	if (!json_object_object_get_ex(o, key, &v) || !v) {
		(void)bad(fn, key, "it is missing");
		return NULL;
	}
	s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			s = "";
	if (!*s || strlen(s) != (size_t)json_object_get_string_len(v)) {
		(void)bad(fn, key, "it must be a string, not empty, without control characters");
		return NULL;
	}
	return s;
}

static int by_bdf(const void *a, const void *b)
{
	return bdf_cmp(*(const struct bdf *)a, *(const struct bdf *)b);
}

static bool first_of(struct function *fn, struct bdf bdf)
{
	struct bdf *key = arena_alloc(&fn->host->arena, sizeof(*key));
	struct bdf *const *found;

	if (!key)
		return true; /* what comes next has no memory either, and says so */
	*key = bdf;
	found = tsearch(key, fn->seen, by_bdf);
	return !found || *found == key;
}

/* Directories of host bridges are above, the function's own name is last: "/.../devices/pci0000:00/0000:00:01.0".
 * The file may come from a copy of sysfs elsewhere, so what stands before /devices/ does not count. */
static int read_place(struct function *fn, json_object *o)
{
	const char *real = text_of(fn, o, "realpath"), *from = real ? strstr(real, "/devices/") : NULL;
	char target[HOST_PATH_MAX];
	struct bdf bdf;
	bool root = false;
	int n;

	if (!real)
		return fn->err->code;
	for (const char *p = from ? from + 1 : ""; *p; p += strcspn(p, "/"), p += *p == '/')
		root |= attr_is_root_bus(p, strcspn(p, "/"));
	n = snprintf(fn->path, sizeof(fn->path), "sys%s", from ? from : "");
	if (!root || n >= (int)sizeof(fn->path) - 32 || strstr(fn->path, "/.") || strstr(fn->path, "//") ||
	    !bdf_parse(&bdf, attr_last_part(fn->path)))
		return bad(fn, "realpath", "it must be as \".../devices/pci0000:00/0000:00:01.0\"");
	fn->bdf = attr_last_part(fn->path);
	if (!first_of(fn, bdf))
		return bad(fn, "realpath", "another function has this address");
	(void)snprintf(target, sizeof(target), "../../../%s", fn->path + strlen("sys/"));
	return add(fn, TEXT_LINK, target, "sys/bus/pci/devices/%s", fn->bdf);
}

static int base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* RFC 4648, section 4, with its padding. */
static bool unbase64(uint8_t *out, size_t *len, const char *s)
{
	size_t n = strlen(s), pad = 0;

	*len = 0;
	if (n % 4 || n / 4 * 3 > PACKED_MAX)
		return false;
	while (pad < 2 && pad < n && s[n - 1 - pad] == '=')
		pad++;
	for (size_t i = 0; i < n; i += 4) {
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			int d = i + k < n - pad ? base64_digit(s[i + k]) : 0;

			if (d < 0)
				return false;
			v = v << 6 | (uint32_t)d;
		}
		for (size_t k = 0; k < 3 && !(i + 4 == n && k >= 3 - pad); k++)
			out[(*len)++] = (uint8_t)(v >> (16 - 8 * k));
	}
	return true;
}

#define FUNCTIONS(X) X(uncompress2)
LAZY_LIBRARY("libz.so.1", FUNCTIONS)

/* Loaded for each: a second time that costs little, and nobody else needs it. */
static int unpack(uint8_t bytes[CONFIG_MAX], uLongf *size, const uint8_t *packed, size_t len, struct function *fn)
{
	uLong used = len;
	struct lib l;
	int r = 0;

	if (!lib_open(&l))
		r = error_set(fn->err, -ENOPKG, "cannot load libz.so.1, which unpacks config space; install zlib");
	else if (l.uncompress2(bytes, size, packed, &used) != Z_OK || used != len)
		r = bad(fn, "config", "it must be one zlib stream of 4096 bytes at most");
	lib_close(&l);
	return r;
}

static int read_config(struct function *fn, json_object *o)
{
	const char *text = text_of(fn, o, "config");
	uint8_t packed[PACKED_MAX], bytes[CONFIG_MAX];
	uLongf size = sizeof(bytes);
	char path[HOST_PATH_MAX + 8];
	size_t len;
	int r;

	if (!text)
		return fn->err->code;
	if (!unbase64(packed, &len, text))
		return bad(fn, "config", "it must be base64, as that of 4096 packed bytes at most");
	r = unpack(bytes, &size, packed, len, fn);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s/config", fn->path);
	if (text_host_add(fn->host, &(struct text_entry){ .path = path, .type = TEXT_BYTES, .bytes = bytes, .len = size }) < 0)
		return error_set(fn->err, -ENOMEM, "no memory for %s", fn->name);
	return 0;
}

/* The ids as files of their own. As an uevent they would also say that the function has no driver. */
static int read_modalias(struct function *fn, json_object *o)
{
	const char *text = text_of(fn, o, "modalias");
	unsigned id[4], class[3];
	char value[16];
	int r, end = 0;

	if (!text)
		return fn->err->code;
	if (strpbrk(text, "+- ") || sscanf(text, "pci:v%8Xd%8Xsv%8Xsd%8Xbc%2Xsc%2Xi%2X%n", &id[0], &id[1], &id[2], &id[3],
					   &class[0], &class[1], &class[2], &end) != 7 || text[end] || id[0] > 0xffff || id[1] > 0xffff || id[2] > 0xffff || id[3] > 0xffff)
		return bad(fn, "modalias", "it must be as \"pci:v000015B3d00001021sv000015B3sd00000041bc02sc07i00\"");
	(void)snprintf(value, sizeof(value), "0x%02x%02x%02x", class[0], class[1], class[2]);
	r = add(fn, TEXT_FILE, value, "%s/class", fn->path);
	for (int i = 0; r == 0 && i < 4; i++) {
		static const char *const file[] = { "vendor", "device", "subsystem_vendor", "subsystem_device" };

		(void)snprintf(value, sizeof(value), "0x%04x", id[i]);
		r = add(fn, TEXT_FILE, value, "%s/%s", fn->path, file[i]);
	}
	return r < 0 ? r : add(fn, TEXT_FILE, text, "%s/modalias", fn->path);
}

/* A number or null. 1: there is one. */
static int number_of(struct function *fn, int64_t *ret, json_object *o, const char *key, int64_t least)
{
	json_object *v = NULL;

	if (!json_object_object_get_ex(o, key, &v) || !v)
		return 0;
	*ret = json_object_get_int64(v);
	if (!json_object_is_type(v, json_type_int) || *ret < least || *ret > INT32_MAX)
		return bad(fn, key, "it must be a number that sysfs can have, or null");
	return 1;
}

static int read_numbers(struct function *fn, json_object *o)
{
	char target[HOST_PATH_MAX], value[16];
	int64_t n = 0;
	size_t at = 0;
	int r = number_of(fn, &n, o, "numa_node", -1);

	(void)snprintf(value, sizeof(value), "%d", (int)n);
	if (r == 1)
		r = add(fn, TEXT_FILE, value, "%s/numa_node", fn->path);
	if (r == 0)
		r = number_of(fn, &n, o, "iommu_group", 0);
	if (r != 1)
		return r;
	for (const char *p = fn->path; (p = strchr(p, '/')) && at < sizeof(target) - 64; p++, at += 3)
		(void)strcpy(target + at, "../");
	(void)snprintf(target + at, sizeof(target) - at, "kernel/iommu_groups/%d", (int)n);
	return add(fn, TEXT_LINK, target, "%s/iommu_group", fn->path);
}

static bool name_ok(const char *s)
{
	return *s && s[0] != '.' && strlen(s) < 128 && !strpbrk(s, "/\t\n") && !strstr(s, " -> ") && !strstr(s, " ! ");
}

/* {"net": ["eth0"]}: each name is a directory. */
static int read_subsystems(struct function *fn, json_object *o)
{
	json_object *all = NULL;
	int r = 0;

	if (!json_object_object_get_ex(o, "subsystems", &all) || !all)
		return 0;
	if (!json_object_is_type(all, json_type_object))
		return bad(fn, "subsystems", "it must be an object, or null");
	json_object_object_foreach(all, key, list) {
		size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : SIZE_MAX;

		if (!name_ok(key) || n > NAMES_MAX)
			return bad(fn, "subsystems", "each must be an array of names");
		for (size_t i = 0; r == 0 && i < n; i++) {
			json_object *name = json_object_array_get_idx(list, i);

			if (!json_object_is_type(name, json_type_string) || !name_ok(json_object_get_string(name)))
				return bad(fn, "subsystems", "each must be an array of names");
			r = add(fn, TEXT_DIR, NULL, "%s/%s/%s", fn->path, key, json_object_get_string(name));
		}
	}
	return r;
}

static int read_function(struct function *fn, json_object *o)
{
	int r;

	if (!json_object_is_type(o, json_type_object))
		return bad(fn, "", "it must be an object");
	r = read_place(fn, o);
	if (r == 0)
		r = read_config(fn, o);
	if (r == 0)
		r = read_modalias(fn, o);
	if (r == 0)
		r = read_numbers(fn, o);
	return r < 0 ? r : read_subsystems(fn, o);
}

/* What a missing directory would say is not so: nobody has looked. */
static int add_unread(struct text_host *t)
{
	static const char *const path[] = { "sys/class/iommu", "sys/bus/pci/drivers/vfio-pci", "sys/devices/virtual/misc/kvm" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(path); i++)
		r = text_host_add(t, &(struct text_entry){ .path = path[i], .type = TEXT_ERROR, .error = ENODATA });
	return r;
}

bool rdmatopo_is(const char *text, size_t len)
{
	size_t at = 0;

	while (at < len && strchr(" \t\r\n", text[at]) && text[at])
		at++;
	return at < len && text[at] == '[';
}

static void keep(void *bdf)
{
	(void)bdf; /* the arena's */
}

int rdmatopo_parse(struct text_host **ret, const char *text, size_t len, const char *name, struct error *err)
{
	auto_(text_host_free) struct text_host *t = text_host_new();
	auto_(json_object_put) json_object *doc = NULL;
	void *seen = NULL;
	size_t n;
	int r = 0;

	if (!t)
		return error_set(err, -ENOMEM, "no memory for %s", name);
	if (json_parse(&doc, text, len, JSON_MAX, err) < 0)
		return error_prefix(err, "%s is no dump of rdma_topo", name);
	n = json_object_is_type(doc, json_type_array) ? json_object_array_length(doc) : 0;
	if (n > FUNCTIONS_MAX)
		return error_set(err, -EINVAL, "%s has %zu functions, %d are the limit", name, n, FUNCTIONS_MAX);
	if (text_host_add(t, &(struct text_entry){ .path = "sys/bus/pci/devices", .type = TEXT_DIR }) < 0 || add_unread(t) < 0)
		return error_set(err, -ENOMEM, "no memory for %s", name);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct function fn = { .host = t, .err = err, .name = name, .index = i, .bdf = "", .seen = &seen };

		r = read_function(&fn, json_object_array_get_idx(doc, i));
	}
	tdestroy(seen, keep);
	if (r < 0)
		return r;
	text_host_sort(t);
	t->comment = "# from a dump of rdma_topo; what that does not hold is not known\n";
	*ret = steal(t);
	return 0;
}
