/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is done to a function between two tenants: its reset, and looking whether it is whole. Resets go through sysfs
 * `reset` only, after a look at who is around it just now: no bus reset hits a function of somebody else. */
#include "act/pci.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "host/child.h"
#include "host/pcicap.h"
#include "host/root.h"
#include "plan/reset.h"

#define SCRUB_OUTPUT_MAX (256 * 1024)

/* ---- who is around ------------------------------------------------------------------------------------- */

struct around {
	struct arena arena;
	struct bdf  *bus, *vf;
	size_t       nbus, nvfs;
};

/* A directory of sysfs has the functions of its bus as directories, and the VFs of a function as links. */
static int list_around(const struct act_pci *p, struct around *a, const char *path, const char *name, struct error *err)
{
	struct host_names up = { 0 }, own = { 0 };
	char dir[HOST_PATH_MAX], *slash;
	int r;

	(void)snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/'); /* act_pci_path() made it */
	*slash = '\0';
	r = host_list(p->root, &up, &a->arena, "%s", dir);
	if (r == 0)
		r = host_list(p->root, &own, &a->arena, "%s", path);
	if (r < 0)
		return error_set(err, -EIO, "cannot list what is around %s: %s", name, strerror(-r));
	a->bus = arena_array(&a->arena, up.n + 1, sizeof(*a->bus));
	a->vf = arena_array(&a->arena, own.n + 1, sizeof(*a->vf));
	if (!a->bus || !a->vf)
		return error_set(err, -ENOMEM, "no memory to look at what is around %s", name);
	for (size_t i = 0; i < up.n; i++)
		if (strcmp(up.name[i], name) != 0 && bdf_parse(&a->bus[a->nbus], up.name[i]))
			a->nbus++;
	for (size_t i = 0; i < own.n; i++) {
		const char *base;

		if (strncmp(own.name[i], "virtfn", 6) != 0)
			continue;
		r = host_link(p->root, dir, sizeof(dir), "%s/%s", path, own.name[i]);
		base = r == 0 ? strrchr(dir, '/') : NULL;
		if (!base || !bdf_parse(&a->vf[a->nvfs++], base + 1))
			return error_set(err, -EIO, "cannot read which VF of %s %s is", name, own.name[i]);
	}
	return 0;
}

static bool is_idle(const struct act_pci *p, struct bdf fn, struct act_driver *now)
{
	struct error ignored = ERROR_INIT;

	return act_pci_driver(p, now, fn, &ignored) == 0 && (!*now->driver || strcmp(now->driver, "vfio-pci") == 0);
}

struct chosen {
	enum plan_reset how;
	struct bdf      hit; /* PLAN_RESET_HITS: whom; of others: who on the bus has a driver of the host; BDF_NONE nobody */
	char            driver[ACT_DRIVER_MAX];
	char            port[HOST_PATH_MAX]; /* the directory above */
};

/* VFs lie in the directory of their PF's bus, too, though on a bus of their own: to the kernel they are no neighbours on it,
 * and to us they are, which errs on the safe side. mine NULL: as act_pci_reset_idle(). */
static int choose(const struct act_pci *p, struct chosen *ret, const char *path, struct bdf fn, const struct bdf *mine, size_t n,
		  struct error *err)
{
	char methods[128], name[BDF_TEXT_MAX];
	struct act_driver now;
	struct around a = { 0 };
	struct bdf *idle;
	size_t nidle = 0;
	int r = host_read(p->root, methods, sizeof(methods), "%s/reset_method", path);

	if (r == -ENOENT) /* no way at all, or Linux before 5.15, which does not say which */
		methods[0] = '\0';
	else if (r < 0)
		return error_set(err, -EIO, "cannot read reset_method of %s: %s", bdf_text(name, fn), strerror(-r));
	r = list_around(p, &a, path, bdf_text(name, fn), err);
	idle = r == 0 ? arena_array(&a.arena, a.nbus + 1, sizeof(*idle)) : NULL;
	if (r == 0 && !idle)
		r = error_set(err, -ENOMEM, "no memory to look at what is around %s", name);
	ret->hit = BDF_NONE;
	for (size_t i = 0; r == 0 && i < a.nbus; i++) {
		if (is_idle(p, a.bus[i], &now)) {
			idle[nidle++] = a.bus[i];
			continue;
		}
		ret->hit = a.bus[i];
		(void)snprintf(ret->driver, sizeof(ret->driver), "%s", now.driver);
	}
	if (r == 0) {
		struct bdf others, hit = ret->hit;
		const struct plan_reset_in in = { .methods = methods, .fn = fn, .bus = a.bus, .nbus = a.nbus, .vf = a.vf, .nvfs = a.nvfs,
						  .mine = mine ? mine : idle, .nmine = mine ? n : a.nvfs ? 0 : nidle };

		ret->how = plan_reset_choose(&others, &in);
		ret->hit = ret->how == PLAN_RESET_HITS ? others : hit;
		(void)snprintf(ret->port, sizeof(ret->port), "%.*s", (int)(strrchr(path, '/') - path), path);
	}
	arena_done(&a.arena);
	return r;
}

