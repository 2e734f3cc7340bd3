/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Binding drivers, creating VFs. Orders go to the bus's attributes; what counts is what can be read
 * back afterwards. */
#include "act/pci.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "host/root.h"

#define VFIO_PCI "vfio-pci"

/* "sys/devices/pci0000:15/.../0000:17:01.0": works below a text host, too, which follows no links. */
int act_pci_path(const struct act_pci *p, char path[HOST_PATH_MAX], struct bdf fn, struct error *err)
{
	static const char up[] = "../../../"; /* from sys/bus/pci/devices to sys */
	char name[BDF_TEXT_MAX], link[HOST_PATH_MAX - 8];
	int r = host_link(p->root, link, sizeof(link), "sys/bus/pci/devices/%s", bdf_text(name, fn));

	if (r == -ENOENT)
		return error_set(err, -ENODEV, "this host has no PCI function %s", name);
	if (r < 0)
		return error_set(err, -EIO, "cannot read where %s is in sysfs: %s", name, strerror(-r));
	if (strncmp(link, up, strlen(up)) != 0)
		return error_set(err, -EIO, "sys/bus/pci/devices/%s leads to \"%s\", not to a device", name, link);
	(void)snprintf(path, HOST_PATH_MAX, "sys/%s", link + strlen(up));
	return 0;
}

static const char *none(const char *driver)
{
	return driver[0] ? driver : "(none)";
}

static bool is_same(const struct act_driver *a, const struct act_driver *b)
{
	return strcmp(a->driver, b->driver) == 0 && strcmp(a->override, b->override) == 0;
}

struct deadline {
	struct timespec end;
};

static struct deadline deadline_in(unsigned ms)
{
	struct deadline d;

	(void)clock_gettime(CLOCK_MONOTONIC, &d.end); /* cannot fail for this clock */
	d.end.tv_sec += ms / 1000;
	d.end.tv_nsec += (long)(ms % 1000) * 1000000;
	return d;
}

/* Sleeps a little; false once the deadline is over. */
static bool deadline_wait(const struct deadline *d)
{
	struct timespec now, nap = { .tv_nsec = 10 * 1000 * 1000 };

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	if ((now.tv_sec - d->end.tv_sec) * 1000000000 + now.tv_nsec - d->end.tv_nsec >= 0)
		return false;
	(void)nanosleep(&nap, NULL); /* a signal only makes the nap shorter */
	return true;
}

/* ---- drivers ---------------------------------------------------------------------------------------- */

static int driver_at(const struct act_pci *p, struct act_driver *ret, const char *path, struct error *err)
{
	struct act_driver now = { 0 };
	char link[HOST_PATH_MAX];
	int r = host_link(p->root, link, sizeof(link), "%s/driver", path);

	if (r == 0) {
		const char *base = strrchr(link, '/');

		base = base ? base + 1 : link;
		if ((size_t)snprintf(now.driver, sizeof(now.driver), "%s", base) >= sizeof(now.driver))
			return error_set(err, -EIO, "the driver of %s has too long a name: %s", path, base);
	} else if (r != -ENOENT) {
		return error_set(err, -EIO, "cannot read %s/driver: %s", path, strerror(-r));
	}
	r = host_read(p->root, now.override, sizeof(now.override), "%s/driver_override", path);
	if (r == -ENOENT || (r == 0 && strcmp(now.override, "(null)") == 0))
		now.override[0] = '\0'; /* driver_override_show() prints a NULL pointer so */
	else if (r < 0)
		return error_set(err, -EIO, "cannot read %s/driver_override: %s", path, strerror(-r));
	*ret = now;
	return 0;
}

int act_pci_driver(const struct act_pci *p, struct act_driver *ret, struct bdf fn, struct error *err)
{
	char path[HOST_PATH_MAX];
	int r = act_pci_path(p, path, fn, err);

	return r < 0 ? r : driver_at(p, ret, path, err);
}

