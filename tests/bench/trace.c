/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Policies of placement compared on a stream of jobs: one host of 8 GPUs and 8 NICs on 4 switches, the numbers of GPUs
 * that jobs of the Alibaba 2023 GPU trace ask for (3,911 x 1, 222 x 2, 206 x 4, 556 x 8: facts of cluster-trace-gpu-v2023,
 * none of its data), Poisson arrivals, exponential durations. The same jobs for every policy; velad's is the real solver.
 *
 * strict: a job gets a set that is as good as the whole host has for its size, or it is rejected; every policy chooses
 * among the good sets by its own rule. loose: it gets what the policy takes, good or not, if so many GPUs are free.
 *
 * trace [SEEDS [JOBS]]: means over the seeds, and half the 95 % interval (Student's t). */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "best_effort.h"
#include "plan/solve.h"
#include "topo/topo.h"

#define GPUS      8
#define NICS      8
#define SETS      (1u << GPUS)
#define SIZES     4
#define SEEDS_MAX 30

static const unsigned size_of[SIZES] = { 1, 2, 4, 8 };
static const double   jobs_of[SIZES] = { 3911, 222, 206, 556 };

enum situation { HEALTHY, NICS_DOWN, LINK_DOWN, PARTITIONS, SITUATIONS };
static const char *const situations[SITUATIONS] = { "healthy", "NICs of switch 0 down", "link of GPU 5 at x4", "NVSwitch partitions" };
enum policy { RANDOM, FIRST_FIT, KUBELET, BEST_EFFORT, VELAD, POLICIES };
static const char *const policies[POLICIES] = { "random", "first-fit", "kubelet-like", "best-effort", "velad" };

/* ---- the host ------------------------------------------------------------------------------------ */

/* GPU and NIC i and i + 2 of a NUMA node share a switch: the numbers of real boards do not follow the switches. */
static unsigned switch_of(unsigned i) { return i / 4 * 2 + i % 2; }

static enum topo_class path(unsigned a, unsigned b)
{
	return switch_of(a) == switch_of(b) ? TOPO_PIX : a / 4 == b / 4 ? TOPO_NODE : TOPO_SYS;
}

/* HGX H100's table, with the module ids of the XE9680 in BDF order: 2 4 1 3 7 5 6 8. */
static size_t make_partitions(uint64_t *set)
{
	static const unsigned module[GPUS] = { 2, 4, 1, 3, 7, 5, 6, 8 };
	static const char *const rows[] = { "12345678", "1234", "5678", "13", "24", "57", "68", "1", "2", "3", "4", "5", "6", "7", "8" };
	size_t n = sizeof(rows) / sizeof(rows[0]);

	for (size_t i = 0; i < n; i++) {
		set[i] = 0;
		for (unsigned g = 0; g < GPUS; g++)
			if (strchr(rows[i], (int)('0' + module[g])))
				set[i] |= UINT64_C(1) << g;
	}
	return n;
}

struct world {
	struct solve_host h;
	struct solve_free all;
	enum situation situation;
	bool           good[SETS];      /* as good as the host has for its size */
	bool           possible[SIZES]; /* there is a good one at all */
	enum topo_class best[SIZES];    /* GPU-GPU class of good ones */
};

static bool gpu_good(const struct world *w, unsigned g)
{
	return !(w->situation == NICS_DOWN && switch_of(g) == 0) && !(w->situation == LINK_DOWN && g == 5);
}

static bool is_partition(const struct world *w, uint64_t set)
{
	for (size_t i = 0; i < w->h.npartitions; i++)
		if (w->h.partition[i] == set)
			return true;
	return !w->h.npartitions;
}

static enum topo_class widest(unsigned set)
{
	enum topo_class worst = TOPO_SELF;

	for (unsigned a = 0; a < GPUS; a++)
		for (unsigned b = a + 1; b < GPUS; b++)
			if ((set >> a & 1) && (set >> b & 1) && path(a, b) > worst)
				worst = path(a, b);
	return worst;
}

/* Each GPU with a NIC of its switch and its whole link, GPUs as near as the host has, and a partition. */
static void find_good(struct world *w)
{
	for (unsigned k = 0; k < SIZES; k++) {
		w->best[k] = TOPO_CLASS_MAX_;
		w->possible[k] = false;
		for (unsigned pass = 0; pass < 2; pass++)
			for (unsigned s = 1; s < SETS; s++) {
				bool ok = (unsigned)__builtin_popcount(s) == size_of[k] && is_partition(w, s);

				if (ok && !pass && widest(s) < w->best[k])
					w->best[k] = widest(s);
				for (unsigned g = 0; g < GPUS && ok; g++)
					ok = !(s >> g & 1) || gpu_good(w, g);
				if (ok && pass && widest(s) == w->best[k])
					w->good[s] = w->possible[k] = true;
			}
	}
}

static void make_world(struct world *w, enum situation situation)
{
	*w = (struct world){ .situation = situation, .h = { .ngpus = GPUS, .nnics = NICS, .nnodes = 2, .nshapes = SIZES } };
	for (unsigned g = 0; g < GPUS; g++) {
		w->h.gpu_node[g] = w->h.nic_node[g] = (uint8_t)(g / 4);
		for (unsigned o = 0; o < GPUS; o++) {
			w->h.path[g][o] = (uint8_t)path(g, o);
			w->h.gpu_path[g][o] = g == o ? TOPO_SELF : (uint8_t)path(g, o);
			w->h.width[g][o] = situation == LINK_DOWN && g == 5;
			w->h.narrow[g] |= (uint64_t)(situation == LINK_DOWN && g == 5) << o;
		}
		w->all.vfs[g] = situation == NICS_DOWN && switch_of(g) == 0 ? 0 : 8;
		w->h.no_nics |= (uint64_t)!w->all.vfs[g] << g; /* as the daemon leaves ports without a link out */
	}
	w->all.gpus = SETS - 1;
	for (unsigned k = 0; k < SIZES; k++)
		w->h.shape[k] = (struct solve_shape){ .size = size_of[k], .weight = (uint32_t)jobs_of[k] };
	if (situation == PARTITIONS) {
		w->h.npartitions = make_partitions(w->h.partition);
	}
	if (solve_prepare(&w->h) < 0)
		abort();
	find_good(w);
}

/* ---- the policies -------------------------------------------------------------------------------- */

/* Allowed sets of a size within free: all, or the good ones. */
static bool may(const struct world *w, unsigned s, unsigned k, unsigned free, bool strict)
{
	return !(s & ~free) && (unsigned)__builtin_popcount(s) == size_of[k] && (!strict || w->good[s]);
}

/* Sets in the order of their GPUs: {0,1} before {0,2} before {1,2}. */
static bool before(unsigned a, unsigned b)
{
	unsigned first = (a ^ b) & -(a ^ b);

	return a & first;
}

static unsigned pick_first(const struct world *w, unsigned k, unsigned free, bool strict, bool by_node)
{
	unsigned best = 0, best_nodes = 9;

	for (unsigned s = 1; s < SETS; s++) {
		unsigned nodes = by_node ? !!(s & 0x0f) + !!(s & 0xf0) : 0;

		if (may(w, s, k, free, strict) && (nodes < best_nodes || (nodes == best_nodes && before(s, best)))) {
			best = s;
			best_nodes = nodes;
		}
	}
	return best;
}

static unsigned pick_random(const struct world *w, unsigned k, unsigned free, bool strict, unsigned short seed[3])
{
	unsigned n = 0, best = 0;

	for (unsigned s = 1; s < SETS; s++)
		if (may(w, s, k, free, strict) && erand48(seed) * ++n < 1)
			best = s;
	return best;
}

static unsigned pick_best_effort(const struct world *w, unsigned k, unsigned free, bool strict)
{
	uint8_t pair[PARTED_MAX][PARTED_MAX];
	struct parting p = { .size = size_of[k], .good = strict ? w->good : NULL, .pair = pair };

	for (unsigned a = 0; a < GPUS; a++)
		for (unsigned b = 0; b < GPUS; b++)
			pair[a][b] = pair_score(path(a, b));
	return best_effort(&p, free);
}

static bool pick_velad(struct solve_answer *a, const struct world *w, const struct solve_free *f, unsigned k, bool strict)
{
	struct solve_want want = { .gpus = size_of[k], .allowed = SETS - 1, .vfs_per_gpu = 1, .nics = UINT64_MAX, .any_nodes = true,
				   .max_path = strict ? TOPO_PIX : TOPO_SYS, .max_gpu_path = strict ? w->best[k] : TOPO_SYS,
				   .partitioned = w->h.npartitions > 0 };

	for (unsigned g = 0; g < GPUS; g++) {
		want.own[g] = UINT64_MAX;
		if (strict && w->situation == LINK_DOWN && g == 5)
			want.allowed &= ~(UINT64_C(1) << g); /* the bandwidth that is asked for */
	}
	return solve(a, &w->h, f, &want);
}

/* ---- one run -------------------------------------------------------------------------------------- */

struct figures {
	double rejects, accepted, good, good_few, avoidable; /* percent */
};

struct running {
	double              end;
	struct solve_answer a;
};

struct run {
	const struct world *w;
	enum policy         policy;
	bool                strict;
	unsigned short      seed[3], own[3];
	struct solve_free   free;
	struct running      job[GPUS];
	unsigned            njobs;
	unsigned            memo[SIZES][SETS]; /* of policies that are functions of what is free; UINT32_MAX: not yet */
};

static void finish_until(struct run *r, double now)
{
	for (unsigned i = 0; i < r->njobs;) {
		if (r->job[i].end > now) {
			i++;
			continue;
		}
		solve_give(&r->free, &r->job[i].a);
		r->job[i] = r->job[--r->njobs];
	}
}

static unsigned choose(struct run *r, struct solve_answer *a, unsigned k)
{
	unsigned free = (unsigned)r->free.gpus, *memo = &r->memo[k][free];

	*a = (struct solve_answer){ 0 };
	if (r->policy == VELAD)
		return pick_velad(a, r->w, &r->free, k, r->strict) ? (unsigned)a->gpus : 0;
	if (r->policy == RANDOM) {
		a->gpus = pick_random(r->w, k, free, r->strict, r->own);
		return (unsigned)a->gpus;
	}
	if (*memo == UINT32_MAX)
		*memo = r->policy == BEST_EFFORT ? pick_best_effort(r->w, k, free, r->strict)
						 : pick_first(r->w, k, free, r->strict, r->policy == KUBELET);
	a->gpus = *memo;
	return *memo;
}

static unsigned draw_size(struct run *r)
{
	double all = 0, at;
	unsigned k = 0;

	for (unsigned i = 0; i < SIZES; i++)
		all += jobs_of[i];
	at = erand48(r->seed) * all;
	while (k + 1 < SIZES && at >= jobs_of[k])
		at -= jobs_of[k++];
	return k;
}

static double exponential(struct run *r, double mean)
{
	return -mean * log(1 - erand48(r->seed));
}

static bool one_is_good(const struct world *w, unsigned k, unsigned free)
{
	for (unsigned s = 1; s < SETS; s++)
		if (may(w, s, k, free, true))
			return true;
	return false;
}

static struct figures simulate(const struct world *w, enum policy policy, bool strict, double rho, unsigned seed, unsigned jobs)
{
	struct run r = { .w = w, .policy = policy, .strict = strict, .seed = { 1, (unsigned short)seed, 7 },
			 .own = { 2, (unsigned short)seed, 9 }, .free = w->all };
	double now = 0, per_job = 0, all = 0, offered = 0, given = 0;
	unsigned rejected = 0, asked = 0, placed = 0, good = 0, few = 0, good_few = 0, avoidable = 0;

	memset(r.memo, 0xff, sizeof(r.memo));
	for (unsigned k = 0; k < SIZES; k++) {
		per_job += jobs_of[k] * size_of[k];
		all += jobs_of[k];
	}
	for (unsigned i = 0; i < jobs; i++) {
		unsigned k, free, set;
		struct solve_answer a;
		double length;

		now += exponential(&r, per_job / all / (rho * GPUS));
		k = draw_size(&r);
		length = exponential(&r, 1);
		finish_until(&r, now);
		if (!w->possible[k])
			continue; /* nobody could: it says nothing about policies */
		asked++;
		offered += length * size_of[k];
		free = (unsigned)r.free.gpus;
		if ((unsigned)__builtin_popcount(free) < size_of[k])
			continue;
		set = choose(&r, &a, k);
		if (!set) {
			rejected++;
			continue;
		}
		assert((unsigned)__builtin_popcount(set) == size_of[k] && !(set & ~free) && (!strict || w->good[set]));
		placed++;
		good += w->good[set];
		few += k == 1 || k == 2;
		good_few += (k == 1 || k == 2) && w->good[set];
		avoidable += !w->good[set] && one_is_good(w, k, free);
		given += length * size_of[k];
		solve_take(&r.free, &a);
		r.job[r.njobs++] = (struct running){ .end = now + length, .a = a };
	}
	return (struct figures){ 100.0 * rejected / asked, 100 * given / offered, 100.0 * good / placed,
				 few ? 100.0 * good_few / few : 0, 100.0 * avoidable / placed };
}

/* ---- the tables ----------------------------------------------------------------------------------- */

static double student(unsigned n) /* 97.5 % quantile, n - 1 degrees of freedom */
{
	static const double t[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145 };

	return n < 2 ? 0 : n - 2 < sizeof(t) / sizeof(t[0]) ? t[n - 2] : 2.13;
}

static void cell(const double *x, unsigned n)
{
	double mean = 0, var = 0;

	for (unsigned i = 0; i < n; i++)
		mean += x[i] / n;
	for (unsigned i = 0; i < n && n > 1; i++)
		var += (x[i] - mean) * (x[i] - mean) / (n - 1);
	printf(" %7.2f +- %4.2f", mean, student(n) * sqrt(var / n));
}

static void row(const struct world *w, enum policy policy, double rho, unsigned seeds, unsigned jobs)
{
	double x[5][SEEDS_MAX];

	for (unsigned s = 0; s < seeds; s++) {
		struct figures strict = simulate(w, policy, true, rho, s + 1, jobs);
		struct figures loose = simulate(w, policy, false, rho, s + 1, jobs);

		x[0][s] = strict.rejects;
		x[1][s] = strict.accepted;
		x[2][s] = loose.good;
		x[3][s] = loose.good_few;
		x[4][s] = loose.avoidable;
	}
	printf("  %-14s", policies[policy]);
	for (unsigned c = 0; c < 5; c++)
		cell(x[c], seeds);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const double loads[] = { 0.5, 0.8 };
	unsigned seeds = argc > 1 ? (unsigned)atoi(argv[1]) : 10, jobs = argc > 2 ? (unsigned)atoi(argv[2]) : 20000;

	if (seeds < 1 || seeds > SEEDS_MAX || jobs < 1) {
		fprintf(stderr, "usage: trace [SEEDS up to %d [JOBS]]\n", SEEDS_MAX);
		return 2;
	}
	printf("8 GPUs, 8 NICs, 4 switches; %u jobs of 1 2 4 8 GPUs as 3911:222:206:556, %u seeds; percent, mean +- half of the 95 %% interval\n",
	       jobs, seeds);
	for (enum situation s = HEALTHY; s < SITUATIONS; s++) {
		struct world w;

		make_world(&w, s);
		for (size_t l = 0; l < sizeof(loads) / sizeof(loads[0]); l++) {
			printf("%s, load %.1f\n  %-14s %-32s%-48s\n", situations[s], loads[l], "", "    strict", "    loose");
			printf("  %-14s %15s %15s %15s %15s %15s\n", "policy", "frag. rejects", "GPU time given", "at best class",
			       "of 2 and 4 GPUs", "avoidably worse");
			for (enum policy p = RANDOM; p < POLICIES; p++)
				row(&w, p, loads[l], seeds, jobs);
		}
		solve_host_done(&w.h);
	}
	return 0;
}