/* reset_subordinate came with 6.13, and 6.1.120, 6.6.64 and 6.12.2 have it (Documentation/ABI/testing/sysfs-bus-pci). */
static int check_together(const struct act_pci *p, const struct chosen *c, const char *name, struct error *err)
{
	char other[BDF_TEXT_MAX], text[8];

	if (host_read(p->root, text, sizeof(text), "%s/reset_subordinate", c->port) == -ENOENT) /* nobody may read it */
		return error_set(err, -ENOTTY, "%s can only be reset with its whole bus, and the port above has no reset_subordinate: that comes "
				 "with Linux 6.1.120, 6.12.2 or 6.13", name);
	if (!bdf_is_none(c->hit))
		return error_set(err, -EBUSY, "%s can only be reset together with %s, which has driver %s", name, bdf_text(other, c->hit),
				 *c->driver ? c->driver : "(unknown)");
	return 0;
}

static int reset_may(const struct act_pci *p, struct chosen *ret, char path[HOST_PATH_MAX], struct bdf fn, const struct bdf *mine, size_t n,
		     struct error *err)
{
	char name[BDF_TEXT_MAX], other[BDF_TEXT_MAX];
	int r = act_pci_path(p, path, fn, err);

	(void)bdf_text(name, fn);
	if (r == 0)
		r = choose(p, ret, path, fn, mine, n, err);
	if (r < 0)
		return r;
	switch (ret->how) {
	case PLAN_RESET_FUNCTION:
	case PLAN_RESET_BUS:
		return 0;
	case PLAN_RESET_HITS:
		return error_set(err, -EBUSY, "%s cannot be reset without hitting %s, which is not of the same guest", name,
				 bdf_text(other, ret->hit));
	case PLAN_RESET_TOGETHER:
		return check_together(p, ret, name, err);
	case PLAN_RESET_NONE:
	default:
		return error_set(err, -ENOTTY, "the kernel knows no way to reset %s: its reset_method is empty", name);
	}
}

int act_pci_reset_may(const struct act_pci *p, struct bdf fn, const struct bdf *mine, size_t n, struct error *err)
{
	const struct bdf nobody = BDF_NONE;
	char path[HOST_PATH_MAX];
	struct chosen c;

	return reset_may(p, &c, path, fn, mine ? mine : &nobody, n, err);
}

static int reset(const struct act_pci *p, struct bdf fn, const struct bdf *mine, size_t n, struct error *err)
{
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	struct chosen c;
	int r = reset_may(p, &c, path, fn, mine, n, err);

	if (r < 0)
		return r;
	(void)bdf_text(name, fn);
	r = c.how == PLAN_RESET_TOGETHER ? host_write(p->root, "1", "%s/reset_subordinate", c.port) : host_write(p->root, "1", "%s/reset", path);
	if (r == -ENOTTY)
		return error_set(err, -EIO, "%s did not come back from its reset; see the kernel log", name);
	return r < 0 ? error_set(err, r == -EBUSY ? -EBUSY : -EIO, "cannot reset %s: %s%s", name, strerror(-r),
				 r == -EACCES || r == -EPERM ? "; velad must be root on the real machine" : "") : 0;
}

int act_pci_reset(const struct act_pci *p, struct bdf fn, const struct bdf *mine, size_t n, struct error *err)
{
	const struct bdf nobody = BDF_NONE;

	return reset(p, fn, mine ? mine : &nobody, n, err);
}

int act_pci_reset_idle(const struct act_pci *p, struct bdf fn, struct error *err)
{
	return reset(p, fn, NULL, 0, err);
}

/* ---- is it whole --------------------------------------------------------------------------------------- */

static int config_read(void *self, uint16_t off, unsigned n, uint32_t *ret)
{
	return host_config_read(self, off, n, ret);
}

/* Bit n: BAR n has an address. Those of VFs are their PF's, and zero here (PCIe 6.0, 9.3.4.1.11). */
static uint8_t read_bars(struct host_config *c)
{
	uint32_t v[6] = { 0 };
	uint8_t set = 0;

	for (unsigned i = 0; i < 6; i++)
		if (host_config_read(c, (uint16_t)(PCI_BASE_ADDRESS_0 + 4 * i), 1, &v[i]) < 0)
			return 0;
	for (unsigned i = 0; i < 6; i++) {
		bool io = v[i] & PCI_BASE_ADDRESS_SPACE_IO;
		bool wide = !io && (v[i] & PCI_BASE_ADDRESS_MEM_TYPE_MASK) == PCI_BASE_ADDRESS_MEM_TYPE_64 && i < 5;

		if (v[i] & ~(io ? 3u : 15u) || (wide && v[i + 1]))
			set |= (uint8_t)(1u << i);
		i += wide;
	}
	return set;
}

