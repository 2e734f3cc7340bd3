/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/aer — how many PCIe errors the kernel has counted at one function since it came
 * (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats). */

#include <stdbool.h>
#include <stdint.h>

#include "base/bdf.h"

struct host_root;

struct host_aer {
	bool     known; /* false: the function has no AER, or the kernel does not count */
	uint64_t correctable, nonfatal, fatal;
};

void host_aer_read(struct host_aer *ret, struct host_root *root, struct bdf fn);
