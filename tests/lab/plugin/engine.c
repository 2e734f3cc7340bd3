/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The DMA engine: registers, and a copy page by page, each request and each completion by its own route. */
#include "qemu/osdep.h"

#include "engine.h"

#include "exec/address-spaces.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_sriov.h"

#define ENGINE_PAGE 4096

static bool ats_is_on(PCIDevice *d)
{
	return d->exp.ats_cap && pci_get_word(d->config + d->exp.ats_cap + PCI_ATS_CTRL) & PCI_ATS_CTRL_ENABLE;
}

/* Of a VF the bit in its PF counts (9.3.5.4). */
static bool relaxed_is_on(PCIDevice *d)
{
	PCIDevice *pf = pci_is_vf(d) ? pcie_sriov_get_pf(d) : d;

	return pci_get_word(pf->config + pf->exp.exp_cap + PCI_EXP_DEVCTL) & PCI_EXP_DEVCTL_RELAX_EN;
}

/* What the IOMMU makes of ADDRESS; false if it lets the access not pass. */
static bool translate(PCIDevice *d, uint64_t address, bool is_write, uint64_t *ret)
{
	IOMMUTLBEntry entry;

	RCU_READ_LOCK_GUARD();
	entry = address_space_get_iotlb_entry(pci_device_iommu_address_space(d), address, is_write, MEMTXATTRS_UNSPECIFIED);
	*ret = entry.translated_addr | (address & entry.addr_mask);
	return entry.perm & (is_write ? IOMMU_WO : IOMMU_RO);
}

/* The function whose BAR has a physical address, or NULL. */
static PCIDevice *owner_of(uint64_t address)
{
	hwaddr offset, len = 1;
	MemoryRegion *mr;

	RCU_READ_LOCK_GUARD();
	mr = address_space_translate(&address_space_memory, address, &offset, &len, false, MEMTXATTRS_UNSPECIFIED);
	return (PCIDevice *)object_dynamic_cast(memory_region_owner(mr), TYPE_PCI_DEVICE);
}

static void note_worse(struct trip *kept, struct trip trip)
{
	if (trip.route > kept->route)
		*kept = trip;
}

/* A read or write of up to a page; false if it failed. */
static bool request(struct engine *e, uint64_t address, uint8_t *buf, uint32_t len, bool is_write, struct trip *kept)
{
	PCIDevice *d = e->device, *peer;
	struct tlp tlp = { .from = d, .translated = ats_is_on(d), .relaxed = relaxed_is_on(d), .address = address };
	MemTxAttrs attrs = { .requester_id = pci_requester_id(d) };
	struct trip trip;
	uint64_t physical;
	bool passes = translate(d, address, is_write, &physical);

	if (!(pci_get_word(d->config + PCI_COMMAND) & PCI_COMMAND_MASTER) || (tlp.translated && !passes))
		return false;
	if (tlp.translated)
		tlp.address = physical;
	trip = route_tlp(&tlp, passes && owner_of(physical));
	note_worse(kept, trip);
	if (trip.route == ROUTE_BLOCKED)
		return is_write;
	if (trip.root && !passes)
		return false;
	/* What came to the root complex is where the IOMMU says; what did not is where the switch took it to. */
	if (!trip.root)
		physical = tlp.address;
	if (address_space_rw(&address_space_memory, physical, attrs, buf, len, is_write) != MEMTX_OK)
		return false;
	peer = is_write ? NULL : owner_of(physical);
	if (peer) {
		struct tlp answer = { .from = peer, .completion = true, .relaxed = tlp.relaxed, .to_bus = pci_dev_bus_num(d) };

		trip = route_tlp(&answer, true);
		note_worse(kept, trip);
	}
	return trip.route != ROUTE_BLOCKED;
}

static enum dma_status copy(struct engine *e)
{
	uint32_t n, len = MIN(e->len, ENGINE_DMA_MAX);
	uint8_t buf[ENGINE_PAGE];

	for (uint32_t done = 0; done < len; done += n) {
		uint64_t src = e->src + done, dst = e->dst + done;

		n = MIN(len - done, ENGINE_PAGE - MAX(src % ENGINE_PAGE, dst % ENGINE_PAGE));
		if (!request(e, src, buf, n, false, &e->read) || !request(e, dst, buf, n, true, &e->written))
			return DMA_FAILED;
	}
	return DMA_DONE;
}

static uint32_t trip_word(const struct trip *trip)
{
	return trip->route | trip->rule << 8 | (trip->port ? (uint32_t)pci_get_bdf(trip->port) << 16 : 0);
}

uint64_t engine_read(struct engine *e, hwaddr reg)
{
	switch (reg) {
	case ENGINE_SRC:
		return e->src;
	case ENGINE_SRC + 4:
		return e->src >> 32;
	case ENGINE_DST:
		return e->dst;
	case ENGINE_DST + 4:
		return e->dst >> 32;
	case ENGINE_LEN:
		return e->len;
	case ENGINE_STATUS:
		return e->status;
	case ENGINE_READ:
		return trip_word(&e->read);
	case ENGINE_WRITTEN:
		return trip_word(&e->written);
	default:
		return 0;
	}
}

bool engine_write(struct engine *e, hwaddr reg, uint64_t value, unsigned int size)
{
	switch (reg) {
	case ENGINE_SRC:
		e->src = size == 8 ? value : deposit64(e->src, 0, 32, value);
		break;
	case ENGINE_SRC + 4:
		e->src = deposit64(e->src, 32, 32, value);
		break;
	case ENGINE_DST:
		e->dst = size == 8 ? value : deposit64(e->dst, 0, 32, value);
		break;
	case ENGINE_DST + 4:
		e->dst = deposit64(e->dst, 32, 32, value);
		break;
	case ENGINE_LEN:
		e->len = value;
		break;
	case ENGINE_GO:
		e->read = e->written = (struct trip){ 0 };
		e->status = copy(e);
		return true;
	}
	return false;
}

void engine_reset(struct engine *e)
{
	*e = (struct engine){ .device = e->device };
}
