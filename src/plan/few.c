/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The search on hosts of up to eight GPUs, for all 256 sets of them at once: term by term, the least bound is taken that leaves
 * any. What bits cannot say (NICs that need other NICs, nodes that have not the same room, many nodes) they leave out; then
 * what is chosen is matched before it is taken, and if no set holds, all are asked one by one. */
#include "plan/few.h"

#include <string.h>

/* GPUs on nodes that alone do not fit a guest need a NIC on another one. */
static struct sets with_nics_elsewhere(const struct few *q, struct sets some, uint32_t c)
{
	for (uint32_t h = 0; h < c; h++) {
		uint64_t nics = q->choice[c].nics & ~q->choice[h].nics & q->s->nics;
		uint32_t reach = 0;

		if ((h & ~c) || q->choice[h].cells || !any(both(some, q->choice[h].exactly)))
			continue;
		for (; nics; nics &= nics - 1)
			reach |= q->cap[lowest(nics)] ? q->reach[lowest(nics)] : 0u;
		some = but_not(some, but_not(q->choice[h].exactly, with_any(reach)));
	}
	return some;
}

/* The same, where NICs may be on other nodes than the GPUs: for all nodes that they can be on together. */
static struct sets within_choices(struct few *q, uint32_t cells)
{
	struct sets ret = none();
	uint32_t done[CHOICES_MAX], n = 0;

	for (uint32_t c = q->nchoices; c-- > 0;) {
		struct sets some = both(q->can, q->choice[c].within);
		uint32_t i = 0;

		if (!q->choice[c].cells || q->choice[c].cells > cells || !any(but_not(some, ret)))
			continue;
		while (i < n && (c & ~done[i]))
			i++;
		if (i < n) /* no better than with more nodes */
			continue;
		some = few_with_vfs(q, some, q->s->nics & q->choice[c].nics);
		ret = either(ret, q->gaps ? with_nics_elsewhere(q, some, c) : some);
		done[n++] = c;
	}
	return ret;
}

/* Of those that can, the ones that can within this; with no more cells than that. */
static struct sets within(struct few *q, uint32_t limit, uint32_t cells)
{
	struct sets ret;

	if (q->s->vfs)
		few_set_limit(q, limit);
	if (q->crosses && q->exact && !q->many_nodes)
		return within_choices(q, cells);
	ret = q->s->vfs ? few_with_vfs(q, both(q->can, q->fits), q->s->nics) : both(q->can, q->fits);
	for (uint32_t i = 0; i < 4 && q->crosses && q->many_nodes && cells < UINT32_MAX; i++)
		for (uint64_t left = ret.w[i]; left; left &= left - 1)
			if (few_touched(q, 64 * i + lowest(left)) > cells)
				ret.w[i] &= ~(left & -left);
	return ret;
}

/* ---- the race ----------------------------------------------------------------------------------- */

static void keep_partitions(struct few *q)
{
	const struct solve_host *h = q->s->h;
	struct sets some = none();

	for (size_t i = 0; i < h->npartitions; i++)
		some.w[h->partition[i] >> 6] |= UINT64_C(1) << (h->partition[i] & 63);
	q->can = both(q->can, some);
}

static void keep_tied(struct few *q, const struct solve_ties *t, uint32_t allowed)
{
	for (; allowed; allowed &= allowed - 1) {
		uint32_t g = lowest(allowed);

		if (t->gpu_gpus[g] || (t->gpu_nics[g] && !q->s->vfs))
			q->can = but_not(q->can, but_not(with(g), q->s->vfs || !t->gpu_nics[g] ? with_all((uint32_t)(t->gpu_gpus[g] & ALL)) : none()));
	}
}

/* What GPUs by themselves say. */
static void keep_asked(struct few *q)
{
	const struct solve_want *w = q->s->w;
	uint32_t allowed = (uint32_t)q->s->allowed;

	q->can = but_not(q->h->of_size[w->gpus], with_any(ALL & ~allowed));
	q->can = both(q->can, both(q->h->close[w->max_gpu_path], with_all((uint32_t)w->required)));
	for (uint32_t i = 0; i < w->nhall; i++)
		q->can = both(q->can, at_least(q->h, (uint32_t)(w->hall[i] & ALL), w->hall_need[i]));
	if (w->without && w->without <= ALL)
		q->can.w[w->without >> 6] &= ~(UINT64_C(1) << (w->without & 63));
	if (w->partitioned)
		keep_partitions(q);
	if (w->ties)
		keep_tied(q, w->ties, allowed);
}

