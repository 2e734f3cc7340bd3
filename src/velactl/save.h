/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/save — a file written whole or not at all. */

#include <stddef.h>

struct error;

/* What is no plain file (/dev/null, a pipe) is written to as it is. */
int ctl_save(const char *path, const char *text, size_t len, struct error *err);
