/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance — guests and their life. The manager owns the store (SQLite) and the threads that work; it takes
 * plans, runs their steps through act, and after a crash finishes or undoes what was begun. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "act/act.h"
#include "base/auto.h"
#include "plan/plan.h"

struct arena;
struct error;
struct json_object;
struct plan_acs;
struct plan_acs_held;
struct plan_settings_held;
struct topo;
struct inst_manager; /* opaque */

enum inst_state {
	INST_PLANNED,
	INST_PROVISIONING,
	INST_RUNNING,
	INST_DEGRADED,
	INST_STOPPING,
	INST_STOPPED,
	INST_DELETING,
	INST_DELETED,
	INST_FAILED,
	INST_STATE_MAX_,
};

const char *inst_state_text(enum inst_state s);

enum inst_ats { INST_ATS_UNKNOWN, INST_ATS_OFF, INST_ATS_ON, INST_ATS_MAX_ };

const char *inst_ats_text(enum inst_ats a); /* "unknown" "off" "on" */

struct host_root;

/* How long a call on the machine may take. */
struct inst_deadlines {
	unsigned look_ms;   /* reading, and writing a register */
	unsigned bind_ms;   /* a driver, a module */
	unsigned vfs_ms;    /* making and removing VFs */
	unsigned reset_ms;  /* a function, until it is back; a partition of NVSwitches */
	unsigned domain_ms; /* asking libvirt */
	unsigned start_ms;  /* a guest, whose memory is taken and pinned meanwhile */
	unsigned stop_ms;
};

/* Of the guest's size, nothing is known here: these are for the largest. */
#define INST_DEADLINES ((struct inst_deadlines){ 10000, 60000, 300000, 120000, 30000, 900000, 300000 })

/* What is done to functions that come back, [release] of velad.conf. */
struct inst_release {
	const char *scrub; /* program; NULL none */
	unsigned    scrub_seconds;
	bool        unreset; /* a function that cannot be reset is given back all the same */
};

/* What becomes of a guest that ends by a fault, [guests] of velad.conf. */
struct inst_crash {
	bool     restart;
	unsigned limit, seconds; /* more than limit times within so many seconds: it is left stopped */
};

/* Threads that instances have, by what they do: run operations, look after guests, ask for consoles; make calls on the machine and libvirt,
 * and copy images. What a thread starts begins as that did, and says nothing. */
enum inst_thread { INST_THREAD_OPERATIONS, INST_THREAD_KEEPER, INST_THREAD_CONSOLES, INST_THREAD_CALLS, INST_THREAD_IMAGES, INST_THREAD_MAX_ };

struct inst_env {
	const char *store;  /* path of the SQLite file; its directory exists */
	struct act  act;
	void (*changed)(void *self); /* the machine changed: read it again. Called on a worker thread */
	void (*ended)(void *self);   /* an operation has ended, and that is committed; likewise. NULL: nobody waits */
	void (*begins)(void *self, enum inst_thread as); /* on such a thread, first of all. NULL: nothing is to be done */
	void       *self;
	struct inst_release release;
	struct inst_crash crash;
	bool restart; /* guests that ran when the host went down are started again when it comes up */
	struct host_root *root; /* borrowed; for counters of PCIe errors, groups, and the boot's id. NULL: nobody counts, and those are not known */
	struct inst_deadlines deadlines; /* all zero: INST_DEADLINES */
	unsigned    stop_ms;      /* for what runs when the daemon is told to end; 0: 10 s */
	unsigned    workers;      /* operations that run side by side; 0: one */
	unsigned    keep_ms;      /* between looks at the ports that running guests need; 0: only when told to */
	unsigned    keep_seconds; /* the same, at all that is looked at */
	uint32_t    vf_may_refuse; /* settings of VFs (bits of plan/vf.h) that a driver may refuse */
};

/* Opens the store and queues the recovery of what an earlier daemon left: an instance found provisioning
 * is undone and becomes failed; one found deleting is deleted to the end. */
int inst_manager_new(struct inst_manager **ret, const struct inst_env *env, struct error *err);
/* Waits for what runs, stop_ms at most; what is queued, or still runs then, stays in the store. */
void inst_manager_stop(struct inst_manager *m);
unsigned inst_hanging(struct inst_manager *m); /* calls of env.act that have not returned: what they use must not go */
struct inst_manager *inst_manager_free(struct inst_manager *m); /* stops it first */
AUTO_DEFINE(struct inst_manager *, inst_manager_free);

