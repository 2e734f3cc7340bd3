/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hgx - the devices of a GPU server that QEMU does not have, for the emulated host.
 *
 *   hgx-gpu          a stand-in for an H100: settable ids, class, BARs and link; FLR, ATS, AER, MSI-X; a DMA engine
 *   hgx-switch-up    x3130-upstream with a settable link
 *   hgx-switch-down  xio3130-downstream with a settable link and ACS
 *   igb, igbvf       QEMU's SR-IOV NIC, given what RDMA NICs have: ATS, Relaxed Ordering, and the VFs a DMA engine
 *
 * Loaded with LD_PRELOAD into an unmodified qemu-system-x86_64: Debian builds QEMU with modules, so the program
 * exports its symbols, and a constructor may register types as the program's own files do. The DMA engines (engine.h)
 * send their requests by the ports' live ACS bits (route.h); whatever else moves in QEMU is delivered by address.
 */
#include "qemu/osdep.h"

#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "hw/pci/pci_device.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_port.h"
#include "hw/qdev-properties-system.h"
#include "hw/qdev-properties.h"
#include "qapi/error.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "qom/object.h"

#include "engine.h"

typedef void (*realize_fn)(PCIDevice *d, Error **errp);

/* As after a reset (7.5.3.4): Relaxed Ordering on, reads of 512 bytes. */
static void devctl_reset(PCIDevice *d)
{
	uint8_t *devctl = d->config + d->exp.exp_cap + PCI_EXP_DEVCTL;

	pci_word_test_and_clear_mask(devctl, PCI_EXP_DEVCTL_READRQ);
	pci_word_test_and_set_mask(devctl, PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_READRQ_512B);
}

/* QEMU's pcie_cap_deverr_init leaves out what is not about errors. */
static void devctl_init(PCIDevice *d)
{
	pci_word_test_and_set_mask(d->wmask + d->exp.exp_cap + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_READRQ);
	devctl_reset(d);
}

/* ---- hgx-gpu ------------------------------------------------------------------------------------------ */

#define TYPE_HGX_GPU "hgx-gpu"
OBJECT_DECLARE_SIMPLE_TYPE(HgxGpu, HGX_GPU)

#define GPU_BAR_TYPE (PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH)
#define GPU_BOOT_0 0x180000a1		/* what PMC_BOOT_0 of a GH100 reads */
#define GPU_VECTORS 4

/* Where the capabilities are in configuration space. */
enum {
	GPU_CAP_MSIX = 0x50,
	GPU_CAP_PCIE = 0x80,
	GPU_ECAP_AER = 0x100,
	GPU_ECAP_ARI = 0x150,
	GPU_ECAP_SERIAL = 0x160,
	GPU_ECAP_ATS = 0x170,
};

/* Registers in BAR 0 (and, for no purpose but to exist, in BAR 4). */
enum {
	REG_BOOT_0 = 0x00,		/* read only */
	REG_SCRATCH = 0x04,
	REG_RESETS = 0x08,		/* read only: resets since power on, FLR included */
	/* from 0x10 on: the DMA engine's; a copy raises vector 0, and reading its status lowers INTx */
};

struct HgxGpu {
	PCIDevice parent_obj;
	MemoryRegion bar0, bar2, bar4;

	/* properties */
	uint16_t vendor, device, subvendor, subdevice;
	uint32_t class;
	uint64_t serial;
	uint64_t bar0_size, bar2_size, bar4_size;
	PCIExpLinkSpeed speed;
	PCIExpLinkWidth width;
	uint8_t cur_speed, cur_width;	/* as the link status register encodes them; 0: the maximum */
	bool flr, ats, aer;

	/* registers */
	uint32_t scratch, resets;
	struct engine engine;
};

