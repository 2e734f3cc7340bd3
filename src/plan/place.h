/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/place — what the search for a bundle works on (room-private). */

#include "host/inventory.h"
#include "plan/acs.h"
#include "plan/partition.h"
#include "plan/plan.h"
#include "plan/solve.h"

#define PLACE_GPUS_MAX SOLVE_GPUS_MAX
#define PLACE_NICS_MAX SOLVE_NICS_MAX
#define PLACE_REASONS_MAX (PLAN_REASONS_MAX - 20) /* of what was left out or leaks: the rest says what is nearest */

struct place_gpu {
	uint32_t        node;    /* in the topology */
	enum topo_class nearest; /* best class to any VF that is free; UNKNOWN if there is none */
	const struct plan_acs_pair *barred; /* with its nearest NIC that will not do, for gdr; NULL: there is none */
	const char     *owner;   /* who has it, and nothing else stands against it; NULL: nobody */
	const struct plan_sick *sick; /* the same: what of it is quarantined */
};

/* One NIC port and the VFs it can still give: those that are required, then lowest index first. */
struct place_nic {
	uint32_t   node;
	bool       exists; /* its VFs are there; else a vf-count step makes them */
	uint16_t   make;   /* VFs to be made when they are not there */
	uint16_t   nvfs, taken, required;
	uint16_t   aside;  /* VFs that it could give if it were not quarantined; nvfs is 0 then */
	const struct plan_sick *sick;
	struct bdf vf[PLAN_VFS_MAX];
	uint16_t   index[PLAN_VFS_MAX];
};

struct place_drive {
	uint32_t node;
	bool     required, barred; /* barred: it would leak */
};

#define PLACE_DRIVES_MAX 64 /* further ones are not looked at */

/* What was chosen. */
struct place_choice {
	uint32_t        ngpus;
	uint8_t         gpu[PLAN_GPUS_MAX]; /* into place.gpu, ascending */
	uint32_t        nvfs;
	uint8_t         vf_gpu[PLAN_VFS_MAX]; /* into gpu[] of this choice; 0xff: no GPU */
	uint8_t         vf_nic[PLAN_VFS_MAX]; /* into place.nic */
	uint64_t        nodes;                /* the cells': bits into place.node */
	enum topo_class worst_path, gpu_path;
};

struct place {
	const struct plan_input *in;
	struct plan             *plan;
	struct place_gpu         gpu[PLACE_GPUS_MAX]; /* all GPUs of the host */
	uint32_t                 ngpus;
	struct place_nic         nic[PLACE_NICS_MAX];
	uint32_t                 nnics;
	struct place_drive       drive[PLACE_DRIVES_MAX]; /* that can be given, if any are wanted */
	uint32_t                 ndrives;
	uint8_t                  path[PLACE_GPUS_MAX][PLACE_NICS_MAX];      /* enum topo_class */
	uint64_t                 bandwidth[SOLVE_WIDTHS_MAX];               /* by rank; 0: unknown */
	int                      node[SOLVE_NODES_MAX];                     /* ids */
	uint8_t                  node_order[SOLVE_NODES_MAX * SOLVE_NODES_MAX];
	uint8_t                  home[SOLVE_NODES_MAX];                     /* by node: where the cell of what is there is */
	bool                     off;        /* no IOMMU: nothing was looked at, and the plan has the reason */
	uint32_t                 gpus;       /* how many are wanted */
	uint64_t                 usable;     /* GPUs that some request could have */
	uint64_t                 allowed;    /* of these, those that this one can have */
	uint64_t                 mine;       /* that the request would have, if they were usable */
	uint64_t                 required;   /* GPUs */
	size_t                   nrequired;  /* devices that the request names and that can be had */
	struct plan_partitions   partitions;
	struct solve_host       *host;       /* memo_done() */
	struct plan_memo        *memo;       /* the input's */
	bool                     lent;       /* host, by it */
	struct solve_free        free;
	struct solve_want        want;
	struct solve_answer      answer;
	struct place_choice      best;
	bool                     refused, learnt; /* the bundle, by its routes; and they told what else cannot be */
	struct solve_ties        ties;            /* what they told */
	uint64_t                 barred[PLACE_GPUS_MAX]; /* the same: NICs that are no pair for a GPU */
	uint16_t                *acs_base; /* plan_acs_base(); in the plan's arena */
	struct plan_acs         *candidates; /* owned: GPUs with NICs, if gdr is required */
	struct plan_acs         *acs;        /* owned: the bundle's; NULL: no pairs, or gdr is off */
	struct plan_settings_step *settings; /* the bundle's; in the plan's arena */
	size_t                   nsettings;
};

/* src/plan/plan.c: a request looked at, up to what can be solved; plan takes the reasons and outlives it. */
int place_open(struct place **ret, struct plan *plan, const struct plan_input *in, struct error *err);
struct place *place_close(struct place *p); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct place *, place_close);

