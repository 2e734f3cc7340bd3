/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CPUs and memory that guests hold: who has them, and since when they are gone from what the node has free. */
#include "instance/manager.h"

#include "base/log.h"
#include "instance/fixture.h"

/* How many; backed: of how many the node has given the memory. */
static size_t rooms(struct fx *fx, size_t *backed)
{
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	struct plan_room *room;
	size_t n = 0;

	*backed = 0;
	if (inst_rooms(fx->m, &room, &n, &arena, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < n; i++) {
		assert_true(room[i].node == 0 && room[i].memory == 512u << 20 && !room[i].hugepages && !room[i].exclusive);
		assert_memory_equal(room[i].cpus, &fx_cpus, sizeof(fx_cpus));
		assert_int_equal(strncmp(room[i].owner, "instance ", 9), 0);
		*backed += room[i].backed;
	}
	arena_done(&arena);
	return n;
}

static void expect(struct fx *fx, size_t n, size_t backed)
{
	size_t b, r = rooms(fx, &b);

	if (r != n || b != backed)
		fail_msg("%zu rooms, %zu backed; not %zu, %zu", r, b, n, backed);
}

static void while_it_lives(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	expect(&fx, 0, 0);
	fx_create_done(&fx, &fx_a);
	fx_create_done(&fx, &fx_b);
	expect(&fx, 2, 2);
	FAKE_LOCKED(fx.machine, fx.machine->domain[0].state = ACT_DOMAIN_SHUTOFF);
	inst_domain_changed(fx.m, fx.machine->domain[0].name, ACT_DOMAIN_SHUTOFF);
	fx_await_state(&fx, fx.machine->domain[0].name, "stopped");
	expect(&fx, 2, 1); /* it will want its memory again */
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_true(fx_wait(&fx, fx_delete(&fx, "b")));
	expect(&fx, 0, 0);
	fx_done(&fx);
}

/* Before its steps are done, and after all of them were taken back. */
static void before_and_after(void **state)
{
	struct fx fx;
	uint64_t op;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fake_arm(fx.machine, FAKE_FAIL, FAKE_BEFORE, 8, false);
	op = fx_create(&fx, &fx_a);
	assert_false(fx_wait(&fx, op));
	fx_expect_state(&fx, "a", "failed");
	expect(&fx, 0, 0);
	fake_arm(fx.machine, FAKE_FAIL, FAKE_BEFORE, 8, true); /* nor can it be taken back */
	op = fx_create(&fx, &fx_b);
	assert_false(fx_wait(&fx, op));
	fx_expect_state(&fx, "b", "failed");
	expect(&fx, 1, 0);
	fx_done(&fx);
}

/* Stores of before version 14 have them in the plans only; one that cannot be read is not taken for one that needs nothing. */
static void of_an_older_store(void **state)
{
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	struct plan_room *room;
	struct fx fx;
	size_t n;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_by_hand(&fx, "DROP TABLE cell; PRAGMA user_version = 13");
	expect(&fx, 1, 1);
	fx_by_hand(&fx, "DROP TABLE cell; UPDATE instance SET plan = substr(plan, 1, 99); PRAGMA user_version = 13");
	assert_int_equal(inst_rooms(fx.m, &room, &n, &arena, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "instance a"));
	arena_done(&arena);
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(while_it_lives), cmocka_unit_test(before_and_after), cmocka_unit_test(of_an_older_store) };

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