static void look_at_nics(struct few *q)
{
	const struct search *s = q->s;

	q->want = s->w->vfs ? s->w->vfs : s->w->gpus * s->w->vfs_per_gpu;
	memset(q->most, 0, sizeof(q->most));
	memset(q->own, 0, sizeof(q->own));
	memset(q->reach, 0, sizeof(q->reach));
	for (uint64_t left = s->nics; left; left &= left - 1) {
		uint32_t cap = match_cap(s->f, s->w, lowest(left), NO_LIMIT);

		q->own[lowest(left)] = (uint8_t)s->allowed;
		q->most[lowest(left)] = (uint16_t)(cap < q->want ? cap : q->want);
	}
	for (uint64_t gpus = s->allowed; gpus; gpus &= gpus - 1)
		for (uint64_t left = s->nics & ~s->w->own[lowest(gpus)]; left; left &= left - 1)
			q->own[lowest(left)] &= (uint8_t)~(1u << lowest(gpus));
}

/* Each group becomes two: sets with all of the GPUs or not. False: there would be too many. */
static bool split(struct few *q, uint32_t gpus, uint64_t without, uint64_t forced)
{
	struct sets has = with_all(gpus);

	for (uint32_t i = 0, n = q->ngroups; i < n; i++) {
		struct group *g = &q->group[i];
		struct sets not = but_not(g->sets, has);

		g->sets = both(g->sets, has);
		if (!any(not)) {
			g->forced |= forced;
		} else if (!any(g->sets)) {
			*g = (struct group){ not, g->nics & ~without, g->forced };
		} else {
			if (q->ngroups == GROUPS_MAX)
				return false;
			q->group[q->ngroups++] = (struct group){ not, g->nics & ~without, g->forced };
			g->forced |= forced;
		}
	}
	return true;
}

/* By what ties say of NICs. A NIC that needs another one is looked at when a set was chosen. */
static bool make_groups(struct few *q)
{
	const struct search *s = q->s;
	const struct solve_ties *t = s->w->ties;
	uint64_t left = t ? s->nics : 0;
	bool can = true;

	q->group[0] = (struct group){ q->can, UINT64_MAX, 0 };
	q->ngroups = 1;
	for (; left && can; left &= left - 1) {
		q->loose = q->loose || t->nic_nics[lowest(left)];
		can = !t->nic_gpus[lowest(left)] || split(q, (uint32_t)(t->nic_gpus[lowest(left)] & ALL), left & -left, 0);
	}
	for (uint64_t gpus = t ? s->allowed : 0; gpus && can; gpus &= gpus - 1)
		if (t->gpu_nics[lowest(gpus)])
			can = split(q, 1u << lowest(gpus), 0, t->gpu_nics[lowest(gpus)]);
	for (uint32_t i = 0; i < q->ngroups; i++)
		q->loose = q->loose || (!s->w->vfs && count(s->w->needed | q->group[i].forced) > SERVED_MAX);
	return can;
}

/* Devices are on so many nodes that not all choices of them are looked at. As long as each has room enough, only how many are
 * touched counts. */
static void count_nodes(struct few *q)
{
	const struct solve_want *w = q->s->w;
	uint64_t nodes = q->s->h->nnodes < SOLVE_NODES_MAX ? (UINT64_C(1) << q->s->h->nnodes) - 1 : UINT64_MAX;
	uint32_t most = w->cells ? w->cells : w->gpus < q->s->h->nnodes ? w->gpus : q->s->h->nnodes;

	q->many_nodes = true;
	q->nchoices = 0;
	q->fits = every();
	for (uint32_t n = w->any_nodes ? 0 : w->cells; n && n < SOLVE_FEW; n++)
		q->fits = but_not(q->fits, q->h->spans[n + 1]);
	q->loose = q->loose || (!w->any_nodes && (nodes & ~w->nodes || most > q->s->h->nnodes));
	for (uint32_t n = w->cells ? w->cells : 1; n <= most && !q->loose && !w->any_nodes; n++)
		q->loose = nodes & ~(w->memory.base[n] & w->memory.more[n] & w->cpus.base[n] & w->cpus.more[n]);
}

