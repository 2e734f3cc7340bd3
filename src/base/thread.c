/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The mask is inherited: it is set around the call, so that no signal finds the new thread open. */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int thread_start(pthread_t *ret, void *(*main)(void *), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	/* glibc: these fail for no argument that is given here */
	(void)sigfillset(&all);
	(void)pthread_attr_init(&attr);
	if (!ret)
		(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret ? ret : &thread, &attr, main, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	return r;
}
