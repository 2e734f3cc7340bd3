/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the NUMA nodes from sys/devices/system/node (Documentation/ABI/stable/sysfs-devices-node). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "host/read.h"

#define NODE_DIR "sys/devices/system/node"

static bool node_id(int *ret, const char *name)
{
	uint64_t id = 0;

	if (strncmp(name, "node", 4) != 0 || parse_uint(&id, name + 4, 10, INT16_MAX) < 0)
		return false;
	*ret = (int)id;
	return true;
}

/* "Node 0 MemTotal:       1056364520 kB" in bytes; false if the line is not there. */
static bool meminfo_get(uint64_t *ret, const char *text, const char *key)
{
	const char *p = strstr(text, key);
	unsigned long long kb;

	if (!p || sscanf(p + strlen(key), " %llu kB", &kb) != 1 || kb > UINT64_MAX / 1024)
		return false;
	*ret = (uint64_t)kb * 1024;
	return true;
}

static void read_memory(struct host_node *n, struct host_root *root)
{
	char text[8192];
	int r = host_read(root, text, sizeof(text), NODE_DIR "/node%d/meminfo", n->id);

	n->memory_known = (r == 0 || r == -EFBIG) && meminfo_get(&n->mem_total, text, "MemTotal:") &&
			  meminfo_get(&n->mem_free, text, "MemFree:");
}

static void read_pools(struct host_node *n, struct host_root *root, struct arena *arena)
{
	struct host_names names;

	if (host_list(root, &names, arena, NODE_DIR "/node%d/hugepages", n->id) < 0)
		return;
	for (size_t i = 0; i < names.n && n->npools < HOST_POOLS_MAX; i++) {
		struct host_pool p = { 0 };
		unsigned long kb;

		if (sscanf(names.name[i], "hugepages-%lukB", &kb) != 1)
			continue;
		p.page_size = (uint64_t)kb * 1024;
		if (host_read_uint(root, &p.total, 10, UINT64_MAX, NODE_DIR "/node%d/hugepages/%s/nr_hugepages",
				   n->id, names.name[i]) == 0 &&
		    host_read_uint(root, &p.free, 10, UINT64_MAX, NODE_DIR "/node%d/hugepages/%s/free_hugepages",
				   n->id, names.name[i]) == 0)
			n->pool[n->npools++] = p;
	}
}

/* "10 21": one number per online node, in the order of their ids. */
static void read_distance(struct host_node *n, struct host_root *root)
{
	char text[1024], *rest = text, *word;
	size_t i = 0;

	if (host_read(root, text, sizeof(text), NODE_DIR "/node%d/distance", n->id) < 0)
		return;
	while ((word = strsep(&rest, " ")) && i < HOST_NODES_MAX) {
		uint64_t d = 0;

		if (*word)
			n->distance[i++] = parse_uint(&d, word, 10, 255) == 0 ? (uint8_t)d : 0;
	}
}

static int read_node(struct inventory *inv, struct host_node *n, struct host_root *root)
{
	char text[4096];

	if (host_read(root, text, sizeof(text), NODE_DIR "/node%d/cpulist", n->id) < 0 ||
	    cpuset_parse(&n->cpus, text) < 0) {
		n->cpus = (struct cpuset){ 0 };
		if (host_finding_add(inv, "numa.cpus-unknown", BDF_NONE, "cannot read the CPUs of NUMA node %d", n->id) < 0)
			return -ENOMEM;
	}
	read_memory(n, root);
	read_pools(n, root, &inv->arena);
	read_distance(n, root);
	return 0;
}

static int by_id(const void *a, const void *b)
{
	return ((const struct host_node *)a)->id - ((const struct host_node *)b)->id;
}

int host_numa_read(struct inventory *inv, struct host_root *root, struct error *err)
{
	struct host_names names;
	int r = host_list(root, &names, &inv->arena, NODE_DIR);

	if (r < 0) {
		r = host_finding_add(inv, "numa.unknown", BDF_NONE, "cannot list the NUMA nodes: %s", strerror(-r));
		return r < 0 ? error_set(err, r, "no memory for the inventory") : 0;
	}
	inv->node = arena_array(&inv->arena, HOST_NODES_MAX, sizeof(*inv->node));
	if (!inv->node)
		return error_set(err, -ENOMEM, "no memory for NUMA nodes");
	for (size_t i = 0; i < names.n && inv->nnodes < HOST_NODES_MAX; i++)
		if (node_id(&inv->node[inv->nnodes].id, names.name[i]))
			inv->nnodes++;
	qsort(inv->node, inv->nnodes, sizeof(*inv->node), by_id);
	for (size_t i = 0; i < inv->nnodes && r == 0; i++)
		r = read_node(inv, &inv->node[i], root);
	return r < 0 ? error_set(err, r, "no memory for NUMA nodes") : 0;
}