static uint64_t gpu_read(void *opaque, hwaddr reg, unsigned int size)
{
	HgxGpu *g = opaque;

	switch (reg) {
	case REG_BOOT_0:
		return GPU_BOOT_0;
	case REG_SCRATCH:
		return g->scratch;
	case REG_RESETS:
		return g->resets;
	case ENGINE_STATUS:
		pci_set_irq(PCI_DEVICE(g), 0);
		/* fall through */
	default:
		return engine_read(&g->engine, reg);
	}
}

static void gpu_write(void *opaque, hwaddr reg, uint64_t value, unsigned int size)
{
	HgxGpu *g = opaque;
	PCIDevice *d = PCI_DEVICE(g);

	if (reg == REG_SCRATCH)
		g->scratch = value;
	if (!engine_write(&g->engine, reg, value, size))
		return;
	if (msix_enabled(d))
		msix_notify(d, 0);
	else
		pci_set_irq(d, 1);
}

static const MemoryRegionOps gpu_ops = {
	.read = gpu_read,
	.write = gpu_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 1, .max_access_size = 8 },
	.impl = { .min_access_size = 4, .max_access_size = 8 },
};

static void gpu_config_write(PCIDevice *d, uint32_t addr, uint32_t value, int len)
{
	HgxGpu *g = HGX_GPU(d);

	pci_default_write_config(d, addr, value, len);
	if (g->flr)
		pcie_cap_flr_write_config(d, addr, value, len);
	if (g->aer)
		pcie_aer_write_config(d, addr, value, len);
}

static void gpu_reset(DeviceState *dev)
{
	HgxGpu *g = HGX_GPU(dev);

	engine_reset(&g->engine);
	devctl_reset(PCI_DEVICE(g));
	g->scratch = 0;
	g->resets++;
}

static void gpu_identify(HgxGpu *g)
{
	uint8_t *config = PCI_DEVICE(g)->config;

	pci_set_word(config + PCI_VENDOR_ID, g->vendor);
	pci_set_word(config + PCI_DEVICE_ID, g->device);
	pci_set_word(config + PCI_SUBSYSTEM_VENDOR_ID, g->subvendor);
	pci_set_word(config + PCI_SUBSYSTEM_ID, g->subdevice);
	pci_set_byte(config + PCI_REVISION_ID, 0xa1);
	pci_set_byte(config + PCI_CLASS_PROG, g->class & 0xff);
	pci_set_word(config + PCI_CLASS_DEVICE, g->class >> 8);
	pci_config_set_interrupt_pin(config, 1);
}

/* BAR 0 registers, BAR 2 memory, BAR 4 registers again; a size of 0 leaves out BAR 2 or 4. */
static bool gpu_add_bars(HgxGpu *g, Error **errp)
{
	PCIDevice *d = PCI_DEVICE(g);
	Object *owner = OBJECT(g);

	memory_region_init_io(&g->bar0, owner, &gpu_ops, g, "hgx-gpu-bar0", g->bar0_size);
	pci_register_bar(d, 0, GPU_BAR_TYPE, &g->bar0);
	if (g->bar2_size) {
		if (!memory_region_init_ram_flags_nomigrate(&g->bar2, owner, "hgx-gpu-bar2", g->bar2_size,
							    RAM_NORESERVE, errp))
			return false;
		pci_register_bar(d, 2, GPU_BAR_TYPE, &g->bar2);
	}
	if (g->bar4_size) {
		memory_region_init_io(&g->bar4, owner, &gpu_ops, g, "hgx-gpu-bar4", g->bar4_size);
		pci_register_bar(d, 4, GPU_BAR_TYPE, &g->bar4);
	}
	return true;
}

/* The link as trained: less than the maximum if cur_speed or cur_width says so. */
static void gpu_set_link(HgxGpu *g)
{
	PCIDevice *d = PCI_DEVICE(g);
	unsigned int speed = g->cur_speed ? g->cur_speed : g->speed;
	unsigned int width = g->cur_width ? g->cur_width : g->width;

	pcie_cap_fill_link_ep_usp(d, g->width, g->speed);
	pci_set_word(d->config + d->exp.exp_cap + PCI_EXP_LNKSTA, width << 4 | speed);
}

