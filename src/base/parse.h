/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* parse — strict text to numbers. Nothing is skipped, nothing wraps, nothing may follow. */

#include <stdbool.h>
#include <stdint.h>

/* Digits in base 10 or 16 (16: an optional 0x), at most max. 0, -EINVAL (not a number) or -ERANGE. */
int parse_uint(uint64_t *ret, const char *text, int base, uint64_t max);
int parse_int(int64_t *ret, const char *text, int64_t min, int64_t max);

/* Bytes: digits with an optional K, M, G or T (powers of 1024, "KiB" and "KB" forms too). */
int parse_size(uint64_t *ret, const char *text);

/* "512M", "2G", "1537K" or plain bytes: the shortest exact form. */
#define SIZE_TEXT_MAX 24
const char *size_text(char buf[SIZE_TEXT_MAX], uint64_t bytes);
