/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The search over sets of GPUs, in the order of their first GPUs, so that of equals the earlier is met first and stays.
 * A branch is left when the least score that it can still have is no better than the best so far; NICs are matched
 * only where that least score is better. Hence exact, and with few matchings.
 *
 * For one set of GPUs: the nearest class at which all can have their VFs, then the widest rank, then the fewest NUMA
 * nodes, then the least sharing; each is the first in its order for which a matching exists. */
#include "plan/solve.h"

#include <string.h>

#include "plan/search.h"

#define ONES_2(n) (n), (n) + 1, (n) + 1, (n) + 2
#define ONES_4(n) ONES_2(n), ONES_2((n) + 1), ONES_2((n) + 1), ONES_2((n) + 2)
#define ONES_6(n) ONES_4(n), ONES_4((n) + 1), ONES_4((n) + 1), ONES_4((n) + 2)

const uint8_t search_ones[1 << SOLVE_FEW] = { ONES_6(0), ONES_6(1), ONES_6(1), ONES_6(2) };

/* ---- one set ------------------------------------------------------------------------------------ */

static uint32_t widest_of(const struct search *s, const struct set *set, uint32_t path)
{
	uint32_t width = 0;

	for (uint32_t i = 0; i < set->n; i++)
		if (s->widest[path][set->gpu[i]] > width)
			width = s->widest[path][set->gpu[i]];
	return width;
}

/* The next class or rank; false: there is none. */
static bool raise_level(struct search *s, struct set *set)
{
	uint64_t wider = s->h->ranks >> set->width >> 1;
	uint32_t path = set->path;

	if (!wider && ++path > s->w->max_path)
		return false;
	search_limits(s, set, path, wider ? set->width + 1 + lowest(wider) : widest_of(s, set, path));
	return true;
}

#define KEY_GPU_PATH	 48
#define KEY_GPU_PATH_END 52

/* The terms up to sharing in one number; of what else follows, the less is the better. */
static uint64_t score_key(uint32_t path, uint32_t width, uint32_t gpu_path, uint32_t nodes, uint32_t sharing)
{
	return (uint64_t)path << 60 | (uint64_t)width << KEY_GPU_PATH_END | (uint64_t)gpu_path << KEY_GPU_PATH |
	       (uint64_t)nodes << 40 | sharing;
}

static uint64_t least_key(const struct search *s, const struct set *set)
{
	uint32_t nodes = s->floor.term[SCORE_NODES], sharing = s->floor.term[SCORE_SHARING];

	return score_key(set->path, set->width, set->gpu_path, set->nodes > nodes ? set->nodes : nodes,
			 set->sharing > sharing ? set->sharing : sharing);
}

/* With one more GPU; where they want more than their class and rank have, the next ones; false: that is none. */
static bool raise_bounds(struct search *s, struct set *set, uint32_t g)
{
	search_limit(s, set, g);
	while (set->sharing == NEVER)
		if (least_key(s, set) > s->most || !raise_level(s, set))
			return false;
	return true;
}

/* The same with all GPUs of a set, for what can only be asked of all. */
static bool raise_whole(struct search *s, struct set *set)
{
	while (set->sharing == NEVER || !search_could(s, set))
		if (least_key(s, set) > s->most || !raise_level(s, set))
			return false;
	return true;
}

static struct score least_score(const struct search *s, const struct set *set)
{
	struct score least = s->floor;

	least.term[SCORE_PATH] = set->path;
	least.term[SCORE_BANDWIDTH] = set->width;
	least.term[SCORE_GPU_PATH] = set->gpu_path;
	if (set->sharing > least.term[SCORE_SHARING])
		least.term[SCORE_SHARING] = set->sharing;
	if (set->nodes > least.term[SCORE_NODES])
		least.term[SCORE_NODES] = set->nodes;
	return least;
}

static bool worse(const struct search *s, const struct score *least)
{
	return s->found && (s->any_order ? score_less(&s->score, least) : !score_less(least, &s->score));
}

