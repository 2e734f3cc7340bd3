/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ACS that an operator applied: held without a guest, kept, taken over by the next apply, shared with guests, given back;
 * with a failure and a crash at every call. */
#include "instance/fixture.h"
#include "plan/acs.h"

struct held {
	struct fx fx;
	char     *before;
};

static void held_new(struct held *h)
{
	*h = (struct held){ 0 };
	fx_new(&h->fx);
	h->before = fake_text(h->fx.machine);
	fx_open(&h->fx);
}

static void held_done(struct held *h)
{
	fx_expect_machine(&h->fx, h->before);
	free(h->before);
	fx_done(&h->fx);
}

enum { FIRST = 1, SECOND = 2 }; /* the ports */

static int try_apply(struct fx *fx, uint64_t *op, unsigned ports, struct error *err)
{
	struct plan_acs_write w[2];
	struct plan_acs p = { .write = w };

	if (ports & FIRST)
		w[p.nwrites++] = (struct plan_acs_write){ test_bdf(FAKE_PORT), 0x5f, fake_port_ctl(fx->machine, 0), 0x5d };
	if (ports & SECOND)
		w[p.nwrites++] = (struct plan_acs_write){ test_bdf(FAKE_PORT_TB), 0x5f, fake_port_ctl(fx->machine, 1), 0x5d };
	return inst_acs_apply(fx->m, op, &p, err);
}

static bool apply(struct fx *fx, unsigned ports)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (try_apply(fx, &op, ports, &err) < 0)
		fail_msg("%s", err.text);
	return fx_wait(fx, op);
}

static bool restore(struct fx *fx)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (inst_acs_restore(fx->m, &op, &err) < 0)
		fail_msg("%s", err.text);
	return fx_wait(fx, op);
}

static void expect_ports(struct fx *fx, uint16_t first, uint16_t second)
{
	assert_int_equal(fake_port_ctl(fx->machine, 0), first);
	assert_int_equal(fake_port_ctl(fx->machine, 1), second);
}

/* "17:01.0 00 acs apply; ..." */
static void expect_holds(struct fx *fx, const char *want)
{
	struct error err = ERROR_INIT;
	struct inst_acs_hold *h;
	struct arena arena = { 0 };
	char text[256] = "", bdf[BDF_TEXT_MAX];
	size_t n = 0, len = 0;

	assert_int_equal(inst_acs_holds(fx->m, &h, &n, &arena, &err), 0);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %02x %s; ", bdf_text(bdf, h[i].port) + 5, h[i].was, h[i].by);
	assert_string_equal(text, want);
	arena_done(&arena);
}

static void applied_and_restored(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	struct held h;

	(void)state;
	held_new(&h);
	assert_true(restore(&h.fx)); /* nothing is held: done at once */
	assert_true(apply(&h.fx, FIRST | SECOND));
	expect_ports(&h.fx, 0x5d, 0x5d);
	expect_holds(&h.fx, "17:01.0 00 acs apply; 17:02.0 02 acs apply; ");
	assert_int_equal(inst_list_json(h.fx.m, &o, NULL, &err), 0); /* it is no guest */
	assert_int_equal(json_object_array_length(json_object_object_get(o, "instances")), 0);
	json_object_put(o);
	assert_int_equal(inst_json(h.fx.m, &o, "acs apply 2", &err), -ENOENT);
	assert_int_equal(inst_delete(h.fx.m, &(uint64_t){ 0 }, "acs apply 2", &(struct error){ 0 }), -ENOENT);
	inst_domain_changed(h.fx.m, "acs apply 2", ACT_DOMAIN_SHUTOFF); /* somebody's domain of that name */
	expect_holds(&h.fx, "17:01.0 00 acs apply; 17:02.0 02 acs apply; ");
	assert_true(apply(&h.fx, FIRST | SECOND)); /* again: the same */
	expect_ports(&h.fx, 0x5d, 0x5d);
	expect_holds(&h.fx, "17:01.0 00 acs apply; 17:02.0 02 acs apply; ");
	assert_true(apply(&h.fx, FIRST)); /* fewer: what is not needed is given back */
	expect_ports(&h.fx, 0x5d, 0x1f);
	expect_holds(&h.fx, "17:01.0 00 acs apply; ");
	assert_true(restore(&h.fx));
	expect_holds(&h.fx, "");
	assert_true(restore(&h.fx));
	held_done(&h);
}

