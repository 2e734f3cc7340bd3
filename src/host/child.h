/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/child — one run of a foreign program that prints. */

#include <stddef.h>

/* Its standard output, NUL-terminated, which the caller frees. No shell, no input, a bare environment, its own
 * process group, killed as a whole after timeout_ms or beyond max bytes. -ENOENT: no such program; -ETIMEDOUT,
 * -EFBIG, -EREMOTEIO: it did not end with status 0. */
int child_output(char **ret, char *const argv[], size_t max, unsigned timeout_ms);