static int refused(struct error *err, int r, const char *name, const char *what, const char *driver)
{
	return error_set(err, r == -EBUSY ? -EBUSY : -EIO, "%s: cannot %s %s: %s%s", name, what, driver, strerror(-r),
			 r == -EACCES || r == -EPERM || r == -EROFS ? "; velad must be root on the real machine" : "");
}

/* An empty line clears it (driver_set_override(), drivers/base/driver.c). */
static int write_override(const struct act_pci *p, const char *path, const char *name, const char *override,
			  struct error *err)
{
	int r = host_write(p->root, override[0] ? override : "\n", "%s/driver_override", path);

	if (r < 0)
		return refused(err, r, name, "set the driver override to", none(override));
	return 0;
}

/* -ENODEV: it is not bound to that driver any more, which is what was asked for. */
static int unbind(const struct act_pci *p, const char *name, const char *driver, struct error *err)
{
	int r = host_write(p->root, name, "sys/bus/pci/drivers/%s/unbind", driver);

	return r < 0 && r != -ENODEV ? refused(err, r, name, "unbind it from", driver) : 0;
}

/* Why a driver does not take a device, in the operator's words. */
static int bind_refused(const struct act_pci *p, const char *path, const char *name, const char *driver, int r,
			struct error *err)
{
	char link[HOST_PATH_MAX];

	if (r == -ENOENT)
		return error_set(err, -EIO, "%s: there is no driver %s in the kernel; modprobe it", name, driver);
	if (strcmp(driver, VFIO_PCI) == 0 && host_link(p->root, link, sizeof(link), "%s/iommu_group", path) == -ENOENT)
		return error_set(err, -EIO,
				 "%s: %s refuses a device without an IOMMU group: %s; enable VT-d or AMD-Vi in the firmware "
				 "and boot with intel_iommu=on or amd_iommu=on",
				 name, driver, strerror(-r));
	if (r == -ENODEV)
		return error_set(err, -EIO, "%s: driver %s does not take this device; its id is not in that driver's table",
				 name, driver);
	return refused(err, r, name, "bind it to", driver);
}

/* drivers/NAME/bind, not drivers_probe: only the former reports what the driver's probe said
 * (device_driver_attach(), drivers/base/dd.c). -EBUSY, or -EINVAL from another probe that was faster: the
 * caller looks again. */
static int bind(const struct act_pci *p, const char *path, const char *name, const char *driver,
		struct error *err)
{
	int r = host_write(p->root, name, "sys/bus/pci/drivers/%s/bind", driver);
	struct act_driver now;

	if (r == 0 || r == -EAGAIN || (driver_at(p, &now, path, err) == 0 && now.driver[0]))
		return 0; /* -EAGAIN: the driver's probe is deferred */
	return bind_refused(p, path, name, driver, r, err);
}

/* One round towards `want`. udev may bind the device meanwhile, hence rounds. */
static int approach(const struct act_pci *p, const char *path, const char *name, const struct act_driver *now,
		    const struct act_driver *want, struct error *err)
{
	int r = 0;

	if (strcmp(now->override, want->override) != 0)
		r = write_override(p, path, name, want->override, err);
	if (r == 0 && now->driver[0] && strcmp(now->driver, want->driver) != 0)
		r = unbind(p, name, now->driver, err);
	if (r == 0 && want->driver[0] && strcmp(now->driver, want->driver) != 0)
		r = bind(p, path, name, want->driver, err);
	return r;
}

int act_pci_driver_set(const struct act_pci *p, struct bdf fn, const struct act_driver *want,
		       struct error *err)
{
	struct deadline end = deadline_in(p->deadline_ms);
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	struct act_driver now;
	int r = act_pci_path(p, path, fn, err);

	if (r == 0)
		r = driver_at(p, &now, path, err);
	(void)bdf_text(name, fn);
	while (r == 0 && !is_same(&now, want)) {
		r = approach(p, path, name, &now, want, err);
		if (r == 0)
			r = driver_at(p, &now, path, err);
		if (r == 0 && !is_same(&now, want) && !deadline_wait(&end))
			return error_set(err, -ETIMEDOUT,
					 "%s still has driver %s and override %s %u ms after it was to have driver %s and override %s",
					 name, none(now.driver), none(now.override), p->deadline_ms, none(want->driver),
					 none(want->override));
	}
	return r;
}