static void keep(struct search *s, const struct set *set, const struct score *score, struct bound b)
{
	const uint32_t *t = score->term;
	uint64_t key = score_key(t[SCORE_PATH], t[SCORE_BANDWIDTH], t[SCORE_GPU_PATH], t[SCORE_NODES], t[SCORE_SHARING]);

	if (worse(s, score) || key > s->most)
		return;
	if (s->any_order && s->found && !score_less(score, &s->score) && !comes_before(set->gpus, s->best.gpus))
		return;
	s->found = true;
	s->score = *score;
	s->most = s->best_key = key;
	if (!s->any_order && (s->floor.term[SCORE_LEFTOVER] > t[SCORE_LEFTOVER] || (s->floor.term[SCORE_LEFTOVER] == t[SCORE_LEFTOVER] && !t[SCORE_WEAR])))
		s->most--; /* an equal key is no better */
	for (uint64_t left = s->vfs ? s->possible : 0; left; left &= left - 1)
		if (score_key(s->nearest[lowest(left)], s->widest[s->nearest[lowest(left)]][lowest(left)], 0, 0, 0) > s->most)
			s->possible &= ~(left & -left);
	s->best = *set;
	s->best_bound = b;
}

static bool still(const struct search *s, struct score *score, enum score_term term, uint32_t value)
{
	score->term[term] = value;
	return !worse(s, score);
}

/* The least bound, term by term; false: there is none, or it is worse than the best of another set. */
static bool find_bound(struct search *s, const struct set *set, struct score *score, struct bound *b, uint64_t *extra)
{
	*b = (struct bound){ .path = set->path, .width = WIDEST_LAST, .nodes = UINT32_MAX, .limit = NO_LIMIT };
	score->term[SCORE_SHARING] = s->floor.term[SCORE_SHARING];
	while (!search_within(s, set, *b, extra)) {
		score->term[SCORE_BANDWIDTH] = 0;
		if (++b->path > s->w->max_path || !still(s, score, SCORE_PATH, b->path))
			return false;
	}
	for (b->width = widest_of(s, set, b->path); still(s, score, SCORE_BANDWIDTH, b->width); b->width++)
		if (search_within(s, set, *b, extra))
			break;
	if (worse(s, score))
		return false;
	b->nodes = count(solve_nodes(s->h, s->w, set->home | *extra)); /* the fewest: within() tries them first */
	score->term[SCORE_NODES] = b->nodes;
	b->limit = s->floor.term[SCORE_SHARING];
	if (set->n) {
		struct set here = *set;

		search_limits(s, &here, b->path, b->width);
		(void)search_could(s, &here);
		b->limit = here.sharing > b->limit ? here.sharing : b->limit;
	}
	for (; still(s, score, SCORE_SHARING, b->limit); b->limit++)
		if (search_within(s, set, *b, extra))
			return true;
	return false;
}

static bool of_models(const struct solve_want *w, uint64_t gpus)
{
	for (uint32_t i = 0; i < w->nhall; i++)
		if (count(gpus & w->hall[i]) < w->hall_need[i])
			return false;
	return true;
}

/* With what it leaves to others and its wear the set may be better than the best so far. */
static bool may_be_best(const struct search *s, const struct set *set, struct score *score)
{
	uint32_t leftover = score->term[SCORE_LEFTOVER], wear = score->term[SCORE_WEAR];

	*score = least_score(s, set);
	score->term[SCORE_LEFTOVER] = leftover;
	score->term[SCORE_WEAR] = wear;
	return !worse(s, score);
}

/* Where nothing up to the nodes can be better than the best so far, sharing has to be: as little, or less. */
static bool shares_less(struct search *s, const struct set *set, const struct score *score)
{
	const uint32_t *t = score->term, *best = s->score.term;
	struct bound b = { set->path, set->width, t[SCORE_NODES], best[SCORE_SHARING] };
	uint64_t extra;

	if (!s->found || memcmp(t, best, SCORE_SHARING * sizeof(*t)) != 0)
		return true;
	if (t[SCORE_LEFTOVER] > best[SCORE_LEFTOVER] || (t[SCORE_LEFTOVER] == best[SCORE_LEFTOVER] && t[SCORE_WEAR] >= best[SCORE_WEAR] + s->any_order))
		b.limit--;
	return search_within(s, set, b, &extra);
}

