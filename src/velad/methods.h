/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/methods — the API's handlers: the only place where HTTP and the domain meet. */

#include <stdint.h>

#include "api/method.h"

struct error;
struct manager;

/* Ended by method NULL; self of each handler is a struct manager. */
extern const struct api_route velad_routes[];

/* The answer to what velad accepted: 202, and the operation. */
int methods_operation(struct manager *m, struct api_response *res, uint64_t op, struct error *err);
