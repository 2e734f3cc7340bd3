/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pools of huge pages, mm/hugetlb.c: per node and size in sys/devices/system/node, per size in sys/kernel/mm/hugepages
 * (made, so that they always agree). Memory is that of each node's meminfo; without one a pool does not grow. Pages in
 * use (nr - free) are never taken away. Fragments, surplus pages and mempolicies are not modelled. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "sim.h"

/* Where the value of "Node 0 MemFree:   98566144 kB" begins; NULL: no such line. */
static char *meminfo_value(const struct node *node, const char *key)
{
	struct node *n = node_attr(node, "meminfo");
	char *line = n && n->text ? strstr(n->text, key) : NULL;

	return line ? line + strlen(key) : NULL;
}

static void meminfo_set(const struct node *node, const char *key, int width, unsigned long v)
{
	char *at = meminfo_value(node, key), *rest;

	if (!at)
		return;
	(void)strtoul(at, &rest, 10);
	autofree char *tail = strdup(rest);

	*at = '\0';
	node_textf(node_attr(node, "meminfo"), "%s%*lu%s", node_attr(node, "meminfo")->text, width, v,
		   tail ? tail : "");
}

int pool_memory(struct node *node, uint64_t kb)
{
	if (!meminfo_value(node, "MemFree:"))
		return -ENOENT;
	meminfo_set(node, "MemFree:", 16, kb);
	return 0;
}

static unsigned long pool_kb(const struct node *pool)
{
	unsigned long kb = 0;

	(void)sscanf(pool->name, "hugepages-%lukB", &kb);
	return kb;
}

/* set_max_huge_pages(): as many as there is memory for; the shortfall is no error. */
static void resize(struct node *pool, unsigned long want)
{
	unsigned long now = node_number(pool, "nr_hugepages", 10), unused = node_number(pool, "free_hugepages", 10);
	unsigned long kb = pool_kb(pool), memory, used = now > unused ? now - unused : 0;
	const struct node *node = pool->parent->parent;
	const char *at = meminfo_value(node, "MemFree:");

	if (!kb || !node_attr(pool, "nr_hugepages") || !node_attr(pool, "free_hugepages"))
		return;
	memory = at ? strtoul(at, NULL, 10) : 0;
	if (want < used)
		want = used;
	if (want > now && want - now > memory / kb)
		want = now + memory / kb;
	meminfo_set(node, "MemFree:", 16, memory + now * kb - want * kb);
	if (kb == 2048) { /* the default size, whose counts are there, too */
		meminfo_set(node, "HugePages_Total:", 6, want);
		meminfo_set(node, "HugePages_Free:", 7, want - used);
	}
	node_textf(node_attr(pool, "nr_hugepages"), "%lu", want);
	node_textf(node_attr(pool, "free_hugepages"), "%lu", want - used);
}

/* nr_hugepages_store_common(): kstrtoul(buf, 10), which forgives one newline. */
static int number(unsigned long *ret, const char *value)
{
	autofree char *text = strndup(value, strcspn(value, "\n"));
	uint64_t v;
	int r = text ? parse_uint(&v, text, 10, ULONG_MAX) : -ENOMEM;

	if (r == 0)
		*ret = v;
	return r == -ERANGE ? -ERANGE : r < 0 ? -EINVAL : 0;
}

int pool_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	unsigned long want;
	int r = number(&want, value);

	(void)s;
	(void)len;
	(void)off;
	if (r == 0)
		resize(n->parent, want);
	return r;
}

/* ---- all nodes -------------------------------------------------------------------------------------- */

static struct node *pool_of(const struct node *node, const char *size)
{
	struct node *pools = node_attr(node, "hugepages");

	return pools && strncmp(node->name, "node", 4) == 0 ? node_attr(pools, size) : NULL;
}

/* A file of sys/kernel/mm/hugepages/SIZE: the sum over all nodes. */
static unsigned long sum(struct sim *s, const char *size, const char *attr)
{
	unsigned long total = 0;

	for (const struct node *c = node_find(s, "sys/devices/system/node")->child; c; c = c->next)
		if (pool_of(c, size))
			total += node_number(pool_of(c, size), attr, 10);
	return total;
}

char *pools_read(struct sim *s, const struct node *n)
{
	char *text = NULL;

	return asprintf(&text, "%lu\n", sum(s, n->parent->name, n->name)) < 0 ? NULL : text;
}

/* One page a node in turn, alloc_pool_huge_folio(); here by equal shares, and what a node cannot give from the others. */
int pools_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *nodes = node_find(s, "sys/devices/system/node");
	const char *size = n->parent->name;
	unsigned long want, now, before, count = 0;
	int r = number(&want, value);

	(void)len;
	(void)off;
	if (r < 0)
		return r;
	for (struct node *c = nodes->child; c; c = c->next)
		count += pool_of(c, size) != NULL;
	now = sum(s, size, "nr_hugepages");
	do {
		unsigned long left = count;

		before = now;
		for (struct node *c = nodes->child; c && now != want; c = c->next) {
			struct node *pool = pool_of(c, size);
			unsigned long nr = pool ? node_number(pool, "nr_hugepages", 10) : 0, gap, share;

			if (!pool)
				continue;
			gap = now < want ? want - now : now - want;
			share = (gap + left - 1) / left;
			left--;
			resize(pool, now < want ? nr + share : nr > share ? nr - share : 0);
			now = sum(s, size, "nr_hugepages");
		}
	} while (now != want && now != before);
	return 0;
}
