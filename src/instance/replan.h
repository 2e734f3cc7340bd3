/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/replan — another plan for an instance whose cards are in other places. */

struct arena;
struct error;
struct plan;
struct rows_instance;
struct steps;
struct store_tx;

/* -ESTALE: the plan is not of what the instance has. */
int replan_store(struct store_tx *tx, const struct rows_instance *in, const struct plan *plan, struct arena *arena, struct error *err);
/* Somebody has ordered something: it is not started by itself any more. */
int replan_forget_start(struct store_tx *tx, const char *name, struct error *err);
/* What earlier plans left; s has only the steps of its plan afterwards. */
int replan_give_back(struct steps *s, struct error *err);
