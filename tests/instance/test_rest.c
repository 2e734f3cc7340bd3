/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest that was stopped keeps its functions, and they go through the gate: reset side by side, verified; what is sick is found then,
 * keeps the instance from being started, and gets out again without a delete. */
#include "instance/fixture.h"

#define GPU "0000:19:00.0"
#define VF  "0000:1a:00.1"

static struct fake_fn *fn(struct fx *fx, const char *bdf)
{
	return fake_find(fx->machine, test_bdf(bdf));
}

struct rested {
	struct fx fx;
	char     *before;
};

static void rested_new(struct rested *r, const struct fx_want *w)
{
	fx_new(&r->fx);
	r->before = fake_text(r->fx.machine);
	r->fx.deadlines = (struct inst_deadlines){ 5000, 5000, 5000, 300, 5000, 5000, 5000 };
	fx_open(&r->fx);
	fx_create_done(&r->fx, w);
}

static void rested_done(struct rested *r, const char *name)
{
	assert_true(fx_wait(&r->fx, fx_delete(&r->fx, name)));
	(void)fx_release_all(&r->fx);
	fx_expect_machine(&r->fx, r->before);
	fx_expect_clean(&r->fx);
	free(r->before);
	fx_done(&r->fx);
}

static void stop(struct rested *r, const char *name)
{
	assert_true(fx_wait(&r->fx, fx_order(&r->fx, name, INST_STOP, 0)));
	fx_expect_state(&r->fx, name, "stopped");
}

/* A start is refused, the function is named, and so is the way out. */
static void expect_refused(struct rested *r, const char *bdf, const char *reason)
{
	json_object *o = NULL;
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	assert_int_equal(inst_order(r->fx.m, &op, "a", INST_START, 0, &err), -EBUSY);
	if (!strstr(err.text, bdf) || !strstr(err.text, reason) || !strstr(err.text, "velactl quarantine release"))
		fail_msg("\"%s\" has no \"%s\" or no \"%s\"", err.text, bdf, reason);
	err = ERROR_INIT;
	assert_int_equal(inst_json(r->fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), reason)); /* and the instance says it */
	json_object_put(o);
}

static bool release(struct rested *r, const char *bdf)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (inst_quarantine_release(r->fx.m, &op, test_bdf(bdf), NULL, &err) < 0)
		fail_msg("%s", err.text);
	return fx_wait(&r->fx, op);
}

/* GPU, its audio and eight VFs, on one thread of operations. */
static void side_by_side(void **state)
{
	static const struct fx_want wide = { "wide", GPU, "0000:19:00.1", "0000:1a:00.0", 0, 8, NULL, false };
	struct rested r;

	(void)state;
	rested_new(&r, &wide);
	fake_to_meet(r.fx.machine, "reset", 10);
	stop(&r, "wide");
	assert_int_equal(r.fx.machine->most, 10);
	assert_int_equal(fx_taken(&r.fx), 10);
	fake_to_meet(r.fx.machine, "", 0);
	rested_done(&r, "wide");
}

static void sick(void **state)
{
	static const char *const reason[] = { "it was not reset: it did not come back", "its link has 4 lanes, and had 16", "reset of 0000:1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(reason); i++) {
		struct error err = ERROR_INIT;
		struct rested r;
		uint64_t op = 0;

		rested_new(&r, &fx_a);
		fn(&r.fx, GPU)->dies = i == 0;
		fn(&r.fx, GPU)->narrows = i == 1 ? 4 : 0;
		fake_hang(r.fx.machine, i == 2 ? "reset" : "");
		assert_int_equal(inst_quarantine_release(r.fx.m, &op, test_bdf(GPU), NULL, &err), -ENOENT);
		stop(&r, "a");
		assert_int_equal(fx_taken(&r.fx), 4); /* also what is sick stays its */
		if (i < 2) {
			expect_refused(&r, GPU, reason[i]);
			assert_false(release(&r, GPU)); /* as sick as before */
			fx_reopen(&r.fx);
			expect_refused(&r, GPU, reason[i]);
			fn(&r.fx, GPU)->dies = fn(&r.fx, GPU)->w.dead = false; /* a power cycle */
			fn(&r.fx, GPU)->narrows = 16;
		} else {
			expect_refused(&r, "0000:1", reason[i]);
			fake_return(r.fx.machine);
			for (int k = 0; k < 1000 && inst_hanging(r.fx.m) > 0; k++)
				fx_nap();
		}
		assert_int_equal(fx_release_all(&r.fx), 1);
		assert_string_equal(fn(&r.fx, GPU)->d.driver, "vfio-pci"); /* it is the instance's, still */
		assert_true(fx_wait(&r.fx, fx_order(&r.fx, "a", INST_START, 0)));
		err = ERROR_INIT;
		assert_int_equal(inst_quarantine_add(r.fx.m, test_bdf(GPU), "to see", NULL, &err), 0);
		assert_int_equal(inst_quarantine_release(r.fx.m, &op, test_bdf(GPU), NULL, &err), -EBUSY);
		assert_non_null(strstr(err.text, "instance a, which is running; stop or delete that first"));
		rested_done(&r, "a");
	}
}

/* Deleted with what is sick: that stays in quarantine, without a driver. */
static void deleted(void **state)
{
	struct rested r;

	(void)state;
	rested_new(&r, &fx_a);
	fn(&r.fx, GPU)->dies = true;
	stop(&r, "a");
	assert_true(fx_wait(&r.fx, fx_delete(&r.fx, "a")));
	assert_int_equal(fx_taken(&r.fx), 0);
	assert_string_equal(fn(&r.fx, GPU)->d.override, "quarantine");
	fn(&r.fx, GPU)->dies = fn(&r.fx, GPU)->w.dead = false;
	assert_int_equal(fx_release_all(&r.fx), 1);
	fx_expect_machine(&r.fx, r.before);
	fx_create_done(&r.fx, &fx_a);
	rested_done(&r, "a");
}

/* What is in quarantine by an operator's word is not touched by a stop, and its guest is not started with it again. */
static void by_hand(void **state)
{
	struct error err = ERROR_INIT;
	struct rested r;

	(void)state;
	rested_new(&r, &fx_a);
	assert_int_equal(inst_quarantine_add(r.fx.m, test_bdf(VF), "drops packets", NULL, &err), 0);
	stop(&r, "a");
	assert_int_equal(fn(&r.fx, VF)->resets, 0);
	assert_int_equal(fn(&r.fx, GPU)->resets, 1);
	expect_refused(&r, VF, "drops packets");
	assert_true(release(&r, VF));
	assert_true(fx_wait(&r.fx, fx_order(&r.fx, "a", INST_START, 0)));
	rested_done(&r, "a");
}

/* A guest whose function was taken out of the host, and what has no reset of its own, is stopped as any other. */
static void gone(void **state)
{
	struct rested r;

	(void)state;
	rested_new(&r, &fx_a);
	fn(&r.fx, GPU)->there = false;
	stop(&r, "a");
	assert_int_equal(fx_release_all(&r.fx), 0);
	r.fx.machine->fn[0].there = true;
	assert_true(fx_wait(&r.fx, fx_order(&r.fx, "a", INST_START, 0)));
	rested_done(&r, "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(side_by_side), cmocka_unit_test(sick), cmocka_unit_test(deleted),
					    cmocka_unit_test(by_hand), cmocka_unit_test(gone) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