struct inst_key { /* all borrowed */
	uint32_t    uid;    /* whose */
	const char *text;
	const char *digest; /* of the request */
};

/* The operation that a request with this key began; 0: there is none. -EKEYREJECTED: it was another request. -EBUSY: it
 * has not ended; *ret_op is set. */
int inst_key_find(struct inst_manager *m, uint64_t *ret_op, const struct inst_key *key, struct error *err);
/* What the caller's thread begins next is committed with this key; NULL: without. */
void inst_key_use(struct inst_manager *m, const struct inst_key *key);

/* What the caller's thread begins next is begun only if the instance is of this generation still, else -EREMCHG. name NULL: of
 * any, which it is again after that. name is borrowed. */
void inst_expect(struct inst_manager *m, const char *name, uint64_t generation);

/* What the caller's thread begins between these two is committed together, at the end: till then nobody may be told of it. The end fails if
 * that did, now or before it (somebody else's transaction commits, too): then nothing is kept of what hangs on *failed. 0: all is. */
void     inst_batch_begin(struct inst_manager *m);
uint64_t inst_batch_mark(const struct inst_manager *m); /* what was begun or looked at up to now hangs on it */
int      inst_batch_commit(struct inst_manager *m, struct error *err); /* at once, for who cannot wait for the end; after a failure its error */
int      inst_batch_end(struct inst_manager *m, uint64_t *failed, struct error *err);

/* The four calls below commit to the store and return; the work happens on a worker.
 * -EEXIST: the name is taken. -EBUSY: a device is taken meanwhile, or an operation runs on the instance.
 * -ENOENT: no such instance. */
int inst_create(struct inst_manager *m, uint64_t *ret_op, const struct plan_request *request,
		const struct plan *plan, const char *uuid, struct error *err);
/* The same, but the guest is not started: it has its devices, and is "stopped". The operation has ended with this call, as does
 * that of its delete until it was started once. */
int inst_reserve(struct inst_manager *m, uint64_t *ret_op, const struct plan_request *request,
		 const struct plan *plan, const char *uuid, struct error *err);
int inst_delete(struct inst_manager *m, uint64_t *ret_op, const char *name, struct error *err);

enum inst_order { INST_START, INST_STOP, INST_REBOOT, INST_RESET, INST_ORDER_MAX_ };

/* grace: seconds that a stop leaves the guest to shut down by itself, before it is forced off; 0: at once. -ENOENT; -EBUSY: it
 * is in another state, or an operation runs on it. An instance that is stopped keeps its devices. */
int inst_order(struct inst_manager *m, uint64_t *ret_op, const char *name, enum inst_order order, unsigned grace, struct error *err);

struct inst_moved {
	bool        moved;   /* a card of it is in another place than when it was planned; else the rest is not set */
	const char *request, *uuid;
	struct bdf *device;  /* what it has, where that is now */
	size_t      n;
};

int inst_moved(struct inst_manager *m, struct inst_moved *ret, const char *name, struct arena *arena, struct error *err); /* in the arena */
/* As INST_START. plan: instead of the one it had, with its domain XML and the like, of where its cards are; NULL: they are where they were,
 * or -EBUSY. */
int inst_start(struct inst_manager *m, uint64_t *ret_op, const char *name, const struct plan *plan, struct error *err);

/* Those that ran when the host went down, and are to be started again: each is for inst_start(), with another plan where its cards are in
 * other places, or inst_start_not(), which notes why. They are told once, and again after inst_start_later(). Names in the arena. */
int inst_to_start(struct inst_manager *m, const char ***ret, size_t *n, struct arena *arena, struct error *err);
void inst_start_later(struct inst_manager *m);
int inst_start_not(struct inst_manager *m, const char *name, const struct error *why, struct error *err);

/* The console of a guest that runs, for a client's socket: first a line, "open", or why not, "CODE TEXT" (base/error.h's codes);
 * then what the guest says and is told, until either ends. Returns at once; fd stays the caller's. */
#define INST_CONSOLE_OPEN "open\n"
void inst_console(struct inst_manager *m, const char *name, bool force, int fd);
/* -EBUSY: it does not run. -ENOENT: no such instance. */
int inst_has_console(struct inst_manager *m, const char *name, struct error *err);
int inst_exists(struct inst_manager *m, const char *name, struct error *err); /* -ENOENT */

