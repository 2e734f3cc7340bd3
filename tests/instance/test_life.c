/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Start, stop, reboot and reset: what an instance keeps, what a host's reboot takes, faults and kills at every call. */
#include <sys/socket.h>

#include "instance/fixture.h"
#include "instance/manager.h"
#include "instance/store.h"

#define GPU "0000:19:00.0"

static struct fake_fn *fn(struct fx *fx, const char *bdf)
{
	return fake_find(fx->machine, test_bdf(bdf));
}

struct lived {
	struct fx fx;
	char     *before, *running; /* the machine */
};

static void lived_new(struct lived *l)
{
	fx_new(&l->fx);
	l->before = fake_text(l->fx.machine);
	fx_open(&l->fx);
	fx_create_done(&l->fx, &fx_a);
	l->running = fake_text(l->fx.machine);
}

static void lived_done(struct lived *l)
{
	free(l->before);
	free(l->running);
	fx_done(&l->fx);
}

static void expect_deleted(struct lived *l)
{
	assert_true(fx_wait(&l->fx, fx_delete(&l->fx, "a")));
	fx_expect_state(&l->fx, "a", "");
	assert_int_equal(fx_taken(&l->fx), 0);
	fx_expect_machine(&l->fx, l->before);
	fx_expect_clean(&l->fx);
}

static uint64_t generation_of(struct lived *l)
{
	struct error err = ERROR_INIT;
	struct inst_text is;

	assert_int_equal(inst_text(l->fx.m, &is, "a", &err), 0);
	return is.generation;
}

/* What a client saw of an instance is what it changes: nothing begins if it changed meanwhile, even by being made anew. */
static void generations(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t first, stopped, op = 0;
	struct lived l;

	(void)state;
	lived_new(&l);
	first = generation_of(&l);
	assert_true(first > 0);
	inst_expect(l.fx.m, "a", first);
	assert_int_equal(inst_order(l.fx.m, &op, "a", INST_STOP, 0, &err), 0);
	assert_true(fx_wait(&l.fx, op));
	stopped = generation_of(&l);
	assert_true(stopped > first);
	inst_expect(l.fx.m, "a", first);
	assert_int_equal(inst_delete(l.fx.m, &op, "a", &err), -EREMCHG);
	assert_non_null(strstr(err.text, "get it again"));
	fx_expect_state(&l.fx, "a", "stopped");
	assert_int_equal(generation_of(&l), stopped);
	expect_deleted(&l); /* what was expected is forgotten */
	fx_create_done(&l.fx, &fx_a);
	assert_true(generation_of(&l) > stopped);
	inst_expect(l.fx.m, "a", stopped);
	err = ERROR_INIT;
	assert_int_equal(inst_order(l.fx.m, &op, "a", INST_REBOOT, 0, &err), -EREMCHG);
	inst_expect(l.fx.m, "nobody", stopped);
	err = ERROR_INIT;
	assert_int_equal(inst_delete(l.fx.m, &op, "nobody", &err), -ENOENT);
	lived_done(&l);
}

/* Looks at the machine and at libvirt commit, too; they have ended once nothing was committed for a while. */
static uint64_t commits_settled(struct store *store)
{
	uint64_t n;

	do {
		n = store_commits(store);
		(void)nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	} while (n != store_commits(store));
	return n;
}

/* One that is only reserved: a commit makes it and a commit takes it back, and the machine is as it was; after a start it is as
 * any other. */