/* ---- VFs -------------------------------------------------------------------------------------------- */

static int read_count(const struct act_pci *p, uint16_t *ret, const char *path, const char *attr, struct bdf pf,
		      struct error *err)
{
	char name[BDF_TEXT_MAX];
	uint64_t n;
	int r = host_read_uint(p->root, &n, 10, UINT16_MAX, "%s/%s", path, attr);

	if (r == -ENOENT)
		return error_set(err, -EIO, "%s has no SR-IOV; choose another NIC or enable it in its firmware",
				 bdf_text(name, pf));
	if (r < 0)
		return error_set(err, -EIO, "cannot read %s of %s: %s", attr, bdf_text(name, pf), strerror(-r));
	*ret = (uint16_t)n;
	return 0;
}

int act_pci_vf_count(const struct act_pci *p, uint16_t *ret, struct bdf pf, struct error *err)
{
	char path[HOST_PATH_MAX];
	int r = act_pci_path(p, path, pf, err);

	return r < 0 ? r : read_count(p, ret, path, "sriov_numvfs", pf, err);
}

/* The BDF of VF i of the PF; -ENOENT if it is not there. */
static int vf_bdf(const struct act_pci *p, struct bdf *ret, const char *path, unsigned i)
{
	char link[HOST_PATH_MAX];
	const char *base;
	int r = host_link(p->root, link, sizeof(link), "%s/virtfn%u", path, i);

	if (r < 0)
		return r;
	base = strrchr(link, '/');
	return bdf_parse(ret, base ? base + 1 : link) ? 0 : -EINVAL;
}

/* Taking VFs away from under a guest would block until it ends, and end it on some drivers. */
static int refuse_used_vfs(const struct act_pci *p, const char *path, const char *name, uint16_t count,
			   struct error *err)
{
	for (unsigned i = 0; i < count; i++) {
		struct act_driver now;
		char vf_name[BDF_TEXT_MAX];
		struct bdf vf;
		int r;

		if (vf_bdf(p, &vf, path, i) < 0)
			continue;
		r = act_pci_driver(p, &now, vf, err);
		if (r < 0)
			return r;
		if (strcmp(now.driver, VFIO_PCI) == 0)
			return error_set(err, -EBUSY,
					 "%s: its VF count cannot change while VF %s is bound to vfio-pci; delete the instance that has it",
					 name, bdf_text(vf_name, vf));
	}
	return 0;
}

static int write_count(const struct act_pci *p, const char *path, const char *name, uint16_t n, struct error *err)
{
	char text[8];
	struct act_driver pf;
	int r;

	(void)snprintf(text, sizeof(text), "%" PRIu16, n);
	r = host_write(p->root, text, "%s/sriov_numvfs", path);
	if (r == 0)
		return 0;
	if (driver_at(p, &pf, path, err) < 0)
		pf = (struct act_driver){ 0 };
	/* sriov_numvfs_store(), drivers/pci/iov.c */
	if (r == -ENOENT && !pf.driver[0])
		return error_set(err, -EIO, "%s: cannot make %u VFs: the PF has no driver; bind its driver first", name, n);
	if (r == -ENOENT)
		return error_set(err, -EIO, "%s: cannot make %u VFs: driver %s does not do SR-IOV through sysfs", name, n,
				 pf.driver);
	return error_set(err, r == -EBUSY ? -EBUSY : -EIO, "%s: driver %s refused %u VFs: %s; see the kernel log", name,
			 none(pf.driver), n, strerror(-r));
}

#define AUTOPROBE "sriov_drivers_autoprobe"

