/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The search on hosts of up to eight GPUs, for all 256 sets of them at once. Which sets can have their VFs within a bound
 * is Hall's theorem (each GPU its own), or a cover by few NICs (VFs for all together); term by term, the least bound is
 * taken that leaves any. What bits cannot say (ties of NICs, memory that only more nodes have) is asked set by set, of
 * those that the bits leave. */
#include "plan/search.h"

#include <string.h>

#include "plan/sets.h"

#define NODES_MAX   4 /* that devices are on */
#define CHOICES_MAX (1 << NODES_MAX)

struct choice { /* nodes that the devices may be on */
	uint64_t    nics;
	uint32_t    cells;           /* of a guest there; 0: it does not fit */
	struct sets exactly, within; /* whose GPUs are on all of them, on none but them */
};

struct few {
	struct search       *s;
	const struct solve_few *h;
	struct sets   can;                   /* that are still in the race */
	uint8_t       own[SOLVE_NICS_MAX];   /* by NIC: GPUs that may have its VFs ... */
	uint8_t       reach[SOLVE_NICS_MAX]; /* ... within path and width at hand */
	uint16_t      most[SOLVE_NICS_MAX];  /* VFs that it can give */
	uint32_t      given;                 /* VFs that are needed of NICs */
	bool          crosses, changed;      /* some reach NICs on other nodes; not the same as at the level before */
	struct sets   home[NODES_MAX];       /* with a GPU on the node */
	struct choice choice[CHOICES_MAX];   /* by bits: of the nodes that there are */
	uint32_t      nchoices;
	bool          gaps;                  /* a guest may fit only if one of its NICs is elsewhere */
	bool          exact;                 /* bits say all there is */
	bool          vfs_seen;              /* all that can have VFs within path and width, on the nodes that they are on */
};

/* ---- VFs within a bound ------------------------------------------------------------------------- */

/* A number for each of the 256 sets: four to a word, by the GPUs 4 and 5. Sums may be below 0 on the way, not in the end. */
#define WORDS 64
#define ZERO  UINT64_C(0x8000)
#define ONES  UINT64_C(0x0001000100010001)
#define BYTES UINT64_C(0x0101010101010101)
#define APART_MAX 4 /* more GPUs that share NICs, and all sets at once are faster */

static const uint64_t lanes_in[4] = { 1, UINT64_C(0x10001), UINT64_C(0x100000001), ONES };

/* To all sets of these GPUs. */
static inline void add(uint64_t *v, uint32_t gpus, uint64_t n)
{
	v[(gpus & 15) | gpus >> 6 << 4] += n * lanes_in[gpus >> 4 & 3];
}

static inline void fold(uint64_t *v, uint32_t half)
{
	for (uint32_t at = 0; at < WORDS; at += 2 * half)
		for (uint32_t i = 0; i < half; i++)
			v[at + i] += v[at + half + i];
}

static inline uint32_t cap_of(const struct few *q, uint32_t n, uint32_t limit)
{
	uint32_t load = q->s->f->load[n], cap = q->most[n];

	if (limit < load + cap)
		cap = limit > load ? limit - load : 0;
	return cap;
}

/* GPUs that a set with too few VFs might consist of. Not one whose NICs have enough for it and all that share a NIC with it:
 * without those the set would have too few still. In bytes, by GPU. */
