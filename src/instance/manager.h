/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/manager — what the files of this room share. What is known about instances is in the store
 * only; the members below `lock` are all that two threads share beside it. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "instance/instance.h"
#include "instance/keep.h"
#include "instance/rows.h"

struct json_object;
struct store;
struct store_tx;

struct inst_manager {
	struct store   *store; /* owned; has its own lock */
	struct inst_env env;   /* env.store is not kept */
	uint64_t        inherited; /* operations up to this id are of an earlier daemon */
	struct keep     keep;
	pthread_t       thread;
	bool            started;
	pthread_mutex_t lock;
	pthread_cond_t  cond;
	bool            stop; /* under lock, with cond, like the next */
	unsigned        work; /* WORKER_* */
};

int  worker_start(struct inst_manager *m, struct error *err);
void worker_stop(struct inst_manager *m); /* waits for the running job */

enum {
	WORKER_QUEUE = 1, /* an operation waits */
	WORKER_KEEP = 2,  /* look whether running guests have what their plans set */
	WORKER_LOOK = 4,  /* compare all instances with their domains */
};
void worker_wake(struct inst_manager *m, unsigned work);

int manager_check_queue(struct store_tx *tx, struct error *err); /* -EBUSY: too much is queued */

/* True if the state of the instance changed by it. *ours is set if there is such an instance. */
bool manager_note_domain(struct inst_manager *m, bool *ours, const char *name, enum act_domain state);

/* [{"id","target","from","to","state"}...]; NULL: no memory. */
struct json_object *json_steps(const struct rows_step *step, size_t n, bool backwards);
/* "domain_xml" of a plan as it is stored; the caller frees. */
int json_plan_xml(char **ret, const char *plan, struct error *err);
