/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* seccomp — from now on these system calls and no others, for ever: any other kills the process, or is put into the kernel's
 * log and done (seccomp(2)). Plain BPF, because a list of numbers needs no library. Whoever makes a list says beside it what it
 * is good for. */

#include <stdbool.h>
#include <stddef.h>

struct error;

#define SECCOMP_CALLS_MAX 90

/* SECCOMP_REFUSE is nobody's option: the call fails with ENOSYS. */
enum seccomp_how { SECCOMP_KILL, SECCOMP_LOG, SECCOMP_OFF, SECCOMP_HOW_MAX_, SECCOMP_REFUSE = SECCOMP_HOW_MAX_ };

int         seccomp_how_parse(const char *text); /* "log" "kill" "off"; -1 */
const char *seccomp_how_text(enum seccomp_how how);
bool        seccomp_works(void); /* false in a build with sanitizers, which need more calls: nothing is restricted */

/* Of all threads; or of this one and those that it starts, after the former, which then must allow seccomp(2) itself. A call has to be on
 * each of the lists that a thread has. With SYS_clone on a list, and not SYS_clone3, threads can be made and no processes: clone3(2), whose
 * flags cannot be looked at, fails with ENOSYS, and glibc makes the thread by clone(2). */
int seccomp_allow(enum seccomp_how how, const int *calls, size_t n, bool all_threads, struct error *err);
