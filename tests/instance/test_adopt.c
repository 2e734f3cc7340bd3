/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a manager does with what libvirt says behind its back: domains of others, renamed ones, none at all, and those of an older velad. */
#include "instance/fixture.h"

#define GPU_B "0000:3b:00.0"

/* A domain that somebody else made. */
static void stranger(struct fx *fx, const char *name, enum act_domain state, const char *bdf)
{
	struct fake_domain *d = fake_domain_find(fx->machine, "");

	(void)pthread_mutex_lock(&fx->machine->lock);
	*d = (struct fake_domain){ .foreign = true, .state = state };
	(void)snprintf(d->name, sizeof(d->name), "%s", name);
	(void)snprintf(d->uuid, sizeof(d->uuid), "uuid-of-%.20s", name);
	(void)snprintf(d->xml, sizeof(d->xml), "<domain> %s </domain>", bdf);
	(void)pthread_mutex_unlock(&fx->machine->lock);
}

static void silent(struct fx *fx, bool yes)
{
	FAKE_LOCKED(fx->machine, fx->machine->no_libvirt = yes);
}

static const char *owner_of(struct fx *fx, char buf[64], const char *bdf)
{
	struct plan_taken *taken;
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	size_t n = 0;

	buf[0] = '\0';
	assert_int_equal(inst_taken(fx->m, &taken, &n, &arena, &err), 0);
	for (size_t i = 0; i < n; i++)
		if (bdf_eq(taken[i].bdf, test_bdf(bdf)))
			(void)snprintf(buf, 64, "%s", taken[i].owner);
	arena_done(&arena);
	return buf;
}

static void await_owner(struct fx *fx, const char *bdf, const char *want)
{
	char buf[64];

	for (int i = 0; i < 100000 && strcmp(owner_of(fx, buf, bdf), want) != 0; i++)
		fx_nap();
	assert_string_equal(owner_of(fx, buf, bdf), want);
}

/* Nobody gets what it has; neither is it reset when it is to leave quarantine. It is free when the domain is gone. */
static void others(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	stranger(&fx, "other", ACT_DOMAIN_SHUTOFF, GPU_B);
	fx_open(&fx);
	await_owner(&fx, GPU_B, "domain other");
	assert_int_equal(fx_try_create(&fx, &fx_b, &op, &err), -EBUSY);
	assert_non_null(strstr(err.text, "domain other"));
	err = ERROR_INIT;
	assert_int_equal(inst_quarantine_add(fx.m, test_bdf(GPU_B), "to see", NULL, &err), 0);
	assert_int_equal(inst_quarantine_release(fx.m, &op, test_bdf(GPU_B), NULL, &err), 0);
	assert_false(fx_wait(&fx, op));
	assert_int_equal(fake_find(fx.machine, test_bdf(GPU_B))->resets, 0);

	silent(&fx, true); /* unknown is not gone */
	inst_domain_changed(fx.m, NULL, ACT_DOMAIN_CHANGED);
	fx_close(&fx);
	fake_domain_find(fx.machine, "other")->name[0] = '\0';
	fx_open(&fx);
	await_owner(&fx, GPU_B, "domain other");
	silent(&fx, false);
	inst_domain_changed(fx.m, NULL, ACT_DOMAIN_CHANGED);
	await_owner(&fx, GPU_B, "");
	fx_done(&fx);
}

/* It came between the plan and the first step, and velad has not heard of it: nothing is done to it. */
static void comes_late(void **state)
{
	struct fx fx;
	char *before;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	stranger(&fx, "other", ACT_DOMAIN_RUNNING, GPU_B);
	inst_domain_changed(fx.m, "elsewhere", ACT_DOMAIN_CHANGED);
	before = fake_text(fx.machine);
	if (!owner_of(&fx, (char[64]){ 0 }, GPU_B)[0]) {
		struct error err = ERROR_INIT;
		uint64_t op = 0;

		if (fx_try_create(&fx, &fx_b, &op, &err) == 0)
			assert_false(fx_wait(&fx, op));
	}
	fx_expect_machine(&fx, before);
	free(before);
	fx_done(&fx);
}

/* Renamed while it was off, and started: it is found, stopped, started and deleted under its new name. */
static void renamed(void **state)
{
	struct fx fx;
	char *before;

	(void)state;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_STOP, 0)));
	fx_close(&fx);
	(void)snprintf(fake_domain_find(fx.machine, "a")->name, 48, "z");
	fake_domain_is(fx.machine, "z", ACT_DOMAIN_RUNNING);
	fx_open(&fx);
	fx_await_state(&fx, "a", "running");
	assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_STOP, 0)));
	assert_int_equal(fake_domain_find(fx.machine, "z")->state, ACT_DOMAIN_SHUTOFF);
	assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_START, 0)));
	assert_int_equal(fake_domain_find(fx.machine, "z")->state, ACT_DOMAIN_RUNNING);
	assert_null(fake_domain_find(fx.machine, "a"));
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_null(fake_domain_find(fx.machine, "z"));
	fx_expect_machine(&fx, before);
	free(before);
	fx_done(&fx);
}

/* As long as libvirt says nothing, nobody knows whether a guest runs: it keeps what it has. */
static void silence(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_close(&fx);
	fake_domain_is(fx.machine, "a", ACT_DOMAIN_SHUTOFF);
	silent(&fx, true);
	fx_open(&fx);
	fx_await_state(&fx, "a", "degraded");
	assert_int_equal(fx_taken(&fx), 4);
	silent(&fx, false);
	inst_domain_changed(fx.m, NULL, ACT_DOMAIN_CHANGED);
	fx_await_state(&fx, "a", "stopped");
	assert_int_equal(fx_taken(&fx), 4);
	fx_done(&fx);
}

static unsigned lists(struct fx *fx, unsigned ms)
{
	unsigned n;

	(void)nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 }, NULL);
	FAKE_LOCKED(fx->machine, n = fx->machine->lists);
	return n;
}

/* A call that failed is made again without any event, until it is answered; then nobody asks any more. Who asks in between does not put
 * that off. */
static void asked_again(void **state)
{
	struct fx fx;
	unsigned n;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_close(&fx);
	fake_domain_is(fx.machine, "a", ACT_DOMAIN_SHUTOFF);
	silent(&fx, true);
	fx_open(&fx);
	fx_await_state(&fx, "a", "degraded");
	for (int i = 0; i < 8; i++) {
		n = lists(&fx, 0);
		inst_domain_changed(fx.m, NULL, ACT_DOMAIN_CHANGED);
		while (lists(&fx, 5) == n)
			;
	}
	silent(&fx, false);
	fx_await_state(&fx, "a", "stopped");
	n = lists(&fx, 500);
	assert_int_equal(lists(&fx, 1500), n);
	fx_done(&fx);
}

/* It is asked, and says nothing at all: long before the call's own deadline nothing is said to run. */
static void hangs(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx.workers = 2;
	fx.deadlines = INST_DEADLINES;
	fx.deadlines.look_ms = 300;
	fx.deadlines.domain_ms = 600000;
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_close(&fx);
	fake_hang(fx.machine, "domains");
	fx_open(&fx);
	fx_await_state(&fx, "a", "degraded");
	assert_int_equal(fx_taken(&fx), 4);
	fake_return(fx.machine);
	fx_await_state(&fx, "a", "running");
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others),
		cmocka_unit_test(comes_late),
		cmocka_unit_test(renamed),
		cmocka_unit_test(silence),
		cmocka_unit_test(asked_again),
		cmocka_unit_test(hangs),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
