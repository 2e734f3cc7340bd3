/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/current — the topology as the machine is now. Changes are heard of (host/watch), collected until it is quiet,
 * and read by a thread of their own, for reading may block as long as a driver takes to make VFs; then they are a
 * new generation. Who cannot wait catches up at once. Where nothing can be heard, everything is read each time. */

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
struct topo;

struct current_env { /* all borrowed, and outlive it */
	sd_event                *event;
	struct host_root        *root;
	const struct host_kinds *kinds;
	struct inst_manager     *instances; /* for numbers of generations */
	struct act_machine      *machine;   /* whose helper opens what this process may not */
	void (*helper_back)(void *self);    /* that helper was away, and is there again: all was read anew */
	void                    *self;
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
struct current *current_free(struct current *c); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct current *, current_free);

const struct topo *current_topo(const struct current *c); /* never NULL; until the next call of those below */
bool current_helper_away(struct current *c); /* when velad-helper is there again, helper_back() is called */
int  current_catch_up(struct current *c, enum current_need need, struct error *err);
/* As CURRENT_PLAN, for a request that came then (CLOCK_MONOTONIC): what was read for another since is of now, unless something was heard of,
 * or news is another number than at that time. */
int  current_catch_up_for(struct current *c, uint64_t came, uint64_t news, struct error *err);
/* Reads these functions, whatever was heard of them: 1 if anything differs, and then there is a new generation. */
int  current_verify(struct current *c, const struct host_changes *which, struct error *err);
void current_disturbed(struct current *c); /* velad itself has changed the machine */
/* {"generation", "changes": [...]} after that generation; -EIDRM: it is too old, or another life's. */
int  current_changes(struct current *c, struct json_object **ret, uint64_t since, struct error *err);