static uint32_t tight(const struct few *q, uint64_t nics, uint32_t limit, uint32_t each, uint32_t vfs, uint64_t *with_whom)
{
	uint64_t caps = 0, shares = 0;
	uint32_t most = 255 / (count(nics) + 1), ret = 0;

	for (; nics; nics &= nics - 1) {
		uint32_t n = lowest(nics), cap = cap_of(q, n, limit);
		uint64_t gpus = (q->reach[n] * BYTES & UINT64_C(0x8040201008040201)) + UINT64_C(0x7f7f7f7f7f7f7f7f);

		gpus = gpus >> 7 & BYTES;
		caps += gpus * (cap < most ? cap : most);
		shares |= gpus * q->reach[n];
	}
	*with_whom = shares |= UINT64_C(0x8040201008040201);
	shares -= shares >> 1 & UINT64_C(0x5555555555555555); /* how many: by pairs, fours, bytes */
	shares = (shares & UINT64_C(0x3333333333333333)) + (shares >> 2 & UINT64_C(0x3333333333333333));
	shares = (shares + (shares >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	for (uint32_t g = 0; g < SOLVE_FEW; g++) {
		uint32_t with = shares >> (8 * g) & ALL, want = with < q->s->w->gpus ? with : q->s->w->gpus;

		ret |= (uint32_t)((caps >> (8 * g) & ALL) < (vfs ? vfs : want * each)) << g;
	}
	return ret & (uint32_t)q->s->allowed;
}

/* Sets whose NICs have `vfs`, and `each` for each GPU. */
static struct sets have_enough(const struct few *q, uint64_t nics, uint32_t limit, uint32_t each, uint32_t vfs)
{
	uint64_t v[WORDS] = { 0 }, total = 0;
	struct sets ret;

	for (; nics; nics &= nics - 1) {
		uint32_t cap = cap_of(q, lowest(nics), limit);

		total += cap;
		add(v, ALL & ~(uint32_t)q->reach[lowest(nics)], -(uint64_t)cap);
	}
	for (uint32_t g = 0; g < SOLVE_FEW && each; g++)
		add(v, ALL & ~(1u << g), each);
	add(v, ALL, ZERO + total - (uint64_t)(SOLVE_FEW * each + vfs));
	fold(v, 1);
	fold(v, 2);
	fold(v, 4);
	fold(v, 8);
	fold(v, 16);
	fold(v, 32);
	for (uint32_t w = 0; w < 4; w++) {
		ret.w[w] = 0;
		for (uint32_t i = 16; i-- > 0;)
			ret.w[w] = ret.w[w] << 1 | (v[16 * w + i] >> 15 & ONES);
	}
	return ret;
}

/* Of GPUs that share NICs with none but each other, the sets that have too few; and all with such a set in them. */
static struct sets too_few(const struct few *q, uint64_t nics, uint32_t limit, uint32_t each, uint32_t gpus)
{
	uint32_t cap[SOLVE_NICS_MAX], reach[SOLVE_NICS_MAX], n = 0;
	struct sets ret = none();

	for (; nics; nics &= nics - 1)
		if (q->reach[lowest(nics)] & gpus) {
			reach[n] = q->reach[lowest(nics)];
			cap[n++] = cap_of(q, lowest(nics), limit);
		}
	for (uint32_t some = gpus & -gpus; some; some = (some - gpus) & gpus) {
		uint32_t have = 0;

		if (ret.w[some >> 6] >> (some & 63) & 1)
			continue;
		for (uint32_t i = 0; i < n; i++)
			have += reach[i] & some ? cap[i] : 0;
		if (have < count(some) * each)
			ret = either(ret, with_all(some));
	}
	return ret;
}

/* Sets of which each GPU can have its own. */
static struct sets have_own(const struct few *q, uint64_t nics, uint32_t limit)
{
	uint64_t shares;
	uint32_t each = q->s->w->vfs_per_gpu, left = tight(q, nics, limit, each, 0, &shares);
	struct sets bad = none();

	while (left) {
		uint32_t apart = left & -left, before = 0;

		for (; before != apart; apart &= left) {
			before = apart;
			for (uint32_t gpus = apart; gpus; gpus &= gpus - 1)
				apart |= shares >> (8 * lowest(gpus)) & ALL;
		}
		if (count(apart) > APART_MAX)
			return but_not(every(), with_more(but_not(every(), have_enough(q, nics, limit, each, 0)), ALL));
		bad = either(bad, too_few(q, nics, limit, each, apart));
		left &= ~apart;
	}
	return but_not(every(), bad);
}

/* Sets of which each GPU is near to one of some NICs, `left` at most, or to one of `done`. */
static struct sets covered(const struct few *q, uint64_t nics, uint32_t limit, uint32_t left, uint32_t done)
{
	struct sets ret = with_more((struct sets){ { 1 } }, done);
	uint8_t reach[SOLVE_NICS_MAX];
	uint32_t n = 0;

	for (; nics; nics &= nics - 1) {
		uint32_t gpus = q->reach[lowest(nics)], i = 0;

		if (q->s->f->load[lowest(nics)] >= limit)
			continue;
		while (i < n && (gpus & ~reach[i]))
			i++;
		if (i == n)
			reach[n++] = (uint8_t)gpus;
	}
	for (struct sets before = none(); left && memcmp(&before, &ret, sizeof(ret)) != 0; left--) {
		before = ret;
		for (uint32_t i = 0; i < n; i++)
			ret = either(ret, with_more(before, reach[i]));
	}
	return ret;
}

static struct sets with_vfs(const struct few *q, uint64_t nics, uint32_t limit)
{
	const struct solve_want *w = q->s->w;
	struct sets ret = every();
	uint64_t shares;
	uint32_t done = 0;

	for (uint64_t left = w->needed; left; left &= left - 1) {
		uint32_t n = lowest(left), load = q->s->f->load[n];

		if (!(nics >> n & 1) || q->most[n] < w->need[n] || limit < load + w->need[n])
			return none();
		done |= q->reach[n];
		ret = both(ret, at_least(q->reach[n], w->vfs ? 1 : (w->need[n] + w->vfs_per_gpu - 1) / w->vfs_per_gpu));
	}
	if (w->needed && !w->vfs) /* of two NICs; more are not looked at here */
		ret = both(ret, at_least(done, (q->given + w->vfs_per_gpu - 1) / w->vfs_per_gpu));
	if (w->vfs && w->vfs < q->given)
		return none();
	if (!w->vfs)
		return both(ret, have_own(q, nics, limit));
	if (tight(q, nics, limit, 0, w->vfs, &shares))
		ret = both(ret, have_enough(q, nics, limit, 0, w->vfs));
	return both(ret, covered(q, nics, limit, w->vfs - q->given, done));
}

/* Of those that can, the ones that can within this; with no more cells than that. */
static struct sets within(const struct few *q, uint32_t limit, uint32_t cells)
{
	struct sets ret = none(), all = q->can;
	uint32_t done[CHOICES_MAX], n = 0;

	if (q->s->vfs && !(q->exact && q->crosses) && !(q->vfs_seen && limit == NO_LIMIT))
		all = both(all, with_vfs(q, q->s->nics, limit));
	if (!q->exact)
		return all;
	for (uint32_t c = q->nchoices; c-- > 0;) {
		struct sets some = both(all, q->crosses ? q->choice[c].within : q->choice[c].exactly);
		uint32_t i = 0;

		if (!q->choice[c].cells || q->choice[c].cells > cells || !any(but_not(some, ret)))
			continue;
		while (q->crosses && i < n && (c & ~done[i]))
			i++;
		if (i < n) /* no better than with more nodes */
			continue;
		if (q->crosses) {
			some = both(some, with_vfs(q, q->s->nics & q->choice[c].nics, limit));
			done[n++] = c;
		}
		ret = either(ret, some);
	}
	return ret;
}

/* ---- the race ----------------------------------------------------------------------------------- */

/* False: too few GPUs reach any NIC; changed: they do not reach the same as before. */
static bool see_level(struct few *q, uint32_t path, uint32_t width)
{
	uint32_t crossing = 0, all = 0, differ = 0;

	for (uint64_t left = q->s->nics; left; left &= left - 1) {
		uint32_t n = lowest(left), reach = q->own[n] & q->h->near[path][n] & q->h->wide[width][n];

		differ |= reach ^ q->reach[n];
		all |= reach;
		crossing |= reach & ~(uint32_t)q->h->home[n];
		q->reach[n] = (uint8_t)reach;
	}
	q->crosses = crossing != 0;
	q->changed = differ != 0;
	return count(all) >= q->s->w->gpus;
}

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
	for (; allowed; allowed &= allowed - 1)
		if (t->gpu_gpus[lowest(allowed)])
			q->can = but_not(q->can, but_not(with(lowest(allowed)), with_all((uint32_t)(t->gpu_gpus[lowest(allowed)] & ALL))));
}

/* What GPUs by themselves say. */
static void keep_asked(struct few *q)
{
	const struct solve_want *w = q->s->w;
	uint32_t allowed = (uint32_t)q->s->allowed;

	q->can = but_not(q->h->of_size[w->gpus], with_any(ALL & ~allowed));
	q->can = both(q->can, both(q->h->close[w->max_gpu_path], with_all((uint32_t)w->required)));
	for (uint32_t i = 0; i < w->nhall; i++)
		q->can = both(q->can, at_least((uint32_t)(w->hall[i] & ALL), w->hall_need[i]));
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

	for (uint64_t left = s->nics; left; left &= left - 1) {
		uint32_t cap = match_cap(s->f, s->w, lowest(left), NO_LIMIT);

		q->own[lowest(left)] = (uint8_t)s->allowed;
		q->most[lowest(left)] = (uint16_t)(cap < SOLVE_VFS_MAX ? cap : SOLVE_VFS_MAX);
	}
	for (uint64_t gpus = s->allowed; gpus; gpus &= gpus - 1)
		for (uint64_t left = s->nics & ~s->w->own[lowest(gpus)]; left; left &= left - 1)
			q->own[lowest(left)] &= (uint8_t)~(1u << lowest(gpus));
	for (uint64_t left = s->w->needed; left; left &= left - 1)
		q->given += s->w->need[lowest(left)];
}

/* Which nodes the devices can be on; false: there are too many to look at all of them. */
static bool choose_nodes(struct few *q)
{
	const struct search *s = q->s;
	uint32_t node[NODES_MAX], n = 0;

	for (uint32_t i = 0; i < s->h->nnodes; i++) {
		uint32_t gpus = q->h->on_node[i] & (uint32_t)s->allowed;

		if (!gpus && !(s->vfs && (s->h->on_node[i] & s->nics)))
			continue;
		if (n == NODES_MAX)
			return false;
		q->home[n] = with_any(gpus);
		node[n++] = i;
	}
	q->nchoices = 1u << n;
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
		for (uint32_t i = 0; i < bits && c->cells && !q->gaps; i++)
			q->gaps = !(i & ~bits) && !q->choice[i].cells && any(q->choice[i].within);
	}
	return true;
}

