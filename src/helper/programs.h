/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* helper/programs — a second process for verbs that run somebody's program (fmpm, the scrub program): they need system calls
 * that the helper itself has given up. It is begun before that, and gets calls that were judged, with the client's connection,
 * on which it answers. */

#include <stdbool.h>

#include "helper/serve.h"

bool programs_has(const struct wire_call *c);
/* Sets s->programs. */
int  programs_start(struct serve *s, struct error *err);
/* Of call and connection; the caller closes its own. false: it is not there any more. */
bool programs_hand(const struct serve *s, const struct wire_call *c, int client);
/* s->programs is readable: how many calls have been answered, -1: it has ended. */
int  programs_answered(const struct serve *s);
