/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/image.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/state.h"
#include "instance/store.h"
#include "plan/plan.h"

#define HOLDER     "image " /* before the name */
#define HOLDER_MAX (sizeof(HOLDER) + PLAN_IMAGE_NAME_MAX)

static const char *holder_of(char buf[HOLDER_MAX], const char *name)
{
	(void)snprintf(buf, HOLDER_MAX, HOLDER "%s", name);
	return buf;
}

int image_disk_read(struct image_disk *ret, const char *to, struct error *err)
{
	size_t n = strcspn(to, " "), len = strlen(to);
	bool no_image = !to[n] && len && isupper((unsigned char)to[len - 1]); /* no image's name has capitals */
	const char *size = no_image ? to : to[n] ? to + n + 1 : NULL;

	*ret = (struct image_disk){ 0 };
	if (n >= sizeof(ret->image) || (size && parse_size(&ret->size, size) < 0))
		return error_set(err, -EINVAL, "\"%.80s\" is no disk", to);
	if (!no_image)
		(void)snprintf(ret->image, sizeof(ret->image), "%.*s", (int)n, to);
	return 0;
}

/* ---- rows -------------------------------------------------------------------------------------------- */

#define SELECT_IMAGE "SELECT substr(instance.name, 7), instance.error, instance.state, instance.created, instance.operation, image.format," \
		     " image.size, image.virtual_size, image.mtime, image.sha256 FROM instance LEFT JOIN image ON image.instance = instance.name "

static int read_image(struct inst_image *ret, struct store_rows *q, struct arena *arena, struct error *err)
{
	int state = inst_state_parse(store_text(q, 2));

	if (state < 0)
		return error_set(err, -EBADMSG, "the store has image %s in the unknown state \"%s\"", store_text(q, 0), store_text(q, 2));
	*ret = (struct inst_image){
		.name = arena_strdup(arena, store_text(q, 0)),
		.error = store_null(q, 1) ? NULL : arena_strdup(arena, store_text(q, 1)),
		.state = (enum inst_state)state,
		.created = store_int(q, 3),
		.operation = (uint64_t)store_int(q, 4),
		.facts = { .format = strcmp(store_text(q, 5), "qcow2") == 0 ? ACT_QCOW2 : ACT_RAW, .size = (uint64_t)store_int(q, 6),
			   .virtual_size = (uint64_t)store_int(q, 7), .mtime = store_int(q, 8) },
	};
	(void)snprintf(ret->facts.sha256, sizeof(ret->facts.sha256), "%s", store_text(q, 9));
	return ret->name && (store_null(q, 1) || ret->error) ? 0 : error_set(err, -ENOMEM, "no memory for an image");
}

/* 1: it is there */
static int find(struct store_tx *tx, struct inst_image *ret, const char *name, struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	char holder[HOLDER_MAX];
	int r = store_query(tx, &q, SELECT_IMAGE "WHERE instance.name = ?", ARGS(ARG_TEXT(holder_of(holder, name))), err);

	if (r == 0)
		r = store_next(q, err);
	if (r <= 0)
		return r;
	r = read_image(ret, q, arena, err);
	return r < 0 ? r : 1;
}

static int none(const char *name, struct error *err)
{
	return error_set(err, -ENOENT, "there is no image %s; velactl images list shows what there is", name);
}

int image_ready(struct store_tx *tx, struct act_image *ret, const char *name, struct error *err)
{
	struct arena arena = { 0 };
	struct inst_image i = { 0 };
	int r = find(tx, &i, name, &arena, err);

	arena_done(&arena);
	if (r <= 0)
		return r < 0 ? r : none(name, err);
	if (i.state != INST_RUNNING)
		return error_set(err, -EBUSY, "image %s cannot be used: it is being added or deleted, or could not be added", name);
	*ret = i.facts;
	return 0;
}

int image_check_plan(struct store_tx *tx, const struct plan *plan, struct error *err)
{
	struct act_image facts;
	struct image_disk disk;
	int r = 0;

	for (size_t i = 0; i < plan->nsteps && r == 0; i++) {
		if (plan->step[i].kind != PLAN_STEP_DISK)
			continue;
		r = image_disk_read(&disk, plan->step[i].to, err);
		if (r == 0 && *disk.image)
			r = image_ready(tx, &facts, disk.image, err);
	}
	return r;
}

