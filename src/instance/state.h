/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/state — the states of an instance and the only function that assigns one. */

#include <stdbool.h>

#include "instance/instance.h"

struct error;
struct rows_instance;
struct store_tx;

int  inst_state_parse(const char *text); /* -1 if it is none */
bool inst_state_may(enum inst_state from, enum inst_state to);

/* Asserts that the move is allowed and writes it into tx, so that it is committed together with the
 * operation that moved it, or not at all. error NULL: none. Entering INST_DELETED drops the instance with
 * its devices and steps. */
int inst_enter(struct store_tx *tx, struct rows_instance *in, enum inst_state next, const char *error,
	       struct error *err);
