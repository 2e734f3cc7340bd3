/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/hold — ACS control that an operator applied. It is held as an instance holds it, by a row that is no guest: so
 * originals, sharing, keeping and recovery are those of instances. At most one is in force; a new one takes over from it. */

struct error;
struct inst_manager;
struct steps;

/* Gives back what all holders but that of these steps have, where nobody else has it. On a thread of the pool only. */
int hold_drop_others(struct inst_manager *m, const struct steps *mine, struct error *err);
