/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scores: which term differs, and the leftover tables.
 *
 * A bundle of a shape is one at the best class that the whole host has for that many GPUs: the nearest NICs first, over no
 * link that is trained down below policy, then the nearest GPUs, and where NVSwitch partitions are in force one of these.
 * cap[shape][set] is how many of them a set of free GPUs still holds, none sharing a GPU (the measure of FGD, USENIX ATC'23,
 * on whole bundles). */
#include "plan/score.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/search.h"

enum score_term score_differ(const struct score *a, const struct score *b)
{
	int i = 0;

	while (i < SCORE_TERMS && a->term[i] == b->term[i])
		i++;
	return (enum score_term)i;
}

/* ---- leftovers ---------------------------------------------------------------------------------- */

struct table {
	const struct solve_host *h;
	uint32_t  size;                    /* of the shape */
	uint64_t  good;                    /* GPUs with a NIC near enough */
	uint64_t  close[SOLVE_TABLE_GPUS]; /* GPUs of good at the class or nearer, itself too */
	uint32_t *set;                     /* owned: the bundles, by their first GPU */
	size_t    nsets, room;
	size_t    first[SOLVE_TABLE_GPUS + 1]; /* into set, by first GPU */
	uint8_t  *cap;
};

static void relate(struct table *t, unsigned nic_path, unsigned gpu_path)
{
	const struct solve_host *h = t->h;

	t->good = 0;
	for (uint32_t g = 0; g < h->ngpus; g++)
		if (!(h->no_gpus >> g & 1) && (nic_path >= SOLVE_CLASSES - 1 || (h->near[nic_path][g] & ~h->no_nics & ~h->narrow[g])))
			t->good |= UINT64_C(1) << g;
	for (uint32_t g = 0; g < h->ngpus; g++) {
		t->close[g] = 0;
		for (uint32_t o = 0; o < h->ngpus; o++)
			if ((t->good >> g & t->good >> o & 1) && (o == g || h->gpu_path[g][o] <= gpu_path))
				t->close[g] |= UINT64_C(1) << o;
	}
}

/* Whoever is close to one is close to all that are close to it. */
static bool in_groups(const struct table *t)
{
	for (uint32_t g = 0; g < t->h->ngpus; g++)
		for (uint64_t left = t->close[g]; left; left &= left - 1)
			if (t->close[__builtin_ctzll(left)] != t->close[g])
				return false;
	return true;
}

