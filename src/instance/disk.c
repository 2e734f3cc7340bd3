/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Steps that make files: disks of guests, the seeds of cloud-init, images. What is there already is somebody else's, and refused:
 * so what a revert deletes is what its apply made. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "instance/image.h"
#include "instance/steps_own.h"
#include "instance/store.h"
#include "plan/seed.h"

#define FILE_NAME_MAX (PLAN_IMAGE_NAME_MAX + 16)

static int absent(const struct steps *s, struct seen *ret, const char *name, struct error *err)
{
	struct act_file now;
	int r = s->act.ops->file(s->act.self, &now, name, err);

	if (r == 0 && now.there)
		return error_set(err, -EEXIST, "there is a file %s already in the directory of images, which is not of this; take it away", name);
	ret->so = false;
	(void)snprintf(ret->value, sizeof(ret->value), "absent");
	return r;
}

/* A guest that was off has them from its first start: made once, they are there. A disk that is gone is not made again, for the next
 * one would be empty. */
static int made(const struct steps *s, struct seen *ret, const struct rows_step *step, bool precious, struct error *err)
{
	struct act_file now;
	int r = s->act.ops->file(s->act.self, &now, step->target, err);

	if (r == 0 && precious && !now.there)
		return error_set(err, -ENOENT, "the file %s, a disk of this guest, is gone from the directory of images; put it back, or delete "
				 "the instance", step->target);
	ret->so = r == 0 && now.there;
	(void)snprintf(ret->value, sizeof(ret->value), "absent"); /* as it was at first */
	return r;
}

static int revert_file(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	(void)original; /* always "absent" */
	return s->act.ops->file_drop(s->act.self, step->target, err);
}

static const char *image_file(char buf[FILE_NAME_MAX], const char *image)
{
	(void)snprintf(buf, FILE_NAME_MAX, "%s.image", image);
	return buf;
}

/* ---- disk -------------------------------------------------------------------------------------------- */

static int load_disk(const struct steps *s, struct steps_files *ret, const struct rows_step *step, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct image_disk disk;
	int r = image_disk_read(&disk, step->to, err);

	(void)arena; /* nothing but numbers */
	if (r < 0 || !*disk.image)
		return r;
	r = store_begin(&tx, s->store, err);
	return r < 0 ? r : image_ready(tx, &ret->image, disk.image, err);
}

/* Its sum was taken when it was added; that nobody wrote it since shows in its size and time. */
static int check_image(const struct steps *s, struct image_disk *disk, struct error *err)
{
	const struct act_image *facts = &s->files->image;
	char name[FILE_NAME_MAX];
	struct act_file now;
	int r = s->act.ops->file(s->act.self, &now, image_file(name, disk->image), err);

	if (r < 0)
		return r;
	if (!now.there)
		return error_set(err, -ENOENT, "the file of image %s is gone from the directory of images; delete the image, and add it again",
				 disk->image);
	if ((uint64_t)now.size != facts->size || now.mtime != facts->mtime)
		return error_set(err, -EBADMSG, "the file of image %s was written since it was added, and is not what was checked; delete "
				 "the image, and add it again", disk->image);
	if (!disk->size)
		disk->size = facts->virtual_size;
	if (disk->size < facts->virtual_size)
		return error_set(err, -EINVAL, "image %s is a disk of %llu MiB; disk_size must be as much at least", disk->image,
				 (unsigned long long)(facts->virtual_size + 0xfffff) >> 20);
	return 0;
}

static int read_disk(const struct steps *s, struct image_disk *disk, const struct rows_step *step, struct error *err)
{
	int r = image_disk_read(disk, step->to, err);

	return r == 0 && *disk->image ? check_image(s, disk, err) : r;
}

static int probe_disk(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	struct image_disk disk;
	int r = read_disk(s, &disk, step, err);

	if (r == 0 && step->state == STEP_DONE)
		return made(s, ret, step, true, err);
	return r < 0 ? r : absent(s, ret, step->target, err);
}