/* Of a GPU or NIC (PCI Code and ID Assignment 1.17, 1.3, 1.4, 1.19): of nothing else it is asked for, nor in inventories. */
static bool has_vpd_serial(const struct pcicap *cap)
{
	unsigned base = cap->class >> 16;

	return base == 0x02 || base == 0x03 || base == 0x12; /* network, display, processing accelerator */
}

static int read_config(const struct act_pci *p, struct act_alive *ret, const char *path, const char *name, struct error *err)
{
	struct host_config c;
	struct pcicap cap;
	int r = host_config_open(&c, p->root, "%s/config", path);

	if (r == -ENOTCONN || r == -ETIMEDOUT)
		return error_set(err, -ENOTCONN, "cannot read the config space of %s: velad-helper does not answer", name);
	if (r < 0)
		return error_set(err, -EIO, "cannot read the config space of %s: %s", name, strerror(-r));
	pcicap_walk(&cap, config_read, &c);
	ret->answers = pcicap_answers(&cap);
	ret->link = ret->answers ? cap.link_now : (struct pcicap_link){ 0 };
	ret->acs = ret->answers && cap.acs.known == HOST_PRESENT ? cap.acs.ctl : -1;
	ret->ats = ret->answers && cap.ats.known == HOST_PRESENT;
	ret->bars = ret->answers ? read_bars(&c) : 0;
	(void)pcicap_serial_text(ret->serial, &cap);
	ret->by_vpd = ret->answers && !*ret->serial && has_vpd_serial(&cap);
	host_config_close(&c);
	return 0;
}

/* "PCI_ID=10DE:2330" of its uevent: of a VF config space does not say it (9.3.4.1.1). */
static void read_id(const struct act_pci *p, struct act_alive *ret, const char *path)
{
	char text[1024], *at;

	if (host_read(p->root, text, sizeof(text), "%s/uevent", path) < 0)
		return;
	at = strstr(text, "PCI_ID=");
	if (at)
		(void)snprintf(ret->id, sizeof(ret->id), "%.*s", (int)strcspn(at + 7, "\n"), at + 7);
}

static void read_pf_serial(const struct act_pci *p, struct act_alive *ret, const char *path)
{
	char link[HOST_PATH_MAX], pf[HOST_PATH_MAX];
	struct error ignored = ERROR_INIT;
	struct host_config c;
	struct pcicap cap;
	struct bdf bdf;
	const char *base;

	if (host_link(p->root, link, sizeof(link), "%s/physfn", path) < 0)
		return;
	base = strrchr(link, '/');
	if (!base || !bdf_parse(&bdf, base + 1) || act_pci_path(p, pf, bdf, &ignored) < 0 ||
	    host_config_open(&c, p->root, "%s/config", pf) < 0)
		return;
	pcicap_walk(&cap, config_read, &c);
	(void)pcicap_serial_text(ret->serial, &cap);
	host_config_close(&c);
	if (pcicap_answers(&cap) && !*ret->serial && has_vpd_serial(&cap))
		host_vpd_serial(ret->serial, p->root, bdf, pf);
}

int act_pci_alive(const struct act_pci *p, struct act_alive *ret, struct bdf fn, struct error *err)
{
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	struct act_alive now = { .acs = -1 };
	int r = act_pci_path(p, path, fn, err);

	if (r == 0)
		r = read_config(p, &now, path, bdf_text(name, fn), err);
	if (r < 0)
		return r;
	read_id(p, &now, path);
	if (!*now.serial)
		read_pf_serial(p, &now, path);
	if (!*now.serial && now.by_vpd)
		host_vpd_serial(now.serial, p->root, fn, path);
	host_aer_read(&now.aer, p->root, fn);
	*ret = now;
	return 0;
}

/* ---- the operator's program ------------------------------------------------------------------------------ */

int act_scrub(const struct act_pci *p, struct bdf fn, const char *program, unsigned seconds, struct error *err)
{
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	char *const argv[] = { (char *)program, name, NULL }; /* execve(2) wants it not const, and does not write */
	autofree char *out = NULL;
	int r = act_pci_path(p, path, fn, err);

	if (r < 0)
		return r;
	(void)bdf_text(name, fn);
	r = child_output(&out, argv, SCRUB_OUTPUT_MAX, seconds * 1000);
	switch (r) {
	case 0:
		return 0;
	case -ETIMEDOUT:
		return error_set(err, r, "%s %s did not end within %u s", program, name, seconds);
	case -EREMOTEIO:
		return error_set(err, -EIO, "%s %s failed; run it by hand to see why", program, name);
	default:
		return error_set(err, -EIO, "cannot run %s: %s", program, strerror(-r));
	}
}
