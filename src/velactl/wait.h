/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/wait — following an operation to its end. */

#include <stdint.h>

#include "velactl/exits.h"

struct ctl;
struct error;
struct json_object;

enum ctl_wait_why {
	CTL_WAIT_LOOK,   /* somebody's; Ctrl-C leaves it */
	CTL_WAIT_OURS,   /* Ctrl-C asks velad to cancel it, and only the second one leaves it */
	CTL_WAIT_CANCEL, /* it was asked to be cancelled: that is how it should end */
};

/* 0 if it succeeded; else the errno of its error code, with a sentence. For a finished operation. */
int ctl_op_result(struct json_object *op, struct error *err);

/* Follows operation `id` for at most --timeout seconds. Text: its steps, and how it ended; -o json: the
 * operation as it then is. */
enum ctl_exit ctl_wait(struct ctl *c, uint64_t id, enum ctl_wait_why why);
/* For an operation that velad just accepted: waits, or with --no-wait says how to. */
enum ctl_exit ctl_accepted(struct ctl *c, struct json_object *op);
