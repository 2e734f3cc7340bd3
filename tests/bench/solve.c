/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one solve costs, for tests/bench/run: every kind of request, for every number of GPUs that it can ask for, on
 * hosts of 8 GPUs and 12 NIC ports, and of 16 and 16: everything free, then random devices taken; and what others' policies
 * cost there, for GPUs alone.
 *   solve             the cases of each kind and size; nanoseconds of a case are the least of many runs of it
 *   solve count N K   solves N times K GPUs of the free 8-GPU host (8 + K: of the other): for callgrind
 *   solve 8, 16       only the hosts of so many GPUs */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "best_effort.h"
#include "plan/solve.h"

#ifndef CASES
#define CASES 100
#endif
#ifndef RUNS
#define RUNS 20
#endif
#define LIMIT_8  2000
#define LIMIT_16 500000

/* ---- hosts -------------------------------------------------------------------------------------- */

enum fault { NONE, TRAINED_DOWN, MESH, PARTITIONS };

struct layout {
	const char *name;
	uint32_t    gpus, nics, switches;
	enum fault  fault;
	uint32_t    nodes;
};

static const struct layout layouts[] = {
	{ "two GPUs a switch", 8, 12, 4, NONE, 2 },
	{ "one GPU a switch", 8, 12, 8, NONE, 2 },
	{ "two GPUs a switch, links trained down", 8, 12, 4, TRAINED_DOWN, 2 },
	{ "NVLink cube mesh of two kinds of links", 8, 12, 4, MESH, 2 },
	{ "NVSwitch partitions", 8, 12, 4, PARTITIONS, 2 },
	{ "one GPU a NUMA node", 8, 12, 8, NONE, 8 },
	{ "two GPUs a switch", 16, 16, 8, NONE, 2 },
	{ "one GPU a switch", 16, 16, 16, NONE, 2 },
	{ "two GPUs a switch, links trained down", 16, 16, 8, TRAINED_DOWN, 2 },
	{ "two GPUs a NUMA node", 16, 16, 8, NONE, 8 },
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* Lines of the table: some of the layouts each. */
static const struct group {
	const char *name;
	size_t      from, to;
	double      limit;
	unsigned    cases, runs, at_once;
} groups[] = {
	{ "8", 0, 5, LIMIT_8, CASES, RUNS, 8 },
	{ "8 on 8", 5, 6, LIMIT_8, CASES, RUNS, 8 },
	{ "16", 6, 9, LIMIT_16, CASES / 10, RUNS / 10, 1 },
	{ "16 on 8", 9, 10, LIMIT_16, CASES / 10, RUNS / 10, 1 },
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static uint8_t class_between(const struct layout *l, uint32_t a, uint32_t b)
{
	return a == b ? TOPO_PIX : a * l->nodes / l->switches == b * l->nodes / l->switches ? TOPO_NODE : TOPO_SYS;
}

/* DGX-1V: by the number of NVLinks between two of its GPUs, 2, 1 or none (NVIDIA, DGX-1 with V100 white paper, 2017). */
static uint8_t mesh(uint32_t a, uint32_t b)
{
	static const char *const links[8] = { "01122000", "10210200", "12020010", "21200001", "20000112", "02001021", "00101202", "00012120" };

	return links[a][b] == '2' ? TOPO_PIX : links[a][b] == '1' ? TOPO_PXB : TOPO_SYS;
}

/* HGX H100's table with module ids in BDF order. */
static void add_partitions(struct solve_host *h)
{
	static const uint8_t sets[] = { 0xff, 0x0f, 0xf0, 0x05, 0x0a, 0x50, 0xa0, 1, 2, 4, 8, 16, 32, 64, 128 };

	for (size_t i = 0; i < sizeof(sets); i++)
		h->partition[h->npartitions++] = sets[i];
}

/* GPUs below switches, as many on each; NICs go round the switches; as many switches on each node. */
static void build(struct solve_host *h, const struct layout *l)
{
	*h = (struct solve_host){ .ngpus = l->gpus, .nnics = l->nics, .nnodes = l->nodes,
				  .shape = { { 1, 80 }, { 2, 5 }, { 4, 4 }, { 8, 11 } }, .nshapes = 4 };
	for (uint32_t g = 0; g < l->gpus; g++) {
		uint32_t at = g * l->switches / l->gpus;

		h->gpu_node[g] = (uint8_t)(at * l->nodes / l->switches);
		for (uint32_t n = 0; n < l->nics; n++) {
			h->nic_node[n] = (uint8_t)(n % l->switches * l->nodes / l->switches);
			h->path[g][n] = class_between(l, at, n % l->switches);
			h->width[g][n] = l->fault == TRAINED_DOWN ? (uint8_t)((g % 5 == 2) + (n % 7 == 3) * 2) : 0;
		}
		for (uint32_t o = 0; o < l->gpus; o++)
			h->gpu_path[g][o] = l->fault == MESH ? mesh(g, o) : class_between(l, at, o * l->switches / l->gpus);
	}
	if (l->fault == PARTITIONS)
		add_partitions(h);
	if (solve_prepare(h) < 0)
		abort();
}

/* ---- requests ----------------------------------------------------------------------------------- */

struct ask {
	const struct solve_host *h;
	struct solve_free        f;
	struct solve_want        w;
	struct solve_ties        ties;
	bool                     loose; /* limits are lifted where nothing fits: a second solve */
};

static void basic(struct ask *a, uint32_t gpus)
{
	static const uint64_t room[8] = { 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000 };

	a->w = (struct solve_want){ .gpus = gpus, .allowed = UINT64_MAX, .nics = UINT64_MAX, .vfs_per_gpu = 1, .max_path = TOPO_SYS,
				    .max_gpu_path = TOPO_UNKNOWN, .nodes = UINT64_MAX, .partitioned = a->h->npartitions > 0 };
	for (uint32_t g = 0; g < a->h->ngpus; g++)
		a->w.own[g] = UINT64_MAX;
	solve_split_make(&a->w.memory, 64, room, a->h->nnodes);
	solve_split_make(&a->w.cpus, 32, room, a->h->nnodes);
	a->loose = false;
}

static uint64_t some(uint32_t n)
{
	return UINT64_C(1) << rand() % n;
}

static void no_vfs(struct ask *a) { a->w.vfs_per_gpu = 0; }
static void vf_each(struct ask *a) { (void)a; }
static void vf_two(struct ask *a) { a->w.vfs_per_gpu = 2; }
static void vf_four(struct ask *a) { a->w.vfs_per_gpu = 4; }
static void whole(struct ask *a, uint32_t vfs) { a->w.vfs_per_gpu = 0; a->w.vfs = vfs; }
static void whole_one(struct ask *a) { whole(a, 1); }
static void whole_few(struct ask *a) { whole(a, (a->w.gpus + 1) / 2); }
static void whole_some(struct ask *a) { whole(a, a->w.gpus); }
static void whole_many(struct ask *a) { whole(a, 2 * a->w.gpus + 1); }
static void spread(struct ask *a) { a->w.per_nic = 1; }
static void spread_two(struct ask *a) { a->w.per_nic = 1; a->w.vfs_per_gpu = 2; }
static void spread_whole(struct ask *a) { a->w.per_nic = 1; whole(a, a->w.gpus); }
static void near_nics(struct ask *a) { a->w.max_path = TOPO_PIX; }
static void near_gpus(struct ask *a) { a->w.max_gpu_path = TOPO_NODE; }
static void near_both(struct ask *a) { a->w.max_path = TOPO_NODE; a->w.max_gpu_path = TOPO_NODE; }
static void loose(struct ask *a) { a->w.max_path = TOPO_PIX; a->w.max_gpu_path = TOPO_PIX; a->loose = true; }
static void require_gpu(struct ask *a) { a->w.required = a->f.gpus & some(a->h->ngpus); }
static void exclude(struct ask *a) { a->w.allowed &= ~some(a->h->ngpus); a->w.nics &= ~(some(a->h->nnics) | some(a->h->nnics)); }
static void without(struct ask *a) { a->w.without = a->f.gpus & ((UINT64_C(1) << a->w.gpus) - 1); }
static void two_cells(struct ask *a) { a->w.cells = 2; }
static void exclusive(struct ask *a) { a->w.gpus = a->h->ngpus; a->f.gpus = (UINT64_C(1) << a->h->ngpus) - 1; }

static void rails(struct ask *a)
{
	for (uint32_t g = 0; g < a->h->ngpus; g++)
		for (uint32_t n = 0; n < a->h->nnics; n++)
			if (n % a->h->ngpus != g)
				a->w.own[g] &= ~(UINT64_C(1) << n);
}

static void min_bandwidth(struct ask *a)
{
	for (uint32_t g = 0; g < a->h->ngpus; g++)
		a->w.own[g] = a->h->wide[0][g];
}

static void require_nic(struct ask *a)
{
	uint32_t n = (uint32_t)rand() % a->h->nnics;

	a->w.need[n] = 1;
	a->w.needed = UINT64_C(1) << n;
}

static void models(struct ask *a)
{
	a->w.nhall = 2;
	a->w.hall[0] = 0x3333;
	a->w.hall[1] = 0xffff;
	a->w.hall_need[0] = a->w.gpus / 2;
	a->w.hall_need[1] = a->w.gpus;
}

/* One guest would reach a function of another's, unless it has both. */
static void tied(struct ask *a)
{
	uint32_t g = (uint32_t)rand() % a->h->ngpus;

	a->ties = (struct solve_ties){ 0 };
	a->ties.gpu_gpus[g] = UINT64_C(1) << (g ^ 1);
	a->ties.nic_gpus[rand() % a->h->nnics] = UINT64_C(1) << g;
	a->w.ties = &a->ties;
}

static void short_memory(struct ask *a)
{
	uint64_t room[8] = { 64, 40, 64, 40, 30, 30, 64, 40 };

	solve_split_make(&a->w.memory, 64, room, a->h->nnodes);
}

static const struct kind {
	const char *name;
	void (*ask)(struct ask *a);
	bool alone; /* of one size only */
} kinds[] = {
	{ "vfs_per_gpu 1", vf_each }, { "no VFs", no_vfs }, { "vfs_per_gpu 2", vf_two }, { "vfs_per_gpu 4", vf_four },
	{ "vfs 1", whole_one }, { "vfs half as many", whole_few }, { "vfs as many as GPUs", whole_some }, { "vfs 2 n + 1", whole_many },
	{ "spread pf", spread }, { "spread pf, vfs_per_gpu 2", spread_two }, { "spread pf, vfs", spread_whole }, { "rails", rails },
	{ "max_path PIX", near_nics }, { "max_gpu_path NODE", near_gpus }, { "both NODE", near_both }, { "min_bandwidth", min_bandwidth },
	{ "loose, PIX and PIX", loose }, { "a GPU required", require_gpu }, { "a VF required", require_nic }, { "excluded", exclude },
	{ "two models", models }, { "what leaks", tied }, { "other GPUs (next)", without }, { "cells 2", two_cells }, { "short memory", short_memory },
	{ .name = "exclusive", .ask = exclusive, .alone = true },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Every third case has few VFs left. */
static void occupy(struct solve_free *f, const struct solve_host *h, unsigned seed)
{
	srand(seed);
	*f = (struct solve_free){ 0 };
	for (uint32_t g = 0; g < h->ngpus; g++)
		f->gpus |= (uint64_t)(!seed || rand() % 4) << g;
	for (uint32_t n = 0; n < h->nnics; n++) {
		f->load[n] = (uint16_t)(seed ? rand() % 9 : 0);
		f->vfs[n] = (uint16_t)(seed % 3 == 2 ? rand() % 3 : 8 - f->load[n]);
	}
}

static void make_case(struct ask *a, const struct solve_host *h, const struct kind *k, uint32_t gpus, unsigned seed)
{
	a->h = h;
	occupy(&a->f, h, seed);
	basic(a, gpus);
	k->ask(a);
}

/* ---- the time ----------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* of a shared machine: not what others had meanwhile */
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static bool solve_asked(struct ask *a)
{
	static struct solve_answer answer;
	uint32_t path = a->w.max_path, gpu_path = a->w.max_gpu_path;
	bool found = solve(&answer, a->h, &a->f, &a->w);

	if (!found && a->loose) {
		a->w.max_path = TOPO_SYS;
		a->w.max_gpu_path = TOPO_UNKNOWN;
		found = solve(&answer, a->h, &a->f, &a->w);
		a->w.max_path = path;
		a->w.max_gpu_path = gpu_path;
	}
	return found;
}

enum who { FIRST_FIT, KUBELET, BEST_EFFORT, VELAD, WHO };

static volatile uint64_t taken; /* by the others */

/* kubelet: the lowest of the first node that has enough, else of all. */
static uint64_t lowest_free(const struct solve_host *h, uint64_t free, uint32_t gpus, bool by_node)
{
	for (uint32_t node = by_node ? 0 : h->nnodes; node <= h->nnodes; node++) {
		uint64_t set = 0;
		uint32_t n = 0;

		for (uint32_t g = 0; g < h->ngpus && n < gpus; g++)
			if ((free >> g & 1) && (node == h->nnodes || h->gpu_node[g] == node)) {
				set |= UINT64_C(1) << g;
				n++;
			}
		if (n == gpus)
			return set;
	}
	return 0;
}

static void choose(struct ask *a, enum who who)
{
	static uint8_t pair[PARTED_MAX][PARTED_MAX];
	struct parting p = { .size = a->w.gpus, .pair = pair };

	if (who == VELAD)
		(void)solve_asked(a);
	if (who == FIRST_FIT || who == KUBELET)
		taken = lowest_free(a->h, a->f.gpus, a->w.gpus, who == KUBELET);
	if (who != BEST_EFFORT)
		return;
	for (uint32_t g = 0; g < a->h->ngpus; g++)
		for (uint32_t o = 0; o < a->h->ngpus; o++)
			pair[g][o] = pair_score(a->h->gpu_path[g][o]);
	taken = best_effort(&p, (unsigned)a->f.gpus);
}

static double least_of(struct ask *a, enum who who, unsigned runs, unsigned n)
{
	double best = 1e18;

	for (unsigned run = 0; run < runs && (run < 2 || best < 1e6); run++) {
		double before = now(), ns;

		for (unsigned i = 0; i < n; i++) {
			choose(a, who);
			__asm__ volatile("" ::: "memory");
		}
		ns = (now() - before) / n;
		best = ns < best ? ns : best;
	}
	return best;
}

/* Whoever shares the core makes it slower: what is beyond the limit is run again later, up to twenty times. */
static double one(struct ask *a, const struct group *g)
{
	double best = least_of(a, VELAD, g->runs, g->at_once);

	for (unsigned again = 0; again < 20 && best > g->limit; again++) {
		double ns;

		(void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
		ns = least_of(a, VELAD, g->runs, g->at_once);
		best = ns < best ? ns : best;
	}
	return best;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* One line: kind, host's GPUs, ns of the free host (all sizes' mean), mean, half, 99 of 100, worst, and where that is. */
static void measure(const struct solve_host *host, const struct kind *k, const struct group *g)
{
	static double ns[LAYOUTS * 16 * CASES];
	unsigned worst_case = 0, worst_gpus = 0, nfree = 0;
	double free = 0, sum = 0, worst = 0;
	const char *worst_host = "";
	static struct ask a;
	size_t n = 0;

	for (size_t l = g->from; l < g->to; l++)
		for (uint32_t gpus = k->alone ? layouts[l].gpus : 1; gpus <= layouts[l].gpus; gpus++)
			for (unsigned c = 0; c < g->cases; c++) {
				make_case(&a, &host[l], k, gpus, c);
				ns[n] = one(&a, g);
				sum += ns[n];
				free += c ? 0 : ns[n];
				nfree += !c;
				if (ns[n] > worst) {
					worst = ns[n];
					worst_host = layouts[l].name;
					worst_gpus = gpus;
					worst_case = c;
				}
				n++;
			}
	qsort(ns, n, sizeof(ns[0]), by_time);
	printf("%s;%s;%.0f;%.0f;%.0f;%.0f;%.0f;%u of %s, case %u\n", g->name, k->name, free / nfree, sum / (double)n, ns[n / 2], ns[n * 99 / 100], worst,
	       worst_gpus, worst_host, worst_case);
}

/* One line: host's GPUs, how many are wanted, with a VF each; of each policy mean and worst ns. */
static void beside(const struct solve_host *host, const struct group *g, uint32_t gpus)
{
	static struct ask a;

	printf("beside;%s;%u", g->name, gpus);
	for (enum who who = FIRST_FIT; who < WHO; who++) {
		double sum = 0, worst = 0;
		unsigned n = 0;

		for (size_t l = g->from; l < g->to; l++)
			for (unsigned c = 0; c < (g->cases < 20 ? 3 : 20); c++) {
				double ns;

				make_case(&a, &host[l], &kinds[0], gpus, c);
				ns = who == VELAD ? one(&a, g) : least_of(&a, who, 5, who == BEST_EFFORT ? g->at_once : 64);
				sum += ns;
				worst = ns > worst ? ns : worst;
				n++;
			}
		printf(";%.0f;%.0f", sum / n, worst);
	}
	printf("\n");
}

static void tables(const struct layout *l)
{
	double best = 1e18;

	for (int run = 0; run < 20; run++) {
		static struct solve_host h;
		double before = now();

		build(&h, l);
		best = now() - before < best ? now() - before : best;
		solve_host_done(&h);
	}
	printf("tables;%u;%.0f\n", l->gpus, best);
}

static int count_instructions(const struct solve_host *host, int times, uint32_t k)
{
	static struct ask a;

	make_case(&a, k > 8 ? &host[groups[2].from] : &host[0], &kinds[0], k > 8 ? k - 8 : k, 0);
	for (int i = 0; i < times; i++)
		(void)solve_asked(&a);
	return 0;
}

int main(int argc, char **argv)
{
	static struct solve_host host[LAYOUTS];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t l = 0; l < LAYOUTS; l++)
		build(&host[l], &layouts[l]);
	if (argc == 4 && strcmp(argv[1], "count") == 0)
		return count_instructions(host, atoi(argv[2]), (uint32_t)atoi(argv[3]));
	for (size_t g = 0; g < GROUPS; g++)
		for (size_t k = 0; k < KINDS && (argc < 2 || strcmp(argv[1], groups[g].name) == 0); k++)
			measure(host, &kinds[k], &groups[g]);
	for (size_t g = 0; g < GROUPS && argc < 2; g++)
		for (uint32_t gpus = 1; gpus <= layouts[groups[g].from].gpus; gpus *= 2)
			beside(host, &groups[g], gpus);
	for (size_t l = 0; l < LAYOUTS && argc < 2; l++)
		tables(&layouts[l]);
	for (size_t l = 0; l < LAYOUTS; l++)
		solve_host_done(&host[l]);
	return 0;
}
