/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Devices, and binding as in drivers/base/bus.c, drivers/base/dd.c and drivers/pci/pci-driver.c. In place of id
 * tables: a driver knows the devices it had in the text host, a VF is known by its PF's driver. What a real
 * probe does to the device (command register, power state, net devices) does not happen. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "sim.h"

/* ---- devices ---------------------------------------------------------------------------------------- */

struct node *sim_device(struct sim *s, const char *bdf)
{
	struct node *link = node_find(s, "sys/bus/pci/devices/%s", bdf);

	/* "../../../devices/...", seen from sys/bus/pci/devices */
	if (!link || link->type != TEXT_LINK || strncmp(link->text, "../../../", 9) != 0)
		return NULL;
	return node_find(s, "sys/%s", link->text + 9);
}

bool sim_is_device(const struct node *n)
{
	struct bdf b;

	return n->type == TEXT_DIR && strchr(n->name, '.') && bdf_parse(&b, n->name);
}

struct node *sim_bridge(const struct node *dev)
{
	return sim_is_device(dev->parent) ? dev->parent : NULL;
}

const char *sim_driver(const struct node *dev)
{
	const struct node *link = node_attr(dev, "driver");

	return link ? strrchr(link->text, '/') + 1 : "";
}

/* pci_uevent() and dev_uevent() name the driver first (drivers/base/core.c). */
static void set_uevent(struct node *dev, const char *driver)
{
	struct node *n = node_attr(dev, "uevent");
	const char *rest = n ? n->text : "";
	char text[1024];

	if (!n)
		return;
	if (strncmp(rest, "DRIVER=", 7) == 0)
		rest += strcspn(rest, "\n") + 1;
	(void)snprintf(text, sizeof(text), "%s%s%s%s", driver[0] ? "DRIVER=" : "", driver, driver[0] ? "\n" : "", rest);
	node_text(n, text);
}

void sim_driver_set(struct sim *s, struct node *dev, const char *driver)
{
	autofree char *old = strdup(sim_driver(dev));
	char path[SIM_PATH_MAX];

	if (old && old[0]) {
		node_remove(s, node_find(s, "sys/bus/pci/drivers/%s/%s", old, dev->name));
		node_remove(s, node_attr(dev, "driver"));
		set_uevent(dev, "");
		uevent(s, "unbind", dev);
		if (s->guests && strcmp(old, SIM_VFIO) == 0)
			ats_attach(s, dev, false);
		if (strcmp(old, SIM_VFIO) == 0) /* vfio_pci_core_unregister_device() */
			sim_control(s, dev, "on");
	}
	if (!driver[0])
		return;
	if (strcmp(driver, SIM_VFIO) == 0) /* vfio_pci_core_register_device() */
		sim_control(s, dev, "auto");
	set_uevent(dev, driver);
	node_link(s, node_find(s, "sys/bus/pci/drivers/%s", driver), "%s/driver", node_path(path, dev));
	node_link(s, dev, "sys/bus/pci/drivers/%s/%s", driver, dev->name);
	uevent(s, "bind", dev);
	if (s->guests && strcmp(driver, SIM_VFIO) == 0)
		ats_attach(s, dev, true);
}

/* The PF's link to a VF that goes. */
static void unlink_vf(struct sim *s, const struct node *vf)
{
	for (struct node *c = vf->pf ? vf->pf->child : NULL, *next; c; c = next) {
		next = c->next;
		if (strncmp(c->name, "virtfn", 6) == 0 && strcmp(c->text + strlen("../"), vf->name) == 0)
			node_remove(s, c);
	}
}

/* With all below it: first the drivers go, then the devices. */
void sim_remove(struct sim *s, struct node *dev)
{
	for (struct node *c = dev->child, *next; c; c = next) {
		next = c->next;
		if (sim_is_device(c))
			sim_remove(s, c);
	}
	sriov_disable(s, dev);
	sim_driver_set(s, dev, "");
	unlink_vf(s, dev);
	group_remove(s, dev);
	uevent(s, "remove", dev);
	node_remove(s, node_find(s, "sys/bus/pci/devices/%s", dev->name));
	node_remove(s, dev);
}

/* pci_match_device(): an override binds to that driver only, whatever its id table says. */
static bool matches(const struct node *dev, const char *driver)
{
	const struct node *override = node_attr(dev, "driver_override");

	if (override && strcmp(override->text, "(null)") != 0)
		return strcmp(override->text, driver) == 0;
	return dev->home && strcmp(dev->home, driver) == 0;
}

/* vfio_pci_core_register_device() takes type 0 headers only, and vfio_group_find_or_alloc() (vfio/group.c)
 * wants an IOMMU group; both say EINVAL. */
static int probe(struct sim *s, struct node *dev, const char *driver)
{
	const struct node *config = config_of(dev), *autoprobe = dev->pf ? node_attr(dev->pf, "sriov_drivers_autoprobe") : NULL;
	const struct node *override = node_attr(dev, "driver_override");

	/* pci_device_can_probe() */
	if (autoprobe && strcmp(autoprobe->text, "0") == 0 && (!override || strcmp(override->text, "(null)") == 0))
		return -ENODEV;
	if (strcmp(driver, SIM_VFIO) == 0 && (group_of(dev) < 0 || (config && config->bytes[PCI_HEADER_TYPE] & 0x7f)))
		return -EINVAL;
	sim_driver_set(s, dev, driver);
	return 0;
}

void sim_probe(struct sim *s, struct node *dev)
{
	struct node *drivers = node_find(s, "sys/bus/pci/drivers");

	for (struct node *d = drivers->child; d && !sim_driver(dev)[0]; d = d->next)
		if (matches(dev, d->name))
			(void)probe(s, dev, d->name);
}

/* ---- attributes ------------------------------------------------------------------------------------- */

/* sysfs_streq() forgives one newline at the end. */
static struct node *device_named(struct sim *s, const char *value)
{
	char bdf[BDF_TEXT_MAX];
	size_t len = strcspn(value, "\n");

	if (len >= sizeof(bdf) || (value[len] && value[len + 1]))
		return NULL;
	(void)snprintf(bdf, sizeof(bdf), "%.*s", (int)len, value);
	return sim_device(s, bdf);
}

/* bind_store(), then device_driver_attach(): -EBUSY when it has a driver, also this one. */
int driver_bind_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *dev = device_named(s, value);

	(void)len;
	(void)off;
	if (!dev || !matches(dev, n->parent->name))
		return -ENODEV;
	return sim_driver(dev)[0] ? -EBUSY : probe(s, dev, n->parent->name);
}

/* unbind_store(). A PF's driver takes its VFs along (mlx5_sriov_disable() from remove_one(), others alike). */
int driver_unbind_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *dev = device_named(s, value);

	(void)len;
	(void)off;
	if (!dev || strcmp(sim_driver(dev), n->parent->name) != 0)
		return -ENODEV;
	sriov_disable(s, dev);
	sim_driver_set(s, dev, "");
	return 0;
}

/* bus_rescan_devices_helper(): that no driver matched is no error. */
int drivers_probe_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *dev = device_named(s, value);

	(void)n;
	(void)len;
	(void)off;
	if (!dev)
		return -ENODEV;
	sim_probe(s, dev);
	return 0;
}

/* driver_set_override(), drivers/base/driver.c; NULL is shown as "(null)". */
int driver_override_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	char text[256];

	(void)s;
	(void)off;
	if (len >= sizeof(text))
		return -EINVAL;
	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(value, "\n"), value);
	node_text(n, text[0] ? text : "(null)");
	return 0;
}
