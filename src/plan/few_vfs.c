/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which of the 256 sets of up to eight GPUs can have their VFs within a path class, a rank and a limit: Hall's theorem (each
 * GPU its own), or a cover by few NICs (VFs for all together). */
#include "plan/few.h"

#include <string.h>

#define BYTES UINT64_C(0x0101010101010101)

/* A number for each of the 256 sets: in bytes, sixteen to a vector, by the GPUs 3 to 6; where these are too small, eight to a
 * vector, by the GPUs 4 to 6. Sums may be below 0 on the way, not in the end. */
typedef uint8_t  small __attribute__((vector_size(16)));
typedef uint16_t numbers __attribute__((vector_size(16)));
#define SMALL_MOST 127
#define TIGHT_MAX  3 /* more GPUs, and all sets at once are faster */

#define IN(set, lane)    ((lane) & ~(set) ? 0 : UINT16_MAX)
#define EIGHT(set, from) IN(set, from), IN(set, from + 1), IN(set, from + 2), IN(set, from + 3), \
			 IN(set, from + 4), IN(set, from + 5), IN(set, from + 6), IN(set, from + 7)
#define BYTE(set, lane)    ((lane) & ~(set) ? 0 : UINT8_MAX)
#define FOUR(set, from)    BYTE(set, from), BYTE(set, from + 1), BYTE(set, from + 2), BYTE(set, from + 3)
#define SIXTEEN(set)       { FOUR(set, 0), FOUR(set, 4), FOUR(set, 8), FOUR(set, 12) }

static const numbers lanes_in[8] = { { EIGHT(0, 0) }, { EIGHT(1, 0) }, { EIGHT(2, 0) }, { EIGHT(3, 0) },
				     { EIGHT(4, 0) }, { EIGHT(5, 0) }, { EIGHT(6, 0) }, { EIGHT(7, 0) } };
static const small small_in[16] = { SIXTEEN(0), SIXTEEN(1), SIXTEEN(2), SIXTEEN(3), SIXTEEN(4), SIXTEEN(5), SIXTEEN(6), SIXTEEN(7),
				    SIXTEEN(8), SIXTEEN(9), SIXTEEN(10), SIXTEEN(11), SIXTEEN(12), SIXTEEN(13), SIXTEEN(14), SIXTEEN(15) };
static const numbers missing = { 3, 2, 2, 1, 2, 1, 1, 0 }; /* GPUs of a vector that are not in */
static const small small_missing = { 4, 3, 3, 2, 3, 2, 2, 1, 3, 2, 2, 1, 2, 1, 1, 0 };

/* Each of sixteen becomes the sum of those with all GPUs that it has; a bit for each that is not below 0x8000. */
static inline numbers sum_up(const numbers *v)
{
	numbers sum[16], signs = { 0 };

#pragma GCC unroll 16
	for (uint32_t i = 0; i < 16; i++)
		sum[i] = v[i];
#pragma GCC unroll 4
	for (uint32_t half = 1; half < 16; half *= 2)
#pragma GCC unroll 16
		for (uint32_t i = 0; i < 16; i++)
			if (!(i & half))
				sum[i] += sum[i | half];
#pragma GCC unroll 16
	for (uint32_t i = 16; i-- > 0;)
		signs = signs << 1 | sum[i] >> 15;
	return signs;
}

/* The same of bytes: those not below 0x80. */
static inline void sum_up_small(small signs[2], const small *v)
{
	small sum[16];

	signs[0] = signs[1] = (small){ 0 };
#pragma GCC unroll 16
	for (uint32_t i = 0; i < 16; i++)
		sum[i] = v[i];
#pragma GCC unroll 4
	for (uint32_t half = 1; half < 16; half *= 2)
#pragma GCC unroll 16
		for (uint32_t i = 0; i < 16; i++)
			if (!(i & half))
				sum[i] += sum[i | half];
#pragma GCC unroll 8
	for (uint32_t i = 8; i-- > 0;) {
		signs[0] += signs[0] - (small)((int8_t __attribute__((vector_size(16))))sum[i] < 0);
		signs[1] += signs[1] - (small)((int8_t __attribute__((vector_size(16))))sum[8 + i] < 0);
	}
}