/* Functions that must not be given, and how often each was, for the planner; in the arena. What is in quarantine is a card where its
 * serial number is known: it is looked for in topo, here and below. topo NULL: each is where it was. */
int inst_quarantined(struct inst_manager *m, struct plan_sick **ret, size_t *n, const struct topo *topo, struct arena *arena,
		     struct error *err);
int inst_wear(struct inst_manager *m, struct plan_wear **ret, size_t *n, struct arena *arena, struct error *err);
/* By an operator. -EEXIST: it is there already. What an instance has stays with it, and is not given again. */
int inst_quarantine_add(struct inst_manager *m, struct bdf bdf, const char *reason, const struct topo *topo, struct error *err);
/* An operation: it is verified first, and reset where an instance had it; a card that is gone is forgotten. -ENOENT: it is not there;
 * -EBUSY: an instance has it. */
int inst_quarantine_release(struct inst_manager *m, uint64_t *ret_op, struct bdf bdf, const struct topo *topo, struct error *err);
/* A queued operation ends at once; one that runs takes back what it did when it is between two steps, ends as "cancelled" and
 * leaves no instance. It may be through before that, or unable to give all back: its end tells. -ENOENT; -EBUSY: it has
 * ended, or is none that can be cancelled (delete, ACS restore). */
int inst_cancel(struct inst_manager *m, uint64_t op, struct error *err);

struct inst_foreign {
	struct bdf  bdf;
	const char *domain;
	bool        runs;
};

/* Functions of domains that are no instance's, by BDF; in the arena. *known: libvirt has answered when it was asked last. */
int inst_foreign(struct inst_manager *m, struct inst_foreign **ret, size_t *n, bool *known, struct arena *arena, struct error *err);
/* Whether it was tried to hold what the store has against libvirt and the machine, and guests have what they need, since this daemon runs. */
bool inst_adopted(const struct inst_manager *m);
/* The first of the two: where cards are is known since. env.ended is called then. */
bool inst_looked(const struct inst_manager *m);
/* Devices that instances hold, and domains that are no instance's, for the planner; strings in the arena. */
int inst_taken(struct inst_manager *m, struct plan_taken **ret, size_t *n, struct arena *arena,
	       struct error *err);
/* Another number after each event of a domain and each end of an operation: what was read of memory before it, and what inst_rooms() says after
 * it, do not go together. */
uint64_t inst_news(const struct inst_manager *m);
/* CPUs and memory that they hold, likewise. */
int inst_rooms(struct inst_manager *m, struct plan_room **ret, size_t *n, struct arena *arena, struct error *err);
/* A libvirt domain changed: a guest powered off, was destroyed behind our back, or is one that we know nothing of. NULL: any may have. */
void inst_domain_changed(struct inst_manager *m, const char *name, enum act_domain state);
/* Ports whose ACS control instances hold, with what it was before, for the planner; in the arena. */
int inst_acs_held(struct inst_manager *m, struct plan_acs_held **ret, size_t *n, struct arena *arena, struct error *err);
/* A port whose ACS control is held, once for each holder; by port. */
struct inst_acs_hold {
	struct bdf  port;
	uint16_t    was; /* Direct Translated P2P and Translation Blocking, before the first */
	const char *by;  /* the name of an instance; INST_ACS_APPLY */
};
#define INST_ACS_APPLY "acs apply"

/* As inst_acs_held(), with who. */
int inst_acs_holds(struct inst_manager *m, struct inst_acs_hold **ret, size_t *n, struct arena *arena, struct error *err);
/* An ACS plan as an operation: its ports are written and kept, also after resets, until they are restored; instead of those
 * of an earlier apply. plan: of plan_acs_steps(). Restoring gives back what no instance needs. -EBUSY: one of the two waits
 * or runs. */
int inst_acs_apply(struct inst_manager *m, uint64_t *ret_op, const struct plan_acs *plan, struct error *err);
int inst_acs_restore(struct inst_manager *m, uint64_t *ret_op, struct error *err);
#define INST_POOL "pool"
struct plan_pool;
struct plan_pool_conf;
/* The pool of velad.conf as an operation, instead of what is in it now; what of it fails is tried again by the next. Releasing gives
 * back what no instance has. -EBUSY: one of the two waits or runs. */
