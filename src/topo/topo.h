/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo — an immutable picture of one host's PCIe and NUMA layout, built from one inventory. */

#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/bdf.h"

struct error;
struct host_function;
struct inventory;
struct topo; /* opaque: nobody outside topo/ can change one */

#define TOPO_NONE UINT32_MAX

/* The vocabulary of `nvidia-smi topo -m`, nearest first. */
enum topo_class {
	TOPO_SELF,    /* X: the same function */
	TOPO_PIX,     /* at most one switch (or one bridge) between the two */
	TOPO_PXB,     /* several switches, no root complex */
	TOPO_PHB,     /* through one PCIe host bridge */
	TOPO_NODE,    /* between host bridges of one NUMA node */
	TOPO_SYS,     /* between NUMA nodes */
	TOPO_UNKNOWN, /* a NUMA node is not known; counts as farther than SYS */
	TOPO_CLASS_MAX_,
};

const char *topo_class_text(enum topo_class c); /* "X" "PIX" ... "?" */
int         topo_class_parse(const char *text); /* PIX..SYS; -1 if it is none */

struct topo_node {
	const struct host_function *fn; /* borrowed from the topology's inventory */
	uint32_t parent;                /* index of the bridge above, TOPO_NONE on a root bus */
	uint32_t usp;                   /* index of the nearest switch's top above (its upstream port); TOPO_NONE */
	uint32_t depth;                 /* bridges above */
	uint32_t first_child, next_sibling; /* TOPO_NONE; siblings in BDF order */
	int32_t  rail;                  /* of a GPU and of the NIC ports that pair with it; -1 none */
	uint32_t group_first, group_next; /* of its IOMMU group, in BDF order, itself among them; TOPO_NONE at the end, and where it is in none */
};

/* Takes inv over on success. */
int topo_build(struct topo **ret, struct inventory *inv, uint64_t generation, struct error *err);
/* The same, with old's generation. old: the topology that inv was read upon, whose graph is taken if nothing but memory was read anew. */
int topo_build_upon(struct topo **ret, const struct topo *old, struct inventory *inv, struct error *err);
/* Before anybody else has a reference: the number it is known by. */
void         topo_number(struct topo *t, uint64_t generation);
struct topo *topo_ref(struct topo *t);
struct topo *topo_unref(struct topo *t); /* NULL is fine; returns NULL; thread-safe */
AUTO_DEFINE(struct topo *, topo_unref);

uint64_t                topo_generation(const struct topo *t);
const struct inventory *topo_inventory(const struct topo *t);
size_t                  topo_count(const struct topo *t);
const struct topo_node *topo_at(const struct topo *t, uint32_t i); /* in BDF order */
uint32_t                topo_find(const struct topo *t, struct bdf bdf); /* TOPO_NONE if there is none */
enum topo_class         topo_path(const struct topo *t, uint32_t a, uint32_t b); /* topo/path.h has the whole way */

struct json_object;
/* {"generation", "nodes": [...], "gpus": [...], "matrix": {...}, "findings": [...]}; NULL: no memory. docs/openapi.json
 * has it whole. */
struct json_object *topo_json(const struct topo *t);
/* Kernel, CPUs, NUMA nodes, memory, IOMMU, findings and the cost of reading them; NULL: no memory. */
struct json_object *topo_host_json(const struct topo *t);
