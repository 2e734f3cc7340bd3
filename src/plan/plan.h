/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan — which GPUs and VFs one guest gets, and the ordered steps that make it so. Pure: the same
 * topology, taken list, policy and request give the same plan, byte for byte. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/bdf.h"
#include "plan/partition.h"
#include "plan/request.h"
#include "plan/solve.h"
#include "plan/vf.h"
#include "topo/topo.h"

struct conf;
struct error;
struct json_object;
struct inventory;
struct plan_acs_held;
struct plan_settings_held;

/* The namespace of the metadata element that marks a libvirt domain as velad's: guest/ writes it, act/
 * looks for it before it touches a domain. */
#define PLAN_DOMAIN_MARK "urn:velad:domain:1"

struct plan_taken {
	struct bdf  bdf;
	const char *owner; /* "instance train-7" */
};

/* A cell of a guest that is there, or is promised: also guests without devices have one. */
struct plan_room {
	int         node;
	uint64_t    memory;    /* bytes */
	uint64_t    hugepages; /* size of its pages; 0: plain memory */
	const struct cpuset *cpus; /* that its vCPUs are pinned to; NULL: all of the node */
	const char *owner;     /* "instance train-7" */
	bool        exclusive; /* the owner has the whole host */
	bool        backed;    /* it has its memory: what the node has free is without it */
};

/* A device that must not be given until somebody has looked at it. */
struct plan_sick {
	struct bdf  bdf;
	const char *reason; /* "its reset failed" */
};

/* How often a device was given out. */
struct plan_wear {
	struct bdf bdf;
	uint64_t   times;
};

#define PLAN_SHAPE_TEXT 128
#define PLAN_NAMED_MAX 32
#define PLAN_WORD_MAX  24 /* of a name, with its end */

/* A name for models of GPUs. */
struct plan_named_model {
	char   name[PLAN_WORD_MAX];
	struct { uint16_t vendor, device; } id[16];
	size_t n;
};

struct plan_policy {
	uint16_t vfs_per_pf; /* how many VFs a PF without any is given, at most its total; 0: guests make none */
	uint64_t memory_reserve; /* bytes per NUMA node that are left to the host */
	unsigned host_cores;     /* of each NUMA node, the first ones */
	bool     cpus_shared;    /* guests may have the same cores; else each has its own */
	unsigned link_percent;   /* a GPU or NIC whose link carries less of what it could is not given */
	struct solve_shape shape[SOLVE_SHAPES_MAX]; /* sizes of bundles that later guests will want */
	size_t   nshapes;
	char     shape_more[SOLVE_SHAPES_MAX][PLAN_SHAPE_TEXT]; /* what else a guest of the shape asks for: "vcpus=16,gdr=required" */
	struct plan_boards boards;
	bool     scrub;          /* [release] scrub is configured */
	struct plan_named_model named_model[PLAN_NAMED_MAX];
	size_t   nnamed_models;
};

enum plan_boundless {
	PLAN_BOUNDLESS_CPUS = 1,
	PLAN_BOUNDLESS_MEMORY = 2,
	PLAN_BOUNDLESS_PARTITIONS = 4, /* any set of GPUs is one */
};

struct plan_input {
	const struct topo         *topo;
	const struct plan_request *request;
	const struct plan_taken   *taken; /* devices that other instances have */
	size_t                     ntaken;
	const struct plan_room    *room; /* CPUs and memory that they have */
	size_t                     nrooms;
	const struct plan_sick    *sick;
	size_t                     nsick;
	const struct plan_wear    *wear; /* of GPUs; those that are not named: never */
	size_t                     nwear;
	const struct plan_acs_held *held; /* ports whose ACS control other instances have changed */
	size_t                     nheld;
	const struct plan_settings_held *settings; /* what else of functions and ports other instances hold */
	size_t                     nsettings;
	uint64_t                   patience; /* steps of a gang's search, then it is not decided; 0: as many as usual */
	bool                       vacant; /* as if no guest had any memory, and no partition were active: all that there is */
	unsigned                   boundless; /* bits of enum plan_boundless: as if there were no end of it */
	/* of what might be (plan/nearest): */
	bool                       bare;       /* nothing is told but whether it fits, and with what */
	const struct bdf          *freed;      /* as if it, with what goes along, were nobody's and not quarantined; NULL: nothing */
	const char                *freed_owner; /* as if this one had nothing; NULL: nobody */
	const struct bdf          *other_than; /* not exactly these GPUs */
	size_t                     nother_than;
	struct plan_policy         policy;
	struct plan_memo          *memo; /* of whoever plans again and again, of one thread; NULL: none */
};

