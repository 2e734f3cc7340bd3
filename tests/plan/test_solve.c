/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The solver against a brute force that tries every set of GPUs with every choice of NICs, on random hosts: laminar
 * and not, with partitions, models, required devices, short memory. PLACE_SEEDS=N tries more. */
#include "plan/solve.h"
#include "support.h"
#include "synth.h"

#define NICS 6
#define NODES 8

struct brute {
	const struct solve_host *h;
	const struct solve_free *f;
	const struct solve_want *w;
	uint64_t memory[NODES], cpus[NODES]; /* rooms */
	uint64_t memory_all, cpus_all;
	bool     found;
	uint64_t gpus;
	uint32_t best[SCORE_TERMS];
	uint32_t used[NICS];
	int16_t  lost[1 << 10];   /* leftover by what is free, -1: not counted yet */
	uint32_t quality[SOLVE_SHAPES_MAX]; /* best class pair, class * 8 + class; 64: no such bundle */
};

static unsigned bits(uint64_t x)
{
	unsigned n = 0;

	for (; x; x >>= 1)
		n += x & 1;
	return n;
}

/* ---- leftover, from its definition -------------------------------------------------------------- */

static bool is_partition(const struct solve_host *h, uint64_t set)
{
	for (size_t i = 0; i < h->npartitions; i++)
		if (h->partition[i] == set)
			return true;
	return h->npartitions == 0;
}

static uint32_t quality_of(const struct solve_host *h, uint64_t set)
{
	uint32_t worst = 0, far = 0;

	if (!is_partition(h, set) || (set & h->no_gpus))
		return 64;
	for (unsigned g = 0; g < h->ngpus; g++) {
		uint32_t near = 7;

		if (!(set >> g & 1))
			continue;
		for (unsigned n = 0; n < h->nnics; n++)
			if (h->path[g][n] < near && h->path[g][n] <= TOPO_SYS && !(h->no_nics >> n & 1) && !(h->narrow[g] >> n & 1))
				near = h->path[g][n];
		worst = near > worst ? near : worst;
		for (unsigned o = 0; o < h->ngpus; o++)
			if ((set >> o & 1) && o != g && h->gpu_path[g][o] > far)
				far = h->gpu_path[g][o];
	}
	return worst * 8 + far;
}

static unsigned most_bundles(const struct brute *b, size_t shape, uint64_t free)
{
	uint64_t low = free & -free;
	unsigned best;

	if (!free)
		return 0;
	best = most_bundles(b, shape, free & ~low);
	for (uint64_t sub = (free - 1) & free, set; sub || free; sub = (sub - 1) & free) {
		set = free ^ sub;
		if ((set & low) && bits(set) == b->h->shape[shape].size && quality_of(b->h, set) == b->quality[shape]) {
			unsigned n = 1 + most_bundles(b, shape, sub);

			best = n > best ? n : best;
		}
		if (!sub)
			break;
	}
	return best;
}

static uint32_t leftover(struct brute *b, uint64_t free)
{
	uint32_t sum = 0;

	if (b->lost[free] >= 0)
		return (uint32_t)b->lost[free];
	for (size_t i = 0; i < b->h->nshapes; i++)
		if (b->quality[i] < 64)
			sum += b->h->shape[i].weight * (bits(free) - b->h->shape[i].size * most_bundles(b, i, free));
		else
			sum += b->h->shape[i].weight * bits(free);
	b->lost[free] = (int16_t)sum;
	return sum;
}

