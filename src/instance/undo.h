/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/undo — a failed operation may leave devices held, because a call hung on one of them, or velad-helper or libvirt was not
 * there. An operation of velad's own gives them back: it is tried again until it can, also by the next velad. */

#include <stdbool.h>

#include "instance/op.h"

struct error;
struct inst_manager;
struct job;
struct store_tx;

#define UNDO_AGAIN "to give it back is tried again until it can be" /* ends the error of an instance that has left something */

/* OP_UNDO for what an instance that failed has left, or OP_GATE. later: it has just been tried. */
int undo_add(struct store_tx *tx, enum op_kind kind, const char *name, bool later, struct error *err);
/* Whatever waits is tried now; and there is one for each failed instance that an earlier velad left so. */
int undo_queue(struct inst_manager *m, struct error *err);
int undo_run(struct inst_manager *m, struct job *j, struct error *err);
