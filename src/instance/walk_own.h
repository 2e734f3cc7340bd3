/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/walk — what the files of the walks share (room-private): a wave of steps, and what is made of one step in it. */

#include "act/act.h"
#include "base/arena.h"
#include "base/error.h"
#include "instance/gate.h"
#include "instance/guard.h"
#include "instance/rows.h"
#include "instance/span.h"
#include "instance/steps.h"
#include "instance/steps_own.h"
#include "instance/targets.h"

enum what { PROBE, APPLY, REVERT, RELEASE, PARK };

/* One step of a wave. What its thread uses is a copy in the task's memory, which outlives this. */
struct effect {
	struct steps      s;
	struct rows_step  step;
	struct guard_self self;
	struct seen       seen;
	struct steps_note note;
	struct gate       gate;
	struct steps_files files;
	enum what         what;
	const char       *original, **others; /* NULL: there is none */
	size_t            nothers;
};

struct member {
	struct rows_step *step;
	struct task      *task; /* owned; NULL: nothing runs */
	struct effect    *effect;
	struct seen       seen; /* by its probe */
	struct gate       gate;
	const char       *original, **others;
	size_t            nothers;
	struct span       span; /* of its effect */
	bool              back; /* it is reverted */
	bool              unknown; /* it ran out of time: how its function is, nobody knows */
	int               r;
	struct error      err;
};

struct walk {
	const struct steps *s;
	struct arena        arena;
	bool               *done, *tried, *noted; /* of each step; noted: the store knows that it is done */
	struct act_image    image;    /* of the one step that may make one */
	struct rows_finding *finding; /* of each, for the store; rule NULL: none */
	size_t             *at;
	struct member      *wave;
	size_t              n; /* of the wave */
	struct bdf         *mine; /* functions of the instance */
	size_t              nmine;
	struct targets_hold hold;
	bool                kept;
};

/* Begins what is to be done with it, on a thread of the crew; without guard only prepares it. m->r < 0: it could not be. */
void effect_start(struct walk *w, struct member *m, enum what what);
/* Waits for all that were started. Returns the first failure in the plan's order; the others are logged. */
int effect_finish_all(struct walk *w, struct error *err);
/* A copy of all that a thread needs, in the arena, where it is a thread's; NULL: no memory. */
struct effect *effect_make(const struct steps *s, const struct member *m, enum what what, struct arena *a);
int effect_run(struct task *t, void *effect, struct error *err);
/* What a step took is what its effects took: it does not count that it waited for others. */
void effect_took(const struct steps *s, struct rows_step *step, const struct span *span);
/* Whether nobody knows how its function is, after m->r. */
void effect_unknown(const struct walk *w, struct member *m);
/* How the members of a wave ended, as effect_finish_all() has it. */
int effect_first(const struct walk *w, struct error *err);

/* Probes all of the wave: r and err, and seen of each; r 0 and not so where nobody could look. */
void ahead_look(struct walk *w); /* src/instance/ahead.c */