static void find_qualities(struct brute *b)
{
	memset(b->lost, 0xff, sizeof(b->lost));
	for (size_t i = 0; i < b->h->nshapes; i++) {
		b->quality[i] = 64;
		for (uint64_t set = 1; set < UINT64_C(1) << b->h->ngpus; set++)
			if (bits(set) == b->h->shape[i].size && quality_of(b->h, set) < b->quality[i])
				b->quality[i] = quality_of(b->h, set);
	}
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static bool node_set_fits(const struct brute *b, uint64_t nodes)
{
	uint64_t n = bits(nodes), m = b->memory_all % n, c = b->cpus_all % n;

	if (b->memory_all < n || b->cpus_all < n)
		return false;
	for (unsigned i = 0; i < b->h->nnodes; i++) {
		if (!(nodes >> i & 1))
			continue;
		if (b->memory[i] < b->memory_all / n || b->cpus[i] < b->cpus_all / n)
			return false;
		m -= m && b->memory[i] > b->memory_all / n;
		c -= c && b->cpus[i] > b->cpus_all / n;
	}
	return !m && !c;
}

/* The number of cells for devices on these nodes; 0: it cannot be. */
static uint32_t cells_for(const struct brute *b, uint64_t touched)
{
	uint32_t want = b->w->cells ? b->w->cells : touched ? bits(touched) : 1;

	for (uint64_t nodes = 1; nodes < UINT64_C(1) << b->h->nnodes; nodes++)
		if (bits(nodes) == want && !(touched & ~nodes) && !(touched & ~b->w->nodes) && !(nodes & ~touched & ~b->w->nodes) &&
		    node_set_fits(b, nodes))
			return want;
	return 0;
}

/* ---- every choice ------------------------------------------------------------------------------- */

/* Nobody is in without those that must be in then, too. */
static bool ties_hold(const struct brute *b, uint64_t gpus)
{
	const struct solve_ties *t = b->w->ties;
	uint64_t used = 0;

	for (unsigned n = 0; n < b->h->nnics; n++)
		used |= (uint64_t)(b->used[n] > 0) << n;
	for (unsigned g = 0; t && g < b->h->ngpus; g++)
		if ((gpus >> g & 1) && ((t->gpu_gpus[g] & ~gpus) || (t->gpu_nics[g] & ~used)))
			return false;
	for (unsigned n = 0; t && n < b->h->nnics; n++)
		if ((used >> n & 1) && ((t->nic_gpus[n] & ~gpus) || (t->nic_nics[n] & ~used)))
			return false;
	return true;
}

/* A whole choice: counts, or scores it. near[] is the worst class and rank that is needed for a GPU. */
static void score_choice(struct brute *b, uint64_t gpus, uint32_t path, uint32_t width)
{
	uint32_t score[SCORE_TERMS] = { path, width };
	uint64_t touched = 0;
	bool vfs = b->w->vfs || (b->w->vfs_per_gpu && gpus);

	if (!ties_hold(b, gpus))
		return;
	for (unsigned n = 0; n < b->h->nnics; n++) {
		if (b->used[n] < b->w->need[n] || (b->w->per_nic && b->used[n] > b->w->per_nic))
			return;
		if (!b->used[n])
			continue;
		if (b->h->nic_node[n] != SOLVE_NO_NODE)
			touched |= UINT64_C(1) << b->h->nic_node[n];
		if (b->used[n] + b->f->load[n] > score[SCORE_SHARING])
			score[SCORE_SHARING] = b->used[n] + b->f->load[n];
	}
	for (unsigned g = 0; g < b->h->ngpus; g++) {
		if (!(gpus >> g & 1))
			continue;
		if (b->h->gpu_node[g] != SOLVE_NO_NODE)
			touched |= UINT64_C(1) << b->h->gpu_node[g];
		score[SCORE_WEAR] += b->h->wear[g];
		for (unsigned o = 0; o < g; o++)
			if ((gpus >> o & 1) && b->h->gpu_path[g][o] > score[SCORE_GPU_PATH])
				score[SCORE_GPU_PATH] = b->h->gpu_path[g][o];
	}
	if (score[SCORE_GPU_PATH] > b->w->max_gpu_path || (vfs && path > b->w->max_path))
		return;
	score[SCORE_NODES] = cells_for(b, touched);
	if (!score[SCORE_NODES])
		return;
	score[SCORE_LEFTOVER] = leftover(b, b->f->gpus & ~gpus);
	for (int i = 0; i < SCORE_TERMS; i++) {
		if (b->found && score[i] > b->best[i])
			return;
		if (!b->found || score[i] < b->best[i])
			break;
		if (i == SCORE_TERMS - 1) { /* equal: the set that has the first GPU which the other has not */
			uint64_t differ = gpus ^ b->gpus;

			if (!(gpus & differ & -differ))
				return;
		}
	}
	b->found = true;
	b->gpus = gpus;
	memcpy(b->best, score, sizeof(score));
}

static bool edge(const struct brute *b, unsigned g, unsigned n)
{
	return b->h->path[g][n] <= TOPO_SYS && (b->w->own[g] >> n & 1) && (b->w->nics >> n & 1);
}

/* The VFs of GPU g, `left` of them, from NIC `from` on; then the next GPU. */
static void each_gpu(struct brute *b, uint64_t gpus, unsigned g, uint32_t left, unsigned from, uint32_t path, uint32_t width)
{
	while (g < b->h->ngpus && !(gpus >> g & 1))
		g++;
	if (g == b->h->ngpus || !b->w->vfs_per_gpu) {
		score_choice(b, gpus, path, width);
		return;
	}
	if (left == 0) {
		each_gpu(b, gpus, g + 1, b->w->vfs_per_gpu, 0, path, width);
		return;
	}
	for (unsigned n = from; n < b->h->nnics; n++) {
		if (!edge(b, g, n) || b->used[n] == b->f->vfs[n])
			continue;
		b->used[n]++;
		each_gpu(b, gpus, g, left - 1, n, b->h->path[g][n] > path ? b->h->path[g][n] : path,
			 b->h->width[g][n] > width ? b->h->width[g][n] : width);
		b->used[n]--;
	}
}

/* Within the bounds every GPU is near to some VF, every VF near to some GPU. */
static bool whole_is(const struct brute *b, uint64_t gpus, uint32_t path, uint32_t width)
{
	uint32_t near_some[NICS] = { 0 };

	for (unsigned g = 0; g < b->h->ngpus; g++) {
		bool near = false;

		for (unsigned n = 0; n < b->h->nnics && (gpus >> g & 1); n++)
			if (edge(b, g, n) && b->h->path[g][n] <= path && b->h->width[g][n] <= width) {
				near_some[n] = 1;
				near = near || b->used[n];
			}
		if ((gpus >> g & 1) && !near)
			return false;
	}
	for (unsigned n = 0; n < b->h->nnics; n++)
		if (b->used[n] && !near_some[n] && gpus)
			return false;
	return true;
}

static void each_nic(struct brute *b, uint64_t gpus, unsigned n, uint32_t left)
{
	if (n < b->h->nnics) {
		for (uint32_t v = 0; v <= left && v <= b->f->vfs[n] && (v == 0 || b->w->nics >> n & 1); v++) {
			b->used[n] = v;
			each_nic(b, gpus, n + 1, left - v);
		}
		b->used[n] = 0;
		return;
	}
	for (uint32_t path = 0; path <= TOPO_SYS && left == 0; path++)
		for (uint32_t width = 0; width < SOLVE_WIDTHS_MAX; width += width < 3 ? 1 : SOLVE_WIDTHS_MAX - 4)
			if (whole_is(b, gpus, path, width)) {
				score_choice(b, gpus, path, width);
				break; /* wider bounds of this path are no better */
			}
}

static bool models_fit(const struct solve_want *w, uint64_t gpus)
{
	for (uint32_t i = 0; i < w->nhall; i++)
		if (bits(gpus & w->hall[i]) < w->hall_need[i])
			return false;
	return true;
}

static void try_all(struct brute *b)
{
	const struct solve_want *w = b->w;

	for (uint64_t gpus = 0; gpus < UINT64_C(1) << b->h->ngpus; gpus++) {
		if (bits(gpus) != w->gpus || (gpus & ~b->f->gpus) || (gpus & ~w->allowed) || (w->required & ~gpus) ||
		    (w->without && gpus == w->without) || !models_fit(w, gpus) || (w->partitioned && !is_partition(b->h, gpus)))
			continue;
		if (w->vfs)
			each_nic(b, gpus, 0, w->vfs);
		else
			each_gpu(b, gpus, 0, w->vfs_per_gpu, 0, 0, 0);
	}
}

/* ---- random cases ------------------------------------------------------------------------------- */

static uint8_t random_class(uint64_t *s)
{
	static const uint8_t class[] = { TOPO_PIX, TOPO_PIX, TOPO_PXB, TOPO_PHB, TOPO_NODE, TOPO_SYS, TOPO_SYS, TOPO_UNKNOWN };

	return class[synth_random(s, 8)];
}

/* By switch, bridge and node: at[] is one number that has all three. */
static uint8_t class_between(unsigned a, unsigned b)
{
	return a == b ? TOPO_PIX : a / 2 == b / 2 ? TOPO_PHB : a / 4 == b / 4 ? TOPO_NODE : TOPO_SYS;
}

static void random_host(struct solve_host *h, uint64_t *s)
{
	bool laminar = synth_random(s, 2), flat = synth_random(s, 2), same_width = synth_random(s, 2);
	unsigned at[16], nic_at[NICS];
	uint32_t most = synth_random(s, 8) ? 6 : 10;

	*h = (struct solve_host){ .ngpus = 1 + synth_random(s, most), .nnics = synth_random(s, NICS + 1), .nnodes = 1 + synth_random(s, NODES) };
	if (h->ngpus > 6 && h->nnics > 4)
		h->nnics = 4;
	for (unsigned g = 0; g < h->ngpus; g++) {
		at[g] = flat ? g / 2 % (4 * h->nnodes) : synth_random(s, 4 * h->nnodes);
		h->gpu_node[g] = synth_random(s, 30) ? (uint8_t)(at[g] / 4) : SOLVE_NO_NODE;
		h->wear[g] = synth_random(s, 3) ? 0 : synth_random(s, 3);
	}
	for (unsigned n = 0; n < h->nnics; n++) {
		nic_at[n] = flat ? n % (4 * h->nnodes) : synth_random(s, 4 * h->nnodes);
		h->nic_node[n] = synth_random(s, 30) ? (uint8_t)(nic_at[n] / 4) : SOLVE_NO_NODE;
	}
	for (unsigned g = 0; g < h->ngpus; g++) {
		for (unsigned n = 0; n < h->nnics; n++) {
			static const uint8_t rank[] = { 0, 1, 2, SOLVE_WIDTHS_MAX - 1 };

			h->path[g][n] = laminar ? class_between(at[g], nic_at[n]) : random_class(s);
			h->width[g][n] = same_width ? 0 : rank[synth_random(s, 4)];
		}
		for (unsigned o = 0; o < g; o++)
			h->gpu_path[g][o] = h->gpu_path[o][g] = laminar ? class_between(at[g], at[o]) : random_class(s);
	}
	for (unsigned i = synth_random(s, 4) ? 0 : 1 + synth_random(s, 20); i > 0; i--) {
		uint64_t set = 1 + synth_random(s, (1u << h->ngpus) - 1);

		if (!h->npartitions || !is_partition(h, set))
			h->partition[h->npartitions++] = set;
	}
	h->no_gpus = synth_random(s, 4) ? 0 : synth_random(s, 1u << h->ngpus);
	h->no_nics = synth_random(s, 4) ? 0 : synth_random(s, 1u << NICS);
	for (unsigned g = 0; g < h->ngpus; g++)
		h->narrow[g] = synth_random(s, 4) ? 0 : synth_random(s, 1u << NICS);
	h->nshapes = synth_random(s, 4);
	for (size_t i = 0; i < h->nshapes; i++)
		h->shape[i] = (struct solve_shape){ .size = 1u << i, .weight = synth_random(s, 10) };
}

static uint64_t random_few(uint64_t *s, unsigned n)
{
	return synth_random(s, 3) || !n ? 0 : UINT64_C(1) << synth_random(s, n);
}

static void random_ties(struct solve_ties *t, const struct solve_host *h, uint64_t *s)
{
	*t = (struct solve_ties){ 0 };
	for (unsigned g = 0; g < h->ngpus; g++) {
		t->gpu_gpus[g] = random_few(s, h->ngpus);
		t->gpu_nics[g] = synth_random(s, 2) ? 0 : random_few(s, h->nnics);
	}
	for (unsigned n = 0; n < h->nnics; n++) {
		t->nic_gpus[n] = random_few(s, h->ngpus);
		t->nic_nics[n] = random_few(s, h->nnics);
	}
}

static void random_want(struct solve_want *w, struct brute *b, uint64_t *s)
{
	static struct solve_ties ties;
	const struct solve_host *h = b->h;
	bool plain = synth_random(s, 2);

	*w = (struct solve_want){ .gpus = synth_random(s, h->ngpus < 5 ? h->ngpus + 1 : 5), .allowed = UINT64_MAX, .nics = UINT64_MAX,
				  .max_path = TOPO_SYS, .max_gpu_path = TOPO_UNKNOWN, .nodes = UINT64_MAX };
	if (synth_random(s, 2) == 0)
		w->vfs = 1 + synth_random(s, 5);
	else
		w->vfs_per_gpu = synth_random(s, w->gpus > 3 ? 2 : w->gpus > 2 ? 3 : 5);
	for (unsigned g = 0; g < h->ngpus; g++)
		w->own[g] = plain || synth_random(s, 3) ? UINT64_MAX : synth_random(s, 1u << NICS);
	b->memory_all = 1 + synth_random(s, 12);
	b->cpus_all = 1 + synth_random(s, 12);
	for (unsigned i = 0; i < h->nnodes; i++) {
		b->memory[i] = plain ? 20 : synth_random(s, 16);
		b->cpus[i] = plain ? 20 : synth_random(s, 16);
	}
	w->partitioned = h->npartitions && synth_random(s, 2);
	if (plain)
		return;
	w->allowed = synth_random(s, 4) ? w->allowed : synth_random(s, 1u << h->ngpus);
	w->required = synth_random(s, 4) ? 0 : UINT64_C(1) << synth_random(s, h->ngpus);
	w->nics = synth_random(s, 4) ? w->nics : synth_random(s, 1u << NICS);
	w->max_path = synth_random(s, 2) ? TOPO_SYS : TOPO_PIX + synth_random(s, 5);
	w->max_gpu_path = synth_random(s, 2) ? TOPO_UNKNOWN : TOPO_PIX + synth_random(s, 6);
	w->per_nic = synth_random(s, 4) ? 0 : 1 + synth_random(s, 2);
	w->cells = synth_random(s, 4) ? 0 : 1 + synth_random(s, NODES);
	w->nodes = synth_random(s, 6) ? w->nodes : synth_random(s, 1u << NODES);
	if (h->nnics && (w->vfs || (w->vfs_per_gpu && w->gpus)) && synth_random(s, 3) == 0) {
		for (int i = 0; i < 2; i++) {
			uint32_t n = synth_random(s, h->nnics);

			w->need[n] = (uint16_t)(1 + synth_random(s, 2));
			w->needed |= UINT64_C(1) << n;
		}
	}
	if (synth_random(s, 3) == 0) {
		random_ties(&ties, h, s);
		w->ties = &ties;
	}
	w->nhall = synth_random(s, 3) ? 0 : 1 + synth_random(s, 3);
	for (uint32_t i = 0; i < w->nhall; i++) {
		w->hall[i] = synth_random(s, 1u << h->ngpus);
		w->hall_need[i] = synth_random(s, 3);
	}
}

/* The answer is what its score says. */
static void check_answer(uint64_t seed, struct brute *b, const struct solve_answer *a)
{
	uint32_t path = 0, width = 0, has[SOLVE_CHOSEN_MAX] = { 0 };
	uint8_t gpu[SOLVE_CHOSEN_MAX], n = 0;
	uint64_t touched = 0;

	memset(b->used, 0, sizeof(b->used));
	for (unsigned g = 0; g < b->h->ngpus; g++)
		if (a->gpus >> g & 1) {
			gpu[n++] = (uint8_t)g;
			if (b->h->gpu_node[g] != SOLVE_NO_NODE)
				touched |= UINT64_C(1) << b->h->gpu_node[g];
		}
	for (uint32_t v = 0; v < a->nvfs; v++) {
		uint8_t nic = a->vf_nic[v], slot = a->vf_slot[v];

		b->used[nic]++;
		if (b->h->nic_node[nic] != SOLVE_NO_NODE)
			touched |= UINT64_C(1) << b->h->nic_node[nic];
		if (slot == SOLVE_NO_SLOT)
			continue;
		has[slot]++;
		path = b->h->path[gpu[slot]][nic] > path ? b->h->path[gpu[slot]][nic] : path;
		width = b->h->width[gpu[slot]][nic] > width ? b->h->width[gpu[slot]][nic] : width;
		if (!edge(b, gpu[slot], nic))
			fail_msg("seed %llu: a VF that the GPU cannot have", (unsigned long long)seed);
	}
	for (uint32_t i = 0; i < n && !b->w->vfs; i++)
		assert_int_equal(has[i], b->w->vfs_per_gpu);
	if (b->w->vfs) {
		assert_int_equal(a->nvfs, b->w->vfs);
		assert_true(whole_is(b, a->gpus, a->score.term[SCORE_PATH], a->score.term[SCORE_BANDWIDTH]));
		path = a->score.term[SCORE_PATH]; /* a GPU may be near to the VF of another only */
		width = a->score.term[SCORE_BANDWIDTH];
	}
	for (unsigned k = 0; k < b->h->nnics; k++)
		assert_true(b->used[k] <= b->f->vfs[k]);
	if ((touched & ~a->nodes) || bits(a->nodes) != a->score.term[SCORE_NODES] || !node_set_fits(b, a->nodes))
		fail_msg("seed %llu: nodes %llx for %llx", (unsigned long long)seed, (unsigned long long)a->nodes, (unsigned long long)touched);
	b->found = false;
	score_choice(b, a->gpus, path, width);
	if (!b->found || memcmp(b->best, a->score.term, sizeof(b->best)) != 0)
		fail_msg("seed %llu: the answer is not what its score says", (unsigned long long)seed);
}

/* Hosts of few GPUs have a search of their own: the one for all hosts finds the same. */
static void check_other_search(uint64_t seed, struct brute *b, struct solve_host *h, const struct solve_answer *a, bool found)
{
	struct solve_few *few = h->few;
	struct solve_answer o;
	bool other;

	h->few = NULL;
	other = solve(&o, h, b->f, b->w);
	h->few = few;
	if (other != found || (found && (o.gpus != a->gpus || o.nodes != a->nodes || memcmp(&o.score, &a->score, sizeof(o.score)) != 0 ||
					 memcmp(o.vf_nic, a->vf_nic, a->nvfs) != 0)))
		fail_msg("seed %llu: the search for any number of GPUs finds %d, %llx", (unsigned long long)seed, other,
			 (unsigned long long)o.gpus);
}

static bool check_seed(uint64_t seed)
{
	static struct brute b;
	static struct solve_host h;
	static struct solve_want w;
	uint64_t s = seed * 7919 + 1;
	struct solve_free f = { 0 };
	struct solve_answer a;
	bool found;

	random_host(&h, &s);
	b = (struct brute){ .h = &h, .f = &f, .w = &w };
	assert_int_equal(solve_prepare(&h), 0);
	for (unsigned g = 0; g < h.ngpus; g++)
		f.gpus |= (uint64_t)(synth_random(&s, 4) != 0) << g;
	for (unsigned n = 0; n < h.nnics; n++) {
		f.vfs[n] = (uint16_t)synth_random(&s, 4);
		f.load[n] = (uint16_t)(synth_random(&s, 2) ? 0 : synth_random(&s, 3));
	}
	random_want(&w, &b, &s);
	find_qualities(&b);
	solve_split_make(&w.memory, b.memory_all, b.memory, h.nnodes);
	solve_split_make(&w.cpus, b.cpus_all, b.cpus, h.nnodes);
	found = solve(&a, &h, &f, &w);
	try_all(&b);
	if (found != b.found)
		fail_msg("seed %llu: found %d, the brute force %d", (unsigned long long)seed, found, b.found);
	if (found && (memcmp(b.best, a.score.term, sizeof(b.best)) != 0 || a.gpus != b.gpus))
		for (int i = 0; i < SCORE_TERMS; i++)
			if (i == SCORE_TERMS - 1 || a.score.term[i] != b.best[i])
				fail_msg("seed %llu: %llx, the brute force %llx; term %d is %u, not %u", (unsigned long long)seed,
					 (unsigned long long)a.gpus, (unsigned long long)b.gpus, i,
					 a.score.term[i], b.best[i]);
	check_other_search(seed, &b, &h, &a, found);
	if (found)
		check_answer(seed, &b, &a);
	solve_host_done(&h);
	return found;
}

static void equals_brute_force(void **state)
{
	const char *many = getenv("PLACE_SEEDS");
	uint64_t n = many ? strtoull(many, NULL, 10) : 20000, fit = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= n; seed++)
		fit += check_seed(seed);
	print_message("# %llu cases, %llu with a bundle, no difference\n", (unsigned long long)n, (unsigned long long)fit);
	assert_true(fit > n / 4 && fit < n);
}

