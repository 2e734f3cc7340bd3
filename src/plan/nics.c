/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The NICs of one set of GPUs: whether there are any within a bound, and bounds that none can be within. */
#include <string.h>

#include "plan/search.h"

static uint64_t nodes_of(const struct search *s, uint64_t nics)
{
	uint64_t nodes = 0;

	for (uint32_t i = 0; i < s->h->nnodes; i++)
		nodes |= (uint64_t)((s->h->on_node[i] & nics) != 0) << i;
	return nodes;
}

static uint64_t nics_on(const struct search *s, uint64_t nodes)
{
	uint64_t nics = s->h->on_node[SOLVE_NODES_MAX];

	for (; nodes; nodes &= nodes - 1)
		nics |= s->h->on_node[lowest(nodes)];
	return nics;
}

/* The nearest NICs of a GPU that has some, and at each class the widest. */
static void rank_gpu(struct search *s, uint32_t g, uint32_t most_path)
{
	const struct solve_host *h = s->h;
	uint32_t path = 0, width = h->ranks & (h->ranks - 1) ? WIDEST_LAST + 1 : lowest(h->ranks);

	while (!(s->edge[g] & h->near[path][g]))
		path++;
	s->nearest[g] = (uint8_t)path;
	s->like[g] = 0;
	for (; path <= most_path; path++) {
		if (width > WIDEST_LAST || (h->ranks & (h->ranks - 1) && width && (s->edge[g] & h->near[path][g] & h->wide[width - 1][g])))
			for (width = 0; !(s->edge[g] & h->near[path][g] & h->wide[width][g]); width++)
				;
		s->widest[path][g] = (uint8_t)width;
		s->like[g] = s->like[g] ? s->like[g] : s->edge[g] & h->near[path][g] & h->wide[width][g];
	}
}

void search_rank(struct search *s, uint64_t gpus, uint32_t most_path)
{
	for (; gpus && s->vfs; gpus &= gpus - 1)
		rank_gpu(s, lowest(gpus), most_path);
}

/* ---- ties --------------------------------------------------------------------------------------- */

bool search_ties(struct search *s, const struct set *set)
{
	const struct solve_ties *t = s->w->ties;

	s->usable = UINT64_MAX;
	s->forced = 0;
	if (!t)
		return true;
	for (uint32_t i = 0; i < set->n; i++)
		s->forced |= t->gpu_nics[set->gpu[i]];
	for (uint32_t n = 0; n < s->h->nnics; n++)
		if (t->nic_gpus[n] & ~set->gpus)
			s->usable &= ~(UINT64_C(1) << n);
	return !(set->tied & ~set->gpus) && (s->vfs || !s->forced);
}

/* A NIC that gives a VF without another that would have to; 0: there is none. */
static uint64_t untied(const struct search *s)
{
	for (uint64_t left = s->w->ties ? s->m.touched : 0; left; left &= left - 1)
		if (s->w->ties->nic_nics[lowest(left)] & ~s->m.touched)
			return left & -left;
	return 0;
}

static bool touches(struct search *s, uint64_t extra, uint64_t forced);

static bool touches_without(struct search *s, uint64_t extra, uint64_t forced, uint64_t nic)
{
	uint64_t adj[SOLVE_CHOSEN_MAX], nics = s->m.nics;
	bool found;

	memcpy(adj, s->m.adj, sizeof(adj));
	for (uint32_t i = 0; i < s->m.slots; i++)
		s->m.adj[i] &= ~nic;
	s->m.nics &= ~nic;
	found = !(forced & nic) && touches(s, extra, forced);
	memcpy(s->m.adj, adj, sizeof(adj));
	s->m.nics = nics;
	return found;
}

