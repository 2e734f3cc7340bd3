/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/inventory — the raw facts of one host at one moment, read through host/root. Plain records; all
 * memory belongs to the inventory's arena. What was not read is marked unknown, never guessed. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/bdf.h"
#include "base/cpuset.h"
#include "host/kind.h"
#include "host/pcicap.h"
#include "host/root.h"
#include "host/system.h"

struct error;
struct host_changes;

#define HOST_CLASS_UNKNOWN UINT32_MAX
#define HOST_DRIVER_UNKNOWN UINT16_MAX
#define HOST_VF_UNNUMBERED UINT16_MAX /* a PF has 65,535 VFs at most */

struct host_bar {
	uint64_t start, size; /* size 0: not there */
	uint64_t flags;       /* IORESOURCE_* (linux/ioport.h): 0x200 memory, 0x2000 prefetch, 0x100000 64-bit */
};

/* What a function is, besides its name. The VFs of one PF that differ in nothing but name, index, driver and
 * group share one: a big host has thousands. */
struct host_facts {
	struct bdf      parent;   /* the bridge above; BDF_NONE on a root bus */
	const char     *root_bus; /* the host bridge: "pci0000:15"; "" unknown */
	const char     *dir;      /* where its directory is: "sys/devices/pci0000:15" */
	enum host_kind  kind;
	uint16_t        vendor, device, subvendor, subdevice; /* 0 unknown */
	uint32_t        class;       /* 24 bits; HOST_CLASS_UNKNOWN */
	int             numa_node;   /* -1 unknown */
	const char     *driver_override; /* "" none; of a VF: not read */
	const char     *reset_methods;   /* "flr bus"; "" none; NULL unknown, and of a VF: not read */
	const char     *power_state, *runtime_status; /* "D0", "active"; NULL unknown, or not asked */
	const char     *power_control;  /* "auto": it may sleep by itself; "on": it may not; NULL unknown, or not asked */
	int8_t          d3cold_allowed; /* -1 unknown, or not asked */
	const char     *dma_domain;  /* of a NIC's PF: what its group's own DMA goes through, "identity", "DMA", "DMA-FQ"; NULL unknown */
	bool            bars_known;
	struct host_bar bar[6];      /* host_bar_of() knows a VF's */
	const struct host_bar *vf_bar; /* of a PF: VF 0's six; NULL unknown */
	struct pcicap   cap;         /* of a VF: not read, all unknown */
	const char     *vpd_serial;  /* of a GPU or NIC that has none in cap (host/vpd); "" none, unknown, or not asked; NULL of a VF */
	struct pcicap_link link_cap, link_now; /* from config, else from sysfs */
	bool            is_vf;
	bool            shared;      /* by VFs of one PF: bar is VF 0's */
	struct bdf      pf;          /* of a VF */
	bool            numvfs_known;
	uint16_t        numvfs;      /* of a PF: VFs that exist now (sriov_numvfs) */
};

/* 24 bytes, because they are many (docs/performance.md). */
struct host_function {
	struct bdf bdf;
	const struct host_facts *facts;
	int        iommu_group; /* -1 there is none */
	uint16_t   vf_index;    /* of a VF; HOST_VF_UNNUMBERED: not known */
	uint16_t   driver;      /* host_driver_of() has its name; HOST_DRIVER_UNKNOWN */
};

struct host_pool {
	uint64_t page_size;   /* bytes */
	uint64_t total, free; /* pages */
};

#define HOST_NODES_MAX 64
#define HOST_POOLS_MAX 4

struct host_node {
	int              id;
	bool             cpus_known;
	struct cpuset    cpus; /* may be empty: a CPU-less node */
	bool             memory_known;
	uint64_t         mem_total, mem_free; /* bytes */
	uint8_t          distance[HOST_NODES_MAX]; /* SLIT, by position in nodes[]; 0 unknown */
	struct host_pool pool[HOST_POOLS_MAX];
	size_t           npools;
};

struct host_finding {
	const char *id;    /* "pci.config-dead" */
	struct bdf  bdf;   /* BDF_NONE: the host */
	const char *text;
};

