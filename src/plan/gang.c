/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gangs: for each bundle every set of GPUs that it could have alone, the best first; then the first choice of one set each,
 * in the order of the bundles, in which no GPU is in two, the VFs of all can be matched to the NICs, and the memory of
 * each NUMA node suffices. Equal requests take their sets in one order, so that no choice is looked at twice. */
#include "plan/gang.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/crowd.h"
#include "plan/place.h"

#define SETS_MAX   20000   /* for one bundle: 8 of 16 GPUs are 12,870 */
#define VISITS_MAX 2000000
#define PLANS_MAX  64      /* choices that only a whole plan finds wanting: isolation, ACS */

struct choice { /* what one bundle could have */
	uint64_t     gpus, nodes;
	struct score score;
};

struct member {
	struct place              *p;       /* owned: the bundle by itself */
	struct plan               *alone;   /* owned: takes its reasons */
	struct plan_input          in;      /* the gang's, with its request */
	struct choice             *choice;  /* owned; best first */
	size_t                     n, room, at;
	bool                       again;   /* the same request as the one before */
};

struct gang {
	const struct plan_input *in;
	struct member            m[PLAN_GANG_MAX];
	size_t                   n;
	struct plan             *plan[PLAN_GANG_MAX]; /* owned */
	struct crowd            *crowd;               /* owned: VFs of all */
	uint64_t                 visits;
	unsigned                 plans;
	bool                     count_only;
};

/* ---- what each could have ------------------------------------------------------------------------ */

static int add_choice(struct member *m, const struct solve_want *w, struct error *err)
{
	struct solve_answer a;

	if (!solve(&a, &m->p->host, &m->p->free, w))
		return 0;
	if (m->n == SETS_MAX)
		return error_set(err, -E2BIG, "more than %d ways to give %u GPUs; narrow the request with numa_node, require or exclude",
				 SETS_MAX, w->gpus);
	if (m->n == m->room) {
		size_t room = m->room ? m->room * 2 : 64;
		struct choice *more = reallocarray(m->choice, room, sizeof(*more));

		if (!more)
			return error_set(err, -ENOMEM, "no memory for a plan");
		m->choice = more;
		m->room = room;
	}
	m->choice[m->n++] = (struct choice){ .gpus = a.gpus, .nodes = a.nodes, .score = a.score };
	return 0;
}

/* Every set of `left` more GPUs out of from. */
static int add_sets(struct member *m, struct solve_want *w, uint64_t set, uint64_t from, uint32_t left, struct error *err)
{
	int r = 0;

	if (left == 0) {
		w->allowed = set;
		return w->required & ~set ? 0 : add_choice(m, w, err);
	}
	for (; (uint32_t)__builtin_popcountll(from) >= left && r == 0; from &= from - 1)
		r = add_sets(m, w, set | (from & -from), from & (from - 1), left - 1, err);
	return r;
}

/* Of a guest without devices the nodes are what it chooses. */
static int add_nodes(struct member *m, struct solve_want *w, struct error *err)
{
	uint64_t all = w->nodes;
	int r = 0;

	for (uint32_t i = 0; i < m->p->host.nnodes && r == 0; i++) {
		w->nodes = UINT64_C(1) << i;
		if (all & w->nodes)
			r = add_choice(m, w, err);
	}
	return r;
}

static int best_first(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;
	uint64_t first = (x->gpus ^ y->gpus) & -(x->gpus ^ y->gpus);

	if (score_less(&x->score, &y->score) || score_less(&y->score, &x->score))
		return score_less(&x->score, &y->score) ? -1 : 1;
	if (first)
		return x->gpus & first ? -1 : 1;
	return x->nodes < y->nodes ? -1 : x->nodes > y->nodes;
}

