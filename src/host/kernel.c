/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel releases: what a number says of what is in the kernel, and what it does not. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "host/inventory.h"

/* What follows the numbers where nobody added features to old ones: nothing, or a release candidate, of mainline and
 * stable ("-rc3+", "+"); Debian's packages, which are stable's ("-28-amd64", "+deb13-amd64", "+bpo-cloud-arm64"). */
static bool is_plain(const char *suffix)
{
	static const char *const arch[] = { "-amd64", "-arm64" };
	size_t n;

	suffix += strspn(suffix, "0123456789.");
	n = strlen(suffix);
	if (n == 0 || strcmp(suffix, "+") == 0 || strncmp(suffix, "-rc", 3) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(arch); i++)
		if (n >= strlen(arch[i]) && strcmp(suffix + n - strlen(arch[i]), arch[i]) == 0)
			return true;
	return false;
}

enum host_known host_kernel_since(const char *release, unsigned major, unsigned minor)
{
	unsigned a = 0, b = 0;
	int end = 0;

	if (sscanf(release, "%u.%u%n", &a, &b, &end) != 2)
		return HOST_UNKNOWN;
	if (a > major || (a == major && b >= minor))
		return HOST_PRESENT;
	return is_plain(release + end) ? HOST_ABSENT : HOST_UNKNOWN;
}

bool host_kernel_config_acs_mended(const char *release)
{
	static const unsigned mended[][2] = { { 14, 2 }, { 13, 11 }, { 12, 23 } };
	unsigned major = 0, minor = 0, patch = 0;

	(void)sscanf(release, "%u.%u.%u", &major, &minor, &patch);
	for (size_t i = 0; i < ARRAY_SIZE(mended); i++)
		if (major == 6 && minor == mended[i][0])
			return patch >= mended[i][1];
	return major > 6 || (major == 6 && minor >= 15);
}
