/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A netlink message from anywhere: it is refused, or names a function whose name is in it. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/uevent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1); /* of exactly this size: what is read beyond is seen */
	struct host_uevent e;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (host_uevent_parse(&e, copy, size) == 0) {
		assert(strlen(copy) < size);
		assert(bdf_is_none(e.bdf) ? !e.what : bdf_eq(host_uevent_function(strchr(copy, '@') + 1), e.bdf));
	}
	free(copy);
	return 0;
}