static int look_at(struct member *m, struct error *err)
{
	struct solve_want w = m->p->want;
	int r = 0;

	if (m->p->gpus > PLAN_GPUS_MAX || m->p->nrequired != m->in.request->nrequire)
		return 0; /* its own plan says why */
	if (m->p->gpus)
		r = add_sets(m, &w, 0, m->p->allowed, m->p->gpus, err);
	else if (!m->in.request->vfs && m->in.request->cells <= 1)
		r = add_nodes(m, &w, err);
	else
		r = add_choice(m, &w, err);
	if (r == 0 && m->n)
		qsort(m->choice, m->n, sizeof(*m->choice), best_first);
	return r;
}

static bool equal(const struct plan_request *a, const struct plan_request *b)
{
	auto_(json_object_put) json_object *x = plan_request_json(a);
	auto_(json_object_put) json_object *y = plan_request_json(b);

	if (x && y) {
		json_object_object_del(x, "name");
		json_object_object_del(y, "name");
	}
	return x && y && json_object_equal(x, y);
}

static int open_member(struct gang *g, size_t i, const struct plan_request *request, struct error *err)
{
	struct member *m = &g->m[i];
	int r;

	g->n = i + 1;
	m->in = *g->in;
	m->in.request = request;
	m->again = i > 0 && equal(request, g->m[i - 1].in.request);
	m->alone = calloc(1, sizeof(*m->alone));
	if (!m->alone)
		return error_set(err, -ENOMEM, "no memory for a plan");
	r = place_open(&m->p, m->alone, &m->in, err);
	if (r == 0)
		m->p->want.any_nodes = g->count_only;
	return r == 0 ? look_at(m, err) : r;
}

/* ---- all together -------------------------------------------------------------------------------- */

static const struct choice *chosen(const struct member *m)
{
	return &m->choice[m->at];
}

/* Memory of the nodes: what a cell needs, of the pages it is made of, for the first n bundles. */
static bool memory_suffices(const struct gang *g, size_t n)
{
	const struct member *last = &g->m[n - 1];

	if (g->count_only)
		return true;
	for (uint64_t left = chosen(last)->nodes; left; left &= left - 1) {
		int id = last->p->node[__builtin_ctzll(left)];
		uint64_t sum = 0;

		for (size_t i = 0; i < n; i++)
			if (g->m[i].in.request->hugepages == last->in.request->hugepages)
				sum += place_cell_memory(g->m[i].p, chosen(&g->m[i])->nodes, id);
		if (sum > place_node_memory(last->p, id))
			return false;
	}
	return true;
}

static bool vfs_suffice(struct gang *g, size_t n)
{
	crowd_clear(g->crowd);
	for (size_t i = 0; i < n; i++)
		if (!crowd_add(g->crowd, g->m[i].p, chosen(&g->m[i])->gpus))
			return false;
	return crowd_fits(g->crowd);
}

static void require(struct plan_request *r, struct bdf b)
{
	if (!bdf_in(r->require, r->nrequire, b) && r->nrequire < PLAN_LIST_MAX)
		r->require[r->nrequire++] = b;
}

static bool is_taken(const struct plan_input *in, struct bdf b)
{
	for (size_t i = 0; i < in->ntaken; i++)
		if (bdf_eq(in->taken[i].bdf, b))
			return true;
	return false;
}

/* The chosen GPUs by name; with `vfs` also VFs of the NICs that the crowd gave this bundle. */
static void pin(const struct gang *g, size_t i, struct plan_request *r, const struct plan_input *in, bool vfs)
{
	const struct member *m = &g->m[i];

	for (uint64_t left = chosen(m)->gpus; left; left &= left - 1)
		require(r, topo_at(in->topo, m->p->gpu[__builtin_ctzll(left)].node)->fn->bdf);
	for (uint32_t n = 0; n < m->p->nnics && vfs; n++) {
		unsigned want = crowd_share(g->crowd, i, m->p, n);

		for (uint16_t v = 0; v < m->p->nic[n].nvfs && want; v++)
			if (!is_taken(in, m->p->nic[n].vf[v])) {
				require(r, m->p->nic[n].vf[v]);
				want--;
			}
	}
	if (!m->p->gpus && !m->in.request->vfs && __builtin_popcountll(chosen(m)->nodes) == 1)
		r->numa_node = m->p->node[__builtin_ctzll(chosen(m)->nodes)];
}