static void leaf(struct search *s, struct set *set)
{
	struct score score, first;
	struct bound b;
	uint64_t extra = 0;

	if (!of_models(s->w, set->gpus) || (set->gpus == s->w->without && s->w->without) || !search_ties(s, set))
		return;
	score.term[SCORE_LEFTOVER] = solve_leftover(s->h, s->f->gpus & ~set->gpus);
	score.term[SCORE_WEAR] = 0;
	for (uint32_t i = 0; i < set->n; i++)
		score.term[SCORE_WEAR] += s->h->wear[set->gpu[i]];
	if (!may_be_best(s, set, &score))
		return;
	if (set->n && s->vfs && (s->m.whole || s->w->needed) && (!raise_whole(s, set) || !may_be_best(s, set, &score)))
		return;
	first = score;
	if (s->vfs) {
		uint32_t nodes = search_touched(s, set);

		first.term[SCORE_NODES] = nodes > score.term[SCORE_NODES] ? nodes : score.term[SCORE_NODES];
		if (!shares_less(s, set, &first))
			return;
	}
	b = (struct bound){ set->path, set->width, first.term[SCORE_NODES], score.term[SCORE_SHARING] };
	if (!s->vfs) {
		b.nodes = count(solve_nodes(s->h, s->w, set->home));
		score.term[SCORE_NODES] = b.nodes;
		if (b.nodes)
			keep(s, set, &score, b);
	} else if (!worse(s, &first) && search_within(s, set, b, &extra)) {
		keep(s, set, &first, b);
	} else if (find_bound(s, set, &score, &b, &extra)) {
		keep(s, set, &score, b);
	}
}

/* ---- all sets ----------------------------------------------------------------------------------- */

static uint64_t node_of(const struct search *s, uint32_t g)
{
	return s->h->gpu_node[g] < s->h->nnodes ? UINT64_C(1) << s->h->gpu_node[g] : 0;
}

static void extend(const struct search *s, struct set *set, uint32_t g)
{
	uint64_t fresh = s->touched[g] & ~set->touched;

	while (set->gpus & ~s->h->close[set->gpu_path][g])
		set->gpu_path++;
	set->gpu[set->n++] = (uint8_t)g;
	set->gpus |= UINT64_C(1) << g;
	set->nodes += fresh ? count(fresh) : 0;
	set->touched |= fresh;
	set->home |= node_of(s, g);
	if (s->w->ties)
		set->tied |= s->w->ties->gpu_gpus[g];
	if (!s->vfs)
		return;
	if (s->nearest[g] > set->path) {
		set->path = s->nearest[g];
		set->width = widest_of(s, set, set->path);
		set->sharing = 0; /* farther NICs may be emptier */
	} else if (s->widest[set->path][g] > set->width) {
		set->width = s->widest[set->path][g];
		set->sharing = 0;
	}
}

/* One more GPU is in; false: no set with these is better than the best so far. */
static bool may_lead(struct search *s, struct set *set, uint32_t g)
{
	uint64_t key;
	uint32_t least;

	if (s->w->cells && set->nodes > s->w->cells && !s->w->any_nodes)
		return false;
	if (set->gpu_path > s->w->max_gpu_path || least_key(s, set) > s->most || (s->vfs && !raise_bounds(s, set, g)))
		return false;
	key = least_key(s, set);
	if (key > s->most || !s->found || key != s->best_key)
		return key <= s->most;
	least = search_leftover(s, set->gpus);
	return least < s->score.term[SCORE_LEFTOVER] || (least == s->score.term[SCORE_LEFTOVER] && s->score.term[SCORE_WEAR]);
}

/* Of `from`, those that can still make the set a better one than the best so far: by themselves, and by how near they are
 * to those that are in, where neither path nor width is better than the best's. */
