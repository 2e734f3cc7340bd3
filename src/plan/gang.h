/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/gang — several bundles at once, all or nothing. Pure.
 *
 * The first bundle gets the best that leaves something for each of the others, then the second, and so on: whatever way
 * there is to give all of them is found, also where the best for one alone would leave nothing for another. */

#include "plan/plan.h"

#define PLAN_GANG_MAX 16

struct plan_gang {
	bool         fits;
	struct plan *plan[PLAN_GANG_MAX]; /* owned; in the order of the requests. fits: no device in two; else each by itself */
	size_t       n;
	struct plan *all;                 /* owned; its reasons are those of the whole: no bundle, no steps */
};

/* in->request does not count. -ENOMEM, -ETIME: not decided, there are too many ways to look at. */
int plan_gang_make(struct plan_gang **ret, const struct plan_input *in, const struct plan_request *const *request, size_t n,
		   struct error *err);
struct plan_gang *plan_gang_free(struct plan_gang *g); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct plan_gang *, plan_gang_free);

/* {"fits", "generation", "reasons", "plans": [...]}; NULL: no memory. */
struct json_object *plan_gang_json(const struct plan_gang *g);
/* How many bundles of this request can be given at once, at most `most`; *left: GPUs that are free after that, by position
 * among the host's GPUs. The request asks for GPUs; memory and
 * CPUs do not count. */
int plan_gang_count(unsigned *ret, uint64_t *left, const struct plan_input *in, unsigned most, struct error *err);
