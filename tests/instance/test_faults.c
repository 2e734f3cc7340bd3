/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Faults at every call: each create and delete fails, and each process ends, at every call k that it makes
 * to the machine - before its effect, in the middle and after it. Afterwards the machine is as it was, or
 * the operation is finished. */
#include "instance/fixture.h"

struct found {
	struct fx fx;
	char     *before; /* the machine at the start */
};

static void found_new(struct found *f)
{
	fx_new(&f->fx);
	f->before = fake_text(f->fx.machine);
}

static void found_done(struct found *f)
{
	free(f->before);
	fx_done(&f->fx);
}

static void expect_before(struct found *f)
{
	fx_expect_machine(&f->fx, f->before);
	fx_expect_clean(&f->fx);
}

/* An instance that a failed create left, and that holds nothing. */
static void expect_given_back(struct found *f, uint64_t op)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL, *e = NULL;

	expect_before(f);
	fx_expect_state(&f->fx, "a", "failed");
	assert_int_equal(fx_taken(&f->fx), 0);
	assert_int_equal(inst_json(f->fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), "instance a: "));
	assert_non_null(strstr(fx_string(o, "error"), "; everything was given back"));
	json_object_put(o);
	o = fx_op(&f->fx, op);
	assert_true(json_object_object_get_ex(o, "error", &e));
	assert_string_equal(fx_string(e, "code"), "internal");
	assert_non_null(fx_string(o, "finished"));
	json_object_put(o);
	assert_true(fx_wait(&f->fx, fx_delete(&f->fx, "a")));
	fx_expect_state(&f->fx, "a", "");
	expect_before(f);
}

/* One create with the fault at call k; false once k is beyond its calls. */
static bool create_fails_at(enum fake_when when, unsigned k)
{
	struct found f;
	uint64_t op;
	bool fired;

	found_new(&f);
	fx_open(&f.fx);
	fake_arm(f.fx.machine, FAKE_FAIL, when, k, false);
	op = fx_create(&f.fx, &fx_a);
	if (fx_wait(&f.fx, op)) {
		/* the fault may still hit the looks at the new guest and its ports, which come again */
		fx_await_call(&f.fx, "domain");
		fake_disarm(f.fx.machine);
		inst_machine_changed(f.fx.m);
		fx_await_state(&f.fx, "a", "running");
		assert_true(fx_wait(&f.fx, fx_delete(&f.fx, "a")));
		expect_before(&f);
		fired = false;
	} else {
		fired = fake_fired(f.fx.machine);
		assert_true(fired);
		expect_given_back(&f, op);
	}
	found_done(&f);
	return fired;
}

static void create_fails(void **state)
{
	(void)state;
	for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
		unsigned k = 1;

		while (create_fails_at((enum fake_when)when, k))
			k++;
		assert_in_range(k, 20, 80); /* the calls of one create: none was skipped */
	}
}

/* From call k on nothing works, so what was done stays done: the devices stay held until a delete that
 * works. */
static bool machine_dies_at(unsigned k)
{
	struct found f;
	bool failed;

	found_new(&f);
	fx_open(&f.fx);
	fake_arm(f.fx.machine, FAKE_FAIL, FAKE_HALF, k, true);
	failed = !fx_wait(&f.fx, fx_create(&f.fx, &fx_a));
	if (failed) {
		char buf[32];
		size_t held = fx_taken(&f.fx);

		assert_string_equal(fx_state(&f.fx, buf, "a"), "failed");
		assert_true(held == 0 || held == 4);
		if (held) { /* trying again while it is dead changes nothing */
			assert_false(fx_wait(&f.fx, fx_delete(&f.fx, "a")));
			fx_expect_state(&f.fx, "a", "failed");
			assert_int_equal(fx_taken(&f.fx), 4);
		}
	}
	fx_close(&f.fx); /* also the end of the look at a new guest */
	fake_disarm(f.fx.machine);
	fx_open(&f.fx);
	assert_true(fx_wait(&f.fx, fx_delete(&f.fx, "a")));
	fx_expect_state(&f.fx, "a", "");
	assert_int_equal(fx_taken(&f.fx), 0);
	(void)fx_release_all(&f.fx);
	expect_before(&f);
	found_done(&f);
	return failed;
}

