/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Properties of QEMU's devices: links of ports as the host's, no I/O window where nothing needs one, which GPUs reach each
 * other; and OVMF's window, which is no device's. Aliases are libvirt's own for controllers, velad's for devices. */
#include "guest/qemu.h"

#include <inttypes.h>
#include <string.h>

#include "guest/guest.h"
#include "guest/layout.h"
#include "guest/xml.h"
#include "host/inventory.h"
#include "plan/request.h"
#include "topo/route.h"

/* Before, the capability is put where GPUs since Turing have one of their own, and QEMU does not start (f6b30c1984f7,
 * "Support alternate offset for GPUDirect Cliques"). */
#define QEMU_CLIQUE  8001000
#define QEMU_GEN5    9000000 /* 32 and 64 GT/s (c08da86dc412) */
#define NVIDIA       0x10de

struct over {
	struct xml                *xml;
	const struct guest_layout *l;
	const struct topo         *topo;
	const struct guest_env    *env;
	unsigned                   clique[PLAN_GPUS_MAX]; /* by the order of GPUs in the layout */
};
_Static_assert(PLAN_GPUS_MAX <= 16, "a clique is four bits");

static bool has_qemu(const struct guest_env *env)
{
	return strcmp(env->type, "test") != 0;
}

bool guest_qemu_needed(const struct guest_layout *l, const struct guest_env *env)
{
	return has_qemu(env) && l->ndevices;
}

static void property(struct over *o, const char *name, const char *type, const char *value)
{
	xml_leaf(o->xml, "qemu:property", "name", name, "type", type, "value", value);
}

static void close_device(struct over *o)
{
	xml_close(o->xml);
	xml_close(o->xml);
}

/* ---- ports ---------------------------------------------------------------------------------------------- */

/* As QEMU names them (qapi/common.json, PCIELinkSpeed); NULL: unknown. The fastest that this one has stands for more. */
static const char *speed_name(const struct over *o, uint8_t speed)
{
	static const char *const names[] = { NULL, "2_5", "5", "8", "16", "32", "64" };

	if (speed >= ARRAY_SIZE(names))
		return NULL;
	return speed > 4 && o->env->qemu < QEMU_GEN5 ? names[4] : names[speed];
}

static const char *width_name(uint8_t width)
{
	switch (width) {
	case 1: return "1";
	case 2: return "2";
	case 4: return "4";
	case 8: return "8";
	case 12: return "12";
	case 16: return "16";
	case 32: return "32";
	default: return NULL;
	}
}

/* Root ports only: QEMU's switch has no such properties, up to 10.1 at least (hw/pci-bridge/xio3130_downstream.c; QEMU issue
 * 4409), and shows 2.5 GT/s x1. So does the port above it, whose link it is; NCCL's file says what is true. */
static void write_port(struct over *o, const struct guest_controller *c)
{
	struct pcicap_link link = c->model == GUEST_ROOT_PORT ? guest_link(o->topo, c->host) : (struct pcicap_link){ 0 };
	const char *speed = speed_name(o, link.speed), *width = width_name(link.width);

	if (c->model != GUEST_ROOT_PORT || (c->io && !speed && !width))
		return;
	xml_open(o->xml, "qemu:device");
	xml_attrf(o->xml, "alias", "pci.%u", c->index);
	xml_open(o->xml, "qemu:frontend");
	if (speed)
		property(o, "x-speed", "string", speed);
	if (width)
		property(o, "x-width", "string", width);
	if (!c->io)
		property(o, "io-reserve", "unsigned", "0");
	close_device(o);
}

/* ---- cliques -------------------------------------------------------------------------------------------- */

/* Requests of a GPU are untranslated, and what ACS makes of those no step of a plan changes. */
static bool gets_there(const struct topo *t, uint32_t a, uint32_t b, struct topo_tlp tlp)
{
	struct topo_route r;
	const char *through;

	topo_route(&r, t, NULL, a, b, tlp);
	through = topo_route_through(&r, t, a, b);
	return (r.verdict == TOPO_DIRECT || r.verdict == TOPO_REDIRECTED) && through && strcmp(through, "sockets") != 0;
}

