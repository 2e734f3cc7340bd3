/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gangs: for each bundle every set of GPUs that it could have alone, the best first; then the first choice of one set each,
 * in the order of the bundles, in which no GPU is in two, the VFs of all can be matched to the NICs, and the memory and
 * CPUs of each NUMA node suffice. Equal requests take their sets in one order, so that no choice is looked at twice;
 * and what is taken, however it is divided, is looked at once. */
#include "plan/gang.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/crowd.h"
#include "plan/place.h"

#define SETS_MAX   40000   /* for one bundle: 8 of 16 GPUs are 12,870; with limits that may be lifted, twice that */
#define LOOKS_MAX  200000  /* sets that are looked at, for one bundle */
#define VISITS_MAX 2000000
#define DEAD_MAX   (1u << 18) /* ways that lead nowhere, remembered */
#define PLANS_MAX  64      /* choices that only a whole plan finds wanting: isolation, ACS */

struct choice { /* what one bundle could have */
	uint64_t     gpus, nodes, nics; /* nics: of a bundle without GPUs, where its VFs are from */
	bool         lifted;            /* the limits of a loose request were */
	struct score score;
};

struct member {
	struct place              *p;       /* owned: the bundle by itself */
	struct plan               *alone;   /* owned: takes its reasons */
	struct plan_input          in;      /* the gang's, with its request */
	struct choice             *choice;  /* owned; best first */
	size_t                     n, room, at, looks;
	bool                       again;   /* the same request as the one before */
	size_t                     like;    /* the first with the same request */
	size_t                     kind;    /* the first whose GPUs need the same of NICs, each for itself; n: none does */
	uint64_t                   any;     /* GPUs that are in one of the choices */
	struct solve_want          want[2]; /* [1]: with the limits lifted */
};

struct dead {
	uint64_t hash[2];
	size_t   from; /* the choices of the next one from here on */
};

struct gang {
	const struct plan_input *in;
	struct member            m[PLAN_GANG_MAX];
	size_t                   n;
	struct plan             *plan[PLAN_GANG_MAX]; /* owned */
	struct crowd            *crowd;               /* owned: VFs of all */
	struct dead             *dead;                /* owned: DEAD_MAX; NULL: no memory, so nothing is remembered */
	uint64_t                 visits;
	unsigned                 plans;
	bool                     count_only;
};

/* ---- what each could have ------------------------------------------------------------------------ */

static int add_choice(struct member *m, const struct solve_want *w, bool lifted, struct error *err)
{
	struct solve_answer a;
	bool found = solve(&a, m->p->host, &m->p->free, w);

	if (m->looks++ == LOOKS_MAX || (found && m->n == SETS_MAX))
		return error_set(err, -ETIME, "not decided: too many ways to give %u GPUs; narrow the request with numa_node, require or exclude", w->gpus);
	if (!found)
		return 0;
	if (m->n == m->room) {
		size_t room = m->room ? m->room * 2 : 64;
		struct choice *more = reallocarray(m->choice, room, sizeof(*more));

		if (!more)
			return error_set(err, -ENOMEM, "no memory for a plan");
		m->choice = more;
		m->room = room;
	}
	m->choice[m->n++] = (struct choice){ .gpus = a.gpus, .nodes = a.nodes, .nics = w->nics, .lifted = lifted, .score = a.score };
	return 0;
}

/* Every set of `left` more GPUs out of from. */
static int add_sets(struct member *m, struct solve_want *w, bool lifted, uint64_t set, uint64_t from, uint32_t left, struct error *err)
{
	int r = 0;

	if (left == 0) {
		w->allowed = set;
		return w->required & ~set ? 0 : add_choice(m, w, lifted, err);
	}
	for (; (uint32_t)__builtin_popcountll(from) >= left && r == 0; from &= from - 1)
		r = add_sets(m, w, lifted, set | (from & -from), from & (from - 1), left - 1, err);
	return r;
}