static void machine_dies(void **state)
{
	unsigned k = 1;

	(void)state;
	while (machine_dies_at(k))
		k++;
	assert_in_range(k, 20, 80);
}

static bool delete_fails_at(enum fake_when when, unsigned k, bool sticky)
{
	struct found f;
	bool failed, fired, quarantined;

	found_new(&f);
	fx_open(&f.fx);
	fx_create_done(&f.fx, &fx_a);
	fx_reopen(&f.fx);
	fake_arm(f.fx.machine, FAKE_FAIL, when, k, sticky);
	failed = !fx_wait(&f.fx, fx_delete(&f.fx, "a"));
	if (failed) {
		struct error err = ERROR_INIT;
		json_object *o = NULL;

		assert_true(fake_fired(f.fx.machine));
		assert_true(fx_taken(&f.fx) == 4 || fx_taken(&f.fx) == 0); /* 0: what is left is of ports */
		assert_int_equal(inst_json(f.fx.m, &o, "a", &err), 0);
		assert_string_equal(fx_string(o, "state"), "failed");
		assert_non_null(strstr(fx_string(o, "error"), "instance a: "));
		assert_non_null(strstr(fx_string(o, "error"), "step "));
		json_object_put(o);
		fake_disarm(f.fx.machine);
		assert_true(fx_wait(&f.fx, fx_delete(&f.fx, "a")));
		fired = true;
	} else {
		fired = fake_fired(f.fx.machine);
	}
	fake_disarm(f.fx.machine);
	fx_expect_state(&f.fx, "a", "");
	assert_int_equal(fx_taken(&f.fx), 0);
	quarantined = fx_release_all(&f.fx) > 0;
	assert_true(failed || fired == quarantined); /* what went wrong is either said, or kept from the next tenant */
	expect_before(&f);
	found_done(&f);
	return fired;
}

static void delete_fails(void **state)
{
	(void)state;
	for (int sticky = 0; sticky < 2; sticky++)
		for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
			unsigned k = 1;

			while (delete_fails_at((enum fake_when)when, k, sticky))
				k++;
			assert_in_range(k, 15, 80);
		}
}

/* ---- crashes ---------------------------------------------------------------------------------------- */

enum job { JOB_CREATE, JOB_DELETE, JOB_RECOVER };

/* Until no operation is unfinished; ids count from 1. */
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

/* Shared with the child: the delete that it was to do was accepted. */
static bool *accepted;

static void child(struct fx *fx, enum job job, enum fake_when when, unsigned k)
{
	if (job == JOB_DELETE) {
		fx_open(fx);
		fake_arm(fx->machine, FAKE_CRASHES, when, k, false);
		*accepted = fx_delete(fx, "a") != 0;
	} else {
		fake_arm(fx->machine, FAKE_CRASHES, when, k, false);
		fx_open(fx);
		if (job == JOB_CREATE)
			(void)fx_create(fx, &fx_a);
	}
	wait_all(fx);
	fx_close(fx);
	_exit(0);
}

