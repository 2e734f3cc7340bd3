/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/reconcile_rules — the findings that instance/reconcile makes, and takes back. */

#include <stdbool.h>

#define LIBVIRT_UNKNOWN "libvirt.unknown"
#define RENAMED         "domain.renamed"
#define RUNS            "guest.runs"
#define UNPROVISIONED   "guest.unprovisioned"
#define SHARED          "device.foreign"
#define ELSEWHERE       "device.elsewhere"
#define MISSING         "device.missing"
#define BOUND           "device.bound"
#define GROUP           "group.shared"
#define P2P_LOST        "guest.p2p-lost"
#define TO_START        "guest.to-start" /* a wish, until it begins or cannot: never taken back */

extern const char *const reconcile_rules[]; /* NULL ends them */
bool reconcile_finds(const char *rule);     /* it is one of them */