int image_keep(struct store_tx *tx, const char *holder, const struct act_image *f, struct error *err)
{
	return store_exec(tx, "INSERT OR REPLACE INTO image(instance, format, size, virtual_size, mtime, sha256) VALUES(?, ?, ?, ?, ?, ?)",
			  ARGS(ARG_TEXT(holder), ARG_TEXT(act_format_text(f->format)), ARG_INT((int64_t)f->size),
			       ARG_INT((int64_t)f->virtual_size), ARG_INT(f->mtime), ARG_TEXT(f->sha256)),
			  err);
}

int inst_image_facts(struct inst_manager *m, struct act_image *ret, const char *name, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	return r < 0 ? r : image_ready(tx, ret, name, err);
}

/* ---- adding ------------------------------------------------------------------------------------------ */

int inst_image_request_read(struct inst_image_request *ret, json_object *obj, struct arena *arena, struct error *err)
{
	static const struct json_field fields[] = {
		{ "name", JSON_STRING, offsetof(struct inst_image_request, name), .required = true, .min = 1, .max = 200 },
		{ "file", JSON_STRING, offsetof(struct inst_image_request, file), .required = true, .min = 1, .max = 255 },
		{ "format", JSON_STRING, offsetof(struct inst_image_request, format), .max = 16 },
		{ "sha256", JSON_STRING, offsetof(struct inst_image_request, sha256), .max = 80 },
		{ 0 },
	};
	int r = json_read(ret, fields, obj, "image", arena, err);

	if (r == 0)
		r = plan_image_name_check("image.name", ret->name, err);
	if (r < 0)
		return r;
	if (strchr(ret->file, '/') || ret->file[0] == '.')
		return error_set(err, -EINVAL, "image.file \"%.80s\" must be the name of a file in the directory for new images, without a path", ret->file);
	if (ret->format && strcmp(ret->format, "raw") != 0 && strcmp(ret->format, "qcow2") != 0)
		return error_set(err, -EINVAL, "image.format is \"%.20s\"; known are raw, qcow2", ret->format);
	if (ret->sha256 && (strlen(ret->sha256) != 64 || strspn(ret->sha256, "0123456789abcdef") != 64))
		return error_set(err, -EINVAL, "image.sha256 must be 64 digits of 0-9 and a-f, as sha256sum(1) prints them");
	return 0;
}

static int begin_add(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	const struct inst_image_request *req = arg;
	struct rows_instance in = { .state = INST_PLANNED, .created = time(NULL), .request = "{}", .plan = "{}" };
	struct rows_step step = { .kind = PLAN_STEP_IMAGE, .target = req->name, .from = "absent", .state = STEP_PENDING };
	struct inst_image there;
	char holder[HOLDER_MAX];
	int r = find(tx, &there, req->name, arena, err);

	if (r > 0)
		return error_set(err, -EEXIST, "there is an image %s already; choose another name, or delete it first", req->name);
	in.name = in.uuid = holder_of(holder, req->name);
	step.to = arena_printf(arena, "%s %s %s", req->format ? req->format : "-", req->sha256 ? req->sha256 : "-", req->file);
	if (r == 0 && !step.to)
		r = error_set(err, -ENOMEM, "no memory for image %s", req->name);
	if (r == 0)
		r = manager_check_queue(tx, err);
	if (r == 0)
		r = op_add(tx, &in.operation, OP_IMAGE_ADD, in.name, in.created, err);
	if (r == 0)
		r = rows_instance_add(tx, &in, err);
	if (r == 0)
		r = rows_step_add(tx, in.name, &step, err);
	*ret_op = in.operation;
	return r;
}

int inst_image_add(struct inst_manager *m, uint64_t *ret_op, const struct inst_image_request *request, struct error *err)
{
	return manager_begin(m, ret_op, begin_add, request, err);
}

/* ---- deleting ---------------------------------------------------------------------------------------- */

/* Instances with a disk over it, also those whose create still waits. */
#define SELECT_USERS "SELECT step.instance FROM step JOIN instance ON instance.name = step.instance WHERE step.kind = 'disk'" \
		     " AND (step.wanted = ?1 OR substr(step.wanted, 1, length(?1) + 1) = ?1 || ' ')" \
		     " AND " ROWS_STEP_HOLDS " ORDER BY step.instance"

static int check_unused(struct store_tx *tx, const char *name, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, SELECT_USERS, ARGS(ARG_TEXT(name)), err);

	if (r == 0)
		r = store_next(q, err);
	return r <= 0 ? r : error_set(err, -EBUSY, "image %s is below the disk of instance %s; delete that first", name, store_text(q, 0));
}