static bool reach_each_other(const struct topo *t, const struct guest_device *a, const struct guest_device *b)
{
	static const struct topo_tlp tlps[] = { { .type = TOPO_WRITE }, { .type = TOPO_READ }, { .type = TOPO_COMPLETION } };
	uint32_t x = a->chain[a->nchain - 1], y = b->chain[b->nchain - 1];

	for (size_t i = 0; i < ARRAY_SIZE(tlps); i++)
		if (!gets_there(t, x, y, tlps[i]) || !gets_there(t, y, x, tlps[i]))
			return false;
	return true;
}

static bool may_be_in_clique(const struct guest_device *d)
{
	const struct host_facts *f = d->host->fn->facts;

	return f->kind == HOST_GPU && !d->is_vf && f->vendor == NVIDIA && f->class >> 16 == 0x03; /* as QEMU wants them */
}

/* The first clique all of whose members this one reaches, and they it. */
static unsigned clique_of(const struct over *o, const struct guest_device *const *gpu, size_t i, unsigned ncliques)
{
	for (unsigned c = 0; c < ncliques; c++) {
		bool all = true;

		for (size_t k = 0; k < i && all; k++)
			all = o->clique[k] != c || reach_each_other(o->topo, gpu[k], gpu[i]);
		if (all)
			return c;
	}
	return ncliques;
}

static bool is_alone(const struct over *o, size_t n, size_t i)
{
	for (size_t k = 0; k < n; k++)
		if (k != i && o->clique[k] == o->clique[i])
			return false;
	return true;
}

static void write_cliques(struct over *o)
{
	const struct guest_device *gpu[PLAN_GPUS_MAX];
	unsigned ncliques = 0;
	char text[4];
	size_t n = 0;

	if (o->env->qemu < QEMU_CLIQUE)
		return;
	for (size_t i = 0; i < o->l->ndevices && n < PLAN_GPUS_MAX; i++)
		if (may_be_in_clique(&o->l->device[i]))
			gpu[n++] = &o->l->device[i];
	for (size_t i = 0; i < n; i++) {
		o->clique[i] = clique_of(o, gpu, i, ncliques);
		ncliques += o->clique[i] == ncliques;
	}
	for (size_t i = 0; i < n; i++) {
		if (is_alone(o, n, i))
			continue;
		xml_open(o->xml, "qemu:device", "alias", gpu[i]->alias);
		xml_open(o->xml, "qemu:frontend");
		(void)snprintf(text, sizeof(text), "%u", o->clique[i]);
		property(o, "x-nv-gpudirect-clique", "unsigned", text);
		close_device(o);
	}
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

/* OVMF takes the size of its window from this key (edk2, OvmfPkg/Library/PlatformInitLib/MemDetect.c), and not from pcihole64,
 * which SeaBIOS and ACPI go by. libvirt keeps names below opt/ovmf for itself, so it goes past <sysinfo type='fwcfg'>. */
static void write_window(struct xml *x, uint64_t bytes)
{
	xml_open(x, "qemu:commandline");
	xml_leaf(x, "qemu:arg", "value", "-fw_cfg");
	xml_open(x, "qemu:arg");
	xml_attrf(x, "value", "name=opt/ovmf/X-PciMmio64Mb,string=%" PRIu64, bytes >> 20);
	xml_close(x);
	xml_close(x);
}

void guest_qemu_write(struct xml *x, const struct guest_layout *l, const struct topo *topo, const struct plan_request *r,
		      const struct guest_env *env)
{
	struct over o = { .xml = x, .l = l, .topo = topo, .env = env };

	if (!guest_qemu_needed(l, env))
		return;
	if (r->uefi)
		write_window(x, l->mmio64);
	xml_open(x, "qemu:override");
	for (size_t i = 0; i < l->ncontrollers; i++)
		write_port(&o, &l->controller[i]);
	write_cliques(&o);
	xml_close(x);
}
