/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/request — what a guest is asked to have. Read from JSON through one field table; after that valid. */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bdf.h"
#include "topo/topo.h"

struct error;
struct json_object;

#define PLAN_GPUS_MAX    16
#define PLAN_VFS_MAX     64
#define PLAN_LIST_MAX    64
#define PLAN_NAME_MAX    40

/* How much it matters that NIC and GPU reach each other below the root complex (GPUDirect RDMA). */
enum plan_gdr {
	PLAN_GDR_OFF,       /* not at all: no ACS steps */
	PLAN_GDR_PREFERRED, /* where it can be had; notes say where not */
	PLAN_GDR_REQUIRED,  /* or it does not fit */
	PLAN_GDR_MAX_,
};

struct plan_request {
	struct arena arena;       /* owns every string */
	char        *name;        /* [a-z0-9][a-z0-9-]*, at most PLAN_NAME_MAX; "" in a dry run */
	uint64_t     gpus;        /* 0..PLAN_GPUS_MAX */
	uint64_t     vfs_per_gpu; /* VFs for each GPU, on a NIC near it */
	uint64_t     vfs;         /* or: VFs for the whole bundle; not both */
	enum topo_class max_path; /* farthest GPU-VF path allowed; SYS by default */
	enum plan_gdr gdr;        /* preferred by default if there are GPUs and VFs, else off */
	uint64_t     vcpus;       /* at least 1 */
	uint64_t     memory;      /* bytes, whole MiB */
	int64_t      numa_node;   /* all GPUs on this node; -1 any */
	struct bdf   require[PLAN_LIST_MAX], exclude[PLAN_LIST_MAX];
	size_t       nrequire, nexclude;
	char        *kernel, *initrd, *cmdline, *disk; /* boot; "" none; paths on the host */
};

/* Defaults: 1 vCPU, 512 MiB, no GPU, no VF, max_path SYS. -EINVAL names the key and the fix. */
int  plan_request_read(struct plan_request *ret, struct json_object *obj, struct error *err);
void plan_request_done(struct plan_request *r);
/* The same request as JSON (round trip); NULL: no memory. */
struct json_object *plan_request_json(const struct plan_request *r);