/* Which nodes the devices can be on. */
static void choose_nodes(struct few *q)
{
	const struct search *s = q->s;
	uint32_t node[NODES_MAX], n = 0;

	for (uint32_t i = 0; i < s->h->nnodes; i++) {
		uint32_t gpus = q->h->on_node[i] & (uint32_t)s->allowed;

		if (!gpus && !(s->vfs && (s->h->on_node[i] & s->nics)))
			continue;
		if (n == NODES_MAX) {
			count_nodes(q);
			return;
		}
		q->home[n] = with_any(gpus);
		node[n++] = i;
	}
	q->nchoices = 1u << n;
	q->fits = none();
	for (uint32_t bits = 0; bits < q->nchoices; bits++) {
		struct choice *c = &q->choice[bits];
		uint64_t nodes = 0;

		*c = (struct choice){ .nics = s->h->on_node[SOLVE_NODES_MAX], .exactly = q->can, .within = q->can };
		for (uint32_t i = 0; i < n; i++) {
			if (!(bits >> i & 1)) {
				c->exactly = but_not(c->exactly, q->home[i]);
				c->within = but_not(c->within, q->home[i]);
				continue;
			}
			nodes |= UINT64_C(1) << node[i];
			c->nics |= s->h->on_node[node[i]];
			c->exactly = both(c->exactly, q->home[i]);
		}
		c->cells = any(c->within) ? count(solve_nodes(s->h, s->w, nodes)) : 0;
		q->fits = c->cells ? either(q->fits, c->exactly) : q->fits;
		q->most_cells = c->cells > q->most_cells ? c->cells : q->most_cells;
		for (uint32_t i = 0; i < bits && c->cells && !q->gaps; i++)
			q->gaps = !(i & ~bits) && !q->choice[i].cells && any(q->choice[i].within);
	}
}

/* The least path at which any of them can; then those; false: none can. Or as far as bits can tell: not exact then. */
static bool find_path(struct few *q, struct bound *b)
{
	for (; b->path <= q->s->w->max_path; b->path++) {
		struct sets some;

		if (!q->exact)
			return true;
		if (!few_see_level(q, b->path, WIDEST_LAST) || !q->changed)
			continue;
		q->loose = q->loose || (q->crosses && (q->gaps || q->many_nodes));
		some = within(q, NO_LIMIT, UINT32_MAX);
		if (!any(some))
			continue;
		q->can = some;
		return true;
	}
	return false;
}

/* At the last rank they reach what find_path() saw. */
static void find_width(struct few *q, struct bound *b)
{
	bool first = true;

	for (uint64_t ranks = q->s->h->ranks; ranks; ranks &= ranks - 1, first = false) {
		bool can;
		struct sets some;

		b->width = lowest(ranks);
		can = few_see_level(q, b->path, b->width);
		if (!(ranks & (ranks - 1)) || (first && !q->changed))
			return;
		if (!can || !q->changed)
			continue;
		some = within(q, NO_LIMIT, UINT32_MAX);
		if (any(some)) {
			q->can = some;
			return;
		}
	}
}

static uint32_t find_gpu_path(struct few *q)
{
	uint32_t c = 0;

	while (!any(both(q->can, q->h->close[c])))
		c++;
	q->can = both(q->can, q->h->close[c]);
	return c;
}

/* By the fewest nodes that a set can be on. */
static void count_touched(struct few *q, struct bound *b)
{
	struct sets by[SOLVE_NODES_MAX + 1];
	uint64_t seen = 0;

	b->nodes = q->s->w->cells;
	if (b->nodes && !q->s->w->any_nodes)
		return;
	for (uint32_t i = 0; i < 4; i++)
		for (uint64_t left = q->can.w[i]; left; left &= left - 1) {
			uint32_t n = q->crosses ? few_touched(q, 64 * i + lowest(left)) : 0;

			for (uint32_t k = 0; !n; k++)
				n = q->h->spans[k].w[i] >> lowest(left) & 1 ? k + !k : 0;
			if (n > SOLVE_NODES_MAX - 1)
				continue;
			by[n] = seen >> n & 1 ? by[n] : none();
			by[n].w[i] |= left & -left;
			seen |= UINT64_C(1) << n;
		}
	b->nodes = seen ? lowest(seen) : 1;
	q->can = seen ? by[b->nodes] : none();
}

static void find_nodes(struct few *q, struct bound *b)
{
	if (q->many_nodes) {
		few_set_limit(q, NO_LIMIT);
		count_touched(q, b);
		return;
	}
	struct sets some = none();

	for (b->nodes = 0; !any(some);) {
		uint32_t next = UINT32_MAX;

		for (uint32_t c = 0; c < q->nchoices; c++)
			if (q->choice[c].cells > b->nodes && q->choice[c].cells < next)
				next = q->choice[c].cells;
		b->nodes = next;
		if (next == q->most_cells) /* all can */
			return;
		for (uint32_t c = 0; c < q->nchoices && !q->crosses; c++)
			some = q->choice[c].cells == next ? either(some, both(q->can, q->choice[c].exactly)) : some;
		if (q->crosses)
			some = within(q, NO_LIMIT, next);
	}
	q->can = some;
}

