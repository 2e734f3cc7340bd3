/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/current — the topology as the machine is now. Changes are heard of (host/watch), collected until it is quiet,
 * and read by threads of their own (velad/readers), for reading may block as long as a driver takes to make VFs, or for good; then they are a
 * new generation. Where nothing can be heard, everything is read each time.
 *
 * Who needs what is not older than his question asks with a mark, a number of his own that is 0 at first: the reading is waited for a
 * moment, since most take less; CURRENT_WAIT says that it takes longer, and that he shall ask again with the same mark when read() was called. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/auto.h"
#include "base/seccomp.h"

struct current; /* opaque; lives on the loop's thread */
struct error;
struct host_changes;
struct host_kinds;
struct host_root;
struct inst_manager;
struct json_object;
struct stuck;
struct topo;

#define CURRENT_WAIT 1

struct current_env { /* all borrowed, and outlive it */
	sd_event                *event;
	struct host_root        *root;
	const struct host_kinds *kinds;
	struct inst_manager     *instances; /* for numbers of generations */
	struct act_machine      *machine;   /* whose helper opens what this process may not */
	void (*helper_back)(void *self);    /* that helper was away, and is there again: all was read anew */
	void (*read)(void *self);           /* a reading is through: who waits for one asks again */
	void                    *self;
	unsigned                 look_ms;   /* that the reading of one file may take */
	enum seccomp_how         seccomp;   /* velad/sandbox */
	const char              *uevents;   /* a socket that uevents come from; NULL: the kernel, if the root is its own */
};

enum current_need { /* what must not be older than the call, beside what can be heard of */
	CURRENT_CONTROLS, /* registers: ACS, ATS, links; a second is young enough */
	CURRENT_TOPOLOGY, /* the same; ten seconds are young enough for all else that has no event: LLDP, firmware */
	CURRENT_HOST,     /* memory, hugepages, modules; a second is young enough */
	CURRENT_PLAN,     /* the same, of this moment */
	CURRENT_ALL,      /* everything */
};

/* Reads everything. */
int current_new(struct current **ret, const struct current_env *env, struct error *err);
/* False: a thread hangs in the machine, and what it uses has to stay until the process ends. NULL is fine. */
bool current_free(struct current *c);

const struct topo *current_topo(const struct current *c); /* never NULL; until the next call of those below, or the loop's next round */
bool current_helper_away(struct current *c); /* when velad-helper is there again, helper_back() is called */
/* The i-th file whose reading has not returned, so that what it says is unknown; NULL: there are no more. */
const struct stuck *current_stuck(const struct current *c, unsigned i);

/* 0, CURRENT_WAIT, or what went wrong with the reading. */
int  current_catch_up(struct current *c, enum current_need need, uint64_t *mark, struct error *err);
/* As CURRENT_PLAN, for a request that came then (CLOCK_MONOTONIC, us): what was read for another since is of now, unless something was heard
 * of, or news is another number than at that time. */
int  current_catch_up_for(struct current *c, uint64_t came, uint64_t news, uint64_t *mark, struct error *err);
/* Reads these functions, whatever was heard of them: 0, CURRENT_WAIT, -errno, or CURRENT_DIFFERS: the machine is not what it was, and there is a
 * new generation. Who has waited is asked for CURRENT_WAIT first by current_catch_up(), and gets 0 then: he has planned by what was read. */
#define CURRENT_DIFFERS 2
int  current_verify(struct current *c, const struct host_changes *which, uint64_t *mark, struct error *err);
/* For who cannot wait any more: -ETIMEDOUT, and what it is that takes so long. */
int  current_too_slow(struct current *c, struct error *err);
void current_disturbed(struct current *c); /* velad itself has changed the machine */
void current_refresh(struct current *c);   /* reads everything, some time soon */
/* {"generation", "changes": [...]} after that generation; -EIDRM: it is too old, or another life's. */
int  current_changes(struct current *c, struct json_object **ret, uint64_t since, struct error *err);
