/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files and links of a function say, from anywhere: the first byte chooses the parser. What passes is
 * held against what the text really has. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "host/attr.h"
#include "host/vpd.h"

static void uevent(const char *text)
{
	char value[64], again[96], twice[64];
	uint16_t a = 0, b = 0;

	if (attr_uevent(value, text, "PCI_CLASS")) {
		assert(!strchr(value, '\n'));
		(void)snprintf(again, sizeof(again), "X=\nPCI_CLASS=%s\nPCI_CLASS=other", value);
		assert(attr_uevent(twice, again, "PCI_CLASS") && strcmp(twice, value) == 0);
	}
	if (attr_uevent_pair(&a, &b, text, "PCI_ID")) {
		assert(strstr(text, "PCI_ID="));
		(void)snprintf(again, sizeof(again), "PCI_ID=%04X:%04X", a, b);
		assert(attr_uevent_pair(&a, &b, again, "PCI_ID"));
	}
}

static void resource(char *text)
{
	struct host_bar row[13];
	int n = attr_rows(row, 13, text);

	assert(n == -EINVAL || (n >= 0 && n <= 13));
	for (int i = 0; i < n; i++) {
		assert(row[i].size == 0 || (row[i].flags && row[i].size > 1));
		assert(row[i].size == 0 || row[i].start + (row[i].size - 1) >= row[i].start);
	}
}

static void link_target(const char *text)
{
	char path[HOST_PATH_MAX];

	if (attr_path(path, text)) {
		assert(strncmp(path, "sys/devices/", 12) == 0 && !strstr(path, ".."));
		assert(!strchr(attr_last_part(path), '/'));
	}
	if (attr_is_root_bus(text, strlen(text)))
		assert(strncmp(text, "pci", 3) == 0 && strchr(text, ':'));
}

static void vpd(const uint8_t *data, size_t size)
{
	struct arena arena = { 0 };
	struct vpd v = { 0 };
	int r = vpd_parse(&v, &arena, data, size);

	assert(r == 0 || r == -EBADMSG || r == -ENODATA);
	assert(v.n <= VPD_FIELDS_MAX && (r == 0 || v.n == 0));
	for (size_t i = 0; i < v.n; i++) {
		assert(memmem(data, size, v.field[i].key, 2));
		assert(!v.field[i].text || memmem(data, size, v.field[i].text, strlen(v.field[i].text)));
		for (const char *p = v.field[i].text; p && *p; p++)
			assert(*p >= 0x20 && *p < 0x7f);
	}
	if (r == 0 && size > 1) /* cut off before its end tag it is none */
		assert(vpd_parse(&v, &arena, data, 0) == -ENODATA);
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	assert(text);
	switch (data[0]) {
	case 'u':
		uevent(text);
		break;
	case 'r':
		resource(text);
		break;
	case 's': {
		uint8_t speed = attr_speed(text);

		assert(speed <= 6 && (!speed || strncmp(text, pcicap_speed_text(speed), 8) == 0));
		break;
	}
	case 'l':
		link_target(text);
		break;
	case 'v':
		vpd(data + 1, size - 1);
		break;
	}
	free(text);
	return 0;
}
