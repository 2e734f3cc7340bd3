/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/solve — the exact choice of GPUs and NIC ports, on small integers only: no inventory, no memory taken, no
 * BDFs. GPUs, NIC ports and NUMA nodes are numbers in BDF order (nodes: by id), sets of them are bits.
 *
 * struct solve_host is filled once per topology, struct solve_free says what is left of it now, struct solve_want
 * is one request. Callers may solve hundred thousands of times on one host (capacity, gangs, simulations). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "plan/score.h"

#define SOLVE_GPUS_MAX   64
#define SOLVE_NICS_MAX   64
#define SOLVE_NODES_MAX  64
#define SOLVE_CHOSEN_MAX 16 /* GPUs of one bundle */
#define SOLVE_VFS_MAX    64 /* VFs of one bundle */
#define SOLVE_CLASSES    8  /* enum topo_class fits */
#define SOLVE_WIDTHS_MAX 48 /* different bandwidths; what is slower still counts as the last */
#define SOLVE_SHAPES_MAX 8
#define SOLVE_HALL_MAX   15 /* subsets of four models */
#define SOLVE_FEW        8  /* with no more GPUs all sets of them are looked at at once: src/plan/few.c */
#define SOLVE_TABLE_GPUS 16 /* with more GPUs leftovers are not weighed: the tables would be too big */
#define SOLVE_PARTITIONS_MAX 64
#define SOLVE_NO_NODE    0xff
#define SOLVE_NO_SLOT    0xff

/* A size of bundle that is expected to be asked for, and how often. */
struct solve_shape {
	uint32_t size, weight;
};

/* A bit for each set of GPUs, if there are few. */
struct sets {
	uint64_t w[4];
};

/* Made by solve_prepare(), with GPUs as bits of a byte. */
struct solve_few {
	struct sets of_size[SOLVE_FEW + 1], spans[SOLVE_FEW + 1]; /* by the number of their GPUs, and of these' nodes */
	struct sets close[SOLVE_CLASSES]; /* all pairs at this class or nearer */
	uint32_t    lost[1 << SOLVE_FEW], worn[1 << SOLVE_FEW];   /* solve_leftover() of what is free; wear of a bundle */
	uint8_t     near[SOLVE_CLASSES][SOLVE_NICS_MAX], wide[SOLVE_WIDTHS_MAX][SOLVE_NICS_MAX];
	uint8_t     home[SOLVE_NICS_MAX]; /* on the NIC's node; all, where that is not known */
	uint8_t     on_node[SOLVE_NODES_MAX];
	uint8_t     place[SOLVE_FEW]; /* nodes that have devices, of which there are few: GPUs' nodes first */
	uint32_t    nplaces;          /* more than SOLVE_FEW: there are more */
	uint8_t     places[1 << SOLVE_FEW]; /* of a set of GPUs */
	bool        own_places, no_place;   /* each GPU is on the place of its number; one is on none */
	uint64_t    bytes[1 << SOLVE_FEW]; /* a set, by GPU: 1 or 0 in a byte each */
	uint64_t    many[64][SOLVE_FEW + 4]; /* by GPUs of the first six, and a number, and two: sets of six with so many of them */
};

struct solve_host {
	uint32_t ngpus, nnics, nnodes;
	uint8_t  gpu_node[SOLVE_GPUS_MAX], nic_node[SOLVE_NICS_MAX]; /* SOLVE_NO_NODE: none known */
	uint8_t  path[SOLVE_GPUS_MAX][SOLVE_NICS_MAX];         /* enum topo_class; UNKNOWN: never together */
	uint8_t  width[SOLVE_GPUS_MAX][SOLVE_NICS_MAX];        /* rank of the bandwidth, 0 the widest; the last: unknown */
	uint8_t  gpu_path[SOLVE_GPUS_MAX][SOLVE_GPUS_MAX];     /* symmetric */
	uint32_t wear[SOLVE_GPUS_MAX];
	uint64_t no_gpus, no_nics;                /* that nobody can have, now or later: they count for no leftover; nor do ... */
	uint64_t narrow[SOLVE_GPUS_MAX];          /* ... NICs of a GPU over a link that carries less than it should */
	uint64_t partition[SOLVE_PARTITIONS_MAX]; /* the sets of GPUs that NVSwitch can join; none: no table */
	size_t   npartitions;
	struct solve_shape shape[SOLVE_SHAPES_MAX];
	size_t             nshapes;
	/* made by solve_prepare() */
	uint64_t near[SOLVE_CLASSES][SOLVE_GPUS_MAX];    /* NICs of a GPU at this class or nearer */
	uint64_t wide[SOLVE_WIDTHS_MAX][SOLVE_GPUS_MAX]; /* NICs of a GPU at this rank or wider */
	uint64_t ranks;                                  /* of bandwidth that there are */
	uint64_t close[SOLVE_CLASSES][SOLVE_GPUS_MAX];   /* other GPUs of a GPU at this class or nearer */
	uint32_t most_close[SOLVE_CLASSES];              /* GPUs that are close to one, with it */
	uint64_t twins[SOLVE_GPUS_MAX];                  /* later GPUs that differ in nothing but their number */
	uint64_t on_node[SOLVE_NODES_MAX + 1];           /* NICs; the last: those without a node */
	struct solve_few *few;                           /* owned; NULL: there are more GPUs */
	uint8_t *cap[SOLVE_SHAPES_MAX]; /* owned; by set of free GPUs: how many bundles of the shape; NULL: not weighed */
};

