/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/steps — what the files of steps share (room-private). */

#include <stdbool.h>

#include "instance/rows.h"
#include "instance/steps.h"

#define STEP_VALUE_MAX 320

struct seen {
	bool so;                    /* already as the step wants it */
	char value[STEP_VALUE_MAX]; /* what is there now, as revert will read it */
};

struct step_kind {
	/* Also refuses a machine on which the step must not be done. */
	int (*probe)(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err);
	int (*apply)(const struct steps *s, const struct rows_step *step, struct error *err);
	/* NULL: stays as it is */
	int (*revert)(const struct steps *s, const struct rows_step *step, const char *original,
		      struct error *err);
	/* Instead, while others hold the target: gives back what none of them needs. to: what their steps make of it.
	 * NULL: nothing */
	int (*release)(const struct steps *s, const struct rows_step *step, const char *original, const char *const *to, size_t n,
		       struct error *err);
	/* What probe and apply want of the store, which they cannot ask themselves: their call may outlive it. NULL: nothing. */
	int (*load)(const struct steps *s, struct steps_files *ret, const struct rows_step *step, struct arena *arena, struct error *err);
};

extern const struct step_kind *const step_kinds[PLAN_STEP_MAX_];

/* Says that a function is gone from the host, and returns 0. */
int steps_gone(const struct steps *s, const struct rows_step *step);

/* Driver and override of a function as they were: "driver/override". */
int steps_driver_back(const struct steps *s, const struct rows_step *step, const char *original, struct error *err);

/* src/instance/gate.c */
extern const struct step_kind step_lend, step_scrub, step_reset;
/* src/instance/words.c */
extern const struct step_kind step_acs, step_devctl, step_devctl2, step_power;
/* src/instance/partition.c */
extern const struct step_kind step_partition;
/* src/instance/vf.c */
extern const struct step_kind step_vf;
/* src/instance/disk.c */
extern const struct step_kind step_disk, step_seed, step_image;
