/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* seccomp — from now on these system calls and no others, for ever: any other kills the process (seccomp(2)). Plain BPF,
 * because a list of numbers needs no library. Whoever makes a list says beside it what it is good for. */

#include <stdbool.h>
#include <stddef.h>

struct error;

#define SECCOMP_CALLS_MAX 64

/* Of all threads; or of this one and those that it starts, after the former, which then must allow seccomp(2) itself. Lists
 * add up to what all of them allow. A build with sanitizers, which need more calls, does nothing. */
int seccomp_allow(const int *calls, size_t n, bool all_threads, struct error *err);
