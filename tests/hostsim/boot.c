/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Boot: the tree from the text host, which files take writes, which names never change. */
#include <errno.h>
#include <fnmatch.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "sim.h"

void sim_attach(struct node *n)
{
	static const struct {
		const char *glob;
		sim_write_fn *write;
		sim_read_fn *read;
	} files[] = {
		{ "sys/bus/pci/drivers/*/bind", driver_bind_write, NULL },
		{ "sys/bus/pci/drivers/*/unbind", driver_unbind_write, NULL },
		{ "sys/bus/pci/drivers_probe", drivers_probe_write, NULL },
		{ "sys/devices/pci*/driver_override", driver_override_write, NULL },
		{ "sys/devices/pci*/sriov_numvfs", sriov_numvfs_write, NULL },
		{ "sys/devices/pci*/sriov_drivers_autoprobe", autoprobe_write, NULL },
		{ "sys/devices/pci*/config", config_write, NULL },
		{ "sys/devices/pci*/reset", reset_write, NULL },
		{ "sys/devices/pci*/reset_subordinate", reset_subordinate_write, NULL },
		{ "sys/devices/pci*/reset_method", reset_method_write, NULL },
		{ "sys/devices/pci*/d3cold_allowed", d3cold_write, NULL },
		{ "sys/devices/pci*/power/control", control_write, NULL },
		{ "sys/devices/system/node/node*/hugepages/*/nr_hugepages", pool_write, NULL },
		{ "sys/kernel/mm/hugepages/*/nr_hugepages", pools_write, pools_read },
		{ "sys/kernel/mm/hugepages/*/free_hugepages", NULL, pools_read },
		{ "answers/vf/*/*", vf_write, NULL },
		{ ".hostsim/event", event_write, NULL },
		{ ".hostsim/fault", fault_write, fault_read },
		{ ".hostsim/log", log_write, log_read },
		{ ".hostsim/state", NULL, sim_state },
		{ ".hostsim/uevents", NULL, uevent_read },
	};
	char path[SIM_PATH_MAX];

	(void)node_path(path, n);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (n->type != TEXT_DIR && n->type != TEXT_LINK && fnmatch(files[i].glob, path, 0) == 0) {
			n->write = files[i].write;
			n->read = files[i].read;
		}
	for (struct node *c = n->child; c; c = c->next)
		sim_attach(c);
}

/* Links to and from drivers come and go, the rest of the text host stays. */
static void mark_fixed(struct node *n)
{
	char path[SIM_PATH_MAX];

	(void)node_path(path, n);
	n->fixed = fnmatch("sys/devices/pci*/driver", path, 0) != 0 &&
		   fnmatch("sys/devices/pci*/virtfn*", path, 0) != 0 &&
		   fnmatch("sys/bus/pci/drivers/*/*:*", path, 0) != 0;
	for (struct node *c = n->child; c; c = c->next)
		mark_fixed(c);
}

static void add_driver(struct sim *s, const char *name)
{
	(void)node_add(s, TEXT_FILE, NULL, "sys/bus/pci/drivers/%s/bind", name);
	(void)node_add(s, TEXT_FILE, NULL, "sys/bus/pci/drivers/%s/unbind", name);
}

static void load_entry(struct sim *s, const struct text_entry *e)
{
	struct node *n;

	if (e->type == TEXT_ERROR) /* faults are asked for in .hostsim/fault */
		return;
	n = node_add(s, e->type, e->value, "%s", e->path);
	if (e->type == TEXT_BYTES) {
		n->len = e->len;
		memcpy(n->bytes, e->bytes, e->len);
	}
}

/* A lean dump names a function's driver only in uevent; the links are made up for it. */
static void give_driver(struct sim *s, struct node *dev)
{
	const struct node *n = node_attr(dev, "uevent");
	char name[128];

	if (sim_driver(dev)[0])
		(void)snprintf(name, sizeof(name), "%s", sim_driver(dev));
	else if (!n || !n->text || sscanf(n->text, "DRIVER=%127[^\n]", name) != 1)
		return;
	add_driver(s, name);
	sim_driver_set(s, dev, name);
}

