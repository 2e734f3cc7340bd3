/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/diff — what differs between two topologies, member by member of their documents. */

struct json_object;
struct topo;

/* An array of {"bdf", "kind", "what", "field", "old", "new"}, in BDF order, what concerns no function last; empty
 * if nothing differs but the generation. Of NICs also their interfaces and ports (Host.nics); free memory and
 * hugepages do not count. NULL: no memory. */
struct json_object *topo_diff(const struct topo *old, const struct topo *new);
