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
	for (nics = s->h->on_node[lowest(missing)] & s->nics; nics; nics &= nics - 1)
		if (touches(s, extra, forced | (nics & -nics)))
			return true;
	return false;
}

bool search_match(struct search *s, uint64_t extra)
{
	return touches(s, extra, s->forced);
}

/* Only NICs on these nodes, and those of which nobody knows the node. */
static void stay_on(struct search *s, const struct set *set, const uint64_t *adj, uint64_t all, uint64_t nodes)
{
	uint64_t on = nics_on(s, nodes);

	for (uint32_t i = 0; i < set->n; i++)
		s->m.adj[i] = adj[i] & on;
	s->m.nics = all & on;
}

static bool try_extra(struct search *s, const struct set *set, const uint64_t *adj, uint64_t all, uint64_t extra, uint32_t most)
{
	uint64_t nodes = solve_nodes(s->h, s->w, set->home | extra);

	if (!nodes || count(nodes) > most)
		return false;
	stay_on(s, set, adj, all, set->home | extra);
	return search_match(s, extra);
}

bool search_within(struct search *s, const struct set *set, struct bound b, uint64_t *extra)
{
	uint64_t adj[SOLVE_CHOSEN_MAX], all = set->n ? 0 : s->nics & s->usable, others;

	for (uint32_t i = 0; i < set->n; i++) {
		adj[i] = search_edges(s, set->gpu[i], b.path, b.width) & s->usable;
		all |= adj[i];
	}
	s->m.limit = b.limit;
	*extra = 0;
	if (try_extra(s, set, adj, all, 0, b.nodes))
		return true;
	others = nodes_of(s, all) & ~set->home;
	stay_on(s, set, adj, all, set->home | others);
	if (!others || !search_match(s, 0)) /* not even with all nodes */
		return false;
	for (uint32_t n = 1; n <= count(others); n++)
		for (uint64_t sub = others & -others; sub; sub = (sub - others) & others)
			if (count(sub) == n && try_extra(s, set, adj, all, sub, b.nodes)) {
				*extra = sub;
				return true;
			}
	return false;
}

/* ---- bounds ------------------------------------------------------------------------------------- */

/* By the number of GPUs, up to `most`, the least limit at which these NICs have enough for them. */
static void fill_limits(const struct search *s, uint16_t *limit, uint64_t nics, uint32_t most)
{
	uint32_t done = 0, each = s->w->vfs_per_gpu, all = 0, some;

	for (uint64_t left = nics; left; left &= left - 1)
		all += match_cap(s->f, s->w, lowest(left), NO_LIMIT);
	some = all / each < most ? all / each : most;
	limit[0] = 0;
	for (uint32_t l = s->floor.term[SCORE_SHARING]; done < some; l++) {
		uint32_t have = 0;

		for (uint64_t left = nics; left; left &= left - 1)
			have += match_cap(s->f, s->w, lowest(left), l);
		while (done < some && (done + 1) * each <= have)
			limit[++done] = (uint16_t)l;
	}
	while (done < most)
		limit[++done] = NEVER;
}

static const struct level *make_level(struct search *s, uint32_t path, uint32_t width)
{
	struct level *l = &s->level[s->nlevels < LEVELS_MAX ? s->nlevels++ : LEVELS_MAX - 1];
	uint64_t nics[TYPES_MAX], adj[SOLVE_GPUS_MAX];

	l->path = path;
	l->width = width;
	l->ntypes = 0;
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

	if (set->level_path != set->path || set->level_width != set->width) {
		search_limits(s, set, set->path, set->width);
		return;
	}
	if (edges & set->apart)
		return;
	set->apart |= edges;
	if (!edges || ++set->nics > s->m.whole)
		set->sharing = NEVER;
}

bool search_could(struct search *s, struct set *set)
{
	uint32_t want = s->m.whole, has[SOLVE_NICS_MAX], l = s->floor.term[SCORE_SHARING];
	uint64_t nics = 0;

	for (uint64_t left = s->w->needed; left; left &= left - 1)
		has[lowest(left)] = 0;
	for (uint32_t i = 0; i < set->n; i++) {
		uint64_t edges = search_edges(s, set->gpu[i], set->path, set->width);

		nics |= edges;
		for (uint64_t left = edges & s->w->needed; left; left &= left - 1)
			has[lowest(left)] += s->m.whole ? s->m.whole : s->m.each;
	}
	for (uint64_t left = s->w->needed; left; left &= left - 1)
		if (has[lowest(left)] < s->w->need[lowest(left)])
			return false;
	for (l = set->sharing > l ? set->sharing : l; want && l <= NO_LIMIT; l++) {
		uint32_t have = 0, more = 0;

		for (uint64_t left = nics; left; left &= left - 1) {
			uint32_t cap = match_cap(s->f, s->w, lowest(left), l);

			have += cap;
			more |= cap < match_cap(s->f, s->w, lowest(left), NO_LIMIT);
		}
		if (have >= want)
			break;
		if (!more)
			return false;
	}
	set->sharing = want ? l : set->sharing;
	return true;
}

void search_limit(struct search *s, struct set *set, uint32_t g)
{
	const struct level *l = set->level;

	if (s->m.whole) {
		limit_whole(s, set, g);
		return;
	}

	if (!l || set->level_path != set->path || set->level_width != set->width || l->path != set->path || l->width != set->width) {
		search_limits(s, set, set->path, set->width);
		return;
	}
	for (uint32_t types = l->of[g]; types; types &= types - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(types), limit = l->limit[i][++set->in[i]];

		set->sharing = limit > set->sharing ? limit : set->sharing;
	}
}

void search_limits(struct search *s, struct set *set, uint32_t path, uint32_t width)
{
	set->level = s->m.whole ? NULL : level_at(s, path, width);
	set->apart = set->nics = 0;
	set->path = set->level_path = path;
	set->width = set->level_width = width;
	set->sharing = 0;
	memset(set->in, 0, sizeof(set->in));
	for (uint32_t i = 0; i < set->n; i++)
		search_limit(s, set, set->gpu[i]);
}
