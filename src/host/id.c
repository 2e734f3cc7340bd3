/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one function is, without an inventory: for who asks about one. */
#include <errno.h>

#include "base/parse.h"
#include "host/attr.h"
#include "host/kind.h"
#include "host/path.h"
#include "host/pci.h"

int host_id_read(struct host_root *root, struct host_id *ret, const char *dir)
{
	char uevent[PCI_ATTR_MAX], text[64];
	struct host_id id;
	uint64_t class;
	int r = host_read(root, uevent, sizeof(uevent), "%s/uevent", dir);

	if (r < 0)
		return r;
	if (!attr_uevent_pair(&id.vendor, &id.device, uevent, "PCI_ID") || !attr_uevent(text, uevent, "PCI_CLASS") ||
	    parse_uint(&class, text, 16, 0xffffff) < 0)
		return -EINVAL;
	id.class = (uint32_t)class;
	*ret = id;
	return 0;
}
