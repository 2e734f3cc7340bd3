/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "host/aer.h"

#include <string.h>

#include "base/parse.h"
#include "host/root.h"

/* The last line is the sum: "TOTAL_ERR_COR 0" (aer_stats_dev_attr(), drivers/pci/pcie/aer.c). */
static bool total(uint64_t *ret, struct host_root *root, const char *name, const char *file)
{
	char text[1024], *at;

	if (host_read(root, text, sizeof(text), "sys/bus/pci/devices/%s/%s", name, file) < 0)
		return false;
	at = strstr(text, "TOTAL_ERR_");
	at = at ? strchr(at, ' ') : NULL;
	if (!at)
		return false;
	at[1 + strspn(at + 1, "0123456789")] = '\0';
	return parse_uint(ret, at + 1, 10, UINT64_MAX) == 0;
}

void host_aer_read(struct host_aer *ret, struct host_root *root, struct bdf fn)
{
	char name[BDF_TEXT_MAX];

	*ret = (struct host_aer){ 0 };
	(void)bdf_text(name, fn);
	ret->known = total(&ret->correctable, root, name, "aer_dev_correctable") &&
		     total(&ret->nonfatal, root, name, "aer_dev_nonfatal") && total(&ret->fatal, root, name, "aer_dev_fatal");
}
