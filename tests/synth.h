/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* synth — invented hosts as text: NUMA nodes x host bridges x switches x (GPUs + NIC ports), with real
 * config bytes. Randomness comes from a seed only. */

#include "base/sbuf.h"
#include "support.h"

struct synth {
	unsigned nodes, bridges, switches, gpus, nics; /* bridges per node, switches per bridge, rest per switch */
	bool     cascade;                              /* the second switch of a bridge hangs below the first */
	unsigned total_vfs;
	uint64_t free_mib;
	uint64_t seed; /* 0: everything free and whole */
};

static inline uint32_t synth_random(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33) % below;
}

/* Config space: header, PCIe capability of the given type, SR-IOV where total > 0; of ports (types 4 and 6) ACS as Linux
 * sets it: without it the IOMMU groups would not be apart. */
static inline void synth_config(struct sbuf *out, const char *dir, unsigned header, unsigned type, unsigned total,
				unsigned num)
{
	sbuf_addf(out, "%s/config\tbytes 4096\n", dir);
	sbuf_addf(out, " 000: 34 12 78 56 06 00 10 00 00 00 00 00 00 00 %02x 00\n", header);
	sbuf_add(out, " 030: 00 00 00 00 60 00 00 00 00 00 00 00 00 00 00 00\n");
	sbuf_addf(out, " 060: 10 00 %x2 00 00 00 00 10 00 00 00 00 05 01 00 00\n", type); /* FLR, 32 GT/s x16 */
	sbuf_add(out, " 070: 00 00 05 01 00 00 00 00 00 00 00 00 00 00 00 00\n");
	if (type == 4 || type == 6)
		sbuf_add(out, " 100: 0d 00 01 00 1f 00 1d 00 00 00 00 00 00 00 00 00\n");
	if (!total)
		return;
	sbuf_addf(out, " 100: 10 00 01 00 00 00 00 00 00 00 00 00 %02x 00 %02x 00\n", total, total);
	sbuf_addf(out, " 110: %02x 00 00 00 10 00 01 00 00 00 01 10 00 00 00 00\n", num); /* offset 16, stride 1 */
}

struct synth_place {
	char     chain[512]; /* "pci0000:10/0000:10:01.0/..." with a final slash */
	unsigned node;
	unsigned bus; /* next free bus */
	int      group;
};

static inline void synth_function(struct sbuf *out, struct synth_place *p, const char *bdf, const char *ids,
				  const char *driver)
{
	char dir[640];

	(void)snprintf(dir, sizeof(dir), "sys/devices/%s%s", p->chain, bdf);
	sbuf_addf(out, "sys/bus/pci/devices/%s -> ../../../devices/%s%s\n", bdf, p->chain, bdf);
	sbuf_addf(out, "%s/uevent\t%s%s%s\n", dir, ids, *driver ? "\\nDRIVER=" : "", driver);
	sbuf_addf(out, "%s/numa_node\t%u\n", dir, p->node);
	sbuf_addf(out, "%s/iommu_group -> ../../../kernel/iommu_groups/%d\n", dir, p->group++);
}

/* A port: its function, and its directory joins the chain. */
static inline void synth_port(struct sbuf *out, struct synth_place *p, unsigned bus, unsigned dev, unsigned type)
{
	char bdf[32], dir[640];
	size_t n;

	(void)snprintf(bdf, sizeof(bdf), "0000:%02x:%02x.0", bus, dev);
	(void)snprintf(dir, sizeof(dir), "sys/devices/%s%s", p->chain, bdf);
	synth_function(out, p, bdf, "PCI_CLASS=60400\\nPCI_ID=1234:5678", "pcieport");
	synth_config(out, dir, 1, type, 0, 0);
	n = strlen(p->chain);
	(void)snprintf(p->chain + n, sizeof(p->chain) - n, "%s/", bdf);
}

