/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* base/lazy — a library that is loaded when it is first needed: each one that is linked costs every
 * start of velactl, and most of these need none of it.
 *
 *   #define FUNCTIONS(X) X(foo_open) X(foo_close)
 *   LAZY_LIBRARY("libfoo.so.1", FUNCTIONS)
 *
 * makes struct lib with a pointer for each of them, and lib_open() and lib_close(). The compiler checks each call
 * against the library's own header. */

#include <dlfcn.h>
#include <stdbool.h>

#define LAZY_MEMBER(fn) __typeof__(fn) *fn;
#define LAZY_LOAD(fn)   ok = ok && (l->fn = (__typeof__(fn) *)dlsym(l->handle, #fn));

/* lib_close() is needed also where lib_open() failed: a library may lack a function. */
#define LAZY_LIBRARY(file, FUNCTIONS)                                         \
	struct lib {                                                          \
		void *handle;                                                 \
		FUNCTIONS(LAZY_MEMBER)                                        \
	};                                                                    \
	static bool lib_open(struct lib *l)                                   \
	{                                                                     \
		bool ok = (l->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)); \
									      \
		FUNCTIONS(LAZY_LOAD)                                          \
		return ok;                                                    \
	}                                                                     \
	static void lib_close(struct lib *l)                                  \
	{                                                                     \
		if (l->handle)                                                \
			(void)dlclose(l->handle);                             \
	}