static inline uint64_t bytes(const uint8_t *p)
{
	uint64_t ret;

	memcpy(&ret, p, sizeof(ret));
	return ret;
}

/* cap: what the NICs can give so that none has more than the limit. Eight at once. */
void few_set_limit(struct few *q, uint32_t limit)
{
	for (uint32_t n = 0; n < q->s->h->nnics && q->limit != limit; n += 8) {
		numbers load, most, cap;

		memcpy(&load, &q->s->f->load[n], sizeof(load));
		memcpy(&most, &q->most[n], sizeof(most));
		cap = ((uint16_t)limit - load) & (numbers)(load < (uint16_t)limit);
		cap = (cap & (numbers)(cap < most)) | (most & ~(numbers)(cap < most));
		memcpy(&q->cap[n], &cap, sizeof(cap));
	}
	q->limit = limit;
}

static struct sets have_enough_of_many(const struct few *q, uint64_t nics, uint32_t each, uint32_t vfs)
{
	numbers v[32] = { 0 }, signs[2];
	uint32_t total = 0;
	struct sets ret;

	for (; nics; nics &= nics - 1) {
		uint32_t gpus = ALL & ~(uint32_t)q->reach[lowest(nics)];

		total += q->cap[lowest(nics)];
		v[(gpus & 15) | gpus >> 7 << 4] -= lanes_in[gpus >> 4 & 7] & q->cap[lowest(nics)];
	}
	for (uint32_t g = 0; g < 4; g++)
		v[31 & ~(1u << g)] += (uint16_t)each;
	v[15] += (uint16_t)each;
	v[31] += missing * (uint16_t)each + (uint16_t)(0x8000u + total - (SOLVE_FEW * each + vfs));
	for (uint32_t i = 0; i < 16; i++)
		v[i] += v[16 + i];
	signs[0] = sum_up(&v[0]);
	signs[1] = sum_up(&v[16]);
	memcpy(&ret, signs, sizeof(ret));
	return ret;
}

/* Sets whose NICs have `vfs`, and `each` for each GPU. */
static struct sets have_enough(const struct few *q, uint64_t nics, uint32_t each, uint32_t vfs)
{
	uint32_t total = 0;
	small v[16] = { 0 }, signs[2];
	struct sets ret;

	for (uint64_t left = nics; left; left &= left - 1) {
		uint32_t gpus = ALL & ~(uint32_t)q->reach[lowest(left)], cap = q->cap[lowest(left)];

		total += cap;
		v[(gpus & 7) | gpus >> 7 << 3] -= small_in[gpus >> 3 & 15] & (uint8_t)cap;
	}
	if (total > SMALL_MOST)
		return have_enough_of_many(q, nics, each, vfs);
	v[14] += (uint8_t)each;
	v[13] += (uint8_t)each;
	v[11] += (uint8_t)each;
	v[7] += (uint8_t)each;
	v[15] += small_missing * (uint8_t)each + (uint8_t)(0x80 + total - (SOLVE_FEW * each + vfs));
	sum_up_small(signs, v);
	memcpy(&ret, signs, sizeof(ret));
	return ret;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the sets of a lane are bits of a word");

/* From bytes that are 1 or 0, by GPU. */
static inline uint32_t gather(uint64_t gpus)
{
	return (uint32_t)(gpus * UINT64_C(0x0102040810204080) >> 56);
}

/* Whether NICs have as many VFs as a bundle. */
static bool have_all(const struct few *q, uint64_t nics)
{
	const struct solve_want *w = q->s->w;
	uint32_t have = 0, want = w->vfs ? w->vfs : w->gpus * w->vfs_per_gpu;

	for (; nics && have < want; nics &= nics - 1)
		have += q->reach[lowest(nics)] ? q->cap[lowest(nics)] : 0;
	return have >= want;
}

static struct alone look_alone(const struct few *q, uint64_t nics)
{
	const struct solve_want *w = q->s->w;
	uint32_t each = w->vfs ? 1 : w->vfs_per_gpu, all = w->vfs ? w->vfs : w->gpus * w->vfs_per_gpu; /* <= SOLVE_VFS_MAX */
	uint64_t have = 0, full = 0, want;
	struct alone ret;

