/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/history — the last generations and what each changed, for clients that follow and for the journal. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json_object;

#define HISTORY_MAX       64    /* generations */
#define HISTORY_ITEMS_MAX 16384 /* in all of them; the newest stays whatever its size */

struct history {
	uint64_t before; /* the generation before the oldest that is kept */
	size_t   n, items;
	struct {
		uint64_t            generation;
		int64_t             time;  /* seconds of the epoch */
		struct json_object *items; /* owned; of topo_diff() */
	} at[HISTORY_MAX]; /* oldest first */
};

void history_add(struct history *h, uint64_t generation, int64_t time, struct json_object *items); /* takes items */
void history_done(struct history *h);
/* {"generation", "changes": [...]} after `since`, where generation is the one of now. -EIDRM: it does not reach so far back. */
int history_changes(const struct history *h, struct json_object **ret, uint64_t since, uint64_t generation, struct error *err);
bool history_has_cards(struct json_object *items); /* whether what came or went is more than VFs */
/* A line each into the journal, with fields of its own, or on standard error. */
void history_log(uint64_t generation, struct json_object *items);
