/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/memo — what was made of a host for one plan, for the next one of the same host. It changes no plan. Within plan; plan.h has the rest. */

#include <stdbool.h>

struct plan_memo;
struct solve_host;

/* solve_prepare(), or what it made before of the same: then *h, of the heap, is freed and the memo's. m NULL: none. -ENOMEM. */
int memo_prepare(struct plan_memo *m, struct solve_host **h, bool *lent);
/* Frees h, or gives it back. NULL is fine. */
void memo_done(struct plan_memo *m, struct solve_host *h, bool lent);
