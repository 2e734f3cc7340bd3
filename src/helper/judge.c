/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What velad may have done, by kind of function. The message's own form is act/wire.c's to check, and what the kernel checks
 * (how many VFs there can be, whether a driver takes a device) is left to it. */
#include "helper/judge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "helper/used.h"

#define VFIO_PCI "vfio-pci"

enum { BASE_STORAGE = 0x01, BASE_NETWORK = 0x02, BASE_BRIDGE = 0x06, CLASS_BRIDGE_PCI = 0x0604 }; /* PCI Code and ID Assignment 1.1 */

struct seen {
	struct bdf     fn;
	char           path[HOST_PATH_MAX];
	struct host_id id;
	enum host_kind kind; /* HOST_BRIDGE for every port */
	enum host_kind of;   /* of a VF: its PF's kind; of another function of a GPU's device: HOST_GPU */
};

/* ---- looking ------------------------------------------------------------------------------------------ */

static int read_id(const struct judge *j, struct host_id *ret, const char *path, struct error *err)
{
	int r = host_id_read(j->pci->root, ret, path);

	if (r < 0)
		return error_set(err, -EIO, "cannot read what %s is: %s", path, strerror(-r));
	return 0;
}

static enum host_kind kind_of(const struct judge *j, struct host_id id)
{
	return id.class >> 8 == CLASS_BRIDGE_PCI ? HOST_BRIDGE : host_kinds_match(&j->kinds, id);
}

/* The PF of a VF, or function 0 of a device; HOST_OTHER where it cannot be told. */
static enum host_kind kind_at(const struct judge *j, struct bdf fn)
{
	struct error ignored = ERROR_INIT;
	char path[HOST_PATH_MAX];
	struct host_id id;

	if (act_pci_path(j->pci, path, fn, &ignored) < 0 || read_id(j, &id, path, &ignored) < 0)
		return HOST_OTHER;
	return kind_of(j, id);
}

static int look(const struct judge *j, struct seen *s, struct bdf fn, struct error *err)
{
	char link[HOST_PATH_MAX];
	struct bdf pf, first = fn;
	int r = act_pci_path(j->pci, s->path, fn, err);

	if (r == 0)
		r = read_id(j, &s->id, s->path, err);
	if (r < 0)
		return r;
	s->fn = fn;
	s->kind = kind_of(j, s->id);
	s->of = HOST_OTHER;
	if (host_link(j->pci->root, link, sizeof(link), "%s/physfn", s->path) == 0) {
		const char *base = strrchr(link, '/');

		s->kind = HOST_VF;
		if (bdf_parse(&pf, base ? base + 1 : link))
			s->of = kind_at(j, pf);
	} else if (s->kind == HOST_OTHER && bdf_function(fn)) {
		first.devfn &= (uint8_t)~7;
		s->of = kind_at(j, first);
	}
	return 0;
}

/* Audio, USB and the like of a GPU's device go along with it (plan/candidates.c); disks and network never do. */
static bool goes_along(const struct seen *s)
{
	unsigned base = s->id.class >> 16;

	return s->kind == HOST_OTHER && s->of == HOST_GPU && base != BASE_STORAGE && base != BASE_NETWORK &&
	       base != BASE_BRIDGE;
}

static bool is_guests(const struct seen *s)
{
	return s->kind == HOST_GPU || s->kind == HOST_NVME || s->kind == HOST_NVSWITCH || (s->kind == HOST_VF && s->of == HOST_NIC) || goes_along(s);
}

static int not_for(const struct seen *s, const char *what, const char *kinds, struct error *err)
{
	char name[BDF_TEXT_MAX];

	return error_set(err, -EPERM, "%s (%s, %04x:%04x, class %06x): velad-helper %s only of %s; see [kinds] of velad.conf",
			 bdf_text(name, s->fn), host_kind_text(s->kind), s->id.vendor, s->id.device, s->id.class, what, kinds);
}

/* ---- drivers ------------------------------------------------------------------------------------------- */

static bool override_is_kept(const struct judge *j, struct bdf fn, const char *override)
{
	char path[512], name[BDF_TEXT_MAX];
	autofree char *text = NULL;
	size_t len;

	return j->overrides &&
	       (size_t)snprintf(path, sizeof(path), "%s/%s", j->overrides, bdf_text(name, fn)) < sizeof(path) &&
	       file_read(&text, &len, path, ACT_DRIVER_MAX) == 0 && strcmp(text, override) == 0;
}

/* What somebody else had set, so that it may be given back, by this helper or the next one. */
static int keep_override(const struct judge *j, struct bdf fn, const char *override, struct error *err)
{
	char path[512], name[BDF_TEXT_MAX];
	size_t len = strlen(override);
	autoclose int fd = -1;

	if (!j->overrides || !len || strcmp(override, VFIO_PCI) == 0 || override_is_kept(j, fn, override))
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", j->overrides, bdf_text(name, fn));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, override, len) != (ssize_t)len)
		return error_set(err, -EIO, "cannot keep the driver override of %s in %s: %s", name, path, strerror(errno));
	return 0;
}

/* An override binds whatever driver it names, ids or not (pci_match_device(), drivers/pci/pci-driver.c): velad gets vfio-pci,
 * none, nobody, and what was there. Without one the kernel binds only drivers whose own ids have the device. */
static int judge_names(const struct judge *j, const struct act_driver *now, const struct wire_call *c, const struct seen *s,
		       struct error *err)
{
	const struct act_driver *want = &c->driver;
	char name[BDF_TEXT_MAX];

