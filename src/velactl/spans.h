/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/spans — what an operation's time went into: its steps, when each began, what it took and might have taken. */

struct ctl_out;
struct error;
struct json_object;

/* "took", and the table of steps; of the operation's document. -ENOMEM. */
int ctl_spans_write(struct ctl_out *out, struct json_object *op, struct error *err);
