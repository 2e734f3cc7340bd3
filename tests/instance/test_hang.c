/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls on the machine that do not return: the operation ends at the deadline and says where, nothing else waits for it, and
 * when the call returns at last - with its effect, which comes too late - all is given back. And what goes side by side. */
#include "instance/fixture.h"

/* Has a PF of its own, and no port. */
static const struct fx_want fx_other = { "other", NULL, NULL, "0000:3c:00.0", 0, 1, NULL, false };
static const struct fx_want fx_wide = { "wide", "0000:19:00.0", "0000:19:00.1", "0000:1a:00.0", 0, 8, NULL, false };

struct hung {
	struct fx fx;
	char     *before;
};

static void hung_new(struct hung *h)
{
	fx_new(&h->fx);
	h->before = fake_text(h->fx.machine);
	h->fx.deadlines = (struct inst_deadlines){ 200, 200, 200, 200, 200, 200, 200 };
	h->fx.workers = 4;
	fx_open(&h->fx);
}

static void hung_done(struct hung *h)
{
	free(h->before);
	fx_done(&h->fx);
}

static unsigned hangs(struct fake *f)
{
	unsigned n;

	(void)pthread_mutex_lock(&f->lock);
	n = f->hangs;
	(void)pthread_mutex_unlock(&f->lock);
	return n;
}

static void await_hang(struct hung *h)
{
	for (int i = 0; i < 100000 && !hangs(h->fx.machine); i++)
		fx_nap();
	assert_int_equal(hangs(h->fx.machine), 1);
}

static void await_left(struct hung *h, size_t n)
{
	for (int i = 0; i < 100000 && fx_taken(&h->fx) != n; i++)
		fx_nap();
	assert_int_equal(fx_taken(&h->fx), n);
}

/* The error of an operation names the call and says that it did not return. */
static void expect_timeout(struct hung *h, uint64_t op)
{
	json_object *o = fx_op(&h->fx, op), *e = NULL;

	assert_string_equal(fx_string(o, "state"), "failed");
	assert_true(json_object_object_get_ex(o, "error", &e));
	assert_string_equal(fx_string(e, "code"), "timeout");
	if (!strstr(fx_string(e, "detail"), "did not return within 1 s") || !strstr(fx_string(e, "detail"), "step "))
		fail_msg("%s", fx_string(e, "detail"));
	json_object_put(o);
}

/* A daemon that has the other guest, and is through with what a new daemon looks at. */
static void begin(struct hung *h)
{
	fx_create_done(&h->fx, &fx_other);
	fx_reopen(&h->fx);
}

static void other_goes_on(struct hung *h)
{
	assert_true(fx_wait(&h->fx, fx_delete(&h->fx, "other")));
	assert_true(fx_wait(&h->fx, fx_create(&h->fx, &fx_other)));
	fx_expect_state(&h->fx, "other", "running");
}

static void end_well(struct hung *h)
{
	fake_return(h->fx.machine);
	for (int i = 0; i < 100000 && inst_hanging(h->fx.m) > 0; i++)
		fx_nap();
	await_left(h, 1); /* that of the other guest */
	fx_expect_state(&h->fx, "a", "failed");
	for (int i = 0; i < 1000; i++) { /* the undoing operation may not be through with the last of it */
		struct error err = ERROR_INIT;
		uint64_t op = 0;

		if (inst_delete(h->fx.m, &op, "a", &err) == 0) {
			assert_true(fx_wait(&h->fx, op));
			break;
		}
		assert_int_equal(err.code, -EBUSY);
		fx_nap();
	}
	fx_expect_state(&h->fx, "a", "");
	assert_true(fx_wait(&h->fx, fx_delete(&h->fx, "other")));
	(void)fx_release_all(&h->fx);
	fx_expect_machine(&h->fx, h->before);
	for (int i = 0; i < 1000 && inst_hanging(h->fx.m) > 0; i++) /* on a busy machine other calls were late, too, and return in a moment */
		fx_nap();
	assert_int_equal(inst_hanging(h->fx.m), 0);
}

