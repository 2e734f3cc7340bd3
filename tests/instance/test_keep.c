/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What running guests need is kept: lost ACS bits come back, what cannot come back makes them degraded, and where
 * there is nothing to keep, nobody looks. */
#include "instance/fixture.h"

struct kept {
	struct fx fx;
	char     *before;
};

/* Two guests below the same ports. */
static void kept_new(struct kept *k, unsigned seconds)
{
	*k = (struct kept){ 0 };
	fx_new(&k->fx);
	k->fx.keep_seconds = seconds;
	k->before = fake_text(k->fx.machine);
	fx_open(&k->fx);
	fx_create_done(&k->fx, &fx_a);
	fx_create_done(&k->fx, &fx_b);
	assert_int_equal(fake_port_ctl(k->fx.machine, 0), 0x5d);
	assert_int_equal(fake_port_ctl(k->fx.machine, 1), 0x5d);
}

static void kept_done(struct kept *k)
{
	assert_true(fx_wait(&k->fx, fx_delete(&k->fx, "a")));
	assert_int_equal(fake_port_ctl(k->fx.machine, 0), 0x5d); /* b has it */
	assert_true(fx_wait(&k->fx, fx_delete(&k->fx, "b")));
	fx_expect_machine(&k->fx, k->before);
	free(k->before);
	fx_done(&k->fx);
}

/* Has the worker look at the ports; which call comes next can be waited for. */
static void look(struct kept *k)
{
	(void)pthread_mutex_lock(&k->fx.machine->lock);
	k->fx.machine->last[0] = '\0';
	(void)pthread_mutex_unlock(&k->fx.machine->lock);
	inst_machine_changed(k->fx.m);
}

static void await_port(struct kept *k, size_t port, uint16_t ctl)
{
	for (int i = 0; i < 100000 && fake_port_ctl(k->fx.machine, port) != ctl; i++)
		fx_nap();
	assert_int_equal(fake_port_ctl(k->fx.machine, port), ctl);
}

static json_object *instance(struct kept *k, const char *name)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;

	if (inst_json(k->fx.m, &o, name, &err) < 0)
		fail_msg("%s", err.text);
	return o;
}

/* "acs.lost 0000:17:01.0 2; ": the findings of an instance, waited for, as they are committed after the write. */
static void await_findings(struct kept *k, const char *name, const char *want)
{
	char text[256] = "";

	for (int i = 0; i < 100000; i++) {
		json_object *o = instance(k, name), *list = json_object_object_get(o, "findings");
		size_t len = 0;

		text[0] = '\0';
		for (size_t f = 0; f < json_object_array_length(list); f++) {
			json_object *one = json_object_array_get_idx(list, f);

			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s %s; ", fx_string(one, "rule"),
						fx_string(one, "device"), fx_string(one, "times"));
			assert_non_null(fx_string(one, "first"));
			assert_non_null(strstr(fx_string(one, "text"), fx_string(one, "device")));
		}
		json_object_put(o);
		if (strcmp(text, want) == 0)
			return;
		fx_nap();
	}
	assert_string_equal(text, want);
}

static void expect_error(struct kept *k, const char *name, const char *word)
{
	json_object *o = instance(k, name);
	const char *error = fx_string(o, "error");

	if (!error || !strstr(error, word))
		fail_msg("\"%s\" lacks \"%s\"", error ? error : "", word);
	json_object_put(o);
}

static void comes_back(void **state)
{
	unsigned changed;
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	changed = k.fx.changed;
	fake_port_is(k.fx.machine, 0, 0x1d);
	look(&k);
	await_port(&k, 0, 0x5d);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 1; ");
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 1; "); /* both were without */
	fake_port_is(k.fx.machine, 0, 0x1d);
	fake_port_is(k.fx.machine, 1, 0x1f);
	look(&k);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 2; acs.lost " FAKE_PORT_TB " 1; ");
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 2; acs.lost " FAKE_PORT_TB " 1; ");
	await_port(&k, 1, 0x5d);
	fx_expect_state(&k.fx, "a", "running");
	fx_expect_state(&k.fx, "b", "running");
	fx_close(&k.fx); /* so that the worker has told */
	assert_int_equal(k.fx.changed, changed + 2);
	fx_open(&k.fx);
	kept_done(&k);
}

static void at_start(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	fx_close(&k.fx);
	fake_port_is(k.fx.machine, 0, 0x1d);
	fx_open(&k.fx);
	await_port(&k, 0, 0x5d);
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 1; ");
	kept_done(&k);
}

/* An operation resets devices: when it is done, all that run have their ports. */
static void after_operation(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	fake_port_is(k.fx.machine, 1, 0x1d);
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "a")));
	await_port(&k, 1, 0x5d);
	assert_true(fx_wait(&k.fx, fx_create(&k.fx, &fx_a)));
	fx_await_call(&k.fx, "domain");
	kept_done(&k);
}

static void on_timer(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 1);
	fake_port_is(k.fx.machine, 0, 0x1d);
	await_port(&k, 0, 0x5d);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 1; ");
	kept_done(&k);
}

