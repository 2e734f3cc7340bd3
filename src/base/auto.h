/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* auto — locals that clean up after themselves.
 *
 *   autofree char *s = ...;             free(s) at the end of the scope
 *   autoclose int fd = -1;              close(fd) if >= 0
 *   AUTO_DEFINE(struct topo *, topo_unref);  then:  auto_(topo_unref) struct topo *t = ...;
 *   return steal(t);                    hand over: t becomes NULL */

#include <stdlib.h>
#include <unistd.h>

static inline void auto_free_cleanup(void *p)
{
	free(*(void **)p);
}

static inline void auto_close_cleanup(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* nothing to be done about it in a cleanup */
}

#define autofree  __attribute__((cleanup(auto_free_cleanup)))
#define autoclose __attribute__((cleanup(auto_close_cleanup)))

#define AUTO_DEFINE(type, fn)                                  \
	static inline void fn##_cleanup(type *p)               \
	{                                                      \
		if (*p)                                        \
			(void)fn(*p);                          \
	}                                                      \
	static inline void fn##_cleanup(type *p)
#define auto_(fn) __attribute__((cleanup(fn##_cleanup)))

#define steal(p)                     \
	({                           \
		__typeof__(p) s_ = (p); \
		(p) = NULL;          \
		s_;                  \
	})

static inline int steal_fd(int *fd)
{
	int f = *fd;

	*fd = -1;
	return f;
}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
