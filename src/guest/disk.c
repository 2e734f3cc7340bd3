/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A boot disk from a path of the request, or an overlay over an image; the seed of cloud-init, which looks for a file system called
 * cidata on any block device (tools/ds-identify) and so needs no CD-ROM, for which cloud kernels lack a driver; and data disks. */
#include "guest/disk.h"

#include <string.h>

#include "guest/guest.h"
#include "guest/layout.h"
#include "guest/xml.h"

struct disks {
	struct xml             *xml;
	const struct guest_env *env;
	const char             *name;
	unsigned                n, of;
};

static void start_disk(struct disks *d, const char *type, const char *format)
{
	xml_open(d->xml, "disk", "type", type, "device", "disk");
	xml_leaf(d->xml, "driver", "name", "qemu", "type", format, "iothread", GUEST_IOTHREAD);
}

static void end_disk(struct disks *d)
{
	xml_open(d->xml, "target");
	xml_attrf(d->xml, "dev", "vd%c", (char)('a' + d->n));
	xml_attr(d->xml, "bus", "virtio");
	xml_close(d->xml);
	xml_open(d->xml, "address", "type", "pci", "domain", "0x0000");
	xml_attrf(d->xml, "bus", "0x00");
	xml_attrf(d->xml, "slot", "0x%02x", GUEST_SLOT_DISK);
	xml_attrf(d->xml, "function", "0x%x", d->n);
	if (d->n == 0 && d->of > 1)
		xml_attr(d->xml, "multifunction", "on");
	xml_close(d->xml);
	xml_close(d->xml);
	d->n++;
}

static void write_path(struct disks *d, const char *path)
{
	const char *dot = strrchr(path, '.');
	bool block = strncmp(path, "/dev/", 5) == 0;

	start_disk(d, block ? "block" : "file", dot && strcmp(dot, ".qcow2") == 0 ? "qcow2" : "raw");
	xml_leaf(d->xml, "source", block ? "dev" : "file", path);
	end_disk(d);
}

static void start_own(struct disks *d, const char *format, const char *suffix)
{
	start_disk(d, "file", format);
	xml_open(d->xml, "source");
	xml_attrf(d->xml, "file", "%s/%s.%s", d->env->images, d->name, suffix);
	xml_close(d->xml);
}

/* libvirt gives the files of a disk to QEMU's user, those below an overlay, too; the image stays velad's, so that no guest
 * can write it. */
static void write_overlay(struct disks *d, const char *image)
{
	start_own(d, "qcow2", "disk");
	if (d->env->image_format) {
		xml_open(d->xml, "backingStore", "type", "file");
		xml_leaf(d->xml, "format", "type", d->env->image_format);
		xml_open(d->xml, "source");
		xml_attrf(d->xml, "file", "%s/%s.image", d->env->images, image);
		xml_leaf(d->xml, "seclabel", "model", "dac", "relabel", "no");
		xml_close(d->xml);
		xml_leaf(d->xml, "backingStore");
		xml_close(d->xml);
	}
	end_disk(d);
}

unsigned guest_disks(const struct plan_request *r)
{
	return (r->seed.image || *r->disk) + plan_seed_wanted(&r->seed) + (unsigned)r->seed.ndisks;
}

void guest_disks_write(struct xml *x, const struct plan_request *r, const struct guest_env *env)
{
	struct disks d = { .xml = x, .env = env, .name = env->name, .of = guest_disks(r) };
	char suffix[32];

	if (r->seed.image)
		write_overlay(&d, r->seed.image);
	else if (*r->disk)
		write_path(&d, r->disk);
	if (plan_seed_wanted(&r->seed)) {
		start_own(&d, "raw", "seed");
		xml_leaf(x, "readonly");
		end_disk(&d);
	}
	for (size_t i = 0; i < r->seed.ndisks; i++) {
		(void)snprintf(suffix, sizeof(suffix), "data%zu", i);
		start_own(&d, "qcow2", suffix);
		end_disk(&d);
	}
}
