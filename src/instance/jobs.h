/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/jobs — what an operation does, by its kind. The pool (instance/pool) takes an operation from the store, and calls
 * the run of its kind on one of its threads. */

#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "instance/op.h"
#include "instance/rows.h"
#include "instance/steps.h"

struct error;
struct inst_manager;

struct job {
	struct arena          arena;
	struct op            *op;
	struct rows_instance *in;
	struct steps          steps;       /* of the instance */
	struct steps_rest    *rest;        /* owned: of job_apply(), for job_end(); NULL: there is none */
	atomic_bool           cancel;      /* somebody asked for it; read between steps */
	bool                  cancelled;   /* it ends so: all is as it was before */
	const char           *note;        /* of the instance, where the operation succeeds; NULL: all is well */
	enum op_kind          then;        /* comes after it, and is tried until it succeeds, for what could not be done; 0 nothing */
	bool                  interrupted; /* begun, or left, by an earlier daemon, or by this one when the store failed */
};

struct job_kind {
	/* Brings the operation to its end, good or bad, with job_end(). < 0: the store failed; it is run again, interrupted. */
	int (*run)(struct inst_manager *m, struct job *j, struct error *err);
	enum inst_state enters;    /* when it begins, unless interrupted; INST_PLANNED: stays as it is */
	bool            cancels;   /* it can be cancelled, and then leaves nothing */
	bool            backwards; /* its steps are shown from the last to the first */
	bool            alone;     /* it is of no instance: op->instance is something else, and `in` is NULL */
};

extern const struct job_kind job_kinds[OP_KIND_MAX_];

/* why NULL: it succeeded. drop_devices: the instance holds them no more. */
int job_end(struct inst_manager *m, struct job *j, enum inst_state next, bool drop_devices, const struct error *why,
	    struct error *err);
/* It failed, and is tried again later, until it succeeds: the instance keeps its state, and its error if there is no
 * note. */
int job_wait(struct inst_manager *m, struct job *j, const struct error *why, bool drop_devices, struct error *err);
/* The same as job_end() for one that is of no instance. */
int job_end_alone(struct inst_manager *m, struct job *j, const struct error *why, struct error *err);
/* -EINTR, and why, if the operation was interrupted. */
int job_check_whole(const struct inst_manager *m, const struct job *j, struct error *why);
/* The steps of its plan, the guest's start among them. */
int job_apply(struct job *j, struct error *why);
/* And back. -EBUSY: another domain has a device of it. */
int job_revert(struct inst_manager *m, struct job *j, struct error *why);
/* Whether the instance has devices no more, though not all was given back: what is sick is in quarantine, what is shared is held by steps. */
bool job_all_free(const struct job *j);
/* After its end. */
void job_look_after(struct inst_manager *m, const struct job *j);
