/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests through one field table; what a table cannot say (names, lists, contradictions) follows it. */
#include "plan/request.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/strtab.h"
#include "plan/vf.h"

#define MIB (UINT64_C(1) << 20)

static const char *const gdr_names[PLAN_GDR_MAX_] = {
	[PLAN_GDR_OFF] = "off",
	[PLAN_GDR_PREFERRED] = "preferred",
	[PLAN_GDR_REQUIRED] = "required",
};

static const char *const policy_names[] = { "strict", "loose" };
static const char *const pcie_names[] = { "switches", "root-ports" };
static const char *const firmware_names[] = { "bios", "uefi" };

/* Lists, classes and words pass through raw JSON before they get their type. */
struct raw {
	struct plan_request r;
	char               *max_path, *max_gpu_path, *gdr, *policy, *spread, *model, *pcie, *firmware;
	json_object        *require, *exclude, *models, *vf;
	struct plan_seed_raw seed;
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
	{ "nvme", JSON_UINT, offsetof(struct raw, r.nvme), .max = PLAN_NVME_MAX },
	{ "max_path", JSON_STRING, offsetof(struct raw, max_path), .min = 1, .max = 8 },
	{ "max_gpu_path", JSON_STRING, offsetof(struct raw, max_gpu_path), .min = 1, .max = 8 },
	{ "min_bandwidth", JSON_UINT, offsetof(struct raw, r.min_bandwidth), .max = 100000 },
	{ "policy", JSON_STRING, offsetof(struct raw, policy), .min = 1, .max = 16 },
	{ "spread", JSON_STRING, offsetof(struct raw, spread), .min = 1, .max = 16 },
	{ "rails", JSON_BOOL, offsetof(struct raw, r.rails) },
	{ "model", JSON_STRING, offsetof(struct raw, model), .min = 1, .max = 23 },
	{ "models", JSON_ANY, offsetof(struct raw, models) },
	{ "exclusive", JSON_BOOL, offsetof(struct raw, r.exclusive) },
	{ "gdr", JSON_STRING, offsetof(struct raw, gdr), .min = 1, .max = 16 },
	{ "vcpus", JSON_UINT, offsetof(struct raw, r.vcpus), .min = 1, .max = 4096 },
	{ "memory", JSON_SIZE, offsetof(struct raw, r.memory), .min = 64 * MIB, .max = MIB << 24 },
	{ "hugepages", JSON_SIZE, offsetof(struct raw, r.hugepages), .min = 1 << 16, .max = UINT64_C(1) << 40 },
	{ "cells", JSON_UINT, offsetof(struct raw, r.cells), .min = 1, .max = PLAN_CELLS_MAX },
	{ "tenant", JSON_STRING, offsetof(struct raw, r.tenant), .min = 1, .max = PLAN_NAME_MAX },
	{ "numa_node", JSON_INT, offsetof(struct raw, r.numa_node), .min = -1, .max = 1023 },
	{ "require", JSON_ANY, offsetof(struct raw, require) },
	{ "exclude", JSON_ANY, offsetof(struct raw, exclude) },
	{ "vf", JSON_ANY, offsetof(struct raw, vf) },
	{ "mtu", JSON_UINT, offsetof(struct raw, r.mtu), .min = 68, .max = 65535 },
	{ "pcie", JSON_STRING, offsetof(struct raw, pcie), .min = 1, .max = 16 },
	{ "firmware", JSON_STRING, offsetof(struct raw, firmware), .min = 1, .max = 16 },
	{ "secure_boot", JSON_BOOL, offsetof(struct raw, r.secure_boot) },
	{ "tpm", JSON_BOOL, offsetof(struct raw, r.tpm) },
	{ "boot", JSON_OBJECT, .sub = boot_fields },
	{ "image", JSON_STRING, offsetof(struct raw, r.seed.image), .min = 1, .max = 200 },
	{ "disk_size", JSON_SIZE, offsetof(struct raw, r.seed.disk_size), .min = 1 },
	{ "disks", JSON_ANY, offsetof(struct raw, seed.disks) },
	{ "hostname", JSON_STRING, offsetof(struct raw, r.seed.hostname), .max = 200 },
	{ "user_data", JSON_ANY, offsetof(struct raw, seed.user_data) },
	{ "ssh_keys", JSON_ANY, offsetof(struct raw, seed.ssh_keys) },
	{ "network_config", JSON_ANY, offsetof(struct raw, seed.network) },
	{ "tags", JSON_ANY, offsetof(struct raw, seed.tags) },
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

/* "10de:2330", or "10de:*": four hex digits, or an asterisk */
static bool parse_model(struct plan_model *ret, const char *text)
{
	uint64_t vendor = 0, device = 0;
	char left[5];

	if (strlen(text) < 6 || text[4] != ':')
		return false;
	memcpy(left, text, 4);
	left[4] = '\0';
	*ret = (struct plan_model){ .vendor_mask = 0xffff, .device_mask = strcmp(text + 5, "*") == 0 ? 0 : 0xffff };
	if (parse_uint(&vendor, left, 16, UINT16_MAX) < 0 ||
	    (ret->device_mask && (strlen(text) != 9 || parse_uint(&device, text + 5, 16, UINT16_MAX) < 0)))
		return false;
	ret->vendor = (uint16_t)vendor;
	ret->device = (uint16_t)device;
	return true;
}

/* "H100": letters, digits and - _ . */
static bool parse_model_name(struct plan_model *ret, const char *text)
{
	*ret = (struct plan_model){ 0 };
	if (!isalnum((unsigned char)*text) || strlen(text) >= sizeof(ret->name))
		return false;
	for (size_t i = 0; text[i]; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
			return false;
		ret->name[i] = (char)tolower((unsigned char)text[i]);
	}
	return true;
}

bool plan_model_parse(struct plan_model *ret, const char *text)
{
	return parse_model(ret, text) || parse_model_name(ret, text);
}

static int add_model(struct plan_request *r, const char *key, const char *text, struct error *err)
{
	struct plan_model *m = &r->model[r->nmodels];
	uint8_t kinds = 0, kind = UINT8_MAX;

	if (!plan_model_parse(m, text))
		return error_set(err, -EINVAL, "request.%s is \"%.20s\"; say a name of [models], such as h100, or vendor:device in hex, such as "
				 "10de:2330, or 10de:*", key, text);
	for (size_t i = 0; i < r->nmodels; i++) {
		kinds = r->model_kind[i] >= kinds ? (uint8_t)(r->model_kind[i] + 1) : kinds;
		if (memcmp(&r->model[i], m, sizeof(*m)) == 0)
			kind = r->model_kind[i];
	}
	r->model_kind[r->nmodels++] = kind == UINT8_MAX ? kinds : kind;
	if (kind == UINT8_MAX && kinds == PLAN_MODEL_KINDS_MAX)
		return error_set(err, -EINVAL, "request.%s names more than %d different models", key, PLAN_MODEL_KINDS_MAX);
	return 0;
}

static int read_models(struct plan_request *r, const char *model, json_object *models, struct error *err)
{
	size_t n = models && json_object_is_type(models, json_type_array) ? json_object_array_length(models) : 0;
	int e = 0;

	if (model && models)
		return error_set(err, -EINVAL, "request has both model and models; say one of them");
	if (model)
		return add_model(r, "model", model, err);
	if (models && (n == 0 || n > PLAN_MODELS_MAX))
		return error_set(err, -EINVAL, "request.models must be an array of one model for each GPU");
	for (size_t i = 0; i < n && e == 0; i++) {
		json_object *item = json_object_array_get_idx(models, i);

		e = add_model(r, "models", json_object_is_type(item, json_type_string) ? json_object_get_string(item) : "", err);
	}
	if (e == 0 && n && n != r->gpus)
		return error_set(err, -EINVAL, "request.models names %zu models for %llu GPUs; name one for each, or say model", n,
				 (unsigned long long)r->gpus);
	return e;
}

static int read_class(enum topo_class *ret, const char *key, const char *text, struct error *err)
{
	int c = text ? topo_class_parse(text) : (int)*ret;

	if (c < 0)
		return error_set(err, -EINVAL, "request.%s is \"%.20s\"; known are PIX, PXB, PHB, NODE, SYS", key, text);
	*ret = (enum topo_class)c;
	return 0;
}

static int read_words(struct raw *raw, struct error *err)
{
	int policy = raw->policy ? strtab_find(policy_names, 2, raw->policy) : 0;

	if (policy < 0)
		return error_set(err, -EINVAL, "request.policy is \"%.20s\"; known are strict, loose", raw->policy);
	raw->r.loose = policy == 1;
	raw->r.spread_pf = raw->spread != NULL;
	if (raw->spread && strcmp(raw->spread, "pf") != 0)
		return error_set(err, -EINVAL, "request.spread is \"%.20s\"; known is pf", raw->spread);
	return 0;
}

static int read_guest(struct raw *raw, struct error *err)
{
	int pcie = raw->pcie ? strtab_find(pcie_names, 2, raw->pcie) : 0;
	int firmware = raw->firmware ? strtab_find(firmware_names, 2, raw->firmware) : raw->r.secure_boot;

	if (pcie < 0)
		return error_set(err, -EINVAL, "request.pcie is \"%.20s\"; known are switches, root-ports", raw->pcie);
	if (firmware < 0)
		return error_set(err, -EINVAL, "request.firmware is \"%.20s\"; known are bios, uefi", raw->firmware);
	if (raw->r.secure_boot && !firmware)
		return error_set(err, -EINVAL, "request.secure_boot is what only uefi can; leave firmware out, or say uefi");
	raw->r.root_ports = pcie == 1;
	raw->r.uefi = firmware == 1;
	return 0;
}

static uint64_t count_vfs(const struct plan_request *r)
{
	return r->vfs + r->vfs_per_gpu * r->gpus;
}

/* One object for all VFs, or an array with one for each. */
static int read_vf(struct plan_request *r, json_object *vf, struct error *err)
{
	bool each = json_object_is_type(vf, json_type_array);
	size_t n = each ? json_object_array_length(vf) : 1;
	int e = 0;

	if (!vf)
		return 0;
	if (!r->vfs && !r->vfs_per_gpu)
		return error_set(err, -EINVAL, "request.vf is of VFs, and it has none");
	if (each && (r->exclusive || n != count_vfs(r)))
		return error_set(err, -EINVAL, "request.vf has %zu entries; say one for each VF, or one object for all", n);
	r->vf = arena_array(&r->arena, n, sizeof(*r->vf));
	if (!r->vf)
		return error_set(err, -ENOMEM, "no memory for the request");
	for (; r->nvf_sets < n && e == 0; r->nvf_sets++)
		e = plan_vf_read(&r->vf[r->nvf_sets], each ? json_object_array_get_idx(vf, r->nvf_sets) : vf, "request.vf", &r->arena, err);
	if (e == 0 && !each && count_vfs(r) != 1 && r->vf[0].has & PLAN_VF_ADDRESS)
		return error_set(err, -EINVAL, "request.vf has an address, and it is of several VFs; say an array, one entry for each");
	return e;
}

static int check_name(const char *key, const char *name, struct error *err)
{
	if (!*name)
		return 0;
	for (const char *p = name; *p; p++)
		if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && (*p != '-' || p == name))
			return error_set(err, -EINVAL,
					 "request.%s \"%.60s\" must be lower-case letters, digits and -, not starting with -",
					 key, name);
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
	return (r->gpus || r->exclusive) && (r->vfs || r->vfs_per_gpu);
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
	if (r->exclusive && (r->gpus || r->nexclude || r->numa_node >= 0 || r->nmodels > 1))
		return error_set(err, -EINVAL, "request is exclusive, which is all GPUs of the host; leave out gpus, models, exclude and numa_node");
	if (r->vfs_per_gpu && !r->gpus && !r->exclusive)
		return error_set(err, -EINVAL, "request has vfs_per_gpu but no gpus; say vfs for a guest without GPUs");
	if (r->vfs_per_gpu * (r->exclusive ? PLAN_GPUS_MAX : r->gpus) > PLAN_VFS_MAX)
		return error_set(err, -EINVAL, "request wants %llu VFs, at most %d fit into one guest",
				 (unsigned long long)(r->vfs_per_gpu * (r->exclusive ? PLAN_GPUS_MAX : r->gpus)), PLAN_VFS_MAX);
	if ((r->rails || r->min_bandwidth) && !has_pairs(r))
		return error_set(err, -EINVAL, "request.%s is between GPUs and VFs; ask for both, or leave it out",
				 r->rails ? "rails" : "min_bandwidth");
	if (r->mtu && !r->vfs && !r->vfs_per_gpu)
		return error_set(err, -EINVAL, "request.mtu is of the ports of its VFs, and it has none");
	if (r->spread_pf && !r->vfs && !r->vfs_per_gpu)
		return error_set(err, -EINVAL, "request.spread is of VFs, and it has none");
	if (r->max_gpu_path != TOPO_UNKNOWN && r->gpus < 2 && !r->exclusive)
		return error_set(err, -EINVAL, "request.max_gpu_path is between GPUs; ask for two at least, or leave it out");
	if (r->nmodels && !r->gpus && !r->exclusive)
		return error_set(err, -EINVAL, "request.model is of GPUs, and it has none");
	if (r->hugepages && (r->hugepages & (r->hugepages - 1) || r->memory % r->hugepages))
		return error_set(err, -EINVAL, "request.hugepages must be a power of two that request.memory is a multiple of");
	if (r->hugepages && r->cells > r->memory / r->hugepages)
		return error_set(err, -EINVAL, "request has %llu cells but %llu pages of memory; each cell has one at least",
				 (unsigned long long)r->cells, (unsigned long long)(r->memory / r->hugepages));
	if (r->cells > r->vcpus)
		return error_set(err, -EINVAL, "request has %llu cells but %llu vCPUs; each cell has one at least",
				 (unsigned long long)r->cells, (unsigned long long)r->vcpus);
	if (r->gdr == PLAN_GDR_REQUIRED && !has_pairs(r))
		return error_set(err, -EINVAL, "request.gdr is required, which is between GPUs and VFs; ask for both, or leave it out");
	if (r->memory % MIB)
		return error_set(err, -EINVAL, "request.memory must be whole MiB, it is %llu bytes",
				 (unsigned long long)r->memory);
	if (*r->disk && r->seed.image)
		return error_set(err, -EINVAL, "request has both boot.disk and image; say one of them");
	if ((*r->initrd || *r->cmdline) && !*r->kernel)
		return error_set(err, -EINVAL, "request.boot has initrd or cmdline but no kernel");
	for (size_t i = 0; i < r->nrequire; i++)
		if (bdf_in(r->exclude, r->nexclude, r->require[i]))
			return error_set(err, -EINVAL, "request both requires and excludes %s",
					 bdf_text(text, r->require[i]));
	if (!r->exclusive && r->nrequire > r->gpus + r->vfs + r->gpus * r->vfs_per_gpu + r->nvme)
		return error_set(err, -EINVAL, "request.require names %zu devices, and gpus, VFs and nvme are %llu", r->nrequire,
				 (unsigned long long)(r->gpus + r->vfs + r->gpus * r->vfs_per_gpu + r->nvme));
	return 0;
}

