/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/crowd — VFs for several bundles at once, whose GPUs are chosen: a flow from GPUs through each bundle's share of a
 * NIC to the NICs (room-private, gang.c's). */

#include "plan/place.h"

#define CROWD_MEMBERS_MAX 16

struct crowd;

struct crowd *crowd_new(void); /* NULL: no memory */
struct crowd *crowd_free(struct crowd *c);
AUTO_DEFINE(struct crowd *, crowd_free);
void crowd_clear(struct crowd *c);
/* Another bundle with these GPUs, that wants this; without GPUs its VFs are of these NICs. false: too many. */
bool crowd_add(struct crowd *c, const struct place *p, const struct solve_want *w, uint64_t gpus, uint64_t nics);
/* The same where its GPUs are not chosen yet: some of these. What fits without it does not fit with it, or it might. */
bool crowd_add_any(struct crowd *c, const struct place *p, const struct solve_want *w, uint64_t gpus, uint64_t nics);
/* Whether all of them can have their VFs. */
bool crowd_fits(struct crowd *c);
/* After that: how many VFs of NIC n (place's number) the bundle has. */
unsigned crowd_share(const struct crowd *c, size_t bundle, const struct place *p, uint32_t n);
