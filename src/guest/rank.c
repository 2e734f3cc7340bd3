/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rank map: which of the guest's GPUs and VFs is which function of the host, below which switch, on which rail, behind
 * which port of the network. Sorted by the host's switch, then as the guest counts. Twice: with names, for the operator;
 * and for the tenant with numbers in place of them, which say what is together and nothing of the host. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "guest/guest.h"
#include "guest/layout.h"
#include "host/inventory.h"
#include "topo/topo.h"

struct entry {
	const struct guest_device *dev;
	uint32_t                   node;  /* of the function, or its PF */
	uint32_t                   usp;   /* host switch right above; TOPO_NONE */
	unsigned                   index; /* among the guest's GPUs, or VFs, in the order of its addresses */
	int                        gpu;   /* of a VF: that it serves; -1 */
};

struct map {
	struct guest_layout       layout;
	const struct plan        *plan;
	const struct topo        *topo;
	struct entry              gpu[PLAN_GPUS_MAX], vf[PLAN_VFS_MAX];
	size_t                    ngpus, nvfs;
};

static int by_guest_address(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;

	return (a->dev > b->dev) - (a->dev < b->dev); /* the layout's order */
}

static int by_switch(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;
	int c = (a->usp > b->usp) - (a->usp < b->usp); /* nodes are in BDF order */

	return c ? c : by_guest_address(pa, pb);
}

static void add(struct map *m, struct entry *to, size_t *n, struct bdf bdf, struct bdf pf)
{
	uint32_t node = topo_find(m->topo, bdf);

	if (node == TOPO_NONE)
		node = topo_find(m->topo, pf);
	for (size_t i = 0; i < m->layout.ndevices; i++)
		if (bdf_eq(m->layout.device[i].bdf, bdf))
			to[(*n)++] = (struct entry){ .dev = &m->layout.device[i], .node = node, .usp = topo_at(m->topo, node)->usp, .gpu = -1 };
}

static void count(struct entry *e, size_t n)
{
	if (n)
		qsort(e, n, sizeof(*e), by_guest_address);
	for (size_t i = 0; i < n; i++)
		e[i].index = (unsigned)i;
}

static void collect(struct map *m)
{
	const struct plan *p = m->plan;

	for (size_t i = 0; i < p->ngpus; i++)
		add(m, m->gpu, &m->ngpus, p->gpu[i], BDF_NONE);
	for (size_t i = 0; i < p->nvfs; i++)
		add(m, m->vf, &m->nvfs, p->vf[i].bdf, p->vf[i].pf);
	count(m->gpu, m->ngpus);
	count(m->vf, m->nvfs);
	for (size_t i = 0; i < m->nvfs; i++)
		for (size_t v = 0; v < p->nvfs; v++)
			for (size_t g = 0; g < m->ngpus && bdf_eq(p->vf[v].bdf, m->vf[i].dev->bdf); g++)
				if (bdf_eq(m->gpu[g].dev->bdf, p->vf[v].gpu))
					m->vf[i].gpu = (int)m->gpu[g].index;
	if (m->ngpus)
		qsort(m->gpu, m->ngpus, sizeof(*m->gpu), by_switch);
	if (m->nvfs)
		qsort(m->vf, m->nvfs, sizeof(*m->vf), by_switch);
}

/* ---- names ---------------------------------------------------------------------------------------------- */

static void add_number(struct json_out *o, const char *key, int64_t v)
{
	if (v < 0)
		json_add_string(o, key, NULL);
	else
		json_add_int(o, key, v);
}

static void add_switch(const struct map *m, struct json_out *o, const struct entry *e)
{
	json_add_bdf(o, "switch", e->usp == TOPO_NONE ? BDF_NONE : topo_at(m->topo, e->usp)->fn->bdf);
}

static struct json_out start(const struct map *m, const struct entry *e)
{
	struct json_out o = json_out_new();

	json_add_uint(&o, "index", e->index);
	json_add_bdf(&o, "guest_bdf", guest_bdf(&m->layout, e->dev->at));
	return o;
}

