/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A list of those who hold something; it is as long as there are operations. */
#include "instance/targets.h"

#include <stdbool.h>
#include <string.h>

void targets_init(struct targets *t)
{
	/* glibc: these never fail without attributes */
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->cond, NULL);
	t->held = NULL;
}

void targets_done(struct targets *t)
{
	(void)pthread_cond_destroy(&t->cond);
	(void)pthread_mutex_destroy(&t->lock);
}

static bool meet(const struct targets_hold *a, const struct targets_hold *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (strcmp(a->name[i], b->name[k]) == 0)
				return true;
	return false;
}

static bool is_free(const struct targets *t, const struct targets_hold *hold)
{
	for (const struct targets_hold *h = t->held; h; h = h->next)
		if (meet(h, hold))
			return false;
	return true;
}

void targets_lock(struct targets *t, struct targets_hold *hold)
{
	(void)pthread_mutex_lock(&t->lock);
	while (!is_free(t, hold))
		(void)pthread_cond_wait(&t->cond, &t->lock);
	hold->next = t->held;
	t->held = hold;
	(void)pthread_mutex_unlock(&t->lock);
}

void targets_unlock(struct targets *t, struct targets_hold *hold)
{
	struct targets_hold **at = &t->held;

	(void)pthread_mutex_lock(&t->lock);
	while (*at != hold)
		at = &(*at)->next;
	*at = hold->next;
	(void)pthread_cond_broadcast(&t->cond);
	(void)pthread_mutex_unlock(&t->lock);
}
