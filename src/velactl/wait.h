/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/wait — following an operation to its end. */

#include <stdint.h>

#include "velactl/exits.h"

struct ctl;
struct ctl_out;
struct error;
struct json_object;

#define CTL_STEPS_MAX 1024 /* told one by one; a guest has some hundred at most */

/* What was told of an operation so far. */
struct ctl_progress {
	uint8_t told[CTL_STEPS_MAX]; /* of each step */
};

/* A line per step that was finished, failed or was taken back since the last call. */
void ctl_progress_write(struct ctl_progress *p, struct ctl_out *out, struct json_object *op);
/* 0 if it succeeded; else the errno of its error code, with a sentence. For a finished operation. */
int ctl_op_result(struct json_object *op, struct error *err);

/* Follows operation `id` for at most --timeout seconds. Text: its steps, and how it ended; -o json: the
 * operation as it then is. */
enum ctl_exit ctl_wait(struct ctl *c, uint64_t id);
/* For an operation that velad just accepted: waits, or with --no-wait says how to. */
enum ctl_exit ctl_accepted(struct ctl *c, struct json_object *op);
