/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/life — start, stop, reboot and reset of an instance. One that is stopped keeps its devices and its steps; a start
 * does again whatever of them is not so any more. */

#include <stdbool.h>

struct arena;
struct error;
struct inst_manager;
struct job;
struct rows_instance;
struct store_tx;

int life_run_start(struct inst_manager *m, struct job *j, struct error *err);
int life_run_stop(struct inst_manager *m, struct job *j, struct error *err);
int life_run_reboot(struct inst_manager *m, struct job *j, struct error *err);
int life_run_reset(struct inst_manager *m, struct job *j, struct error *err);
int life_run_gate(struct inst_manager *m, struct job *j, struct error *err);

/* A guest that ended and was not told to: "stopping", until what it had has passed the gate as after a stop, by an operation; and one
 * that ended by a fault is started again after that, if the configuration says so and it did not do that too often. text: its error;
 * NULL none. No operation may run on it. */
int life_ended(struct inst_manager *m, struct store_tx *tx, struct rows_instance *in, bool by_fault, const char *text, struct error *err);
