/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* thread — threads that get no signals: those are for the main thread's event loop, which wants them blocked everywhere
 * (sd_event_add_signal(3)). */

#include <pthread.h>

/* ret NULL: nobody will join it, it is detached. A positive error number, as of pthread_create(3). */
int thread_start(pthread_t *ret, void *(*main)(void *), void *arg);