static uint64_t that_could(const struct search *s, const struct set *set, uint64_t from)
{
	bool beyond = score_key(set->path, set->width, 0, 0, 0) >> KEY_GPU_PATH_END >= s->most >> KEY_GPU_PATH_END;
	uint32_t far = beyond ? (uint32_t)(s->most >> KEY_GPU_PATH) & 0xf : (SOLVE_CLASSES - 1);

	far = s->w->max_gpu_path < far ? s->w->max_gpu_path : far;
	from &= s->possible;
	for (uint32_t i = 0; i < set->n && far < (SOLVE_CLASSES - 1); i++)
		from &= s->h->close[far][set->gpu[i]];
	return from;
}

static bool knows_no_twins(const struct solve_want *w, const struct solve_host *h)
{
	if (w->ties || w->without || w->nhall || w->required)
		return false;
	for (uint32_t g = 0; g < h->ngpus; g++)
		for (uint64_t left = h->twins[g]; left; left &= left - 1)
			if (w->own[g] != w->own[lowest(left)])
				return false;
	return true;
}

static void descend(struct search *s, struct set *set, uint64_t from)
{
	uint32_t left = s->w->gpus - set->n, n;
	uint64_t must = s->w->required | set->tied;

	if (must && count(must & ~set->gpus) > left)
		return;
	if (left == 0) {
		leaf(s, set);
		return;
	}
	from = that_could(s, set, from);
	for (n = count(from); n >= left; n--) {
		uint32_t g = lowest(from);
		struct set next;

		if (must & ~set->gpus & ~from)
			return; /* one that must be in was left behind */
		from &= from - 1;
		next = *set;
		extend(s, &next, g);
		if (may_lead(s, &next, g))
			descend(s, &next, from);
		if (s->twins && (s->h->twins[g] & from)) { /* a set with one instead would come later, and be worth as much */
			from &= ~s->h->twins[g];
			n = 1 + count(from);
		}
	}
}

static void try_partitions(struct search *s, uint64_t allowed)
{
	for (size_t p = 0; p < s->h->npartitions; p++) {
		uint64_t gpus = s->h->partition[p];
		struct set set = { 0 };
		bool fits = true;

		if (count(gpus) != s->w->gpus || gpus & ~allowed || s->w->required & ~gpus)
			continue;
		for (; gpus && fits; gpus &= gpus - 1) {
			extend(s, &set, lowest(gpus));
			fits = set.gpu_path <= s->w->max_gpu_path && (!s->vfs || raise_bounds(s, &set, lowest(gpus)));
		}
		if (fits)
			leaf(s, &set);
	}
}

/* GPUs that by themselves would do with this path and width. */
static uint64_t within_level(const struct search *s, uint32_t path, uint32_t width)
{
	uint64_t good = 0;

	for (uint64_t left = s->allowed; left; left &= left - 1)
		if (!s->vfs || (s->nearest[lowest(left)] <= path && s->widest[path][lowest(left)] <= width))
			good |= left & -left;
	return good;
}

/* The nearest class at which so many of these GPUs might be together. */
static uint32_t together(const struct search *s, uint64_t gpus, uint32_t n)
{
	for (uint32_t c = 0; c < SOLVE_CLASSES - 1; c++)
		for (uint64_t left = s->h->most_close[c] >= n ? gpus : 0; left; left &= left - 1)
			if (count(s->h->close[c][lowest(left)] & gpus) + 1 >= n)
				return c;
	return SOLVE_CLASSES - 1;
}

/* Whether NICs are so near that VFs that are needed of some find GPUs, and that VFs for all GPUs reach them. */
static bool may_be_within(const struct search *s, uint32_t path)
{
	uint32_t near[SOLVE_NICS_MAX] = { 0 }, most = 0;

	for (uint64_t left = s->allowed; left; left &= left - 1)
		for (uint64_t nics = search_edges(s, lowest(left), path, WIDEST_LAST); nics; nics &= nics - 1)
			most = ++near[lowest(nics)] > most ? near[lowest(nics)] : most;
	for (uint64_t left = s->w->needed; left; left &= left - 1)
		if (near[lowest(left)] * (s->m.whole ? s->m.whole : s->m.each) < s->w->need[lowest(left)])
			return false;
	return !s->m.whole || most * s->m.whole >= s->w->gpus;
}

