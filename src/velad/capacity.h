/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/capacity — what still fits, counted by a thread of its own: on a big host that takes longer than the loop may. Lives on the
 * loop's thread. One count answers all who asked before it was begun. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/auto.h"
#include "base/seccomp.h"

struct capacity; /* opaque */
struct arena;
struct error;
struct json_object;
struct plan_input;

/* ready is called on the loop when a count has ended. how: velad/sandbox. */
int capacity_new(struct capacity **ret, sd_event *event, enum seccomp_how how, void (*ready)(void *self), void *self, struct error *err);
struct capacity *capacity_free(struct capacity *c); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct capacity *, capacity_free);

/* A count of a host as it was at that time or later; 0: there is none, ask again when one is ready. */
int capacity_get(struct capacity *c, struct json_object **ret, uint64_t since, struct error *err);
bool capacity_counts(const struct capacity *c); /* then it takes nothing new */
/* Counts. in: all but a request; what it refers to is in the arena, which is taken. */
void capacity_count(struct capacity *c, const struct plan_input *in, struct arena *arena, uint64_t now);
