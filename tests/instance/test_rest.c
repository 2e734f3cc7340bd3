/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest that was stopped, or ended by itself, keeps its functions, and they go through the gate: reset side by side, verified; what is
 * sick is found then, keeps the instance from being started, and gets out again without a delete. */
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

/* velad is told to end while a function is released: that has not failed, and the next one ends it. */
static void interrupted(void **state)
{
	struct error err = ERROR_INIT;
	struct rested r;
	uint64_t op = 0;

	(void)state;
	rested_new(&r, &fx_a);
	fn(&r.fx, GPU)->dies = true;
	stop(&r, "a");
	fn(&r.fx, GPU)->dies = fn(&r.fx, GPU)->w.dead = false;
	fx_close(&r.fx);
	r.fx.deadlines = INST_DEADLINES;
	r.fx.stop_ms = 50;
	fx_open(&r.fx);
	fake_hang(r.fx.machine, "reset");
	assert_int_equal(inst_quarantine_release(r.fx.m, &op, test_bdf(GPU), NULL, &err), 0);
	fx_await_hang(&r.fx);
	fx_close(&r.fx);
	fake_return(r.fx.machine);
	fx_open(&r.fx);
	assert_true(fx_wait(&r.fx, op));
	assert_true(fx_wait(&r.fx, fx_order(&r.fx, "a", INST_START, 0)));
	rested_done(&r, "a");
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

/* ---- nobody told it to end ------------------------------------------------------------------------------ */

static unsigned count_ops(struct rested *r, const char *kind)
{
	const struct inst_op_filter all = { .limit = 100 };
	struct error err = ERROR_INIT;
	json_object *o = NULL, *list;
	unsigned n = 0;

	assert_int_equal(inst_op_list_json(r->fx.m, &o, &all, &err), 0);
	list = json_object_object_get(o, "operations");
	for (size_t i = 0; i < json_object_array_length(list); i++)
		n += strcmp(fx_string(json_object_array_get_idx(list, i), "kind"), kind) == 0;
	json_object_put(o);
	return n;
}

/* Waits until there is one. */
static uint64_t last_op(struct rested *r, const char *kind)
{
	for (int i = 0; i < 100000; i++) {
		const struct inst_op_filter newest = { .limit = 1 };
		struct error err = ERROR_INIT;
		json_object *o = NULL, *op;
		uint64_t id;
		bool is;

		assert_int_equal(inst_op_list_json(r->fx.m, &o, &newest, &err), 0);
		op = json_object_array_get_idx(json_object_object_get(o, "operations"), 0);
		is = strcmp(fx_string(op, "kind"), kind) == 0;
		id = json_object_get_uint64(json_object_object_get(op, "id"));
		json_object_put(o);
		if (is)
			return id;
		fx_nap();
	}
	fail_msg("there is no %s", kind);
	return 0;
}

/* From inside, by virsh destroy, by a crash, by undefine; seen by an event, by the next daemon, or by a look when libvirt comes back. */
static void by_itself(void **state)
{
	static const enum act_domain how[] = { ACT_DOMAIN_SHUTOFF, ACT_DOMAIN_CRASHED, ACT_DOMAIN_ABSENT };

	(void)state;
	for (unsigned i = 0; i < 3 * ARRAY_SIZE(how); i++) {
		enum act_domain as = how[i % 3];
		struct rested r;

		rested_new(&r, &fx_a);
		if (i / 3 == 1)
			fx_close(&r.fx);
		fake_domain_is(r.fx.machine, "a", as);
		if (as == ACT_DOMAIN_ABSENT)
			*fake_domain_find(r.fx.machine, "a") = (struct fake_domain){ 0 };
		fake_ats(r.fx.machine, GPU, false);
		if (i / 3 == 0)
			inst_domain_changed(r.fx.m, "a", as);
		else if (i / 3 == 1)
			fx_open(&r.fx);
		else
			inst_domain_changed(r.fx.m, NULL, ACT_DOMAIN_CHANGED);
		fx_await_state(&r.fx, "a", "stopped");
		assert_int_equal(fn(&r.fx, GPU)->resets, 1);
		assert_int_equal(fn(&r.fx, VF)->resets, 1);
		assert_false(fn(&r.fx, GPU)->dirty || fn(&r.fx, VF)->dirty);
		assert_int_equal(fx_taken(&r.fx), 4);
		inst_domain_changed(r.fx.m, "a", as); /* it is told again */
		fx_reopen(&r.fx);
		assert_int_equal(count_ops(&r, "gate"), 1);
		assert_int_equal(fn(&r.fx, GPU)->resets, 1);
		assert_true(fx_wait(&r.fx, fx_order(&r.fx, "a", INST_START, 0)));
		rested_done(&r, "a");
	}
}

/* What is sick then is in quarantine, and why it ended is still said. */
static void by_itself_sick(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	struct rested r;

	(void)state;
	rested_new(&r, &fx_a);
	fn(&r.fx, GPU)->dies = true;
	fake_domain_is(r.fx.machine, "a", ACT_DOMAIN_CRASHED);
	inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_CRASHED);
	fx_await_state(&r.fx, "a", "stopped");
	assert_int_equal(inst_json(r.fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), "the guest crashed; see its console log; " GPU " is in quarantine: it was not reset"));
	json_object_put(o);
	expect_refused(&r, GPU, "it did not come back");
	fn(&r.fx, GPU)->dies = fn(&r.fx, GPU)->w.dead = false;
	assert_int_equal(fx_release_all(&r.fx), 1);
	rested_done(&r, "a");
}

