/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NVIDIA Fabric Manager: what its configuration file says, whether its socket is there, and the partitions that
 * fmpm lists (github.com/NVIDIA/Fabric-Manager-Client). GPUs stand there by NVML's module id, which is no PCI
 * order; Fabric Manager gives the BDF only of GPUs that it can see itself. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "host/answer.h"
#include "host/child.h"
#include "host/read.h"

#define CONFIG     "usr/share/nvidia/nvswitch/fabricmanager.cfg"
#define ANSWER_MAX (1024 * 1024)
#define MODULE_MAX 1023

static int broken(struct inventory *inv, const char *what)
{
	inv->system.fabric.partitions_known = false;
	inv->system.fabric.npartitions = 0;
	return host_finding_add(inv, "fabric.answer-broken", BDF_NONE,
				"the partition list of Fabric Manager cannot be used: %s", what);
}

/* ---- the configuration file ---------------------------------------------------------------------- */

static void read_setting(struct inventory *inv, char *line)
{
	struct host_fabric *f = &inv->system.fabric;
	char *key = line + strspn(line, " \t"), *value = strchr(key, '=');
	uint64_t mode = 0;

	if (*key == '#' || !value)
		return;
	*value++ = '\0';
	key[strcspn(key, " \t")] = '\0';
	value += strspn(value, " \t");
	value[strcspn(value, " \t\r")] = '\0';
	if (strcmp(key, "FABRIC_MODE") == 0)
		f->mode = parse_uint(&mode, value, 10, 2) == 0 ? (int)mode : -1;
	else if (strcmp(key, "FM_CMD_UNIX_SOCKET_PATH") == 0)
		f->command_socket = host_text(inv, value);
	else if (strcmp(key, "UNIX_SOCKET_PATH") == 0)
		f->socket = host_text(inv, value);
}

/* A socket cannot be opened, ENXIO says that one is there (open(2)). In a text host it is a file. */
static int is_there(struct host_root *root, const char *path)
{
	char buf[16];
	int r;

	path += strspn(path, "/");
	if (!*path)
		return -1;
	r = host_read(root, buf, sizeof(buf), "%s", path);
	if (r == -ENXIO)
		host_record(root, path, "socket");
	return r == 0 || r == -ENXIO || r == -EFBIG ? 1 : r == -ENOENT ? 0 : -1;
}

static int read_config(struct inventory *inv, struct host_root *root)
{
	struct host_fabric *f = &inv->system.fabric;
	char *text = NULL, *line;
	int r = host_read_all(root, &text, &inv->arena, CONFIG);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	f->configured = true;
	while ((line = strsep(&text, "\n")))
		read_setting(inv, line);
	f->command_socket_there = is_there(root, f->command_socket);
	if (f->mode < 0)
		return host_finding_add(inv, "fabric.mode-unknown", BDF_NONE,
					"/" CONFIG
					" has no FABRIC_MODE of 0, 1 or 2: set it and restart nvidia-fabricmanager");
	if (f->mode > 0 && f->command_socket_there == 0)
		return host_finding_add(
			inv, "fabric.socket-missing", BDF_NONE,
			"Fabric Manager is set up with FABRIC_MODE=%d, but its socket %s is not there, so no "
			"partition can be activated: systemctl status nvidia-fabricmanager",
			f->mode, f->command_socket);
	return 0;
}

/* ---- the partitions ------------------------------------------------------------------------------ */

void fmpm_ask(struct answers *a, const char *tool, const char *socket)
{
	char list[] = "-l", by_socket[] = "--unix-domain-socket";
	char *argv[5] = { NULL, list };
	autofree char *text = NULL;

	argv[0] = (char *)(uintptr_t)tool; /* execve(2) does not write to them, its prototype only cannot say so */
	if (*socket) {
		argv[2] = by_socket;
		argv[3] = (char *)(uintptr_t)socket;
	}
	if (child_output(&text, argv, ANSWER_MAX, ANSWER_MS) == 0)
		answer_put(a, text, "answers/fmpm/partitions");
}

static bool get_uint(unsigned *ret, json_object *o, const char *key, unsigned max)
{
	json_object *v;
	int64_t n;

	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v) ||
	    !json_object_is_type(v, json_type_int))
		return false;
	n = json_object_get_int64(v);
	*ret = (unsigned)n;
	return n >= 0 && n <= max;
}

static json_object *get_array(json_object *o, const char *key)
{
	json_object *v;

	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &v) &&
			       json_object_is_type(v, json_type_array)
		       ? v
		       : NULL;
}

