/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/metrics — GET /metrics: figures for Prometheus, in its text format 0.0.4. */

#include "api/method.h"

int metrics_get(void *self, const struct api_request *req, struct api_response *res, struct error *err);