/* A daemon that does one job and "crashes" at call k of it. True if it did. */
static bool crash(struct found *f, enum job job, enum fake_when when, unsigned k)
{
	int status;
	pid_t pid;

	if (!accepted)
		accepted = mmap(NULL, sizeof(*accepted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(accepted != MAP_FAILED);
	if (job == JOB_DELETE)
		*accepted = false;
	fx_close(&f->fx);
	fake_forget_last(f->fx.machine);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(&f->fx, job, when, k);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	fake_reset_lock(f->fx.machine);
	fake_disarm(f->fx.machine);
	if (WEXITSTATUS(status) == FAKE_CRASH)
		return true;
	assert_int_equal(WEXITSTATUS(status), 0);
	return false;
}

/* After any number of crashes: one daemon that lives ends all well. */
static void expect_recovered(struct found *f, enum job job)
{
	char buf[32];

	fx_open(&f->fx);
	wait_all(&f->fx);
	(void)fx_state(&f->fx, buf, "a");
	if (job == JOB_CREATE && strcmp(buf, "running") != 0) {
		struct error err = ERROR_INIT;
		json_object *o = NULL;

		assert_string_equal(buf, "failed");
		expect_before(f);
		assert_int_equal(fx_taken(&f->fx), 0);
		assert_int_equal(inst_json(f->fx.m, &o, "a", &err), 0);
		assert_string_equal(fx_string(o, "error"),
				    "instance a: velad was restarted during create; everything was given back");
		json_object_put(o);
	}
	if (job == JOB_DELETE && *accepted)
		assert_string_equal(buf, "");
	if (job != JOB_DELETE || buf[0]) /* a call of the daemon's own, before the delete, may have been the one that crashed */
		assert_true(fx_wait(&f->fx, fx_delete(&f->fx, "a")));
	fx_expect_state(&f->fx, "a", "");
	assert_int_equal(fx_taken(&f->fx), 0);
	expect_before(f);
	fx_close(&f->fx);
}

static void begin_job(struct found *f, enum job job)
{
	found_new(f);
	if (job == JOB_CREATE)
		return;
	fx_open(&f->fx);
	fx_create_done(&f->fx, &fx_a);
	fx_close(&f->fx);
}

static unsigned crash_everywhere(enum job job, enum fake_when when)
{
	bool crashed = true;
	unsigned k = 0;

	while (crashed) {
		struct found f;

		begin_job(&f, job);
		crashed = crash(&f, job, when, ++k);
		if (crashed || job == JOB_DELETE)
			expect_recovered(&f, job);
		found_done(&f);
	}
	return k;
}

static void create_crashes(void **state)
{
	(void)state;
	for (int when = 0; when < FAKE_WHEN_MAX_; when++)
		assert_in_range(crash_everywhere(JOB_CREATE, (enum fake_when)when), 20, 80);
}

static void delete_crashes(void **state)
{
	(void)state;
	for (int when = 0; when < FAKE_WHEN_MAX_; when++)
		assert_in_range(crash_everywhere(JOB_DELETE, (enum fake_when)when), 15, 80);
}

/* A crash at call k, and a second one at every call j of the recovery. */
static unsigned crash_twice(enum job job, enum fake_when when, unsigned k)
{
	bool crashed = true;
	unsigned j = 0;

	while (crashed) {
		struct found f;

		begin_job(&f, job);
		assert_true(crash(&f, job, when, k));
		crashed = crash(&f, JOB_RECOVER, when, ++j);
		expect_recovered(&f, job);
		found_done(&f);
	}
	return j;
}

static void recovery_crashes(void **state)
{
	static const unsigned create_k[] = { 2, 4, 8, 12, 14, 19 }, delete_k[] = { 1, 3, 7, 11, 15 };
	unsigned total = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(create_k); i++)
		total += crash_twice(JOB_CREATE, (enum fake_when)(i % FAKE_WHEN_MAX_), create_k[i]);
	for (size_t i = 0; i < ARRAY_SIZE(delete_k); i++)
		total += crash_twice(JOB_DELETE, (enum fake_when)(i % FAKE_WHEN_MAX_), delete_k[i]);
	assert_in_range(total, 80, 800);
}

/* A create that waited behind another one when the daemon died is not run later: its plan is old. A
 * delete that waited is. */
static void queue_survives(void **state)
{
	struct found f;
	int status;
	pid_t pid;

	(void)state;
	found_new(&f);
	fx_open(&f.fx);
	fx_create_done(&f.fx, &fx_a);
	fx_close(&f.fx);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fake_pause(f.fx.machine, "domain_stop");
		fx_open(&f.fx);
		(void)fx_delete(&f.fx, "a");
		fx_await_call(&f.fx, "domain_stop");
		(void)fx_create(&f.fx, &fx_b);
		_exit(FAKE_CRASH);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), FAKE_CRASH);
	fake_reset_lock(f.fx.machine);
	fake_pause(f.fx.machine, "");
	fx_open(&f.fx);
	wait_all(&f.fx);
	fx_expect_state(&f.fx, "a", "");
	fx_expect_state(&f.fx, "b", "failed");
	assert_int_equal(fx_taken(&f.fx), 0);
	expect_before(&f);
	found_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create_fails),
		cmocka_unit_test(machine_dies),
		cmocka_unit_test(delete_fails),
		cmocka_unit_test(create_crashes),
		cmocka_unit_test(delete_crashes),
		cmocka_unit_test(recovery_crashes),
		cmocka_unit_test(queue_survives),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