static int add_set(struct table *t, uint64_t set)
{
	if (t->nsets == t->room) {
		size_t room = t->room ? t->room * 2 : 256;
		uint32_t *bigger = reallocarray(t->set, room, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		t->set = bigger;
		t->room = room;
	}
	t->set[t->nsets++] = (uint32_t)set;
	return 0;
}

/* All sets of GPUs that are close to each other, in the order of their first GPUs. */
static int add_close(struct table *t, uint64_t set, uint32_t left, uint64_t from)
{
	int r = 0;

	if (left == 0)
		return add_set(t, set);
	for (; from && r == 0; from &= from - 1)
		r = add_close(t, set | (from & -from), left - 1, (from & (from - 1)) & t->close[__builtin_ctzll(from)]);
	return r;
}

static int add_partitions(struct table *t)
{
	int r = 0;

	for (size_t i = 0; i < t->h->npartitions && r == 0; i++) {
		uint64_t set = t->h->partition[i];
		bool close = count(set) == t->size;

		for (uint64_t left = close ? set : 0; left && close; left &= left - 1)
			close = !(set & ~t->close[__builtin_ctzll(left)]);
		if (close)
			r = add_set(t, set);
	}
	return r;
}

static bool has_group(const struct table *t)
{
	for (uint32_t g = 0; g < t->h->ngpus; g++)
		if (count(t->close[g]) >= t->size)
			return true;
	return false;
}

static void fill_groups(struct table *t)
{
	for (uint32_t m = 1; m < 1u << t->h->ngpus; m++) {
		uint64_t group = t->close[__builtin_ctz(m)] | (m & -m); /* one that is not good is a group of none */
		uint32_t in = m & (uint32_t)group;
		bool good = t->good & (m & -m);

		t->cap[m] = (uint8_t)(t->cap[m & ~(uint32_t)group] + (good ? count(in) / t->size : 0));
	}
}

/* Whether bundles cover all of m, of which the smaller sets are known. */
static bool tiles(const struct table *t, uint32_t m, uint32_t n)
{
	int low = __builtin_ctz(m);

	for (size_t i = t->first[low]; i < t->first[low + 1]; i++)
		if (!(t->set[i] & ~m) && t->cap[m ^ t->set[i]] == n - 1)
			return true;
	return false;
}

/* A set holds as many as the best of those with one GPU less, or one more if every GPU of it is needed. */
static void fill_sets(struct table *t)
{
	size_t at = 0;

	for (uint32_t g = 0; g <= t->h->ngpus; g++) {
		while (at < t->nsets && (uint32_t)__builtin_ctz(t->set[at]) < g)
			at++;
		t->first[g] = at;
	}
	for (uint32_t m = 1; m < 1u << t->h->ngpus; m++) {
		uint32_t n = count(m);
		uint8_t most = 0;

		for (uint32_t left = m; left; left &= left - 1)
			if (t->cap[m ^ (left & -left)] > most)
				most = t->cap[m ^ (left & -left)];
		t->cap[m] = n % t->size == 0 && tiles(t, m, n / t->size) ? (uint8_t)(n / t->size) : most;
	}
}

/* Fills the table at the first pair of classes at which the host has such a bundle. */
static int fill(struct table *t)
{
	for (unsigned c = 0; c < (SOLVE_CLASSES) * (SOLVE_CLASSES); c++) {
		int r = 0;

		relate(t, c / SOLVE_CLASSES, c % SOLVE_CLASSES);
		if (!t->h->npartitions && in_groups(t)) {
			if (!has_group(t))
				continue;
			fill_groups(t);
			return 0;
		}
		r = t->h->npartitions ? add_partitions(t) : add_close(t, 0, t->size, t->good);
		if (r < 0)
			return r;
		if (t->nsets) {
			fill_sets(t);
			return 0;
		}
	}
	return 0; /* no such bundle: all zeros */
}

static int make_table(struct solve_host *h, size_t shape)
{
	struct table t = { .h = h, .size = h->shape[shape].size };
	int r = 0;

	t.cap = h->cap[shape] = calloc((size_t)1 << h->ngpus, 1);
	if (!t.cap)
		return -ENOMEM;
	if (t.size && t.size <= h->ngpus)
		r = fill(&t);
	free(t.set);
	return r;
}

static void tell_near(struct solve_host *h)
{
	memset(h->near, 0, sizeof(h->near));
	memset(h->wide, 0, sizeof(h->wide));
	memset(h->close, 0, sizeof(h->close));
	memset(h->most_close, 0, sizeof(h->most_close));
	h->ranks = 0;
	memset(h->on_node, 0, sizeof(h->on_node));
	for (uint32_t n = 0; n < h->nnics; n++) {
		uint64_t bit = UINT64_C(1) << n;

		h->on_node[h->nic_node[n] < h->nnodes ? h->nic_node[n] : SOLVE_NODES_MAX] |= bit;
		for (uint32_t g = 0; g < h->ngpus; g++) {
			for (unsigned c = h->path[g][n]; c < SOLVE_CLASSES - 2; c++) /* the last two: unknown */
				h->near[c][g] |= bit;
			for (unsigned w = h->width[g][n]; w < SOLVE_WIDTHS_MAX; w++)
				h->wide[w][g] |= bit;
			h->ranks |= UINT64_C(1) << h->width[g][n];
		}
	}
	for (uint32_t g = 0; g < h->ngpus; g++)
		for (uint32_t o = 0; o < h->ngpus; o++)
			for (unsigned c = h->gpu_path[g][o]; c < SOLVE_CLASSES && o != g; c++)
				h->close[c][g] |= UINT64_C(1) << o;
	for (uint32_t g = 0; g < h->ngpus; g++)
		for (unsigned c = 0; c < SOLVE_CLASSES; c++)
			if (count(h->close[c][g]) + 1 > h->most_close[c])
				h->most_close[c] = count(h->close[c][g]) + 1;
}

static bool are_twins(const struct solve_host *h, uint32_t a, uint32_t b)
{
	bool same = h->gpu_node[a] == h->gpu_node[b] && h->wear[a] == h->wear[b] && (h->no_gpus >> a & 1) == (h->no_gpus >> b & 1) &&
		    h->narrow[a] == h->narrow[b];

	for (uint32_t n = 0; n < h->nnics && same; n++)
		same = h->path[a][n] == h->path[b][n] && h->width[a][n] == h->width[b][n];
	for (uint32_t g = 0; g < h->ngpus && same; g++)
		same = g == a || g == b || h->gpu_path[a][g] == h->gpu_path[b][g];
	return same;
}

/* Partitions tell GPUs apart. */
static void find_twins(struct solve_host *h)
{
	for (uint32_t a = 0; a < h->ngpus; a++) {
		h->twins[a] = 0;
		for (uint32_t b = a + 1; b < h->ngpus && !h->npartitions; b++)
			h->twins[a] |= (uint64_t)are_twins(h, a, b) << b;
	}
}

/* ---- few GPUs: what is asked of all sets of them ------------------------------------------------- */

static bool all_close(const struct solve_host *h, uint32_t set, unsigned class)
{
	for (uint32_t left = set; left; left &= left - 1)
		if (set & ~(h->close[class][lowest(left)] | (left & -left)))
			return false;
	return true;
}

static uint8_t find_place(const struct solve_host *h, struct solve_few *few, uint32_t node)
{
	uint32_t p = 0;

	while (p < few->nplaces && p < SOLVE_FEW && few->place[p] != node)
		p++;
	if (node >= h->nnodes || p == SOLVE_FEW) {
		few->nplaces += node < h->nnodes;
		return 0;
	}
	if (p == few->nplaces)
		few->place[few->nplaces++] = (uint8_t)node;
	return (uint8_t)(1u << p);
}

static void find_places(const struct solve_host *h, struct solve_few *few)
{
	few->own_places = true;
	for (uint32_t g = 0; g < h->ngpus; g++) {
		uint8_t place = find_place(h, few, h->gpu_node[g]);

		few->no_place = few->no_place || !place;
		few->own_places = few->own_places && place == 1u << g;
		for (uint32_t set = 0; set < 1u << SOLVE_FEW; set++)
			few->places[set] |= set >> g & 1 ? place : 0;
	}
	for (uint32_t n = 0; n < h->nnics; n++)
		(void)find_place(h, few, h->nic_node[n]);
}

static void tell_few(struct solve_host *h, struct solve_few *few)
{
	find_places(h, few);
	for (uint32_t set = 0; set < 1u << SOLVE_FEW; set++) {
		uint64_t nodes = 0;

		few->of_size[count(set)].w[set >> 6] |= UINT64_C(1) << (set & 63);
		for (uint32_t left = set >> h->ngpus ? 0 : set; left; left &= left - 1)
			nodes |= h->gpu_node[lowest(left)] < h->nnodes ? UINT64_C(1) << h->gpu_node[lowest(left)] : 0;
		few->spans[count(nodes)].w[set >> 6] |= UINT64_C(1) << (set & 63);
		for (uint32_t left = set >> h->ngpus ? 0 : set; left; left &= left - 1)
			few->worn[set] += h->wear[lowest(left)];
		for (uint32_t left = set; left; left &= left - 1)
			few->bytes[set] |= UINT64_C(1) << 8 * lowest(left);
		few->lost[set] = set >> h->ngpus ? 0 : solve_leftover(h, set);
		for (unsigned c = 0; c < SOLVE_CLASSES; c++)
			few->close[c].w[set >> 6] |= (uint64_t)(!(set >> h->ngpus) && all_close(h, set, c)) << (set & 63);
	}
	for (uint32_t set = 0; set < 64; set++)
		for (uint32_t gpus = 0; gpus < 64; gpus++)
			for (uint32_t n = 0; n < count(set & gpus) + 3; n++)
				few->many[gpus][n] |= UINT64_C(1) << set;
	for (uint32_t g = 0; g < h->ngpus; g++) {
		if (h->gpu_node[g] < h->nnodes)
			few->on_node[h->gpu_node[g]] |= (uint8_t)(1u << g);
		for (uint32_t n = 0; n < h->nnics; n++) {
			uint8_t bit = (uint8_t)(1u << g);

			few->home[n] |= h->nic_node[n] >= h->nnodes || h->nic_node[n] == h->gpu_node[g] ? bit : 0;
			for (unsigned c = 0; c < SOLVE_CLASSES; c++)
				few->near[c][n] |= h->near[c][g] >> n & 1 ? bit : 0;
			for (unsigned w = 0; w < SOLVE_WIDTHS_MAX; w++)
				few->wide[w][n] |= h->wide[w][g] >> n & 1 ? bit : 0;
		}
	}
}

/* A set comes before another if it has the first GPU that only one of them has. */
static int by_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b, first = (x ^ y) & -(x ^ y);

	return x == y ? 0 : x & first ? -1 : 1;
}

