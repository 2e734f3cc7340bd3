/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

struct worker {
	struct worker_does does;
	pthread_t          thread;
	bool               has_thread;
	pthread_mutex_t    lock; /* of the next three */
	pthread_cond_t     turn;
	bool               busy, ended; /* there is a job; there will be none any more */
	int                fd;     /* eventfd, owned */
	sd_event_source   *source; /* owned */
};

static void *run(void *arg)
{
	struct worker *w = arg;

	sandbox_thread(w->does.is, w->does.how);
	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->busy && !w->ended)
			(void)pthread_cond_wait(&w->turn, &w->lock);
		if (w->ended)
			break;
		(void)pthread_mutex_unlock(&w->lock);
		w->does.work(w->does.self);
		(void)pthread_mutex_lock(&w->lock);
		w->busy = false;
		(void)pthread_mutex_unlock(&w->lock); /* whoever wakes up finds it free */
		(void)pthread_cond_broadcast(&w->turn);
		(void)eventfd_write(w->fd, 1); /* fails only if 2^64 writes were not read */
		(void)pthread_mutex_lock(&w->lock);
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t events, void *self)
{
	struct worker *w = self;
	eventfd_t n;

	(void)source, (void)events;
	(void)eventfd_read(fd, &n);
	if (!worker_busy(w)) /* else it comes again */
		w->does.done(w->does.self);
	return 0;
}

int worker_new(struct worker **ret, sd_event *event, const struct worker_does *does, struct error *err)
{
	auto_(worker_free) struct worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_set(err, -ENOMEM, "no memory for the thread %s", does->what);
	w->does = *does;
	(void)pthread_mutex_init(&w->lock, NULL); /* glibc: neither fails without attributes */
	(void)pthread_cond_init(&w->turn, NULL);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0)
		return error_set(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	r = sd_event_add_io(event, &w->source, w->fd, EPOLLIN, on_done, w);
	if (r < 0)
		return error_set(err, r, "cannot watch for the end of jobs: %s", strerror(-r));
	r = thread_start(&w->thread, run, w);
	w->has_thread = r == 0;
	if (r)
		return error_set(err, -r, "cannot start the thread %s: %s", does->what, strerror(r));
	*ret = steal(w);
	return 0;
}

struct worker *worker_free(struct worker *w)
{
	if (!w)
		return NULL;
	(void)pthread_mutex_lock(&w->lock);
	w->ended = true;
	(void)pthread_cond_broadcast(&w->turn);
	(void)pthread_mutex_unlock(&w->lock);
	if (w->has_thread)
		(void)pthread_join(w->thread, NULL);
	sd_event_source_disable_unref(w->source);
	if (w->fd >= 0)
		(void)close(w->fd);
	(void)pthread_cond_destroy(&w->turn);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

void worker_start(struct worker *w)
{
	(void)pthread_mutex_lock(&w->lock);
	assert(!w->busy);
	w->busy = true;
	(void)pthread_mutex_unlock(&w->lock);
	(void)pthread_cond_broadcast(&w->turn);
}

bool worker_busy(struct worker *w)
{
	bool busy;

	(void)pthread_mutex_lock(&w->lock);
	busy = w->busy;
	(void)pthread_mutex_unlock(&w->lock);
	return busy;
}

bool worker_await_for(struct worker *w, uint64_t usec)
{
	uint64_t end = clock_usec(CLOCK_MONOTONIC) + usec;
	struct timespec until = { .tv_sec = (time_t)(end / 1000000), .tv_nsec = (long)(end % 1000000) * 1000 };
	bool busy;

	(void)pthread_mutex_lock(&w->lock);
	while (w->busy && pthread_cond_clockwait(&w->turn, &w->lock, CLOCK_MONOTONIC, &until) == 0)
		;
	busy = w->busy;
	(void)pthread_mutex_unlock(&w->lock);
	return !busy;
}
