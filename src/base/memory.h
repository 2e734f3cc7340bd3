/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* memory — what a process that has nothing to do can give back. */

/* What is free of the heap, and the pages of programs and libraries that are as they are in their files: they stay in the kernel's page cache
 * as long as it has room for them, and come back from there, by a minor fault for some sixteen of them, when they are used again. May be
 * called by any thread, whatever the others do. A breakpoint that a debugger has set in them is lost. */
void memory_give_back(void);