/* No set with any GPUs has a nearer path. */
static struct set no_set(const struct search *s)
{
	struct set none = { 0 };

	if (s->vfs && s->w->gpus && (s->m.whole || s->w->needed))
		while (none.path < s->w->max_path && !may_be_within(s, none.path))
			none.path++;
	return none;
}

/* First only what is as good in path, width and GPU path as GPUs by themselves could be: mostly there is some, and the rest
 * need not be looked at. Not where there are few sets anyway. */
static void search_stages(struct search *s, struct set none)
{
	uint32_t path = none.path, width = 0, n = s->w->gpus;
	uint64_t good = s->allowed;

	while (s->vfs && path < s->w->max_path && count(good = within_level(s, path, WIDEST_LAST)) < n)
		path++;
	while (s->vfs && width < WIDEST_LAST && count(good = within_level(s, path, width)) < n)
		width++;
	for (uint32_t c = together(s, good, n); c < SOLVE_CLASSES - 1 && !s->found; c++) {
		s->most = score_key(path, width, c + 1, 0, 0) - 1;
		s->possible = good;
		descend(s, &none, good);
	}
}

static struct set set_of(struct search *s, uint64_t gpus)
{
	struct set set = { 0 };

	for (; gpus; gpus &= gpus - 1)
		extend(s, &set, lowest(gpus));
	return set;
}

bool search_may_beat(const struct search *s, uint32_t path, uint32_t width)
{
	return score_key(path, width, 0, 0, 0) <= s->most;
}

void search_try(struct search *s, uint64_t gpus, uint32_t path, uint32_t width)
{
	struct set set = set_of(s, gpus);

	set.path = path;
	set.width = width;
	leaf(s, &set);
}

/* Without what it is worth. */
static struct set plain_set(const struct search *s, uint64_t gpus)
{
	struct set set;

	set.gpus = gpus;
	set.home = set.tied = 0;
	for (set.n = 0; gpus; gpus &= gpus - 1) {
		uint8_t node = s->h->gpu_node[lowest(gpus)];

		set.gpu[set.n++] = (uint8_t)lowest(gpus);
		set.home |= node < s->h->nnodes ? UINT64_C(1) << node : 0;
	}
	return set;
}

bool search_holds(struct search *s, uint64_t gpus, struct bound b)
{
	struct set set = plain_set(s, gpus);

	if (!s->vfs)
		return count(solve_nodes(s->h, s->w, set.home)) == b.nodes;
	search_rank(s, gpus, b.path);
	s->held = search_ties(s, &set) && search_again(s, &set, b, &s->extra);
	return s->held;
}

void search_found(struct search *s, uint64_t gpus, const struct score *score, struct bound b)
{
	if (!s->held)
		search_rank(s, gpus, b.path);
	s->found = true;
	s->best = plain_set(s, gpus);
	s->score = *score;
	s->best_bound = b;
}

static void search_sets(struct search *s)
{
	struct set none = no_set(s);

	if (s->w->gpus > 2 && count(s->allowed) > s->w->gpus + 1)
		search_stages(s, none);
	if (s->found)
		return;
	s->most = UINT64_MAX;
	s->possible = s->allowed;
	descend(s, &none, s->allowed);
}

/* Nor GPUs and NICs that need GPUs which cannot be had. */
static uint64_t without_tied(struct search *s, uint64_t allowed)
{
	const struct solve_ties *t = s->w->ties;

	for (uint64_t before = 0, left = allowed; before != allowed; left = allowed)
		for (before = allowed; left; left &= left - 1)
			allowed &= ~(t->gpu_gpus[lowest(left)] & ~allowed ? left & -left : 0);
	for (uint64_t left = s->nics; left; left &= left - 1)
		s->nics &= ~(t->nic_gpus[lowest(left)] & ~allowed ? left & -left : 0);
	return allowed;
}