static bool touches(struct search *s, uint64_t extra, uint64_t forced)
{
	uint64_t missing, nics, loose;

	s->m.forced = forced;
	if (!match_run(&s->m))
		return false;
	loose = untied(s);
	if (loose)
		return touches(s, extra, forced | loose | s->w->ties->nic_nics[lowest(loose)]) ||
		       touches_without(s, extra, forced, loose);
	missing = extra & ~nodes_of(s, s->m.touched);
	if (!missing)
		return true;
	nics = s->m.slots ? 0 : s->m.nics;
	for (uint32_t i = 0; i < s->m.slots; i++)
		nics |= s->m.adj[i];
	for (nics &= s->h->on_node[lowest(missing)]; nics; nics &= nics - 1)
		if (match_cap(s->f, s->w, lowest(nics), s->m.limit) && touches(s, extra, forced | (nics & -nics)))
			return true;
	return false;
}

bool search_match(struct search *s, uint64_t extra)
{
	return touches(s, extra, s->forced);
}

static uint32_t have_of(const struct search *s, uint64_t nics, uint32_t limit)
{
	uint32_t have = 0;

	for (; nics; nics &= nics - 1)
		have += match_cap(s->f, s->w, lowest(nics), limit);
	return have;
}

/* Where the NICs of one set may be. */
struct where {
	const struct set *set;
	uint64_t adj[SOLVE_CHOSEN_MAX], all; /* NICs of each slot, of any */
	uint64_t must;                       /* nodes on which a slot has all of its NICs */
	uint32_t most;                       /* nodes */
	uint32_t n, most_vfs;                /* other nodes that have VFs; the most that one of them has */
	uint8_t  node[SOLVE_NODES_MAX];
	uint16_t vfs[SOLVE_NODES_MAX];
};

/* Only NICs on these nodes, and those of which nobody knows the node. */
static void stay_on(struct search *s, const struct where *e, uint64_t nodes)
{
	uint64_t on = nics_on(s, nodes);

	for (uint32_t i = 0; i < e->set->n; i++) {
		s->m.adj[i] = e->adj[i] & on;
		s->m.like[i] = s->like[e->set->gpu[i]];
	}
	s->m.nics = e->all & on;
}

static bool try_extra(struct search *s, const struct where *e, uint64_t extra)
{
	uint64_t nodes = solve_nodes(s->h, s->w, e->set->home | extra);

	if (!nodes || count(nodes) > e->most)
		return false;
	stay_on(s, e, e->set->home | extra);
	for (uint32_t i = 0; i < e->set->n && extra; i++)
		if (!s->m.adj[i] || have_of(s, s->m.adj[i], s->m.limit) < s->m.each)
			return false;
	return search_match(s, extra);
}

/* n nodes more, of the first `from`: all that have VFs enough, in the order of their sets as numbers. */
static bool choose(struct search *s, const struct where *e, uint32_t from, uint32_t n, uint32_t lack, uint64_t *extra)
{
	uint64_t before = *extra;

	if (n == 0)
		return lack == 0 && try_extra(s, e, *extra);
	if (n * e->most_vfs < lack)
		return false;
	for (uint32_t i = n - 1; i < from; i++) {
		*extra = before | UINT64_C(1) << e->node[i];
		if (choose(s, e, i, n - 1, lack > e->vfs[i] ? lack - e->vfs[i] : 0, extra))
			return true;
	}
	*extra = before;
	return false;
}

/* The NICs of each slot, and of all, for these; other nodes that they are on; how many VFs are lacking on the set's own nodes
 * and those that it touches in any case. */
static uint32_t look_where(struct search *s, const struct set *set, struct bound b, struct where *e)
{
	uint32_t want = s->w->vfs ? s->w->vfs : s->w->gpus * s->w->vfs_per_gpu, have;
	uint64_t others;

	e->set = set;
	e->most = b.nodes;
	e->all = set->n ? 0 : s->nics & s->usable;
	e->must = 0;
	for (uint32_t i = 0; i < set->n; i++) {
		e->adj[i] = search_edges(s, set->gpu[i], b.path, b.width) & s->usable;
		e->all |= e->adj[i];
	}
	e->n = e->most_vfs = 0;
	others = nodes_of(s, e->all) & ~set->home;
	if (!others)
		return 0;
	for (uint32_t i = 0; i < set->n; i++)
		e->must |= e->adj[i] ? search_only_node(s, e->adj[i]) & ~set->home : 0;
	have = have_of(s, e->all & nics_on(s, set->home | e->must), b.limit);
	for (others &= ~e->must; others; others &= others - 1) {
		uint32_t vfs = have_of(s, e->all & s->h->on_node[lowest(others)], b.limit);

		if (!vfs)
			continue;
		e->node[e->n] = (uint8_t)lowest(others);
		e->vfs[e->n++] = (uint16_t)vfs;
		e->most_vfs = vfs > e->most_vfs ? vfs : e->most_vfs;
	}
	return have < want ? want - have : 0;
}

