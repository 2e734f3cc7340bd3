/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/hold — what is done to the host for no guest in particular: ACS control that an operator applied, and the pool of
 * velad.conf. It is held as an instance holds it, by a row that is no guest: so originals, sharing, keeping and recovery are
 * those of instances. Of each kind at most one is in force; a new one takes over from it. */

#include <stdint.h>

#include "instance/op.h"

struct arena;
struct error;
struct inst_manager;
struct steps;
struct store_tx;

struct hold_kind {
	const char  *name; /* of its rows, with a number behind it */
	enum op_kind takes, gives;
	const char  *busy; /* what such an operation does */
};

/* Its steps are added by fn. -EBUSY: one of these operations waits or runs. */
typedef int hold_add_fn(struct store_tx *tx, const char *name, const void *arg, struct error *err);
int hold_begin(struct store_tx *tx, uint64_t *ret_op, const struct hold_kind *kind, hold_add_fn *fn, const void *arg, struct error *err);
int hold_begin_restore(struct store_tx *tx, uint64_t *ret_op, const struct hold_kind *kind, struct arena *arena, struct error *err);

/* Gives back what all holders of its kind but that of these steps have, where nobody else has it. On a thread of the pool only. */
int hold_drop_others(struct inst_manager *m, const struct steps *mine, struct error *err);

/* src/instance/hold_pool.c: the steps of a pool, all groups at once; what fails of one is not in the way of the others. *failed: how
 * many did, *groups: of how many. The first failure. */
int hold_pool_apply(const struct steps *s, size_t *failed, size_t *groups, struct error *err);
