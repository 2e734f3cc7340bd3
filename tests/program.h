/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Where the programs are that were built with a test, which lies in tests/ROOM/ below them. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline const char *program(const char *name)
{
	static char path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	char *slash = path;

	path[n > 0 ? n : 0] = '\0';
	for (int up = 0; up < 3 && slash; up++) {
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	}
	(void)snprintf(path + strlen(path), 64, "/%s", name);
	return path;
}