/* src/plan/candidates.c: fills gpu, nic and what is free; reasons say who was left out and why. */
int place_candidates(struct place *p, struct error *err);
/* The rules that all devices share, and whether somebody has it. False: a reason was given. */
bool place_usable(struct place *p, const struct host_function *fn);
/* The link right above it carries too little of what both of its ends can do: a reason was given. */
bool place_degraded(struct place *p, const struct host_function *fn, uint32_t at);
bool place_is_infiniband(const struct inventory *inv, struct bdf pf); /* false also where nothing says so */
/* src/plan/extras.c: drives that can be given, if any are wanted; then those of the bundle, and NVSwitches. */
void     place_drives(struct place *p);
uint32_t place_drives_left(const struct place *p);
bool     place_bar_drive(struct place *p, uint32_t node); /* false: it is no drive, or was barred before */
void     place_take_extras(struct place *p); /* refused, where an NVSwitch cannot go along */
/* src/plan/prepare.c: what the solver knows of the host; then of the request. */
uint32_t place_gpus_wanted(const struct place *p);
int  place_prepare(struct place *p, struct error *err);
void place_ask(struct place *p);
/* Of what both ends of the link above can do; 100 if that is not known. A GPU's link may be slow because the GPU is idle
 * (topo/link.c): of that only the width counts. */
unsigned place_link_percent(const struct topo *t, uint32_t at);
/* The limits that are wishes where the policy is loose: want is without them from now on. */
void place_lift(struct place *p);
/* Solves; best is the answer. Where limits are wishes, without them if need be. */
bool place_solve(struct place *p);
/* Whether there is any use in solving, with so many more of the required devices. */
bool place_can(const struct place *p, size_t more);
/* src/plan/gdr.c: pairs that cannot be direct get the path UNKNOWN, where direct is required. */
int place_gdr(struct place *p, struct error *err);
void place_barred(struct place *p, const struct plan_acs_pair *pair); /* gives the reason */
void place_barred_required(struct place *p); /* the same, of required GPUs with required VFs */
/* src/plan/gdr.c: acs and notes of the bundle; refused with reasons where it must not be given. */
int place_routes(struct place *p, struct error *err);
/* src/plan/ties.c: what a refusal tells of other bundles. `mine` of the bundle cannot be in one without `other`; known: the
 * ties before this bundle. A GPU has no route to a NIC. */
void place_tie(struct place *p, const struct solve_ties *known, uint32_t mine, uint32_t other);
void place_bar(struct place *p, uint32_t gpu, uint32_t nic);
/* src/plan/place_settings.c: settings and further notes of the bundle, unless gdr is off. -ENOMEM. */
int place_settings(struct place *p);
/* src/plan/home.c: nodes without memory or CPUs; once the nodes are known. */
void     place_homes(struct place *p);
void     place_home_cpus(const struct place *p, uint32_t i, struct cpuset *ret); /* its own, and those of nodes without memory that it is home of */
uint32_t place_node_index(const struct place *p, int id); /* host.nnodes: there is none */
bool     place_home_say(struct place *p, struct plan_reason *ret, uint32_t from, struct bdf device); /* false: it is its own home */
/* src/plan/cells.c: memory and CPUs of the nodes, for the solver. */
void place_rooms(struct place *p);
/* The guest's cells on these nodes; in the plan's arena. -ENOMEM. */
int  place_cells(struct place *p, uint64_t nodes);
/* Bytes: what a node has for pages of the request's size; what a guest on these nodes has there. */
uint64_t place_node_memory(const struct place *p, int node);
uint64_t place_cell_memory(const struct place *p, uint64_t nodes, int node);
/* CPUs that a node has for guests; and what a guest on these nodes has there, at least: in whole cores, unless they are shared. */
unsigned place_node_cpus(const struct place *p, int node);
unsigned place_cell_cpus(const struct place *p, uint64_t nodes, int node);
/* Reasons why cells on these nodes do not fit. */
void place_cells_say(struct place *p, uint64_t nodes);
/* src/plan/nearest.c: what is nearest to a bundle; each is planned before it is said. */
void place_nearest(struct place *p);
/* The plan of another request, or of a host where something is free; NULL: it does not fit, or there is no memory. */
struct plan *place_would(const struct plan_input *in);
bool place_gone(const struct place *p, const char *owner); /* as if it had nothing */
/* src/plan/why.c: reasons why there is no bundle, or why it is not the one that was hoped for. */
bool place_counts_short(struct place *p);
void place_why_not(struct place *p);
void place_why_this(struct place *p);
void place_losses(struct place *p); /* notes */

/* A reason; further ones are dropped once PLAN_REASONS_MAX are there. */
void place_reason(struct plan *p, const char *rule, struct bdf device, const char *needed, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* Functions of fn's IOMMU group that belong to another device (bridges do not count); NULL if none. The
 * kernel hands out whole groups (drivers/vfio/vfio_main.c), so such a function cannot be given alone. */
const struct host_function *plan_group_stranger(const struct topo *t, const struct host_function *fn);
const char *place_owner(const struct place *p, struct bdf bdf); /* NULL: free */
