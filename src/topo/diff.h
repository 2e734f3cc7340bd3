/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/diff — what differs between two topologies, member by member of their documents. */

#include <stdint.h>

struct json_object;
struct topo;

/* An array of {"bdf", "kind", "what", "field", "old", "new"}, in BDF order, what concerns no function last; empty
 * if nothing differs but the generation. Of NICs also their interfaces and ports (Host.nics); free memory and
 * hugepages do not count. NULL: no memory. */
struct json_object *topo_diff(const struct topo *old, const struct topo *new);
/* {"generation", "time", "items"}: what topo_diff() gave (takes it), and when. NULL: no memory. */
struct json_object *topo_change_json(uint64_t generation, int64_t time, struct json_object *items);
