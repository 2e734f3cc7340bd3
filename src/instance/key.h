/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/key — a client's own name for a request (Idempotency-Key), so that it may ask again and nothing happens twice.
 * It is committed with the operation that the request begins, and kept for a day. */

#include <stdint.h>

#include "instance/instance.h"

struct error;
struct store_tx;

#define KEY_SECONDS  (24 * 60 * 60)
#define KEYS_UID_MAX 10000 /* of one user within that time; more are refused */

/* -EUSERS: it has too many. */
int key_add(struct store_tx *tx, const struct inst_key *key, uint64_t op, int64_t now, struct error *err);