int inst_pool_apply(struct inst_manager *m, uint64_t *ret_op, const struct plan_pool *plan, struct error *err);
int inst_pool_release(struct inst_manager *m, uint64_t *ret_op, struct error *err);
/* Whether it has these steps, and all were done. -EBUSY as above. */
int inst_pool_is(struct inst_manager *m, bool *ret, const struct plan_pool *plan, struct error *err);
/* Whether it is being made or given back. */
int inst_pool_busy(struct inst_manager *m, bool *ret, struct error *err);
/* plan_pool_json() with what is held. */
int inst_pool_json(struct inst_manager *m, struct json_object **ret, const struct plan_pool *plan, const struct plan_pool_conf *conf,
		   struct error *err);
/* What else of functions and ports they hold, likewise. */
int inst_settings_held(struct inst_manager *m, struct plan_settings_held **ret, size_t *n, struct arena *arena,
		       struct error *err);
/* The machine may have changed: look whether running guests still have what their plans set. From any thread. */
void inst_machine_changed(struct inst_manager *m);
/* velad-helper, or whatever else was not there, is there again: what waits for it is tried now. Likewise. */
void inst_helper_back(struct inst_manager *m);
/* Something was done that takes memory for a while: what of it is free is given back (base/memory) once nothing was done for a second. */
void inst_rest(struct inst_manager *m);
/* Cards came or went: look where those of instances are. Likewise. */
void inst_cards_changed(struct inst_manager *m);
/* The generation counter of topologies survives restarts: stores and returns the next one. */
int inst_generation_next(struct inst_manager *m, uint64_t *ret, struct error *err);

/* JSON of docs/openapi.json; -ENOENT with a sentence if there is none. The caller puts it. */
int inst_json(struct inst_manager *m, struct json_object **ret, const char *name, struct error *err);
struct inst_text {
	const char *text;       /* borrowed until the next call */
	uint64_t    generation; /* of the instance */
	uint64_t    number;     /* another text of this process has another one; never 0 */
};

/* The same as text. For the thread of the API only. */
int inst_text(struct inst_manager *m, struct inst_text *ret, const char *name, struct error *err);
int inst_list_text(struct inst_manager *m, const char **ret, bool brief, struct error *err);
/* {"name", "xml"}: NCCL's topology file for the guest. -ENOENT: there is none without GPUs, or no such instance. */
int inst_nccl_json(struct inst_manager *m, struct json_object **ret, const char *name, struct error *err);
/* {"name", "rack", "host", "gpus", "vfs", "tenant"}: which functions of the host the guest's are. -ENOENT: no such instance, or made by a velad
 * that had none. */
struct inst_where { /* NULL: not known, or not told */
	const char *rack, *host, *tenant_rack;
	const char *(*tenant_host)(char ret[33], const char *tenant); /* an id of this host that says nothing of it to anybody else */
};
int inst_rank_json(struct inst_manager *m, struct json_object **ret, const char *name, const struct inst_where *where,
		   struct error *err);
struct inst_filter {
	const char *state;        /* NULL: any. -EINVAL: no such state */
	const char *tag, *value;  /* NULL: any; value NULL: any of this tag */
	const char *after;        /* names above it; NULL: all */
	size_t      limit;        /* 0: none */
	bool        brief;        /* what a table shows, not whole documents */
};
/* {"instances": [...], "next": NAME}, by name; next: `after` of the next page, null at the end. f NULL: all. */
int inst_list_json(struct inst_manager *m, struct json_object **ret, const struct inst_filter *f, struct error *err);
int inst_quarantine_json(struct inst_manager *m, struct json_object **ret, const struct topo *topo, struct error *err);
int inst_op_json(struct inst_manager *m, struct json_object **ret, uint64_t op, struct error *err);
int inst_op_ended(struct inst_manager *m, bool *ret, uint64_t op, struct error *err); /* -ENOENT */

struct inst_count {
	const char *kind, *state; /* kind "" of instances */
	uint64_t    n;
};
/* Instances by state, operations by kind and state, functions in quarantine; in the arena. */
int inst_counts(struct inst_manager *m, struct inst_count **instance, size_t *instances, struct inst_count **op, size_t *ops,
		uint64_t *quarantined, struct arena *arena, struct error *err);

struct inst_op_filter {
	const char *instance, *state; /* NULL: any. -EINVAL: no such state */
	uint64_t    before; /* only those with lower ids; 0: all */
	size_t      limit;
};
/* {"operations": [...], "next": N}, newest first, without steps; next: `before` of the next page, null at the end. */
int inst_op_list_json(struct inst_manager *m, struct json_object **ret, const struct inst_op_filter *f, struct error *err);
