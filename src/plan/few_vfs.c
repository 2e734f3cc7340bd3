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
typedef uint8_t  eight __attribute__((vector_size(8)));
#define SMALL_MOST 127
#define TYPES_FEW  3 /* more, and all sets at once are faster */

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

/* cap: what the NICs can give so that none has more than the limit. Eight at once. */
void few_set_limit(struct few *q, uint32_t limit)
{
	for (uint32_t n = 0; n < q->s->h->nnics && q->limit != limit; n += 8) {
		numbers load, most, cap;

		memcpy(&load, &q->s->f->load[n], sizeof(load));
		memcpy(&most, &q->most[n], sizeof(most));
		cap = ((uint16_t)limit - load) & (numbers)(load < (uint16_t)limit);
		cap = (cap & (numbers)(cap < most)) | (most & ~(numbers)(cap < most));
		memcpy(&q->cap[n], &(eight[1]){ __builtin_convertvector(cap, eight) }, sizeof(eight));
	}
	q->limit = limit;
}

static struct sets have_enough_of_many(const uint8_t *reach, const uint8_t *cap, uint32_t n, uint32_t each, uint32_t vfs)
{
	numbers v[32] = { 0 }, signs[2];
	uint32_t total = 0;
	struct sets ret;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t gpus = ALL & ~(uint32_t)reach[i];

		total += cap[i];
		v[(gpus & 15) | gpus >> 7 << 4] -= lanes_in[gpus >> 4 & 7] & cap[i];
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

struct sets few_have_enough(const uint8_t *reach, const uint8_t *cap, uint32_t n, uint32_t each, uint32_t vfs)
{
	uint32_t total = 0;
	small v[16] = { 0 }, signs[2];
	struct sets ret;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t gpus = ALL & ~(uint32_t)reach[i];

		total += cap[i];
		v[(gpus & 7) | gpus >> 7 << 3] -= small_in[gpus >> 3 & 15] & cap[i];
	}
	if (total > SMALL_MOST)
		return have_enough_of_many(reach, cap, n, each, vfs);
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

/* What NICs have that any GPU reaches. */
static uint32_t have_all(const struct few *q, const uint8_t *cap)
{
	uint32_t have = 0;

	for (uint32_t n = 0; n < q->s->h->nnics; n++)
		have += q->reach[n] ? cap[n] : 0;
	return have;
}

static struct alone look_alone(const struct few *q, const uint8_t *cap, bool few)
{
	const struct solve_want *w = q->s->w;
	uint32_t each = w->vfs ? 1 : w->vfs_per_gpu, all = q->want; /* <= SOLVE_VFS_MAX */
	uint64_t have = 0, full = 0, want;
	struct alone ret;