static unsigned calls(struct kept *k)
{
	unsigned n;

	(void)pthread_mutex_lock(&k->fx.machine->lock);
	n = k->fx.machine->calls;
	(void)pthread_mutex_unlock(&k->fx.machine->lock);
	return n;
}

static void nothing_to_keep(void **state)
{
	struct kept k = { 0 };
	unsigned before;

	(void)state;
	fx_new(&k.fx);
	k.fx.keep_seconds = 1;
	fx_open(&k.fx);
	fx_create_done(&k.fx, &fx_c); /* a GPU without VFs */
	do { /* the worker may still be looking at what it made */
		before = calls(&k);
		(void)nanosleep(&(struct timespec){ .tv_nsec = 300 * 1000 * 1000 }, NULL);
	} while (calls(&k) != before);
	(void)nanosleep(&(struct timespec){ .tv_sec = 2, .tv_nsec = 500 * 1000 * 1000 }, NULL);
	assert_int_equal(calls(&k), before);
	fx_done(&k.fx);
}

static void degraded(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	k.fx.machine->port[0].w.stuck[ACT_ACS] = FAKE_DT;
	fake_port_is(k.fx.machine, 0, 0x1d);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	fx_await_state(&k.fx, "b", "degraded");
	expect_error(&k, "a", "acs_set: control is 0x1d after 0x5d");
	await_findings(&k, "a", "acs.not-kept " FAKE_PORT " 1; ");
	look(&k); /* no better: it was said */
	fx_await_call(&k.fx, "acs_set");
	await_findings(&k, "a", "acs.not-kept " FAKE_PORT " 1; ");
	fx_close(&k.fx);
	fx_open(&k.fx); /* nor is it forgotten */
	fx_await_call(&k.fx, "domain");
	fx_expect_state(&k.fx, "b", "degraded");
	(void)pthread_mutex_lock(&k.fx.machine->lock);
	k.fx.machine->port[0].w.stuck[ACT_ACS] = 0;
	(void)pthread_mutex_unlock(&k.fx.machine->lock);
	look(&k);
	fx_await_state(&k.fx, "a", "running");
	fx_await_state(&k.fx, "b", "running");
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 1; acs.not-kept " FAKE_PORT " 1; ");
	assert_int_equal(fake_port_ctl(k.fx.machine, 0), 0x5d);
	kept_done(&k);
}

/* A port that fell off the bus; one whose other bits somebody changed, which velad does not set. */
static void not_its_own(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	(void)pthread_mutex_lock(&k.fx.machine->lock);
	k.fx.machine->port[1].w.dead = true;
	(void)pthread_mutex_unlock(&k.fx.machine->lock);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	expect_error(&k, "a", "port " FAKE_PORT_TB " reads as ff");
	(void)pthread_mutex_lock(&k.fx.machine->lock);
	k.fx.machine->port[1].w.dead = false;
	k.fx.machine->port[1].w.now[ACT_ACS] = 0x42;
	(void)pthread_mutex_unlock(&k.fx.machine->lock);
	look(&k);
	await_findings(&k, "a", "acs.lost " FAKE_PORT_TB " 1; acs.not-kept " FAKE_PORT_TB " 2; "); /* another reason; TransBlk is cleared again */
	expect_error(&k, "a", "ACS control of port " FAKE_PORT_TB " is 0x42");
	await_port(&k, 1, 0x40);
	fake_port_is(k.fx.machine, 1, 0x5d);
	look(&k);
	fx_await_state(&k.fx, "a", "running");
	fx_await_state(&k.fx, "b", "running");
	fake_port_is(k.fx.machine, 0, 0x00);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	fx_await_state(&k.fx, "b", "degraded");
	expect_error(&k, "b", "ACS control of port " FAKE_PORT " is 0x00, and was 0x1d when the plan was made");
	assert_int_equal(fake_port_ctl(k.fx.machine, 0), 0x40); /* what is its own, it keeps */
	fake_domain_is(k.fx.machine, "b", ACT_DOMAIN_SHUTOFF); /* a guest that stops needs nothing */
	inst_domain_changed(k.fx.m, "b", ACT_DOMAIN_SHUTOFF);
	fx_expect_state(&k.fx, "b", "stopped");
	fake_port_is(k.fx.machine, 0, 0x1d);
	look(&k);
	fx_await_state(&k.fx, "a", "running");
	fx_expect_state(&k.fx, "b", "stopped");
	fake_port_is(k.fx.machine, 0, 0x00);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	fake_port_is(k.fx.machine, 0, 0x1d);
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "a"))); /* as it is */
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "b")));
	fx_expect_machine(&k.fx, k.before);
	free(k.before);
	fx_done(&k.fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back), cmocka_unit_test(at_start),	  cmocka_unit_test(after_operation),
		cmocka_unit_test(on_timer),   cmocka_unit_test(nothing_to_keep), cmocka_unit_test(degraded),
		cmocka_unit_test(not_its_own),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
