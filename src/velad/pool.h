/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/pool — the pool of velad.conf: made when velad starts, shown, given back; its handlers. */

#include "api/method.h"

struct manager;

/* Once the topology is there: begins what is to be done for the pool to be as velad.conf says, which may be nothing. What fails is
 * logged. */
void pool_begin(struct manager *m);
/* An operation has ended: if that was in the way, begins now. */
void pool_go_on(struct manager *m);

int pool_get(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int pool_post_apply(void *self, const struct api_request *req, struct api_response *res, struct error *err);
int pool_post_release(void *self, const struct api_request *req, struct api_response *res, struct error *err);