static void operation_has_no_instance(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o;
	struct held h;
	uint64_t op;

	(void)state;
	held_new(&h);
	assert_int_equal(try_apply(&h.fx, &op, FIRST, &err), 0);
	assert_true(fx_wait(&h.fx, op));
	o = fx_op(&h.fx, op);
	assert_string_equal(fx_string(o, "kind"), "acs-apply");
	assert_null(fx_string(o, "instance"));
	assert_int_equal(json_object_array_length(json_object_object_get(o, "steps")), 1);
	json_object_put(o);
	assert_int_equal(inst_acs_restore(h.fx.m, &op, &err), 0);
	assert_true(fx_wait(&h.fx, op));
	o = fx_op(&h.fx, op);
	assert_string_equal(fx_string(o, "kind"), "acs-restore");
	assert_string_equal(fx_string(json_object_array_get_idx(json_object_object_get(o, "steps"), 0), "state"), "reverted");
	json_object_put(o);
	held_done(&h);
}

static void one_at_a_time(void **state)
{
	struct error err = ERROR_INIT, busy = ERROR_INIT;
	struct held h;
	uint64_t op, other;

	(void)state;
	held_new(&h);
	fake_pause(h.fx.machine, "acs");
	assert_int_equal(try_apply(&h.fx, &op, FIRST, &err), 0);
	assert_int_equal(inst_acs_restore(h.fx.m, &other, &busy), -EBUSY);
	assert_non_null(strstr(busy.text, "operation 1 "));
	fake_pause(h.fx.machine, "");
	assert_true(fx_wait(&h.fx, op));
	assert_true(restore(&h.fx));
	held_done(&h);
}

/* A guest below the same ports, whichever comes and goes first. */
static void shared_with_a_guest(void **state)
{
	struct held h;

	(void)state;
	held_new(&h);
	assert_true(apply(&h.fx, FIRST | SECOND));
	fx_create_done(&h.fx, &fx_a);
	expect_holds(&h.fx, "17:01.0 00 a; 17:01.0 00 acs apply; 17:02.0 02 a; 17:02.0 02 acs apply; ");
	assert_true(restore(&h.fx));
	expect_ports(&h.fx, 0x5d, 0x5d);
	expect_holds(&h.fx, "17:01.0 00 a; 17:02.0 02 a; ");
	assert_true(apply(&h.fx, FIRST));
	assert_true(fx_wait(&h.fx, fx_delete(&h.fx, "a")));
	expect_ports(&h.fx, 0x5d, 0x1f);
	assert_true(restore(&h.fx));
	held_done(&h);
}

static void await_port(struct fx *fx, size_t port, uint16_t ctl)
{
	for (int i = 0; i < 100000 && fake_port_ctl(fx->machine, port) != ctl; i++)
		fx_nap();
	assert_int_equal(fake_port_ctl(fx->machine, port), ctl);
}

/* Without any guest: after a reset, and by the next daemon. */
static void kept_without_guests(void **state)
{
	struct held h;

	(void)state;
	held_new(&h);
	assert_true(apply(&h.fx, FIRST | SECOND));
	fake_port_is(h.fx.machine, 0, 0x1d);
	inst_machine_changed(h.fx.m);
	await_port(&h.fx, 0, 0x5d);
	fx_close(&h.fx);
	fake_port_is(h.fx.machine, 0, 0x1d);
	fx_open(&h.fx);
	await_port(&h.fx, 0, 0x5d);
	assert_true(restore(&h.fx));
	held_done(&h);
}

/* ---- faults --------------------------------------------------------------------------------------------- */

/* An apply that takes over from one of the first port; a failure leaves that as it was. */
static bool apply_fails_at(enum fake_when when, unsigned k)
{
	struct held h;
	bool failed, fired;

	held_new(&h);
	assert_true(apply(&h.fx, FIRST));
	fake_arm(h.fx.machine, FAKE_FAIL, when, k, false);
	failed = !apply(&h.fx, FIRST | SECOND);
	fired = fake_fired(h.fx.machine); /* perhaps at a look at what is kept, which comes again */
	fake_disarm(h.fx.machine);
	assert_true(fired || !failed);
	expect_ports(&h.fx, 0x5d, failed ? 0x1f : 0x5d);
	expect_holds(&h.fx, failed ? "17:01.0 00 acs apply; " : "17:01.0 00 acs apply; 17:02.0 02 acs apply; ");
	assert_true(restore(&h.fx));
	expect_holds(&h.fx, "");
	held_done(&h);
	return fired;
}

static void apply_fails(void **state)
{
	(void)state;
	for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
		unsigned k = 1;

		while (apply_fails_at((enum fake_when)when, k))
			k++;
		assert_in_range(k, 3, 12);
	}
}

