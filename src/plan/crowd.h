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
/* Another bundle with these GPUs. VFs for a bundle as a whole (request.vfs) are not looked at. false: too many. */
bool crowd_add(struct crowd *c, const struct place *p, uint64_t gpus);
/* Whether all of them can have their VFs. */
bool crowd_fits(struct crowd *c);
/* After that: how many VFs of NIC n (place's number) the bundle has. */
unsigned crowd_share(const struct crowd *c, size_t bundle, const struct place *p, uint32_t n);
