/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of requests: the same request is begun once, also over a restart and for a day; and lists of operations. */
#include "instance/fixture.h"
#include "instance/key.h"
#include "instance/manager.h"
#include "instance/store.h"

static const struct inst_key one = { 1000, "k", "d1" };

static uint64_t begin(struct fx *fx, const struct inst_key *key)
{
	uint64_t op;

	inst_key_use(fx->m, key);
	op = fx_create(fx, &fx_a);
	inst_key_use(fx->m, NULL);
	return op;
}

static int find(struct fx *fx, uint64_t *op, uint32_t uid, const char *text, const char *digest, struct error *err)
{
	struct inst_key key = { uid, text, digest };

	*op = 0;
	*err = ERROR_INIT;
	return inst_key_find(fx->m, op, &key, err);
}

static void the_same_request_is_begun_once(void **state)
{
	struct error err;
	uint64_t op, got;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fake_pause(fx.machine, "vfio_load");
	fx_open(&fx);
	assert_int_equal(find(&fx, &got, 1000, "k", "d1", &err), 0);
	assert_int_equal(got, 0);
	op = begin(&fx, &one);
	assert_int_equal(find(&fx, &got, 1000, "k", "d1", &err), -EBUSY); /* it runs */
	assert_int_equal(got, op);
	assert_non_null(strstr(err.text, "GET /v1/operations/1?wait=60"));
	fake_pause(fx.machine, "");
	assert_true(fx_wait(&fx, op));
	assert_int_equal(find(&fx, &got, 1000, "k", "d1", &err), 0);
	assert_int_equal(got, op);
	assert_int_equal(find(&fx, &got, 1000, "k", "d2", &err), -EKEYREJECTED);
	assert_int_equal(find(&fx, &got, 1001, "k", "d2", &err), 0); /* somebody else's key */
	assert_int_equal(got, 0);
	fx_close(&fx);
	fx_open(&fx);
	assert_int_equal(find(&fx, &got, 1000, "k", "d1", &err), 0);
	assert_int_equal(got, op);
	fx_done(&fx);
}

/* What began nothing uses no key up. */
static void failures_are_not_kept(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t got;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	assert_true(fx_wait(&fx, fx_create(&fx, &fx_a)));
	inst_key_use(fx.m, &one);
	assert_int_equal(fx_try_create(&fx, &fx_c, &got, &err), -EBUSY); /* its device is held */
	inst_key_use(fx.m, NULL);
	assert_int_equal(find(&fx, &got, 1000, "k", "d1", &err), 0);
	assert_int_equal(got, 0);
	fx_done(&fx);
}

static void for_a_day(void **state)
{
	struct error err;
	uint64_t got;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	assert_true(fx_wait(&fx, begin(&fx, &one)));
	fx_by_hand(&fx, "UPDATE request_key SET created = created - 86000");
	assert_int_equal(find(&fx, &got, 1000, "k", "d2", &err), -EKEYREJECTED);
	fx_by_hand(&fx, "UPDATE request_key SET created = created - 400");
	assert_int_equal(find(&fx, &got, 1000, "k", "d2", &err), 0);
	assert_int_equal(got, 0);
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_true(fx_wait(&fx, begin(&fx, &one)));
	fx_by_hand(&fx, "UPDATE request_key SET created = created + 90000"); /* the clock was set back a day */
	assert_int_equal(find(&fx, &got, 1000, "k", "d2", &err), 0);
	assert_int_equal(got, 0);
	fx_done(&fx);
}

static void so_many_of_one_user(void **state)
{
	struct error err = ERROR_INIT;
	struct store_tx *tx = NULL;
	struct inst_key key = one;
	struct fx fx;
	char text[16];
	int r = 0;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	assert_true(fx_wait(&fx, fx_create(&fx, &fx_a)));
	assert_int_equal(store_begin(&tx, fx.m->store, &err), 0);
	key.text = text;
	for (int i = 0; i < KEYS_UID_MAX && r == 0; i++) {
		(void)snprintf(text, sizeof(text), "k%d", i);
		r = key_add(tx, &key, 1, 1000, &err);
	}
	assert_int_equal(r, 0);
	key.text = "more";
	assert_int_equal(key_add(tx, &key, 1, 1000, &err), -EUSERS);
	key.uid++;
	assert_int_equal(key_add(tx, &key, 1, 1000, &err), 0);
	(void)store_end(tx);
	fx_done(&fx);
}