static void reserved(void **state)
{
	struct plan_request req = test_request("{\"name\": \"a\"}");
	struct error err = ERROR_INIT;
	struct plan *plan;
	uint64_t op = 0, commits;
	struct lived l;

	(void)state;
	fx_new(&l.fx);
	l.before = fake_text(l.fx.machine);
	l.running = NULL;
	fx_open(&l.fx);
	plan = fx_plan(&fx_a);
	for (int i = 0; i < 2; i++) {
		commits = commits_settled(l.fx.m->store);
		assert_int_equal(inst_reserve(l.fx.m, &op, &req, plan, "uuid-of-a", &err), 0);
		assert_int_equal(store_commits(l.fx.m->store), commits + 1);
		assert_true(fx_wait(&l.fx, op));
		fx_expect_state(&l.fx, "a", "stopped");
		assert_int_equal(fx_taken(&l.fx), 4);
		assert_int_equal(inst_reserve(l.fx.m, &op, &req, plan, "uuid-of-a", &err), -EEXIST);
		err = ERROR_INIT;
		fx_reopen(&l.fx);
		fx_expect_state(&l.fx, "a", "stopped");
		fx_expect_machine(&l.fx, l.before);
		commits = store_commits(l.fx.m->store);
		op = fx_delete(&l.fx, "a");
		assert_true(store_commits(l.fx.m->store) >= commits + 1);
		assert_true(fx_wait(&l.fx, op));
		fx_expect_state(&l.fx, "a", "");
		assert_int_equal(fx_taken(&l.fx), 0);
	}
	assert_int_equal(inst_reserve(l.fx.m, &op, &req, plan, "uuid-of-a", &err), 0);
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0)));
	fx_expect_state(&l.fx, "a", "running");
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, 0)));
	expect_deleted(&l);
	plan_free(plan);
	plan_request_done(&req);
	lived_done(&l);
}

/* What the guest that made them left of VFs and the like, for one that shares the port is reserved, goes with that one, though it was never started. */
static void reserved_after_another(void **state)
{
	auto_(plan_free) struct plan *plan = fx_plan(&fx_b);
	struct plan_request req = test_request("{\"name\": \"b\"}");
	struct error err = ERROR_INIT;
	struct fx fx;
	char *before, *now;
	uint64_t op;

	(void)state;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	if (inst_reserve(fx.m, &op, &req, plan, "uuid-of-b", &err) < 0)
		fail_msg("%s", err.text);
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	now = fake_text(fx.machine);
	assert_string_not_equal(now, before);
	free(now);
	assert_true(fx_wait(&fx, fx_delete(&fx, "b")));
	fx_expect_state(&fx, "b", "");
	fx_expect_machine(&fx, before);
	plan_request_done(&req);
	free(before);
	fx_done(&fx);
}

/* No worker has anything to do for a reservation, but the store's log is put away all the same. */
static void the_log_is_put_away(void **state)
{
	struct plan_request req = test_request("{\"name\": \"a\"}");
	struct error err = ERROR_INIT;
	struct plan *plan;
	unsigned i = 0;
	uint64_t op;
	struct lived l;

	(void)state;
	fx_new(&l.fx);
	l.before = l.running = NULL;
	fx_open(&l.fx);
	plan = fx_plan(&fx_a);
	for (; i < 1000 && !store_is_long(l.fx.m->store); i++) {
		assert_int_equal(inst_reserve(l.fx.m, &op, &req, plan, "uuid-of-a", &err), 0);
		(void)fx_delete(&l.fx, "a");
	}
	assert_in_range(i, 1, 999);
	(void)inst_reserve(l.fx.m, &op, &req, plan, "uuid-of-a", &err);
	for (i = 0; i < 50000 && store_is_long(l.fx.m->store); i++)
		fx_nap();
	assert_false(store_is_long(l.fx.m->store));
	plan_free(plan);
	plan_request_done(&req);
	lived_done(&l);
}

static void stop_and_start(void **state)
{
	struct lived l;

	(void)state;
	lived_new(&l);
	for (int i = 0; i < 3; i++) {
		l.fx.machine->deaf = i == 1;
		assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, i == 2 ? 0 : 1)));
		fx_expect_state(&l.fx, "a", "stopped");
		assert_int_equal(fx_taken(&l.fx), 4); /* it keeps what it has */
		assert_int_equal(fn(&l.fx, GPU)->resets, i + 1);
		assert_false(fn(&l.fx, GPU)->dirty); /* nothing of the guest is left in it while it lies there */
		assert_string_equal(fn(&l.fx, GPU)->d.driver, "vfio-pci");
		assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0)));
		fx_expect_state(&l.fx, "a", "running");
		fx_expect_machine(&l.fx, l.running);
	}
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_REBOOT, 0)));
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_RESET, 0)));
	assert_int_equal(l.fx.machine->reboots, 2);
	fx_expect_state(&l.fx, "a", "running");
	expect_deleted(&l);
	lived_done(&l);
}

