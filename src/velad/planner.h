/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/planner — from a request to a plan of this moment, whose devices were read before it is believed. For who waits as an HTTP
 * request it is made by a thread of its own, so that nobody else does; one after the other. Lives on the loop's thread. */

#include <stddef.h>
#include <stdint.h>

#include "api/method.h"
#include "base/auto.h"

struct arena;
struct error;
struct lease;
struct manager;
struct plan;
struct plan_gang;
struct plan_input;
struct plan_request;
struct plan_sick;
struct plan_taken;
struct planner; /* opaque */

int planner_new(struct planner **ret, struct manager *m, struct error *err);
struct planner *planner_free(struct planner *p); /* NULL is fine; returns NULL */

/* First of all in a handler: API_WAIT as long as this request's plan is being made, so that nothing is done in vain. -ETIMEDOUT: it took too
 * long. */
int planner_waits(struct manager *m, const struct api_request *req, struct error *err);
/* API_WAIT: it is begun now, and the request is the planner's; ask again with the same one. holds: the plan is to be a lease: it is made anew
 * where others took something meanwhile. -EUSERS: this user has too many under way. */
int planner_take(struct manager *m, struct plan **ret, const struct api_request *req, struct plan_request *request, bool holds, struct error *err);
int planner_take_gang(struct manager *m, struct plan_gang **ret, const struct api_request *req, struct plan_request *request, size_t n, bool holds,
		      struct error *err);

void planner_go_on(struct planner *p); /* a reading of the machine is through */

/* A plan of now, made here. except: a bundle of a lease whose devices are free to it; NULL: none. mark: of velad/current; CURRENT_WAIT: what it
 * stands on is being read. -ESTALE: the machine does not keep still. */
int planner_make(struct manager *m, struct plan **ret, const struct plan_request *request, const struct lease *except, size_t bundle,
		 uint64_t *mark, struct error *err);
/* One of what the instance of that name has, whose devices, CPUs and memory are free to it. */
int planner_remake(struct manager *m, struct plan **ret, const struct plan_request *request, uint64_t *mark, struct error *err);
/* All but the request; arrays in the arena. */
int planner_input(struct manager *m, struct plan_input *ret, struct arena *arena, struct error *err);
/* Functions that must not be given: those in quarantine, and those of which a file cannot be read because that does not return. */
int planner_sick(struct manager *m, struct plan_sick **ret, size_t *n, struct arena *arena, struct error *err);
/* Devices that instances or leases hold. */
int planner_taken(struct manager *m, const struct plan_taken **ret, size_t *n, struct arena *arena, struct error *err);
