/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* hyper/news — what happened to domains since velad asked last. */

#include <pthread.h>
#include <stdbool.h>

#include "act/hyper_doc.h"

struct news {
	pthread_mutex_t    lock;
	pthread_cond_t     more;
	bool               changed; /* libvirt is reached, or not any more; or something was lost */
	struct hyper_event event[256];
	size_t             n;
};

void news_init(struct news *n);
/* As act_virt_watch() calls it. */
void news_add(void *self, const char *name, enum act_domain state);
/* Waits until there is something, and takes it; the events are then the arena's. -ENOMEM, and it is kept. */
int news_take(struct news *n, bool *changed, struct hyper_event **event, size_t *nevents, struct arena *arena);
/* It could not be told. */
void news_lost(struct news *n);
