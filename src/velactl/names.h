/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/names — vendor and device names for people, from the pci.ids of this machine. */

#include <stddef.h>

#include "base/auto.h"

struct ctl_names; /* opaque */

struct ctl_names *ctl_names_new(void); /* NULL: no memory; then there are only numbers */
struct ctl_names *ctl_names_free(struct ctl_names *n);
AUTO_DEFINE(struct ctl_names *, ctl_names_free);

/* "10de:2330" -> "H100 SXM5 80GB"; the numbers again where nothing is known. Returns buf. */
const char *ctl_names_find(struct ctl_names *n, char *buf, size_t size, const char *id);
