/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/plans — the API's handlers for plans and leases of them, and what creating an instance needs of these. */

#include <stddef.h>

#include "api/method.h"
#include "plan/request.h"

struct arena;
struct lease;
struct manager;
struct plan;
struct plan_taken;

struct plans_body {
	struct plan_request request; /* plan_request_done() */
	struct lease       *lease;   /* borrowed; NULL: there is none */
	size_t              bundle;  /* of it */
	bool                start;   /* the guest; else its devices are kept for it */
};

/* The body of POST /v1/instances: a request, or {"plan": ID, "bundle": N, "name", "boot"}, which becomes the leased
 * request with these; and "start" beside either. */
int plans_read(struct manager *m, struct plans_body *ret, const struct api_request *req, struct error *err);
/* An instance has it. */
void plans_used(struct manager *m, struct lease *lease, size_t bundle);

int plans_post(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int plans_list(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int plans_capacity(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int plans_get(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int plans_delete(void *self, const struct api_request *req, struct api_response *res, struct error *err);