/* One that crashed is started again after the gate, and not with what is sick. */
static void by_itself_again(void **state)
{
	(void)state;
	for (int dies = 0; dies < 2; dies++) {
		struct rested r;

		rested_new(&r, &fx_a);
		fx_close(&r.fx);
		r.fx.crash = (struct inst_crash){ true, 5, 1000 };
		fx_open(&r.fx);
		fn(&r.fx, GPU)->dies = dies;
		fake_domain_is(r.fx.machine, "a", ACT_DOMAIN_CRASHED);
		inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_CRASHED);
		assert_int_equal(fx_wait(&r.fx, last_op(&r, "start")), !dies);
		fx_expect_state(&r.fx, "a", dies ? "stopped" : "running");
		assert_int_equal(fn(&r.fx, GPU)->resets, dies ? fn(&r.fx, GPU)->resets : 1);
		if (dies) {
			fn(&r.fx, GPU)->dies = fn(&r.fx, GPU)->w.dead = false;
			assert_int_equal(fx_release_all(&r.fx), 1);
		}
		rested_done(&r, "a");
	}
}

/* Not below an operation, which does it or needs it not; not what runs again; and what is not a guest's any more is left alone. */
static void by_itself_not(void **state)
{
	struct rested r;
	uint64_t op;

	(void)state;
	rested_new(&r, &fx_a);
	fake_pause(r.fx.machine, "reset");
	op = fx_order(&r.fx, "a", INST_STOP, 0);
	fx_await_call(&r.fx, "reset");
	inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_SHUTOFF);
	fake_pause(r.fx.machine, "");
	assert_true(fx_wait(&r.fx, op));
	assert_int_equal(fn(&r.fx, GPU)->resets, 1);
	assert_true(fx_wait(&r.fx, fx_order(&r.fx, "a", INST_START, 0)));
	fake_pause(r.fx.machine, "domain_stop");
	op = fx_delete(&r.fx, "a");
	fx_await_call(&r.fx, "domain_stop");
	inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_SHUTOFF);
	fake_pause(r.fx.machine, "");
	assert_true(fx_wait(&r.fx, op));
	assert_int_equal(count_ops(&r, "gate"), 0);
	fx_create_done(&r.fx, &fx_a);
	fn(&r.fx, GPU)->resets = fn(&r.fx, VF)->resets = 0;
	inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_SHUTOFF); /* and by now it runs again */
	fx_await_state(&r.fx, "a", "running");
	assert_int_equal(count_ops(&r, "gate"), 1);
	assert_int_equal(fn(&r.fx, GPU)->resets, 0);
	(void)snprintf(fn(&r.fx, GPU)->d.driver, ACT_DRIVER_MAX, "nvidia"); /* the host was booted, and nobody knows of it */
	fake_domain_is(r.fx.machine, "a", ACT_DOMAIN_SHUTOFF);
	inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_SHUTOFF);
	fx_await_state(&r.fx, "a", "stopped");
	assert_int_equal(fn(&r.fx, GPU)->resets, 0);
	assert_int_equal(fn(&r.fx, VF)->resets, 1);
	(void)snprintf(fn(&r.fx, GPU)->d.driver, ACT_DRIVER_MAX, "vfio-pci");
	rested_done(&r, "a");
}

/* libvirt went away just then: whether it is off still, nobody knows, and it is asked again; the next daemon does so, too, and a delete
 * does not wait for it. */