static void refuse(struct fx *fx, enum inst_order order, const char *state, const char *text)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	assert_int_equal(inst_order(fx->m, &op, "a", order, 0, &err), -EBUSY);
	if (!strstr(err.text, state) || !strstr(err.text, text))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err.text, state, text);
}

static void wrong_states(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0, stop;
	struct lived l;

	(void)state;
	lived_new(&l);
	assert_int_equal(inst_order(l.fx.m, &op, "b", INST_START, 0, &err), -ENOENT);
	refuse(&l.fx, INST_START, "is running", "once it is stopped");
	fake_pause(l.fx.machine, "domain_off");
	stop = fx_order(&l.fx, "a", INST_STOP, 0);
	fx_await_call(&l.fx, "domain_off");
	fx_expect_state(&l.fx, "a", "stopping");
	refuse(&l.fx, INST_START, "(stop) runs on a", "wait for its end");
	fake_pause(l.fx.machine, "");
	assert_true(fx_wait(&l.fx, stop));
	refuse(&l.fx, INST_STOP, "is stopped", "only one that runs can be stopped");
	refuse(&l.fx, INST_REBOOT, "is stopped", "rebooted");
	refuse(&l.fx, INST_RESET, "is stopped", "reset");
	expect_deleted(&l);
	lived_done(&l);
}

/* VFs are gone, drivers are back, and registers are as the firmware left them. */
static void host_reboots(struct fx *fx)
{
	for (size_t i = 0; i < fx->machine->nfns; i++) {
		struct fake_fn *f = &fx->machine->fn[i];

		f->there = f->pf < 0;
		f->dirty = false;
		f->d = (struct act_driver){ 0 };
		f->w.now[ACT_DEVCTL] = 0x2820;
		f->w.power = (struct act_power){ "on", 1 };
	}
	(void)snprintf(fn(fx, GPU)->d.driver, ACT_DRIVER_MAX, "nvidia");
	(void)snprintf(fn(fx, "0000:19:00.1")->d.driver, ACT_DRIVER_MAX, "snd_hda_intel");
	(void)snprintf(fn(fx, "0000:1a:00.0")->d.driver, ACT_DRIVER_MAX, "mlx5_core");
	(void)snprintf(fn(fx, "0000:3c:00.0")->d.driver, ACT_DRIVER_MAX, "mlx5_core");
	(void)snprintf(fn(fx, "0000:3b:00.0")->d.override, ACT_DRIVER_MAX, "nothing/at all");
	fake_port_is(fx->machine, 0, 0x1d);
	fake_port_is(fx->machine, 1, 0x1f);
	fake_domain_is(fx->machine, "a", ACT_DOMAIN_SHUTOFF);
}

static void after_a_reboot(void **state)
{
	struct lived l;

	(void)state;
	lived_new(&l);
	fx_close(&l.fx);
	host_reboots(&l.fx);
	fx_open(&l.fx);
	fx_await_state(&l.fx, "a", "stopped");
	assert_int_equal(fx_taken(&l.fx), 4);
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0)));
	fx_expect_machine(&l.fx, l.running);
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, 0)));
	host_reboots(&l.fx);
	expect_deleted(&l); /* also without a start in between */
	lived_done(&l);
}

/* Somebody changed the card while the guest stood still. */
static void another_card(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	struct lived l;

	(void)state;
	lived_new(&l);
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, 0)));
	(void)snprintf(fn(&l.fx, GPU)->serial, ACT_SERIAL_MAX, "1234");
	assert_false(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0)));
	fx_expect_state(&l.fx, "a", "stopped");
	assert_int_equal(inst_json(l.fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), "another card is at " GPU));
	json_object_put(o);
	(void)snprintf(fn(&l.fx, GPU)->serial, ACT_SERIAL_MAX, "48b02d0000000001");
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0)));
	expect_deleted(&l);
	lived_done(&l);
}

