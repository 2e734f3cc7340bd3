/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/acs — the ACS plan of the host: its handlers. */

#include "api/method.h"

int acs_get(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int acs_get_exclusive(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int acs_post_apply(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int acs_post_restore(void *self, const struct api_request *req, struct api_response *res, struct error *err);