/* Table and pending bits lie in the last 64 KiB of BAR 0. */
static bool gpu_add_msix(HgxGpu *g, Error **errp)
{
	PCIDevice *d = PCI_DEVICE(g);

	if (msix_init(d, GPU_VECTORS, &g->bar0, 0, g->bar0_size - 64 * KiB, &g->bar0, 0, g->bar0_size - 32 * KiB,
		      GPU_CAP_MSIX, errp) < 0)
		return false;
	for (int i = 0; i < GPU_VECTORS; i++)
		msix_vector_use(d, i);
	return true;
}

static void gpu_realize(PCIDevice *d, Error **errp)
{
	HgxGpu *g = HGX_GPU(d);

	g->engine.device = d;
	gpu_identify(g);
	if (!gpu_add_bars(g, errp))
		return;
	if (pcie_endpoint_cap_init(d, GPU_CAP_PCIE) < 0) {
		error_setg(errp, "hgx-gpu: no room for the PCI Express capability");
		return;
	}
	pcie_cap_deverr_init(d);
	devctl_init(d);
	if (g->flr)
		pcie_cap_flr_init(d);
	gpu_set_link(g);
	if (!gpu_add_msix(g, errp))
		return;
	if (g->aer && pcie_aer_init(d, PCI_ERR_VER, GPU_ECAP_AER, PCI_ERR_SIZEOF, errp) < 0)
		return;
	pcie_ari_init(d, GPU_ECAP_ARI);
	if (g->serial)
		pcie_dev_ser_num_init(d, GPU_ECAP_SERIAL, g->serial);
	if (g->ats)
		pcie_ats_init(d, GPU_ECAP_ATS, true);
}

static void gpu_exit(PCIDevice *d)
{
	HgxGpu *g = HGX_GPU(d);

	if (g->aer)
		pcie_aer_exit(d);
	msix_uninit(d, &g->bar0, &g->bar0);
	pcie_cap_exit(d);
}

static const Property gpu_properties[] = {
	DEFINE_PROP_UINT16("x-vendor", HgxGpu, vendor, 0x10de),
	DEFINE_PROP_UINT16("x-device", HgxGpu, device, 0x2330),
	DEFINE_PROP_UINT16("x-subvendor", HgxGpu, subvendor, 0x10de),
	DEFINE_PROP_UINT16("x-subdevice", HgxGpu, subdevice, 0x16c1),
	DEFINE_PROP_UINT32("x-class", HgxGpu, class, 0x030200),
	DEFINE_PROP_UINT64("x-serial", HgxGpu, serial, 0),
	DEFINE_PROP_SIZE("bar0", HgxGpu, bar0_size, 16 * MiB),
	DEFINE_PROP_SIZE("bar2", HgxGpu, bar2_size, 256 * MiB),
	DEFINE_PROP_SIZE("bar4", HgxGpu, bar4_size, 32 * MiB),
	DEFINE_PROP_PCIE_LINK_SPEED("x-speed", HgxGpu, speed, PCIE_LINK_SPEED_32),
	DEFINE_PROP_PCIE_LINK_WIDTH("x-width", HgxGpu, width, PCIE_LINK_WIDTH_16),
	DEFINE_PROP_UINT8("x-cur-speed", HgxGpu, cur_speed, 0),
	DEFINE_PROP_UINT8("x-cur-width", HgxGpu, cur_width, 0),
	DEFINE_PROP_BOOL("flr", HgxGpu, flr, true),
	DEFINE_PROP_BOOL("ats", HgxGpu, ats, true),
	DEFINE_PROP_BOOL("aer", HgxGpu, aer, true),
};

/* ---- igb and igbvf ------------------------------------------------------------------------------------------ */

#define NIC_ECAP_ATS 0x1c0		/* free in igb (AER 0x100, ARI 0x150, SR-IOV 0x160) and in igbvf */
#define VF_ENGINE_BAR 3			/* has 16 KiB: MSI-X table at 0, pending bits at 0x2000 */
#define VF_ENGINE_AT 0x3000
#define VF_ENGINE_SIZE 0x1000
#define VF_ENGINE_ID 0x44584748		/* "HGXD" */