static void crashes(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	struct lived l;

	(void)state;
	lived_new(&l);
	fake_domain_is(l.fx.machine, "a", ACT_DOMAIN_CRASHED);
	inst_domain_changed(l.fx.m, "a", ACT_DOMAIN_CRASHED);
	fx_await_state(&l.fx, "a", "stopped");
	assert_int_equal(inst_json(l.fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), "the guest crashed; see"));
	json_object_put(o);
	fx_close(&l.fx);
	l.fx.crash = (struct inst_crash){ true, 2, 1000 };
	fx_open(&l.fx);
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0)));
	fake_domain_is(l.fx.machine, "a", ACT_DOMAIN_CRASHED); /* the second time */
	inst_domain_changed(l.fx.m, "a", ACT_DOMAIN_CRASHED);
	fx_await_state(&l.fx, "a", "running");
	fx_expect_machine(&l.fx, l.running);
	fake_domain_is(l.fx.machine, "a", ACT_DOMAIN_CRASHED); /* and the third: enough */
	inst_domain_changed(l.fx.m, "a", ACT_DOMAIN_CRASHED);
	fx_await_state(&l.fx, "a", "stopped");
	o = NULL;
	assert_int_equal(inst_json(l.fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), "crashed 3 times within 1000 s and is left stopped"));
	json_object_put(o);
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0))); /* an operator may */
	fake_domain_is(l.fx.machine, "a", ACT_DOMAIN_SHUTOFF); /* it powers itself off: that is no crash */
	inst_domain_changed(l.fx.m, "a", ACT_DOMAIN_SHUTOFF);
	fx_await_state(&l.fx, "a", "stopped");
	expect_deleted(&l);
	lived_done(&l);
}

/* ---- faults --------------------------------------------------------------------------------------------- */

/* One order with a fault at call k; false once k is beyond its calls. Whatever happened, it can be stopped, started and
 * deleted afterwards. */
static bool fails_at(enum inst_order what, enum fake_when when, unsigned k, bool *fired, size_t *quarantined)
{
	const char *expect = what == INST_START ? "stopped" : "running";
	bool failed, fired_;
	struct lived l;
	char buf[32];
	size_t n;

	lived_new(&l);
	if (what == INST_START)
		assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, 0)));
	fx_reopen(&l.fx);
	fake_arm(l.fx.machine, FAKE_FAIL, when, k, false);
	failed = !fx_wait(&l.fx, fx_order(&l.fx, "a", what, 1));
	fired_ = fake_fired(l.fx.machine);
	assert_true(fired_ || !failed);
	fake_disarm(l.fx.machine);
	fx_close(&l.fx);
	fx_open(&l.fx);
	(void)fx_state(&l.fx, buf, "a");
	assert_true(!failed || strcmp(buf, expect) == 0 || strcmp(buf, "stopped") == 0 || strcmp(buf, "running") == 0);
	assert_int_equal(fx_taken(&l.fx), 4);
	(void)fx_state(&l.fx, buf, "a");
	if (strcmp(buf, "stopped") != 0)
		assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, 0)));
	n = fx_release_all(&l.fx); /* of what could not be reset or verified: it is well */
	assert_true(n <= (what == INST_STOP ? 1 : 0));
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_START, 0)));
	fx_expect_machine(&l.fx, l.running);
	expect_deleted(&l);
	lived_done(&l);
	*fired = fired_;
	*quarantined += n;
	return failed;
}

static void start_fails(void **state)
{
	(void)state;
	for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
		size_t none = 0;
		unsigned k = 1;
		bool fired;

		while (fails_at(INST_START, (enum fake_when)when, k, &fired, &none))
			k++;
		assert_in_range(k, 12, 60);
	}
}

static void stop_fails(void **state)
{
	(void)state;
	for (int when = FAKE_BEFORE; when <= FAKE_AFTER; when += FAKE_AFTER - FAKE_BEFORE) {
		size_t quarantined = 0;
		bool fired = true;

		for (unsigned k = 1; fired; k++) /* a shutdown that is refused is forced: not each fault is a failure */
			(void)fails_at(INST_STOP, (enum fake_when)when, k, &fired, &quarantined);
		assert_in_range(quarantined, 4, 20); /* of four functions: looked at, reset, looked at, verified */
	}
}

