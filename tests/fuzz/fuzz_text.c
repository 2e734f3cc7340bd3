/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A text host from anywhere: parse it, read the inventory, build the topology, render it. */
#include <json-c/json.h>

#include "base/error.h"
#include "host/inventory.h"
#include "topo/topo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct host_kinds kinds;
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct inventory *inv = NULL;
	struct topo *t = NULL;

	if (!kinds.n)
		(void)host_kinds_add(&kinds, "gpu", "10de:*:0302", &err);
	if (host_root_parse_text(&root, (const char *)data, size, "fuzz", &err) < 0)
		return 0;
	if (host_inventory_read(&inv, root, &kinds, &err) == 0) {
		if (topo_build(&t, inv, 1, &err) == 0)
			json_object_put(topo_json(t));
		else
			host_inventory_free(inv);
	}
	topo_unref(t);
	host_root_close(root);
	return 0;
}
