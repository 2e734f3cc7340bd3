/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/renew — a plan that a lease holds, made again of what is there now. It is carried out only as it was made. */

#include <stddef.h>

struct api_request;
struct api_response;
struct error;
struct lease;
struct manager;
struct plan;
struct plan_request;

/* CURRENT_WAIT: the machine is being read. -ESTALE: it cannot be had as it was; the answer's reasons say what is in the way, and what changed since. */
int renew_plan(struct manager *m, struct plan **ret, const struct plan_request *request, const struct lease *lease, size_t bundle,
	       const struct api_request *req, struct api_response *res, struct error *err);
