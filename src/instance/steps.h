/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/steps — the steps of a plan as effects: probe, apply, revert. Before an effect the store has
 * the step as "begun" and the original value of its target; after it "done". */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "act/act.h"
#include "base/error.h"

struct guard;
struct gate;
struct inst_release;
struct rows_step;
struct store;
struct store_tx;
struct targets;

struct steps_note { /* what is worth to be known of a step that was done: a finding of the instance */
	const char  *rule; /* constant; NULL none */
	struct error text;
};

struct steps_files { /* of steps that make files, what the store has, or is to have */
	struct act_image image; /* below a disk; or, once it is made */
	struct act_seed  seed;
};

struct steps_rest; /* what was done last, and the store does not know yet */

struct steps {
	struct store     *store;    /* borrowed, like all below */
	struct act        act;      /* without guard: the machine, and steps are done one by one, without deadlines */
	const struct guard *guard;
	struct targets   *targets;  /* NULL: nobody else changes the machine */
	pthread_mutex_t  *kept;     /* held while something changes that is kept (instance/keep) */
	pthread_mutex_t  *shown;    /* held while steps, their states and spans change; NULL: nobody else reads them */
	const atomic_bool *cancel;  /* NULL: cannot be */
	struct steps_note *note;    /* of the step, while it is applied */
	struct steps_files *files;  /* likewise, while it is probed, too */
	struct steps_rest **rest;   /* of steps_apply(), where it succeeds: to be told with a later commit; NULL: it has one for that */
	bool              undo;     /* reverting is the undoing of this operation, and not what it is for */
	bool              again;    /* it was tried before, and what failed then is in the journal */
	const struct inst_release *release;
	const struct gate *gate;    /* of the step, by the walk */
	const char       *instance;
	const char       *domain;   /* what its domain is called; NULL: as the target of its step */
	uint32_t          vf_may_refuse; /* bits of plan/vf.h */
	const char       *xml;      /* of the domain step; NULL if only reverting */
	struct rows_step *step;     /* in the plan's order; their states are kept up to date */
	size_t            n;
};

static inline void steps_lock_shown(const struct steps *s)
{
	if (s->shown)
		(void)pthread_mutex_lock(s->shown);
}

static inline void steps_unlock_shown(const struct steps *s)
{
	if (s->shown)
		(void)pthread_mutex_unlock(s->shown);
}

/* What a step "acs" does to the control word of its port: Direct Translated P2P is only ever set, Translation Blocking
 * only ever cleared, so that instances which share a port do not undo each other's. */
struct steps_acs {
	uint16_t set, clear, rest; /* rest: the other bits, as the plan saw them */
};
int steps_acs_read(struct steps_acs *ret, const struct rows_step *step, struct error *err);

/* Those that do not wait for each other (instance/order) side by side, until one fails; those that were begun with it are brought
 * to their end. The text names step and target. -ECANCELED: between two steps, cancel was set. */
int steps_apply(const struct steps *s, struct error *err);

/* The other way round. Goes on after a failure, gives back as much as it can and returns the first failure; but where the guest
 * cannot be stopped, nothing below it is touched, nor what lies below a call that hangs. May be repeated at will. */
int steps_revert(const struct steps *s, struct error *err);

/* In the transaction of who ends the operation. */
int steps_tell(struct store_tx *tx, struct steps_rest *rest, struct error *err);
struct steps_rest *steps_rest_free(struct steps_rest *rest); /* NULL is fine; returns NULL */
