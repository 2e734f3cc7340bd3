/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/operations — operations over the API: their handlers, and Idempotency-Keys of the requests that begin them. */

#include "api/server.h"

extern const struct api_keys operations_keys;

int operations_get(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int operations_cancel(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int operations_list(void *self, const struct api_request *req, struct api_response *res, struct error *err);