	if (strcmp(want->override, ACT_NOBODY) == 0 && !want->driver[0])
		return 0;
	if (want->override[0] && strcmp(want->override, VFIO_PCI) != 0 && strcmp(want->override, now->override) != 0 &&
	    !override_is_kept(j, s->fn, want->override))
		return error_set(err, -EPERM, "%s: velad-helper sets the driver override " VFIO_PCI ", or one that was there before; not %s",
				 bdf_text(name, s->fn), want->override);
	if (want->override[0] && want->driver[0] && strcmp(want->driver, want->override) != 0)
		return error_set(err, -EPERM, "%s: driver %s with override %s cannot be", bdf_text(name, s->fn), want->driver, want->override);
	if (!want->override[0] && strcmp(want->driver, VFIO_PCI) == 0 && strcmp(now->driver, VFIO_PCI) != 0)
		return error_set(err, -EPERM, "%s: " VFIO_PCI " is bound with an override only", bdf_text(name, s->fn));
	return 0;
}

static int judge_driver(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err)
{
	struct act_driver now;
	int r;

	if (!is_guests(s))
		return not_for(s, "changes drivers", "GPUs and what goes along with them, VFs of NICs, NVSwitches and NVMe drives", err);
	r = act_pci_driver(j->pci, &now, s->fn, err);
	if (r == 0)
		r = judge_names(j, &now, c, s, err);
	if (r == 0 && now.driver[0] && strcmp(now.driver, c->driver.driver) != 0)
		r = used_by_host(j->pci->root, s->path, s->fn, err);
	return r == 0 && strcmp(now.override, c->driver.override) != 0 ? keep_override(j, s->fn, now.override, err) : r;
}

/* ---- the other verbs ------------------------------------------------------------------------------------ */

static int judge_vf_count(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err)
{
	char link[HOST_PATH_MAX], path[HOST_PATH_MAX];
	uint16_t now = 0;
	int r;

	if (s->kind != HOST_NIC)
		return not_for(s, "makes VFs", "NICs", err);
	r = act_pci_vf_count(j->pci, &now, s->fn, err);
	for (unsigned i = 0; r == 0 && c->number != now && i < now; i++) { /* any change takes all of them (drivers/pci/iov.c) */
		const char *base;
		struct bdf vf;

		if (host_link(j->pci->root, link, sizeof(link), "%s/virtfn%u", s->path, i) < 0)
			continue; /* the kernel is making it */
		base = strrchr(link, '/');
		if (!bdf_parse(&vf, base ? base + 1 : link))
			return error_set(err, -EIO, "%s/virtfn%u leads to %s, which is no function", s->path, i, link);
		r = act_pci_path(j->pci, path, vf, err);
		if (r == 0)
			r = used_by_host(j->pci->root, path, vf, err);
	}
	return r;
}

static int judge_autoprobe(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err)
{
	(void)j;
	(void)c;
	return s->kind == HOST_NIC ? 0 : not_for(s, "says which drivers VFs get", "NICs", err);
}

static int judge_word(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err)
{
	(void)j;
	if (c->number == ACT_ACS && s->kind != HOST_BRIDGE)
		return not_for(s, "writes ACS control", "ports", err);
	if (c->number != ACT_ACS && s->kind != HOST_GPU && s->kind != HOST_NIC)
		return not_for(s, "writes device control", "GPUs and NICs", err);
	return 0;
}

static int judge_power(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err)
{
	(void)j;
	(void)c;
	if (s->kind != HOST_BRIDGE && s->kind != HOST_GPU && s->kind != HOST_NIC && !goes_along(s))
		return not_for(s, "sets power control", "ports, GPUs and NICs", err);
	return 0;
}

/* Not under a driver that works with it, and not what the host uses. */
static int judge_reset(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err)
{
	struct act_driver now;
	char name[BDF_TEXT_MAX];
	int r;

	(void)c;
	if (!is_guests(s))
		return not_for(s, "resets and scrubs", "GPUs and what goes along with them, VFs of NICs, and NVMe drives", err);
	r = act_pci_driver(j->pci, &now, s->fn, err);
	if (r == 0 && now.driver[0] && strcmp(now.driver, VFIO_PCI) != 0)
		return error_set(err, -EPERM, "%s: velad-helper resets and scrubs what vfio-pci has, or nobody; this is %s's", bdf_text(name, s->fn),
				 now.driver);
	return r;
}

static int judge_vf(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err)
{
	if (s->kind != HOST_VF || s->of != HOST_NIC)
		return not_for(s, "sets addresses and the like", "VFs of NICs", err);
	return !c->vf_has ? 0 : used_by_host(j->pci->root, s->path, s->fn, err);
}

static int (*const rules[WIRE_VERB_MAX_])(const struct judge *j, const struct wire_call *c, const struct seen *s, struct error *err) = {
	[WIRE_OPEN] = NULL,                   /* any function's facts are what velad is for; reading only */
	[WIRE_VFIO_LOAD] = NULL,              /* it only looks */
	[WIRE_VF_COUNT] = judge_vf_count, [WIRE_AUTOPROBE] = judge_autoprobe,
	 [WIRE_DRIVER] = judge_driver, [WIRE_WORD] = judge_word, [WIRE_POWER] = judge_power,
	[WIRE_PARTITION] = NULL,              /* Fabric Manager refuses what overlaps */
	[WIRE_RESET] = judge_reset, [WIRE_SCRUB] = judge_reset,
	[WIRE_VF] = judge_vf,
	[WIRE_LOG] = NULL,                    /* its form is all that can be judged: guests are velad's */
};

int judge_call(const struct judge *j, const struct wire_call *c, struct error *err)
{
	struct seen s;
	int r;

	if (!rules[c->verb])
		return 0;
	r = look(j, &s, wire_call_fn(c), err);
	return r < 0 ? r : rules[c->verb](j, c, &s, err);
}
