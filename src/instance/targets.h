/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/targets — a lock for each thing on the machine, by the target of its steps. Who probes, changes or gives back holds
 * it, until the store has what it found: so "who else needs it?" and its original are asked and answered by one at a time. */

#include <pthread.h>
#include <stddef.h>

struct targets_hold {
	const char         **name; /* borrowed, as long as they are held */
	size_t               n;
	struct targets_hold *next;
};

struct targets {
	pthread_mutex_t      lock;
	pthread_cond_t       cond;
	struct targets_hold *held;
};

void targets_init(struct targets *t);
void targets_done(struct targets *t);
/* All or none, so that two who want some of the same never wait for each other. */
void targets_lock(struct targets *t, struct targets_hold *hold);
void targets_unlock(struct targets *t, struct targets_hold *hold);
