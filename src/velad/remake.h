/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/remake — the plan of an instance that is off, made anew for where its cards are now. */

#include "api/method.h"

struct error;
struct manager;
struct plan;

/* Of the instance of the path. *ret NULL: it is where it was planned; or there is no such instance, which who starts it says.
 * -ENOSPC: it does not fit there. */
int remake_plan(struct manager *m, struct plan **ret, const struct api_request *req, struct api_response *res, struct error *err);
/* Starts those that a boot of the host left for that; who cannot be started says why. */
void remake_start(struct manager *m);
