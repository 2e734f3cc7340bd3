/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hyper/news.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/utf8.h"

void news_init(struct news *n)
{
	/* glibc: these never fail without attributes */
	(void)pthread_mutex_init(&n->lock, NULL);
	(void)pthread_cond_init(&n->more, NULL);
}

/* With name NULL, or without room: velad then looks at all of its domains. None of these has a name that JSON does not take. */
void news_add(void *self, const char *name, enum act_domain state)
{
	struct news *n = self;
	char *copy = NULL;

	if (name && !utf8_printable(name))
		return;
	(void)pthread_mutex_lock(&n->lock);
	if (name && n->n < ARRAY_SIZE(n->event))
		copy = strdup(name);
	if (copy)
		n->event[n->n++] = (struct hyper_event){ copy, state };
	else
		n->changed = true;
	(void)pthread_cond_signal(&n->more);
	(void)pthread_mutex_unlock(&n->lock);
}

int news_take(struct news *n, bool *changed, struct hyper_event **event, size_t *nevents, struct arena *arena)
{
	struct hyper_event *all;
	bool failed;

	(void)pthread_mutex_lock(&n->lock);
	while (!n->changed && !n->n)
		(void)pthread_cond_wait(&n->more, &n->lock);
	all = arena_array(arena, n->n, sizeof(*all));
	failed = !all;
	for (size_t i = 0; i < n->n && !failed; i++) {
		all[i] = (struct hyper_event){ arena_strdup(arena, n->event[i].name), n->event[i].state };
		failed = !all[i].name;
	}
	if (!failed) {
		for (size_t i = 0; i < n->n; i++)
			free((void *)(uintptr_t)n->event[i].name);
		*nevents = n->n;
		*event = all;
		*changed = n->changed;
		n->n = 0;
		n->changed = false;
	}
	(void)pthread_mutex_unlock(&n->lock);
	return failed ? -ENOMEM : 0;
}

void news_lost(struct news *n)
{
	news_add(n, NULL, ACT_DOMAIN_ABSENT);
}
