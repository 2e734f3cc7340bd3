/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/adopt — asks libvirt and the machine, holds them against the store (instance/reconcile), and notes what comes of it, in one
 * transaction. When velad starts, when libvirt comes or goes, again where it did not answer, when a domain changes of which velad
 * knows nothing, and before an operation touches devices. */

#include <stdatomic.h>
#include <stdbool.h>

#include "base/bdf.h"

#define ADOPT_MOVED "device.moved" /* a finding that stays until a start with another plan */

struct error;
struct inst_manager;
struct job;

struct adopt {
	char        boot[40];  /* of the host; "" unknown */
	atomic_uint news;      /* of domains that are no instance's, or of all */
	atomic_uint seen;      /* news when libvirt was asked last */
	atomic_bool asked;     /* and it answered */
	atomic_bool looked;    /* at the machine, once */
	atomic_ullong asking;  /* since when libvirt owes an answer, ms; 0: it does not */
	atomic_bool tried;     /* likewise, whatever came of it */
	atomic_bool settled;   /* tried, and at what running guests need was looked, too */
	atomic_bool to_start;  /* some instance may be for a start */
	atomic_bool silent;    /* that it does not answer was said */
};

void adopt_init(struct inst_manager *m);
/* With the store, before anybody asks: of what ran in another boot of the host nobody knows whether it runs. */
int adopt_begin(struct inst_manager *m, struct error *err);
/* machine: look at it, too. What cannot be asked is no error, only what the store refuses. */
int adopt_look(struct inst_manager *m, bool machine, struct error *err);
/* After an operation: what was said of the instance may not be so any more. */
void adopt_look_after(struct inst_manager *m, const char *name);
/* Before the operation gives or takes devices: -EBUSY if another domain has one of them. must: -EREMOTEIO if libvirt cannot be asked. */
int adopt_check(struct inst_manager *m, struct job *j, bool must, struct error *why);
/* -ENODEV, -ESTALE: where one of its cards was is none, or another one. */
int adopt_check_cards(struct inst_manager *m, struct job *j, struct error *why);
/* The same as the first for a function that is nobody's. */
int adopt_check_function(struct inst_manager *m, struct bdf bdf, struct error *why);
