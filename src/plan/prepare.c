/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the solver has to know, as small integers: of the host, then of one request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/memo.h"
#include "plan/place.h"
#include "topo/path.h"

#define UNKNOWN_RANK (SOLVE_WIDTHS_MAX - 1)

static const struct host_function *gpu_fn(const struct place *p, uint32_t g)
{
	return topo_at(p->in->topo, p->gpu[g].node)->fn;
}

static const struct host_function *nic_fn(const struct place *p, uint32_t n)
{
	return topo_at(p->in->topo, p->nic[n].node)->fn;
}

/* ---- links -------------------------------------------------------------------------------------- */

/* A GPU, or the switch on its card: drivers lower the speed of such a link while the GPU is idle. */
static bool may_idle(const struct topo *t, uint32_t lower)
{
	const struct host_facts *f = topo_at(t, lower)->fn->facts;

	if (f->kind == HOST_GPU)
		return true;
	for (uint32_t i = topo_at(t, lower)->first_child; i != TOPO_NONE && host_kind_is_bridge(f->kind); i = topo_at(t, i)->next_sibling)
		if (topo_at(t, i)->fn->facts->vendor == f->vendor && may_idle(t, i))
			return true;
	return false;
}

/* As it is now, an idle one as it will be. */
static struct pcicap_link link_now(const struct topo *t, const struct topo_link *l)
{
	struct pcicap_link now = l->now;

	if (l->most.speed != now.speed && l->most.speed && now.speed && may_idle(t, l->lower))
		now.speed = l->most.speed;
	return now;
}

static unsigned percent_of(const struct topo *t, const struct topo_link *l)
{
	uint64_t now = topo_link_bandwidth(link_now(t, l)), most = topo_link_bandwidth(l->most);

	return now && most ? (unsigned)(now * 100 / most) : 100;
}

unsigned place_link_percent(const struct topo *t, uint32_t at)
{
	struct topo_link l;

	return topo_link_above(t, &l, at) ? percent_of(t, &l) : 100;
}

/* Of the narrowest link between the two, 0 unknown; and the percent of what its ends can do that one of them carries. */
static int bandwidth(uint64_t *ret, unsigned *percent, const struct topo *t, uint32_t a, uint32_t b, struct arena *arena)
{
	struct topo_walk w = { 0 };
	uint64_t least = 0;
	int r = topo_path_walk(&w, t, a, b, arena);

	*percent = 100;
	for (size_t i = 0; r == 0 && w.bandwidth && i < w.n; i++) {
		uint64_t v = w.hop[i].via == TOPO_VIA_LINK ? topo_link_bandwidth(link_now(t, &w.hop[i].link)) : 0;

		if (v && (!least || v < least))
			least = v;
		if (v && percent_of(t, &w.hop[i].link) < *percent)
			*percent = percent_of(t, &w.hop[i].link);
	}
	*ret = least;
	return r;
}

static int widest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x > y ? -1 : x < y;
}

static uint8_t rank_of(const struct place *p, uint64_t v)
{
	uint8_t rank = 0;

	while (rank < UNKNOWN_RANK - 1 && p->bandwidth[rank] > v)
		rank++;
	return v ? rank : UNKNOWN_RANK;
}

/* Different bandwidths get ranks, the widest 0; those beyond the table the last before unknown. */
static int rank_widths(struct place *p)
{
	size_t pairs = (size_t)p->ngpus * p->nnics, n = 0;
	autofree uint64_t *all = calloc(pairs + 1, 2 * sizeof(*all));
	uint64_t *sorted = all + pairs;
	struct arena arena = { 0 };
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < pairs; i++) {
		unsigned percent;

		r = bandwidth(&all[i], &percent, p->in->topo, p->gpu[i / p->nnics].node, p->nic[i % p->nnics].node, &arena);
		p->host->narrow[i / p->nnics] |= (uint64_t)(percent < p->in->policy.link_percent) << i % p->nnics;
	}
	arena_done(&arena);
	if (r < 0)
		return r;
	memcpy(sorted, all, pairs * sizeof(*all));
	qsort(sorted, pairs, sizeof(*sorted), widest_first);
	for (size_t i = 0; i < pairs && n < UNKNOWN_RANK; i++)
		if (sorted[i] && (n == 0 || p->bandwidth[n - 1] != sorted[i]))
			p->bandwidth[n++] = sorted[i];
	for (size_t i = 0; i < pairs; i++)
		p->host->width[i / p->nnics][i % p->nnics] = rank_of(p, all[i]);
	return 0;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static uint8_t node_of(struct place *p, const struct host_function *fn)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	int id = fn->facts->numa_node < 0 && inv->nnodes == 1 ? inv->node[0].id : fn->facts->numa_node;
	uint32_t i = 0;

	while (i < p->host->nnodes && p->node[i] != id)
		i++;
	if (id < 0 || i == SOLVE_NODES_MAX)
		return SOLVE_NO_NODE;
	if (i == p->host->nnodes)
		p->node[p->host->nnodes++] = id; /* a node that is not there: nothing fits on it */
	return p->home[i];
}