struct plan_memo *plan_memo_new(void); /* NULL: no memory, and plans are made without */
struct plan_memo *plan_memo_free(struct plan_memo *m);

struct plan_vf {
	struct bdf      bdf, pf;
	uint16_t        index;  /* of the VF on its PF */
	struct bdf      gpu;    /* the GPU it serves; BDF_NONE without GPUs */
	enum topo_class path;   /* GPU to VF */
	bool            exists; /* false: made by a vf-count step */
	struct plan_vf_settings set; /* what was asked for, and its address; all else is as by default */
};

/* Another function of the same device that must go with it (GPU audio), because they share a group. */
struct plan_companion {
	struct bdf bdf, of;
};

/* A drive that was asked for, or an NVSwitch that goes along with all GPUs. */
struct plan_extra {
	struct bdf bdf;
	int        numa_node; /* -1 unknown */
	bool       nvswitch;
};

#define PLAN_EXTRAS_MAX 32

struct plan_cell { /* one guest NUMA cell */
	int      host_node;
	uint64_t memory; /* bytes */
	uint32_t vcpus;
	const struct cpuset *cpus; /* whole cores, its own unless they are shared; NULL: all of the node */
};

/* A node without memory or CPUs, whose devices are in another one's cell. */
struct plan_moved {
	int node, home;
};

#define PLAN_MOVED_MAX SOLVE_NODES_MAX

enum plan_step_kind {
	PLAN_STEP_DISK,     /* "disk":     a disk of the guest, absent -> "IMAGE SIZE"; "IMAGE": as large as that; "SIZE": empty; target NAME.disk, NAME.dataN */
	PLAN_STEP_SEED,     /* "seed":     what cloud-init reads, absent -> written; target NAME.seed */
	PLAN_STEP_IMAGE,    /* "image":    of no plan: an image, absent -> "FORMAT SHA256 FILE"; target its name */
	PLAN_STEP_VFIO,     /* "vfio":     module vfio-pci, absent -> loaded; target "vfio-pci" */
	PLAN_STEP_AUTOPROBE, /* "autoprobe": whether the host's drivers take VFs of a PF, "(unread)" -> "0"; target the PF */
	PLAN_STEP_VF_COUNT, /* "vf-count": VFs of a PF, n -> m; target the PF */
	PLAN_STEP_BIND,     /* "bind":     driver of a function, x -> vfio-pci; target the function */
	PLAN_STEP_LEND,     /* "lend":     a function is given to a guest, and verified when it comes back, "clean" -> "lent" */
	PLAN_STEP_SCRUB,    /* "scrub":    the operator's program when it comes back, "scrubbed" -> "used" */
	PLAN_STEP_RESET,    /* "reset":    its reset when it comes back, "reset" -> "used" */
	PLAN_STEP_VF,       /* "vf":       settings of a VF, "(unread)" -> "mac=... vlan=100"; target the VF */
	PLAN_STEP_POWER,    /* "power":    what may sleep by itself, "auto,1" -> "on,0"; target the port or function */
	PLAN_STEP_DEVCTL,   /* "devctl":   device control of a function, "0x2810" -> "0x5810"; target the function */
	PLAN_STEP_DEVCTL2,  /* "devctl2":  its second word, "0x0000" -> "0x1000" */
	PLAN_STEP_ACS,      /* "acs":      ACS control of a port, "0x1d" -> "0x5d"; target the port */
	PLAN_STEP_PARTITION, /* "partition": of NVSwitches, inactive -> active; target Fabric Manager's number of it */
	PLAN_STEP_DOMAIN,   /* "domain":   libvirt domain, absent -> running; target its name */
	PLAN_STEP_MAX_,
};

const char *plan_step_text(enum plan_step_kind k);
int         plan_step_parse(const char *text); /* -1 if it is none */
bool        plan_step_of_function(enum plan_step_kind k); /* its target is a BDF */

struct plan_step {
	enum plan_step_kind kind;
	struct bdf          bdf;    /* BDF_NONE for disk, seed, vfio, partition and domain */
	const char         *target; /* text of bdf, or the name */
	const char         *from, *to; /* "(none)" for no driver */
};

struct plan_reason {
	const char *rule;     /* "iommu.off", "gpu.taken": stable */
	const char *device;   /* a BDF, or "" */
	const char *observed; /* what is there */
	const char *needed;   /* what would fit */
};

#define PLAN_REASONS_MAX 64

