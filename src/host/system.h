/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/system — what an inventory holds beside PCI functions and NUMA nodes: CPUs, boot options, modules,
 * NICs as the network and RDMA stacks see them, Fabric Manager. Plain records in the inventory's arena; a
 * text is never NULL, "" is unknown. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bdf.h"
#include "base/cpuset.h"

#define HOST_CORE_CPUS 8 /* POWER has eight threads per core, nothing that Linux runs on has more */

struct host_core {
	uint16_t cpu[HOST_CORE_CPUS]; /* ascending */
	unsigned ncpus;
};

struct host_package { /* a socket */
	int           id; /* -1 unknown */
	struct cpuset cpus;
};

struct host_cpus {
	bool                 online_known;
	struct cpuset        online;
	struct host_package *package; /* npackages 0: unknown */
	size_t               npackages;
	struct host_core    *core; /* in the order of their first CPU; ncores 0: unknown */
	size_t               ncores;
};

struct host_option { /* one that matters, a comma list split: "pci=noats" */
	const char *text, *note; /* note: what it does; "" where the name says it */
};

struct host_boot_pool {   /* hugepages= */
	uint64_t page_size; /* bytes; 0: the kernel's default size */
	uint64_t count;
	int      node;      /* -1: spread over the nodes */
};

#define HOST_BOOT_POOLS_MAX 64

struct host_boot { /* what proc/cmdline asks for; the kernel may not have done it */
	struct host_option   *option;
	size_t                noptions;
	int                   passthrough; /* 1 iommu=pt, 0 iommu=nopt, -1: the kernel's default */
	bool                  no_ats, no_aer, acs_override, intel_iommu_on;
	const char           *vfio_ids;     /* vfio-pci.ids= */
	uint64_t              default_page; /* default_hugepagesz=, bytes; 0 none */
	struct host_boot_pool pool[HOST_BOOT_POOLS_MAX];
	size_t                npools;
};

struct host_param {
	const char *name, *value;
};

struct host_module { /* listed only if it is there */
	const char        *name, *state; /* "live", "coming", "going"; "built-in" */
	const char        *version;
	struct host_param *param;
	size_t             nparams;
};

struct host_slot { /* as firmware names it: what is printed beside it */
	const char *name;
	struct bdf  bdf; /* of its device, function 0 */
};

struct host_reserve { /* hugepages of one size, all nodes together */
	uint64_t page_size, reserved; /* reserved: promised to mappings, still counted as free (hugetlbpage.rst) */
};

struct host_neighbour { /* as lldpd heard it */
	const char *chassis_id, *chassis_name, *port_id, *port_descr;
};

struct host_netdev {
	const char            *name, *mac, *operstate, *port_name, *switch_id;
	int                    carrier;    /* 1 up, 0 no link, -1 unknown: so too while the interface is down */
	uint32_t               mtu;        /* 0 unknown */
	uint32_t               speed_mbps; /* 0 unknown */
	struct host_neighbour *neighbour;  /* NULL: none heard, or nobody to ask */
};

struct host_rdma_port {
	unsigned    number;
	const char *state, *phys_state, *rate, *link_layer; /* "ACTIVE" "LinkUp" "400 Gb/sec (4X NDR)" "InfiniBand" */
};

struct host_rdma {
	const char            *name, *node_guid, *image_guid, *firmware, *type, *board;
	struct host_rdma_port *port;
	size_t                 nports;
};

struct host_nic { /* one PF that [kinds] calls a NIC */
	struct bdf          bdf;
	struct host_netdev *netdev;
	size_t              nnetdevs;
	size_t              nrepresentors; /* netdevs of its VFs and SFs in switchdev mode */
	struct host_rdma   *rdma;
	size_t              nrdma;
	const char         *fw_running, *fw_stored, *fw_psid; /* devlink; stored: after the next reset */
};

struct host_fabric_gpu {
	unsigned   module; /* NVML's module id, Fabric Manager's physicalId: no PCI order */
	struct bdf bdf;    /* BDF_NONE: Fabric Manager does not say, as for a GPU that a guest holds */
};

struct host_partition {
	unsigned                id;
	bool                    active;
	struct host_fabric_gpu *gpu;
	size_t                  ngpus;
};

struct host_fabric { /* NVIDIA Fabric Manager */
	bool                   configured;     /* its configuration file is there */
	int                    mode;           /* FABRIC_MODE: 0 bare metal, 1 shared NVSwitch, 2 vGPU; -1 unknown */
	const char            *command_socket; /* FM_CMD_UNIX_SOCKET_PATH; "": TCP on the loopback */
	const char            *socket;         /* UNIX_SOCKET_PATH */
	int                    command_socket_there; /* 1, 0; -1 unknown */
	bool                   partitions_known;
	struct host_partition *partition;
	size_t                 npartitions;
};

struct host_system {
	struct host_cpus     cpus;
	struct host_boot     boot; /* all empty where the command line is unknown */
	struct host_module  *module;
	size_t               nmodules;
	struct host_reserve *reserve;
	size_t               nreserves;
	struct host_slot    *slot; /* by name; nslots 0: none, or unknown */
	size_t               nslots;
	struct host_nic     *nic; /* in BDF order */
	size_t               nnics;
	struct host_fabric   fabric;
};

struct host_root;
struct inventory;
/* What fmpm -l prints, within a second; the caller frees. For a process that may not run it. */
int host_fabric_list(char **ret, struct host_root *root, const char *fmpm, struct error *err);
/* Runs fmpm with "-l", and ret is what it lists, in the arena; or with "-a" or "-d" and the number of a partition, and ret is
 * NULL. It is told the socket that Fabric Manager's configuration names. -ENODEV: there is none; -ETIMEDOUT; -EIO. */
int host_fabric_do(struct host_fabric *ret, struct arena *arena, struct host_root *root, const char *fmpm, const char *verb,
		   const char *number, unsigned timeout_ms, struct error *err);
/* By the phys_port_name of an interface: of a VF or SF in switchdev mode, not of the port itself. */
bool host_is_representor(const char *port_name);
/* The slot that a device is in, or a bridge above it; NULL: none is known. */
const char *host_slot_of(const struct inventory *inv, struct bdf bdf);
/* The module id of a GPU, from the partitions; -1 unknown. */
int host_fabric_module(const struct host_fabric *f, struct bdf gpu);