static void sort(struct solve_host *h)
{
	qsort(h->partition, h->npartitions, sizeof(*h->partition), by_first);
}

/* Bytes that nobody sets are zero, or it is made anew. */
bool solve_host_same(const struct solve_host *prepared, struct solve_host *h)
{
	sort(h);
	return memcmp(prepared, h, offsetof(struct solve_host, near)) == 0;
}

int solve_prepare(struct solve_host *h)
{
	int r = 0;

	sort(h);
	memset(h->cap, 0, sizeof(h->cap));
	tell_near(h);
	find_twins(h);
	for (size_t i = 0; i < h->nshapes && h->ngpus <= SOLVE_TABLE_GPUS && r == 0; i++)
		r = make_table(h, i);
	h->few = r == 0 && h->ngpus <= SOLVE_FEW ? calloc(1, sizeof(*h->few)) : NULL;
	if (h->few)
		tell_few(h, h->few);
	else if (h->ngpus <= SOLVE_FEW)
		r = -ENOMEM;
	if (r < 0)
		solve_host_done(h);
	return r;
}

void solve_host_done(struct solve_host *h)
{
	free(h->few);
	h->few = NULL;
	for (size_t i = 0; i < SOLVE_SHAPES_MAX; i++) {
		free(h->cap[i]);
		h->cap[i] = NULL;
	}
}

uint32_t solve_leftover(const struct solve_host *h, uint64_t free)
{
	uint32_t n = count(free), sum = 0;

	for (size_t i = 0; i < h->nshapes && h->cap[i]; i++)
		sum += h->shape[i].weight * (n - h->shape[i].size * h->cap[i][free]);
	return sum;
}

uint32_t search_leftover(const struct search *s, uint64_t gpus)
{
	uint32_t free = count(s->f->gpus), left = free > s->w->gpus ? free - s->w->gpus : 0, sum = 0;

	for (size_t i = 0; i < s->h->nshapes && s->h->cap[i]; i++) {
		uint32_t size = s->h->shape[i].size, in = size * s->h->cap[i][s->f->gpus & ~gpus];

		while (in > left)
			in -= size;
		sum += s->h->shape[i].weight * (left - in);
	}
	return sum;
}