/* Its devices are taken for the bundles after it. */
static void take(struct plan_taken *taken, size_t *n, const struct plan *p)
{
	static const char owner[] = "another bundle of the gang";

	for (size_t i = 0; i < p->ngpus; i++)
		taken[(*n)++] = (struct plan_taken){ p->gpu[i], owner };
	for (size_t i = 0; i < p->nvfs; i++)
		taken[(*n)++] = (struct plan_taken){ p->vf[i].bdf, owner };
	for (size_t i = 0; i < p->nextras; i++)
		taken[(*n)++] = (struct plan_taken){ p->extra[i].bdf, owner };
	for (size_t i = 0; i < p->ncompanions; i++)
		taken[(*n)++] = (struct plan_taken){ p->companion[i].bdf, owner };
}

/* Whole plans of the choice, one after the other; 1: all fit. */
static int plan_them(struct gang *g, bool vfs, struct error *err)
{
	size_t room = g->in->ntaken + g->n * (PLAN_GPUS_MAX * 9 + PLAN_VFS_MAX + PLAN_EXTRAS_MAX), n = g->in->ntaken;
	autofree struct plan_taken *taken = calloc(room, sizeof(*taken));
	bool fits = true;

	if (!taken)
		return error_set(err, -ENOMEM, "no memory for a plan");
	if (n)
		memcpy(taken, g->in->taken, n * sizeof(*taken));
	for (size_t i = 0; i < g->n; i++)
		g->plan[i] = plan_free(g->plan[i]);
	for (size_t i = 0; i < g->n && fits; i++) {
		struct plan_request request = *g->m[i].in.request; /* its strings stay the caller's */
		struct plan_input in = *g->in;
		int r;

		in.request = &request;
		in.taken = taken;
		in.ntaken = n;
		pin(g, i, &request, &in, vfs);
		r = plan_make(&g->plan[i], &in, err);
		if (r < 0)
			return r;
		fits = g->plan[i]->fits;
		take(taken, &n, g->plan[i]);
	}
	return fits;
}

static int try_plans(struct gang *g, struct error *err)
{
	int r;

	if (g->count_only)
		return 1;
	if (++g->plans > PLANS_MAX)
		return error_set(err, -E2BIG, "%d ways to give all bundles are forbidden by their routes; ask for fewer at once", PLANS_MAX);
	r = plan_them(g, /* vfs= */ false, err);
	if (r == 0 && vfs_suffice(g, g->n))
		r = plan_them(g, /* vfs= */ true, err);
	return r;
}

/* Bundle i and those after it; 1: all have a choice. */
static int choose(struct gang *g, size_t i, uint64_t used, struct error *err)
{
	struct member *m = &g->m[i];
	int r = 0;

	if (i == g->n)
		return try_plans(g, err);
	for (m->at = m->again && m->p->gpus ? g->m[i - 1].at + 1 : 0; m->at < m->n && r == 0; m->at++) {
		if (chosen(m)->gpus & used)
			continue;
		if (++g->visits > VISITS_MAX)
			return error_set(err, -E2BIG, "too many ways to give %zu bundles at once; ask for fewer, or narrow them with "
					 "numa_node or require", g->n);
		if (memory_suffices(g, i + 1) && vfs_suffice(g, i + 1))
			r = choose(g, i + 1, used | chosen(m)->gpus, err);
		if (r != 0)
			return r;
	}
	return r;
}

/* ---- the answer ---------------------------------------------------------------------------------- */

static void gang_done(struct gang *g)
{
	for (size_t i = 0; i < g->n; i++) {
		place_close(g->m[i].p);
		plan_free(g->m[i].alone);
		free(g->m[i].choice);
		plan_free(g->plan[i]);
	}
	crowd_free(g->crowd);
}

