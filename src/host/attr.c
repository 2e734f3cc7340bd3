/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parsers of sysfs text. They take foreign bytes: strict, bounded. */
#include "host/attr.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "host/root.h"

const char *attr_last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "../../../devices/pci0000:15/..." seen from sys/bus/pci/devices. */
bool attr_path(char out[HOST_PATH_MAX], const char *target)
{
	int up = 0, n;

	for (; strncmp(target, "../", 3) == 0; target += 3)
		up++;
	if (up != 3 || strstr(target, "..") || strncmp(target, "devices/", 8) != 0)
		return false;
	n = snprintf(out, HOST_PATH_MAX, "sys/%s", target);
	return n > 0 && n < HOST_PATH_MAX;
}

/* "pci0000:15", the host bridge's directory. */
bool attr_is_root_bus(const char *part, size_t len)
{
	return len > 3 && strncmp(part, "pci", 3) == 0 && isxdigit((unsigned char)part[3]) && memchr(part, ':', len);
}

/* The value of KEY= in an uevent; false if it is not there. Without printf: each function has a few. */
bool attr_uevent(char out[64], const char *uevent, const char *key)
{
	size_t n = strlen(key), len;

	for (const char *p = uevent; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		if (*p != *key || strncmp(p, key, n) != 0 || p[n] != '=')
			continue;
		len = strcspn(p + n + 1, "\n");
		if (len >= 64)
			return false;
		memcpy(out, p + n + 1, len);
		out[len] = '\0';
		return true;
	}
	return false;
}

/* KEY=10DE:2330 */
bool attr_uevent_pair(uint16_t *a, uint16_t *b, const char *uevent, const char *key)
{
	uint64_t x = 0, y = 0;
	char text[64], *colon;

	if (!attr_uevent(text, uevent, key) || !(colon = strchr(text, ':')))
		return false;
	*colon = '\0';
	if (parse_uint(&x, text, 16, 0xffff) < 0 || parse_uint(&y, colon + 1, 16, 0xffff) < 0)
		return false;
	*a = (uint16_t)x;
	*b = (uint16_t)y;
	return true;
}

/* "32.0 GT/s PCIe" as the code of LnkCap; 0 for "Unknown" and the like. */
uint8_t attr_speed(const char *text)
{
	for (uint8_t code = 1; code <= 6; code++) {
		const char *name = pcicap_speed_text(code);
		size_t n = strlen(name);

		if (strncmp(text, name, n) == 0 && (!text[n] || strcmp(text + n, " PCIe") == 0))
			return code;
	}
	return 0;
}

/* "0xSTART 0xEND 0xFLAGS". Without flags nothing is there; an end just below the start is an empty range, and
 * one at it is what the kernel leaves of a window or BAR that has no place: no BAR has one byte (PCI 6.2.5.1). */
static int row_parse(struct host_bar *ret, char *line)
{
	uint64_t v[3] = { 0 }, size;
	char *word;
	int n = 0;

	while (n < 3 && (word = strsep(&line, " ")))
		if (parse_uint(&v[n++], word, 16, UINT64_MAX) < 0)
			return -EINVAL;
	size = v[1] - v[0] + 1;
	if (n < 3 || line || (v[2] && size && v[1] < v[0]))
		return -EINVAL;
	*ret = v[2] && size > 1 ? (struct host_bar){ .start = v[0], .size = size, .flags = v[2] } : (struct host_bar){ 0 };
	return 0;
}

int attr_rows(struct host_bar *row, int most, char *text)
{
	int n = 0;

	while (n < most && text && *text)
		if (row_parse(&row[n++], strsep(&text, "\n")) < 0)
			return -EINVAL;
	return n;
}
