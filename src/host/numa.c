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
	int r = host_read_again(root, text, sizeof(text), NODE_DIR "/node%d/meminfo", n->id);

	n->memory_known = (r == 0 || r == -EFBIG) && meminfo_get(&n->mem_total, text, "MemTotal:") &&
			  meminfo_get(&n->mem_free, text, "MemFree:") && n->mem_free <= n->mem_total;
}

uint64_t host_pool_size(const char *name)
{
	static const char prefix[] = "hugepages-";
	const char *digits = name + sizeof(prefix) - 1;
	uint64_t kb = 0;
	char text[24];
	size_t n;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	n = strspn(digits, "0123456789");
	(void)snprintf(text, sizeof(text), "%.*s", (int)(n < sizeof(text) ? n : sizeof(text)), digits);
	if (strcmp(digits + n, "kB") != 0 || parse_uint(&kb, text, 10, UINT64_MAX / 1024) < 0)
		return 0;
	return kb * 1024;
}

static int read_pool(struct inventory *inv, struct host_node *n, struct host_root *root, uint64_t page_size)
{
	unsigned long long kb = page_size / 1024;
	struct host_pool p = { .page_size = page_size };

	if (host_read_uint_again(root, &p.total, 10, UINT64_MAX / page_size, NODE_DIR "/node%d/hugepages/hugepages-%llukB/nr_hugepages", n->id, kb) < 0 ||
	    host_read_uint_again(root, &p.free, 10, p.total, NODE_DIR "/node%d/hugepages/hugepages-%llukB/free_hugepages", n->id, kb) < 0)
		return host_finding_add(inv, "numa.hugepages-unreadable", BDF_NONE,
					"cannot read the hugepages-%llukB of NUMA node %d, or the numbers make no sense", kb, n->id);
	n->pool[n->npools++] = p;
	return 0;
}

/* Which sizes there are does not change while a node is there (hugetlb_register_node() in mm/hugetlb.c). */
static int read_pools(struct inventory *inv, struct host_node *n, const struct host_node *was, struct host_root *root, struct arena *scratch)
{
	struct host_names names = { 0 };
	int r = 0;

	for (size_t i = 0; was && i < was->npools && r == 0; i++)
		r = read_pool(inv, n, root, was->pool[i].page_size);
	if ((was && was->npools) || host_list(root, &names, scratch, NODE_DIR "/node%d/hugepages", n->id) < 0)
		return r;
	for (size_t i = 0; i < names.n && n->npools < HOST_POOLS_MAX && r == 0; i++)
		if (host_pool_size(names.name[i]))
			r = read_pool(inv, n, root, host_pool_size(names.name[i]));
	return r;
}

/* "10 21": one number per online node, in the order of their ids. Of another length or with other words in it,
 * all of it is unknown. */
static int read_distance(struct inventory *inv, struct host_node *n, struct host_root *root)
{
	char text[1024], *rest = text, *word;
	uint64_t d = 0;
	size_t i = 0;
	bool bad = false;

	if (host_read(root, text, sizeof(text), NODE_DIR "/node%d/distance", n->id) < 0)
		return 0;
	while ((word = strsep(&rest, " ")) && !bad) {
		if (!*word)
			continue;
		bad = i == inv->nnodes || parse_uint(&d, word, 10, UINT8_MAX) < 0;
		if (!bad)
			n->distance[i++] = (uint8_t)d;
	}
	if (!bad && i == inv->nnodes)
		return 0;
	memset(n->distance, 0, sizeof(n->distance));
	return host_finding_add(inv, "numa.distance-broken", BDF_NONE,
				"the distances of NUMA node %d are not one number for each of %zu nodes", n->id,
				inv->nnodes);
}

static int read_node(struct inventory *inv, struct host_node *n, const struct host_node *was, struct host_root *root, struct arena *scratch)
{
	char text[4096];
	int r;

	n->cpus_known = host_read_again(root, text, sizeof(text), NODE_DIR "/node%d/cpulist", n->id) == 0 &&
			cpuset_parse(&n->cpus, text) == 0;
	if (!n->cpus_known && host_finding_add(inv, "numa.cpus-unknown", BDF_NONE, "cannot read the CPUs of NUMA node %d",
					       n->id) < 0)
		return -ENOMEM;
	read_memory(n, root);
	r = read_pools(inv, n, was, root, scratch);
	if (r == 0 && was && was->distance[0]) /* of the firmware's SLIT; 0: unknown */
		memcpy(n->distance, was->distance, sizeof(n->distance));
	else if (r == 0)
		r = read_distance(inv, n, root);
	return r;
}

static int by_id(const void *a, const void *b)
{
	return ((const struct host_node *)a)->id - ((const struct host_node *)b)->id;
}

/* Whether what cannot change of a node needs no look: the same nodes, of which all could be read. */
static bool has_same_nodes(const struct inventory *old, const struct inventory *inv)
{
	bool same = old && old->nnodes == inv->nnodes;

	for (size_t i = 0; same && i < old->nnodes; i++)
		same = old->node[i].id == inv->node[i].id;
	for (size_t i = 0; same && i < old->nfindings; i++)
		same = strncmp(old->finding[i].id, "numa.", 5) != 0;
	return same;
}

static int read_nodes(struct inventory *inv, const struct inventory *old, struct host_root *root, struct arena *scratch)
{
	struct host_names names;
	int id, r = host_list(root, &names, scratch, NODE_DIR);
	size_t n = 0;
	bool same;

	if (r < 0)
		return host_finding_add(inv, "numa.unknown", BDF_NONE, "cannot list the NUMA nodes: %s", strerror(-r));
	for (size_t i = 0; i < names.n && n < HOST_NODES_MAX; i++)
		n += node_id(&id, names.name[i]);
	inv->node = arena_array(&inv->arena, n, sizeof(*inv->node));
	if (!inv->node)
		return -ENOMEM;
	for (size_t i = 0; i < names.n && inv->nnodes < n; i++)
		if (node_id(&inv->node[inv->nnodes].id, names.name[i]))
			inv->nnodes++;
	qsort(inv->node, inv->nnodes, sizeof(*inv->node), by_id);
	same = has_same_nodes(old, inv);
	for (size_t i = 0; i < inv->nnodes && r == 0; i++)
		r = read_node(inv, &inv->node[i], same ? &old->node[i] : NULL, root, scratch);
	return r;
}

int host_numa_read(struct inventory *inv, const struct inventory *old, struct host_root *root, struct error *err)
{
	struct arena scratch = { 0 };
	int r = read_nodes(inv, old, root, &scratch);

	arena_done(&scratch);
	return r < 0 ? error_set(err, r, "no memory for NUMA nodes") : 0;
}
