/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/partition — which sets of GPUs may be one guest's where Fabric Manager shares NVSwitches out. Pure.
 *
 * The sets are Fabric Manager's own list, or where it cannot be asked the table of the board in velad.conf. GPUs stand
 * in both by NVML's module id (Fabric Manager's physicalId), which is no PCI order; one whose module id nobody says is
 * not given. A set that is no partition gets no NVLink, and CUDA fails in such a guest (error 802). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bdf.h"

struct conf;
struct error;
struct plan;
struct topo;

#define PLAN_BOARDS_MAX     16
#define PLAN_BOARD_GPUS     16  /* models of GPUs that one kind of board has */
#define PLAN_PARTITIONS_MAX 64
#define PLAN_MODULES_MAX    64

struct plan_board {
	struct { uint16_t vendor, device; } gpu[PLAN_BOARD_GPUS];
	size_t   ngpus;
	uint64_t set[PLAN_PARTITIONS_MAX]; /* bit m: the GPU with module id m */
	size_t   nsets;
};

/* [partitions] of velad.conf */
struct plan_boards {
	struct plan_board board[PLAN_BOARDS_MAX];
	size_t            n;
	struct { struct bdf gpu; uint8_t module; } module[PLAN_MODULES_MAX]; /* where Fabric Manager does not say */
	size_t            nmodules;
	int               shared; /* 1 yes, -1 no; 0: as this host's Fabric Manager says */
};

/* -EINVAL names the line. */
int plan_boards_load(struct plan_boards *ret, const struct conf *conf, struct error *err);

enum plan_fabric {
	PLAN_FABRIC_NONE,   /* no NVSwitches, or not shared out: any set */
	PLAN_FABRIC_WHOLE,  /* FABRIC_MODE 0: only a guest with all GPUs of it, and the NVSwitches, has NVLink */
	PLAN_FABRIC_SHARED, /* the partitions below */
};

struct plan_partition {
	int      id;      /* Fabric Manager's; -1: from the table of the board */
	uint64_t modules; /* bit m: module id m */
	uint64_t gpus;    /* bit i: gpu[i]; as far as they are known */
	bool     whole;   /* all its modules are among gpu[] */
	bool     active;  /* in Fabric Manager, now */
	int      blocked; /* by this one, which is active and has a GPU in common: index; -1 by none */
};

struct plan_partitions {
	enum plan_fabric      mode;
	uint64_t              fabric;  /* GPUs whose sets must be partitions */
	uint64_t              unknown; /* of these, without a module id, or with two */
	const char           *why;     /* SHARED without partitions: why there are none; else NULL */
	uint32_t              gpu[64]; /* as given, by bit */
	size_t                ngpus;
	struct plan_partition at[PLAN_PARTITIONS_MAX];
	size_t                n;
	uint64_t              allowed[PLAN_PARTITIONS_MAX]; /* sets that can be given, none twice, ascending by size, then value */
	size_t                nallowed;
};

/* gpu: topology indexes of the GPUs that bits number, 64 at most; boards NULL: no table. gone: of these, those whose partitions
 * count as deactivated. */
void plan_partitions_find(struct plan_partitions *ret, const struct topo *t, const struct plan_boards *boards,
			  const uint32_t *gpu, size_t ngpus, uint64_t gone);
/* Reasons why no set of `want` GPUs out of `free` can be given; none if there is one. */
void plan_partitions_say(const struct plan_partitions *p, const struct topo *t, struct plan *plan, uint64_t free, unsigned want);
/* The partition that this set is; NULL: none, or no partition is needed. */
const struct plan_partition *plan_partition_of(const struct plan_partitions *p, uint64_t set);