	for (uint32_t n = 0; n < q->s->h->nnics; n++) {
		have += (q->h->bytes[q->reach[n]] & ~full) * cap[n];
		full |= few ? 0 : (have + (128 - all) * BYTES) >> 7 & BYTES;
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

/* GPUs that reach the same NICs. */
struct type {
	uint64_t nics;
	uint32_t gpus;
};

/* Of these GPUs; how many types. */
static uint32_t find_types(const struct few *q, uint32_t gpus, struct type *ret)
{
	uint32_t n = 0;

	for (; gpus; gpus &= gpus - 1) {
		uint64_t nics = q->edge[lowest(gpus)];
		uint32_t i = 0;

		while (i < n && ret[i].nics != nics)
			i++;
		if (i == n)
			ret[n++] = (struct type){ nics, 0 };
		ret[i].gpus |= gpus & -gpus;
	}
	return n;
}

/* Sets of which each GPU can have its own, by Hall's theorem: no more GPUs of some types than their NICs have enough for. A
 * set that has too few has so without a GPU that is not tight and those that share NICs with it, too. */
static struct sets have_own(const struct few *q, const uint8_t *cap, struct alone a)
{
	uint32_t each = q->s->w->vfs_per_gpu, gpus[1 << TYPES_FEW] = { 0 };
	uint64_t nics[1 << TYPES_FEW] = { 0 };
	struct type type[SOLVE_FEW];
	uint32_t n = find_types(q, a.tight, type);
	struct sets bad = none();

	if (n > TYPES_FEW)
		return but_not(every(), with_all_more(but_not(every(), few_have_enough(q->reach, cap, q->s->h->nnics, each, 0))));
	for (uint32_t some = 1; some < 1u << n; some++) {
		uint32_t have;

		gpus[some] = gpus[some & (some - 1)] | type[lowest(some)].gpus;
		nics[some] = nics[some & (some - 1)] | type[lowest(some)].nics;
		have = few_have_of(q, cap, nics[some]);
		if (have < q->want && have < count(gpus[some]) * each)
			bad = either(bad, at_least(q->h, gpus[some], have / each + 1));
	}
	return but_not(of_these(a.enough), bad);
}

/* What GPUs some NICs are near to, without what is within that of others; how many. */
static uint32_t widest_reaches(const struct few *q, const uint8_t *cap, uint32_t done, uint32_t *reach)
{
	uint32_t n = 0;

	for (uint32_t nic = 0; nic < q->s->h->nnics; nic++) {
		uint32_t gpus = q->reach[nic] & ~done, kept = 0, i = 0;

		if (!gpus || !cap[nic])
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
static struct sets covered(const struct few *q, const uint8_t *cap, uint32_t left, uint32_t done)
{
	uint32_t reach[SOLVE_NICS_MAX], n = widest_reaches(q, cap, done, reach), all = done, most = 0;
	struct sets ret = of_these(done);

	for (uint32_t i = 0; i < n; i++) {
		all |= reach[i];
		most = count(reach[i]) > most ? count(reach[i]) : most;
	}
	if (left * most + count(done) < q->s->w->gpus)
		return none();
	if (left >= n || left >= q->s->w->gpus)
		return of_these(all);
	for (; left; left--) {
		struct sets before = ret;

		for (uint32_t i = 0; i < n; i++)
			ret = either(ret, with_more(before, reach[i]));
	}
	return ret;
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
		ret = both(ret, at_least(q->h, gpus, (need + each - 1) / each));
	}
	return ret;
}

static struct sets of_group(const struct few *q, const struct group *g, const uint8_t *cap)
{
	const struct solve_want *w = q->s->w;
	uint32_t done = 0, given = 0, have;
	bool all = q->limit == NO_LIMIT && cap == q->cap; /* few_see_level() saw them */
	struct sets ret = every();
	struct alone a;

	for (uint64_t left = w->needed | g->forced; left; left &= left - 1) {
		uint32_t n = lowest(left), need = need_of(q, g, n);

		if (cap[n] < need)
			return none();
		given += need;
		done |= q->reach[n];
		if (w->vfs)
			ret = both(ret, with_any(q->reach[n]));
	}
	have = all ? q->want : have_all(q, cap);
	if ((w->vfs && w->vfs < given) || have < q->want)
		return none();
	if (given && !w->vfs)
		ret = both(ret, serve(q, g));
	a = all || q->alike ? q->alone : look_alone(q, cap, have <= SMALL_MOST);
	if (!w->vfs)
		return count(a.enough) < w->gpus ? none() : both(ret, have_own(q, cap, a));
	ret = both(ret, covered(q, cap, w->vfs - given, done));
	if (count(a.tight) >= w->gpus && any(ret))
		ret = both(ret, few_have_enough(q->reach, cap, q->s->h->nnics, 0, w->vfs));
	return ret;
}

/* cap, without what is not one of these NICs. */
static void cap_of(const struct few *q, uint64_t nics, uint8_t *ret)
{
	for (uint32_t n = 0; n < q->s->h->nnics; n += 8, nics >>= 8) {
		uint64_t some = bytes(&q->cap[n]) & q->h->bytes[nics & 0xff] * 0xff;

		memcpy(&ret[n], &some, sizeof(some));
	}
}

struct sets few_with_vfs(const struct few *q, struct sets all, uint64_t nics)
{
	struct sets ret = none();

	for (uint32_t i = 0; i < q->ngroups; i++) {
		struct sets some = both(all, q->group[i].sets);
		uint8_t cap[SOLVE_NICS_MAX];
		bool every_nic = !(q->s->nics & ~(nics & q->group[i].nics));

		if (!any(some))
			continue;
		if (!every_nic)
			cap_of(q, nics & q->group[i].nics, cap);
		ret = either(ret, both(some, of_group(q, &q->group[i], every_nic ? q->cap : cap)));
	}
	return ret;
}

/* ---- bounds ------------------------------------------------------------------------------------- */

/* All of these GPUs reach the same NICs, and no others do: what is enough for all is for each. */
static bool reach_alike(const struct few *q, uint32_t gpus)
{
	uint32_t differ = 0;

	for (uint32_t n = 0; n < q->s->h->nnics; n++)
		differ |= q->reach[n] ? q->reach[n] ^ gpus : 0;
	return !differ;
}

bool few_see_level(struct few *q, uint32_t path, uint32_t width)
{
	const struct solve_want *w = q->s->w;
	uint64_t crossing = 0, all = 0, differ = 0;
	uint32_t have;

	for (uint32_t n = 0; n < q->s->h->nnics; n += 8) { /* eight NICs at once */
		uint64_t reach = bytes(&q->own[n]) & bytes(&q->h->near[path][n]) & bytes(&q->h->wide[width][n]);

		differ |= reach ^ bytes(&q->reach[n]);
		all |= reach;
		crossing |= reach & ~bytes(&q->h->home[n]);
		memcpy(&q->reach[n], &reach, sizeof(reach));
	}
	q->changed = differ != 0;
	if (!q->changed)
		return q->may;
	q->may = false;
	q->crosses = crossing != 0;
	all |= all >> 32;
	all |= all >> 16;
	all |= all >> 8;
	if (count(all & ALL) < w->gpus)
		return false;
	few_set_limit(q, NO_LIMIT);
	have = have_all(q, q->cap);
	if (have < q->want)
		return false;
	q->may = q->alike = reach_alike(q, (uint32_t)(all & ALL));
	q->alone = (struct alone){ (uint32_t)(all & ALL), 0 };
	if (q->alike)
		return true;
	for (uint64_t gpus = q->s->allowed; gpus; gpus &= gpus - 1)
		q->edge[lowest(gpus)] = search_edges(q->s, lowest(gpus), path, width);
	q->sharers = w->vfs ? 0 : count_sharers(q);
	q->alone = look_alone(q, q->cap, have <= SMALL_MOST);
	q->may = count(q->alone.enough) >= w->gpus;
	return q->may;
}