static json_object *list(struct fx *fx, const struct inst_op_filter *f)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;

	if (inst_op_list_json(fx->m, &o, f, &err) < 0)
		fail_msg("%s", err.text);
	return o;
}

/* ids, newest first, and next */
static void expect_list(struct fx *fx, struct inst_op_filter f, const char *expected)
{
	json_object *o = list(fx, &f), *all = json_object_object_get(o, "operations"), *next = json_object_object_get(o, "next");
	char text[256] = "";

	for (size_t i = 0; i < json_object_array_length(all); i++) {
		json_object *op = json_object_array_get_idx(all, i);

		assert_false(json_object_object_get_ex(op, "steps", NULL));
		assert_true(json_object_object_get_ex(op, "progress", NULL));
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", json_object_get_string(json_object_object_get(op, "id")));
	}
	(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "next %s", next ? json_object_get_string(next) : "null");
	assert_string_equal(text, expected);
	json_object_put(o);
}

static void operations_are_listed(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	expect_list(&fx, (struct inst_op_filter){ .limit = 10 }, "next null");
	assert_true(fx_wait(&fx, fx_create(&fx, &fx_a)));
	assert_true(fx_wait(&fx, fx_create(&fx, &fx_b)));
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	fake_break(fx.machine, "domain_start");
	assert_false(fx_wait(&fx, fx_create(&fx, &fx_a)));
	expect_list(&fx, (struct inst_op_filter){ .limit = 10 }, "4 3 2 1 next null");
	expect_list(&fx, (struct inst_op_filter){ .limit = 2 }, "4 3 next 3");
	expect_list(&fx, (struct inst_op_filter){ .limit = 2, .before = 3 }, "2 1 next 1");
	expect_list(&fx, (struct inst_op_filter){ .limit = 2, .before = 1 }, "next null");
	expect_list(&fx, (struct inst_op_filter){ .limit = 10, .instance = "a" }, "4 3 1 next null");
	expect_list(&fx, (struct inst_op_filter){ .limit = 10, .instance = "a", .state = "failed" }, "4 next null");
	expect_list(&fx, (struct inst_op_filter){ .limit = 10, .instance = "'; DROP TABLE operation; --" }, "next null");
	assert_int_equal(inst_op_list_json(fx.m, &o, &(struct inst_op_filter){ .limit = 1, .state = "Failed" }, &err), -EINVAL);
	assert_non_null(strstr(err.text, "queued, running, succeeded, failed"));
	fx_done(&fx);
}

/* Of a delete, a step is done when it is reverted. */
static void progress(void **state)
{
	json_object *o, *whole;
	struct fx fx;
	uint64_t op;

	(void)state;
	fx_new(&fx);
	fake_pause(fx.machine, "domain_start");
	fx_open(&fx);
	op = fx_create(&fx, &fx_a);
	fx_await_call(&fx, "domain_start");
	whole = fx_op(&fx, op);
	o = json_object_object_get(whole, "progress");
	assert_true(json_object_get_int(json_object_object_get(o, "done")) < json_object_get_int(json_object_object_get(o, "total")));
	json_object_put(whole);
	fake_pause(fx.machine, "");
	assert_true(fx_wait(&fx, op));
	for (int i = 0; i < 2; i++) {
		whole = fx_op(&fx, op);
		o = json_object_object_get(whole, "progress");
		assert_int_equal(json_object_get_int(json_object_object_get(o, "done")),
				 json_object_get_int(json_object_object_get(o, "total")));
		assert_true(json_object_get_int(json_object_object_get(o, "total")) > 3);
		json_object_put(whole);
		if (i == 0)
			op = fx_delete(&fx, "a");
		assert_true(fx_wait(&fx, op));
	}
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_request_is_begun_once), cmocka_unit_test(failures_are_not_kept),
		cmocka_unit_test(for_a_day),			   cmocka_unit_test(so_many_of_one_user),
		cmocka_unit_test(operations_are_listed),	   cmocka_unit_test(progress),
	};

	return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
