/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/progress — how an operation goes, as it is told: a line per step, and on a terminal a last line that moves. */

#include <stdint.h>

struct ctl_out;
struct json_object;

#define CTL_STEPS_MAX 1024 /* told one by one; a guest has some hundred at most */

/* What was told of an operation so far. */
struct ctl_progress {
	uint8_t told[CTL_STEPS_MAX]; /* of each step */
};

/* A line per step that was finished, failed or was taken back since the last call. */
void ctl_progress_write(struct ctl_progress *p, struct ctl_out *out, struct json_object *op);
/* A bar, the time, and the steps under way, in the line where the cursor is; no newline. */
void ctl_progress_line(struct ctl_out *out, struct json_object *op, uint64_t ms);
void ctl_progress_clear(struct ctl_out *out); /* that line */
