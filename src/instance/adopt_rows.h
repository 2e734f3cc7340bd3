/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/adopt_rows — the SQL of instance/adopt. */

#include <stddef.h>

#include "base/bdf.h"

struct arena;
struct error;
struct inst_manager;
struct reconcile_decision;
struct reconcile_input;
struct store_tx;

/* The store's part of it. */
int adopt_rows_load(struct store_tx *tx, struct reconcile_input *ret, struct arena *arena, struct error *err);
/* Does what was decided, and commits it. */
int adopt_rows_apply(struct inst_manager *m, struct store_tx *tx, const struct reconcile_decision *d, size_t n, struct error *err);
struct inst_foreign;
int adopt_rows_foreign(struct store_tx *tx, struct inst_foreign **ret, size_t *n, struct arena *arena, struct error *err);
struct reconcile_device;
/* Those of one instance. */
int adopt_rows_devices(struct store_tx *tx, const struct reconcile_device **ret, size_t *n, const char *name, struct arena *arena, struct error *err);
int adopt_rows_domain(struct store_tx *tx, const char **ret, const char *name, struct arena *arena, struct error *err);
int adopt_rows_check(struct store_tx *tx, const char *name, struct error *err); /* -EBUSY: another domain has a device of the instance */
int adopt_rows_check_function(struct store_tx *tx, struct bdf bdf, struct error *err); /* likewise */