/* pci_device_can_probe(), drivers/pci/pci-driver.c: with 0, a VF gets a driver by driver_override only. */
int act_pci_autoprobe(const struct act_pci *p, int *ret, struct bdf pf, enum act_want want, struct error *err)
{
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	uint64_t now = 0;
	int r = act_pci_path(p, path, pf, err);

	(void)bdf_text(name, pf);
	for (bool wrote = false; r == 0; wrote = true) {
		r = host_read_uint(p->root, &now, 10, 1, "%s/" AUTOPROBE, path);
		if (r < 0 && r != -ENOENT)
			return error_set(err, -EIO, "cannot read " AUTOPROBE " of %s: %s", name, strerror(-r));
		*ret = r < 0 ? -1 : (int)now;
		if (r < 0 || want == ACT_LOOK || now == (want == ACT_ON))
			return 0;
		if (wrote)
			return error_set(err, -EIO, "%s: " AUTOPROBE " is %d after %d was written", name, *ret, want == ACT_ON);
		r = host_write(p->root, want == ACT_ON ? "1" : "0", "%s/" AUTOPROBE, path);
		if (r < 0)
			return refused(err, r, name, "write", AUTOPROBE);
	}
	return r;
}

/* Without a group vfio-pci does not take it: where the PF has one, the VF gets one. */
static bool has_group(const struct act_pci *p, const char *path, const char *vf_path)
{
	char link[HOST_PATH_MAX];

	return host_link(p->root, link, sizeof(link), "%s/iommu_group", path) < 0 ||
	       host_link(p->root, link, sizeof(link), "%s/iommu_group", vf_path) == 0;
}

/* The kernel has added all VFs when write(2) returns (sriov_enable()), but not each driver's probe is
 * synchronous and not each PF driver keeps to it. */
static bool vfs_are_there(const struct act_pci *p, const char *path, uint16_t n)
{
	char vf_path[HOST_PATH_MAX];
	struct error ignored = ERROR_INIT;
	struct bdf vf;

	for (unsigned i = 0; i < n; i++)
		if (vf_bdf(p, &vf, path, i) < 0 || act_pci_path(p, vf_path, vf, &ignored) < 0 || !has_group(p, path, vf_path))
			return false;
	return vf_bdf(p, &vf, path, n) < 0;
}

static int await_count(const struct act_pci *p, const char *path, struct bdf pf, uint16_t n, struct error *err)
{
	struct deadline end = deadline_in(p->deadline_ms);
	char name[BDF_TEXT_MAX];
	uint16_t now;

	for (;;) {
		int r = read_count(p, &now, path, "sriov_numvfs", pf, err);

		if (r < 0)
			return r;
		if (now == n && vfs_are_there(p, path, n))
			return 0;
		if (!deadline_wait(&end))
			return error_set(err, -ETIMEDOUT,
					 "%s shows %u VFs and not each has its device %u ms after %u were asked for; see the kernel log",
					 bdf_text(name, pf), now, p->deadline_ms, n);
	}
}

/* The kernel takes a change between two non-zero counts only through 0. */
static int change_count(const struct act_pci *p, const char *path, struct bdf pf, uint16_t now, uint16_t n,
			struct error *err)
{
	char name[BDF_TEXT_MAX];
	int r = refuse_used_vfs(p, path, bdf_text(name, pf), now, err);

	if (r == 0 && now && n)
		r = write_count(p, path, name, 0, err);
	return r < 0 ? r : write_count(p, path, name, n, err);
}

int act_pci_vf_count_set(const struct act_pci *p, struct bdf pf, uint16_t n, struct error *err)
{
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	uint16_t now, total;
	int r = act_pci_path(p, path, pf, err);

	if (r == 0)
		r = read_count(p, &now, path, "sriov_numvfs", pf, err);
	if (r == 0)
		r = read_count(p, &total, path, "sriov_totalvfs", pf, err);
	if (r < 0)
		return r;
	if (n > total)
		return error_set(err, -ENOSPC, "%s has at most %u VFs, %u were asked for; raise the number in its firmware",
				 bdf_text(name, pf), total, n);
	if (now != n)
		r = change_count(p, path, pf, now, n, err);
	return r < 0 ? r : await_count(p, path, pf, n, err);
}
