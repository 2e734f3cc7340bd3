/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Boot, and binding as in drivers/base/bus.c, drivers/base/dd.c and drivers/pci/pci-driver.c. In place of id
 * tables: a driver knows the devices it had in the text host, a VF is known by its PF's driver. What a real
 * probe does to the device (command register, power state, net devices) does not happen. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- boot ------------------------------------------------------------------------------------------- */

void sim_attach_writers(struct node *n)
{
	static const struct {
		const char   *glob;
		sim_write_fn *write;
	} writers[] = {
		{ "sys/bus/pci/drivers/*/bind", driver_bind_write },
		{ "sys/bus/pci/drivers/*/unbind", driver_unbind_write },
		{ "sys/bus/pci/drivers_probe", drivers_probe_write },
		{ "sys/devices/pci*/driver_override", driver_override_write },
		{ "sys/devices/pci*/sriov_numvfs", sriov_numvfs_write },
		{ "sys/devices/pci*/config", config_write },
		{ "sys/devices/pci*/reset", reset_write },
		{ "sys/devices/pci*/reset_method", reset_method_write },
	};
	char path[SIM_PATH_MAX];

	(void)node_path(path, n);
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
		if (n->type != TEXT_DIR && n->type != TEXT_LINK && fnmatch(writers[i].glob, path, 0) == 0)
			n->write = writers[i].write;
	for (struct node *c = n->child; c; c = c->next)
		sim_attach_writers(c);
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
	struct node *n = node_add(s, e->type, e->value, "%s", e->path);

	if (e->type == TEXT_BYTES) {
		n->len = e->len;
		memcpy(n->bytes, e->bytes, e->len);
	}
}

static int know_device(struct sim *s, const char *bdf)
{
	struct node *dev = sim_device(s, bdf), *methods;
	char path[SIM_PATH_MAX];

	if (!dev)
		return -EINVAL;
	methods = node_child(dev, "reset_method", 12);
	dev->home = sim_driver(dev)[0] ? strdup(sim_driver(dev)) : NULL;
	if (methods) {
		methods->methods = strdup(methods->text);
		(void)node_add(s, TEXT_FILE, NULL, "%s/reset", node_path(path, dev));
	}
	return 0;
}

int sim_boot(struct sim *s, const struct text_host *t, bool vfio)
{
	struct node *dir;
	int r = 0;

	for (size_t i = 0; i < t->n; i++)
		load_entry(s, &t->entry[i]);
	(void)node_add(s, TEXT_DIR, NULL, "sys/bus/pci/drivers");
	(void)node_add(s, TEXT_DIR, NULL, "sys/bus/pci/devices");
	(void)node_add(s, TEXT_FILE, NULL, "sys/bus/pci/drivers_probe");
	for (struct node *d = node_find(s, "sys/bus/pci/drivers")->child; d; d = d->next)
		add_driver(s, d->name);
	if (vfio)
		add_driver(s, SIM_VFIO);
	dir = node_find(s, "sys/bus/pci/devices");
	for (struct node *d = dir->child; r == 0 && d; d = d->next)
		r = know_device(s, d->name);
	sim_attach_writers(s->root);
	mark_fixed(s->root);
	return r;
}

/* ---- devices ---------------------------------------------------------------------------------------- */

struct node *sim_device(struct sim *s, const char *bdf)
{
	struct node *link = node_find(s, "sys/bus/pci/devices/%s", bdf);

	/* "../../../devices/...", seen from sys/bus/pci/devices */
	if (!link || link->type != TEXT_LINK || strncmp(link->text, "../../../", 9) != 0)
		return NULL;
	return node_find(s, "sys/%s", link->text + 9);
}

const char *sim_driver(const struct node *dev)
{
	const struct node *link = node_child(dev, "driver", 6);

	return link ? strrchr(link->text, '/') + 1 : "";
}

void sim_ups(char buf[SIM_PATH_MAX], const char *path)
{
	buf[0] = '\0';
	for (; (path = strchr(path, '/')); path++)
		(void)strcat(buf, "../");
}

/* pci_uevent() and dev_uevent() name the driver first (drivers/base/core.c). */
static void set_uevent(struct node *dev, const char *driver)
{
	struct node *n = node_child(dev, "uevent", 6);
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
	const char *now = sim_driver(dev);
	char path[SIM_PATH_MAX], ups[SIM_PATH_MAX], target[2 * SIM_PATH_MAX];

	(void)node_path(path, dev);
	if (now[0]) {
		node_remove(node_find(s, "sys/bus/pci/drivers/%s/%s", now, dev->name));
		node_remove(node_child(dev, "driver", 6));
	}
	set_uevent(dev, driver);
	if (!driver[0])
		return;
	sim_ups(ups, path);
	(void)snprintf(target, sizeof(target), "%sbus/pci/drivers/%s", ups, driver);
	(void)node_add(s, TEXT_LINK, target, "%s/driver", path);
	(void)snprintf(target, sizeof(target), "../../../../%s", path + strlen("sys/"));
	(void)node_add(s, TEXT_LINK, target, "sys/bus/pci/drivers/%s/%s", driver, dev->name);
}

/* pci_match_device(): an override binds to that driver only, whatever its id table says. */
static bool matches(const struct node *dev, const char *driver)
{
	const struct node *override = node_child(dev, "driver_override", 15);

	if (override && strcmp(override->text, "(null)") != 0)
		return strcmp(override->text, driver) == 0;
	return dev->home && strcmp(dev->home, driver) == 0;
}

/* vfio_pci_core_register_device() takes type 0 headers only, and vfio_group_find_or_alloc() (vfio/group.c)
 * wants an IOMMU group; both say EINVAL. */
static int probe(struct sim *s, struct node *dev, const char *driver)
{
	const struct node *config = node_child(dev, "config", 6);

	if (strcmp(driver, SIM_VFIO) == 0) {
		if (!node_child(dev, "iommu_group", 11) || (config && (config->bytes[0x0e] & 0x7f)))
			return -EINVAL;
	}
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