static int apply_disk(const struct steps *s, const struct rows_step *step, struct error *err)
{
	char below[FILE_NAME_MAX];
	struct act_disk make = { .name = step->target };
	struct image_disk disk;
	int r = read_disk(s, &disk, step, err);

	make.size = disk.size;
	if (*disk.image) {
		make.image = image_file(below, disk.image);
		make.format = act_format_text(s->files->image.format);
	}
	return r < 0 ? r : s->act.ops->disk_make(s->act.self, &make, err);
}

const struct step_kind step_disk = { probe_disk, apply_disk, revert_file, .load = load_disk };

/* ---- seed -------------------------------------------------------------------------------------------- */

static int find_instance(const struct steps *s, struct rows_instance **ret, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, s->store, err);

	if (r == 0)
		r = rows_instance_find(tx, ret, s->instance, arena, err);
	return r == 0 && !*ret ? error_set(err, -EBADMSG, "the store lost instance %s", s->instance) : r;
}

static int parse(json_object **ret, const char *text, struct error *err)
{
	return json_parse(ret, text, strlen(text), SIZE_MAX, err);
}

static int take(const char **ret, json_object *o, const char *key, bool needed, struct arena *arena, struct error *err)
{
	const char *text = json_object_get_string(json_object_object_get(o, key)); /* NULL of NULL */

	if (needed && !text)
		return error_set(err, -EBADMSG, "the store has a plan without a seed");
	*ret = text ? arena_strdup(arena, text) : NULL;
	return !text || *ret ? 0 : error_set(err, -ENOMEM, "no memory for a seed");
}

/* The tenant's texts are in the request, velad's in the plan. */
static int load_seed(const struct steps *s, struct steps_files *ret, const struct rows_step *step, struct arena *arena, struct error *err)
{
	auto_(json_object_put) json_object *request = NULL, *plan = NULL;
	struct rows_instance *in = NULL;
	struct act_seed *seed = &ret->seed;
	json_object *own = NULL;
	int r = find_instance(s, &in, arena, err);

	(void)step; /* there is one */
	if (r == 0)
		r = parse(&request, in->request, err);
	if (r == 0)
		r = parse(&plan, in->plan, err);
	if (r == 0)
		own = json_object_object_get(plan, "seed");
	if (r == 0)
		r = take(&seed->meta_data, own, "meta_data", true, arena, err);
	if (r == 0)
		r = take(&seed->vendor_data, own, "vendor_data", true, arena, err);
	if (r == 0)
		r = take(&seed->user_data, request, "user_data", false, arena, err);
	return r < 0 ? r : take(&seed->network, request, "network_config", false, arena, err);
}

static int probe_seed(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	bool mine = step->state == STEP_DONE || step->state == STEP_BEGUN; /* it is put there whole */

	return mine ? made(s, ret, step, false, err) : absent(s, ret, step->target, err);
}

static int apply_seed(const struct steps *s, const struct rows_step *step, struct error *err)
{
	return s->act.ops->seed_make(s->act.self, step->target, &s->files->seed, err);
}

const struct step_kind step_seed = { probe_seed, apply_seed, revert_file, .load = load_seed };

/* ---- image ------------------------------------------------------------------------------------------- */

static int probe_image(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	char name[FILE_NAME_MAX];

	return absent(s, ret, image_file(name, step->target), err);
}

/* to: "FORMAT SHA256 FILE", "-" for what was not said */
static int apply_image(const struct steps *s, const struct rows_step *step, struct error *err)
{
	char format[8] = "", sha256[65] = "", name[FILE_NAME_MAX];
	struct act_image_source from = { .format = format, .sha256 = sha256 };
	int at = 0;

	if (sscanf(step->to, "%7s %64s %n", format, sha256, &at) != 2 || !at || !step->to[at])
		return error_set(err, -EBADMSG, "\"%.100s\" is no file for an image", step->to);
	from.file = step->to + at;
	if (strcmp(format, "-") == 0)
		from.format = NULL;
	if (strcmp(sha256, "-") == 0)
		from.sha256 = NULL;
	return s->act.ops->image_make(s->act.self, &s->files->image, image_file(name, step->target), &from, err);
}

static int revert_image(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	char name[FILE_NAME_MAX];

	(void)original; /* always "absent" */
	return s->act.ops->file_drop(s->act.self, image_file(name, step->target), err);
}

const struct step_kind step_image = { probe_image, apply_image, revert_image };