static unsigned distance(const struct place *p, uint32_t from, uint32_t to)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	unsigned d = from < inv->nnodes && to < inv->nnodes ? inv->node[from].distance[to] : 0;

	return from == to ? 0 : d ? d : UINT8_MAX + 1;
}

static void order_nodes(struct place *p)
{
	uint32_t n = p->host->nnodes;

	for (uint32_t from = 0; from < n; from++) {
		uint8_t *row = &p->node_order[from * n];

		for (uint32_t i = 0; i < n; i++) {
			uint32_t at = i;

			for (; at > 0 && distance(p, from, row[at - 1]) > distance(p, from, i); at--)
				row[at] = row[at - 1];
			row[at] = (uint8_t)i;
		}
	}
}

/* Somebody has it, and would not, if it were as is imagined: a guest that ends deactivates its partition. */
static bool is_gone(const struct place *p, uint32_t g)
{
	const struct bdf bdf = gpu_fn(p, g)->bdf;

	for (size_t i = 0; i < p->in->ntaken; i++)
		if (bdf_eq(p->in->taken[i].bdf, bdf))
			return !place_owner(p, bdf);
	return p->in->vacant;
}

/* Sets of GPUs that NVSwitch can join. */
static void find_partitions(struct place *p)
{
	uint32_t gpu[PLACE_GPUS_MAX];
	uint64_t gone = 0;

	for (uint32_t g = 0; g < p->ngpus; g++) {
		gpu[g] = p->gpu[g].node;
		gone |= (uint64_t)is_gone(p, g) << g;
	}
	if (p->in->boundless & PLAN_BOUNDLESS_PARTITIONS)
		return;
	plan_partitions_find(&p->partitions, p->in->topo, &p->in->policy.boards, gpu, p->ngpus, gone);
	if (p->partitions.mode != PLAN_FABRIC_SHARED)
		return;
	memcpy(p->host->partition, p->partitions.allowed, p->partitions.nallowed * sizeof(p->host->partition[0]));
	p->host->npartitions = p->partitions.nallowed;
}

_Static_assert(PLAN_PARTITIONS_MAX <= SOLVE_PARTITIONS_MAX, "partitions do not fit");

/* ---- the host ----------------------------------------------------------------------------------- */

uint32_t place_gpus_wanted(const struct place *p)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	uint32_t all = 0;

	for (size_t i = 0; i < inv->nfn; i++)
		all += inv->fn[i].facts->kind == HOST_GPU;
	return p->in->request->exclusive ? all : (uint32_t)p->in->request->gpus;
}

/* Kept so low that the sum over a bundle is a number of the score. */
static uint32_t wear_of(const struct place *p, uint32_t g)
{
	uint64_t most = UINT32_MAX / SOLVE_CHOSEN_MAX;

	for (size_t i = 0; i < p->in->nwear; i++)
		if (bdf_eq(p->in->wear[i].bdf, gpu_fn(p, g)->bdf))
			return (uint32_t)(p->in->wear[i].times < most ? p->in->wear[i].times : most);
	return 0;
}

int place_prepare(struct place *p, struct error *err)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	struct solve_host *h = p->host;
	int r;

	h->ngpus = p->ngpus;
	h->nnics = p->nnics;
	for (size_t i = 0; i < inv->nnodes; i++)
		p->node[h->nnodes++] = inv->node[i].id;
	place_homes(p);
	for (uint32_t g = 0; g < p->ngpus; g++) {
		h->gpu_node[g] = node_of(p, gpu_fn(p, g));
		h->wear[g] = wear_of(p, g);
		h->no_gpus |= (uint64_t)(!(p->usable >> g & 1) && !p->gpu[g].owner) << g;
		for (uint32_t o = 0; o < p->ngpus; o++)
			h->gpu_path[g][o] = (uint8_t)topo_path(p->in->topo, p->gpu[g].node, p->gpu[o].node);
		memcpy(h->path[g], p->path[g], sizeof(h->path[g]));
	}
	for (uint32_t n = 0; n < p->nnics; n++) {
		h->nic_node[n] = node_of(p, nic_fn(p, n));
		p->free.vfs[n] = p->nic[n].nvfs;
		p->free.load[n] = p->nic[n].taken;
		h->no_nics |= (uint64_t)(!p->nic[n].nvfs && !p->nic[n].taken) << n;
	}
	p->free.gpus = p->usable;
	order_nodes(p);
	find_partitions(p);
	memcpy(h->shape, p->in->policy.shape, sizeof(h->shape));
	h->nshapes = p->in->policy.nshapes;
	r = rank_widths(p);
	if (r == 0)
		r = memo_prepare(p->memo, &p->host, &p->lent);
	return r < 0 ? error_set(err, r, "no memory for a plan") : 0;
}

/* ---- the request -------------------------------------------------------------------------------- */