/* NVML writes "00000000:17:00.0"; "" where Fabric Manager does not see the GPU. */
static bool get_gpu(struct host_fabric_gpu *ret, json_object *o)
{
	const char *text = "";
	json_object *v;

	if (!get_uint(&ret->module, o, "physicalId", MODULE_MAX))
		return false;
	if (json_object_object_get_ex(o, "pciBusId", &v) && json_object_is_type(v, json_type_string))
		text = json_object_get_string(v);
	ret->bdf = BDF_NONE;
	return !*text || bdf_parse(&ret->bdf, text);
}

/* NULL, or what is wrong with it. */
static const char *get_partition(struct inventory *inv, struct host_partition *ret, json_object *o)
{
	json_object *gpus = get_array(o, "gpuInfo");
	unsigned active = 0, count = 0;

	if (!get_uint(&ret->id, o, "partitionId", INT32_MAX) || !get_uint(&active, o, "isActive", 1) || !gpus)
		return "a partition without partitionId, isActive (0 or 1) or gpuInfo";
	ret->active = active;
	ret->ngpus = json_object_array_length(gpus);
	if (!get_uint(&count, o, "numGpus", MODULE_MAX) || count != ret->ngpus)
		return "numGpus is not the number of GPUs listed";
	ret->gpu = arena_array(&inv->arena, ret->ngpus ? ret->ngpus : 1, sizeof(*ret->gpu));
	if (!ret->gpu)
		return "no memory";
	for (size_t i = 0; i < ret->ngpus; i++) {
		if (!get_gpu(&ret->gpu[i], json_object_array_get_idx(gpus, i)))
			return "a GPU without a physicalId, or with a pciBusId that is none";
		for (size_t k = 0; k < i; k++)
			if (ret->gpu[k].module == ret->gpu[i].module)
				return "a GPU stands twice in one partition";
	}
	return NULL;
}

/* A module id is one GPU, and a GPU has one module id, in all partitions. */
static bool consistent(const struct host_fabric *f)
{
	struct bdf of[MODULE_MAX + 1];

	for (size_t i = 0; i <= MODULE_MAX; i++)
		of[i] = BDF_NONE;
	for (size_t p = 0; p < f->npartitions; p++)
		for (size_t i = 0; i < f->partition[p].ngpus; i++) {
			const struct host_fabric_gpu *g = &f->partition[p].gpu[i];

			if (bdf_is_none(g->bdf))
				continue;
			if (!bdf_is_none(of[g->module]) && !bdf_eq(of[g->module], g->bdf))
				return false;
			of[g->module] = g->bdf;
		}
	for (size_t i = 0; i <= MODULE_MAX; i++)
		for (size_t k = 0; k < i && !bdf_is_none(of[i]); k++)
			if (bdf_eq(of[i], of[k]))
				return false;
	return true;
}

static int take_partitions(struct inventory *inv, json_object *doc)
{
	struct host_fabric *f = &inv->system.fabric;
	json_object *list = get_array(doc, "partitionInfo");
	size_t n = list ? json_object_array_length(list) : 0;
	const char *wrong;

	if (!list)
		return broken(inv, "there is no partitionInfo in it");
	f->partition = arena_array(&inv->arena, n ? n : 1, sizeof(*f->partition));
	if (!f->partition)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		wrong = get_partition(inv, &f->partition[i], json_object_array_get_idx(list, i));
		for (size_t k = 0; k < i && !wrong; k++)
			if (f->partition[k].id == f->partition[i].id)
				wrong = "a partitionId stands twice";
		if (wrong)
			return broken(inv, wrong);
	}
	f->npartitions = n;
	f->partitions_known = true;
	return consistent(f) ? 0 : broken(inv, "its module ids contradict each other");
}

static int read_partitions(struct inventory *inv, struct answers *answers)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	char *text = NULL;
	int r = answer_read(answers, &text, &inv->arena, "answers/fmpm/partitions");

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (json_parse(&doc, text, strlen(text), ANSWER_MAX, &err) < 0)
		return broken(inv, err.text);
	return take_partitions(inv, doc);
}

int host_fabric_read(struct inventory *inv, struct host_root *root, struct answers *answers, const char *fmpm)
{
	struct host_fabric *f = &inv->system.fabric;
	int r;

	*f = (struct host_fabric){ .mode = -1, .command_socket = "", .socket = "", .command_socket_there = -1 };
	r = read_config(inv, root);
	if (r < 0)
		return r;
	if (answers->text && f->mode > 0 && *fmpm)
		fmpm_ask(answers, fmpm, f->command_socket);
	return read_partitions(inv, answers);
}

int host_fabric_module(const struct host_fabric *f, struct bdf gpu)
{
	for (size_t p = 0; p < f->npartitions; p++)
		for (size_t i = 0; i < f->partition[p].ngpus; i++)
			if (!bdf_is_none(gpu) && bdf_eq(f->partition[p].gpu[i].bdf, gpu))
				return (int)f->partition[p].gpu[i].module;
	return -1;
}
