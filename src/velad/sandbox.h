/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/sandbox — which system calls velad has: for each kind of thread a short list of its own, which the thread puts on when it begins;
 * and for all of them together one that the process puts on before it starts the first of them. */

#include <stddef.h>

#include "base/seccomp.h"

struct error;

#define SANDBOX_CALLS_MAX 31 /* of a kind */

enum sandbox_thread {
	SANDBOX_LOOP,       /* clients, the store; the process's first thread, once everything is open */
	SANDBOX_END,        /* waits, and takes everything apart */
	SANDBOX_READER,     /* reads the machine */
	SANDBOX_PLANNER,    /* makes plans, and counts what fits */
	SANDBOX_LIBVIRT,    /* hears of domains */
	SANDBOX_OPERATIONS, /* runs operations, and has others run parts of them */
	SANDBOX_KEEPER,     /* looks after guests */
	SANDBOX_CONSOLES,   /* asks for consoles */
	SANDBOX_CALLS,      /* calls on the machine and libvirt, and who starts these threads */
	SANDBOX_IMAGES,     /* likewise, copying images */
	SANDBOX_THREAD_MAX_,
};

const char *sandbox_text(enum sandbox_thread t); /* what such a thread is called, in ps(1) and in the kernel's log */
const int  *sandbox_calls(enum sandbox_thread t, size_t *n);
size_t      sandbox_process_calls(int to[SECCOMP_CALLS_MAX]); /* how many: the lists of all kinds, and what the start needs besides */

/* The process, while it has but one thread: what any kind has, and what is needed until everything is open; programs are nowhere among it. What
 * is not on it is not done, but nobody dies of it who has no list of his own: libraries try what a kernel may not have. */
int sandbox_process(enum seccomp_how how, struct error *err);
/* This thread besides, and those that it starts. Ends the process where that cannot be. */
void sandbox_thread(enum sandbox_thread t, enum seccomp_how how);
