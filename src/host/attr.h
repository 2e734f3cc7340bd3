/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/attr — what the files and links of one PCI function say (room-private). Pure: text in, values out. */

#include "host/inventory.h"

const char *attr_last_part(const char *path);
bool        attr_path(char out[HOST_PATH_MAX], const char *target);
bool        attr_is_root_bus(const char *part, size_t len);
bool        attr_uevent(char out[64], const char *uevent, const char *key);
bool        attr_uevent_pair(uint16_t *a, uint16_t *b, const char *uevent, const char *key);
uint8_t     attr_speed(const char *text);
/* How many rows `resource` has, of which `most` are kept; -EINVAL if one is none. Writes into text. */
int         attr_rows(struct host_bar *row, int most, char *text);
