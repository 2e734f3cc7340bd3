/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/images.h"

#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "guest/guest.h"
#include "instance/image.h"
#include "plan/request.h"
#include "velad/manager.h"
#include "velad/methods.h"

int images_dirs(struct manager *m, struct guest_dirs *ret, const struct plan_request *r, struct error *err)
{
	struct act_image facts = { 0 };
	int e = r->seed.image ? inst_image_facts(m->instances, &facts, r->seed.image, err) : 0;

	if (e < 0)
		return e;
	if (r->seed.disk_size && r->seed.disk_size < facts.virtual_size)
		return error_set(err, -EINVAL, "request.disk_size is %llu MiB, and image %s is a disk of %llu MiB",
				 (unsigned long long)r->seed.disk_size >> 20, r->seed.image, (unsigned long long)(facts.virtual_size + 0xfffff) >> 20);
	*ret = (struct guest_dirs){ .console = m->conf.console_dir, .images = m->conf.images_dir, .qemu = m->offer.qemu, .lacks = m->offer.lacks,
				    .image_format = r->seed.image ? act_format_text(facts.format) : NULL };
	return 0;
}

int images_list(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)req;
	return inst_image_list_json(((struct manager *)self)->instances, &res->body, err);
}

int images_get(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	return inst_image_json(((struct manager *)self)->instances, &res->body, req->param, err);
}

int images_post(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(json_object_put) json_object *body = NULL;
	struct inst_image_request image = { 0 };
	struct manager *m = self;
	struct arena arena = { 0 };
	uint64_t op = 0;
	int r = json_parse(&body, req->body, req->body_len, JSON_BYTES_MAX, err);

	if (r == 0)
		r = inst_image_request_read(&image, body, &arena, err);
	if (r == 0)
		r = inst_image_add(m->instances, &op, &image, err);
	arena_done(&arena);
	return r < 0 ? r : methods_operation(m, res, op, err);
}

int images_delete(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	uint64_t op = 0;
	int r = inst_image_delete(m->instances, &op, req->param, err);

	return r < 0 ? r : methods_operation(m, res, op, err);
}
