/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The search on hosts of up to eight GPUs, for all 256 sets of them at once: term by term, the least bound is taken that leaves
 * any. What bits cannot say (NICs that need other NICs, nodes that have not the same room, many nodes) they leave out; then
 * what is chosen is matched before it is taken, and if no set holds, all are asked one by one. */
#include "plan/few.h"

#include <string.h>

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

/* The least path at which any of them can; then those; false: none can. Or as far as bits can tell: not exact then. */
static bool find_path(struct few *q, struct bound *b)
{
	for (; b->path <= q->s->w->max_path; b->path++) {
		struct sets some;

		if (!q->exact)
			return true;
		if (!few_see_level(q, b->path, WIDEST_LAST) || !q->changed)
			continue;
		q->loose = q->loose || (q->crosses && (q->gaps || q->many));
		some = few_within(q, NO_LIMIT, UINT32_MAX);
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
		some = few_within(q, NO_LIMIT, UINT32_MAX);
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

/* The least sharing: no less than `least`, no more than all NICs can do. */
static void find_sharing(struct few *q, struct bound *b, uint32_t least)
{
	uint32_t most = least;
	struct sets some = few_within(q, least, b->nodes);

	for (uint64_t left = any(some) ? 0 : q->s->nics; left; left &= left - 1) {
		uint32_t n = lowest(left), full = q->s->f->load[n] + q->most[n];

		most = q->reach[n] && full > most ? full : most;
	}
	if (!any(some))
		some = q->can; /* at most */
	while (most - least > 1) {
		uint32_t half = least + (most - least) / 2;
		struct sets with_half = few_within(q, half, b->nodes);

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
			some = but_not(few_within(q, NO_LIMIT, UINT32_MAX), tried);
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
	q.may = q.alike = q.gaps = q.loose = q.crosses = q.many = q.short_room = false;
	keep_asked(&q);
	look_at_nics(&q);
	asked = q.can;
	q.exact = make_groups(&q);
	if (q.exact)
		few_choose_nodes(&q);
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
		q.can = few_within(&q, NO_LIMIT, UINT32_MAX);
	if (!any(q.can))
		return;
	score.term[SCORE_GPU_PATH] = find_gpu_path(&q);
	few_find_nodes(&q, &b);
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
