/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/rows — the records of the store and the SQL for each. Strings that are read live in the
 * arena given. A find that finds nothing sets *ret to NULL and is no error. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bdf.h"
#include "instance/instance.h"
#include "instance/span.h"

struct arena;
struct error;
struct plan_acs_held;
struct plan_settings_held;
struct store_tx;

enum step_state { STEP_PENDING, STEP_BEGUN, STEP_DONE, STEP_REVERTED, STEP_FAILED, STEP_STATE_MAX_ };

const char *step_state_text(enum step_state s);

struct rows_instance {
	const char     *name, *uuid;
	enum inst_state state;
	const char     *error; /* NULL none */
	int64_t         created; /* seconds since 1970 */
	const char     *request, *plan; /* JSON */
	uint64_t        operation; /* the last one */
	uint64_t        generation; /* of what a client sees of it; the store's */
	const char     *domain;    /* what its domain is called: as it, unless somebody renamed that; likewise */
	const char     *boot;      /* of the host, in which it was started last; "" unknown; likewise */
};

struct rows_step {
	int64_t             seq;
	enum plan_step_kind kind;
	const char         *target;
	struct bdf          bdf; /* of the target; BDF_NONE if it is no function */
	const char         *from, *to; /* as the plan says */
	enum step_state     state;
	bool                sick; /* its function went into quarantine, or was there, when it was done or taken back; not stored */
	struct span         span, undo; /* of what this operation did to it, and of taking it back where that failed; not stored */
};

int rows_instance_add(struct store_tx *tx, const struct rows_instance *in, struct error *err);
int rows_instance_plan(struct store_tx *tx, const char *name, const char *plan, struct error *err); /* another one */
int rows_instance_find(struct store_tx *tx, struct rows_instance **ret, const char *name,
		       struct arena *arena, struct error *err);
/* The one whose domain is called so. */
int rows_instance_of(struct store_tx *tx, struct rows_instance **ret, const char *domain, struct arena *arena, struct error *err);
int rows_instance_boot(struct store_tx *tx, const char *name, const char *boot, struct error *err);
int rows_instance_domain(struct store_tx *tx, const char *name, const char *domain, struct error *err);
/* Not a guest, but what an operator applied: its name has a blank, which no guest's has. It has no domain,
 * and is no instance to clients. */
bool rows_is_holder(const char *name);
int rows_all_names(struct store_tx *tx, const char ***ret, size_t *n, struct arena *arena, struct error *err); /* these, too */
/* Those of a kind, "acs apply"; newest first. */
int rows_holder_names(struct store_tx *tx, const char ***ret, size_t *n, const char *what, struct arena *arena, struct error *err);
int rows_instance_names(struct store_tx *tx, const char ***ret, size_t *n, const struct inst_filter *f, struct arena *arena,
			struct error *err);
int rows_instance_error(struct store_tx *tx, const char *name, const char *error, struct error *err);
int rows_instance_operation(struct store_tx *tx, const char *name, uint64_t op, struct error *err);

int rows_device_add(struct store_tx *tx, struct bdf bdf, const char *name, struct error *err); /* -EBUSY */
int rows_devices_identify(struct store_tx *tx, const char *name, struct error *err); /* by what they were when they were lent */
int rows_devices_drop(struct store_tx *tx, const char *name, struct error *err);
/* Of instances, and of domains that are no instance's. */
int rows_devices(struct store_tx *tx, struct plan_taken **ret, size_t *n, struct arena *arena,
		 struct error *err);

/* What velad saw of an instance that runs. */
struct rows_finding {
	const char *rule, *device, *text;
	int64_t     first, last; /* seconds since 1970 */
	int64_t     times;
};

/* Once more, if it is there. */
int rows_finding_add(struct store_tx *tx, const char *name, const struct rows_finding *f, struct error *err);
int rows_finding_drop(struct store_tx *tx, const char *name, const char *rule, const char *device, struct error *err);
int rows_findings(struct store_tx *tx, struct rows_finding **ret, size_t *n, const char *name, struct arena *arena,
		  struct error *err);

int rows_step_add(struct store_tx *tx, const char *name, const struct rows_step *s, struct error *err);
int rows_steps(struct store_tx *tx, struct rows_step **ret, size_t *n, const char *name,
	       struct arena *arena, struct error *err);
/* old NULL: keep what is stored */
int rows_step_set(struct store_tx *tx, const char *name, int64_t seq, enum step_state state,
		  const char *old, struct error *err);
/* A function that a failed instance had and gave back, perhaps through quarantine, is the next one's: what could not be taken back
 * then was when it was given free. */
#define ROWS_STEP_OVER "(instance.state = 'failed' AND instr(instance.name, ' ') = 0" \
		       " AND EXISTS(SELECT 1 FROM step AS own WHERE own.instance = instance.name AND own.kind = 'bind' AND own.target = step.target)" \
		       " AND NOT EXISTS(SELECT 1 FROM device WHERE device.instance = instance.name AND device.bdf = step.target))"
/* A step that is still ahead of an instance holds its target as well: what the instance was planned on
 * must not be taken back below it; one that is stopped may not have been started yet. The steps that a failed create never reached hold nothing. */
#define ROWS_STEP_HOLDS "((step.state IN ('begun', 'done', 'failed') AND NOT " ROWS_STEP_OVER ")" \
			" OR (step.state = 'pending' AND instance.state IN ('planned', 'provisioning', 'stopped')))"
/* What the steps of other instances that hold the target of s make of it; none: nobody else does. */
int rows_step_others(struct store_tx *tx, const char ***ret, size_t *n, const char *name, const struct rows_step *s,
		     struct arena *arena, struct error *err);

/* ret: of each of its steps, whether nothing is written down of what its target was. */
int rows_steps_unkept(struct store_tx *tx, bool *ret, const char *name, const struct rows_step *step, size_t n, struct error *err);
int rows_original_keep(struct store_tx *tx, const struct rows_step *s, const char *value, struct error *err);
int rows_original_find(struct store_tx *tx, const char **ret, const struct rows_step *s,
		       struct arena *arena, struct error *err);
/* Ports that instances hold, and what they were before. */
int rows_originals_acs(struct store_tx *tx, struct plan_acs_held **ret, size_t *n, struct arena *arena, struct error *err);
/* Settings of functions and ports that instances hold. */
int rows_originals_settings(struct store_tx *tx, struct plan_settings_held **ret, size_t *n, struct arena *arena,
			    struct error *err);
int rows_original_drop(struct store_tx *tx, const struct rows_step *s, struct error *err);
