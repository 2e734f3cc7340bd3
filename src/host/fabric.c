/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NVIDIA Fabric Manager: what its configuration file says, whether its socket is there, and the partitions that
 * fmpm lists (github.com/NVIDIA/Fabric-Manager-Client). GPUs stand there by NVML's module id, which is no PCI
 * order; Fabric Manager gives the BDF only of GPUs that it can see itself. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
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

static int read_settings(struct inventory *inv, struct host_root *root)
{
	char *text = NULL, *line;
	int r;

	inv->system.fabric = (struct host_fabric){ .mode = -1, .command_socket = "", .socket = "", .command_socket_there = -1 };
	r = host_read_all(root, &text, &inv->arena, CONFIG);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	inv->system.fabric.configured = true;
	while ((line = strsep(&text, "\n")))
		read_setting(inv, line);
	return 0;
}

static int read_config(struct inventory *inv, struct host_root *root)
{
	struct host_fabric *f = &inv->system.fabric;
	int r = read_settings(inv, root);

	if (r < 0 || !f->configured)
		return r;
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

/* verb: "-l"; or with the number of a partition "-a", "-d". */
static int run(char **ret, const char *tool, const char *socket, const char *verb, const char *number, unsigned timeout_ms)
{
	char by_socket[] = "--unix-domain-socket";
	char *argv[6] = { NULL };
	size_t n = 0;

	argv[n++] = (char *)(uintptr_t)tool; /* execve(2) does not write to them, its prototype only cannot say so */
	argv[n++] = (char *)(uintptr_t)verb;
	if (number)
		argv[n++] = (char *)(uintptr_t)number;
	if (*socket) {
		argv[n++] = by_socket;
		argv[n++] = (char *)(uintptr_t)socket;
	}
	return child_output(ret, argv, ANSWER_MAX, timeout_ms);
}

/* fmpm needs root: where this process is not, another has run it. */
static int list(char **ret, struct answers *a, const char *tool, const char *socket)
{
	autoclose int fd = host_root_ask(a->root, HOST_ASK_PARTITIONS);
	size_t len;

	if (fd == -ENOSYS)
		return run(ret, tool, socket, "-l", NULL, ANSWER_MS);
	return fd < 0 ? fd : file_read_fd(ret, &len, fd, ANSWER_MAX);
}

void fmpm_ask(struct answers *a, const char *tool, const char *socket)
{
	autofree char *text = NULL;

	if (list(&text, a, tool, socket) == 0)
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
static const char *get_partition(struct arena *arena, struct host_partition *ret, json_object *o)
{
	json_object *gpus = get_array(o, "gpuInfo");
	unsigned active = 0, count = 0;

	if (!get_uint(&ret->id, o, "partitionId", INT32_MAX) || !get_uint(&active, o, "isActive", 1) || !gpus)
		return "a partition without partitionId, isActive (0 or 1) or gpuInfo";
	ret->active = active;
	ret->ngpus = json_object_array_length(gpus);
	if (!get_uint(&count, o, "numGpus", MODULE_MAX) || count != ret->ngpus)
		return "numGpus is not the number of GPUs listed";
	ret->gpu = arena_array(arena, ret->ngpus ? ret->ngpus : 1, sizeof(*ret->gpu));
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

/* NULL, or what is wrong with it; then there are none. */
static const char *take_partitions(struct host_fabric *f, struct arena *arena, json_object *doc)
{
	json_object *list = get_array(doc, "partitionInfo");
	size_t n = list ? json_object_array_length(list) : 0;
	const char *wrong = list ? NULL : "there is no partitionInfo in it";

	f->partition = arena_array(arena, n ? n : 1, sizeof(*f->partition));
	if (!f->partition)
		return "no memory";
	for (size_t i = 0; i < n && !wrong; i++) {
		wrong = get_partition(arena, &f->partition[i], json_object_array_get_idx(list, i));
		for (size_t k = 0; k < i && !wrong; k++)
			if (f->partition[k].id == f->partition[i].id)
				wrong = "a partitionId stands twice";
	}
	f->npartitions = wrong ? 0 : n;
	if (!wrong && !consistent(f))
		wrong = "its module ids contradict each other";
	if (wrong)
		f->npartitions = 0;
	f->partitions_known = !wrong;
	return wrong;
}

static const char *parse(struct host_fabric *f, struct arena *arena, const char *text)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;

	if (json_parse(&doc, text, strlen(text), ANSWER_MAX, &err) < 0)
		return arena_strdup(arena, err.text);
	return take_partitions(f, arena, doc);
}

static int read_partitions(struct inventory *inv, struct answers *answers)
{
	const char *wrong;
	char *text = NULL;
	int r = answer_read(answers, &text, &inv->arena, "answers/fmpm/partitions");

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	wrong = parse(&inv->system.fabric, &inv->arena, text);
	return wrong ? broken(inv, wrong) : 0;
}

int host_fabric_read(struct inventory *inv, struct host_root *root, struct answers *answers, const char *fmpm)
{
	struct host_fabric *f = &inv->system.fabric;
	int r = read_config(inv, root);

	if (r < 0)
		return r;
	if (answers->text && f->mode > 0 && *fmpm)
		fmpm_ask(answers, fmpm, f->command_socket);
	return read_partitions(inv, answers);
}

static int failed(int r, const char *fmpm, const char *verb, const char *number, struct error *err)
{
	const char *why = r == -EREMOTEIO ? "it failed; run it by hand to see why" : r == -ETIMEDOUT ? "it did not end in time" : strerror(-r);

	return error_set(err, r == -ETIMEDOUT ? r : -EIO, "%s %s%s%s: %s", fmpm, verb, number ? " " : "", number ? number : "", why);
}

int host_fabric_do(struct host_fabric *ret, struct arena *arena, struct host_root *root, const char *fmpm, const char *verb,
		   const char *number, unsigned timeout_ms, struct error *err)
{
	struct inventory scratch = { .arena = *arena };
	struct host_fabric *f = &scratch.system.fabric;
	autofree char *text = NULL;
	const char *wrong = NULL;
	int r = read_settings(&scratch, root);

	if (r == 0 && !f->configured)
		r = error_set(err, -ENODEV, "there is no Fabric Manager here: no /" CONFIG);
	else if (r < 0)
		r = error_set(err, r, "no memory for Fabric Manager's configuration");
	if (r == 0) {
		r = run(&text, fmpm, f->command_socket, verb, number, timeout_ms);
		r = r < 0 ? failed(r, fmpm, verb, number, err) : 0;
	}
	if (r == 0 && ret)
		wrong = parse(f, &scratch.arena, text);
	if (wrong)
		r = error_set(err, -EIO, "%s %s: the answer cannot be used: %s", fmpm, verb, wrong);
	*arena = scratch.arena;
	if (r == 0 && ret)
		*ret = *f;
	return r;
}

int host_fabric_list(char **ret, struct host_root *root, const char *fmpm, struct error *err)
{
	struct inventory scratch = { 0 };
	int r = read_settings(&scratch, root);

	if (r == 0 && (!scratch.system.fabric.configured || !*fmpm))
		r = -ENODEV;
	if (r == 0)
		r = run(ret, fmpm, scratch.system.fabric.command_socket, "-l", NULL, ANSWER_MS);
	arena_done(&scratch.arena);
	return r < 0 ? failed(r, fmpm, "-l", NULL, err) : 0;
}

int host_fabric_module(const struct host_fabric *f, struct bdf gpu)
{
	for (size_t p = 0; p < f->npartitions; p++)
		for (size_t i = 0; i < f->partition[p].ngpus; i++)
			if (!bdf_is_none(gpu) && bdf_eq(f->partition[p].gpu[i].bdf, gpu))
				return (int)f->partition[p].gpu[i].module;
	return -1;
}
