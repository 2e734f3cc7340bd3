/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NCCL's topology file of one plan: what NCCL_TOPO_FILE names in the guest. NCCL finds functions by the guest's
 * addresses, takes switches and links from the file where it has them, and fills in the rest (CPU, affinity, NVLink,
 * network devices) from the guest itself (nccl, src/graph/xml.cc, ncclTopoGetXmlFromSys()). So the file says what the
 * guest cannot see: the host's switches, cascaded ones too, and the host's links, for emulated ports show 2.5 GT/s x1. */
#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "guest/guest.h"
#include "guest/layout.h"
#include "guest/xml.h"
#include "host/inventory.h"
#include "topo/path.h"

#define NODES_MAX 128 /* NCCL takes 256, and adds what it finds (NCCL_TOPO_XML_MAX_NODES, src/graph/xml.h) */

struct file {
	struct xml           xml;
	struct guest_layout  layout;
	const struct topo   *topo;
	size_t               nodes;    /* XML elements so far */
	unsigned             invented; /* addresses of host switches that the guest has no port for */
};

static void start_pci(struct file *f, struct bdf at, uint32_t class)
{
	char name[BDF_TEXT_MAX];

	f->nodes++;
	xml_open(&f->xml, "pci", "busid", bdf_text(name, at));
	xml_attrf(&f->xml, "class", "0x%06" PRIx32, class);
}

/* Unknown is empty: NCCL takes its default then. */
static void add_link(struct file *f, uint32_t i)
{
	struct pcicap_link l = guest_link(f->topo, i);

	if (l.speed)
		xml_attrf(&f->xml, "link_speed", "%s PCIe", pcicap_speed_text(l.speed));
	else
		xml_attr(&f->xml, "link_speed", "");
	if (l.width)
		xml_attrf(&f->xml, "link_width", "%u", l.width);
	else
		xml_attr(&f->xml, "link_width", "");
}

static void add_id(struct file *f, const char *name, uint16_t id)
{
	if (id)
		xml_attrf(&f->xml, name, "0x%04x", id);
}

static void write_device(struct file *f, const struct guest_device *d)
{
	const struct host_facts *h = d->host->fn->facts;
	bool to_come = d->is_vf && !h->is_vf; /* h is its PF's */

	start_pci(f, guest_bdf(&f->layout, d->at), h->class);
	add_id(f, "vendor", h->vendor);
	add_id(f, "device", to_come ? h->cap.sriov.vf_device : h->device);
	if (!d->is_vf) { /* a VF's own is in its config space only */
		add_id(f, "subsystem_vendor", h->subvendor);
		add_id(f, "subsystem_device", h->subdevice);
	}
	add_link(f, topo_find(f->topo, d->host->fn->bdf));
	xml_close(&f->xml);
}

/* The guest's switch port for the host's switch, or where the guest has none an address of no bus that is. */
static struct bdf switch_bdf(struct file *f, uint32_t host)
{
	for (size_t i = 0; i < f->layout.ncontrollers; i++)
		if (f->layout.controller[i].model == GUEST_USP && f->layout.controller[i].host == host)
			return guest_bdf(&f->layout, f->layout.controller[i].at);
	return (struct bdf){ .domain = 0xffff, .bus = 0xff, .devfn = (uint8_t)(++f->invented << 3) };
}

/* Device i and those behind it that share the first `depth` of its chain; returns the first that does not. NCCL takes
 * two levels of the guest's tree for one switch: its upstream port stands for it. */
static size_t write_below(struct file *f, size_t i, unsigned depth)
{
	const struct guest_device *d = &f->layout.device[i], *e = d;
	size_t n = f->layout.ndevices;

	while (i < n && e->cell == d->cell && (!depth || (depth < e->nchain && e->chain[depth - 1] == d->chain[depth - 1]))) {
		if (depth + 1 == e->nchain) {
			write_device(f, e);
			i++;
		} else {
			start_pci(f, switch_bdf(f, e->chain[depth]), 0x060400);
			add_link(f, e->chain[depth]);
			i = write_below(f, i, depth + 1);
			xml_close(&f->xml);
		}
		e = &f->layout.device[i];
	}
	return i;
}

static void write_system(struct file *f)
{
	xml_open(&f->xml, "system", "version", "1");
	for (size_t i = 0; i < f->layout.ndevices;) { /* by cell */
		uint32_t cell = f->layout.device[i].cell;

		f->nodes++;
		xml_open(&f->xml, "cpu");
		xml_attrf(&f->xml, "numaid", "%d", cell == UINT32_MAX ? -1 : (int)cell);
		xml_attr(&f->xml, "arch", "x86_64");
		i = write_below(f, i, 0);
		xml_close(&f->xml);
	}
	xml_close(&f->xml);
}

int guest_nccl_xml(char **ret, const struct plan *plan, const struct topo *topo, struct error *err)
{
	struct file f = { .topo = topo };
	int r = guest_layout_build(&f.layout, plan, topo, err);

	if (r == 0)
		r = xml_init(&f.xml, err);
	if (r == 0) {
		write_system(&f);
		r = f.nodes < NODES_MAX ? xml_finish(&f.xml, ret, err)
					: error_set(err, -E2BIG, "NCCL's topology file would have %zu elements, and NCCL takes few more "
						    "than %d; ask for fewer devices", f.nodes + 1, NODES_MAX);
	}
	xml_done(&f.xml);
	guest_layout_done(&f.layout);
	return r;
}
