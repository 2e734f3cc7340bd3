/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What may follow what. "degraded" is entered and left by keep.c and reconcile.c; a start is "provisioning", too. */
#include "instance/state.h"

#include <assert.h>

#include "base/strtab.h"
#include "instance/rows.h"
#include "instance/store.h"

static const char *const names[INST_STATE_MAX_] = {
	[INST_PLANNED] = "planned",
	[INST_PROVISIONING] = "provisioning",
	[INST_RUNNING] = "running",
	[INST_DEGRADED] = "degraded",
	[INST_STOPPING] = "stopping",
	[INST_STOPPED] = "stopped",
	[INST_DELETING] = "deleting",
	[INST_DELETED] = "deleted",
	[INST_FAILED] = "failed",
};

#define TO(s) (1U << (s))

static const unsigned successors[INST_STATE_MAX_] = {
	[INST_PLANNED] = TO(INST_PROVISIONING) | TO(INST_FAILED) | TO(INST_DELETED), /* cancelled, as the next */
	[INST_PROVISIONING] = TO(INST_RUNNING) | TO(INST_STOPPED) | TO(INST_FAILED) | TO(INST_DELETED),
	[INST_RUNNING] = TO(INST_DEGRADED) | TO(INST_STOPPING) | TO(INST_STOPPED) | TO(INST_DELETING) | TO(INST_FAILED),
	[INST_DEGRADED] = TO(INST_RUNNING) | TO(INST_STOPPING) | TO(INST_STOPPED) | TO(INST_DELETING) | TO(INST_FAILED),
	[INST_STOPPING] = TO(INST_STOPPED) | TO(INST_RUNNING) | TO(INST_DELETING) | TO(INST_FAILED), /* deleted while it waits */
	[INST_STOPPED] = TO(INST_PROVISIONING) | TO(INST_RUNNING) | TO(INST_DELETING) | TO(INST_FAILED) | TO(INST_DELETED), /* never started */
	[INST_DELETING] = TO(INST_DELETED) | TO(INST_FAILED),
	[INST_DELETED] = 0,
	[INST_FAILED] = TO(INST_DELETING) | TO(INST_FAILED), /* for another reason */
};

const char *inst_state_text(enum inst_state s)
{
	return strtab_text(names, INST_STATE_MAX_, s);
}

int inst_state_parse(const char *text)
{
	return strtab_find(names, INST_STATE_MAX_, text);
}

bool inst_state_may(enum inst_state from, enum inst_state to)
{
	return from < INST_STATE_MAX_ && to < INST_STATE_MAX_ && (successors[from] & TO(to)) != 0;
}

int inst_enter(struct store_tx *tx, struct rows_instance *in, enum inst_state next, const char *error,
	       struct error *err)
{
	int r;

	assert(inst_state_may(in->state, next));
	if (next == INST_DELETED)
		r = store_exec(tx, "DELETE FROM instance WHERE name = ?", ARGS(ARG_TEXT(in->name)), err);
	else
		r = store_exec(tx, "UPDATE instance SET state = ?, error = ? WHERE name = ?",
			       ARGS(ARG_TEXT(inst_state_text(next)), ARG_TEXT(error), ARG_TEXT(in->name)), err);
	if (r == 0)
		in->state = next;
	return r;
}