/* Each by itself, and why they do not go together. */
static int refuse(struct gang *g, struct plan_gang *ret, struct error *err)
{
	size_t alone = 0;

	for (size_t i = 0; i < g->n; i++) {
		int r;

		g->plan[i] = plan_free(g->plan[i]);
		r = plan_make(&g->plan[i], &g->m[i].in, err);
		if (r < 0)
			return r;
		alone += g->plan[i]->fits;
		if (!g->plan[i]->fits)
			place_reason(ret->all, "gang.member", BDF_NONE, "all bundles to fit; the reasons of that one say what it lacks",
				     "bundle %zu does not fit even by itself", i);
	}
	if (alone == g->n)
		place_reason(ret->all, "gang.apart", BDF_NONE, "fewer bundles at once, or devices given back",
			     "each of the %zu bundles fits by itself, but there is no way to give all of them", g->n);
	return 0;
}

int plan_gang_make(struct plan_gang **ret, const struct plan_input *in, const struct plan_request *const *request, size_t n,
		   struct error *err)
{
	auto_(plan_gang_free) struct plan_gang *all = calloc(1, sizeof(*all));
	struct gang g = { .in = in, .crowd = crowd_new() };
	int r = 0;

	if (all)
		all->all = calloc(1, sizeof(*all->all));
	if (!all || !all->all || !g.crowd)
		r = error_set(err, -ENOMEM, "no memory for a plan");
	for (size_t i = 0; i < n && r == 0; i++)
		r = open_member(&g, i, request[i], err);
	if (r == 0)
		r = choose(&g, 0, 0, err);
	if (r >= 0) {
		all->all->generation = topo_generation(in->topo);
		all->fits = all->all->fits = r > 0;
		r = r == 0 ? refuse(&g, all, err) : 0;
	}
	for (size_t i = 0; i < n && r == 0; i++)
		all->plan[all->n++] = steal(g.plan[i]);
	gang_done(&g);
	if (r == 0)
		*ret = steal(all);
	return r;
}

struct plan_gang *plan_gang_free(struct plan_gang *g)
{
	for (size_t i = 0; g && i < g->n; i++)
		plan_free(g->plan[i]);
	if (g)
		plan_free(g->all);
	free(g);
	return NULL;
}

json_object *plan_gang_json(const struct plan_gang *g)
{
	json_object *plans = json_object_new_array();
	struct json_out o = json_out_new();

	json_add_bool(&o, "fits", g->fits);
	json_add_uint(&o, "generation", g->all->generation);
	json_add_made(&o, "reasons", plan_reasons_json(g->all->reason, g->all->nreasons));
	for (size_t i = 0; i < g->n; i++)
		json_append(&o, plans, plan_json(g->plan[i]));
	json_add(&o, "plans", plans);
	return json_finish(&o);
}

int plan_gang_count(unsigned *ret, uint64_t *left, const struct plan_input *in, unsigned most, struct error *err)
{
	struct gang g = { .in = in, .crowd = crowd_new(), .count_only = true };
	int r = g.crowd ? open_member(&g, 0, in->request, err) : error_set(err, -ENOMEM, "no memory for a plan");
	struct member one = g.m[0];
	unsigned n = 0;

	*ret = 0;
	*left = r == 0 ? g.m[0].p->usable : 0;
	for (; r == 0 && n < most && n < PLAN_GANG_MAX && one.n; n++) {
		uint64_t used = 0;

		for (g.n = 0; g.n <= n; g.n++) {
			g.m[g.n] = one; /* borrowed */
			g.m[g.n].again = g.n > 0;
		}
		g.visits = 0;
		r = choose(&g, 0, 0, err);
		if (r <= 0)
			break;
		r = 0;
		for (size_t i = 0; i < g.n; i++)
			used |= chosen(&g.m[i])->gpus;
		*ret = n + 1;
		*left = one.p->usable & ~used;
	}
	g.n = g.n ? 1 : 0;
	g.m[0] = one;
	gang_done(&g);
	return r < 0 ? r : 0;
}
