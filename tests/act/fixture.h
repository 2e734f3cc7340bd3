/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A root directory with a few PCI functions, and a thread that plays the kernel: it watches the files with
 * inotify(7) and reacts to writes as drivers/pci/pci-driver.c and iov.c do. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/pci.h"
#include "base/error.h"
#include "host/root.h"

#define FX_GPU "0000:17:00.0" /* driver nvidia */
#define FX_PF  "0000:18:00.0" /* driver mlx5_core, 4 VFs at 18:00.2.. */

struct fx {
	char              dir[64];
	struct host_root *root;
	struct act_pci    pci;
	pthread_t         kernel;
	int               inotify, stop[2];
	bool              reacts;
	atomic_bool              vfio_refuses; /* vfio-pci's probe fails: the override is taken, the driver never comes */
};

static inline const char *fx_path(const struct fx *f, char buf[512], const char *path)
{
	(void)snprintf(buf, 512, "%s/%s", f->dir, path);
	return buf;
}

static inline void fx_dir(const struct fx *f, const char *path)
{
	char buf[512];

	(void)fx_path(f, buf, path);
	for (char *p = buf + strlen(f->dir) + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			(void)mkdir(buf, 0755);
			*p = '/';
		}
	(void)mkdir(buf, 0755);
}

static inline void fx_file(const struct fx *f, const char *path, const char *value)
{
	char buf[512];
	int fd = open(fx_path(f, buf, path), O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, value, strlen(value)), (ssize_t)strlen(value));
	(void)close(fd);
}

static inline void fx_link(const struct fx *f, const char *path, const char *target)
{
	char buf[512], tmp[520];

	(void)snprintf(tmp, sizeof(tmp), "%s.new", fx_path(f, buf, path));
	(void)unlink(tmp);
	assert_int_equal(symlink(target, tmp), 0);
	assert_int_equal(rename(tmp, buf), 0);
}

static inline void fx_unlink(const struct fx *f, const char *path)
{
	char buf[512];

	(void)unlink(fx_path(f, buf, path));
}

/* The file's first line; "" if it is empty or not there. */
static inline const char *fx_text(const struct fx *f, char value[64], const char *path)
{
	char buf[512];
	int fd = open(fx_path(f, buf, path), O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, value, 63);

	value[n < 0 ? 0 : n] = '\0';
	value[strcspn(value, "\n")] = '\0';
	if (fd >= 0)
		(void)close(fd);
	return value;
}

#define FX_DEVICES "sys/devices/pci0000:15/0000:15:01.0"

static inline void fx_device(const struct fx *f, const char *bdf, const char *driver)
{
	char path[256], target[256];

	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s", bdf);
	fx_dir(f, path);
	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/driver_override", bdf);
	fx_file(f, path, "(null)\n");
	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/iommu_group", bdf);
	fx_link(f, path, "../../../../kernel/iommu_groups/7");
	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bdf);
	(void)snprintf(target, sizeof(target), "../../../devices/pci0000:15/0000:15:01.0/%s", bdf);
	fx_link(f, path, target);
	if (!driver[0])
		return;
	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/driver", bdf);
	(void)snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
	fx_link(f, path, target);
}

static inline void fx_driver(const struct fx *f, const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s", name);
	fx_dir(f, path);
	(void)snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/bind", name);
	fx_file(f, path, "");
	(void)snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/unbind", name);
	fx_file(f, path, "");
}

static inline void fx_init(struct fx *f)
{
	struct error err = ERROR_INIT;

	*f = (struct fx){ .dir = "/tmp/velad-act-XXXXXX" };
	assert_non_null(mkdtemp(f->dir));
	fx_dir(f, "sys/bus/pci/devices");
	fx_driver(f, "nvidia");
	fx_driver(f, "vfio-pci");
	fx_driver(f, "mlx5_core");
	fx_device(f, FX_GPU, "nvidia");
	fx_device(f, FX_PF, "mlx5_core");
	fx_file(f, FX_DEVICES "/" FX_PF "/sriov_numvfs", "0\n");
	fx_file(f, FX_DEVICES "/" FX_PF "/sriov_totalvfs", "4\n");
	assert_int_equal(host_root_open(&f->root, f->dir, &err), 0);
	f->pci = (struct act_pci){ .root = f->root, .deadline_ms = 300 };
}

