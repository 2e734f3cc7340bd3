/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/life — start, stop, reboot and reset of an instance. One that is stopped keeps its devices and its steps; a start
 * does again whatever of them is not so any more. */

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

/* A start that nobody asked for. No operation may run on it. */
int life_begin_start(struct store_tx *tx, const struct rows_instance *in, struct error *err);
/* A guest that ended by a fault, and was noted as stopped: it is started again, if the configuration says so and it did not
 * do that too often. */
int life_crashed(struct inst_manager *m, struct store_tx *tx, struct rows_instance *in, struct error *err);