/* ---- others' choices ---------------------------------------------------------------------------- */

/* The first k free ones of `from`; 0: fewer. */
static uint64_t first_of(uint64_t from, uint32_t k)
{
	uint64_t set = 0;

	for (; from && bits(set) < k; from &= from - 1)
		set |= from & -from;
	return bits(set) == k ? set : 0;
}

/* kubelet: the lowest of the narrowest set of nodes that has enough. */
static uint64_t by_node(const struct solve_host *h, uint64_t free, uint32_t k)
{
	for (unsigned node = 0; node < h->nnodes; node++) {
		uint64_t on = 0;

		for (unsigned g = 0; g < h->ngpus; g++)
			on |= (uint64_t)(h->gpu_node[g] == node) << g;
		if (first_of(free & on, k))
			return first_of(free & on, k);
	}
	return first_of(free, k);
}

static uint64_t at_random(uint64_t free, uint32_t k, uint64_t *s)
{
	uint64_t set = 0;

	while (bits(free) >= k && bits(set) < k)
		set |= free & UINT64_C(1) << synth_random(s, 10);
	return set;
}

/* What anybody else would take, with the best NICs for it, is worth no more. */
static void better_or_equal(void **state)
{
	unsigned compared = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		static struct solve_host h;
		static struct solve_want w;
		static struct brute b;
		uint64_t s = seed * 104729, others[3];
		struct solve_free f = { 0 };
		struct solve_answer a, o;

		random_host(&h, &s);
		b = (struct brute){ .h = &h, .f = &f, .w = &w };
		assert_int_equal(solve_prepare(&h), 0);
		for (unsigned g = 0; g < h.ngpus; g++)
			f.gpus |= (uint64_t)(synth_random(&s, 4) != 0) << g;
		for (unsigned n = 0; n < h.nnics; n++)
			f.vfs[n] = (uint16_t)synth_random(&s, 4);
		random_want(&w, &b, &s);
		solve_split_make(&w.memory, b.memory_all, b.memory, h.nnodes);
		solve_split_make(&w.cpus, b.cpus_all, b.cpus, h.nnodes);
		others[0] = first_of(f.gpus, w.gpus);
		others[1] = by_node(&h, f.gpus, w.gpus);
		others[2] = at_random(f.gpus, w.gpus, &s);
		if (w.gpus && solve(&a, &h, &f, &w))
			for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
				static struct solve_want only;

				only = w;
				only.allowed &= others[i];
				if (!solve(&o, &h, &f, &only))
					continue;
				assert_false(score_less(&o.score, &a.score));
				compared++;
			}
		solve_host_done(&h);
	}
	assert_true(compared > 1000);
}

