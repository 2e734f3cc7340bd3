/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/capacity — how many bundles of each configured shape still fit at once, and what stands in the way of more. Pure. */

struct error;
struct json_object;
struct plan_input;

/* {"generation", "gpus", "free", "fragmentation", "shapes": [...]}; docs/openapi.json has it whole. Of the input, the
 * request does not count. A shape is its GPUs, each with a VF of a NIC at PIX, where the host has NICs. */
int plan_capacity_json(struct json_object **ret, const struct plan_input *in, struct error *err);