/* Of a guest without GPUs the nodes are what it chooses: one for its cells and VFs; or what is best alone. */
static int add_nodes(struct member *m, struct solve_want *w, bool lifted, struct error *err)
{
	uint64_t nodes = w->nodes, nics = w->nics;
	int r = 0;

	for (uint32_t i = 0; i < m->p->host->nnodes && r == 0; i++) {
		w->nodes = UINT64_C(1) << i;
		w->nics = w->vfs ? nics & m->p->host->on_node[i] : nics;
		if (nodes & w->nodes && (!w->vfs || w->nics))
			r = add_choice(m, w, lifted, err);
	}
	w->nodes = nodes;
	w->nics = nics;
	return r;
}

static int best_first(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;
	uint64_t first = (x->gpus ^ y->gpus) & -(x->gpus ^ y->gpus);

	if (x->lifted != y->lifted)
		return x->lifted ? 1 : -1;
	if (score_less(&x->score, &y->score) || score_less(&y->score, &x->score))
		return score_less(&x->score, &y->score) ? -1 : 1;
	if (first)
		return x->gpus & first ? -1 : 1;
	return x->nodes < y->nodes ? -1 : x->nodes > y->nodes;
}

static int look_as(struct member *m, bool lifted, struct error *err)
{
	struct solve_want w = m->want[lifted];
	int r = 0;

	if (m->p->gpus)
		return add_sets(m, &w, lifted, 0, w.allowed, m->p->gpus, err);
	if (m->in.request->cells <= 1)
		r = add_nodes(m, &w, lifted, err);
	return r == 0 && (m->in.request->cells > 1 || w.vfs) ? add_choice(m, &w, lifted, err) : r;
}