static void by_itself_unknown(void **state)
{
	struct rested r;
	char *said;

	(void)state;
	for (int i = 0; i < 3; i++) {
		rested_new(&r, &fx_a);
		fake_domain_is(r.fx.machine, "a", ACT_DOMAIN_SHUTOFF);
		fake_break(r.fx.machine, "domain");
		inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_SHUTOFF);
		said = fx_await_tries(&r.fx, "a", "gate");
		assert_non_null(strstr(said, "domain is broken"));
		free(said);
		fx_expect_state(&r.fx, "a", "stopping");
		assert_int_equal(fn(&r.fx, GPU)->resets, 0);
		if (i == 1)
			fx_close(&r.fx);
		fake_break(r.fx.machine, "");
		if (i == 1)
			fx_open(&r.fx);
		if (i < 2)
			fx_await_state(&r.fx, "a", "stopped");
		assert_int_equal(fn(&r.fx, GPU)->resets, i < 2);
		rested_done(&r, "a");
	}
}

/* What is asked for while velad's own operation waits or runs is taken, and done after it. */
static void asked_meanwhile(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct error err = ERROR_INIT;
		struct rested r;
		uint64_t op = 0, gate;

		rested_new(&r, &fx_a);
		fake_pause(r.fx.machine, i < 3 ? "reset" : "domain"); /* it runs */
		fake_domain_is(r.fx.machine, "a", ACT_DOMAIN_SHUTOFF);
		inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_SHUTOFF);
		fx_await_call(&r.fx, i < 3 ? "reset" : "domain");
		gate = last_op(&r, "gate");
		if (i % 3 == 2) {
			assert_int_equal(inst_order(r.fx.m, &op, "a", INST_REBOOT, 0, &err), -EBUSY);
			assert_string_equal(err.text, "instance a is stopping; only one that runs can be rebooted");
			op = fx_order(&r.fx, "a", INST_STOP, 0);
			assert_int_equal(op, gate);
		} else {
			op = i % 3 == 0 ? fx_order(&r.fx, "a", INST_START, 0) : fx_delete(&r.fx, "a");
			assert_true(op > gate);
		}
		fake_pause(r.fx.machine, "");
		assert_true(fx_wait(&r.fx, op));
		assert_true(fx_wait(&r.fx, gate) || i % 3 == 1); /* a delete may have made it needless */
		fx_expect_state(&r.fx, "a", i % 3 == 0 ? "running" : i % 3 == 1 ? "" : "stopped");
		if (i % 3 == 1)
			fx_create_done(&r.fx, &fx_a);
		rested_done(&r, "a");
	}
}

/* A stop is answered with it, too, where the guest runs again, and it is stopped. */
static void stopped_meanwhile(void **state)
{
	struct rested r;
	uint64_t op;

	(void)state;
	rested_new(&r, &fx_a);
	fake_pause(r.fx.machine, "domain");
	inst_domain_changed(r.fx.m, "a", ACT_DOMAIN_SHUTOFF); /* and by now it runs again */
	fx_await_call(&r.fx, "domain");
	op = fx_order(&r.fx, "a", INST_STOP, 0);
	assert_int_equal(op, last_op(&r, "gate"));
	fake_pause(r.fx.machine, "");
	assert_true(fx_wait(&r.fx, op));
	fx_expect_state(&r.fx, "a", "stopped");
	assert_int_equal(fake_domain_find(r.fx.machine, "a")->state, ACT_DOMAIN_SHUTOFF);
	assert_int_equal(fn(&r.fx, GPU)->resets, 1);
	rested_done(&r, "a");
}

/* So is a delete of one that is given back. */
static void deleted_meanwhile(void **state)
{
	struct rested r;
	uint64_t op;

	(void)state;
	rested_new(&r, &fx_a);
	fake_break(r.fx.machine, "domain_stop");
	assert_false(fx_wait(&r.fx, fx_delete(&r.fx, "a")));
	fx_close(&r.fx);
	fake_pause(r.fx.machine, "domain_stop");
	fake_break(r.fx.machine, "");
	fx_open(&r.fx);
	fx_await_call(&r.fx, "domain_stop"); /* by the undo */
	op = fx_delete(&r.fx, "a");
	fake_pause(r.fx.machine, "");
	assert_true(fx_wait(&r.fx, op));
	fx_expect_state(&r.fx, "a", "");
	fx_create_done(&r.fx, &fx_a);
	rested_done(&r, "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(side_by_side), cmocka_unit_test(sick), cmocka_unit_test(interrupted), cmocka_unit_test(deleted),
					    cmocka_unit_test(by_hand), cmocka_unit_test(gone), cmocka_unit_test(by_itself),
					    cmocka_unit_test(by_itself_sick), cmocka_unit_test(by_itself_again),
					    cmocka_unit_test(by_itself_not), cmocka_unit_test(by_itself_unknown),
					    cmocka_unit_test(asked_meanwhile), cmocka_unit_test(stopped_meanwhile), cmocka_unit_test(deleted_meanwhile) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
