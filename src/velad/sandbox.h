/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/sandbox — which system calls are left once everything is open: a short list for the thread that clients talk to,
 * a longer one for those that run steps and read the machine. */

#include "base/seccomp.h"

struct error;

int sandbox_process(enum seccomp_how how, struct error *err); /* all threads, and those that they start */
int sandbox_loop(enum seccomp_how how, struct error *err);    /* this thread besides; it starts no others */
