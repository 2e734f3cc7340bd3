/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread that looks at what is kept: when it is told to, and as often as there is something to look at. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "instance/manager.h"

/* After a failure of the store; doubled as long as it lasts. */
#define RETRY_MS     5000
#define RETRY_MS_MAX 80000

struct due { /* when it looks next at what; 0: never */
	uint64_t words, all;
};

static struct due due(const struct inst_manager *m, uint64_t words, uint64_t all)
{
	const struct keep *k = &m->keep;
	struct due d = { 0 };

	if (k->nports && m->env.keep_ms)
		d.words = words + m->env.keep_ms;
	if (k->nports + k->nothers && m->env.keep_seconds)
		d.all = all + 1000u * m->env.keep_seconds;
	return d;
}

static void wait_until(struct inst_manager *m, uint64_t at)
{
	struct timespec until = clock_at(at);

	if (at)
		(void)pthread_cond_timedwait(&m->keep.cond, &m->lock, &until);
	else
		(void)pthread_cond_wait(&m->keep.cond, &m->lock);
}

/* What to look at now; 0: stop. words, all: when that was done last; failed: not before then, unless told. */
static unsigned wait_for(struct inst_manager *m, uint64_t words, uint64_t all, uint64_t failed)
{
	unsigned what = 0;

	(void)pthread_mutex_lock(&m->lock);
	while (!m->stop && !what) {
		struct due d = due(m, words, all);
		uint64_t now = clock_ms(), at = d.words && (!d.all || d.words < d.all) ? d.words : d.all;

		if (failed && at < failed)
			at = failed;
		what = m->keep.told;
		if (at && now >= at)
			what |= d.all && now >= d.all ? KEEP_ALL : KEEP_WORDS;
		if (!what)
			wait_until(m, at);
	}
	m->keep.told = 0;
	if (m->stop)
		what = 0;
	(void)pthread_mutex_unlock(&m->lock);
	return what;
}

static void *keeper_main(void *arg)
{
	struct inst_manager *m = arg;
	uint64_t words = clock_ms(), all = words;
	struct backoff retry = { 0 };
	unsigned what;

	manager_begins(m, INST_THREAD_KEEPER);
	while ((what = wait_for(m, words, all, retry.until))) {
		struct error err = ERROR_INIT;
		int r = keep_look(m, (enum keep_what)what, &err);

		words = clock_ms();
		if (what == KEEP_ALL)
			all = words;
		if (r == 0) {
			retry = (struct backoff){ 0 };
			continue;
		}
		backoff_failed(&retry, words, RETRY_MS, RETRY_MS_MAX);
		log_err("%s; looking again in %u s", err.text, backoff_seconds(&retry, words));
	}
	return NULL;
}

int keep_start(struct inst_manager *m, struct error *err)
{
	int r = thread_start(&m->keep.thread, keeper_main, m);

	if (r != 0)
		return error_set(err, -r, "cannot start the thread that looks after guests: %s", strerror(r));
	m->keep.started = true;
	return 0;
}

void keep_stop(struct inst_manager *m)
{
	if (!m->keep.started)
		return;
	(void)pthread_mutex_lock(&m->lock);
	m->stop = true;
	(void)pthread_cond_signal(&m->keep.cond);
	(void)pthread_mutex_unlock(&m->lock);
	(void)pthread_join(m->keep.thread, NULL);
	m->keep.started = false;
}

void keep_wake(struct inst_manager *m, enum keep_what what)
{
	(void)pthread_mutex_lock(&m->lock);
	m->keep.told |= what;
	(void)pthread_cond_signal(&m->keep.cond);
	(void)pthread_mutex_unlock(&m->lock);
}
