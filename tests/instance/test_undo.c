/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an operation that failed could not give back, because velad-helper was not there: velad tries again until it can, says so in the
 * documents, goes on with it after a restart, and does not stand in the way of a delete. */
#include "instance/fixture.h"

#define GPU "0000:19:00.0"

struct undone {
	struct fx fx;
	char     *before;
};

/* Its guest does not start, and then there is no helper. */
static void undone_new(struct undone *u)
{
	json_object *o = NULL;
	struct error err = ERROR_INIT;
	uint64_t op;

	fx_new(&u->fx);
	u->before = fake_text(u->fx.machine);
	fx_open(&u->fx);
	fake_pause(u->fx.machine, "domain_start");
	op = fx_create(&u->fx, &fx_a);
	fx_await_call(&u->fx, "domain_start");
	fake_break(u->fx.machine, "domain_start");
	FAKE_LOCKED(u->fx.machine, u->fx.machine->away = true);
	fake_pause(u->fx.machine, "");
	assert_false(fx_wait(&u->fx, op));
	fx_expect_state(&u->fx, "a", "failed");
	assert_int_equal(fx_taken(&u->fx), 4);
	assert_int_equal(inst_json(u->fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), "domain_start is broken"));
	assert_non_null(strstr(fx_string(o, "error"), "cannot reach velad-helper"));
	assert_non_null(strstr(fx_string(o, "error"), "is tried again until it can be"));
	assert_int_equal(json_object_get_uint64(json_object_object_get(o, "operation")), op + 1);
	json_object_put(o);
}

static void helper_is_back(struct undone *u)
{
	fake_break(u->fx.machine, "");
	FAKE_LOCKED(u->fx.machine, u->fx.machine->away = false);
}

/* The devices are nobody's, and as they were; the instance says what it was that failed, and that it is over. */
static void expect_undone(struct undone *u)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;

	for (int i = 0; i < 100000 && fx_taken(&u->fx); i++)
		fx_nap();
	assert_int_equal(fx_taken(&u->fx), 0);
	fx_expect_state(&u->fx, "a", "failed");
	assert_int_equal(inst_json(u->fx.m, &o, "a", &err), 0);
	assert_non_null(strstr(fx_string(o, "error"), "domain_start is broken"));
	assert_non_null(strstr(fx_string(o, "error"), "; later, everything was given back"));
	assert_null(strstr(fx_string(o, "error"), "tried again"));
	assert_true(fx_wait(&u->fx, json_object_get_uint64(json_object_object_get(o, "operation"))));
	json_object_put(o);
	fx_expect_machine(&u->fx, u->before);
}

static void undone_done(struct undone *u)
{
	assert_true(fx_wait(&u->fx, fx_delete(&u->fx, "a")));
	fx_expect_state(&u->fx, "a", "");
	fx_expect_machine(&u->fx, u->before);
	free(u->before);
	fx_done(&u->fx);
}

static void expect_tried(struct undone *u)
{
	autofree char *said = fx_await_tries(&u->fx, "a", "undo");

	assert_non_null(strstr(said, "cannot reach velad-helper; its devices stay held"));
}

static void comes_back(void **state)
{
	struct undone u;

	(void)state;
	undone_new(&u);
	expect_tried(&u);
	assert_int_equal(fx_taken(&u.fx), 4);
	fake_break(u.fx.machine, "");
	fx_create_done(&u.fx, &(struct fx_want){ .name = "e" }); /* it holds up nobody */
	assert_true(fx_wait(&u.fx, fx_delete(&u.fx, "e")));
	helper_is_back(&u);
	expect_undone(&u);
	fx_create_done(&u.fx, &fx_c); /* its GPU is free */
	assert_true(fx_wait(&u.fx, fx_delete(&u.fx, "c")));
	undone_done(&u);
}

/* Tries are counted on; once the helper is there, the next velad does not wait. */
static void over_a_restart(void **state)
{
	struct undone u;

	(void)state;
	undone_new(&u);
	expect_tried(&u);
	fx_reopen(&u.fx);
	expect_tried(&u);
	fx_close(&u.fx);
	helper_is_back(&u);
	fx_open(&u.fx);
	expect_undone(&u);
	undone_done(&u);
}

static void deleted(void **state)
{
	json_object *o = NULL;
	struct error err = ERROR_INIT;
	struct undone u;
	uint64_t op;

	(void)state;
	undone_new(&u);
	expect_tried(&u);
	op = fx_delete(&u.fx, "a"); /* it does not wait for the next try, and fails as that would */
	assert_false(fx_wait(&u.fx, op));
	assert_int_equal(fx_taken(&u.fx), 4);
	assert_int_equal(inst_op_json(u.fx.m, &o, op - 1, &err), 0);
	assert_string_equal(fx_string(o, "state"), "cancelled");
	assert_null(fx_string(o, "next_try"));
	json_object_put(o);
	expect_tried(&u); /* and that is tried again, too */
	helper_is_back(&u);
	undone_done(&u);
}

/* An operation of velad's own does not count where clients' are too many, and does not last. */
static void many(void **state)
{
	struct undone u;
	char name[8];

	(void)state;
	undone_new(&u);
	expect_tried(&u);
	for (unsigned i = 0; i < 40; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		fake_break(u.fx.machine, "domain_start");
		assert_false(fx_wait(&u.fx, fx_create(&u.fx, &(struct fx_want){ .name = name })));
		assert_true(fx_wait(&u.fx, fx_delete(&u.fx, name)));
	}
	helper_is_back(&u);
	expect_undone(&u);
	undone_done(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(comes_back), cmocka_unit_test(over_a_restart), cmocka_unit_test(deleted),
					    cmocka_unit_test(many) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
