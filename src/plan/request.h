/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/request — what a guest is asked to have. Read from JSON through one field table; after that valid. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bdf.h"
#include "plan/seed.h"
#include "topo/topo.h"

struct error;
struct json_object;
struct plan_vf_settings;

#define PLAN_GPUS_MAX    16
#define PLAN_VFS_MAX     64
#define PLAN_LIST_MAX    64
#define PLAN_NVME_MAX    16
#define PLAN_NAME_MAX    40

/* How much it matters that NIC and GPU reach each other below the root complex (GPUDirect RDMA). */
enum plan_gdr {
	PLAN_GDR_OFF,       /* not at all: no ACS steps */
	PLAN_GDR_PREFERRED, /* where it can be had; notes say where not */
	PLAN_GDR_REQUIRED,  /* or it does not fit */
	PLAN_GDR_MAX_,
};

/* "10de:2330", "10de:*"; or a name of [models] */
struct plan_model {
	uint16_t vendor, vendor_mask, device, device_mask;
	char     name[24]; /* in small letters; "": by number */
};

#define PLAN_MODELS_MAX      16
#define PLAN_MODEL_KINDS_MAX 4 /* different ones in one request */
#define PLAN_CELLS_MAX       8

/* What a host may be without, of what a request asks for. */
enum { PLAN_LACKS_UEFI = 1, PLAN_LACKS_SECURE_BOOT = 2, PLAN_LACKS_TPM = 4 };

struct plan_request {
	struct arena arena;       /* owns every string */
	char        *name;        /* [a-z0-9][a-z0-9-]*, at most PLAN_NAME_MAX; "" in a dry run */
	uint64_t     gpus;        /* 0..PLAN_GPUS_MAX */
	uint64_t     vfs_per_gpu; /* VFs for each GPU, on a NIC near it */
	uint64_t     vfs;         /* or: VFs for the whole bundle; not both */
	uint64_t     nvme;        /* whole NVMe drives, near the rest */
	enum topo_class max_path; /* farthest GPU-VF path allowed; SYS by default */
	enum topo_class max_gpu_path; /* farthest GPU-GPU path allowed; UNKNOWN, the default: any */
	uint64_t     min_bandwidth; /* Gb/s (10^9 bits) from each GPU to the NICs of its VFs, as links are now; 0 any */
	bool         loose;       /* policy: where the three limits above cannot be met, the best that there is; notes say so */
	bool         spread_pf;   /* no two VFs on one PF */
	bool         rails;       /* each GPU's VFs from NICs of its rail */
	struct plan_model model[PLAN_MODELS_MAX]; /* one: of all GPUs; several: of one GPU each */
	uint8_t      model_kind[PLAN_MODELS_MAX]; /* equal models have equal ones, from 0 */
	size_t       nmodels;
	bool         exclusive;   /* the whole host: all GPUs, and nobody else */
	enum plan_gdr gdr;        /* preferred by default if there are GPUs and VFs, else off */
	uint64_t     vcpus;       /* at least 1 */
	uint64_t     memory;      /* bytes, whole MiB */
	uint64_t     hugepages;   /* size of the pages of its memory, bytes; 0: plain memory */
	uint64_t     cells;       /* NUMA cells, at most PLAN_CELLS_MAX; 0: one for each node of its devices */
	int64_t      numa_node;   /* all GPUs on this node; -1 any */
	struct bdf   require[PLAN_LIST_MAX], exclude[PLAN_LIST_MAX];
	size_t       nrequire, nexclude;
	struct plan_vf_settings *vf; /* in the arena; what is asked of its VFs: nvf_sets 1: of all; else of each, by order in the guest */
	size_t       nvf_sets;
	uint64_t     mtu;         /* that PFs of its VFs have at least; 0 any */
	bool         root_ports;  /* no switches in the guest: a port of the root for each device */
	bool         uefi, secure_boot, tpm;
	char        *tenant;      /* like name; "" none */
	char        *kernel, *initrd, *cmdline, *disk; /* boot; "" none; paths on the host */
	struct plan_seed seed;
};

bool plan_model_parse(struct plan_model *ret, const char *text); /* of either form */
/* Defaults: 1 vCPU, 512 MiB, no GPU, no VF, max_path SYS. -EINVAL names the key and the fix. */
int  plan_request_read(struct plan_request *ret, struct json_object *obj, struct error *err);
void plan_request_done(struct plan_request *r);
/* The same request as JSON (round trip); NULL: no memory. */
struct json_object *plan_request_json(const struct plan_request *r);
