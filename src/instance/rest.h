/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/rest — the functions of a guest that has ended and keeps them: all are reset at once, then all are verified, so that
 * nothing is left in them while they lie there, and one that has died is found now and not by the next start. */

struct error;
struct inst_manager;
struct job;

/* What fails is in quarantine, and is the note of the job; the others are not held up. away: velad-helper was not there for some of them,
 * to whom it is to be done again; code 0 else. -EINTR: velad ends; another negative: the store
 * failed, or memory. May be repeated at will. */
int rest(struct inst_manager *m, struct job *j, struct error *away, struct error *err);
