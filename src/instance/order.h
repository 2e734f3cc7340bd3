/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/order — which steps of a plan wait for which (pure). What does not wait for anything runs side by side. */

#include <stdbool.h>
#include <stddef.h>

#include "instance/rows.h"

/* Whether step b, which comes after a in its plan, must find a done; and a, when it is taken back, b taken back. */
bool order_needs(const struct rows_step *b, const struct rows_step *a);

/* The steps that may be done now, or taken back if backwards: not done, and all that they wait for is. done: of each of the n.
 * Their indexes in *ret, in the order of the plan, room for n. 0: none is left, or all that are left wait for one that is
 * not done for ever. */
size_t order_next(size_t *ret, const struct rows_step *step, size_t n, const bool *done, bool backwards);
