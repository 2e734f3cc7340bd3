/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/manager — what the files of this room share. What is known about instances is in the store
 * only; the members below `lock` are all that two threads share beside it. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "instance/adopt.h"
#include "instance/console.h"
#include "instance/guard.h"
#include "instance/instance.h"
#include "instance/keep.h"
#include "instance/pool.h"
#include "instance/rows.h"
#include "instance/text.h"
#include "instance/targets.h"

struct arena;
struct json_object;
struct store;
struct store_tx;

struct inst_manager {
	struct store   *store; /* owned; has its own lock */
	struct inst_env env;   /* env.store is not kept; env.act is that of guard */
	struct guard   *guard; /* the crew's: a call that hangs looks at it when it returns */
	struct guard_self self;
	struct targets  targets;
	struct texts    texts;
	const struct inst_key *key; /* of the request that is handled, borrowed; for the thread of the API only */
	struct {
		const char *name; /* NULL: of any; borrowed; likewise */
		uint64_t    generation;
	} expect;
	bool            wakes; /* what the batch has begun is for the pool; likewise */
	uint64_t        inherited; /* operations up to this id are of an earlier daemon */
	atomic_uint     domain_news; /* events, and ends of operations: what was seen of a domain before one may be old */
	struct adopt    adopt;
	struct keep     keep;
	pthread_mutex_t lock;
	struct pool     pool;
	struct console  console;
	bool            stop; /* under lock */
};

void manager_begins(struct inst_manager *m, enum inst_thread as); /* inst_env.begins */

struct rows_instance;
/* Before what takes it apart. -EBUSY: an operation runs on it. */
int manager_check_idle(struct store_tx *tx, const struct rows_instance *in, struct arena *arena, struct error *err);
int manager_check_queue(struct store_tx *tx, struct error *err); /* -EBUSY: too much is queued */

/* Calls fn in one transaction, which is committed (with the batch, if there is one) if it returns 0 or 1. 0: then the pool is woken; 1: the operation has ended already. fn
 * writes the id of the operation that it added; what it reads lives in the arena. */
typedef int manager_begin_fn(struct store_tx *tx, uint64_t *ret_op, const void *arg, struct arena *arena, struct error *err);
int manager_begin(struct inst_manager *m, uint64_t *ret_op, manager_begin_fn *fn, const void *arg, struct error *err);

/* src/instance/look.c: asks libvirt about the domain of one instance. */
int domain_look(struct inst_manager *m, const char *name, struct error *err);
/* An event. True if the state of the instance changed by it, or may have. *ours is set if there is such an instance. */
bool manager_note_domain(struct inst_manager *m, bool *ours, const char *name, enum act_domain state);

/* [{"id","target","from","to","state"}...]; NULL: no memory. */
struct json_object *json_steps(const struct rows_step *step, size_t n, bool backwards);
/* The whole document of one; -ENOENT. */
int json_instance(struct inst_manager *m, struct store_tx *tx, struct json_object **ret, const char *name, struct arena *arena,
		  struct error *err);
/* "domain_xml" of a plan as it is stored; the caller frees. */
int json_plan_xml(char **ret, const char *plan, struct error *err);
