/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/routes — the route documents. They stand here, not in topo, because they also say what the ACS plan
 * would make of each route. */

#include "base/bdf.h"

struct error;
struct json_object;
struct topo;

/* {"pairs": [...], "routes": [...]}: GPUs with NICs and GPUs with GPUs, as they are and as planned. */
int plan_routes_json(struct json_object **ret, const struct topo *t, struct error *err);
/* {"routes": [...]}: every kind of transaction from one function to another. -ENOENT: there is none such. */
int plan_route_json(struct json_object **ret, const struct topo *t, struct bdf from, struct bdf to, struct error *err);
