/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one solve costs, for tests/bench/run: every request size on hosts of 8 GPUs and 12 NIC ports and of 16 and 16, with
 * two GPUs on each switch and with one, everything free, then with random devices taken.
 *   solve            nanoseconds of a case are the least of some runs; free, the mean of all cases, the worst case
 *   solve count N K  solves N times K GPUs of the free 8-GPU host (16: of the other): for callgrind */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/solve.h"
#include "topo/topo.h"

#define CASES 400
#define RUNS  40

/* GPUs below switches, as many on each; NICs go round the switches; half the switches on each of two nodes. */
static void build(struct solve_host *h, uint32_t gpus, uint32_t nics, uint32_t switches)
{
	*h = (struct solve_host){ .ngpus = gpus, .nnics = nics, .nnodes = 2,
				  .shape = { { 1, 80 }, { 2, 5 }, { 4, 4 }, { 8, 11 } }, .nshapes = 4 };
	for (uint32_t g = 0; g < gpus; g++) {
		uint32_t at = g * switches / gpus;

		h->gpu_node[g] = (uint8_t)(at * 2 / switches);
		for (uint32_t n = 0; n < nics; n++) {
			uint32_t on = n % switches;

			h->nic_node[n] = (uint8_t)(on * 2 / switches);
			h->path[g][n] = at == on ? TOPO_PIX : at * 2 / switches == on * 2 / switches ? TOPO_NODE : TOPO_SYS;
		}
		for (uint32_t o = 0; o < gpus; o++) {
			uint32_t on = o * switches / gpus;

			h->gpu_path[g][o] = at == on ? TOPO_PIX : at * 2 / switches == on * 2 / switches ? TOPO_NODE : TOPO_SYS;
		}
	}
	if (solve_prepare(h) < 0)
		abort();
}

static void ask(struct solve_want *w, const struct solve_host *h, uint32_t gpus)
{
	static const uint64_t room[2] = { 1000, 1000 };

	*w = (struct solve_want){ .gpus = gpus, .allowed = UINT64_MAX, .nics = UINT64_MAX, .vfs_per_gpu = 1, .max_path = TOPO_SYS,
				  .max_gpu_path = TOPO_UNKNOWN, .nodes = UINT64_MAX };
	for (uint32_t g = 0; g < h->ngpus; g++)
		w->own[g] = UINT64_MAX;
	solve_split_make(&w->memory, 64, room, 2);
	solve_split_make(&w->cpus, 32, room, 2);
}

static void occupy(struct solve_free *f, const struct solve_host *h, unsigned seed)
{
	srand(seed);
	*f = (struct solve_free){ 0 };
	for (uint32_t g = 0; g < h->ngpus; g++)
		f->gpus |= (uint64_t)(!seed || rand() % 4) << g;
	for (uint32_t n = 0; n < h->nnics; n++) {
		f->load[n] = (uint16_t)(seed ? rand() % 9 : 0);
		f->vfs[n] = (uint16_t)(8 - f->load[n]);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double one(const struct solve_host *h, const struct solve_free *f, const struct solve_want *w)
{
	static struct solve_answer a;
	double best = 1e18;

	for (int run = 0; run < RUNS; run++) {
		double before = now(), ns;
		unsigned n = h->ngpus > 8 ? 1 : 8;

		for (unsigned i = 0; i < n; i++) {
			(void)solve(&a, h, f, w);
			__asm__ volatile("" ::: "memory");
		}
		ns = (now() - before) / n;
		best = ns < best ? ns : best;
	}
	return best;
}

/* Odd cases are on the second host. */
static void measure(const struct solve_host *one_of, const struct solve_host *two_of, uint32_t gpus)
{
	double all = 0, worst = 0;
	struct solve_want w;
	struct solve_free f;

	for (unsigned c = 0; c < CASES; c++) {
		const struct solve_host *h = c % 2 ? two_of : one_of;
		double ns;

		ask(&w, h, gpus);

		occupy(&f, h, c);
		ns = one(h, &f, &w);
		if (c == 0)
			printf("%u %u %u free %.0f", h->ngpus, h->nnics, gpus, ns);
		all += ns;
		worst = ns > worst ? ns : worst;
	}
	printf(" mean %.0f worst %.0f\n", all / CASES, worst);
}

static void tables(uint32_t gpus, uint32_t nics, uint32_t switches)
{
	double best = 1e18;

	for (int run = 0; run < RUNS; run++) {
		static struct solve_host h;
		double before = now();

		build(&h, gpus, nics, switches);
		best = now() - before < best ? now() - before : best;
		solve_host_done(&h);
	}
	printf("tables %u %.0f\n", gpus, best);
}

int main(int argc, char **argv)
{
	static struct solve_host small, small8, big, big16;
	struct solve_answer a;
	struct solve_want w;
	struct solve_free f;

	build(&small, 8, 12, 4);
	build(&small8, 8, 12, 8);
	build(&big, 16, 16, 8);
	build(&big16, 16, 16, 16);
	if (argc == 4 && strcmp(argv[1], "count") == 0) {
		unsigned k = (unsigned)atoi(argv[3]);
		const struct solve_host *h = k > 8 ? &big : &small;

		ask(&w, h, k > 8 ? k - 8 : k);
		occupy(&f, h, 0);
		for (int i = 0; i < atoi(argv[2]); i++)
			(void)solve(&a, h, &f, &w);
		return 0;
	}
	for (uint32_t k = 1; k <= 8; k++)
		measure(&small, &small8, k);
	for (uint32_t k = 1; k <= 16; k++)
		measure(&big, &big16, k);
	tables(8, 12, 4);
	tables(16, 16, 8);
	tables(16, 16, 16);
	solve_host_done(&small);
	solve_host_done(&small8);
	solve_host_done(&big16);
	solve_host_done(&big);
	return 0;
}
