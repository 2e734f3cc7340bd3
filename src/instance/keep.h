/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/keep — what running guests need stays as their plans set it: ACS control of ports, and ATS of NICs, which is
 * not velad's to set. A thread of its own looks, so that no operation keeps it from looking; beside it the pool does,
 * after operations. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "host/aer.h"
#include "instance/instance.h"
#include "instance/rows.h"

enum kept_kind { KEPT_PORT, KEPT_NIC, KEPT_GPU };

struct kept { /* one thing of one instance that runs */
	const char      *instance, *device;
	enum inst_state  state; /* of the instance */
	const char      *error; /* of the instance; "" none */
	enum kept_kind   kind;
	bool             required; /* gdr */
	struct bdf       bdf;
	struct rows_step step;  /* of a port */
	size_t           first; /* in the list, of this port: read for all of them */
	int              seen;  /* whether it could be read */
	uint16_t         was;   /* a port's ACS control, when it was lost */
	bool             lost;
	enum inst_ats    ats;   /* of a NIC or GPU */
	bool             looked; /* at it, at least once */
	bool             told;  /* that its ATS is off */
	int              r;     /* what is wrong and stays so: err */
	struct error     err;
	struct host_aer  aer, more; /* counters as they were read last, and by how much they have grown since */
};

struct keep_seen { /* what is shown of it */
	struct bdf    bdf;
	enum inst_ats ats;
};

struct keep {
	pthread_mutex_t lock;    /* of all up to seen_lock; steps that change what is kept hold it, too */
	struct arena    arena;   /* of the list */
	struct kept    *at;      /* by instance */
	size_t          n;
	bool            listed;
	uint64_t        commits; /* of the store, when the list was made */

	pthread_mutex_t   seen_lock;
	struct keep_seen *seen;  /* owned */
	size_t            nseen;
	atomic_ullong     looks; /* how often it changed */

	pthread_t       thread; /* below: under the manager's lock */
	bool            started;
	pthread_cond_t  cond;
	unsigned        told;    /* KEEP_*; 0: nobody told it to look */
	unsigned        nports, nothers; /* in the list: how often it looks */
};

enum keep_what {
	KEEP_WORDS = 1, /* control words of ports */
	KEEP_ALL = 3,   /* and ATS of functions, and error counters */
};

int  keep_start(struct inst_manager *m, struct error *err);
void keep_stop(struct inst_manager *m); /* waits for the look that runs; what was never started is fine */
void keep_wake(struct inst_manager *m, enum keep_what what); /* look at once */
/* What is lost is set again; what cannot be makes the instance "degraded", until it can. */
int keep_look(struct inst_manager *m, enum keep_what what, struct error *err);

/* src/instance/keep_list.c: makes the list anew, if the store has changed; what was seen is taken over. */
int keep_list(struct inst_manager *m, struct error *err);
/* src/instance/keep_ats.c: reads what is not velad's to set. */
void keep_ats(struct inst_manager *m);
void keep_aer(struct inst_manager *m);
enum inst_ats keep_seen(struct inst_manager *m, struct bdf bdf);
