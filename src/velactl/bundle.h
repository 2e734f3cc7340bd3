/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/bundle — the parts of plans and instances that both show: devices, memory, steps. */

#include <stdbool.h>

struct ctl_out;
struct error;
struct json_object;

/* planned: says of VFs that are not there that they will be made */
int ctl_bundle_write(struct ctl_out *out, struct json_object *bundle, bool planned, struct error *err);
/* A list of sentences ("text") below a title, a line or ""; false: there are none, and nothing is written. */
bool ctl_reasons_write(struct ctl_out *out, const char *title, struct json_object *list);
/* STEP TARGET FROM TO, and STATE where the steps have one */
int ctl_steps_write(struct ctl_out *out, struct json_object *steps, struct error *err);
