/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A small host and a plan on it, made in memory, for the tests of src/guest. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "guest/guest.h"
#include "host/inventory.h"
#include "plan/plan.h"
#include "topo/topo.h"

struct fx_function {
	const char    *bdf, *parent; /* parent NULL: on a root bus */
	enum host_kind kind;
	int            node;
	uint64_t       bar; /* size of its 64-bit BAR */
	const char    *pf;  /* of a VF */
};

struct fx {
	struct topo        *topo;
	struct plan        *plan;
	struct plan_request request;
	struct guest_env    env;
};

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static inline struct bdf fx_bdf(const char *text)
{
	struct bdf b = BDF_NONE;

	if (text)
		assert_true(bdf_parse(&b, text));
	return b;
}

static inline int fx_by_bdf(const void *a, const void *b)
{
	return bdf_cmp(((const struct host_function *)a)->bdf, ((const struct host_function *)b)->bdf);
}

static inline void fx_nodes(struct inventory *inv)
{
	static const char *const cpus[] = { "0-3,8-11", "4-7,12-15" };

	inv->nnodes = 2;
	inv->node = arena_array(&inv->arena, 2, sizeof(*inv->node));
	for (int i = 0; i < 2; i++) {
		inv->node[i].id = i;
		assert_int_equal(cpuset_parse(&inv->node[i].cpus, cpus[i]), 0);
		inv->node[i].distance[i] = 10;
		inv->node[i].distance[!i] = 21;
	}
}

static inline void fx_init(struct fx *f, const struct fx_function *fn, size_t n)
{
	struct inventory *inv = calloc(1, sizeof(*inv));
	struct error err = ERROR_INIT;

	*f = (struct fx){ 0 };
	inv->refs = 1;
	inv->cpu_vendor = "";
	inv->fn = arena_array(&inv->arena, n, sizeof(*inv->fn));
	inv->nfn = n;
	for (size_t i = 0; i < n; i++) {
		struct host_facts *facts = arena_alloc(&inv->arena, sizeof(*facts));

		*facts = (struct host_facts){
			.parent = fx_bdf(fn[i].parent), .root_bus = "pci0000:00", .dir = "", .kind = fn[i].kind,
			.numa_node = fn[i].node, .driver_override = "", .reset_methods = "", .pf = fx_bdf(fn[i].pf),
			.is_vf = fn[i].pf != NULL, .bar[0] = { .size = fn[i].bar, .flags = 0x14220c }, /* as H100's */
		};
		inv->fn[i] = (struct host_function){ .bdf = fx_bdf(fn[i].bdf), .facts = facts, .iommu_group = (int)i };
	}
	qsort(inv->fn, n, sizeof(*inv->fn), fx_by_bdf);
	fx_nodes(inv);
	assert_int_equal(topo_build(&f->topo, inv, 1, &err), 0);
	f->plan = calloc(1, sizeof(*f->plan));
	f->plan->fits = true;
	f->plan->companion = arena_array(&f->plan->arena, 128, sizeof(*f->plan->companion));
	f->plan->cell = arena_array(&f->plan->arena, 8, sizeof(*f->plan->cell));
	f->request = (struct plan_request){ .vcpus = 1, .memory = 512 * MIB, .numa_node = -1 };
	f->request.name = f->request.kernel = f->request.initrd = arena_strdup(&f->plan->arena, "");
	f->request.cmdline = f->request.disk = f->request.name;
	f->env = (struct guest_env){
		.name = "train-1", .uuid = "5c2f5f0e-7a0e-4a52-9d5e-0a4c5b6d7e8f", .type = "test",
		.console = "/var/log/velad/train-1.log",
	};
}

static inline void fx_done(struct fx *f)
{
	topo_unref(f->topo);
	plan_free(f->plan);
}

static inline void fx_gpu(struct fx *f, const char *bdf)
{
	f->plan->gpu[f->plan->ngpus++] = fx_bdf(bdf);
}

