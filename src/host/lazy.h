/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/lazy — a library that is loaded when it is first needed (room-private): each one that is linked costs every
 * start of velactl, and these are used on the machine itself only.
 *
 *   #define FUNCTIONS(X) X(foo_open) X(foo_close)
 *   struct lib { void *handle; FUNCTIONS(LAZY_MEMBER) };
 *   bool ok = (l->handle = dlopen("libfoo.so.1", RTLD_NOW | RTLD_LOCAL)); FUNCTIONS(LAZY_LOAD)
 *
 * The compiler checks each call against the library's own header. */

#include <dlfcn.h>

#define LAZY_MEMBER(fn) __typeof__(fn) *fn;
#define LAZY_LOAD(fn)   ok = ok && (l->fn = (__typeof__(fn) *)dlsym(l->handle, #fn));
