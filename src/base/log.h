/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* log — one line to stderr. Under systemd each line carries its priority ("<3>", see sd-daemon(3)),
 * and the journal adds the rest. Only velad, velactl and instance log above debug. */

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

void log_init(enum log_level most); /* detects the journal; may be called again */
bool log_is_journal(void);
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_err(...)     log_write(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
