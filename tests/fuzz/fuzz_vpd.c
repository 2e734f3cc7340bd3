/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VPD bytes from anywhere: what is found lies within them, and a serial number is short, printable and marked. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "host/vpd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char serial[VPD_SERIAL_MAX] = "before";
	struct arena arena = { 0 };
	struct vpd v;
	int r = vpd_parse(&v, &arena, data, size), s = vpd_serial(serial, data, size);

	if (r == 0) {
		assert(v.n <= VPD_FIELDS_MAX && 3 * v.n <= size);
		for (size_t i = 0; i < v.n; i++)
			assert(strlen(v.field[i].key) == 2 && (!v.field[i].text || strlen(v.field[i].text) <= 255));
	}
	assert(s < 0 || r == 0);
	if (s < 0)
		assert(strcmp(serial, "before") == 0); /* written only on success */
	else
		assert(strncmp(serial, VPD_SERIAL_MARK, 4) == 0 && strlen(serial) > 4 && !strpbrk(serial, " \n"));
	arena_done(&arena);
	return 0;
}
