/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A dump of rdma_topo from anywhere: refused with a sentence, or a text host whose text comes back the same, with a
 * function for each object, in which velad finds the same functions. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/inventory.h"
#include "host/rdmatopo.h"
#include "host/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t links(const struct text_host *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->entry[i].type == TEXT_LINK && strncmp(t->entry[i].path, "sys/bus/pci/devices/", 20) == 0;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct host_kinds kinds;
	struct text_host *t = NULL, *back = NULL;
	struct host_root *root = NULL;
	struct inventory *inv = NULL;
	struct error err = ERROR_INIT;
	char *once, *twice;

	if (rdmatopo_parse(&t, (const char *)data, size, "fuzz", &err) < 0) {
		assert(err.code < 0 && *err.text);
		return 0;
	}
	once = text_host_render(t);
	assert(text_host_parse(&back, once, strlen(once), "back", &err) == 0);
	twice = text_host_render(back);
	assert(strcmp(once, twice) == 0 && back->n <= t->n);
	assert(host_root_parse_text(&root, once, strlen(once), "back", &err) == 0);
	assert(host_inventory_read(&inv, root, &kinds, &err) == 0);
	assert(inv->nfn == links(t));
	host_inventory_free(inv);
	host_root_close(root);
	text_host_free(t);
	text_host_free(back);
	free(once);
	free(twice);
	return 0;
}