/* Everything but the made part is set; sorts the partitions. -ENOMEM. */
int  solve_prepare(struct solve_host *h);
void solve_host_done(struct solve_host *h);
/* Whether what was made of one that was prepared is the other's as well; sorts that one's partitions. */
bool solve_host_same(const struct solve_host *prepared, struct solve_host *h);

struct solve_free {
	uint64_t gpus;
	uint16_t vfs[SOLVE_NICS_MAX];  /* that can still be given */
	uint16_t load[SOLVE_NICS_MAX]; /* that others have */
};

/* A resource of NUMA nodes, split over the cells of a guest: of n cells each gets all / n, and the first all % n
 * that can get one more. */
struct solve_split {
	uint64_t all;
	uint64_t base[SOLVE_NODES_MAX + 1]; /* nodes that have all / n, by n */
	uint64_t more[SOLVE_NODES_MAX + 1]; /* nodes that have all / n + 1 */
};
void solve_split_make(struct solve_split *ret, uint64_t all, const uint64_t *room, uint32_t nnodes);

/* What cannot be in a bundle without another: who would leak to whom. By bits; 0: nothing is needed. */
struct solve_ties {
	uint64_t gpu_gpus[SOLVE_GPUS_MAX], gpu_nics[SOLVE_GPUS_MAX]; /* a GPU needs these GPUs, and a VF of each of these NICs */
	uint64_t nic_gpus[SOLVE_NICS_MAX], nic_nics[SOLVE_NICS_MAX]; /* a VF of a NIC does */
};

struct solve_want {
	uint32_t gpus;        /* how many */
	uint64_t allowed;     /* of these; and ... */
	uint64_t required;    /* ... with these */
	uint64_t without;     /* not exactly this set (for the next best); 0: any */
	uint64_t hall[SOLVE_HALL_MAX];      /* at least hall_need of them must be in: models */
	uint32_t hall_need[SOLVE_HALL_MAX];
	uint32_t nhall;
	bool     partitioned; /* only sets in partition */
	uint32_t vfs_per_gpu, vfs; /* one of the two is 0; vfs: each GPU shares one that is near */
	uint64_t nics;        /* only these */
	uint64_t own[SOLVE_GPUS_MAX]; /* by GPU: only these (rails, bandwidth asked for) */
	uint16_t need[SOLVE_NICS_MAX]; /* VFs that must come from this NIC */
	uint64_t needed;      /* the NICs of which need is not 0 */
	const struct solve_ties *ties; /* borrowed; NULL: none */
	uint32_t max_path, max_gpu_path; /* enum topo_class */
	uint32_t per_nic;     /* most VFs of the bundle on one NIC; 0: any */
	bool     any_nodes;   /* memory and CPUs do not matter */
	uint32_t cells;       /* as many nodes, others join the devices'; 0: the devices' nodes */
	uint64_t nodes;       /* cells only there */
	struct solve_split memory, cpus;
	const uint8_t *node_order; /* borrowed; [nnodes * nnodes]: for each node all nodes, nearest first; NULL: by number */
};

struct solve_answer {
	uint64_t     gpus, nodes; /* nodes: the guest's cells */
	uint32_t     nvfs;
	uint8_t      vf_nic[SOLVE_VFS_MAX];
	uint8_t      vf_slot[SOLVE_VFS_MAX]; /* position of its GPU in gpus; SOLVE_NO_SLOT: there are no GPUs */
	struct score score;
};

/* The best bundle; false: there is none. Of equals the one whose GPUs come first. */
bool solve(struct solve_answer *ret, const struct solve_host *h, const struct solve_free *f, const struct solve_want *w);
/* Takes a bundle from what is free, or gives it back. */
void solve_take(struct solve_free *f, const struct solve_answer *a);
void solve_give(struct solve_free *f, const struct solve_answer *a);
/* Sum over the shapes: weight x GPUs of `free` that end up in no bundle of that size, at its best class. */
uint32_t solve_leftover(const struct solve_host *h, uint64_t free);
/* The cells' nodes: those of the devices, and more where the request has more; 0: they do not fit. */
uint64_t solve_nodes(const struct solve_host *h, const struct solve_want *w, uint64_t touched);
