/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/place — what the search for a bundle works on (room-private). */

#include "host/inventory.h"
#include "plan/acs.h"
#include "plan/plan.h"

#define PLACE_GPUS_MAX 64
#define PLACE_NICS_MAX 128

struct place_gpu {
	uint32_t        node;    /* in the topology */
	enum topo_class nearest; /* best class to any VF that is free; UNKNOWN if there is none */
	const struct plan_acs_pair *barred; /* with its nearest NIC that will not do, for gdr; NULL: there is none */
};

/* One NIC port and the VFs it can still give, lowest index first. */
struct place_nic {
	uint32_t   node;
	bool       exists; /* its VFs are there; else a vf-count step makes them */
	uint16_t   make;   /* VFs to be made when they are not there */
	uint16_t   nvfs;
	struct bdf vf[PLAN_VFS_MAX];
	uint16_t   index[PLAN_VFS_MAX];
};

/* VFs of one bundle: how many of each NIC serve each GPU slot (position in the chosen set). */
struct place_choice {
	uint32_t        ngpus;
	uint8_t         gpu[PLAN_GPUS_MAX]; /* into place.gpu, ascending */
	uint32_t        nvfs;
	uint8_t         vf_gpu[PLAN_VFS_MAX]; /* into gpu[] of this choice; 0xff: no GPU */
	uint8_t         vf_nic[PLAN_VFS_MAX]; /* into place.nic */
	enum topo_class worst_path, gpu_path;
	unsigned        nodes;  /* NUMA nodes spanned */
	unsigned        shared; /* most VFs of this bundle on one NIC */
};

struct place {
	const struct plan_input *in;
	struct plan             *plan;
	struct place_gpu         gpu[PLACE_GPUS_MAX];
	uint32_t                 ngpus;
	struct place_nic         nic[PLACE_NICS_MAX];
	uint32_t                 nnics;
	uint8_t                  path[PLACE_GPUS_MAX][PLACE_NICS_MAX];      /* enum topo_class */
	uint8_t                  gpu_path[PLACE_GPUS_MAX][PLACE_GPUS_MAX];
	struct place_choice      best;
	bool                     found;
	uint16_t                *acs_base; /* plan_acs_base(); in the plan's arena */
	struct plan_acs         *candidates; /* owned: GPUs with NICs, if gdr is required */
	struct plan_acs         *acs;        /* owned: the bundle's; NULL: no pairs, or gdr is off */
	bool                     any_cells; /* memory and CPUs do not matter: to find out whether they are what is short */
	uint64_t                 visits;
};

/* src/plan/candidates.c: fills gpu, nic and the path tables; reasons say who was left out and why. */
int place_candidates(struct place *p, struct error *err);
/* src/plan/vfs.c: VFs for the GPUs in c, none farther than max_path; false if there are not enough. The
 * result has the least possible worst path, then the least sharing of NICs; deterministic. */
bool place_vfs(const struct place *p, struct place_choice *c);
/* src/plan/gdr.c: pairs that cannot be direct get the path UNKNOWN, where direct is required. */
int place_gdr(struct place *p, struct error *err);
void place_barred(struct place *p, const struct plan_acs_pair *pair); /* gives the reason */
void place_barred_required(struct place *p); /* the same, of required GPUs with required VFs */
/* src/plan/gdr.c: acs and notes of the bundle; reasons, where it must not be given. */
int place_routes(struct place *p, struct error *err);
/* src/plan/cells.c: NUMA cells of a choice with memory and vCPUs; false, with reasons where `say`. */
bool place_cells(const struct place *p, const struct place_choice *c, struct plan_cell cells[HOST_NODES_MAX],
		 size_t *ncells, bool say);
/* src/plan/search.c: the best choice; -E2BIG if the search was cut. */
int place_search(struct place *p, struct error *err);

/* A reason; further ones are dropped once PLAN_REASONS_MAX are there. */
void place_reason(struct plan *p, const char *rule, struct bdf device, const char *needed, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* Functions of fn's IOMMU group that belong to another device (bridges do not count); NULL if none. The
 * kernel hands out whole groups (drivers/vfio/vfio_main.c), so such a function cannot be given alone. */
const struct host_function *place_group_stranger(const struct place *p, const struct host_function *fn);
const char *place_owner(const struct place *p, struct bdf bdf); /* NULL: free */