static int read_raw(struct raw *raw, json_object *obj, struct error *err)
{
	struct plan_request *r = &raw->r;
	int e = json_read(raw, request_fields, obj, "request", &r->arena, err);

	if (e == 0)
		e = read_class(&r->max_path, "max_path", raw->max_path, err);
	if (e == 0)
		e = read_class(&r->max_gpu_path, "max_gpu_path", raw->max_gpu_path, err);
	if (e == 0)
		e = read_words(raw, err);
	if (e == 0)
		e = read_guest(raw, err);
	if (e == 0)
		e = read_vf(r, raw->vf, err);
	if (e == 0)
		e = read_models(r, raw->model, raw->models, err);
	if (e == 0)
		e = read_gdr(r, raw->gdr, err);
	if (e == 0)
		e = check_name("name", r->name, err);
	if (e == 0)
		e = check_name("tenant", r->tenant, err);
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
	if (e == 0)
		e = plan_seed_read(&r->seed, &raw->seed, &r->arena, err);
	return e == 0 ? check_whole(r, err) : e;
}

int plan_request_read(struct plan_request *ret, json_object *obj, struct error *err)
{
	static char none[] = "";
	struct raw raw = { .r = {
		.name = none, .tenant = none, .kernel = none, .initrd = none, .cmdline = none, .disk = none,
		.vcpus = 1, .memory = 512 * MIB, .numa_node = -1, .max_path = TOPO_SYS, .max_gpu_path = TOPO_UNKNOWN,
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

static void add_models(struct json_out *o, const struct plan_request *r)
{
	json_object *a = r->nmodels > 1 ? json_object_new_array() : NULL;
	struct arena arena = { 0 };

	for (size_t i = 0; i < r->nmodels; i++) {
		const struct plan_model *m = &r->model[i];
		const char *text = *m->name ? m->name : m->device_mask ? arena_printf(&arena, "%04x:%04x", m->vendor, m->device)
						  : arena_printf(&arena, "%04x:*", m->vendor);

		o->failed = o->failed || !text;
		if (r->nmodels > 1)
			json_append(o, a, text ? json_object_new_string(text) : NULL);
		else
			json_add_string(o, "model", text);
	}
	if (r->nmodels > 1)
		json_add_made(o, "models", a);
	arena_done(&arena);
}

/* What is as by default is left out. */
static void add_wishes(struct json_out *o, const struct plan_request *r)
{
	if (r->max_gpu_path != TOPO_UNKNOWN)
		json_add_string(o, "max_gpu_path", topo_class_text(r->max_gpu_path));
	if (r->min_bandwidth)
		json_add_uint(o, "min_bandwidth", r->min_bandwidth);
	if (r->loose)
		json_add_string(o, "policy", policy_names[1]);
	if (r->spread_pf)
		json_add_string(o, "spread", "pf");
	if (r->rails)
		json_add_bool(o, "rails", true);
	if (r->nvme)
		json_add_uint(o, "nvme", r->nvme);
	if (r->exclusive)
		json_add_bool(o, "exclusive", true);
	if (r->hugepages)
		json_add_uint(o, "hugepages", r->hugepages);
	if (r->cells)
		json_add_uint(o, "cells", r->cells);
	if (*r->tenant)
		json_add_string(o, "tenant", r->tenant);
	add_models(o, r);
}

static void add_guest(struct json_out *o, const struct plan_request *r)
{
	json_object *a = r->nvf_sets > 1 ? json_object_new_array() : NULL;

	for (size_t i = 0; i < r->nvf_sets; i++) {
		json_object *vf = plan_vf_json(&r->vf[i]);

		if (r->nvf_sets == 1)
			json_add_made(o, "vf", vf);
		else
			json_append(o, a, vf);
	}
	if (r->nvf_sets > 1)
		json_add_made(o, "vf", a);
	if (r->mtu)
		json_add_uint(o, "mtu", r->mtu);
	if (r->root_ports)
		json_add_string(o, "pcie", pcie_names[1]);
	if (r->uefi)
		json_add_string(o, "firmware", firmware_names[1]);
	if (r->secure_boot)
		json_add_bool(o, "secure_boot", true);
	if (r->tpm)
		json_add_bool(o, "tpm", true);
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
	add_wishes(&o, r);
	add_guest(&o, r);
	add_list(&o, "require", r->require, r->nrequire);
	add_list(&o, "exclude", r->exclude, r->nexclude);
	add_boot(&o, r);
	plan_seed_add(&o, &r->seed);
	return json_finish(&o);
}