/* ---- the kernel ------------------------------------------------------------------------------------- */

static inline void fx_bind(const struct fx *f, const char *driver, const char *bdf)
{
	char path[256], target[256], override[64];

	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/driver_override", bdf);
	if (strcmp(driver, "vfio-pci") == 0 && (f->vfio_refuses || strcmp(fx_text(f, override, path), "vfio-pci") != 0))
		return;
	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/driver", bdf);
	(void)snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
	fx_link(f, path, target);
}

static inline void fx_set_vfs(const struct fx *f, unsigned n)
{
	for (unsigned i = 0; i < 4; i++) {
		char path[256], target[64], bdf[32];

		(void)snprintf(bdf, sizeof(bdf), "0000:18:00.%u", i + 2);
		(void)snprintf(path, sizeof(path), FX_DEVICES "/" FX_PF "/virtfn%u", i);
		(void)snprintf(target, sizeof(target), "../%s", bdf);
		if (i < n) {
			fx_device(f, bdf, "");
			fx_link(f, path, target);
		} else {
			fx_unlink(f, path);
			(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bdf);
			fx_unlink(f, path);
		}
	}
}

static inline void fx_react(const struct fx *f)
{
	static const char *const drivers[] = { "nvidia", "vfio-pci", "mlx5_core" };
	char path[256], value[64];

	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/unbind", drivers[i]);
		if (fx_text(f, value, path)[0]) {
			fx_file(f, path, "");
			(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/driver", value);
			fx_unlink(f, path);
		}
	}
	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/bind", drivers[i]);
		if (fx_text(f, value, path)[0]) {
			fx_file(f, path, "");
			fx_bind(f, drivers[i], value);
		}
	}
	fx_set_vfs(f, (unsigned)strtoul(fx_text(f, value, FX_DEVICES "/" FX_PF "/sriov_numvfs"), NULL, 10));
}

static inline void *fx_kernel(void *self)
{
	struct fx *f = self;
	struct pollfd p[2] = { { .fd = f->inotify, .events = POLLIN }, { .fd = f->stop[0], .events = POLLIN } };

	while (poll(p, 2, -1) > 0 && !p[1].revents) {
		char events[4096];

		if (read(f->inotify, events, sizeof(events)) > 0)
			fx_react(f);
	}
	return NULL;
}

static inline void fx_start_kernel(struct fx *f)
{
	static const char *const watched[] = {
		"sys/bus/pci/drivers/nvidia/bind", "sys/bus/pci/drivers/nvidia/unbind", "sys/bus/pci/drivers/vfio-pci/bind",
		"sys/bus/pci/drivers/vfio-pci/unbind", "sys/bus/pci/drivers/mlx5_core/unbind",
		FX_DEVICES "/" FX_PF "/sriov_numvfs",
	};
	char buf[512];

	f->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	assert_true(f->inotify >= 0);
	for (size_t i = 0; i < sizeof(watched) / sizeof(*watched); i++)
		assert_true(inotify_add_watch(f->inotify, fx_path(f, buf, watched[i]), IN_CLOSE_WRITE) >= 0);
	assert_int_equal(pipe(f->stop), 0);
	assert_int_equal(pthread_create(&f->kernel, NULL, fx_kernel, f), 0);
	f->reacts = true;
}

static inline void fx_done(struct fx *f)
{
	char command[128];

	if (f->reacts) {
		(void)close(f->stop[1]);
		assert_int_equal(pthread_join(f->kernel, NULL), 0);
		(void)close(f->stop[0]);
		(void)close(f->inotify);
	}
	host_root_close(f->root);
	(void)snprintf(command, sizeof(command), "rm -rf -- %s", f->dir);
	assert_int_equal(system(command), 0);
}