/* What an apply before it left, and the next could not give back, is given back as soon as it can be; nobody has to ask. */
static void left_behind(void **state)
{
	struct held h;

	(void)state;
	held_new(&h);
	assert_true(apply(&h.fx, FIRST));
	FAKE_LOCKED(h.fx.machine, h.fx.machine->port[0].w.stuck[ACT_ACS] = 0x40);
	assert_false(apply(&h.fx, SECOND));
	expect_ports(&h.fx, 0x5d, 0x5d);
	FAKE_LOCKED(h.fx.machine, h.fx.machine->port[0].w.stuck[ACT_ACS] = 0);
	for (int i = 0; i < 100000 && fake_port_ctl(h.fx.machine, 0) != 0x1d; i++)
		fx_nap();
	expect_ports(&h.fx, 0x1d, 0x5d);
	assert_true(restore(&h.fx));
	expect_holds(&h.fx, "");
	held_done(&h);
}

static bool restore_fails_at(unsigned k)
{
	struct held h;
	bool failed;

	held_new(&h);
	assert_true(apply(&h.fx, FIRST | SECOND));
	fx_close(&h.fx); /* also the end of the look at the ports */
	fx_open(&h.fx);
	assert_true(apply(&h.fx, FIRST | SECOND));
	fx_close(&h.fx);
	fake_arm(h.fx.machine, FAKE_FAIL, FAKE_BEFORE, k, true);
	fx_open(&h.fx);
	failed = !restore(&h.fx);
	if (failed)
		assert_false(restore(&h.fx)); /* trying again while it is dead changes nothing */
	fx_close(&h.fx);
	fake_disarm(h.fx.machine);
	fx_open(&h.fx);
	assert_true(restore(&h.fx));
	expect_holds(&h.fx, "");
	held_done(&h);
	return failed;
}

static void restore_fails(void **state)
{
	bool any = false;

	(void)state;
	for (unsigned k = 1; k < 12; k++)
		any = restore_fails_at(k) || any;
	assert_true(any);
}

/* ---- crashes -------------------------------------------------------------------------------------------- */

static void wait_all(struct fx *fx)
{
	for (uint64_t id = 1;; id++) {
		struct error err = ERROR_INIT;
		json_object *o = NULL;

		if (inst_op_json(fx->m, &o, id, &err) < 0)
			return;
		json_object_put(o);
		(void)fx_wait(fx, id);
	}
}

/* A daemon that applies both ports, or restores, and ends at call k of it. True if it did. */
static bool crashes(struct held *h, bool restoring, enum fake_when when, unsigned k)
{
	int status;
	pid_t pid;

	fx_close(&h->fx);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fx_open(&h->fx);
		fake_arm(h->fx.machine, FAKE_CRASHES, when, k, false);
		(void)(restoring ? restore(&h->fx) : apply(&h->fx, FIRST | SECOND));
		fx_close(&h->fx);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	fake_reset_lock(h->fx.machine);
	fake_disarm(h->fx.machine);
	fx_open(&h->fx);
	wait_all(&h->fx);
	return WEXITSTATUS(status) == FAKE_CRASH;
}

/* Either it was taken back and the earlier one is in force, or it was finished. */
static bool apply_crashes_at(enum fake_when when, unsigned k)
{
	struct held h;
	bool crashed;

	held_new(&h);
	assert_true(apply(&h.fx, FIRST));
	crashed = crashes(&h, false, when, k);
	if (fake_port_ctl(h.fx.machine, 1) == 0x5d)
		expect_holds(&h.fx, "17:01.0 00 acs apply; 17:02.0 02 acs apply; ");
	else
		expect_holds(&h.fx, "17:01.0 00 acs apply; ");
	await_port(&h.fx, 0, 0x5d);
	assert_true(restore(&h.fx));
	expect_holds(&h.fx, "");
	held_done(&h);
	return crashed;
}

static bool restore_crashes_at(enum fake_when when, unsigned k)
{
	struct held h;
	bool crashed;

	held_new(&h);
	assert_true(apply(&h.fx, FIRST | SECOND));
	crashed = crashes(&h, true, when, k);
	if (!crashed || fake_port_ctl(h.fx.machine, 1) != 0x5d) {
		expect_ports(&h.fx, 0x1d, 0x1f); /* finished by the next one */
		expect_holds(&h.fx, "");
	}
	assert_true(restore(&h.fx)); /* where it ended before it was asked */
	held_done(&h);
	return crashed;
}

static void crash_at_every_call(void **state)
{
	(void)state;
	for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
		unsigned k = 1;

		while (apply_crashes_at((enum fake_when)when, k))
			k++;
		assert_in_range(k, 4, 16);
		k = 1;
		while (restore_crashes_at((enum fake_when)when, k))
			k++;
		assert_in_range(k, 2, 12);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(applied_and_restored), cmocka_unit_test(operation_has_no_instance),
		cmocka_unit_test(one_at_a_time),	cmocka_unit_test(shared_with_a_guest),
		cmocka_unit_test(kept_without_guests),	cmocka_unit_test(apply_fails),
		cmocka_unit_test(left_behind), cmocka_unit_test(restore_fails),	cmocka_unit_test(crash_at_every_call),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