	for (; nics; nics &= nics - 1) {
		have += (q->h->bytes[q->reach[lowest(nics)]] & ~full) * q->cap[lowest(nics)];
		full |= (have + (128 - all) * BYTES) >> 7 & BYTES;
	}
	want = w->vfs ? all * BYTES : q->sharers * each;
	ret.enough = gather((have + (128 - each) * BYTES) >> 7 & BYTES);
	ret.tight = ret.enough & ~gather(((have | 128 * BYTES) - want) >> 7 & BYTES);
	return ret;
}

/* By GPU, in bytes: those that have some of its NICs, or as many of them as a set has. */
static uint64_t count_sharers(const struct few *q)
{
	uint64_t shares = UINT64_C(0x8040201008040201), set = q->s->w->gpus * BYTES, most;

	for (uint64_t nics = q->s->nics; nics; nics &= nics - 1)
		shares |= q->h->bytes[q->reach[lowest(nics)]] * q->reach[lowest(nics)];
	shares -= shares >> 1 & UINT64_C(0x5555555555555555); /* how many: by pairs, fours, bytes */
	shares = (shares & UINT64_C(0x3333333333333333)) + (shares >> 2 & UINT64_C(0x3333333333333333));
	shares = (shares + (shares >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	most = (((shares | 128 * BYTES) - set) >> 7 & BYTES) * 0xff;
	return (shares & ~most) | (set & most);
}

/* Sets of which each GPU can have its own: none of the sets in it has too few. One of GPUs that are not all tight has not,
 * if it has not without those that share NICs with such a GPU. */
static struct sets have_own(const struct few *q, uint64_t nics, struct alone a)
{
	uint32_t each = q->s->w->vfs_per_gpu;
	struct sets bad = none();

	if (count(a.tight) > TIGHT_MAX)
		return but_not(every(), with_all_more(but_not(every(), have_enough(q, nics, each, 0))));
	for (uint32_t some = a.tight & -a.tight; some; some = (some - a.tight) & a.tight) {
		uint32_t have = 0;

		if (!(some & (some - 1)))
			continue;
		for (uint64_t left = nics; left; left &= left - 1)
			have += q->reach[lowest(left)] & some ? q->cap[lowest(left)] : 0;
		if (have < count(some) * each)
			bad = either(bad, with_all(some));
	}
	return but_not(of_these(a.enough), bad);
}

/* What GPUs some NICs are near to, without what is within that of others; how many. */
static uint32_t widest_reaches(const struct few *q, uint64_t nics, uint32_t done, uint32_t *reach)
{
	uint32_t n = 0;

	for (; nics; nics &= nics - 1) {
		uint32_t gpus = q->reach[lowest(nics)] & ~done, kept = 0, i = 0;

		if (!gpus || !q->cap[lowest(nics)])
			continue;
		while (i < n && (gpus & ~reach[i]))
			i++;
		if (i < n)
			continue;
		for (i = 0; i < n; i++)
			if (reach[i] & ~gpus)
				reach[kept++] = reach[i];
		reach[kept++] = gpus;
		n = kept;
	}
	return n;
}

/* Sets of which each GPU is near to one of some NICs, `left` at most, or to one of `done`. */
static struct sets covered(const struct few *q, uint64_t nics, uint32_t left, uint32_t done)
{
	uint32_t reach[SOLVE_NICS_MAX], n = widest_reaches(q, nics, done, reach), all = done;
	struct sets ret = of_these(done);

	for (uint32_t i = 0; i < n; i++)
		all |= reach[i];
	if (left >= n || left >= q->s->w->gpus)
		return of_these(all);
	for (; left; left--) {
		struct sets before = ret;

		for (uint32_t i = 0; i < n; i++)
			ret = either(ret, with_more(before, reach[i]));
	}
	return ret;
}

/* How many more nodes until their NICs, with others' `have`, have enough; UINT32_MAX: they never do. */
static uint32_t nodes_more(const struct few *q, uint32_t set, uint64_t nics, uint32_t have, uint32_t want)
{
	uint32_t on[SOLVE_NODES_MAX], n = 0;
	uint64_t nodes = 0;

	for (; nics; nics &= nics - 1) {
		uint32_t node = q->s->h->nic_node[lowest(nics)];

		on[node] = (nodes >> node & 1 ? on[node] : 0) + (q->reach[lowest(nics)] & set ? q->cap[lowest(nics)] : 0u);
		nodes |= UINT64_C(1) << node;
	}
	for (; have < want && nodes; n++) {
		uint32_t most = lowest(nodes);

		for (uint64_t left = nodes & (nodes - 1); left; left &= left - 1)
			most = on[lowest(left)] > on[most] ? lowest(left) : most;
		have += on[most];
		nodes &= ~(UINT64_C(1) << most);
	}
	return have < want ? UINT32_MAX : n;
}

uint32_t few_touched(const struct few *q, uint32_t set)
{
	const struct solve_host *h = q->s->h;
	uint32_t want = q->s->w->vfs ? q->s->w->vfs : q->s->w->gpus * q->s->w->vfs_per_gpu, have = 0, n = 0;
	uint64_t home = 0, nics = h->on_node[SOLVE_NODES_MAX];

	for (uint32_t left = set; left; left &= left - 1)
		home |= h->gpu_node[lowest(left)] < h->nnodes ? UINT64_C(1) << h->gpu_node[lowest(left)] : 0;
	for (uint64_t left = q->s->w->needed; left; left &= left - 1)
		home |= h->nic_node[lowest(left)] < h->nnodes ? UINT64_C(1) << h->nic_node[lowest(left)] : 0;
	for (uint64_t left = home; left; left &= left - 1)
		nics |= h->on_node[lowest(left)];
	for (uint64_t left = nics & q->s->nics; left && have < want; left &= left - 1)
		have += q->reach[lowest(left)] & set ? q->cap[lowest(left)] : 0;
	if (have < want)
		n = nodes_more(q, set, q->s->nics & ~nics, have, want);
	return n == UINT32_MAX ? n : count(home) + n ? count(home) + n : 1;
}

static uint32_t need_of(const struct few *q, const struct group *g, uint32_t n)
{
	return q->s->w->needed >> n & 1 ? q->s->w->need[n] : (uint32_t)(g->forced >> n & 1);
}

/* Sets that have GPUs for what NICs must give: Hall's theorem, from the NICs' side. */
static struct sets serve(const struct few *q, const struct group *g)
{
	uint32_t nic[SERVED_MAX], n = 0, each = q->s->w->vfs_per_gpu;
	struct sets ret = every();

	for (uint64_t left = q->s->w->needed | g->forced; left && n < SERVED_MAX; left &= left - 1)
		nic[n++] = lowest(left);
	for (uint32_t some = 1; some < 1u << n; some++) {
		uint32_t gpus = 0, need = 0;

		for (uint32_t left = some; left; left &= left - 1) {
			gpus |= q->reach[nic[lowest(left)]];
			need += need_of(q, g, nic[lowest(left)]);
		}
		ret = both(ret, at_least(gpus, (need + each - 1) / each));
	}
	return ret;
}

static struct sets of_group(const struct few *q, const struct group *g, uint64_t nics)
{
	const struct solve_want *w = q->s->w;
	struct sets ret = every();
	uint32_t done = 0, given = 0;
	struct alone a;

	for (uint64_t left = w->needed | g->forced; left; left &= left - 1) {
		uint32_t n = lowest(left), need = need_of(q, g, n);

		if (!(nics >> n & 1) || q->cap[n] < need)
			return none();
		given += need;
		done |= q->reach[n];
		if (w->vfs)
			ret = both(ret, with_any(q->reach[n]));
	}
	if ((w->vfs && w->vfs < given) || (nics != q->s->nics && !have_all(q, nics)))
		return none();
	if (given && !w->vfs)
		ret = both(ret, serve(q, g));
	a = q->limit == q->alone_limit && nics == q->s->nics ? q->alone : look_alone(q, nics);
	if (!w->vfs)
		return both(ret, have_own(q, nics, a));
	if (count(a.tight) >= w->gpus)
		ret = both(ret, have_enough(q, nics, 0, w->vfs));
	return both(ret, covered(q, nics, w->vfs - given, done));
}

struct sets few_with_vfs(const struct few *q, struct sets all, uint64_t nics)
{
	struct sets ret = none();

	for (uint32_t i = 0; i < q->ngroups; i++) {
		struct sets some = both(all, q->group[i].sets);

		if (any(some))
			ret = either(ret, both(some, of_group(q, &q->group[i], nics & q->group[i].nics)));
	}
	return ret;
}

/* ---- bounds ------------------------------------------------------------------------------------- */

bool few_see_level(struct few *q, uint32_t path, uint32_t width)
{
	const struct solve_want *w = q->s->w;
	uint64_t crossing = 0, all = 0, differ = 0;

	for (uint32_t n = 0; n < q->s->h->nnics; n += 8) { /* eight NICs at once */
		uint64_t reach = bytes(&q->own[n]) & bytes(&q->h->near[path][n]) & bytes(&q->h->wide[width][n]);

		differ |= reach ^ bytes(&q->reach[n]);
		all |= reach;
		crossing |= reach & ~bytes(&q->h->home[n]);
		memcpy(&q->reach[n], &reach, sizeof(reach));
	}
	q->crosses = crossing != 0;
	all |= all >> 32;
	all |= all >> 16;
	all |= all >> 8;
	q->changed = differ != 0;
	if (count(all & ALL) < w->gpus)
		return false;
	few_set_limit(q, NO_LIMIT);
	if (!have_all(q, q->s->nics))
		return false;
	q->sharers = w->vfs ? 0 : count_sharers(q);
	q->alone = look_alone(q, q->s->nics);
	q->alone_limit = NO_LIMIT;
	return count(q->alone.enough) >= w->gpus;
}

uint64_t few_least_loads(const struct few *q)
{
	uint64_t least = 127 * BYTES;

	for (uint64_t left = q->s->nics; left; left &= left - 1) {
		uint32_t load = q->s->f->load[lowest(left)];
		uint64_t gpus = q->h->bytes[q->reach[lowest(left)]] * 0xff, here = (load < 127 ? load : 127) * BYTES;
		uint64_t less = ((((least | 128 * BYTES) - here) >> 7 & BYTES) * 0xff) & gpus;

		least = (least & ~less) | (here & less);
	}
	return least;
}

bool few_may_share(struct few *q, uint32_t limit, uint64_t loads)
{
	uint32_t gpus = limit > 127 ? ALL : gather((128 * BYTES + (limit - 1) * BYTES - loads) >> 7 & BYTES);

	if (!limit || !any(both(q->can, of_these(gpus))))
		return false;
	few_set_limit(q, limit);
	if (!have_all(q, q->s->nics))
		return false;
	q->alone = look_alone(q, q->s->nics);
	q->alone_limit = limit;
	return any(both(q->can, of_these(q->alone.enough)));
}