/* What a bundle is worth (plan/score.h), in words' units. */
struct plan_score {
	bool         known;     /* false: there is no such bundle */
	struct score score;
	uint64_t     bandwidth; /* bytes per second of the narrowest GPU-NIC way; 0 unknown, or no VFs */
	struct bdf   gpu[PLAN_GPUS_MAX];
	size_t       ngpus;
};

struct plan {
	struct arena           arena;
	uint64_t               generation;
	bool                   fits; /* false: reasons say why; nothing below is set */
	struct plan_reason     reason[PLAN_REASONS_MAX];
	size_t                 nreasons;
	struct plan_reason    *note; /* it fits, but this is not as it was preferred */
	size_t                 nnotes;
	bool                   exclusive; /* nobody else may be on the host */
	struct bdf             gpu[PLAN_GPUS_MAX];      /* ascending */
	int                    gpu_node[PLAN_GPUS_MAX]; /* NUMA node of each; -1 unknown */
	size_t                 ngpus;
	struct plan_vf         vf[PLAN_VFS_MAX];
	size_t                 nvfs;
	struct plan_companion *companion;
	size_t                 ncompanions;
	struct plan_extra      extra[PLAN_EXTRAS_MAX]; /* ascending */
	size_t                 nextras;
	bool                   partitioned; /* the GPUs are a partition of this host's Fabric Manager, with this number */
	unsigned               partition;
	uint64_t               hugepages; /* page size of the cells' memory, bytes; 0: plain memory */
	struct plan_cell      *cell; /* by host node, ascending */
	size_t                 ncells;
	struct plan_moved      moved[PLAN_MOVED_MAX];
	size_t                 nmoved;
	unsigned               host_cores; /* of each node, the first ones: not for guests */
	bool                   root_ports; /* the guest has no switches */
	struct plan_step      *step;
	size_t                 nsteps;
	enum topo_class        worst_path; /* worst GPU-VF class; SELF without VFs */
	enum topo_class        gpu_path;   /* worst GPU-GPU class; SELF below two GPUs */
	struct plan_score      chosen, next; /* next: the best of other GPUs */
	char                  *domain_xml; /* set by the caller from guest/, in the arena; NULL without */
	char                  *meta_data, *vendor_data; /* of the seed; the same, and NULL without one */
	struct json_object    *rank_map; /* owned; of an instance, guest/ makes it; else NULL */
	char                  *nccl_xml;   /* NCCL's topology file; the same, and NULL without GPUs */
};

/* A guest of a shape as it would be asked for; unless it says otherwise, each GPU has a vCPU and a VF (where the host has NICs) at
 * PIX, however routes are. -EINVAL names the key. */
int plan_shape_request(struct plan_request *ret, const struct plan_policy *policy, size_t shape, bool nics, struct error *err);
/* [plan] and [partitions]. -EINVAL names the key. */
int plan_policy_load(struct plan_policy *ret, const struct conf *conf, struct error *err);
/* src/plan/shape.c: plan_request_read() of a request that may name a shape of velad.conf, and then has its keys. */
int plan_request_read_shaped(struct plan_request *ret, struct json_object *obj, const struct conf *conf, struct error *err);
int plan_shapes_check(const struct conf *conf, struct error *err); /* [shapes]: -EINVAL names the line */
/* src/plan/policy.c: whether a GPU is of the model, by number or by name. */
bool plan_model_is(const struct plan_policy *p, const struct plan_model *m, uint16_t vendor, uint16_t device);
bool plan_model_known(const struct plan_policy *p, const struct plan_model *m);
/* -errno only for no memory; "it does not fit" is plan->fits == false with reasons. */
int plan_make(struct plan **ret, const struct plan_input *in, struct error *err);
/* What its cells take, for the plans after it: plan->ncells rooms, which borrow from the plan. How many. */
size_t plan_rooms(struct plan_room *ret, const struct plan *p, const char *owner);
struct plan *plan_free(struct plan *p);
AUTO_DEFINE(struct plan *, plan_free);

/* The devices of its bundle, added to an array that has room for them. owner is borrowed. */
void plan_take(struct plan_taken *taken, size_t *n, const struct plan *p, const char *owner);

/* "fits", "generation", "reasons", "notes", "bundle", "explain", "steps", "domain_xml", "nccl_topology", with a seed "seed"; NULL: no memory. */
struct json_object *plan_json(const struct plan *p);
const char *plan_iommu_fix(const struct inventory *inv); /* where an IOMMU comes from on such a host */
struct json_out;
void plan_step_append(struct json_out *o, struct json_object *array, const struct plan_step *step);
/* One sentence per reason, for problem documents and people; NULL: no memory. */
struct json_object *plan_reasons_json(const struct plan_reason *reason, size_t n);