static const struct host_nic *nic_of(const struct map *m, const struct entry *e)
{
	const struct inventory *inv = topo_inventory(m->topo);
	const struct host_facts *f = topo_at(m->topo, e->node)->fn->facts;
	struct bdf pf = f->is_vf ? f->pf : topo_at(m->topo, e->node)->fn->bdf;

	for (size_t i = 0; i < inv->system.nnics; i++)
		if (bdf_eq(inv->system.nic[i].bdf, pf))
			return &inv->system.nic[i];
	return NULL;
}

static void add_port(struct json_out *o, const struct host_nic *nic)
{
	const struct host_netdev *nd = nic && nic->nnetdevs ? &nic->netdev[0] : NULL;
	const struct host_neighbour *n = nd ? nd->neighbour : NULL;
	struct json_out child;

	json_add_string(o, "port", nd ? nd->name : NULL);
	json_add_string(o, "rdma", nic && nic->nrdma ? nic->rdma[0].name : NULL);
	if (!n) {
		json_add_string(o, "neighbour", NULL);
		return;
	}
	child = json_out_new();
	json_add_string(&child, "name", *n->chassis_name ? n->chassis_name : n->chassis_id);
	json_add_string(&child, "port", n->port_id);
	json_add_out(o, "neighbour", &child);
}

static struct json_out named(const struct map *m, const struct entry *e, bool gpu)
{
	const struct topo_node *n = topo_at(m->topo, e->node);
	struct json_out o = start(m, e);

	json_add_bdf(&o, "bdf", e->dev->bdf);
	json_add_string(&o, "slot", host_slot_of(topo_inventory(m->topo), n->fn->bdf));
	add_switch(m, &o, e);
	add_number(&o, "numa_node", n->fn->facts->numa_node);
	add_number(&o, "rail", n->rail);
	if (gpu) {
		add_number(&o, "module", host_fabric_module(&topo_inventory(m->topo)->system.fabric, e->dev->bdf));
	} else {
		add_number(&o, "gpu", e->gpu);
		add_port(&o, nic_of(m, e));
	}
	return o;
}

/* ---- numbers -------------------------------------------------------------------------------------------- */

/* How many of the host's switches come before: the same for all instances of a host, and nothing of its addresses. */
static int64_t opaque(const struct map *m, uint32_t usp)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < usp; i++)
		n += topo_at(m->topo, i)->fn->facts->kind == HOST_USP;
	return n;
}

static struct json_out numbered(const struct map *m, const struct entry *e, bool gpu)
{
	struct json_out o = start(m, e);

	add_number(&o, "switch", e->usp == TOPO_NONE ? -1 : opaque(m, e->usp));
	add_number(&o, "rail", topo_at(m->topo, e->node)->rail);
	if (!gpu)
		add_number(&o, "gpu", e->gpu);
	return o;
}

/* ---- the document --------------------------------------------------------------------------------------- */

static void add_view(const struct map *m, struct json_out *o, bool tenant)
{
	json_object *gpus = json_object_new_array(), *vfs = json_object_new_array();

	for (size_t i = 0; i < m->ngpus + m->nvfs; i++) {
		bool gpu = i < m->ngpus;
		const struct entry *e = gpu ? &m->gpu[i] : &m->vf[i - m->ngpus];
		struct json_out one = tenant ? numbered(m, e, gpu) : named(m, e, gpu);

		json_append_out(o, gpu ? gpus : vfs, &one);
	}
	json_add_made(o, "gpus", gpus);
	json_add_made(o, "vfs", vfs);
}

int guest_rank_json(struct json_object **ret, const struct plan *plan, const struct topo *topo, struct error *err)
{
	struct map m = { .plan = plan, .topo = topo };
	struct json_out o, tenant;
	int r = guest_layout_build(&m.layout, plan, topo, err);

	if (r < 0)
		return r;
	collect(&m);
	o = json_out_new();
	add_view(&m, &o, false);
	tenant = json_out_new();
	add_view(&m, &tenant, true);
	json_add_out(&o, "tenant", &tenant);
	*ret = json_finish(&o);
	guest_layout_done(&m.layout);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the rank map");
}