/* Bundles are taken until none fits: no GPU and no VF goes twice; given back, the host is as before. */
static void nothing_twice(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		static struct solve_host h;
		static struct solve_want w;
		static struct brute b;
		uint64_t s = seed * 15485863, seen = 0;
		struct solve_answer taken[16], again;
		struct solve_free f = { 0 }, before;
		unsigned n = 0;

		random_host(&h, &s);
		b = (struct brute){ .h = &h, .f = &f, .w = &w };
		assert_int_equal(solve_prepare(&h), 0);
		f.gpus = (UINT64_C(1) << h.ngpus) - 1;
		for (unsigned k = 0; k < h.nnics; k++)
			f.vfs[k] = (uint16_t)synth_random(&s, 4);
		before = f;
		random_want(&w, &b, &s);
		w.gpus = 1 + synth_random(&s, 2);
		solve_split_make(&w.memory, b.memory_all, b.memory, h.nnodes);
		solve_split_make(&w.cpus, b.cpus_all, b.cpus, h.nnodes);
		while (n < ARRAY_SIZE(taken) && solve(&taken[n], &h, &f, &w)) {
			assert_true(solve(&again, &h, &f, &w));
			assert_true(again.gpus == taken[n].gpus && memcmp(again.vf_nic, taken[n].vf_nic, again.nvfs) == 0);
			assert_int_equal(seen & taken[n].gpus, 0);
			seen |= taken[n].gpus;
			for (unsigned v = 0; v < taken[n].nvfs; v++)
				assert_true(f.vfs[taken[n].vf_nic[v]] > 0);
			solve_take(&f, &taken[n++]);
			w.required = 0;
		}
		while (n > 0)
			solve_give(&f, &taken[--n]);
		assert_memory_equal(&f, &before, sizeof(f));
		solve_host_done(&h);
	}
}