/* The fewest nodes more, but no fewer than that. */
static bool with_extra(struct search *s, const struct where *e, uint32_t lack, uint32_t n, uint64_t *extra)
{
	uint32_t touched = count(e->set->home | e->must), more = SOLVE_NODES_MAX;

	if (!s->w->cells && e->most <= SOLVE_NODES_MAX)
		more = e->most > touched ? e->most - touched : 0;
	for (*extra = e->must; n <= e->n && n <= more; n++)
		if (choose(s, e, e->n, n, lack, extra))
			return true;
	return false;
}

bool search_within(struct search *s, const struct set *set, struct bound b, uint64_t *extra)
{
	struct where e;
	uint32_t lack = look_where(s, set, b, &e), have = 0;
	uint64_t all = set->home | e.must;

	s->m.limit = b.limit;
	*extra = e.must;
	if (lack == 0 && try_extra(s, &e, e.must))
		return true;
	if (!e.n || (!s->w->cells && count(all) >= b.nodes))
		return false;
	for (uint32_t i = 0; i < e.n; i++) {
		have += e.vfs[i];
		all |= UINT64_C(1) << e.node[i];
	}
	stay_on(s, &e, all);
	return have >= lack && search_match(s, 0) && with_extra(s, &e, lack, 1, extra);
}

bool search_again(struct search *s, const struct set *set, struct bound b, uint64_t *extra)
{
	struct where e;
	uint32_t lack = look_where(s, set, b, &e), touched = count(set->home | e.must);

	s->m.limit = b.limit;
	return with_extra(s, &e, lack, !s->w->cells && b.nodes > touched && touched ? b.nodes - touched : 0, extra);
}

uint32_t search_touched(struct search *s, const struct set *set)
{
	struct bound b = { set->path, set->width, UINT32_MAX, NO_LIMIT };
	struct where e;
	uint32_t lack = s->w->cells && !s->w->any_nodes ? 0 : look_where(s, set, b, &e), n = set->nodes;

	if (s->w->cells && !s->w->any_nodes)
		return n;
	n = count(set->home | e.must);
	for (uint32_t left = e.n; lack && left; left--, n++) {
		uint32_t most = 0;

		for (uint32_t i = 1; i < e.n; i++)
			most = e.vfs[i] > e.vfs[most] ? i : most;
		lack = lack > e.vfs[most] ? lack - e.vfs[most] : 0;
		e.vfs[most] = 0;
	}
	return n;
}

/* ---- bounds ------------------------------------------------------------------------------------- */

bool search_have(const struct search *s)
{
	uint32_t want = s->w->vfs ? s->w->vfs : s->w->gpus * s->w->vfs_per_gpu, takers[SOLVE_NICS_MAX] = { 0 };
	uint64_t nics = s->w->gpus ? 0 : s->nics;

	for (uint64_t left = s->allowed; left; left &= left - 1) {
		nics |= s->edge[lowest(left)];
		for (uint64_t some = s->w->gpus ? s->w->needed & s->edge[lowest(left)] : 0; some; some &= some - 1)
			takers[lowest(some)] += s->w->vfs ? s->w->vfs : s->w->vfs_per_gpu;
	}
	for (uint64_t left = s->w->needed; left; left &= left - 1) {
		uint32_t n = lowest(left), need = s->w->need[n];

		if (!(nics >> n & 1) || match_cap(s->f, s->w, n, NO_LIMIT) < need || (s->w->gpus && takers[n] < need))
			return false;
	}
	return have_of(s, nics, NO_LIMIT) >= want;
}

