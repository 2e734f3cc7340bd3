/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/quarantine — functions that are not given until somebody has looked at them, and how often each was given. */

#include <stdbool.h>
#include <stdint.h>

#include "base/bdf.h"

struct arena;
struct error;
struct inst_manager;
struct store_tx;
struct topo;

struct quarantine {
	struct bdf  bdf;
	const char *serial; /* of the device, of a VF its PF's; NULL unknown */
	const char *reason;
	int64_t     since;  /* seconds of the epoch */
	const char *was;    /* what it looked like when it was lent (instance/gate); NULL: an operator put it here */
	const char *driver; /* "driver/override" that it gets back; NULL: it has them still */
	bool        hangs;  /* a call on it did not return in time, and it was not looked at since */
	struct bdf  pf;     /* of a VF; BDF_NONE */
	bool        away;   /* another card is in its place, which is not in quarantine */
};

/* The first reason stays; was and driver are added where they are not known yet. since is the caller's. */
int quarantine_put(struct store_tx *tx, const struct quarantine *q, struct error *err);
/* serial: of the card that is there now; NULL unknown. *ret is NULL if it is not in there; what is away is not. */
int quarantine_find(struct store_tx *tx, struct quarantine **ret, struct bdf bdf, const char *serial, struct arena *arena, struct error *err);
/* Likewise, but what is away comes after what is not, and if nothing else is there. */
int quarantine_find_any(struct store_tx *tx, struct quarantine **ret, struct bdf bdf, const char *serial, struct arena *arena,
			struct error *err);
int quarantine_list(struct store_tx *tx, struct quarantine **ret, size_t *n, struct arena *arena, struct error *err);
/* Another reason, of one that hung and was looked at. */
int quarantine_say(struct store_tx *tx, const struct quarantine *q, const char *reason, struct error *err);
/* -EBUSY: an instance has a function that is in quarantine. */
int quarantine_check(struct store_tx *tx, const char *instance, struct error *err);
int quarantine_drop(struct store_tx *tx, const struct quarantine *q, struct error *err);
int quarantine_set_away(struct store_tx *tx, const struct quarantine *q, bool away, struct error *err);

/* src/instance/follow.c: rows go where their cards are. topo NULL: stays as it is. */
int quarantine_follow(struct inst_manager *m, const struct topo *topo, struct error *err);

int wear_add(struct store_tx *tx, struct bdf bdf, struct error *err); /* it is given once more */