/* A GPU whose NICs are all behind a link that is trained down is in no bundle of later guests: it goes first. */
static void trained_down_goes_first(void **state)
{
	for (unsigned slow = 0; slow < 4; slow++) {
		struct solve_host h = { .ngpus = 4, .nnics = 4, .nnodes = 1, .shape = { { 1, 1 }, { 2, 1 } }, .nshapes = 2 };
		struct solve_want w = { .gpus = 1, .allowed = UINT64_MAX, .nics = UINT64_MAX, .max_path = TOPO_SYS,
					.max_gpu_path = TOPO_UNKNOWN, .any_nodes = true };
		struct solve_free f = { .gpus = 15, .vfs = { 1, 1, 1, 1 } };
		struct solve_answer a;

		for (unsigned g = 0; g < 4; g++) {
			memset(h.path[g], TOPO_PIX, 4);
			memset(h.gpu_path[g], TOPO_PIX, 4);
		}
		h.narrow[slow] = 15;
		assert_int_equal(solve_prepare(&h), 0);
		assert_true(solve(&a, &h, &f, &w));
		assert_int_equal(a.gpus, 1u << slow);
		w.gpus = 2;
		assert_true(solve(&a, &h, &f, &w)); /* then one pair is left with it, or one without */
		assert_int_equal(a.gpus & 1u << slow, 1u << slow);
		solve_host_done(&h);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force),
		cmocka_unit_test(trained_down_goes_first),
		cmocka_unit_test(better_or_equal),
		cmocka_unit_test(nothing_twice),
	};

	return cmocka_run_group_tests_name("solve", tests, NULL, NULL);
}
