/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/methods — the API's handlers: the only place where HTTP and the domain meet. */

#include <stdint.h>

#include "api/method.h"

struct error;
struct manager;

/* Ended by method NULL; self of each handler is a struct manager. */
extern const struct api_route velad_routes[];

/* The generation of the topology as ETag of a document that was made from it. */
void methods_tag(struct manager *m, struct api_response *res);
/* Whether If-Match names the topology of now. -EREMCHG. */
int methods_match(struct manager *m, const struct api_request *req, struct error *err);
/* What is begun next with the instance of the path is begun only if If-Match names its generation. -EREMCHG, -ENOENT. */
int methods_expect(struct manager *m, const struct api_request *req, struct error *err);
void methods_location(struct api_response *res, uint64_t op);
/* The answer to what velad accepted: 202, and the operation. */
int methods_operation(struct manager *m, struct api_response *res, uint64_t op, struct error *err);
