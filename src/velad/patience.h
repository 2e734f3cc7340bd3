/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/patience — with a velad-helper that is away: it is looked for again after 1 s, 2 s, ... 64 s. What was read meanwhile lacks what it
 * opens, which is said once; when it is there, that is told. */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct act_machine;

struct patience {
	struct act_machine  *machine; /* borrowed; this and the next four are the caller's to set first */
	void (*look)(void *self);
	void                *self;
	void (*back)(void *env);
	void                *env;
	sd_event_source     *again;
	unsigned             wait; /* seconds, to the next look; 0 it was there when it was asked last */
};

/* look has it asked, and patience_mind() called after that; back: it is there again. Negative errno. */
int  patience_init(struct patience *p, sd_event *event);
void patience_done(struct patience *p);
bool patience_waits(const struct patience *p);
void patience_mind(struct patience *p); /* the machine was read */
