/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/uevent — one kernel uevent. Pure: bytes in, values out; strict and bounded. */

#include <stdbool.h>
#include <stddef.h>

#include "base/bdf.h"

/* UEVENT_BUFFER_SIZE for the strings (linux/kobject.h, 2048), the header before them, and room to grow. */
#define HOST_UEVENT_MAX 8192

struct host_uevent {
	struct bdf bdf;  /* the PCI function that it is about, or below which the thing is that it is about */
	unsigned   what; /* of enum host_change_what; 0: nothing that an inventory has */
};

/* "ACTION@DEVPATH\0KEY=VALUE\0...", as kobject_uevent_env() sends it (lib/kobject_uevent.c). -EINVAL for anything
 * else, such as udev's own messages, which begin with "libudev". */
int host_uevent_parse(struct host_uevent *ret, const char *buf, size_t len);
/* The PCI function that a path below /sys/devices leads through last; BDF_NONE: none. */
struct bdf host_uevent_function(const char *devpath);