static inline void synth_gpu(struct sbuf *out, struct synth_place *p, unsigned bus)
{
	char bdf[32], dir[640];

	(void)snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", bus);
	(void)snprintf(dir, sizeof(dir), "sys/devices/%s%s", p->chain, bdf);
	synth_function(out, p, bdf, "PCI_CLASS=30200\\nPCI_ID=10DE:2330", "nvidia");
	synth_config(out, dir, 0, 0, 0, 0);
}

static inline void synth_nic(struct sbuf *out, struct synth_place *p, unsigned bus, unsigned total, unsigned num)
{
	char bdf[32], dir[640];

	(void)snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", bus);
	(void)snprintf(dir, sizeof(dir), "sys/devices/%s%s", p->chain, bdf);
	synth_function(out, p, bdf, "PCI_CLASS=20000\\nPCI_ID=15B3:1021", "mlx5_core");
	synth_config(out, dir, 0, 0, total, num);
	sbuf_addf(out, "%s/sriov_numvfs\t%u\n", dir, num);
	for (unsigned v = 0; v < num; v++) {
		(void)snprintf(bdf, sizeof(bdf), "0000:%02x:%02x.%u", bus, (16 + v) / 8, (16 + v) % 8);
		synth_function(out, p, bdf, "PCI_CLASS=20000\\nPCI_ID=15B3:101E", "");
		sbuf_addf(out, "sys/devices/%s%s/physfn -> ../0000:%02x:00.0\n", p->chain, bdf, bus);
	}
}

static inline void synth_switch(struct sbuf *out, struct synth_place *p, const struct synth *s, uint64_t *seed)
{
	char chain[512];
	unsigned usp = p->bus++, dsp = p->bus++;

	synth_port(out, p, usp, 0, 5);
	(void)snprintf(chain, sizeof(chain), "%s", p->chain);
	for (unsigned d = 0; d < s->gpus + s->nics; d++) {
		unsigned num = s->seed ? synth_random(seed, 3) : 0;

		(void)snprintf(p->chain, sizeof(p->chain), "%s", chain);
		synth_port(out, p, dsp, d, 6);
		if (d < s->gpus)
			synth_gpu(out, p, p->bus++);
		else
			synth_nic(out, p, p->bus++, s->total_vfs, num < s->total_vfs ? num : s->total_vfs);
	}
	(void)snprintf(p->chain, sizeof(p->chain), "%s", chain);
	if (s->cascade)
		synth_port(out, p, dsp, s->gpus + s->nics, 6);
}

/* The whole host as a text host; the caller frees. */
static inline char *synth_text(const struct synth *s)
{
	struct synth_place p = { .bus = 0x10 };
	uint64_t seed = s->seed;
	struct sbuf out = { 0 };

	sbuf_add(&out, TEXT_MAGIC_LINE);
	for (unsigned n = 0; n < s->nodes; n++) {
		sbuf_addf(&out, "sys/devices/system/node/node%u/cpulist\t%u-%u\n", n, n * 16, n * 16 + 15);
		sbuf_addf(&out, "sys/devices/system/node/node%u/meminfo\tNode %u MemTotal: %llu kB\\nNode %u MemFree: %llu kB\n",
			  n, n, (unsigned long long)s->free_mib * 1024, n, (unsigned long long)s->free_mib * 1024);
	}
	for (unsigned b = 0; b < s->nodes * s->bridges; b++) {
		unsigned root = p.bus++;

		p.node = b / s->bridges;
		(void)snprintf(p.chain, sizeof(p.chain), "pci0000:%02x/", root);
		synth_port(&out, &p, root, 1, 4);
		for (unsigned w = 0; w < s->switches; w++) {
			char chain[512];

			(void)snprintf(chain, sizeof(chain), "%s", p.chain);
			synth_switch(&out, &p, s, &seed);
			if (s->cascade)
				continue;
			(void)snprintf(p.chain, sizeof(p.chain), "pci0000:%02x/", root);
			if (w + 1 < s->switches)
				synth_port(&out, &p, root, w + 2, 4);
		}
	}
	return sbuf_steal(&out);
}
