/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/undo — a failed operation may leave devices held, because a call hung on one of them. When that returns, they are
 * given back, by an operation of their own. */

struct error;
struct inst_manager;
struct job;

/* One for each failed instance that holds something; of those with an operation, none. */
int undo_queue(struct inst_manager *m, struct error *err);
int undo_run(struct inst_manager *m, struct job *j, struct error *err);
