/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "host/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/attr.h"
#include "host/root_own.h"

static _Thread_local struct host_progress *told;

void host_progress_init(struct host_progress *p)
{
	*p = (struct host_progress){ 0 };
	(void)pthread_mutex_init(&p->lock, NULL); /* glibc: never fails without attributes */
}

void host_progress_done(struct host_progress *p)
{
	(void)pthread_mutex_destroy(&p->lock);
}

void host_progress_here(struct host_progress *p)
{
	told = p;
}

uint64_t host_progress_get(struct host_progress *p, char path[HOST_PATH_MAX])
{
	uint64_t n;

	(void)pthread_mutex_lock(&p->lock);
	(void)strcpy(path, p->path);
	n = p->files;
	(void)pthread_mutex_unlock(&p->lock);
	return n;
}

/* ---- files that are not read ------------------------------------------------------------------------ */

static bool wants_lock(const char *path)
{
	const char *name = attr_last_part(path);

	return strcmp(name, "driver_override") == 0 || strcmp(name, "sriov_numvfs") == 0;
}

static bool goes_with(const char *avoided, const char *path)
{
	size_t dir = (size_t)(attr_last_part(avoided) - avoided);

	return strcmp(avoided, path) == 0 ||
	       (wants_lock(avoided) && wants_lock(path) && (size_t)(attr_last_part(path) - path) == dir && strncmp(avoided, path, dir) == 0);
}

static bool is_avoided(struct avoided *a, const char *path)
{
	bool is = false;

	if (!atomic_load(&a->n))
		return false;
	(void)pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->n && !is; i++)
		is = goes_with(a->path[i], path);
	(void)pthread_mutex_unlock(&a->lock);
	return is;
}

int host_avoid(struct host_root *r, const char *path)
{
	struct avoided *a = &r->avoided;
	char *copy = strdup(path), **more;

	(void)pthread_mutex_lock(&a->lock);
	more = copy ? reallocarray(a->path, a->n + 1, sizeof(*more)) : NULL;
	if (more) {
		a->path = more;
		a->path[a->n] = copy;
		a->n++;
	}
	(void)pthread_mutex_unlock(&a->lock);
	if (!more)
		free(copy);
	return more ? 0 : -ENOMEM;
}

void host_forgive(struct host_root *r, const char *path)
{
	struct avoided *a = &r->avoided;
	unsigned i = 0;

	(void)pthread_mutex_lock(&a->lock);
	while (i < a->n && strcmp(a->path[i], path) != 0)
		i++;
	if (i < a->n) {
		free(a->path[i]);
		a->path[i] = a->path[a->n - 1];
		a->n--;
	}
	(void)pthread_mutex_unlock(&a->lock);
}

void avoided_done(struct avoided *a)
{
	for (unsigned i = 0; i < a->n; i++)
		free(a->path[i]);
	free(a->path);
	(void)pthread_mutex_destroy(&a->lock);
}

/* ---- what the door tells ---------------------------------------------------------------------------- */

int progress_begin(struct host_root *r, const char *path)
{
	if (is_avoided(&r->avoided, path))
		return -ETIMEDOUT;
	if (told) {
		(void)pthread_mutex_lock(&told->lock);
		told->files++;
		(void)strcpy(told->path, path); /* host_path() has made it: it fits */
		(void)pthread_mutex_unlock(&told->lock);
	}
	return 0;
}

void progress_end(void)
{
	if (!told)
		return;
	(void)pthread_mutex_lock(&told->lock);
	told->path[0] = '\0';
	(void)pthread_mutex_unlock(&told->lock);
}