static inline void fx_vf(struct fx *f, const char *bdf, const char *pf)
{
	f->plan->vf[f->plan->nvfs++] = (struct plan_vf){ .bdf = fx_bdf(bdf), .pf = fx_bdf(pf), .gpu = BDF_NONE };
}

static inline void fx_companion(struct fx *f, const char *bdf, const char *of)
{
	f->plan->companion[f->plan->ncompanions++] = (struct plan_companion){ .bdf = fx_bdf(bdf), .of = fx_bdf(of) };
}

static inline void fx_cell(struct fx *f, int node, uint64_t memory, uint32_t vcpus)
{
	f->plan->cell[f->plan->ncells++] = (struct plan_cell){ .host_node = node, .memory = memory, .vcpus = vcpus };
}

/* Two sockets. Node 0: one switch with two GPUs (the first with an audio function) and a NIC; a GPU and a
 * NIC without a switch. Node 1: two switches, each with a GPU and a NIC. 0000:00:1f.0 has no node. */
static const struct fx_function fx_host[] = {
	{ "0000:00:1f.0", NULL, HOST_GPU, -1, 0, NULL },
	{ "0000:10:01.0", NULL, HOST_ROOT_PORT, 0, 0, NULL },
	{ "0000:11:00.0", "0000:10:01.0", HOST_USP, 0, 0, NULL },
	{ "0000:12:00.0", "0000:11:00.0", HOST_DSP, 0, 0, NULL },
	{ "0000:12:01.0", "0000:11:00.0", HOST_DSP, 0, 0, NULL },
	{ "0000:12:02.0", "0000:11:00.0", HOST_DSP, 0, 0, NULL },
	{ "0000:13:00.0", "0000:12:00.0", HOST_GPU, 0, 128 * GIB, NULL },
	{ "0000:13:00.1", "0000:12:00.0", HOST_OTHER, 0, 0, NULL },
	{ "0000:14:00.0", "0000:12:01.0", HOST_GPU, -1, 3 * GIB, NULL }, /* firmware forgot its node */
	{ "0000:15:00.0", "0000:12:02.0", HOST_NIC, 0, 32 * MIB, NULL },
	{ "0000:15:00.2", "0000:12:02.0", HOST_VF, 0, 1 * MIB, "0000:15:00.0" },
	{ "0000:20:01.0", NULL, HOST_ROOT_PORT, 0, 0, NULL },
	{ "0000:21:00.0", "0000:20:01.0", HOST_GPU, 0, 64 * MIB, NULL },
	{ "0000:20:02.0", NULL, HOST_ROOT_PORT, 0, 0, NULL },
	{ "0000:22:00.0", "0000:20:02.0", HOST_NIC, 0, 32 * MIB, NULL },
	{ "0000:80:01.0", NULL, HOST_ROOT_PORT, 1, 0, NULL },
	{ "0000:81:00.0", "0000:80:01.0", HOST_USP, 1, 0, NULL },
	{ "0000:82:00.0", "0000:81:00.0", HOST_DSP, 1, 0, NULL },
	{ "0000:82:01.0", "0000:81:00.0", HOST_DSP, 1, 0, NULL },
	{ "0000:83:00.0", "0000:82:00.0", HOST_GPU, 1, 64 * MIB, NULL },
	{ "0000:84:00.0", "0000:82:01.0", HOST_NIC, 1, 32 * MIB, NULL },
	{ "0000:90:01.0", NULL, HOST_ROOT_PORT, 1, 0, NULL },
	{ "0000:91:00.0", "0000:90:01.0", HOST_USP, 1, 0, NULL },
	{ "0000:92:00.0", "0000:91:00.0", HOST_DSP, 1, 0, NULL },
	{ "0000:92:01.0", "0000:91:00.0", HOST_DSP, 1, 0, NULL },
	{ "0000:93:00.0", "0000:92:00.0", HOST_GPU, 1, 64 * MIB, NULL },
	{ "0000:94:00.0", "0000:92:01.0", HOST_NIC, 1, 32 * MIB, NULL },
};
