/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The libvirt domain XML of one plan (https://libvirt.org/formatdomain.html). Nothing is emulated that a GPU
 * guest does not need: no USB, no graphics, no balloon. Every PCI address is written, so that libvirt adds
 * no bus of its own and the same plan always gives the same guest. */
#include "guest/guest.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cpuset.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "guest/disk.h"
#include "guest/layout.h"
#include "guest/qemu.h"
#include "guest/xml.h"
#include "host/inventory.h"

struct domain {
	struct xml                 xml;
	struct guest_layout        layout;
	const struct plan         *plan;
	const struct plan_request *request;
	const struct topo         *topo;
	const struct inventory    *inv;
	const struct guest_env    *env;
};

static bool is_type(const struct domain *d, const char *type)
{
	return strcmp(d->env->type, type) == 0;
}

/* ---- memory and CPUs -------------------------------------------------------------------------------- */

static uint64_t memory_kib(const struct domain *d)
{
	uint64_t kib = 0;

	for (size_t i = 0; i < d->plan->ncells; i++)
		kib += d->plan->cell[i].memory / 1024;
	return d->plan->ncells ? kib : d->request->memory / 1024;
}

static uint64_t vcpus(const struct domain *d)
{
	uint64_t n = 0;

	for (size_t i = 0; i < d->plan->ncells; i++)
		n += d->plan->cell[i].vcpus;
	return d->plan->ncells ? n : d->request->vcpus;
}

/* The guest has NUMA cells where there is something to mirror. */
static bool has_cells(const struct domain *d)
{
	return d->plan->ncells > 1 || (d->plan->ncells == 1 && d->plan->cell[0].host_node >= 0);
}

static const struct host_node *node_of(const struct domain *d, size_t cell)
{
	int id = d->plan->cell[cell].host_node;

	return id >= 0 ? host_node_find(d->inv, id) : NULL;
}

/* That the cell's vCPUs may run on; NULL: unknown. */
static const struct cpuset *cpus_of(const struct domain *d, size_t cell)
{
	const struct host_node *n = node_of(d, cell);

	return d->plan->cell[cell].cpus ? d->plan->cell[cell].cpus : n ? &n->cpus : NULL;
}

static void add_cpus(struct cpuset *all, const struct cpuset *more)
{
	for (int c = cpuset_next(more, -1); c >= 0; c = cpuset_next(more, c))
		cpuset_add(all, (unsigned)c);
}

static void attr_cpuset(struct xml *x, const char *name, const struct cpuset *set)
{
	struct sbuf text = { 0 };

	cpuset_write(&text, set);
	if (text.failed)
		x->failed = true;
	else
		xml_attr(x, name, text.text ? text.text : "");
	sbuf_done(&text);
}

/* The first cores of the cells' nodes, which no guest has; none: emulator threads are where the vCPUs are. */
static void add_host_cores(const struct domain *d, struct cpuset *all)
{
	for (size_t i = 0; i < d->plan->ncells; i++) {
		const struct host_node *n = node_of(d, i);
		unsigned left = d->plan->host_cores;

		for (size_t k = 0; n && left && k < d->inv->system.cpus.ncores; k++) {
			const struct host_core *core = &d->inv->system.cpus.core[k];

			if (!core->ncpus || !cpuset_has(&n->cpus, core->cpu[0]))
				continue;
			for (unsigned c = 0; c < core->ncpus; c++)
				cpuset_add(all, core->cpu[c]);
			left--;
		}
	}
}

/* vCPUs are numbered through the cells: pinned to their host node; threads of the emulator and of disks, to the host's cores. */
static void write_cputune(struct domain *d)
{
	struct cpuset all = { 0 }, host = { 0 };
	unsigned vcpu = 0;

	for (size_t i = 0; i < d->plan->ncells; i++)
		if (cpus_of(d, i))
			add_cpus(&all, cpus_of(d, i));
	if (!cpuset_count(&all))
		return;
	add_host_cores(d, &host);
	xml_open(&d->xml, "cputune");
	for (size_t i = 0; i < d->plan->ncells; vcpu += d->plan->cell[i++].vcpus) {
		const struct cpuset *cpus = cpus_of(d, i);

		for (unsigned v = 0; v < d->plan->cell[i].vcpus && cpus && cpuset_count(cpus); v++) {
			xml_open(&d->xml, "vcpupin");
			xml_attrf(&d->xml, "vcpu", "%u", vcpu + v);
			attr_cpuset(&d->xml, "cpuset", cpus);
			xml_close(&d->xml);
		}
	}
	xml_open(&d->xml, "emulatorpin");
	attr_cpuset(&d->xml, "cpuset", cpuset_count(&host) ? &host : &all);
	xml_close(&d->xml);
	if (guest_disks(d->request)) {
		xml_open(&d->xml, "iothreadpin", "iothread", GUEST_IOTHREAD);
		attr_cpuset(&d->xml, "cpuset", cpuset_count(&host) ? &host : &all);
		xml_close(&d->xml);
	}
	xml_close(&d->xml);
}

/* A guest that starts has its memory, touched by many threads at once: one fills some 10 GB in a second. Locked it is by
 * VFIO, and libvirt raises the limit for that by itself (qemuDomainGetMemLockLimitBytes()). */
#define PREALLOC_MAX 16

static void write_backing(struct domain *d)
{
	uint64_t n = vcpus(d) < PREALLOC_MAX ? vcpus(d) : PREALLOC_MAX;

	xml_open(&d->xml, "memoryBacking");
	if (d->plan->hugepages) {
		xml_open(&d->xml, "hugepages");
		xml_open(&d->xml, "page");
		xml_attrf(&d->xml, "size", "%" PRIu64, d->plan->hugepages / 1024);
		xml_attr(&d->xml, "unit", "KiB");
		xml_close(&d->xml);
		xml_close(&d->xml);
	}
	xml_open(&d->xml, "allocation", "mode", "immediate");
	xml_attrf(&d->xml, "threads", "%" PRIu64, n);
	xml_close(&d->xml);
	xml_close(&d->xml);
}

static void write_numatune(struct domain *d)
{
	struct cpuset nodes = { 0 }; /* a nodeset has the same text form */

	for (size_t i = 0; i < d->plan->ncells; i++)
		if (d->plan->cell[i].host_node >= 0)
			cpuset_add(&nodes, (unsigned)d->plan->cell[i].host_node);
	if (!cpuset_count(&nodes))
		return;
	xml_open(&d->xml, "numatune");
	xml_open(&d->xml, "memory", "mode", "strict");
	attr_cpuset(&d->xml, "nodeset", &nodes);
	xml_close(&d->xml);
	for (size_t i = 0; i < d->plan->ncells; i++) {
		if (d->plan->cell[i].host_node < 0)
			continue;
		xml_open(&d->xml, "memnode");
		xml_attrf(&d->xml, "cellid", "%zu", i);
		xml_attr(&d->xml, "mode", "strict");
		xml_attrf(&d->xml, "nodeset", "%d", d->plan->cell[i].host_node);
		xml_close(&d->xml);
	}
	xml_close(&d->xml);
}

/* From the host's SLIT; 0 unknown. libvirt takes 10 (only for a cell itself) to 255. */
static unsigned distance(const struct domain *d, size_t from, size_t to)
{
	const struct host_node *a = node_of(d, from), *b = node_of(d, to);
	unsigned v = a && b ? a->distance[b - d->inv->node] : 0;

	return (from == to) == (v == 10) && v >= 10 ? v : 0;
}

static bool distances_known(const struct domain *d)
{
	for (size_t i = 0; i < d->plan->ncells; i++)
		for (size_t j = 0; j < d->plan->ncells; j++)
			if (!distance(d, i, j))
				return false;
	return d->plan->ncells > 1;
}

static void write_cell(struct domain *d, size_t cell, unsigned first_vcpu)
{
	const struct plan_cell *c = &d->plan->cell[cell];

	xml_open(&d->xml, "cell");
	xml_attrf(&d->xml, "id", "%zu", cell);
	if (c->vcpus)
		xml_attrf(&d->xml, "cpus", "%u-%u", first_vcpu, first_vcpu + c->vcpus - 1);
	xml_attrf(&d->xml, "memory", "%" PRIu64, c->memory / 1024);
	xml_attr(&d->xml, "unit", "KiB");
	if (distances_known(d)) {
		xml_open(&d->xml, "distances");
		for (size_t to = 0; to < d->plan->ncells; to++) {
			xml_open(&d->xml, "sibling");
			xml_attrf(&d->xml, "id", "%zu", to);
			xml_attrf(&d->xml, "value", "%u", distance(d, cell, to));
			xml_close(&d->xml);
		}
		xml_close(&d->xml);
	}
	xml_close(&d->xml);
}

/* Large BARs need the host's address width: QEMU's default of 40 bits ends at 1 TiB. Firmware puts them as high as that lets it
 * (OVMF since 2022, SeaBIOS since 1.16.3), so not above what the IOMMU can hold. */
static void write_address_bits(struct domain *d)
{
	unsigned bits = guest_address_bits(d->inv, d->env);

	if (bits == d->inv->phys_bits) {
		xml_leaf(&d->xml, "maxphysaddr", "mode", "passthrough");
		return;
	}
	xml_open(&d->xml, "maxphysaddr", "mode", "emulate");
	xml_attrf(&d->xml, "bits", "%u", bits);
	xml_close(&d->xml);
}

/* TCG cannot pass the host's CPU through. Nehalem is the least model with x86-64-v2, which today's
 * distributions are built for. */
static void write_cpu(struct domain *d)
{
	unsigned vcpu = 0;

	if (is_type(d, "qemu")) {
		xml_open(&d->xml, "cpu", "mode", "custom", "match", "exact", "check", "none");
		xml_text(&d->xml, "model", "Nehalem");
	} else {
		xml_open(&d->xml, "cpu", "mode", "host-passthrough", "check", "none");
		write_address_bits(d);
	}
	if (has_cells(d)) {
		xml_open(&d->xml, "numa");
		for (size_t i = 0; i < d->plan->ncells; vcpu += d->plan->cell[i++].vcpus)
			write_cell(d, i, vcpu);
		xml_close(&d->xml);
	}
	xml_close(&d->xml);
}

/* ---- boot and life ---------------------------------------------------------------------------------- */

static void write_os(struct domain *d)
{
	const struct plan_request *r = d->request;

	xml_open(&d->xml, "os");
	if (r->uefi)
		xml_attr(&d->xml, "firmware", "efi"); /* libvirt chooses one that can (formatdomain, BIOS bootloader) */
	xml_open(&d->xml, "type", "arch", "x86_64", "machine", "q35");
	xml_putf(&d->xml, "hvm");
	xml_close(&d->xml);
	if (r->uefi) {
		xml_open(&d->xml, "firmware");
		xml_leaf(&d->xml, "feature", "enabled", r->secure_boot ? "yes" : "no", "name", "secure-boot");
		xml_leaf(&d->xml, "feature", "enabled", r->secure_boot ? "yes" : "no", "name", "enrolled-keys");
		xml_close(&d->xml);
	}
	if (r->kernel[0])
		xml_text(&d->xml, "kernel", r->kernel);
	if (r->kernel[0] && r->initrd[0])
		xml_text(&d->xml, "initrd", r->initrd);
	if (r->kernel[0] && r->cmdline[0])
		xml_text(&d->xml, "cmdline", r->cmdline);
	if (!r->kernel[0])
		xml_leaf(&d->xml, "boot", "dev", "hd");
	xml_close(&d->xml);
}

static void write_life(struct domain *d)
{
	xml_open(&d->xml, "features");
	xml_leaf(&d->xml, "acpi");
	xml_leaf(&d->xml, "apic");
	if (d->request->secure_boot)
		xml_leaf(&d->xml, "smm", "state", "on"); /* its variables are the firmware's own */
	xml_close(&d->xml);
	write_cpu(d);
	xml_leaf(&d->xml, "clock", "offset", "utc");
	xml_text(&d->xml, "on_poweroff", "destroy");
	xml_text(&d->xml, "on_reboot", "restart");
	xml_text(&d->xml, "on_crash", "destroy");
}

/* ---- devices ---------------------------------------------------------------------------------------- */

static void write_address(struct domain *d, struct guest_addr at, bool multifunction)
{
	xml_open(&d->xml, "address", "type", "pci", "domain", "0x0000");
	xml_attrf(&d->xml, "bus", "0x%02x", at.bus);
	xml_attrf(&d->xml, "slot", "0x%02x", at.slot);
	xml_attrf(&d->xml, "function", "0x%x", at.function);
	if (multifunction)
		xml_attr(&d->xml, "multifunction", "on");
	xml_close(&d->xml);
}

static void write_controllers(struct domain *d)
{
	static const char *const models[] = {
		[GUEST_PXB] = "pcie-expander-bus",
		[GUEST_ROOT_PORT] = "pcie-root-port",
		[GUEST_USP] = "pcie-switch-upstream-port",
		[GUEST_DSP] = "pcie-switch-downstream-port",
	};

	xml_open(&d->xml, "controller", "type", "pci", "index", "0", "model", "pcie-root");
	if (d->layout.mmio64) {
		xml_open(&d->xml, "pcihole64", "unit", "KiB");
		xml_putf(&d->xml, "%" PRIu64, d->layout.mmio64 / 1024);
		xml_close(&d->xml);
	}
	xml_close(&d->xml);
	for (size_t i = 0; i < d->layout.ncontrollers; i++) {
		const struct guest_controller *c = &d->layout.controller[i];

		xml_open(&d->xml, "controller", "type", "pci");
		xml_attrf(&d->xml, "index", "%u", c->index);
		xml_attr(&d->xml, "model", models[c->model]);
		if (c->model == GUEST_PXB) {
			xml_open(&d->xml, "target");
			xml_attrf(&d->xml, "busNr", "%u", c->bus_nr);
			xml_textf(&d->xml, "node", "%" PRIu32, c->cell);
			xml_close(&d->xml);
		}
		write_address(d, c->at, false);
		xml_close(&d->xml);
	}
	xml_leaf(&d->xml, "controller", "type", "usb", "model", "none");
}

/* managed='no': velad binds and unbinds; libvirt must not take the driver away after the guest. */
static void write_hostdevs(struct domain *d)
{
	for (size_t i = 0; i < d->layout.ndevices; i++) {
		const struct guest_device *dev = &d->layout.device[i];

		xml_open(&d->xml, "hostdev", "mode", "subsystem", "type", "pci", "managed", "no");
		xml_leaf(&d->xml, "driver", "name", "vfio");
		xml_open(&d->xml, "source");
		xml_open(&d->xml, "address");
		xml_attrf(&d->xml, "domain", "0x%04" PRIx32, dev->bdf.domain);
		xml_attrf(&d->xml, "bus", "0x%02x", dev->bdf.bus);
		xml_attrf(&d->xml, "slot", "0x%02x", bdf_device(dev->bdf));
		xml_attrf(&d->xml, "function", "0x%x", bdf_function(dev->bdf));
		xml_close(&d->xml);
		xml_close(&d->xml);
		xml_leaf(&d->xml, "alias", "name", dev->alias);
		write_address(d, dev->at, dev->multifunction);
		xml_close(&d->xml);
	}
}

/* A pty with a log serves both `virsh console` and the log file; libvirt opens the log through virtlogd
 * (or itself, where qemu.conf says so), as it does each domain's own log. */
static void write_console(struct domain *d)
{
	xml_open(&d->xml, "serial", "type", "pty");
	if (d->env->console)
		xml_leaf(&d->xml, "log", "file", d->env->console, "append", "on");
	xml_leaf(&d->xml, "target", "port", "0");
	xml_close(&d->xml);
	xml_open(&d->xml, "console", "type", "pty");
	xml_leaf(&d->xml, "target", "type", "serial", "port", "0");
	xml_close(&d->xml);
}

static void write_tpm(struct domain *d)
{
	if (!d->request->tpm)
		return;
	xml_open(&d->xml, "tpm", "model", "tpm-crb");
	xml_leaf(&d->xml, "backend", "type", "emulator", "version", "2.0");
	xml_close(&d->xml);
}

/* What boots from a disk may run QEMU's guest agent: libvirt then asks it to shut down, and ACPI where it does not answer
 * (qemuDomainShutdownFlags(), src/qemu/qemu_driver.c). */
static void write_agent(struct domain *d)
{
	xml_open(&d->xml, "controller", "type", "virtio-serial", "index", "0");
	write_address(d, (struct guest_addr){ .slot = GUEST_SLOT_RNG, .function = 1 }, false);
	xml_close(&d->xml);
	xml_open(&d->xml, "channel", "type", "unix");
	xml_leaf(&d->xml, "target", "type", "virtio", "name", "org.qemu.guest_agent.0");
	xml_close(&d->xml);
}

static void write_devices(struct domain *d)
{
	bool agent = d->request->seed.image || *d->request->disk;

	xml_open(&d->xml, "devices");
	if (d->env->emulator)
		xml_text(&d->xml, "emulator", d->env->emulator);
	guest_disks_write(&d->xml, d->request, d->env);
	write_controllers(d);
	write_console(d);
	if (agent)
		write_agent(d);
	write_hostdevs(d);
	write_tpm(d);
	xml_leaf(&d->xml, "memballoon", "model", "none");
	xml_open(&d->xml, "rng", "model", "virtio");
	xml_open(&d->xml, "backend", "model", "random");
	xml_putf(&d->xml, "/dev/urandom");
	xml_close(&d->xml);
	write_address(d, (struct guest_addr){ .slot = GUEST_SLOT_RNG }, agent);
	xml_close(&d->xml);
	xml_close(&d->xml);
}

static void write_memory(struct domain *d)
{
	static const char *const elements[] = { "memory", "currentMemory" };

	for (size_t i = 0; i < ARRAY_SIZE(elements); i++) {
		xml_open(&d->xml, elements[i], "unit", "KiB");
		xml_putf(&d->xml, "%" PRIu64, memory_kib(d));
		xml_close(&d->xml);
	}
}

static void write_domain(struct domain *d)
{
	xml_open(&d->xml, "domain", "type", d->env->type);
	if (guest_qemu_needed(&d->layout, d->env))
		xml_attr(&d->xml, "xmlns:qemu", GUEST_QEMU_NS);
	xml_text(&d->xml, "name", d->env->name);
	xml_text(&d->xml, "uuid", d->env->uuid);
	xml_open(&d->xml, "metadata");
	xml_leaf(&d->xml, "velad:domain", "xmlns:velad", PLAN_DOMAIN_MARK);
	xml_close(&d->xml);
	write_memory(d);
	xml_textf(&d->xml, "vcpu", "%" PRIu64, vcpus(d));
	if (guest_disks(d->request))
		xml_text(&d->xml, "iothreads", GUEST_IOTHREAD); /* how many */
	write_cputune(d);
	write_backing(d);
	write_numatune(d);
	write_os(d);
	write_life(d);
	write_devices(d);
	guest_qemu_write(&d->xml, &d->layout, d->topo, d->request, d->env);
	xml_close(&d->xml);
}

/* Without interrupt remapping APIC ids are 8 bits (libvirt, src/qemu/qemu_validate.c, QEMU_MAX_VCPUS_WITHOUT_EIM). */
#define VCPUS_MAX 255

int guest_domain_xml(char **ret, const struct plan *plan, const struct plan_request *request,
		     const struct topo *topo, const struct guest_env *env, struct error *err)
{
	struct domain d = { .plan = plan, .request = request, .topo = topo, .inv = topo_inventory(topo), .env = env };
	int r;

	assert(plan->fits);
	r = guest_layout_build(&d.layout, plan, topo, err);
	if (r == 0 && vcpus(&d) > VCPUS_MAX)
		r = error_set(err, -E2BIG, "the guest would have %" PRIu64 " vCPUs, and for more than %d libvirt wants an emulated IOMMU, which is in "
			      "the way of its devices; ask for %d", vcpus(&d), VCPUS_MAX, VCPUS_MAX);
	if (r == 0)
		r = guest_window_check(&d.layout, d.inv, memory_kib(&d) * 1024, request->uefi, env, err);
	if (r == 0)
		r = xml_init(&d.xml, err);
	if (r == 0) {
		write_domain(&d);
		r = xml_finish(&d.xml, ret, err);
	}
	xml_done(&d.xml);
	guest_layout_done(&d.layout);
	return r;
}
