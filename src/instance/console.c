/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/thread.h"
#include "instance/manager.h"
#include "instance/state.h"
#include "instance/store.h"

#define WAITING_MAX 64 /* libvirt is stuck then */

struct console_asked {
	struct console_asked *next;
	char                  name[PLAN_NAME_MAX + 1];
	bool                  force;
	int                   fd; /* owned */
};

/* "CODE TEXT", in the place of "open" (instance.h); who is gone does not mind. */
static void refuse(int fd, const struct error *why)
{
	char line[sizeof(why->text) + 64];
	int n = snprintf(line, sizeof(line), "%s %s\n", error_name(why->code), why->text);

	(void)send(fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void open_console(struct inst_manager *m, struct console_asked *a)
{
	struct error why = ERROR_INIT;

	if (m->env.act.ops->console(m->env.act.self, a->name, a->force, a->fd, INST_CONSOLE_OPEN, &why) < 0)
		refuse(a->fd, &why);
	(void)close(a->fd);
	free(a);
}

static void *console_main(void *arg)
{
	struct inst_manager *m = arg;

	manager_begins(m, INST_THREAD_CONSOLES);
	(void)pthread_mutex_lock(&m->lock);
	while (!m->stop) {
		struct console_asked *a = m->console.first;

		if (!a) {
			(void)pthread_cond_wait(&m->console.cond, &m->lock);
			continue;
		}
		m->console.first = a->next;
		(void)pthread_mutex_unlock(&m->lock);
		open_console(m, a);
		(void)pthread_mutex_lock(&m->lock);
	}
	(void)pthread_mutex_unlock(&m->lock);
	return NULL;
}

int console_start(struct inst_manager *m, struct error *err)
{
	int r = thread_start(&m->console.thread, console_main, m);

	if (r != 0)
		return error_set(err, -r, "cannot start the thread for consoles: %s", strerror(r));
	m->console.started = true;
	return 0;
}

void console_stop(struct inst_manager *m)
{
	const struct error why = { .code = -EREMOTEIO, .text = "velad ends" };
	struct console_asked *a;

	if (!m->console.started)
		return;
	(void)pthread_mutex_lock(&m->lock);
	m->stop = true;
	(void)pthread_cond_signal(&m->console.cond);
	(void)pthread_mutex_unlock(&m->lock);
	(void)pthread_join(m->console.thread, NULL);
	m->console.started = false;
	while ((a = m->console.first)) {
		m->console.first = a->next;
		refuse(a->fd, &why);
		(void)close(a->fd);
		free(a);
	}
}

/* ---- asking for it -------------------------------------------------------------------------------------- */

static int find(struct store_tx *tx, enum inst_state *state, const char *name, struct error *err)
{
	struct rows_instance *in = NULL;
	struct arena arena = { 0 };
	int r = rows_instance_find(tx, &in, name, &arena, err);

	if (r == 0 && (!in || rows_is_holder(name)))
		r = error_set(err, -ENOENT, "there is no instance %s", name);
	if (r == 0)
		*state = in->state;
	arena_done(&arena);
	return r;
}

int inst_has_console(struct inst_manager *m, const char *name, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	enum inst_state state = INST_PLANNED;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = find(tx, &state, name, err);
	if (r < 0 || state == INST_RUNNING || state == INST_DEGRADED || state == INST_STOPPING)
		return r;
	return error_set(err, -EBUSY, "instance %s is %s; it has a console while it runs", name, inst_state_text(state));
}

int inst_exists(struct inst_manager *m, const char *name, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	enum inst_state ignored;
	int r = store_begin(&tx, m->store, err);

	return r < 0 ? r : find(tx, &ignored, name, err);
}

static unsigned waiting(const struct inst_manager *m)
{
	unsigned n = 0;

	for (const struct console_asked *a = m->console.first; a; a = a->next)
		n++;
	return n;
}

void inst_console(struct inst_manager *m, const char *name, bool force, int fd)
{
	const struct error why = { .code = -EUSERS, .text = "too many wait for a console; try again in a second" };
	struct console_asked *a = calloc(1, sizeof(*a)), **last = &m->console.first;

	if (a) {
		(void)snprintf(a->name, sizeof(a->name), "%s", name);
		a->force = force;
		a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	(void)pthread_mutex_lock(&m->lock);
	if (a && a->fd >= 0 && waiting(m) < WAITING_MAX) {
		while (*last)
			last = &(*last)->next;
		*last = steal(a);
		(void)pthread_cond_signal(&m->console.cond);
	}
	(void)pthread_mutex_unlock(&m->lock);
	if (!a) /* it waits now; or there was no memory: then its end says nothing */
		return;
	refuse(fd, &why);
	if (a->fd >= 0)
		(void)close(a->fd);
	free(a);
}
