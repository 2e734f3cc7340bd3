/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which steps wait for which, on plans of random kinds and targets: what order_next() allows is what the plan's order asks for,
 * all of it comes to be done, and the way back is the same way. */
#include "instance/order.h"

#include "support.h"

#define STEPS 40

struct plan_of {
	struct rows_step step[STEPS];
	char             target[STEPS][8];
	size_t           n;
};

static unsigned draw(unsigned *seed, unsigned below)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 16) % below;
}

static void make_plan(struct plan_of *p, unsigned *seed)
{
	p->n = draw(seed, STEPS) + 1;
	for (size_t i = 0; i < p->n; i++) {
		(void)snprintf(p->target[i], sizeof(p->target[i]), "t%u", draw(seed, 12));
		p->step[i] = (struct rows_step){ .seq = (int64_t)i, .kind = (enum plan_step_kind)draw(seed, PLAN_STEP_MAX_),
						 .target = p->target[i] };
	}
}

/* Does one wave after another; each step's wave. */
static void walk(const struct plan_of *p, bool backwards, size_t wave[STEPS])
{
	bool done[STEPS] = { false };
	size_t at[STEPS], n, left = p->n;

	for (size_t w = 0; (n = order_next(at, p->step, p->n, done, backwards)) > 0; w++) {
		for (size_t i = 0; i < n; i++) {
			assert_false(done[at[i]]);
			assert_true(i == 0 || at[i - 1] < at[i]);
			wave[at[i]] = w;
		}
		for (size_t i = 0; i < n; i++)
			done[at[i]] = true;
		left -= n;
	}
	assert_int_equal(left, 0);
}

static bool is_word(enum plan_step_kind k)
{
	return k == PLAN_STEP_DEVCTL || k == PLAN_STEP_DEVCTL2;
}

/* What the order is for, said once more and in other words than the table. */
static bool must_wait(const struct rows_step *b, const struct rows_step *a)
{
	static const int rank[PLAN_STEP_MAX_] = { [PLAN_STEP_AUTOPROBE] = 1, [PLAN_STEP_VFIO] = 1,	  [PLAN_STEP_VF_COUNT] = 1, [PLAN_STEP_POWER] = 1,
						  [PLAN_STEP_BIND] = 2,	  [PLAN_STEP_DEVCTL] = 3,   [PLAN_STEP_DEVCTL2] = 3,
						  [PLAN_STEP_ACS] = 3,	  [PLAN_STEP_LEND] = 4,	    [PLAN_STEP_SCRUB] = 4,
						  [PLAN_STEP_RESET] = 4,  [PLAN_STEP_VF] = 3 }; /* 0: waits for all, and all for it */

	if (a->kind != b->kind && is_word(a->kind) && is_word(b->kind))
		return false;
	if (strcmp(a->target, b->target) == 0 || !rank[a->kind] || !rank[b->kind])
		return true;
	if (a->kind == PLAN_STEP_AUTOPROBE || b->kind == PLAN_STEP_AUTOPROBE)
		return false; /* of its own PF's VFs alone */
	/* on the way back all words are written, and what sleeps does so again, before the first reset */
	if (a->kind == PLAN_STEP_RESET && (is_word(b->kind) || b->kind == PLAN_STEP_POWER))
		return true;
	/* the gate is of its function alone, which must be awake to be reset */
	if (rank[a->kind] == 4 || rank[b->kind] == 4)
		return b->kind == PLAN_STEP_RESET && (a->kind == PLAN_STEP_VF_COUNT || a->kind == PLAN_STEP_POWER);
	/* that the module is there, and that nothing sleeps, is of interest for binding only: a register is written with the
	 * function awake (pci_config_pm_runtime_get(), drivers/pci/pci-sysfs.c) */
	if (a->kind == PLAN_STEP_VFIO || a->kind == PLAN_STEP_POWER)
		return b->kind == PLAN_STEP_BIND || (a->kind == PLAN_STEP_POWER && b->kind == PLAN_STEP_VF);
	return rank[a->kind] < rank[b->kind];
}

static void any_plan(void **state)
{
	unsigned seed = 7;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t there[STEPS], back[STEPS];
		struct plan_of p;

		make_plan(&p, &seed);
		walk(&p, false, there);
		walk(&p, true, back);
		for (size_t b = 0; b < p.n; b++) {
			size_t latest = 0;
			bool waits = false;

			for (size_t a = 0; a < b; a++) {
				if (!must_wait(&p.step[b], &p.step[a]))
					continue;
				assert_true(there[a] < there[b]);
				assert_true(back[b] < back[a]);
				latest = there[a] > latest ? there[a] : latest;
				waits = true;
			}
			assert_int_equal(there[b], waits ? latest + 1 : 0); /* and not later than it must */
		}
	}
}

/* A function is kept awake until its words are as before: what is written to one that sleeps is lost when it wakes. */
static void awake_for_words(void **state)
{
	struct rows_step s[] = {
		{ .kind = PLAN_STEP_RESET, .target = "gpu" },  { .kind = PLAN_STEP_RESET, .target = "vf" },
		{ .kind = PLAN_STEP_POWER, .target = "gpu" },  { .kind = PLAN_STEP_DEVCTL, .target = "gpu" },
		{ .kind = PLAN_STEP_DEVCTL2, .target = "gpu" },
	};
	bool done[ARRAY_SIZE(s)] = { false };
	size_t at[ARRAY_SIZE(s)];

	(void)state;
	assert_int_equal(order_next(at, s, ARRAY_SIZE(s), done, true), 2);
	done[3] = done[4] = true;
	assert_int_equal(order_next(at, s, ARRAY_SIZE(s), done, true), 1);
	assert_int_equal(at[0], 2);
	done[2] = true;
	assert_int_equal(order_next(at, s, ARRAY_SIZE(s), done, true), 2); /* both resets at once */
}

/* What is never done keeps back what waits for it, and nothing else. */
static void stuck(void **state)
{
	struct rows_step s[] = {
		{ .kind = PLAN_STEP_VFIO, .target = "vfio-pci" }, { .kind = PLAN_STEP_VF_COUNT, .target = "pf" },
		{ .kind = PLAN_STEP_BIND, .target = "vf0" },	  { .kind = PLAN_STEP_BIND, .target = "vf1" },
		{ .kind = PLAN_STEP_ACS, .target = "port" },	  { .kind = PLAN_STEP_DOMAIN, .target = "a" },
	};
	bool done[ARRAY_SIZE(s)] = { [3] = true, [4] = true, [5] = true };
	size_t at[ARRAY_SIZE(s)];

	(void)state;
	assert_int_equal(order_next(at, s, ARRAY_SIZE(s), done, true), 1);
	assert_int_equal(at[0], 2);
	done[2] = true;
	assert_int_equal(order_next(at, s, ARRAY_SIZE(s), done, true), 2);
}

/* The widest part of a plan is as wide as it has functions. */
static void width(void **state)
{
	struct rows_step s[102] = { { .kind = PLAN_STEP_VFIO, .target = "vfio-pci" }, { .kind = PLAN_STEP_VF_COUNT, .target = "pf" } };
	bool done[102] = { true, true };
	char name[102][8];
	size_t at[102];

	(void)state;
	for (int i = 2; i < 102; i++) {
		(void)snprintf(name[i], sizeof(name[i]), "vf%d", i);
		s[i] = (struct rows_step){ .kind = PLAN_STEP_BIND, .target = name[i] };
	}
	assert_int_equal(order_next(at, s, 102, done, false), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_plan),
		cmocka_unit_test(awake_for_words), cmocka_unit_test(stuck),
		cmocka_unit_test(width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
