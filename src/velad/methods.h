/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/methods — the API's handlers: the only place where HTTP and the domain meet. */

#include <stdint.h>

#include "api/method.h"
#include "velad/current.h"

struct error;
struct manager;
struct plan;
struct plan_request;

/* Ended by method NULL; self of each handler is a struct manager. */
extern const struct api_route velad_routes[];
extern const struct api_batch methods_batch; /* likewise */

/* The generation of the topology as ETag of a document that was made from it. */
void methods_tag(struct manager *m, struct api_response *res);
/* current_catch_up() for a request: API_WAIT while that takes, and -ETIMEDOUT once it has waited long enough. methods_read(): what came of
 * another call of velad/current. */
int methods_catch_up(struct manager *m, enum current_need need, const struct api_request *req, struct api_response *res, struct error *err);
int methods_read(struct manager *m, int r, const struct api_request *req, struct api_response *res, struct error *err);
/* Whether If-Match names the topology of now. -EREMCHG. */
int methods_match(struct manager *m, const struct api_request *req, struct error *err);
/* What is begun next with the instance of the path is begun only if If-Match names its generation. -EREMCHG, -ENOENT. */
int methods_expect(struct manager *m, const struct api_request *req, struct error *err);
/* Domains are written for the type that libvirt has. API_WAIT: it was not asked yet; the request waits. */
int methods_ask_libvirt(struct manager *m, const struct api_request *req, struct api_response *res, struct error *err);
/* What a plan that fits becomes for the guest with this uuid: addresses, domain XML, NCCL's file, seed, rank map. -ENOSPC, with
 * reasons: it does not fit. */
int methods_guest(struct manager *m, struct plan *plan, const struct plan_request *request, const char *uuid, struct api_response *res,
		  struct error *err);
void methods_location(struct api_response *res, uint64_t op);
/* The answer to what velad accepted: 202, and the operation. */
int methods_operation(struct manager *m, struct api_response *res, uint64_t op, struct error *err);
