/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/path — paths below a root, made from a format (room-private). */

#include <stdarg.h>

#include "host/root.h"

int host_path(char path[HOST_PATH_MAX], const char *fmt, va_list ap) __attribute__((format(printf, 2, 0))); /* -ENAMETOOLONG */

/* In a function with (fmt, ...) at its end. */
#define PATH_OF(path, fmt)                              \
	({                                              \
		va_list ap_;                            \
		int n_;                                 \
		va_start(ap_, fmt);                     \
		n_ = host_path(path, fmt, ap_);         \
		va_end(ap_);                            \
		n_;                                     \
	})