static int begin_delete(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err)
{
	struct rows_instance *in = NULL;
	const char *name = arg;
	char holder[HOLDER_MAX];
	int r = rows_instance_find(tx, &in, holder_of(holder, name), arena, err);

	if (r == 0 && !in)
		return none(name, err);
	if (r == 0)
		r = manager_check_idle(tx, in, arena, err);
	if (r == 0)
		r = check_unused(tx, name, err);
	if (r == 0)
		r = manager_check_queue(tx, err);
	if (r == 0)
		r = op_add(tx, ret_op, OP_IMAGE_DELETE, holder, time(NULL), err);
	if (r == 0)
		r = rows_instance_operation(tx, holder, *ret_op, err);
	return r < 0 ? r : inst_enter(tx, in, INST_DELETING, NULL, err);
}

int inst_image_delete(struct inst_manager *m, uint64_t *ret_op, const char *name, struct error *err)
{
	int r = plan_image_name_check("image", name, err);

	return r < 0 ? error_set(err, -ENOENT, "there is no image \"%.60s\"", name) : manager_begin(m, ret_op, begin_delete, name, err);
}

/* ---- as JSON ----------------------------------------------------------------------------------------- */

static const char *state_text(enum inst_state s)
{
	return s == INST_RUNNING ? "ready" : s == INST_DELETING ? "deleting" : s == INST_FAILED ? "failed" : "adding";
}

static void add_size(struct json_out *o, const char *key, bool known, uint64_t size)
{
	json_add(o, key, known ? json_object_new_uint64(size) : NULL);
}

static int add_image(struct json_out *all, json_object *list, struct store_tx *tx, const struct inst_image *i, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	json_object *users = json_object_new_array();
	struct json_out o = json_out_new();
	bool known = *i->facts.sha256;
	int r;

	json_add_string(&o, "name", i->name);
	json_add_string(&o, "state", state_text(i->state));
	json_add_string(&o, "error", i->error);
	json_add_string(&o, "format", known ? act_format_text(i->facts.format) : NULL);
	add_size(&o, "size", known, i->facts.size);
	add_size(&o, "virtual_size", known, i->facts.virtual_size);
	json_add_string(&o, "sha256", known ? i->facts.sha256 : NULL);
	json_add_time(&o, "created", i->created);
	json_add_uint(&o, "operation", i->operation);
	r = store_query(tx, &q, SELECT_USERS, ARGS(ARG_TEXT(i->name)), err);
	while (r == 0 && (r = store_next(q, err)) > 0) {
		json_append(&o, users, json_object_new_string(store_text(q, 0)));
		r = 0;
	}
	json_add_made(&o, "instances", users);
	json_append_out(all, list, &o);
	return r;
}

/* name NULL: all */
static int images(struct inst_manager *m, json_object **ret, const char *name, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL; /* goes before tx does */
	json_object *list = json_object_new_array();
	struct json_out all = { .obj = list, .failed = !list };
	struct arena arena = { 0 };
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = store_query(tx, &q, SELECT_IMAGE "WHERE substr(instance.name, 1, 6) = 'image ' AND (?1 IS NULL OR substr(instance.name, 7) = ?1)"
				" ORDER BY instance.name", ARGS(ARG_TEXT(name)), err);
	while (r == 0 && (r = store_next(q, err)) > 0) {
		struct inst_image i;

		r = read_image(&i, q, &arena, err);
		if (r == 0)
			r = add_image(&all, list, tx, &i, err);
	}
	arena_done(&arena);
	list = json_finish(&all);
	if (r == 0 && !list)
		r = error_set(err, -ENOMEM, "no memory for an answer");
	if (r < 0)
		json_object_put(list);
	else
		*ret = list;
	return r;
}

int inst_image_json(struct inst_manager *m, json_object **ret, const char *name, struct error *err)
{
	auto_(json_object_put) json_object *list = NULL;
	int r = images(m, &list, name, err);

	if (r == 0 && json_object_array_length(list) == 0)
		return none(name, err);
	if (r == 0)
		*ret = json_object_get(json_object_array_get_idx(list, 0));
	return r;
}

int inst_image_list_json(struct inst_manager *m, json_object **ret, struct error *err)
{
	struct json_out o = json_out_new();
	json_object *list = NULL;
	int r = images(m, &list, NULL, err);

	if (r == 0)
		json_add_made(&o, "images", list);
	*ret = json_finish(&o);
	return r < 0 ? r : *ret ? 0 : error_set(err, -ENOMEM, "no memory for an answer");
}
