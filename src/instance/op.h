/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/op — the operations: what a client asked for and how it went. They outlive their instances;
 * the last 1000 are kept. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "instance/span.h"

struct arena;
struct error;
struct store_tx;

enum op_kind { OP_CREATE, OP_DELETE, OP_ACS_APPLY, OP_ACS_RESTORE, OP_UNQUARANTINE, OP_START, OP_STOP, OP_REBOOT, OP_RESET,
	       OP_IMAGE_ADD, OP_IMAGE_DELETE, OP_UNDO, OP_POOL_APPLY, OP_POOL_RELEASE, OP_GATE, OP_KIND_MAX_ };
enum op_state { OP_QUEUED, OP_RUNNING, OP_SUCCEEDED, OP_FAILED, OP_CANCELLED, OP_STATE_MAX_ };

const char *op_kind_text(enum op_kind k);
const char *op_state_text(enum op_state s);
bool        op_state_known(const char *text);
#define OP_STATES "queued, running, succeeded, failed, cancelled" /* for sentences */

struct op {
	uint64_t      id;
	enum op_kind  kind;
	const char   *instance; /* may be gone, or be another one of the same name by now */
	enum op_state state;
	struct span   span;    /* of its run; a run that was interrupted does not count */
	int           code;    /* negative errno of a failed one, or a cancelled one */
	const char   *detail;  /* NULL none */
	unsigned      grace;   /* seconds, of a stop */
	int64_t       created, finished; /* seconds since 1970; 0 not yet */
	unsigned      tries;   /* that failed, of one that is tried again until it succeeds */
	int64_t       due;     /* not before then, microseconds since 1970; 0 at once. While it waits, code and detail are of the last try */
	const char   *steps;   /* JSON, once it is finished; NULL before */
};

int op_add(struct store_tx *tx, uint64_t *ret, enum op_kind kind, const char *name, int64_t now,
	   struct error *err);
/* One that is through within its own transaction: nothing on the machine is done for it. */
int op_add_ended(struct store_tx *tx, uint64_t *ret, enum op_kind kind, const char *name, int64_t now, struct error *err);
/* *ret is NULL if there is none; strings live in the arena. */
int op_find(struct store_tx *tx, struct op **ret, uint64_t id, struct arena *arena, struct error *err);
/* The oldest unfinished one of those with higher ids. */
int op_next(struct store_tx *tx, struct op **ret, uint64_t after, struct arena *arena, struct error *err);
struct op_filter {
	const char *instance, *state; /* NULL: any */
	uint64_t    before; /* ids below it */
	size_t      limit;
};
int op_list(struct store_tx *tx, struct op **ret, size_t *n, const struct op_filter *f, struct arena *arena,
	    struct error *err); /* newest first */
int op_last(struct store_tx *tx, uint64_t *ret, struct error *err); /* the highest id so far */
/* One of these kinds; 0: none. */
int op_unfinished_of(struct store_tx *tx, uint64_t *ret, enum op_kind a, enum op_kind b, struct error *err);
int op_grace(struct store_tx *tx, uint64_t id, unsigned seconds, struct error *err);
int op_check_none(struct store_tx *tx, const char *name, struct error *err); /* -EBUSY: one of this name waits or runs */
int op_unfinished(struct store_tx *tx, uint64_t *ret, struct error *err); /* how many wait or run */
int op_run(struct store_tx *tx, struct op *op, struct error *err); /* from now on */
int op_finish(struct store_tx *tx, const struct op *op, struct error *err);

#define OP_WAIT_SECONDS     1 /* after the first try that failed; then twice as long each time, up to: */
#define OP_WAIT_SECONDS_MAX 64

bool op_waits(const struct op *op); /* for its next try */
/* It goes back into the queue: code, detail and tries are kept, and due. */
int op_wait(struct store_tx *tx, struct op *op, struct error *err);
int op_wake(struct store_tx *tx, struct error *err); /* those that wait are due now */
/* When the first of those is due that are so after this time, microseconds since 1970; 0: there is none. */
int op_due(struct store_tx *tx, int64_t *ret, int64_t after, struct error *err);
/* Those of velad's own that wait, a start after them included, and that are needless by one that a client wants: they end as cancelled. */
int op_yield(struct store_tx *tx, const char *name, struct error *err);
bool op_is_own(enum op_kind k); /* of velad's own: nobody asked for it, and it refuses nobody anything */
/* OP_GATE of this name, if that is all that waits or runs; 0: it is not. */
int op_gate(struct store_tx *tx, uint64_t *ret, const char *name, struct error *err);