/* The least sharing: no less than `least`, no more than all NICs can do. */
static void find_sharing(struct few *q, struct bound *b, uint32_t least)
{
	uint32_t most = least;
	struct sets some = within(q, least, b->nodes);

	for (uint64_t left = any(some) ? 0 : q->s->nics; left; left &= left - 1) {
		uint32_t n = lowest(left), full = q->s->f->load[n] + q->most[n];

		most = q->reach[n] && full > most ? full : most;
	}
	if (!any(some))
		some = q->can; /* at most */
	while (most - least > 1) {
		uint32_t half = least + (most - least) / 2;
		struct sets with_half = within(q, half, b->nodes);

		if (any(with_half)) {
			most = half;
			some = with_half;
		} else {
			least = half;
		}
	}
	b->limit = most;
	q->can = some;
}

/* Of sets that are worth the same up to here. */
static uint32_t pick(const struct few *q, uint32_t *lost, uint32_t *wear)
{
	uint32_t free = (uint32_t)q->s->f->gpus, best = 0;

	for (uint32_t w = 0; w < 4; w++)
		for (uint64_t left = q->can.w[w]; left; left &= left - 1) {
			uint32_t set = 64 * w + lowest(left), l = q->h->lost[free & ~set], sum = q->h->worn[set];

			if (best && l > *lost)
				continue;
			if (best && l == *lost && (sum > *wear || (sum == *wear && !comes_before(set, best))))
				continue;
			best = set;
			*lost = l;
			*wear = sum;
		}
	return best;
}

/* Those that may be as good as the best so far, level by level. */
static void try_all(struct few *q, uint32_t path)
{
	struct search *s = q->s;
	struct sets tried = none();

	for (; path <= s->w->max_path; path++)
		for (uint64_t ranks = s->vfs ? s->h->ranks : 1; ranks; ranks &= ranks - 1) {
			struct sets some;

			if (!search_may_beat(s, path, lowest(ranks)))
				return;
			if (s->vfs && !few_see_level(q, path, lowest(ranks)))
				continue;
			some = but_not(within(q, NO_LIMIT, UINT32_MAX), tried);
			tried = either(tried, some);
			for (uint32_t w = 0; w < 4; w++)
				for (uint64_t left = some.w[w]; left; left &= left - 1)
					search_try(s, 64 * w + lowest(left), path, lowest(ranks));
			if (!s->vfs)
				return;
		}
}

/* The best of those that are worth the same up to here; 0: bits said more of each than it can do. */
static uint32_t choose(struct few *q, struct bound b, uint32_t *lost, uint32_t *wear)
{
	uint32_t gpus;

	while ((gpus = pick(q, lost, wear)) && q->loose && !search_holds(q->s, gpus, b))
		q->can.w[gpus >> 6] &= ~(UINT64_C(1) << (gpus & 63));
	return gpus;
}

/* Set by set, of those that were asked for. */
static void try_sets(struct few *q, struct sets asked, uint32_t path)
{
	search_rank(q->s, q->s->allowed, q->s->w->max_path);
	q->can = asked;
	q->exact = false;
	q->fits = every();
	try_all(q, path);
}

void search_few(struct search *s)
{
	struct few q;
	struct bound b = { .nodes = UINT32_MAX, .limit = NO_LIMIT };
	struct score score = { 0 };
	struct sets asked;
	uint32_t gpus;

	q.s = s;
	q.h = s->h->few;
	q.limit = q.most_cells = 0;
	q.may = q.gaps = q.loose = q.crosses = q.many_nodes = false;
	keep_asked(&q);
	look_at_nics(&q);
	asked = q.can;
	q.exact = make_groups(&q);
	if (q.exact)
		choose_nodes(&q);
	if (!q.exact)
		q.fits = every();
	if (!q.exact)
		q.group[0] = (struct group){ q.can, UINT64_MAX, 0 };
	q.ngroups = q.exact ? q.ngroups : 1;
	if (s->vfs && !find_path(&q, &b))
		return;
	if (!q.exact) {
		try_sets(&q, asked, b.path);
		return;
	}
	if (s->vfs)
		find_width(&q, &b);
	else
		q.can = within(&q, NO_LIMIT, UINT32_MAX);
	if (!any(q.can))
		return;
	score.term[SCORE_GPU_PATH] = find_gpu_path(&q);
	find_nodes(&q, &b);
	if (s->vfs)
		find_sharing(&q, &b, s->floor.term[SCORE_SHARING]);
	gpus = choose(&q, b, &score.term[SCORE_LEFTOVER], &score.term[SCORE_WEAR]);
	if (!gpus) {
		try_sets(&q, asked, b.path);
		return;
	}
	score.term[SCORE_PATH] = b.path;
	score.term[SCORE_BANDWIDTH] = b.width;
	score.term[SCORE_NODES] = b.nodes;
	score.term[SCORE_SHARING] = b.limit == NO_LIMIT ? 0 : b.limit;
	search_found(s, gpus, &score, b);
}
