/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/moved — a plan whose cards are in other places by now: what is shown of it names the places where they are. Its domain XML and
 * the like are of the old ones, until the next start makes it anew. */

#include <stddef.h>

struct error;
struct reconcile_decision;
struct store_tx;

/* All moves of one instance at once, for two may have changed places; decisions of others are passed over. */
int moved_show(struct store_tx *tx, const char *instance, const struct reconcile_decision *d, size_t n, struct error *err);
