/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/plans — plans and leases of them: from a request to a plan of this moment, whose devices were read before it is
 * believed; its handlers, and what creating an instance needs of it. */

#include <stddef.h>

#include "api/method.h"
#include "plan/request.h"

struct arena;
struct lease;
struct manager;
struct plan;
struct plan_taken;

/* A plan of now. except: a bundle of a lease whose devices are free to it; NULL: none. -ESTALE: the machine does not
 * keep still. */
int plans_make(struct manager *m, struct plan **ret, const struct plan_request *request, const struct lease *except,
	       size_t bundle, struct error *err);
/* One of what the instance of that name has, whose devices, CPUs and memory are free to it. */
int plans_remake(struct manager *m, struct plan **ret, const struct plan_request *request, struct error *err);
/* Devices that instances or leases hold. */
int plans_taken(struct manager *m, const struct plan_taken **ret, size_t *n, struct arena *arena, struct error *err);

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
