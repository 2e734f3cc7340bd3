/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/steps — the steps of a plan as effects: probe, apply, revert. Before an effect the store has
 * the step as "begun" and the original value of its target; after it "done". */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "act/act.h"

struct error;
struct rows_step;
struct store;

struct steps {
	struct store     *store;    /* borrowed, like all below */
	struct act        act;
	pthread_mutex_t  *kept;     /* held while something changes that is kept (instance/keep) */
	const char       *instance;
	const char       *xml;      /* of the domain step; NULL if only reverting */
	struct rows_step *step;     /* in the plan's order; their states are kept up to date */
	size_t            n;
};

/* What a step "acs" does to the control word of its port: Direct Translated P2P is only ever set, Translation Blocking
 * only ever cleared, so that instances which share a port do not undo each other's. */
struct steps_acs {
	uint16_t set, clear, rest; /* rest: the other bits, as the plan saw them */
};
int steps_acs_read(struct steps_acs *ret, const struct rows_step *step, struct error *err);

/* In order, until one fails. The text names step and target. */
int steps_apply(const struct steps *s, struct error *err);

/* In reverse order. Goes on after a failure, gives back as much as it can and returns the first failure;
 * but where the guest cannot be stopped, nothing below it is touched. May be repeated at will. */
int steps_revert(const struct steps *s, struct error *err);