uint32_t search_floor(const struct search *s)
{
	uint32_t n = count(s->nics), vfs = s->w->vfs ? s->w->vfs : s->w->gpus * s->w->vfs_per_gpu, load = UINT32_MAX, least;

	if (!s->vfs || !n)
		return 0;
	for (uint64_t nics = s->nics; nics; nics &= nics - 1)
		if (s->f->load[lowest(nics)] < load)
			load = s->f->load[lowest(nics)];
	least = load + (vfs + n - 1) / n;
	for (uint64_t left = s->w->needed; left; left &= left - 1)
		if (s->f->load[lowest(left)] + s->w->need[lowest(left)] > least)
			least = s->f->load[lowest(left)] + s->w->need[lowest(left)];
	return least;
}

/* By the number of GPUs, up to `most`, the least limit at which these NICs have enough for them. */
static void fill_limits(const struct search *s, uint16_t *limit, uint64_t nics, uint32_t most)
{
	uint32_t done = 0, each = s->w->vfs_per_gpu, all = have_of(s, nics, NO_LIMIT), some;

	some = all / each < most ? all / each : most;
	limit[0] = 0;
	for (uint32_t l = s->floor.term[SCORE_SHARING]; done < some; l++) {
		uint32_t have = have_of(s, nics, l);

		while (done < some && (done + 1) * each <= have)
			limit[++done] = (uint16_t)l;
	}
	while (done < most)
		limit[++done] = NEVER;
}

/* VFs for all together: each GPU is near to one, and as many GPUs as are wanted cannot have more than the best of them, nor
 * than all. */
static void limit_any(const struct search *s, struct level *level)
{
	uint32_t n = 0, best = 0, have = 0, l = s->floor.term[SCORE_SHARING];
	uint64_t edges[SOLVE_GPUS_MAX], all = 0;

	for (uint64_t left = s->allowed; left; left &= left - 1) {
		uint32_t least = NEVER;

		edges[n] = search_edges(s, lowest(left), level->path, level->width);
		for (uint64_t nics = edges[n]; nics; nics &= nics - 1)
			least = s->f->load[lowest(nics)] < least ? s->f->load[lowest(nics)] + 1u : least;
		level->near_one[lowest(left)] = (uint16_t)least;
		all |= edges[n++];
	}
	for (bool more = true; more && (best < s->m.whole || have < s->m.whole); l++) {
		uint32_t gpu[SOLVE_GPUS_MAX];

		for (uint32_t i = 0; i < n; i++)
			gpu[i] = have_of(s, edges[i], l);
		best = 0;
		for (uint32_t i = 0; i < s->w->gpus; i++) {
			uint32_t most = i;

			for (uint32_t k = i + 1; k < n; k++)
				most = gpu[k] > gpu[most] ? k : most;
			best += gpu[most];
			gpu[most] = gpu[i];
		}
		have = have_of(s, all, l);
		more = have < have_of(s, all, NO_LIMIT);
	}
	level->least = best < s->m.whole || have < s->m.whole ? NEVER : l - 1;
}

static const struct level *make_level(struct search *s, uint32_t path, uint32_t width)
{
	struct level *l = &s->level[s->nlevels < LEVELS_MAX ? s->nlevels++ : LEVELS_MAX - 1];
	uint64_t nics[TYPES_MAX], adj[SOLVE_GPUS_MAX];

	l->path = path;
	l->width = width;
	l->ntypes = 0;
	l->least = 0;
	if (s->m.whole) {
		limit_any(s, l);
		return l;
	}
	for (uint64_t left = s->allowed; left; left &= left - 1) {
		uint32_t g = lowest(left), i = 0;

		adj[g] = search_edges(s, g, path, width);
		l->of[g] = 0;
		while (i < l->ntypes && nics[i] != adj[g])
			i++;
		if (i < TYPES_MAX)
			nics[i] = adj[g];
		l->ntypes += i == l->ntypes && i < TYPES_MAX;
	}
	for (uint32_t j = 1; j < l->ntypes; j++) /* of types that share some NICs, those of both, too */
		for (uint32_t i = 0; i < j && l->ntypes < TYPES_MAX; i++) {
			uint64_t both = nics[i] | nics[j];
			uint32_t k = 0;

			while ((nics[i] & nics[j]) && k < l->ntypes && nics[k] != both)
				k++;
			if (k == l->ntypes)
				nics[l->ntypes++] = both;
		}
	for (uint32_t i = 0; i < l->ntypes; i++) {
		uint32_t n = 0;

		for (uint64_t left = s->allowed; left; left &= left - 1)
			if (!(adj[lowest(left)] & ~nics[i])) {
				l->of[lowest(left)] |= (uint16_t)(1u << i);
				n++;
			}
		fill_limits(s, l->limit[i], nics[i], n < s->w->gpus ? n : s->w->gpus);
	}
	return l;
}