/* ---- kills ---------------------------------------------------------------------------------------------- */

static void child(struct fx *fx, enum inst_order what, enum fake_when when, unsigned k)
{
	uint64_t op;

	fx_open(fx);
	fake_arm(fx->machine, FAKE_CRASHES, when, k, false);
	op = fx_order(fx, "a", what, 0);
	(void)fx_wait(fx, op);
	fx_close(fx);
	_exit(0);
}

static bool killed_at(enum inst_order what, enum fake_when when, unsigned k)
{
	struct lived l;
	int status;
	pid_t pid;

	lived_new(&l);
	if (what == INST_START)
		assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, 0)));
	fx_close(&l.fx);
	fake_forget_last(l.fx.machine);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(&l.fx, what, when, k);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	fake_reset_lock(l.fx.machine);
	fake_disarm(l.fx.machine);
	fx_open(&l.fx);
	fx_await_state(&l.fx, "a", what == INST_START ? "running" : "stopped"); /* what was begun is brought to its end */
	if (what == INST_START)
		fx_expect_machine(&l.fx, l.running);
	for (uint64_t id = 1; id <= 3; id++) {
		json_object *o = NULL;
		struct error err = ERROR_INIT;

		if (inst_op_json(l.fx.m, &o, id, &err) == 0)
			(void)fx_wait(&l.fx, id);
		json_object_put(o);
	}
	expect_deleted(&l);
	lived_done(&l);
	return WEXITSTATUS(status) == FAKE_CRASH;
}

static void kills(void **state)
{
	(void)state;
	for (int what = INST_START; what <= INST_STOP; what++)
		for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
			unsigned k = 1;

			while (killed_at((enum inst_order)what, (enum fake_when)when, k))
				k++;
			assert_in_range(k, what == INST_START ? 12 : 2, 60);
		}
}

/* What comes through the socket before its end. */
static const char *heard(struct fx *fx, const char *name, bool force)
{
	static char text[256];
	struct timeval wait = { .tv_sec = 10 };
	size_t n = 0;
	ssize_t got;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	inst_console(fx->m, name, force, fd[1]);
	(void)close(fd[1]);
	while (n < sizeof(text) - 1 && (got = recv(fd[0], text + n, sizeof(text) - 1 - n, 0)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	(void)close(fd[0]);
	return text;
}

static void consoles(void **state)
{
	struct error err = ERROR_INIT;
	struct lived l;

	(void)state;
	lived_new(&l);
	assert_int_equal(inst_has_console(l.fx.m, "a", &err), 0);
	assert_string_equal(heard(&l.fx, "a", false), INST_CONSOLE_OPEN "a console\n");
	assert_string_equal(heard(&l.fx, "a", true), INST_CONSOLE_OPEN "a forced console\n");
	assert_int_equal(inst_has_console(l.fx.m, "b", &err), -ENOENT);
	assert_string_equal(heard(&l.fx, "b", false), "not_found domain b does not run\n");
	assert_true(fx_wait(&l.fx, fx_order(&l.fx, "a", INST_STOP, 0)));
	assert_int_equal(inst_has_console(l.fx.m, "a", &err), -EBUSY);
	assert_string_equal(err.text, "instance a is stopped; it has a console while it runs");
	assert_string_equal(heard(&l.fx, "a", false), "busy domain a does not run\n");
	lived_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(generations),	  cmocka_unit_test(reserved),	  cmocka_unit_test(reserved_after_another), cmocka_unit_test(the_log_is_put_away), cmocka_unit_test(stop_and_start), cmocka_unit_test(wrong_states), cmocka_unit_test(after_a_reboot),
		cmocka_unit_test(another_card),	  cmocka_unit_test(crashes),	  cmocka_unit_test(start_fails),
		cmocka_unit_test(stop_fails),	  cmocka_unit_test(kills),	  cmocka_unit_test(consoles),
	};

	log_init(getenv("VELAD_TEST_LOG") ? LOG_LEVEL_DEBUG : (enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