/* GPUs by model, where each model must have its own: of every few models together, as many GPUs as they want. */
static void ask_models(struct place *p)
{
	const struct plan_request *req = p->in->request;
	struct solve_want *w = &p->want;

	w->nhall = 0;
	for (unsigned some = 1; req->nmodels > 1 && some < 1u << PLAN_MODEL_KINDS_MAX; some++) {
		uint64_t gpus = 0;
		uint32_t need = 0;

		for (size_t i = 0; i < req->nmodels; i++) {
			if (!(some >> req->model_kind[i] & 1))
				continue;
			need++;
			for (uint32_t g = 0; g < p->ngpus; g++)
				if (plan_model_is(&p->in->policy, &req->model[i], gpu_fn(p, g)->facts->vendor, gpu_fn(p, g)->facts->device))
					gpus |= UINT64_C(1) << g;
		}
		if (need) {
			w->hall[w->nhall] = gpus;
			w->hall_need[w->nhall++] = need;
		}
	}
}

static bool on_rail(const struct place *p, uint32_t g, uint32_t n)
{
	int32_t rail = topo_at(p->in->topo, p->gpu[g].node)->rail;

	return rail >= 0 && topo_at(p->in->topo, p->nic[n].node)->rail == rail;
}

static bool wide_enough(const struct place *p, uint32_t g, uint32_t n, uint64_t gbit)
{
	uint8_t rank = p->host->width[g][n];

	return (rank == UNKNOWN_RANK ? 0 : p->bandwidth[rank] * 8) >= gbit * 1000000000u;
}

static void ask_pairs(struct place *p, uint64_t gbit)
{
	for (uint32_t g = 0; g < p->ngpus; g++) {
		p->want.own[g] = 0;
		for (uint32_t n = 0; n < p->nnics; n++)
			if (wide_enough(p, g, n, gbit) && !(p->barred[g] >> n & 1) && (!p->in->request->rails || on_rail(p, g, n)))
				p->want.own[g] |= UINT64_C(1) << n;
	}
}

void place_ask(struct place *p)
{
	const struct plan_request *req = p->in->request;
	struct solve_want *w = &p->want;

	*w = (struct solve_want){
		.gpus = p->gpus, .allowed = p->allowed, .required = p->required,
		.vfs_per_gpu = (uint32_t)req->vfs_per_gpu, .vfs = (uint32_t)req->vfs, .nics = UINT64_MAX,
		.max_path = req->max_path, .max_gpu_path = req->max_gpu_path, .per_nic = req->spread_pf,
		.cells = (uint32_t)req->cells, .nodes = UINT64_MAX, .node_order = p->node_order,
	};
	for (uint32_t n = 0; n < p->nnics; n++)
		if (p->nic[n].required) {
			w->need[n] = p->nic[n].required;
			w->needed |= UINT64_C(1) << n;
		}
	for (uint32_t g = 0; g < p->ngpus; g++)
		w->without |= (uint64_t)bdf_in(p->in->other_than, p->in->nother_than, gpu_fn(p, g)->bdf) << g;
	w->partitioned = p->partitions.mode == PLAN_FABRIC_SHARED && (p->allowed & p->partitions.fabric) && p->gpus;
	if (w->partitioned) /* sets with others among them are no partitions */
		w->allowed &= p->partitions.fabric;
	ask_pairs(p, req->min_bandwidth);
	if (req->numa_node >= 0 && !p->gpus && !req->vfs) { /* without devices, the cells are to be there */
		w->nodes = 0;
		for (uint32_t i = 0; i < p->host->nnodes; i++)
			w->nodes |= (uint64_t)(p->node[i] == req->numa_node && p->home[i] == i) << i;
	}
	ask_models(p);
	place_rooms(p);
}

bool place_can(const struct place *p, size_t more)
{
	uint32_t required = 0; /* drives */

	for (uint32_t i = 0; i < p->ndrives; i++)
		required += p->drive[i].required;
	return required <= p->in->request->nvme && p->gpus <= PLAN_GPUS_MAX && p->nrequired + more == p->in->request->nrequire &&
	       place_drives_left(p) >= p->in->request->nvme;
}

void place_lift(struct place *p)
{
	p->want.max_path = TOPO_SYS;
	p->want.max_gpu_path = TOPO_UNKNOWN;
	ask_pairs(p, 0);
}

bool place_solve(struct place *p)
{
	bool can = place_can(p, 0);
	struct solve_answer *a = &p->answer;
	struct place_choice *c = &p->best;
	bool found = can && solve(a, p->host, &p->free, &p->want);

	if (!found && can && p->in->request->loose) {
		place_lift(p);
		found = solve(a, p->host, &p->free, &p->want);
	}
	if (!found)
		return false;
	*c = (struct place_choice){ .nvfs = a->nvfs, .nodes = a->nodes, .gpu_path = (enum topo_class)a->score.term[SCORE_GPU_PATH],
				    .worst_path = a->nvfs ? (enum topo_class)a->score.term[SCORE_PATH] : TOPO_SELF };
	for (uint64_t left = a->gpus; left; left &= left - 1)
		c->gpu[c->ngpus++] = (uint8_t)__builtin_ctzll(left);
	memcpy(c->vf_gpu, a->vf_slot, sizeof(c->vf_gpu));
	memcpy(c->vf_nic, a->vf_nic, sizeof(c->vf_nic));
	return true;
}
