/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stands for the config-host.h that QEMU's configure makes: only what the headers used by hgx.c look at.
 * CONFIG_INT128 decides how MemoryRegion is laid out; hgx.c compares sizes with the running QEMU at start.
 */
#pragma once

#define HOST_X86_64 1
#define CONFIG_LINUX
#define CONFIG_POSIX
#define CONFIG_TCG 1

#define CONFIG_ATOMIC64
#define CONFIG_CMPXCHG128 1
#define CONFIG_CPUID_H
#define CONFIG_INT128 1
#define CONFIG_INT128_TYPE 1
#define CONFIG_IOVEC
#define CONFIG_MADVISE
#define CONFIG_POSIX_MADVISE
#define CONFIG_PREADV
#define CONFIG_SYSMACROS

#define HAVE_BTRFS_H
#define HAVE_STRCHRNUL
#define HAVE_STRUCT_STAT_ST_ATIM
#define HAVE_SYSTEM_FUNCTION 1
