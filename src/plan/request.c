/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests through one field table; what a table cannot say (names, lists, contradictions) follows it. */
#include "plan/request.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strtab.h"

#define MIB (UINT64_C(1) << 20)

static const char *const gdr_names[PLAN_GDR_MAX_] = {
	[PLAN_GDR_OFF] = "off",
	[PLAN_GDR_PREFERRED] = "preferred",
	[PLAN_GDR_REQUIRED] = "required",
};

/* Lists, the path class and gdr pass through raw JSON before they get their type. */
struct raw {
	struct plan_request r;
	char               *max_path, *gdr;
	json_object        *require, *exclude;
};

static const struct json_field boot_fields[] = {
	{ "kernel", JSON_STRING, offsetof(struct raw, r.kernel), .max = 4000 },
	{ "initrd", JSON_STRING, offsetof(struct raw, r.initrd), .max = 4000 },
	{ "cmdline", JSON_STRING, offsetof(struct raw, r.cmdline), .max = 2000 }, /* COMMAND_LINE_SIZE is 2048 */
	{ "disk", JSON_STRING, offsetof(struct raw, r.disk), .max = 4000 },
	{ 0 },
};

static const struct json_field request_fields[] = {
	{ "name", JSON_STRING, offsetof(struct raw, r.name), .max = PLAN_NAME_MAX },
	{ "gpus", JSON_UINT, offsetof(struct raw, r.gpus), .max = PLAN_GPUS_MAX },
	{ "vfs_per_gpu", JSON_UINT, offsetof(struct raw, r.vfs_per_gpu), .max = 8 },
	{ "vfs", JSON_UINT, offsetof(struct raw, r.vfs), .max = PLAN_VFS_MAX },
	{ "max_path", JSON_STRING, offsetof(struct raw, max_path), .min = 1, .max = 8 },
	{ "gdr", JSON_STRING, offsetof(struct raw, gdr), .min = 1, .max = 16 },
	{ "vcpus", JSON_UINT, offsetof(struct raw, r.vcpus), .min = 1, .max = 4096 },
	{ "memory", JSON_SIZE, offsetof(struct raw, r.memory), .min = 64 * MIB, .max = MIB << 24 },
	{ "numa_node", JSON_INT, offsetof(struct raw, r.numa_node), .min = -1, .max = 1023 },
	{ "require", JSON_ANY, offsetof(struct raw, require) },
	{ "exclude", JSON_ANY, offsetof(struct raw, exclude) },
	{ "boot", JSON_OBJECT, .sub = boot_fields },
	{ 0 },
};

static int read_list(struct bdf *list, size_t *n, json_object *array, const char *key, struct error *err)
{
	if (!array)
		return 0;
	if (!json_object_is_type(array, json_type_array) || json_object_array_length(array) > PLAN_LIST_MAX)
		return error_set(err, -EINVAL, "request.%s must be an array of at most %d PCI addresses", key,
				 PLAN_LIST_MAX);
	for (size_t i = 0; i < json_object_array_length(array); i++) {
		json_object *item = json_object_array_get_idx(array, i);
		const char *text = json_object_is_type(item, json_type_string) ? json_object_get_string(item) : "";
		struct bdf b;

		if (!bdf_parse(&b, text))
			return error_set(err, -EINVAL,
					 "request.%s has \"%.40s\", which is no PCI address; say 0000:4c:00.0", key, text);
		if (bdf_in(list, *n, b))
			return error_set(err, -EINVAL, "request.%s names %s twice", key, text);
		list[(*n)++] = b;
	}
	return 0;
}

static int check_name(const char *name, struct error *err)
{
	if (!*name)
		return 0;
	for (const char *p = name; *p; p++)
		if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && (*p != '-' || p == name))
			return error_set(err, -EINVAL,
					 "request.name \"%.60s\" must be lower-case letters, digits and -, not starting with -",
					 name);
	return 0;
}

static int check_path(const char *key, const char *path, struct error *err)
{
	if (*path && *path != '/')
		return error_set(err, -EINVAL, "request.boot.%s must be an absolute path on the host: \"%.80s\"", key,
				 path);
	return 0;
}

static bool has_pairs(const struct plan_request *r)
{
	return r->gpus && (r->vfs || r->vfs_per_gpu);
}

static int read_gdr(struct plan_request *r, const char *text, struct error *err)
{
	int g = text ? strtab_find(gdr_names, PLAN_GDR_MAX_, text) : has_pairs(r) ? PLAN_GDR_PREFERRED : PLAN_GDR_OFF;

	if (g < 0)
		return error_set(err, -EINVAL, "request.gdr is \"%.20s\"; known are required, preferred, off", text);
	r->gdr = (enum plan_gdr)g;
	return 0;
}