/* pci_pm_init() lets nothing sleep by itself; pcie_portdrv_probe() lets ports, on machines that are not too old. */
static void give_power(struct sim *s, struct node *dev)
{
	char path[SIM_PATH_MAX];

	(void)node_path(path, dev);
	if (!node_find(s, "%s/power/control", path))
		(void)node_add(s, TEXT_FILE, config_is_bridge(dev) ? "auto" : "on", "%s/power/control", path);
	if (config_is_bridge(dev))
		(void)node_add(s, TEXT_FILE, NULL, "%s/reset_subordinate", path);
	if (!node_attr(dev, "d3cold_allowed"))
		(void)node_add(s, TEXT_FILE, "1", "%s/d3cold_allowed", path);
}

static int know_device(struct sim *s, const char *bdf)
{
	struct node *dev = sim_device(s, bdf), *methods, *config, *physfn;
	char path[SIM_PATH_MAX];
	uint16_t ats;

	if (!dev)
		return -EINVAL;
	give_power(s, dev);
	give_driver(s, dev);
	methods = node_attr(dev, "reset_method");
	group_count(s, dev, 1);
	dev->home = sim_driver(dev)[0] ? strdup(sim_driver(dev)) : NULL;
	if (methods) {
		methods->methods = strdup(methods->text);
		(void)node_add(s, TEXT_FILE, NULL, "%s/reset", node_path(path, dev));
	}
	physfn = node_attr(dev, "physfn");
	dev->pf = physfn ? node_attr(dev->parent, physfn->text + strlen("../")) : NULL;
	config = config_of(dev);
	ats = config ? config_ecap(config, PCI_EXT_CAP_ID_ATS) : 0;
	dev->ats = ats && config_get16(config, ats + PCI_ATS_CTRL) & PCI_ATS_CTRL_ENABLE;
	return 0;
}

/* Each size that some node has a pool of has one for all nodes, too. */
static void add_pools(struct sim *s)
{
	const struct node *nodes = node_find(s, "sys/devices/system/node");

	for (const struct node *c = nodes ? nodes->child : NULL; c; c = c->next) {
		const struct node *pools = node_attr(c, "hugepages");

		for (const struct node *p = pools ? pools->child : NULL; p; p = p->next) {
			(void)node_add(s, TEXT_FILE, NULL, "sys/kernel/mm/hugepages/%s/nr_hugepages", p->name);
			(void)node_add(s, TEXT_FILE, NULL, "sys/kernel/mm/hugepages/%s/free_hugepages", p->name);
		}
	}
}

static void add_files(struct sim *s, bool vfio)
{
	(void)node_add(s, TEXT_DIR, NULL, "sys/bus/pci/drivers");
	(void)node_add(s, TEXT_DIR, NULL, "sys/bus/pci/devices");
	(void)node_add(s, TEXT_FILE, NULL, "sys/bus/pci/drivers_probe");
	for (struct node *d = node_find(s, "sys/bus/pci/drivers")->child; d; d = d->next)
		add_driver(s, d->name);
	if (vfio)
		add_driver(s, SIM_VFIO);
	add_pools(s);
	for (const char *const *f = (const char *const[]){ "event", "fault", "log", "state", "uevents", NULL }; *f; f++)
		(void)node_add(s, TEXT_FILE, NULL, ".hostsim/%s", *f);
}

int sim_boot(struct sim *s, const struct text_host *t, bool vfio, const char *cmdline)
{
	struct node *line, *devices;
	int r = 0;

	for (size_t i = 0; i < t->n; i++)
		load_entry(s, &t->entry[i]);
	line = node_find(s, "proc/cmdline");
	if (cmdline && line && line->text)
		node_textf(line, "%s %s", line->text, cmdline);
	else if (cmdline)
		(void)node_add(s, TEXT_FILE, cmdline, "proc/cmdline");
	add_files(s, vfio);
	devices = node_find(s, "sys/bus/pci/devices");
	for (struct node *d = devices->child; r == 0 && d; d = d->next)
		r = know_device(s, d->name);
	for (struct node *d = devices->child; r == 0 && d; d = d->next)
		vf_boot(s, sim_device(s, d->name));
	if (r == 0 && s->groups != GROUPS_TEXT)
		group_boot(s);
	sim_attach(s->root);
	mark_fixed(s->root);
	s->stale = NULL;   /* nobody has seen what is gone, */
	s->events_len = 0; /* or heard of it */
	return r;
}
