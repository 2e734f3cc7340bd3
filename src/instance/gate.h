/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/gate — what stands between two tenants: a function that was lent is reset, scrubbed by the operator's program, and
 * verified to be as it was when it was lent; or it goes into quarantine, and the rest of the release goes on. */

#include <stdbool.h>
#include <stddef.h>

#include "act/act.h"
#include "instance/instance.h"
#include "plan/plan.h"

struct arena;
struct error;
struct job;
struct rows_step;
struct steps;
struct store_tx;

/* What a step answers whose function is in quarantine, or has to go there: the text is the reason. */
#define GATE_QUARANTINED (-EUCLEAN)

/* What a step of the gate knows beside itself. */
struct gate {
	bool                closed;  /* its function is in quarantine */
	bool                owed;    /* which has the driver that it gets back, and not "original" */
	bool                held;    /* of one that is released: by an instance, which is stopped */
	const char         *was;     /* how it looked when it was lent; NULL: it never was */
	const struct bdf   *mine;    /* functions of the same guest */
	size_t              nmine;
	struct inst_release release;
};

/* "lend", "scrub", "reset"; and "bind", by which a function in quarantine gets no driver. */
bool gate_concerns(enum plan_step_kind k);
/* Whether a function goes into quarantine, or stays there, after its step was reverted with r; the effect may be gone. One
 * that could not be taken from vfio-pci is tried again: while a VF is there, the count of its PF cannot change. What else of it is not
 * given back is given back when it is released. */
bool gate_keeps(const struct gate *g, const struct rows_step *step, int r);
/* closed, owed and was. */
int gate_find(struct gate *ret, struct store_tx *tx, const struct rows_step *step, struct arena *arena, struct error *err);
/* What of a step that was reverted, or refused to be done, belongs into quarantine. original: of the step; NULL none. */
int gate_keep(struct store_tx *tx, const struct gate *g, const struct rows_step *step, const char *original, const struct error *why,
	      struct error *err);
/* Instead of its driver a function in quarantine gets an override that no driver has, so that none takes it. */
int gate_park(const struct steps *s, const struct rows_step *step, struct error *err);

/* Of a function whose guest has ended, and that stays its: reset, if it can be by itself, for else its next guest is the same; and
 * verified, after that of all of them. s->gate as for a step. -ENODEV: it is gone, or not with vfio-pci; -ENOTCONN: nobody could be
 * asked. */
int gate_reset(const struct steps *s, struct bdf fn, struct error *err);
int gate_verify(const struct steps *s, struct bdf fn, struct error *err);

/* Functions whose call ran out of time are looked at, if it has returned, and the reason says how they look; a port that answers is
 * in quarantine no more. */
int gate_look_again(struct inst_manager *m, struct error *err);

/* OP_UNQUARANTINE: reset, scrubbed and verified again where the gate had put it there; then its driver is given back. */
int gate_run_release(struct inst_manager *m, struct job *j, struct error *err);