struct inventory {
	atomic_uint           refs;
	const struct inventory *base;   /* a reference: the one that this differs from in part, and borrows from; or NULL */
	size_t                depth;    /* of that chain */
	bool                  memory_only; /* of its own it has what host_changes.memory names, and its findings */
	struct arena          arena;
	struct host_function *fn; /* sorted by BDF, no BDF twice */
	size_t                nfn;
	const char          **driver; /* names of drivers, none twice; [0] is "" */
	size_t                ndrivers, drivers_size;
	struct host_node     *node; /* sorted by id */
	size_t                nnodes;
	struct host_finding  *finding;
	size_t                nfindings, findings_size;
	size_t                nread;    /* of finding: from reading; those behind are the topology's */
	const char *kernel, *cmdline;                /* "" unknown */
	const char *cpu_vendor, *cpu_model;
	const char *dmi_vendor, *dmi_product, *dmi_bios;
	enum host_known iommu;                       /* absent: it is off */
	int         iommu_units;                     /* entries of /sys/class/iommu; -1 unknown */
	unsigned    phys_bits, iommu_bits;           /* of addresses: the CPU's, the narrowest IOMMU unit's; 0 unknown */
	enum host_known vfio_pci, kvm;               /* the driver; /dev/kvm */
	enum host_known vfio_module;                 /* the driver is there, or its module is on disk */
	enum host_known intremap;                    /* interrupts are remapped; unknown also where there is no I/O APIC */
	enum host_known virtual;                     /* the host itself is a virtual machine */
	struct host_system system;
	struct host_stats stats;                     /* what reading this cost */
};

/* Fails only when the PCI bus cannot be listed or memory runs out; anything else becomes a finding. */
int host_inventory_read(struct inventory **ret, struct host_root *root, const struct host_kinds *kinds,
			struct error *err);
/* As host_inventory_read() would give it now, if the machine differs from old at most in what c names, and in what
 * hangs on it: VFs and PF, what lies below. What is unchanged is borrowed from old. -ESTALE: read everything. */
int host_inventory_update(struct inventory **ret, const struct inventory *old, const struct host_changes *c,
			  struct host_root *root, const struct host_kinds *kinds, struct error *err);
/* By host_inventory_update() where there is an old one and that can be done, else by host_inventory_read(); *whole
 * says which it was. */
int host_inventory_follow(struct inventory **ret, bool *whole, const struct inventory *old, const struct host_changes *c,
			  struct host_root *root, const struct host_kinds *kinds, struct error *err);
/* Whether the bus lists its functions and no others: a few calls. Who came or went unheard is found so. */
bool host_inventory_complete(const struct inventory *inv, struct host_root *root);
struct inventory *host_inventory_free(struct inventory *inv); /* drops a reference; NULL is fine; returns NULL */
AUTO_DEFINE(struct inventory *, host_inventory_free);

/* For those who read or link the inventory; 4096 at most, later ones are dropped. -ENOMEM. */
int host_finding_add(struct inventory *inv, const char *id, struct bdf bdf, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

const char     *host_driver_of(const struct inventory *inv, const struct host_function *fn); /* "" none, NULL unknown */
const char     *host_function_dir(char out[HOST_PATH_MAX], const struct host_function *fn); /* returns out */
struct host_bar host_bar_of(const struct host_function *fn, unsigned i); /* i < 6; size 0: not there */
const struct host_function *host_function_find(const struct inventory *inv, struct bdf bdf);
/* The GPU whose device has fn as another function (audio, USB-C): the two go together. NULL: none. */
const struct host_function *host_companion_of(const struct inventory *inv, const struct host_function *fn);
const struct host_node     *host_node_find(const struct inventory *inv, int id);
/* Whether a feature that came with this version of mainline is in the kernel of that release ("6.1.0-28-amd64"). A
 * number below it is decisive only for mainline, stable and Debian: other distributions add features to old ones.
 * UNKNOWN so, and for what is no release. */
enum host_known host_kernel_since(const char *release, unsigned major, unsigned minor);
/* It reads all of pci=config_acs=, and a 0 of it clears: 9cf8a952d57b, "PCI/ACS: Fix 'pci=config_acs=' parameter", of 6.15,
 * which the stable releases of spring 2025 have (their numbers are not verified). A vendor's may have it without the number. */
bool host_kernel_config_acs_mended(const char *release);