/* GPUs that have some NIC, where VFs are wanted. */
static uint64_t look(struct search *s)
{
	uint64_t allowed = s->w->allowed & s->f->gpus, good = 0;

	for (uint32_t n = 0; n < s->h->nnics && s->vfs; n++)
		s->nics |= (uint64_t)(s->f->vfs[n] > 0) << n;
	s->nics &= s->w->nics;
	if (s->w->ties)
		allowed = without_tied(s, allowed);
	for (uint64_t left = s->vfs ? 0 : allowed; left; left &= left - 1)
		s->touched[lowest(left)] = node_of(s, lowest(left));
	if (!s->vfs)
		return allowed;
	for (; allowed; allowed &= allowed - 1) {
		uint32_t g = lowest(allowed);

		s->edge[g] = s->h->near[s->w->max_path][g] & s->w->own[g] & s->nics;
		good |= s->edge[g] ? allowed & -allowed : 0;
		s->touched[g] = node_of(s, g) | (s->edge[g] ? search_only_node(s, s->edge[g]) : 0);
	}
	return good;
}

/* No set is on fewer nodes than those that have the most GPUs. */
static uint32_t least_nodes(const struct search *s)
{
	uint32_t on[SOLVE_NODES_MAX] = { 0 }, n = 0, have = 0;

	for (uint64_t left = s->allowed; left; left &= left - 1) {
		if (s->h->gpu_node[lowest(left)] < s->h->nnodes)
			on[s->h->gpu_node[lowest(left)]]++;
		else
			have++;
	}
	for (; have < s->w->gpus; n++) {
		uint32_t most = 0;

		for (uint32_t i = 1; i < s->h->nnodes; i++)
			most = on[i] > on[most] ? i : most;
		if (!on[most])
			break;
		have += on[most];
		on[most] = 0;
	}
	return n ? n : 1;
}

static struct score least_of_all(const struct search *s)
{
	return (struct score){ .term = { [SCORE_NODES] = s->w->cells ? s->w->cells : s->any_order ? 1 : least_nodes(s),
					 [SCORE_SHARING] = search_floor(s),
					 [SCORE_LEFTOVER] = s->any_order ? 0 : search_leftover(s, 0) } };
}

/* ---- the answer --------------------------------------------------------------------------------- */

bool solve(struct solve_answer *ret, const struct solve_host *h, const struct solve_free *f, const struct solve_want *w)
{
	struct search s;

	s.h = h;
	s.f = f;
	s.w = w;
	s.vfs = w->vfs || (w->vfs_per_gpu && w->gpus);
	s.nics = 0;
	s.nlevels = 0;
	s.could_nics = 0;
	s.could_limit = NEVER;
	s.most = UINT64_MAX;
	s.any_order = h->few && w->gpus;
	s.found = false;
	s.m.f = f;
	s.m.w = w;
	s.m.slots = w->gpus;
	s.m.each = w->vfs ? 0 : w->vfs_per_gpu;
	s.m.whole = w->vfs;
	s.allowed = s.possible = look(&s);
	s.floor = least_of_all(&s);
	if (w->required & ~s.allowed || count(s.allowed) < w->gpus || (s.vfs && !s.any_order && !search_have(&s)))
		return false;
	s.chained = s.held = false;
	s.extra = 0;
	for (uint64_t left = w->ties ? s.nics : 0; left; left &= left - 1)
		s.chained = s.chained || w->ties->nic_nics[lowest(left)];
	s.twins = !s.any_order && knows_no_twins(w, h);
	if (!s.any_order)
		search_rank(&s, s.allowed, w->max_path);
	if (s.any_order)
		search_few(&s);
	else if (w->partitioned)
		try_partitions(&s, s.allowed);
	else
		search_sets(&s);
	if (s.found)
		search_answer(&s, ret);
	return s.found;
}
