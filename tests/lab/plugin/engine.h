/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A DMA engine that tells how its transactions travelled. It asks for translations by ATS if, and only if, its
 * function's ATS is enabled; then its requests are translated ones, and what the switch ports do with them shows.
 */
#ifndef HGX_ENGINE_H
#define HGX_ENGINE_H

#include "hw/pci/pci_device.h"

#include "route.h"

#define ENGINE_DMA_MAX (1 * 1024 * 1024)

/* Registers: in BAR 0 of hgx-gpu, and in the last page of BAR 3 of igbvf. */
enum {
	ENGINE_SRC = 0x10,		/* bus address, 64 bit, also writable in halves */
	ENGINE_DST = 0x18,
	ENGINE_LEN = 0x20,
	ENGINE_GO = 0x24,		/* a write copies LEN bytes from SRC to DST */
	ENGINE_STATUS = 0x28,		/* enum dma_status */
	ENGINE_READ = 0x30,		/* how SRC was read: bits 7:0 enum route, 15:8 enum rule, 31:16 port as bus, device, function */
	ENGINE_WRITTEN = 0x34,		/* how DST was written; of several pages, the worst */
};

/* A posted write that a port refuses is lost without a word, so it is done, too. */
enum dma_status { DMA_IDLE, DMA_DONE, DMA_FAILED };

struct engine {
	PCIDevice *device;
	uint64_t src, dst;
	uint32_t len, status;
	struct trip read, written;
};

uint64_t engine_read(struct engine *e, hwaddr reg);
/* True if a copy was made. */
bool engine_write(struct engine *e, hwaddr reg, uint64_t value, unsigned int size);
void engine_reset(struct engine *e);

#endif