static int look_at(struct member *m, struct error *err)
{
	const struct plan_request *req = m->in.request;
	int r = 0;

	m->want[0] = m->want[1] = m->p->want;
	if (!place_can(m->p, 0))
		return 0; /* its own plan says why */
	r = look_as(m, false, err);
	if (r == 0 && req->loose) {
		place_lift(m->p);
		m->want[1] = m->p->want;
		r = look_as(m, true, err);
	}
	for (size_t i = 0; i < m->n; i++)
		m->any |= m->choice[i].gpus;
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

/* The first member whose GPUs need of NICs what those of m do. Where GPUs of a bundle need something together, or it depends
 * on the choice, it is its own. */
static size_t kind_of(const struct gang *g, const struct member *m)
{
	const struct plan_request *req = m->in.request;
	const struct solve_want *w = &m->want[0];
	size_t i = 0;

	for (; &g->m[i] != m; i++) {
		const struct solve_want *o = &g->m[i].want[0];

		if (g->m[i].kind == i && !req->loose && !req->spread_pf && !req->vfs && !g->m[i].in.request->loose && !g->m[i].in.request->vfs &&
		    !g->m[i].in.request->spread_pf && o->vfs_per_gpu == w->vfs_per_gpu && o->max_path == w->max_path && o->nics == w->nics &&
		    memcmp(o->own, w->own, sizeof(o->own)) == 0)
			break;
	}
	return i;
}

static int open_member(struct gang *g, size_t i, const struct plan_request *request, struct error *err)
{
	struct member *m = &g->m[i];
	int r;

	g->n = i + 1;
	m->in = *g->in;
	m->in.request = request;
	for (m->like = 0; m->like < i && !equal(request, g->m[m->like].in.request);)
		m->like++;
	m->again = i > 0 && g->m[i - 1].like == m->like;
	m->alone = calloc(1, sizeof(*m->alone));
	if (!m->alone)
		return error_set(err, -ENOMEM, "no memory for a plan");
	r = place_open(&m->p, m->alone, &m->in, err);
	if (r == 0)
		r = look_at(m, err);
	m->kind = kind_of(g, m);
	return r;
}

/* ---- all together -------------------------------------------------------------------------------- */

static const struct choice *chosen(const struct member *m)
{
	return &m->choice[m->at];
}

/* Memory and CPUs of the nodes: what a cell needs, of the pages it is made of, for the first n bundles. */
static bool rooms_suffice(const struct gang *g, size_t n)
{
	const struct member *last = &g->m[n - 1];
	bool shared = g->in->policy.cpus_shared;

	for (uint64_t left = chosen(last)->nodes; left; left &= left - 1) {
		int id = last->p->node[__builtin_ctzll(left)];
		uint64_t sum = 0;
		unsigned cpus = 0;

		for (size_t i = 0; i < n; i++) {
			uint64_t nodes = chosen(&g->m[i])->nodes;

			if (g->m[i].in.request->hugepages == last->in.request->hugepages)
				sum += place_cell_memory(g->m[i].p, nodes, id);
			cpus += place_cell_cpus(g->m[i].p, nodes, id);
		}
		if (sum > place_node_memory(last->p, id) || (!shared && cpus > place_node_cpus(last->p, id)))
			return false;
	}
	return true;
}

/* Of the first n bundles what is chosen, of the others what they need in any case. */
static bool vfs_suffice(struct gang *g, size_t n)
{
	bool ok = true;

	crowd_clear(g->crowd);
	for (size_t i = 0; i < g->n && ok; i++) {
		const struct member *m = &g->m[i];
		const struct choice *c = i < n ? chosen(m) : NULL;
		bool lifted = c ? c->lifted : m->in.request->loose;

		ok = c ? crowd_add(g->crowd, m->p, &m->want[lifted], c->gpus, c->nics) :
			 crowd_add_any(g->crowd, m->p, &m->want[lifted], m->any, UINT64_MAX);
	}
	return ok && crowd_fits(g->crowd);
}

/* As many as the bundles from n on want are in none of those before. */
static bool gpus_suffice(const struct gang *g, size_t n, uint64_t used)
{
	uint64_t any = 0;
	uint32_t want = 0;

	for (size_t i = n; i < g->n; i++) {
		any |= g->m[i].any;
		want += g->m[i].p->gpus;
	}
	return (uint32_t)__builtin_popcountll(any & ~used) >= want;
}

/* ---- what leads nowhere -------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 */
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* What the first n bundles take, as far as it matters to those after them: GPUs, with what they need of NICs, but not which of
 * them are together; and of each node so much memory and so many CPUs. Sums, so that the order does not matter. */
static struct dead hash(const struct gang *g, size_t n)
{
	struct dead d = { .hash = { n, ~(uint64_t)n } };

	for (size_t i = 0; i < n; i++) {
		const struct member *m = &g->m[i];
		const struct plan_request *req = m->in.request;
		uint64_t kind = mix(m->kind + 1), page = req->hugepages;
		bool own = req->loose || req->spread_pf || req->vfs;

		for (size_t h = 0; h < 2; h++, kind = mix(kind + 7), page = mix(page + 7)) {
			d.hash[h] += own ? mix(mix(kind + i) + m->at) : 0;
			for (uint64_t left = chosen(m)->gpus; left; left &= left - 1)
				d.hash[h] += mix(kind + 64 + (uint64_t)__builtin_ctzll(left));
			for (uint64_t left = chosen(m)->nodes; left; left &= left - 1) {
				int id = m->p->node[__builtin_ctzll(left)];

				d.hash[h] += mix(page + (uint64_t)id) * place_cell_memory(m->p, chosen(m)->nodes, id);
				d.hash[h] += mix(~(uint64_t)id - h) * place_cell_cpus(m->p, chosen(m)->nodes, id);
			}
		}
	}
	if (n < g->n && n && g->m[n].again)
		d.from = g->m[n - 1].at + (g->m[n].p->gpus > 0); /* two without GPUs may choose the same */
	return d;
}

static bool is_dead(const struct gang *g, const struct dead *d)
{
	const struct dead *k = g->dead ? &g->dead[d->hash[0] % DEAD_MAX] : NULL;

	return k && k->hash[0] == d->hash[0] && k->hash[1] == d->hash[1] && k->from <= d->from;
}

static void bury(struct gang *g, const struct dead *d)
{
	if (!g->dead)
		g->dead = calloc(DEAD_MAX, sizeof(*g->dead));
	if (g->dead)
		g->dead[d->hash[0] % DEAD_MAX] = *d;
}

/* ---- whole plans --------------------------------------------------------------------------------- */

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

static const char owner[] = "another bundle of the gang";

/* Whole plans of the choice, one after the other; 1: all fit. */
static int plan_them(struct gang *g, bool vfs, struct error *err)
{
	size_t room = g->in->ntaken + g->n * (PLAN_GPUS_MAX * 9 + PLAN_VFS_MAX + PLAN_EXTRAS_MAX);
	autofree struct plan_taken *taken = calloc(room, sizeof(*taken));
	autofree struct plan_room *rooms = calloc(g->in->nrooms + g->n * SOLVE_NODES_MAX, sizeof(*rooms));
	struct plan_input in = *g->in;
	bool fits = true;

	if (!taken || !rooms)
		return error_set(err, -ENOMEM, "no memory for a plan");
	if (in.ntaken)
		memcpy(taken, in.taken, in.ntaken * sizeof(*taken));
	if (in.nrooms)
		memcpy(rooms, in.room, in.nrooms * sizeof(*rooms));
	in.taken = taken;
	in.room = rooms;
	for (size_t i = 0; i < g->n; i++)
		g->plan[i] = plan_free(g->plan[i]);
	for (size_t i = 0; i < g->n && fits; i++) {
		struct plan_request request = *g->m[i].in.request; /* its strings stay the caller's */
		int r;

		in.request = &request;
		pin(g, i, &request, &in, vfs);
		r = plan_make(&g->plan[i], &in, err);
		if (r < 0)
			return r;
		fits = g->plan[i]->fits;
		plan_take(taken, &in.ntaken, g->plan[i], owner); /* from the bundles after it */
		in.nrooms += plan_rooms(&rooms[in.nrooms], g->plan[i], owner);
	}
	return fits;
}

static int try_plans(struct gang *g, struct error *err)
{
	int r;

	if (g->count_only && g->m[0].in.request->gdr != PLAN_GDR_REQUIRED)
		return 1; /* what is counted is equal, and only then do routes forbid */
	if (++g->plans > PLANS_MAX)
		return error_set(err, -ETIME, "not decided: %d ways to give all bundles are forbidden by their routes; ask for fewer at once", PLANS_MAX);
	r = plan_them(g, /* vfs= */ false, err);
	if (r == 0 && vfs_suffice(g, g->n))
		r = plan_them(g, /* vfs= */ true, err);
	return r;
}

/* NVMe drives are chosen with the whole plans; too few of them need no search. */
static bool drives_suffice(const struct gang *g)
{
	uint64_t want = 0, there = 0;

	for (size_t i = 0; i < g->n; i++) {
		uint32_t left = place_drives_left(g->m[i].p);

		want += g->m[i].in.request->nvme;
		there = left > there ? left : there;
	}
	return want <= there;
}

/* Bundle i and those after it; 1: all have a choice. */
static int choose(struct gang *g, size_t i, uint64_t used, struct error *err)
{
	struct member *m = &g->m[i];
	struct dead now = hash(g, i);
	unsigned plans = g->plans;
	int r = 0;

	if (i == g->n)
		return try_plans(g, err);
	if (i && is_dead(g, &now))
		return 0;
	for (m->at = now.from; m->at < m->n && r == 0; m->at++) {
		if (chosen(m)->gpus & used || !gpus_suffice(g, i + 1, used | chosen(m)->gpus))
			continue;
		if (++g->visits > (g->in->patience ? g->in->patience : VISITS_MAX))
			return error_set(err, -ETIME, "not decided: too many ways to give %zu bundles at once; ask for fewer, or narrow them with "
					 "numa_node or require", g->n);
		if (rooms_suffice(g, i + 1) && vfs_suffice(g, i + 1))
			r = choose(g, i + 1, used | chosen(m)->gpus, err);
		if (r != 0)
			return r;
	}
	if (i && g->plans == plans) /* else it was routes, and these see which devices are together */
		bury(g, &now);
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
	free(g->dead);
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
	if (r == 0 && drives_suffice(&g))
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
	if (r == 0 && n == PLAN_GANG_MAX && n < most)
		r = error_set(err, -ETIME, "not decided: %u bundles fit, and more are not counted", n);
	g.n = g.n ? 1 : 0;
	g.m[0] = one;
	gang_done(&g);
	return r < 0 ? r : 0;
}
