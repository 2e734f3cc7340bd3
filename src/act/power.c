/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a function may sleep by itself, and how deep: power/control and d3cold_allowed
 * (Documentation/ABI/testing/sysfs-devices-power, sysfs-bus-pci). "on" wakes it first, and what is above it. */
#include "act/pci.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "host/root.h"

#define CONTROL "power/control"
#define D3COLD  "d3cold_allowed"

static int cannot(struct error *err, int r, const char *what, const char *name, const char *attr)
{
	return error_set(err, -EIO, "%s: cannot %s %s: %s%s", name, what, attr, strerror(-r),
			 r == -EACCES || r == -EPERM || r == -EROFS ? "; velad must be root on the real machine" : "");
}

/* A kernel without CONFIG_PM or without ACPI lacks the files: then it lets nothing sleep, or not so deep. */
static int read_power(const struct act_pci *p, struct act_power *ret, const char *path, const char *name, struct error *err)
{
	struct act_power now = { .d3cold = -1 };
	uint64_t n = 0;
	int r = host_read(p->root, now.control, sizeof(now.control), "%s/" CONTROL, path);

	if (r == -ENOENT)
		now.control[0] = '\0';
	else if (r < 0)
		return cannot(err, r, "read", name, CONTROL);
	r = host_read_uint(p->root, &n, 10, 1, "%s/" D3COLD, path);
	if (r < 0 && r != -ENOENT)
		return cannot(err, r, "read", name, D3COLD);
	if (r == 0)
		now.d3cold = (int8_t)n;
	*ret = now;
	return 0;
}

static bool control_differs(const struct act_power *now, const struct act_power *want)
{
	return want->control[0] && now->control[0] && strcmp(want->control, now->control) != 0;
}

static bool d3cold_differs(const struct act_power *now, const struct act_power *want)
{
	return want->d3cold >= 0 && now->d3cold >= 0 && want->d3cold != now->d3cold;
}

static int write_power(const struct act_pci *p, const struct act_power *now, const struct act_power *want, const char *path,
		       const char *name, struct error *err)
{
	int r;

	if (control_differs(now, want)) {
		r = host_write(p->root, want->control, "%s/" CONTROL, path);
		if (r < 0)
			return cannot(err, r, "write", name, CONTROL);
	}
	if (d3cold_differs(now, want)) {
		r = host_write(p->root, want->d3cold ? "1" : "0", "%s/" D3COLD, path);
		if (r < 0)
			return cannot(err, r, "write", name, D3COLD);
	}
	return 0;
}

int act_pci_power(const struct act_pci *p, struct act_power *ret, struct bdf fn, const struct act_power *want,
		  struct error *err)
{
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	struct act_power now;
	int r = act_pci_path(p, path, fn, err);

	if (r == 0)
		r = read_power(p, &now, path, bdf_text(name, fn), err);
	if (r == 0 && want && (control_differs(&now, want) || d3cold_differs(&now, want))) {
		r = write_power(p, &now, want, path, name, err);
		if (r == 0)
			r = read_power(p, &now, path, name, err);
	}
	if (r < 0)
		return r;
	if (want && control_differs(&now, want))
		return error_set(err, -EIO, "%s: " CONTROL " is \"%s\" after \"%s\" was written", name, now.control, want->control);
	if (want && d3cold_differs(&now, want))
		return error_set(err, -EIO, "%s: " D3COLD " is %d after %d was written", name, now.d3cold, want->d3cold);
	*ret = now;
	return 0;
}
