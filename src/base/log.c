/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The log sink: the only mutable static state outside of main(), set once at start. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static enum log_level log_most = LOG_LEVEL_INFO;
static bool log_journal;

void log_init(enum log_level most)
{
	log_most = most;
	log_journal = getenv("JOURNAL_STREAM") != NULL;
}

bool log_is_journal(void)
{
	return log_journal;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	if (level > log_most)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < 0x20) /* a foreign string must not forge a second log line */
			*p = ' ';
	if (log_journal)
		(void)fprintf(stderr, "<%d>%s\n", level, line);
	else
		(void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
}