static const struct level *level_at(struct search *s, uint32_t path, uint32_t width)
{
	for (uint32_t i = 0; i < s->nlevels; i++)
		if (s->level[i].path == path && s->level[i].width == width)
			return &s->level[i];
	return make_level(s, path, width);
}

/* VFs for the guest as a whole: GPUs that share no NIC need one each. */
static void limit_whole(struct search *s, struct set *set, uint32_t g)
{
	uint64_t edges = search_edges(s, g, set->path, set->width);

	if (set->level->near_one[g] > set->sharing)
		set->sharing = set->level->near_one[g];
	if (edges & set->apart)
		return;
	set->apart |= edges;
	if (!edges || ++set->nics > s->m.whole)
		set->sharing = NEVER;
}

/* The least limit at which these NICs have as many VFs as are wanted for all together; NEVER. Sets of GPUs often have the
 * same NICs as the one before. */
static uint32_t limit_of(struct search *s, uint64_t nics)
{
	uint32_t l = s->floor.term[SCORE_SHARING];

	if (nics == s->could_nics)
		return s->could_limit;
	if (have_of(s, nics, NO_LIMIT) < s->m.whole)
		l = NEVER;
	while (l != NEVER && have_of(s, nics, l) < s->m.whole)
		l++;
	s->could_nics = nics;
	s->could_limit = l;
	return l;
}

bool search_could(struct search *s, struct set *set)
{
	uint64_t nics = 0;

	for (uint32_t i = 0; i < set->n; i++)
		nics |= search_edges(s, set->gpu[i], set->path, set->width);
	for (uint64_t left = s->w->needed; left; left &= left - 1) {
		uint32_t n = lowest(left), has = 0;

		for (uint32_t i = 0; i < set->n; i++)
			if (search_edges(s, set->gpu[i], set->path, set->width) >> n & 1)
				has += s->m.whole ? s->m.whole : s->m.each;
		if (has < s->w->need[n])
			return false;
	}
	if (s->m.whole) {
		uint32_t limit = limit_of(s, nics);

		if (limit == NEVER)
			return false;
		set->sharing = limit > set->sharing ? limit : set->sharing;
	}
	return true;
}

void search_limit(struct search *s, struct set *set, uint32_t g)
{
	const struct level *l = set->level;

	if (!l || set->level_path != set->path || set->level_width != set->width || l->path != set->path || l->width != set->width) {
		search_limits(s, set, set->path, set->width);
		return;
	}
	if (s->m.whole) {
		limit_whole(s, set, g);
		return;
	}
	for (uint32_t types = l->of[g]; types; types &= types - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(types), limit = l->limit[i][++set->in[i]];

		set->sharing = limit > set->sharing ? limit : set->sharing;
	}
}

void search_limits(struct search *s, struct set *set, uint32_t path, uint32_t width)
{
	set->level = level_at(s, path, width);
	set->apart = set->nics = 0;
	set->path = set->level_path = path;
	set->width = set->level_width = width;
	set->sharing = set->level->least;
	memset(set->in, 0, sizeof(set->in));
	for (uint32_t i = 0; i < set->n; i++)
		search_limit(s, set, set->gpu[i]);
}
