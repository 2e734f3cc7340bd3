/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* file — whole small files, read and written. */

#include <stddef.h>

/* The whole file with a NUL behind it (not counted in len); the caller frees. -EFBIG above max bytes. */
int file_read(char **ret, size_t *ret_len, const char *path, size_t max);
int file_read_fd(char **ret, size_t *ret_len, int fd, size_t max);
