/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* seccomp — from now on these system calls and no others, for ever: any other kills the process, or is put into the kernel's
 * log and done (seccomp(2)). Plain BPF, because a list of numbers needs no library. Whoever makes a list says beside it what it
 * is good for. */

#include <stdbool.h>
#include <stddef.h>

struct error;

#define SECCOMP_CALLS_MAX 80

enum seccomp_how { SECCOMP_KILL, SECCOMP_LOG, SECCOMP_OFF, SECCOMP_HOW_MAX_ };

int         seccomp_how_parse(const char *text); /* "log" "kill" "off"; -1 */
const char *seccomp_how_text(enum seccomp_how how);

/* Of all threads; or of this one and those that it starts, after the former, which then must allow seccomp(2) itself. Lists
 * add up to what all of them allow. A build with sanitizers, which need more calls, does nothing. */
int seccomp_allow(enum seccomp_how how, const int *calls, size_t n, bool all_threads, struct error *err);