/* Lives as long as QEMU does: a view of memory may outlive the VF that it shows. */
struct vf_engine {
	MemoryRegion regs;
	struct engine engine;
};

static realize_fn stock_igb_realize, stock_igbvf_realize;

static uint64_t vf_read(void *opaque, hwaddr reg, unsigned int size)
{
	return reg ? engine_read(opaque, reg) : VF_ENGINE_ID;
}

static void vf_write(void *opaque, hwaddr reg, uint64_t value, unsigned int size)
{
	engine_write(opaque, reg, value, size);
}

static const MemoryRegionOps vf_ops = {
	.read = vf_read,
	.write = vf_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 4, .max_access_size = 8 },
	.impl = { .min_access_size = 4, .max_access_size = 8 },
};

static void igb_realize(PCIDevice *d, Error **errp)
{
	ERRP_GUARD();

	stock_igb_realize(d, errp);
	if (*errp)
		return;
	pcie_ats_init(d, NIC_ECAP_ATS, true);
	devctl_init(d);
}

static void igbvf_realize(PCIDevice *d, Error **errp)
{
	struct vf_engine *v;
	ERRP_GUARD();

	stock_igbvf_realize(d, errp);
	if (*errp)
		return;
	pcie_ats_init(d, NIC_ECAP_ATS, true);
	v = g_new0(struct vf_engine, 1);
	v->engine.device = d;
	memory_region_init_io(&v->regs, OBJECT(d), &vf_ops, &v->engine, "hgx-engine", VF_ENGINE_SIZE);
	memory_region_add_subregion_overlap(d->io_regions[VF_ENGINE_BAR].memory, VF_ENGINE_AT, &v->regs, 1);
}

static void replace_realize(const char *type, realize_fn *stock, realize_fn ours)
{
	PCIDeviceClass *k = PCI_DEVICE_CLASS(object_class_by_name(type));

	*stock = k->realize;
	k->realize = ours;
}

/* ---- classes ------------------------------------------------------------------------------------------------- */

/* The headers must lay structures out as the running QEMU does; TypeImpl, which knows, begins like this. */
struct type_head {
	const char *name;
	size_t class_size;
	size_t instance_size;
};

static void check_size(const char *type, size_t ours)
{
	const struct type_head *head = *(struct type_head **)object_class_by_name(type);

	if (head->instance_size != ours) {
		fprintf(stderr, "hgx: %s is %zu bytes in QEMU, %zu here\n", type, head->instance_size, ours);
		abort();
	}
}

/* Runs once, when the first hgx-gpu is asked for: other classes can be looked up by then. */
static void gpu_class_init(ObjectClass *oc, void *data)
{
	DeviceClass *dc = DEVICE_CLASS(oc);
	PCIDeviceClass *k = PCI_DEVICE_CLASS(oc);

	check_size(TYPE_PCI_DEVICE, sizeof(PCIDevice));
	check_size(TYPE_PCI_BRIDGE, sizeof(PCIBridge));
	check_size(TYPE_PCIE_SLOT, sizeof(PCIESlot));
	replace_realize("igb", &stock_igb_realize, igb_realize);
	replace_realize("igbvf", &stock_igbvf_realize, igbvf_realize);

	k->realize = gpu_realize;
	k->exit = gpu_exit;
	k->config_write = gpu_config_write;
	k->vendor_id = 0x10de;
	k->device_id = 0x2330;
	k->class_id = PCI_CLASS_DISPLAY_3D;
	dc->desc = "GPU stand-in with a DMA engine";
	dc->user_creatable = true;
	set_bit(DEVICE_CATEGORY_MISC, dc->categories);
	device_class_set_legacy_reset(dc, gpu_reset);
	device_class_set_props(dc, gpu_properties);
}

