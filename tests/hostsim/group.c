/* SPDX-License-Identifier: GPL-2.0-or-later */
/* IOMMU groups: pci_device_group(), drivers/iommu/iommu.c as of 6.12, without the DMA alias quirks of single devices.
 *
 * Its flaw: ACS is egress control, but a function whose own path isolates (or a port of its own) is set apart although a
 * neighbour's port does not isolate and so lets the neighbour reach it. Two endpoints below two ports of one switch
 * without ACS get two groups. GROUPS_FIXED has what Jason Gunthorpe's series "Fix incorrect iommu_groups with PCIe ACS"
 * (2025) makes of switches: once one port of a switch does not isolate, all its ports and everything below them is one
 * group. What the series does with functions of one device is disputed in its thread and not modelled. */
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "sim.h"

bool sim_iommu(struct sim *s)
{
	const struct node *iommu = node_find(s, "sys/class/iommu");

	return iommu && iommu->child;
}

int group_of(const struct node *dev)
{
	const struct node *link = node_attr(dev, "iommu_group");

	return link ? atoi(strrchr(link->text, '/') + 1) : -1;
}

/* pci_acs_path_enabled(dev, NULL, REQ_ACS_FLAGS) */
static bool path_isolates(struct sim *s, const struct node *dev)
{
	for (; dev; dev = sim_bridge(dev))
		if (!acs_enabled(s, dev))
			return false;
	return true;
}

/* pci_for_each_dma_alias(), drivers/pci/search.c: a bridge to conventional PCI signs for what is below. Returns the
 * last alias; *group is that of the first that has one. */
static struct node *last_alias(struct node *dev, int *group)
{
	struct node *last = dev;

	*group = group_of(dev);
	for (struct node *at = sim_bridge(dev); at && *group < 0; at = sim_bridge(at)) {
		int type = config_type(at);

		if (type == PCI_EXP_TYPE_ROOT_PORT || type == PCI_EXP_TYPE_UPSTREAM || type == PCI_EXP_TYPE_DOWNSTREAM)
			continue;
		last = at;
		*group = group_of(at);
	}
	return last;
}

/* get_pci_function_alias_group() */
static int functions_group(struct sim *s, const struct node *dev)
{
	struct bdf a, b;

	if (!config_multifunction(dev) || acs_enabled(s, dev) || !bdf_parse(&a, dev->name))
		return -1;
	for (const struct node *c = dev->parent->child; c; c = c->next)
		if (c != dev && sim_is_device(c) && bdf_parse(&b, c->name) && bdf_same_device(a, b) &&
		    !acs_enabled(s, c) && group_of(c) >= 0)
			return group_of(c);
	return -1;
}

static int any_below(const struct node *dir)
{
	int group = -1;

	for (const struct node *c = dir->child; c && group < 0; c = c->next)
		if (sim_is_device(c)) {
			group = group_of(c);
			if (group < 0)
				group = any_below(c);
		}
	return group;
}

/* The upper port of the topmost switch above dev that has a port which does not isolate; NULL: none. */
static const struct node *leaky_switch(struct sim *s, const struct node *dev)
{
	const struct node *found = NULL;

	for (const struct node *at = dev; at; at = sim_bridge(at)) {
		if (config_type(at) != PCI_EXP_TYPE_DOWNSTREAM)
			continue;
		for (const struct node *c = at->parent->child; c; c = c->next)
			if (sim_is_device(c) && !acs_enabled(s, c))
				found = at->parent;
	}
	return found;
}

/* An existing group, or -1. */
static int find(struct sim *s, struct node *dev)
{
	const struct node *leaky = s->groups == GROUPS_FIXED ? leaky_switch(s, dev) : NULL;
	int group;

	if (leaky)
		return any_below(leaky);
	dev = last_alias(dev, &group);
	while (group < 0 && sim_bridge(dev) && !path_isolates(s, sim_bridge(dev))) {
		dev = sim_bridge(dev);
		group = group_of(dev);
	}
	return group < 0 ? functions_group(s, dev) : group;
}

/* iommu_group_alloc() takes the lowest number that is free (ida_alloc()). */
static int unused(const struct sim *s)
{
	int id = 0;

	while (id < SIM_GROUPS - 1 && s->members[id])
		id++;
	return id;
}

void group_count(struct sim *s, const struct node *dev, int n)
{
	int id = group_of(dev);

	if (id >= 0 && id < SIM_GROUPS)
		s->members[id] = (uint16_t)(s->members[id] + n);
}

/* All have the default domain's type, unless somebody wrote to it; NULL: not in the text host. */
static const char *any_type(struct sim *s)
{
	const struct node *groups = node_find(s, "sys/kernel/iommu_groups");

	for (const struct node *g = groups ? groups->child : NULL; g; g = g->next)
		if (node_attr(g, "type"))
			return node_attr(g, "type")->text;
	return NULL;
}

static void add(struct sim *s, struct node *dev, const char *type)
{
	char path[SIM_PATH_MAX];
	int id = find(s, dev);

	if (id < 0)
		id = unused(s);
	node_link(s, dev, "sys/kernel/iommu_groups/%d/devices/%s", id, dev->name);
	node_link(s, node_find(s, "sys/kernel/iommu_groups/%d", id), "%s/iommu_group", node_path(path, dev));
	group_count(s, dev, 1);
	if (type)
		(void)node_add(s, TEXT_FILE, type, "sys/kernel/iommu_groups/%d/type", id);
}

void group_add(struct sim *s, struct node *dev)
{
	if (sim_iommu(s))
		add(s, dev, any_type(s));
}

void group_remove(struct sim *s, struct node *dev)
{
	const struct node *devices;
	int id = group_of(dev);

	if (id < 0)
		return;
	group_count(s, dev, -1);
	node_remove(s, node_attr(dev, "iommu_group"));
	node_remove(s, node_find(s, "sys/kernel/iommu_groups/%d/devices/%s", id, dev->name));
	devices = node_find(s, "sys/kernel/iommu_groups/%d/devices", id);
	if (devices && !devices->child)
		node_remove(s, node_find(s, "sys/kernel/iommu_groups/%d", id));
}

/* Anew, from ACS as firmware and kernel leave it; in the order of addresses, which is that of discovery below one root
 * bus. What the text host says is forgotten, but for the type. */
void group_boot(struct sim *s)
{
	const struct node *devices = node_find(s, "sys/bus/pci/devices");
	autofree char *type = any_type(s) ? strdup(any_type(s)) : NULL;

	node_remove(s, node_find(s, "sys/kernel/iommu_groups"));
	memset(s->members, 0, sizeof(s->members));
	for (struct node *d = devices->child; d; d = d->next) {
		node_remove(s, node_attr(sim_device(s, d->name), "iommu_group"));
		acs_enable(s, sim_device(s, d->name));
	}
	for (struct node *d = devices->child; d && sim_iommu(s); d = d->next)
		add(s, sim_device(s, d->name), type);
}
