/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/image — disk images, which guests' disks are overlays of. An image is held as an instance holds a device, by a row that is
 * no guest ("image NAME") and has one step: so adding and deleting are operations, and a crash is undone, as with guests. */

#include <stddef.h>
#include <stdint.h>

#include "instance/instance.h"

struct arena;
struct error;
struct json_object;
struct plan;
struct rows_instance;
struct store_tx;

struct inst_image { /* strings are in the arena */
	const char     *name, *error; /* error: NULL none */
	enum inst_state state;        /* running: it can be used */
	int64_t         created;
	uint64_t        operation;
	struct act_image facts;       /* zeros until it can be used */
};

struct inst_image_request {
	const char *name, *file;     /* file: in the directory for new images */
	const char *format, *sha256; /* NULL: not said */
};

/* {"name", "file", "format", "sha256"}; strings are in the arena. -EINVAL names the key. */
int inst_image_request_read(struct inst_image_request *ret, struct json_object *obj, struct arena *arena, struct error *err);
/* As inst_create() and inst_delete(). -EBUSY: a guest has a disk over it. */
int inst_image_add(struct inst_manager *m, uint64_t *ret_op, const struct inst_image_request *request, struct error *err);
int inst_image_delete(struct inst_manager *m, uint64_t *ret_op, const char *name, struct error *err);
int inst_image_json(struct inst_manager *m, struct json_object **ret, const char *name, struct error *err);
int inst_image_list_json(struct inst_manager *m, struct json_object **ret, struct error *err);
/* Of one that can be used. -ENOENT: there is none; -EBUSY: it is not ready. */
int inst_image_facts(struct inst_manager *m, struct act_image *ret, const char *name, struct error *err);

/* ---- within the room ---- */

/* What a step "disk" makes: "IMAGE SIZE", "IMAGE" or "SIZE" (plan/plan.h). */
struct image_disk {
	char     image[48]; /* "" none */
	uint64_t size;      /* 0: as the image */
};
int image_disk_read(struct image_disk *ret, const char *to, struct error *err);
/* As inst_image_facts(). */
int image_ready(struct store_tx *tx, struct act_image *ret, const char *name, struct error *err);
int image_check_plan(struct store_tx *tx, const struct plan *plan, struct error *err); /* of all its disks */
int image_keep(struct store_tx *tx, const char *holder, const struct act_image *facts, struct error *err);