/* The least path at which any of them can; then those; false: none can. Or as far as bits can tell: not exact then. */
static bool find_path(struct few *q, struct bound *b)
{
	for (; b->path <= q->s->w->max_path; b->path++) {
		struct sets some;

		if (!q->exact)
			return true;
		if (!see_level(q, b->path, WIDEST_LAST) || !q->changed)
			continue;
		q->exact = !(q->crosses && q->gaps);
		if (!q->exact)
			return true;
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
	for (uint64_t ranks = q->s->h->ranks; ranks; ranks &= ranks - 1) {
		struct sets some;

		b->width = lowest(ranks);
		if (!see_level(q, b->path, b->width) || !(ranks & (ranks - 1)))
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

static void find_nodes(struct few *q, struct bound *b)
{
	for (b->nodes = 0;;) {
		uint32_t next = UINT32_MAX;
		struct sets some;

		for (uint32_t c = 0; c < q->nchoices; c++)
			if (q->choice[c].cells > b->nodes && q->choice[c].cells < next)
				next = q->choice[c].cells;
		b->nodes = next;
		some = within(q, NO_LIMIT, next);
		if (any(some)) {
			q->can = some;
			return;
		}
	}
}

/* VFs of all NICs at hand. */
static uint32_t have_all(const struct few *q, uint32_t limit)
{
	uint32_t have = 0;

	for (uint64_t left = q->s->nics; left; left &= left - 1)
		have += q->reach[lowest(left)] ? cap_of(q, lowest(left), limit) : 0;
	return have;
}

/* The least sharing lies between no less than `least`, and what all NICs can do. */
static void find_sharing(struct few *q, struct bound *b, uint32_t least)
{
	uint32_t most = least, vfs = q->s->w->vfs ? q->s->w->vfs : q->s->w->gpus * q->s->w->vfs_per_gpu;
	struct sets some;

	for (uint64_t left = q->s->nics; left; left &= left - 1) {
		uint32_t n = lowest(left), full = q->s->f->load[n] + q->most[n];

		most = q->reach[n] && full > most ? full : most;
	}
	while (least < most && have_all(q, least) < vfs)
		least++;
	some = within(q, least, b->nodes);
	if (any(some))
		most = least;
	else
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
			see_level(q, path, lowest(ranks));
			some = but_not(within(q, NO_LIMIT, UINT32_MAX), tried);
			tried = either(tried, some);
			for (uint32_t w = 0; w < 4; w++)
				for (uint64_t left = some.w[w]; left; left &= left - 1)
					search_try(s, 64 * w + lowest(left), path, lowest(ranks));
			if (!s->vfs)
				return;
		}
}

void search_few(struct search *s)
{
	struct few q = { .s = s, .h = s->h->few };
	struct bound b = { .nodes = UINT32_MAX, .limit = NO_LIMIT };
	struct score score = { 0 };
	uint32_t gpus;

	keep_asked(&q);
	look_at_nics(&q);
	q.exact = choose_nodes(&q) && !s->w->ties && count(s->w->needed) < (s->w->vfs ? SOLVE_NICS_MAX : 3);
	if (s->vfs && !find_path(&q, &b))
		return;
	if (!q.exact) {
		search_rank(s, s->allowed);
		try_all(&q, b.path);
		return;
	}
	if (s->vfs)
		find_width(&q, &b);
	else
		q.can = within(&q, NO_LIMIT, UINT32_MAX);
	if (!any(q.can))
		return;
	q.vfs_seen = true;
	score.term[SCORE_GPU_PATH] = find_gpu_path(&q);
	find_nodes(&q, &b);
	if (s->vfs)
		find_sharing(&q, &b, s->floor.term[SCORE_SHARING]);
	gpus = pick(&q, &score.term[SCORE_LEFTOVER], &score.term[SCORE_WEAR]);
	score.term[SCORE_PATH] = b.path;
	score.term[SCORE_BANDWIDTH] = b.width;
	score.term[SCORE_NODES] = b.nodes;
	score.term[SCORE_SHARING] = b.limit == NO_LIMIT ? 0 : b.limit;
	search_found(s, gpus, &score, b);
}