static const TypeInfo gpu_info = {
	.name = TYPE_HGX_GPU,
	.parent = TYPE_PCI_DEVICE,
	.instance_size = sizeof(HgxGpu),
	.class_init = gpu_class_init,
	.interfaces = (InterfaceInfo[]) { { INTERFACE_PCIE_DEVICE }, { } },
};

/* ---- hgx-switch-down ------------------------------------------------------------------------------------- */

#define DOWN_ECAP_ACS 0x180

static realize_fn stock_down_realize;
static DeviceReset stock_down_reset;

/* Of the port itself, as by a secondary bus reset at a port above: what was written is lost. */
static void down_reset(DeviceState *dev)
{
	stock_down_reset(dev);
	pcie_acs_reset(PCI_DEVICE(dev));
}

static void down_realize(PCIDevice *d, Error **errp)
{
	ERRP_GUARD();

	stock_down_realize(d, errp);
	if (!*errp && !PCIE_SLOT(d)->disable_acs)
		pcie_acs_init(d, DOWN_ECAP_ACS);
}

static const Property down_properties[] = {
	DEFINE_PROP_PCIE_LINK_SPEED("x-speed", PCIESlot, speed, PCIE_LINK_SPEED_32),
	DEFINE_PROP_PCIE_LINK_WIDTH("x-width", PCIESlot, width, PCIE_LINK_WIDTH_16),
	DEFINE_PROP_BOOL("disable-acs", PCIESlot, disable_acs, false),
};

static void down_class_init(ObjectClass *oc, void *data)
{
	PCIDeviceClass *k = PCI_DEVICE_CLASS(oc);

	stock_down_realize = k->realize;
	k->realize = down_realize;
	stock_down_reset = DEVICE_CLASS(oc)->legacy_reset;
	device_class_set_legacy_reset(DEVICE_CLASS(oc), down_reset);
	device_class_set_props(DEVICE_CLASS(oc), down_properties);
}

static const TypeInfo down_info = {
	.name = "hgx-switch-down",
	.parent = "xio3130-downstream",
	.class_init = down_class_init,
};

/* ---- hgx-switch-up ----------------------------------------------------------------------------------------- */

struct hgx_up {
	PCIEPort parent_obj;
	PCIExpLinkSpeed speed;
	PCIExpLinkWidth width;
};

static realize_fn stock_up_realize;

static void up_realize(PCIDevice *d, Error **errp)
{
	struct hgx_up *up = (struct hgx_up *)d;
	ERRP_GUARD();

	stock_up_realize(d, errp);
	if (!*errp)
		pcie_cap_fill_link_ep_usp(d, up->width, up->speed);
}

static const Property up_properties[] = {
	DEFINE_PROP_PCIE_LINK_SPEED("x-speed", struct hgx_up, speed, PCIE_LINK_SPEED_32),
	DEFINE_PROP_PCIE_LINK_WIDTH("x-width", struct hgx_up, width, PCIE_LINK_WIDTH_16),
};

static void up_class_init(ObjectClass *oc, void *data)
{
	PCIDeviceClass *k = PCI_DEVICE_CLASS(oc);

	stock_up_realize = k->realize;
	k->realize = up_realize;
	device_class_set_props(DEVICE_CLASS(oc), up_properties);
}

static const TypeInfo up_info = {
	.name = "hgx-switch-up",
	.parent = "x3130-upstream",
	.instance_size = sizeof(struct hgx_up),
	.class_init = up_class_init,
};

/* ---- loading -------------------------------------------------------------------------------------------------- */

static void register_types(void)
{
	type_register_static(&gpu_info);
	type_register_static(&down_info);
	type_register_static(&up_info);
}

/* LD_PRELOAD reaches every program that QEMU is started through; only QEMU itself has the symbol. */
extern void register_module_init(void (*fn)(void), module_init_type type) __attribute__((weak));

static void __attribute__((constructor)) hgx_load(void)
{
	if (register_module_init)
		register_module_init(register_types, MODULE_INIT_QOM);
}