/* Each value is right by itself; do they go together? */
static int check_whole(const struct plan_request *r, struct error *err)
{
	char text[BDF_TEXT_MAX];

	if (r->vfs_per_gpu && r->vfs)
		return error_set(err, -EINVAL, "request has both vfs_per_gpu and vfs; say one of them");
	if (r->vfs_per_gpu && !r->gpus)
		return error_set(err, -EINVAL, "request has vfs_per_gpu but no gpus; say vfs for a guest without GPUs");
	if (r->vfs_per_gpu * r->gpus > PLAN_VFS_MAX)
		return error_set(err, -EINVAL, "request wants %llu VFs, at most %d fit into one guest",
				 (unsigned long long)(r->vfs_per_gpu * r->gpus), PLAN_VFS_MAX);
	if (r->gdr == PLAN_GDR_REQUIRED && !has_pairs(r))
		return error_set(err, -EINVAL, "request.gdr is required, which is between GPUs and VFs; ask for both, or leave it out");
	if (r->memory % MIB)
		return error_set(err, -EINVAL, "request.memory must be whole MiB, it is %llu bytes",
				 (unsigned long long)r->memory);
	if ((*r->initrd || *r->cmdline) && !*r->kernel)
		return error_set(err, -EINVAL, "request.boot has initrd or cmdline but no kernel");
	for (size_t i = 0; i < r->nrequire; i++)
		if (bdf_in(r->exclude, r->nexclude, r->require[i]))
			return error_set(err, -EINVAL, "request both requires and excludes %s",
					 bdf_text(text, r->require[i]));
	return 0;
}

static int read_raw(struct raw *raw, json_object *obj, struct error *err)
{
	struct plan_request *r = &raw->r;
	int e = json_read(raw, request_fields, obj, "request", &r->arena, err);

	if (e == 0 && raw->max_path) {
		int c = topo_class_parse(raw->max_path);

		if (c < 0)
			return error_set(err, -EINVAL,
					 "request.max_path is \"%.20s\"; known are PIX, PXB, PHB, NODE, SYS", raw->max_path);
		r->max_path = (enum topo_class)c;
	}
	if (e == 0)
		e = read_gdr(r, raw->gdr, err);
	if (e == 0)
		e = check_name(r->name, err);
	if (e == 0)
		e = read_list(r->require, &r->nrequire, raw->require, "require", err);
	if (e == 0)
		e = read_list(r->exclude, &r->nexclude, raw->exclude, "exclude", err);
	if (e == 0)
		e = check_path("kernel", r->kernel, err);
	if (e == 0)
		e = check_path("initrd", r->initrd, err);
	if (e == 0)
		e = check_path("disk", r->disk, err);
	return e == 0 ? check_whole(r, err) : e;
}

int plan_request_read(struct plan_request *ret, json_object *obj, struct error *err)
{
	static char none[] = "";
	struct raw raw = { .r = {
		.name = none, .kernel = none, .initrd = none, .cmdline = none, .disk = none,
		.vcpus = 1, .memory = 512 * MIB, .numa_node = -1, .max_path = TOPO_SYS,
	} };
	int e = read_raw(&raw, obj, err);

	if (e < 0) {
		arena_done(&raw.r.arena);
		return e;
	}
	*ret = raw.r;
	return 0;
}

void plan_request_done(struct plan_request *r)
{
	arena_done(&r->arena);
	*r = (struct plan_request){ 0 };
}

static void add_list(struct json_out *o, const char *key, const struct bdf *list, size_t n)
{
	json_object *a = json_object_new_array();
	char text[BDF_TEXT_MAX];

	for (size_t i = 0; i < n; i++)
		json_append(o, a, json_object_new_string(bdf_text(text, list[i])));
	json_add(o, key, a);
}

static void add_boot(struct json_out *o, const struct plan_request *r)
{
	struct json_out b = json_out_new();

	if (*r->kernel)
		json_add_string(&b, "kernel", r->kernel);
	if (*r->initrd)
		json_add_string(&b, "initrd", r->initrd);
	if (*r->cmdline)
		json_add_string(&b, "cmdline", r->cmdline);
	if (*r->disk)
		json_add_string(&b, "disk", r->disk);
	json_add_out(o, "boot", &b);
}

json_object *plan_request_json(const struct plan_request *r)
{
	struct json_out o = json_out_new();

	json_add_string(&o, "name", r->name);
	json_add_uint(&o, "gpus", r->gpus);
	json_add_uint(&o, "vfs_per_gpu", r->vfs_per_gpu);
	json_add_uint(&o, "vfs", r->vfs);
	json_add_string(&o, "max_path", topo_class_text(r->max_path));
	json_add_string(&o, "gdr", strtab_text(gdr_names, PLAN_GDR_MAX_, (int)r->gdr));
	json_add_uint(&o, "vcpus", r->vcpus);
	json_add_uint(&o, "memory", r->memory);
	json_add_int(&o, "numa_node", r->numa_node);
	add_list(&o, "require", r->require, r->nrequire);
	add_list(&o, "exclude", r->exclude, r->nexclude);
	add_boot(&o, r);
	return json_finish(&o);
}
