/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/pool — [pool] of velad.conf: which NIC ports get VFs, and which devices go to vfio-pci, when velad starts and not when a
 * guest does; and the steps to that. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/bdf.h"
#include "host/kind.h"
#include "plan/plan.h"

struct conf;
struct error;
struct json_object;

#define PLAN_POOL_WORDS_MAX 64
#define PLAN_POOL_VFS_MAX   256
#define PLAN_POOL_GROUP     1000 /* steps of one group have numbers GROUP * n to GROUP * n + GROUP - 1, in their order */

struct plan_pool_word {
	enum { PLAN_POOL_ALL, PLAN_POOL_KIND, PLAN_POOL_BDF, PLAN_POOL_RAIL, PLAN_POOL_MODEL } what;
	enum host_kind    kind;
	struct bdf        bdf;
	int32_t           rail;
	struct plan_model model;
	uint16_t          vfs; /* of vfs: how many */
};

struct plan_pool_conf {
	struct plan_pool_word vfs[PLAN_POOL_WORDS_MAX], bind[PLAN_POOL_WORDS_MAX];
	size_t                nvfs, nbind;
	bool                  on_demand; /* a guest may make VFs of a port that has none */
};

/* -EINVAL names the line. */
int plan_pool_load(struct plan_pool_conf *ret, const struct conf *conf, struct error *err);

struct plan_pool_in {
	const struct topo           *topo;
	const struct plan_pool_conf *conf;
	const struct plan_policy    *policy; /* for names of models */
	const struct plan_sick      *sick;
	size_t                       nsick;
};

struct plan_pool {
	struct arena      arena;
	struct plan_step *step;
	int64_t          *number; /* of each step: those of a group depend on each other, groups on the first only, which is the module */
	size_t            n;
	struct plan_pool_skip { struct bdf bdf; const char *why; } *skip; /* what is wanted and cannot be, or not so */
	size_t            nskips;
};

/* All that is wanted has its steps, also what is so already. -ENOMEM. */
int plan_pool_make(struct plan_pool **ret, const struct plan_pool_in *in, struct error *err);
struct plan_pool *plan_pool_free(struct plan_pool *p); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct plan_pool *, plan_pool_free);
/* Whether the topology that it was made of is as the steps want it. What a topology does not say (autoprobe) does not count. */
bool plan_pool_is_so(const struct plan_pool *p);

/* {"steps", "skipped", "vfs_on_demand", "held", "error", "operation"}; docs/openapi.json. held is taken; NULL, and operation 0: not
 * known, for there is no velad. NULL: no memory. */
struct json_object *plan_pool_json(const struct plan_pool *p, const struct plan_pool_conf *conf, struct json_object *held, const char *error,
				   uint64_t operation);
