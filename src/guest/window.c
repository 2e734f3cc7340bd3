/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether the guest's BARs have room. A BAR that gets no address leaves its device dead, and one that gets an address which
 * the IOMMU cannot hold is no target for its peers: VFIO_MAP_DMA fails, QEMU goes on, and peer-to-peer is gone. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "guest/guest.h"
#include "guest/layout.h"
#include "guest/qemu.h"
#include "host/inventory.h"

#define TCG_BITS 40 /* TCG_PHYS_ADDR_BITS (QEMU, target/i386/cpu.h) */

/* q35 has up to 2.75 GiB of memory, or 2, below 4 GiB (hw/i386/pc_q35.c). On AMD what would reach the HyperTransport
 * addresses below 1 TiB begins there instead (hw/i386/pc.c, pc_max_used_gpa()). */
#define LOW_MEMORY  (UINT64_C(2) << 30)
#define LOW_LIMIT   (UINT64_C(0xb0) << 24)
#define ABOVE_4G    (UINT64_C(4) << 30)
#define AMD_HT      UINT64_C(0xfd00000000)
#define AMD_ABOVE   (UINT64_C(1) << 40)
#define BITS_MAX    52 /* AMD64 manual 2, 5.1: of a physical address */

/* SeaBIOS gives I/O ports from 0x1000 to below 0xa000, a window of 4 KiB to each bridge with some behind it, the rest of one
 * to pcie-root's own, and does not start where that is not enough (src/fw/pciinit.c, pci_bios_init_root_regions_io()). */
#define SEABIOS_IO_PORTS 8

unsigned guest_address_bits(const struct inventory *inv, const struct guest_env *env)
{
	unsigned cpu = inv->phys_bits, iommu = inv->iommu_bits;

	if (strcmp(env->type, "qemu") == 0)
		return TCG_BITS;
	return cpu && iommu && iommu < cpu ? iommu : cpu;
}

static uint64_t align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

/* Where the window ends if it begins at a multiple of its size, as OVMF lets it. */
static uint64_t window_end(uint64_t window, uint64_t memory, bool amd)
{
	uint64_t above = memory >= LOW_LIMIT ? memory - LOW_MEMORY : 0;

	if (amd && ABOVE_4G + above + window > AMD_HT)
		return align_up(AMD_ABOVE + above, window) + window;
	return align_up(ABOVE_4G + above, window) + window;
}

static unsigned bits_of(uint64_t end)
{
	unsigned bits = 0;

	while (bits < 63 && UINT64_C(1) << bits < end)
		bits++;
	return bits;
}

int guest_window_check(const struct guest_layout *l, const struct inventory *inv, uint64_t memory, bool uefi,
		       const struct guest_env *env, struct error *err)
{
	unsigned bits = guest_address_bits(inv, env), need;
	bool iommu = bits && bits == inv->iommu_bits && bits != inv->phys_bits;

	if (!uefi && l->io_ports > SEABIOS_IO_PORTS)
		return error_set(err, -E2BIG, "%u of the devices have I/O ports, each a window of 4 KiB, and SeaBIOS has room for %u; ask for "
				 "firmware uefi, which leaves some out, or for fewer devices", l->io_ports, SEABIOS_IO_PORTS);
	if (!l->mmio64)
		return 0;
	if (l->mmio64 > UINT64_C(1) << BITS_MAX || memory > UINT64_C(1) << BITS_MAX)
		need = BITS_MAX + 1;
	else
		need = bits_of(window_end(l->mmio64, memory, strcmp(inv->cpu_vendor, "AuthenticAMD") == 0));
	if (need <= (bits ? bits : BITS_MAX))
		return 0;
	return error_set(err, -E2BIG, "BARs of the devices take a window of %llu GiB of addresses, beside %llu GiB of memory: %u bits, and "
			 "guests have %u here, as %s has; ask for fewer devices", (unsigned long long)(l->mmio64 >> 30),
			 (unsigned long long)(memory >> 30), need, bits ? bits : BITS_MAX,
			 iommu ? "the IOMMU" : strcmp(env->type, "qemu") == 0 ? "TCG" : "the CPU");
}
