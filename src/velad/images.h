/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/images — images as methods, and where the files of a guest will be. */

#include "api/method.h"

struct guest_dirs;
struct manager;
struct plan_request;

/* -ENOENT: there is no such image; -EBUSY: it is not ready; -EINVAL: the disk would be smaller than it. */
int images_dirs(struct manager *m, struct guest_dirs *ret, const struct plan_request *r, struct error *err);

int images_list(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int images_post(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int images_get(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int images_delete(void *self, const struct api_request *req, struct api_response *res, struct error *err);
