/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/life — the API's handlers for what happens to instances and devices between create and delete. */

#include "api/method.h"

int life_start(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int life_stop(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int life_reboot(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int life_reset(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int life_get_quarantine(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int life_post_quarantine(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int life_delete_quarantine(void *self, const struct api_request *req, struct api_response *res, struct error *err);
