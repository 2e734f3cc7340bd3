/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/json — what the documents of this room have in common (room-private). */

#include "host/pcicap.h"

struct host_nic;
struct inventory;
struct json_object;
struct json_out;
struct topo;
struct topo_node;

void topo_add_text(struct json_out *o, const char *key, const char *value); /* "" or NULL: null */
void topo_add_known(struct json_out *o, const char *key, int value);        /* negative: null */
void topo_add_bool(struct json_out *o, const char *key, enum host_known known); /* unknown: null */
void topo_add_findings(struct json_out *o, const struct inventory *inv);
void topo_add_matrix(struct json_out *o, const struct topo *t);
struct json_object *topo_node_json(const struct topo *t, const struct topo_node *node); /* NULL: no memory */
struct json_object *topo_nic_json(const struct host_nic *nic);                            /* NULL: no memory */