/* What hangs is in quarantine, by name, and that it hangs: "0000:19:00.0". */
static void expect_quarantined(struct hung *h, const char *prefix)
{
	json_object *list = fx_quarantine(&h->fx);
	bool found = false;

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *q = json_object_array_get_idx(list, i);

		found = found || (strncmp(fx_string(q, "bdf"), prefix, strlen(prefix)) == 0 && strstr(fx_string(q, "reason"), "did not return within"));
	}
	if (!found)
		fail_msg("nothing at %s is in quarantine: %s", prefix, json_object_to_json_string(list));
	json_object_put(list);
}

static void create_hangs(void **state)
{
	static const struct {
		const char *call;
		bool        alone; /* all creates need this */
		bool        held;  /* the guest may run: the devices are its */
		const char *sick;  /* where what is in quarantine begins; NULL: it is of no function */
	} cases[] = {
		{ "vfio_loaded", true, false, NULL },	      { "vfio_load", true, false, NULL },    { "vf_count", false, false, "0000:1a:00.0" },
		{ "vf_count_set", false, false, "0000:1a:00.0" }, { "driver", false, false, "0000:1" },  { "driver_set", false, false, "0000:1" },
		{ "power", false, false, "0000:1" },   { "devctl", false, false, "0000:1" },
		{ "acs", false, false, "0000:17:0" },	      { "domain", false, false, NULL },      { "domain_start", false, true, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hung h;
		uint64_t op;

		hung_new(&h);
		begin(&h);
		h.fx.machine->vfio = strcmp(cases[i].call, "vfio_load") != 0;
		fake_hang(h.fx.machine, cases[i].call);
		op = fx_create(&h.fx, &fx_a);
		await_hang(&h);
		fx_expect_state(&h.fx, "a", "provisioning");
		if (!cases[i].alone)
			other_goes_on(&h);
		if (fx_wait(&h.fx, op))
			fail_msg("a create succeeded in which %s hung", cases[i].call);
		expect_timeout(&h, op);
		assert_int_equal(fx_taken(&h.fx), cases[i].held ? 5 : 1);
		assert_int_equal(inst_hanging(h.fx.m), 1);
		if (cases[i].sick)
			expect_quarantined(&h, cases[i].sick);
		if (cases[i].held) { /* what hangs is not touched */
			assert_false(fx_wait(&h.fx, fx_delete(&h.fx, "a")));
			assert_int_equal(fx_taken(&h.fx), 5);
		}
		end_well(&h);
		hung_done(&h);
	}
}

static void delete_hangs(void **state)
{
	static const struct {
		const char *call, *sick; /* NULL: the guest may run, and the devices are its */
	} cases[] = {
		{ "domain_stop", NULL },  { "acs", "0000:17:0" },	  { "devctl", "0000:1" },   { "power", "0000:1" },
		{ "driver", "0000:1" }, { "driver_set", "0000:1" }, { "vf_count", "0000:1a:00.0" }, { "vf_count_set", "0000:1a:00.0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hung h;
		uint64_t op;

		hung_new(&h);
		fx_create_done(&h.fx, &fx_a);
		begin(&h);
		fake_hang(h.fx.machine, cases[i].call);
		op = fx_delete(&h.fx, "a");
		await_hang(&h);
		other_goes_on(&h);
		assert_false(fx_wait(&h.fx, op));
		expect_timeout(&h, op);
		if (fx_taken(&h.fx) != (cases[i].sick ? 1 : 5)) {
			json_object *o = fx_op(&h.fx, op);

			fail_msg("%s: %zu devices are held: %s", cases[i].call, fx_taken(&h.fx), json_object_to_json_string(o));
		}
		if (cases[i].sick)
			expect_quarantined(&h, cases[i].sick);
		end_well(&h);
		hung_done(&h);
	}
}

/* A start looks at all that was done before at once, by few threads: what hangs there is named, and in quarantine, as what hangs in a wave. */
static void start_hangs(void **state)
{
	static const char *const call[] = { "power", "devctl", "driver" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(call); i++) {
		struct hung h;
		uint64_t op;

		hung_new(&h);
		fx_create_done(&h.fx, &fx_a);
		assert_true(fx_wait(&h.fx, fx_order(&h.fx, "a", INST_STOP, 0)));
		begin(&h);
		fake_hang(h.fx.machine, call[i]);
		op = fx_order(&h.fx, "a", INST_START, 0);
		await_hang(&h);
		other_goes_on(&h);
		assert_false(fx_wait(&h.fx, op));
		expect_timeout(&h, op);
		fx_expect_state(&h.fx, "a", "stopped");
		assert_int_equal(fx_taken(&h.fx), 5);
		expect_quarantined(&h, "0000:1");
		fake_return(h.fx.machine);
		for (int k = 0; k < 100000 && inst_hanging(h.fx.m) > 0; k++)
			fx_nap();
		assert_true(fx_wait(&h.fx, fx_delete(&h.fx, "a")));
		assert_true(fx_wait(&h.fx, fx_delete(&h.fx, "other")));
		(void)fx_release_all(&h.fx);
		fx_expect_machine(&h.fx, h.before);
		hung_done(&h);
	}
}

/* What hangs in the gate is kept there by it, and the delete goes on, and succeeds. */
static void gate_hangs(void **state)
{
	static const char *const call[] = { "reset", "scrub", "alive" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(call); i++) {
		struct fx_want want = fx_a;
		struct hung h;

		hung_new(&h);
		fx_close(&h.fx);
		h.fx.deadlines = (struct inst_deadlines){ 1000, 30000, 30000, 300, 30000, 30000, 30000 }; /* on a busy machine nothing else is late */
		h.fx.release = (struct inst_release){ .scrub = "/usr/sbin/clear-memory", .scrub_seconds = 1 };
		fx_open(&h.fx);
		want.scrub = true;
		fx_create_done(&h.fx, &want);
		begin(&h);
		fake_hang(h.fx.machine, call[i]);
		assert_true(fx_wait(&h.fx, fx_delete(&h.fx, "a")));
		fx_expect_state(&h.fx, "a", "");
		assert_int_equal(fx_taken(&h.fx), 1);
		expect_quarantined(&h, "0000:1");
		fake_return(h.fx.machine);
		for (int k = 0; k < 100000 && inst_hanging(h.fx.m) > 0; k++)
			fx_nap();
		assert_true(fx_wait(&h.fx, fx_delete(&h.fx, "other")));
		assert_true(fx_release_all(&h.fx) > 0);
		fx_expect_machine(&h.fx, h.before);
		hung_done(&h);
	}
}

/* What hung is looked at when it has returned, and its reason says how it is; a release verifies it. */
static void looked_at_again(void **state)
{
	json_object *list = NULL;
	bool again = false;
	struct hung h;
	uint64_t op;

	(void)state;
	hung_new(&h);
	fake_hang(h.fx.machine, "driver_set");
	op = fx_create(&h.fx, &fx_c);
	await_hang(&h);
	assert_false(fx_wait(&h.fx, op));
	expect_quarantined(&h, "0000:19:00.0");
	fake_return(h.fx.machine);
	for (int i = 0; i < 100000 && !again; i++) {
		json_object_put(list);
		list = fx_quarantine(&h.fx);
		assert_int_equal(json_object_array_length(list), 1);
		again = strstr(fx_string(json_object_array_get_idx(list, 0), "reason"), "that call is over, and now: it answers, driver ");
		fx_nap();
	}
	assert_true(again);
	json_object_put(list);
	for (int i = 0; i < 100000; i++) { /* until it is undone */
		struct error err = ERROR_INIT;

		if (inst_delete(h.fx.m, &op, "c", &err) == 0)
			break;
		fx_nap();
	}
	assert_true(fx_wait(&h.fx, op));
	assert_int_equal(fx_release_all(&h.fx), 1);
	fx_expect_machine(&h.fx, h.before);
	hung_done(&h);
}

/* A port whose call was late, and that answers, holds up nobody any more: nobody has to say so. */
static void port_is_late(void **state)
{
	size_t n = 1;
	struct hung h;
	uint64_t op;

	(void)state;
	hung_new(&h);
	fake_hang(h.fx.machine, "acs");
	op = fx_create(&h.fx, &fx_a);
	await_hang(&h);
	assert_false(fx_wait(&h.fx, op));
	expect_quarantined(&h, "0000:17:0");
	fake_return(h.fx.machine);
	for (int i = 0; i < 100000 && n; i++) {
		json_object *list = fx_quarantine(&h.fx);

		n = json_object_array_length(list);
		json_object_put(list);
		fx_nap();
	}
	assert_int_equal(n, 0);
	hung_done(&h);
}

/* A VF whose reset hangs cannot be taken from vfio-pci, and so the VFs of its PF stay; when it has returned, the next delete
 * ends that, and what the VF is owed is not forgotten. */
static void vf_hangs(void **state)
{
	static const struct fx_want vf = { "v", NULL, NULL, "0000:1a:00.0", 0, 1, NULL, false };
	bool deleted = false;
	struct hung h;
	uint64_t op;

	(void)state;
	hung_new(&h);
	fx_create_done(&h.fx, &vf);
	fake_hang(h.fx.machine, "reset");
	op = fx_delete(&h.fx, "v");
	await_hang(&h);
	assert_false(fx_wait(&h.fx, op));
	expect_quarantined(&h, "0000:1a:00.1");
	assert_int_equal(fx_taken(&h.fx), 0);
	assert_false(fx_wait(&h.fx, fx_delete(&h.fx, "v")));
	fake_return(h.fx.machine);
	for (int i = 0; i < 100000 && inst_hanging(h.fx.m) > 0; i++)
		fx_nap();
	for (int i = 0; i < 1000 && !deleted; i++) { /* it may be undone by itself just now; and on a busy machine another call is late */
		struct error err = ERROR_INIT;

		deleted = inst_delete(h.fx.m, &op, "v", &err) == 0 && fx_wait(&h.fx, op);
		fx_nap();
	}
	assert_true(deleted);
	fx_expect_state(&h.fx, "v", "");
	fx_expect_machine(&h.fx, h.before);
	assert_true(fx_release_all(&h.fx) > 0);
	hung_done(&h);
}

/* A daemon that is told to end does not wait for what hangs; the next one undoes what it left. */
static void stop(void **state)
{
	struct hung h;

	(void)state;
	hung_new(&h);
	fx_close(&h.fx);
	h.fx.deadlines = INST_DEADLINES;
	h.fx.stop_ms = 50;
	fx_open(&h.fx);
	fake_hang(h.fx.machine, "driver_set");
	(void)fx_create(&h.fx, &fx_a);
	await_hang(&h);
	fx_close(&h.fx);
	fake_return(h.fx.machine);
	fx_await_call(&h.fx, "driver_set"); /* too late, and of nobody */
	fx_open(&h.fx);
	fx_await_state(&h.fx, "a", "failed");
	assert_int_equal(fx_taken(&h.fx), 0);
	fx_expect_machine(&h.fx, h.before);
	hung_done(&h);
}

/* ---- side by side --------------------------------------------------------------------------------------- */

static unsigned met(struct fake *f)
{
	unsigned n;

	(void)pthread_mutex_lock(&f->lock);
	n = f->most;
	(void)pthread_mutex_unlock(&f->lock);
	return n;
}

/* All functions of a guest are bound at once, and given back at once, but the GPU: it is looked at first. */
static void functions(void **state)
{
	struct hung h;

	(void)state;
	hung_new(&h);
	fx_close(&h.fx);
	h.fx.deadlines = INST_DEADLINES;
	fx_open(&h.fx);
	fake_to_meet(h.fx.machine, "driver_set", 10);
	assert_true(fx_wait(&h.fx, fx_create(&h.fx, &fx_wide)));
	assert_int_equal(met(h.fx.machine), 10);
	fake_to_meet(h.fx.machine, "driver_set", 9);
	assert_true(fx_wait(&h.fx, fx_delete(&h.fx, "wide")));
	assert_int_equal(met(h.fx.machine), 9);
	fx_expect_machine(&h.fx, h.before);
	hung_done(&h);
}

static void instances(void **state)
{
	uint64_t a, d;
	struct hung h;

	(void)state;
	hung_new(&h);
	fx_close(&h.fx);
	h.fx.deadlines = INST_DEADLINES;
	fx_open(&h.fx);
	fake_to_meet(h.fx.machine, "domain_start", 2);
	a = fx_create(&h.fx, &fx_a);
	d = fx_create(&h.fx, &fx_d);
	assert_true(fx_wait(&h.fx, a));
	assert_true(fx_wait(&h.fx, d));
	assert_int_equal(met(h.fx.machine), 2);
	a = fx_delete(&h.fx, "a");
	d = fx_delete(&h.fx, "d");
	assert_true(fx_wait(&h.fx, a));
	assert_true(fx_wait(&h.fx, d));
	fx_expect_machine(&h.fx, h.before); /* also the ports that both had */
	hung_done(&h);
}

/* Two guests that share a PF and ports come and go at once, many times. */
static void shared(void **state)
{
	struct hung h;

	(void)state;
	hung_new(&h);
	fx_close(&h.fx);
	h.fx.deadlines = INST_DEADLINES;
	fx_open(&h.fx);
	for (int i = 0; i < 100; i++) {
		uint64_t a = fx_create(&h.fx, &fx_a), b = fx_create(&h.fx, &fx_b);

		assert_true(fx_wait(&h.fx, a));
		assert_true(fx_wait(&h.fx, b));
		a = fx_delete(&h.fx, "a");
		if (i % 2)
			assert_true(fx_wait(&h.fx, a));
		b = fx_delete(&h.fx, "b");
		if (i % 3 == 0) { /* comes back while the other goes */
			assert_true(fx_wait(&h.fx, a));
			assert_true(fx_wait(&h.fx, fx_create(&h.fx, &fx_a)));
			a = fx_delete(&h.fx, "a");
		}
		assert_true(fx_wait(&h.fx, a));
		assert_true(fx_wait(&h.fx, b));
		fx_expect_machine(&h.fx, h.before);
	}
	hung_done(&h);
}

/* ---- cancelling ----------------------------------------------------------------------------------------- */

static void expect_cancelled(struct hung *h, uint64_t id, const char *detail)
{
	json_object *o = fx_op(&h->fx, id), *e = NULL;

	assert_string_equal(fx_string(o, "state"), "cancelled");
	assert_true(json_object_object_get_ex(o, "error", &e));
	assert_string_equal(fx_string(e, "code"), "cancelled");
	assert_string_equal(fx_string(e, "detail"), detail);
	json_object_put(o);
}

static void refuse_cancel(struct hung *h, uint64_t op, int code, const char *text)
{
	struct error err = ERROR_INIT;

	assert_int_equal(inst_cancel(h->fx.m, op, &err), code);
	if (!strstr(err.text, text))
		fail_msg("\"%s\" lacks \"%s\"", err.text, text);
}

static void cancel(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t running, queued;
	struct hung h;

	(void)state;
	hung_new(&h);
	fx_close(&h.fx);
	h.fx.deadlines = INST_DEADLINES;
	h.fx.workers = 1;
	fake_pause(h.fx.machine, "driver_set");
	fx_open(&h.fx);
	running = fx_create(&h.fx, &fx_a);
	fx_await_call(&h.fx, "driver_set");
	queued = fx_create(&h.fx, &fx_d);
	assert_int_equal(inst_cancel(h.fx.m, queued, &err), 0);
	expect_cancelled(&h, queued, "it was cancelled before it began");
	fx_expect_state(&h.fx, "d", "");
	assert_int_equal(fx_taken(&h.fx), 4);
	assert_int_equal(inst_cancel(h.fx.m, running, &err), 0);
	assert_int_equal(inst_cancel(h.fx.m, running, &err), 0); /* once more is the same */
	fake_pause(h.fx.machine, "");
	assert_false(fx_wait(&h.fx, running));
	expect_cancelled(&h, running, "instance a: it was cancelled; everything was given back");
	fx_expect_state(&h.fx, "a", "");
	assert_int_equal(fx_taken(&h.fx), 0);
	fx_expect_machine(&h.fx, h.before);
	refuse_cancel(&h, running, -EBUSY, "has ended: it was cancelled");
	refuse_cancel(&h, 99, -ENOENT, "there is no operation 99");
	assert_true(fx_wait(&h.fx, fx_create(&h.fx, &fx_a))); /* the name and the devices are free */
	fake_pause(h.fx.machine, "domain_stop");
	running = fx_delete(&h.fx, "a");
	refuse_cancel(&h, running, -EBUSY, "(delete) cannot be cancelled");
	fake_pause(h.fx.machine, "");
	assert_true(fx_wait(&h.fx, running));
	hung_done(&h);
}

/* A cancelled one that cannot give all back has failed. */
static void cancel_fails(void **state)
{
	struct error err = ERROR_INIT;
	struct hung h;
	uint64_t op;

	(void)state;
	hung_new(&h);
	fx_close(&h.fx);
	h.fx.deadlines = INST_DEADLINES;
	fake_pause(h.fx.machine, "domain_start");
	fx_open(&h.fx);
	op = fx_create(&h.fx, &fx_a);
	fx_await_call(&h.fx, "domain_start");
	assert_int_equal(inst_cancel(h.fx.m, op, &err), 0);
	fake_break(h.fx.machine, "domain_stop");
	fake_pause(h.fx.machine, "");
	assert_false(fx_wait(&h.fx, op));
	fx_expect_state(&h.fx, "a", "failed");
	assert_int_equal(fx_taken(&h.fx), 4);
	fake_break(h.fx.machine, "");
	assert_true(fx_wait(&h.fx, fx_delete(&h.fx, "a")));
	fx_expect_machine(&h.fx, h.before);
	hung_done(&h);
}

/* ---- how long it took ----------------------------------------------------------------------------------- */

static int64_t number(json_object *o, const char *key)
{
	json_object *v = NULL;

	assert_true(json_object_object_get_ex(o, key, &v));
	return json_object_get_int64(v);
}

static void spans(void **state)
{
	json_object *o, *steps, *one;
	int64_t longest = 0;
	struct hung h;
	uint64_t op;

	(void)state;
	hung_new(&h);
	fake_pause(h.fx.machine, "driver_set");
	op = fx_create(&h.fx, &fx_a);
	fx_await_call(&h.fx, "driver_set");
	o = fx_op(&h.fx, op);
	assert_non_null(fx_string(o, "started"));
	assert_null(fx_string(o, "duration_us"));
	assert_true(json_object_object_get_ex(o, "steps", &steps));
	one = json_object_array_get_idx(steps, 1); /* the VFs are there, though the store has not been told */
	assert_string_equal(fx_string(one, "state"), "done");
	assert_true(number(one, "duration_us") > 0);
	json_object_put(o);
	(void)nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
	fake_pause(h.fx.machine, "");
	assert_true(fx_wait(&h.fx, op));
	o = fx_op(&h.fx, op);
	assert_true(number(o, "duration_us") >= 20000);
	assert_true(json_object_object_get_ex(o, "steps", &steps));
	for (size_t i = 0; i < json_object_array_length(steps); i++) {
		one = json_object_array_get_idx(steps, i);
		assert_non_null(fx_string(one, "started"));
		assert_true(number(one, "duration_us") > 0);
		assert_null(fx_string(one, "undo_us"));
		if (strcmp(fx_string(one, "id"), "bind") != 0)
			continue;
		assert_int_equal(number(one, "deadline_ms"), h.fx.deadlines.bind_ms);
		if (number(one, "duration_us") > longest)
			longest = number(one, "duration_us");
	}
	assert_true(longest >= 20000); /* of the bind that was awaited: others may have begun later */
	json_object_put(o);
	hung_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create_hangs),
		cmocka_unit_test(delete_hangs),
		cmocka_unit_test(start_hangs),
		cmocka_unit_test(gate_hangs),
		cmocka_unit_test(looked_at_again),
		cmocka_unit_test(port_is_late),
		cmocka_unit_test(vf_hangs),
		cmocka_unit_test(stop),
		cmocka_unit_test(functions),
		cmocka_unit_test(instances),
		cmocka_unit_test(shared),
		cmocka_unit_test(cancel),
		cmocka_unit_test(cancel_fails),
		cmocka_unit_test(spans),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
