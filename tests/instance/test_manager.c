/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The manager: what it accepts and refuses, who holds what, what is shared, what clients are shown. */
#include "instance/manager.h"

#include "instance/fixture.h"
#include "instance/state.h"
#include "instance/store.h"

static void refused(int r, int code, const struct error *err, const char *text)
{
	assert_int_equal(r, code);
	if (!strstr(err->text, text))
		fail_msg("\"%s\" lacks \"%s\"", err->text, text);
}

static void there_and_back(void **state)
{
	autofree char *before = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	for (int i = 0; i < 3; i++) { /* the name and the devices can be used again */
		fx_create_done(&fx, &fx_a);
		fx_expect_state(&fx, "a", "running");
		assert_int_equal(fx_taken(&fx), 4);
		assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
		fx_expect_state(&fx, "a", "");
		assert_int_equal(fx_taken(&fx), 0);
		fx_expect_machine(&fx, before);
	}
	fx_close(&fx);
	assert_int_equal(fx.changed, 6);
	fx_done(&fx);
}

static void taken(void **state)
{
	static const char *const bdfs[] = { "0000:19:00.0", "0000:19:00.1", "0000:1a:00.1", "0000:1a:00.2" };
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	struct plan_taken *t;
	struct fx fx;
	size_t n;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	assert_int_equal(inst_taken(fx.m, &t, &n, &arena, &err), 0);
	assert_int_equal(n, 0);
	fx_create_done(&fx, &fx_a);
	assert_int_equal(inst_taken(fx.m, &t, &n, &arena, &err), 0);
	assert_int_equal(n, ARRAY_SIZE(bdfs));
	for (size_t i = 0; i < n; i++) {
		assert_true(bdf_eq(t[i].bdf, test_bdf(bdfs[i])));
		assert_string_equal(t[i].owner, "instance a");
	}
	arena_done(&arena);
	fx_done(&fx);
}

static void conflicts(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0, create;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fake_pause(fx.machine, "vfio_load");
	fx_open(&fx);
	create = fx_create(&fx, &fx_a);
	fx_await_call(&fx, "vfio_load");
	fx_expect_state(&fx, "a", "provisioning");
	refused(fx_try_create(&fx, &fx_a, &op, &err), -EEXIST, &err, "instance a exists already (provisioning)");
	refused(fx_try_create(&fx, &fx_c, &op, &err), -EBUSY, &err, "instance c: 0000:19:00.0 is held by instance a");
	refused(inst_delete(fx.m, &op, "a", &err), -EBUSY, &err, "operation 1 (create) runs on instance a");
	refused(inst_delete(fx.m, &op, "c", &err), -ENOENT, &err, "there is no instance c");
	assert_int_equal(op, 0);
	fake_pause(fx.machine, "");
	assert_true(fx_wait(&fx, create));
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_true(fx_wait(&fx, fx_create(&fx, &fx_c)));
	fx_done(&fx);
}

static void queue_limit(void **state)
{
	struct error err = ERROR_INIT;
	struct fx_want w = { .name = NULL };
	uint64_t op = 0;
	char name[16];
	struct fx fx;
	int n;

	(void)state;
	fx_new(&fx);
	fake_pause(fx.machine, "vfio_loaded");
	fx_open(&fx);
	w.name = name;
	for (n = 0; n < 32; n++) {
		(void)snprintf(name, sizeof(name), "n%d", n);
		assert_int_equal(fx_try_create(&fx, &w, &op, &err), 0);
	}
	(void)snprintf(name, sizeof(name), "one-more");
	refused(fx_try_create(&fx, &w, &op, &err), -EBUSY, &err, "32 operations wait already");
	fx_expect_state(&fx, "n31", "planned");
	fake_break(fx.machine, "vfio_loaded"); /* the machine has room for 8 domains only */
	fake_pause(fx.machine, "");
	assert_false(fx_wait(&fx, op));
	fx_done(&fx);
}

/* Two instances have VFs of one PF: only the last one that goes takes the VFs away. */
static void share(const char *first, const char *last)
{
	autofree char *before = NULL;
	struct fx fx;

	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_create_done(&fx, &fx_b);
	assert_true(fx_wait(&fx, fx_delete(&fx, first)));
	assert_int_equal(fake_count(fx.machine, 3), FAKE_VFS);
	fx_expect_state(&fx, last, "running");
	fx_close(&fx);
	fx_open(&fx); /* who holds what is not forgotten */
	assert_true(fx_wait(&fx, fx_delete(&fx, last)));
	fx_expect_machine(&fx, before);
	fx_done(&fx);
}

static void shared_pf(void **state)
{
	(void)state;
	share("a", "b");
	share("b", "a");
}

static void bits(const char *first, const char *last, uint16_t between)
{
	struct fx_want modest = fx_b;
	autofree char *before = NULL;
	struct fx fx;

	modest.blocking = true;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_create_done(&fx, &modest);
	assert_int_equal(fake_port_ctl(fx.machine, 1), 0x5d);
	assert_true(fx_wait(&fx, fx_delete(&fx, first)));
	assert_int_equal(fake_port_ctl(fx.machine, 0), 0x5d);
	assert_int_equal(fake_port_ctl(fx.machine, 1), between);
	fx_expect_state(&fx, last, "running");
	assert_true(fx_wait(&fx, fx_delete(&fx, last)));
	fx_expect_machine(&fx, before);
	fx_done(&fx);
}

/* Of a port that two share, what only the one needed that goes comes back with it. */
static void shared_bits(void **state)
{
	(void)state;
	bits("a", "b", 0x5f);
	bits("b", "a", 0x5d);
}

/* A create that fails beside a running instance takes nothing from it, and is no holder afterwards. */
static void fail_beside(const char *call)
{
	autofree char *with_a = NULL, *before = NULL;
	struct fx fx;

	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	with_a = fake_text(fx.machine);
	fake_break(fx.machine, call);
	assert_false(fx_wait(&fx, fx_create(&fx, &fx_b)));
	fx_expect_machine(&fx, with_a);
	assert_int_equal(fx_taken(&fx), 4);
	fake_break(fx.machine, "");
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	fx_expect_machine(&fx, before);
	fx_done(&fx);
}

static void shared_pf_fails(void **state)
{
	(void)state;
	fail_beside("domain_start"); /* with everything before it done */
	fail_beside("vfio_loaded");  /* with nothing begun */
}

/* b waits for its turn while a, which made the VFs, goes and leaves them to it; then b fails before it
 * comes to its VFs. */
static void inherited_pf(void **state)
{
	autofree char *before = NULL;
	uint64_t delete_a, create_b;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fake_pause(fx.machine, "domain_stop");
	delete_a = fx_delete(&fx, "a");
	fx_await_call(&fx, "domain_stop");
	create_b = fx_create(&fx, &fx_b);
	fake_break(fx.machine, "vfio_loaded");
	fake_pause(fx.machine, "vfio_loaded");
	assert_true(fx_wait(&fx, delete_a));
	assert_int_equal(fake_count(fx.machine, 3), FAKE_VFS);
	fake_pause(fx.machine, "");
	assert_false(fx_wait(&fx, create_b));
	fx_expect_machine(&fx, before);
	fx_done(&fx);
}

static void domain_by_itself(void **state)
{
	autofree char *before = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	inst_domain_changed(fx.m, "stranger", ACT_DOMAIN_SHUTOFF); /* no concern of ours */
	fx_create_done(&fx, &fx_a);
	fake_domain_is(fx.machine, "a", ACT_DOMAIN_SHUTOFF);
	inst_domain_changed(fx.m, "a", ACT_DOMAIN_SHUTOFF);
	fx_await_state(&fx, "a", "stopped");
	inst_domain_changed(fx.m, "a", ACT_DOMAIN_SHUTOFF);
	fx_await_state(&fx, "a", "stopped");
	fake_domain_is(fx.machine, "a", ACT_DOMAIN_RUNNING);
	inst_domain_changed(fx.m, "a", ACT_DOMAIN_RUNNING);
	fx_expect_state(&fx, "a", "running");
	inst_domain_changed(fx.m, "a", ACT_DOMAIN_ABSENT); /* late news of an older one: it runs */
	fx_await_state(&fx, "a", "running");
	assert_int_equal(fx_taken(&fx), 4);
	fx_close(&fx);
	fake_domain_is(fx.machine, "a", ACT_DOMAIN_SHUTOFF); /* while no daemon looks */
	fx_open(&fx);
	fx_await_state(&fx, "a", "stopped");
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	fx_expect_machine(&fx, before);
	fx_done(&fx);
}

/* What could not be looked at is looked at again, at the latest with the next work. */
static void look_again(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_close(&fx);
	fake_domain_is(fx.machine, "a", ACT_DOMAIN_SHUTOFF);
	fake_break(fx.machine, "domain");
	fx_reopen(&fx);
	fx_await_state(&fx, "a", "degraded"); /* nobody knows */
	fake_break(fx.machine, "");
	assert_true(fx_wait(&fx, fx_create(&fx, &fx_b)));
	fx_await_state(&fx, "a", "stopped");
	fx_expect_state(&fx, "b", "running");
	fx_done(&fx);
}

/* Rows that no velad writes: named, and no reason to stop working. */
static void damaged_rows(void **state)
{
	auto_(store_close) struct store *s = NULL;
	struct error err = ERROR_INIT;
	struct store_tx *tx = NULL;
	json_object *o = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	fx_close(&fx);
	assert_int_equal(store_open(&s, fx.store, &err), 0);
	assert_int_equal(store_begin(&tx, s, &err), 0);
	assert_int_equal(store_exec(tx, "UPDATE instance SET state = 'asleep'", NO_ARGS, &err), 0);
	assert_int_equal(store_exec(tx, "INSERT INTO operation(kind, instance, state, created)"
					" VALUES('delete', 'ghost', 'queued', 5)", NO_ARGS, &err), 0);
	assert_int_equal(store_commit(tx, &err), 0);
	(void)store_end(tx);
	s = store_close(s);
	fx_open(&fx);
	assert_false(fx_wait(&fx, 2));
	assert_true(fx_wait(&fx, fx_create(&fx, &fx_b)));
	refused(inst_json(fx.m, &o, "a", &err), -EBADMSG, &err, "instance a in the unknown state \"asleep\"");
	fx_done(&fx);
}

static void generations(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t last = 0, n = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	for (int i = 0; i < 3; i++) {
		fx_open(&fx);
		for (int j = 0; j < 5; j++) {
			assert_int_equal(inst_generation_next(fx.m, &n, &err), 0);
			assert_int_equal(n, last + 1);
			last = n;
		}
		fx_close(&fx);
	}
	fx_done(&fx);
}

static void states(void **state)
{
	static const struct {
		enum inst_state from, to;
		bool            may;
	} table[] = {
		{ INST_PLANNED, INST_PROVISIONING, true }, { INST_PLANNED, INST_RUNNING, false },
		{ INST_PROVISIONING, INST_RUNNING, true }, { INST_PROVISIONING, INST_DELETING, false },
		{ INST_RUNNING, INST_STOPPED, true },      { INST_STOPPED, INST_RUNNING, true },
		{ INST_RUNNING, INST_DELETED, false },     { INST_RUNNING, INST_DELETING, true },
		{ INST_DELETING, INST_DELETED, true },     { INST_DELETING, INST_RUNNING, false },
		{ INST_DELETING, INST_FAILED, true },      { INST_FAILED, INST_DELETING, true },
		{ INST_FAILED, INST_RUNNING, false },      { INST_DELETED, INST_PLANNED, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_int_equal(inst_state_may(table[i].from, table[i].to), table[i].may);
	for (int s = 0; s < INST_STATE_MAX_; s++) {
		assert_int_equal(inst_state_parse(inst_state_text((enum inst_state)s)), s);
		assert_int_equal(inst_state_may((enum inst_state)s, (enum inst_state)s), s == INST_FAILED);
		assert_false(inst_state_may(INST_DELETED, (enum inst_state)s));
	}
	assert_string_equal(inst_state_text(INST_STATE_MAX_), "?");
	assert_int_equal(inst_state_parse("asleep"), -1);
	assert_false(inst_state_may(INST_RUNNING, INST_STATE_MAX_));
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

/* "id target state, ..." */
static char *steps_text(json_object *o)
{
	json_object *steps = NULL;
	struct sbuf b = { 0 };

	assert_true(json_object_object_get_ex(o, "steps", &steps));
	for (size_t i = 0; i < json_object_array_length(steps); i++) {
		json_object *s = json_object_array_get_idx(steps, i);

		sbuf_addf(&b, "%s%s %s %s", i ? ", " : "", fx_string(s, "id"), fx_string(s, "target"),
			  fx_string(s, "state"));
		assert_non_null(fx_string(s, "from"));
		assert_non_null(fx_string(s, "to"));
	}
	return sbuf_steal(&b);
}

static void expect_op(struct fx *fx, uint64_t id, const char *kind, const char *op_state, const char *steps)
{
	json_object *o = fx_op(fx, id);
	autofree char *text = steps_text(o);

	assert_string_equal(fx_string(o, "kind"), kind);
	assert_string_equal(fx_string(o, "instance"), "c");
	assert_string_equal(fx_string(o, "state"), op_state);
	assert_int_equal(strlen(fx_string(o, "created")), strlen("2026-11-29T10:00:00Z"));
	assert_int_equal(fx_string(o, "finished") == NULL,
			 strcmp(op_state, "queued") == 0 || strcmp(op_state, "running") == 0);
	assert_string_equal(text, steps);
	json_object_put(o);
}

static void operation_json(void **state)
{
	uint64_t create, delete;
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fake_pause(fx.machine, "driver_set");
	fx_open(&fx);
	create = fx_create(&fx, &fx_c);
	fx_await_call(&fx, "driver_set");
	expect_op(&fx, create, "create", "running",
		  "vfio vfio-pci done, bind 0000:19:00.0 begun, lend 0000:19:00.0 pending, reset 0000:19:00.0 pending, domain c pending");
	fake_pause(fx.machine, "");
	assert_true(fx_wait(&fx, create));
	fx_await_call(&fx, "domain");
	fake_pause(fx.machine, "driver_set");
	delete = fx_delete(&fx, "c");
	fx_await_call(&fx, "driver_set");
	expect_op(&fx, delete, "delete", "running",
		  "domain c reverted, reset 0000:19:00.0 reverted, lend 0000:19:00.0 reverted, bind 0000:19:00.0 done, vfio vfio-pci done");
	fake_pause(fx.machine, "");
	assert_true(fx_wait(&fx, delete));
	/* both outlive the instance */
	expect_op(&fx, create, "create", "succeeded", "vfio vfio-pci done, bind 0000:19:00.0 done, lend 0000:19:00.0 done, reset 0000:19:00.0 done, domain c done");
	expect_op(&fx, delete, "delete", "succeeded",
		  "domain c reverted, reset 0000:19:00.0 reverted, lend 0000:19:00.0 reverted, bind 0000:19:00.0 reverted, vfio vfio-pci reverted");
	refused(inst_op_json(fx.m, &o, 99, &err), -ENOENT, &err, "there is no operation 99");
	refused(inst_op_json(fx.m, &o, UINT64_MAX, &err), -ENOENT, &err, "there is no operation 18446744073709551615");
	fx_done(&fx);
}

static void failed_json(void **state)
{
	json_object *o, *e = NULL;
	struct fx fx;
	uint64_t op;

	(void)state;
	fx_new(&fx);
	assert_true(fake_find(fx.machine, test_bdf("0000:19:00.0"))->there);
	FAKE_LOCKED(fx.machine, fake_find(fx.machine, test_bdf("0000:19:00.0"))->there = false); /* pulled after the plan was made */
	fx_open(&fx);
	op = fx_create(&fx, &fx_c);
	assert_false(fx_wait(&fx, op));
	expect_op(&fx, op, "create", "failed", "vfio vfio-pci reverted, bind 0000:19:00.0 pending, lend 0000:19:00.0 pending, reset 0000:19:00.0 pending, domain c pending");
	o = fx_op(&fx, op);
	assert_true(json_object_object_get_ex(o, "error", &e));
	assert_string_equal(fx_string(e, "code"), "host");
	assert_string_equal(fx_string(e, "detail"), "instance c: step bind 0000:19:00.0: this host has no such function; "
						    "everything was given back");
	json_object_put(o);
	fx_done(&fx);
}

static json_object *member(json_object *o, const char *key)
{
	json_object *v = NULL;

	if (!json_object_object_get_ex(o, key, &v))
		fail_msg("no \"%s\"", key);
	return v;
}

static void instance_json(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL, *list = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fx_create_done(&fx, &fx_b);
	fx_create_done(&fx, &fx_a);
	assert_int_equal(inst_json(fx.m, &o, "a", &err), 0);
	assert_string_equal(fx_string(o, "name"), "a");
	assert_string_equal(fx_string(o, "uuid"), "uuid-of-a");
	assert_string_equal(fx_string(o, "state"), "running");
	assert_null(fx_string(o, "error"));
	assert_int_equal(json_object_get_int(member(o, "topology_generation")), 3);
	assert_int_equal(json_object_get_int(member(o, "operation")), 2);
	assert_string_equal(fx_string(member(o, "request"), "name"), "a");
	assert_int_equal(json_object_array_length(member(member(o, "bundle"), "vfs")), 2);
	assert_int_equal(json_object_array_length(member(o, "steps")), 23);
	assert_int_equal(json_object_array_length(member(o, "notes")), 0);
	assert_int_equal(json_object_array_length(member(o, "findings")), 0);
	assert_int_equal(json_object_object_length(o), 14);
	json_object_put(o);
	assert_int_equal(inst_list_json(fx.m, &o, NULL, &err), 0);
	list = member(o, "instances");
	assert_int_equal(json_object_array_length(list), 2);
	assert_string_equal(fx_string(json_object_array_get_idx(list, 0), "name"), "a");
	assert_string_equal(fx_string(json_object_array_get_idx(list, 1), "name"), "b");
	json_object_put(o);
	refused(inst_json(fx.m, &o, "nobody", &err), -ENOENT, &err, "there is no instance nobody");
	fx_done(&fx);
}

/* The names of a list, with a blank behind each; "next" behind them, if there is one. */
static void expect_names(struct fx *fx, const struct inst_filter *f, const char *names)
{
	struct error err = ERROR_INIT;
	struct sbuf seen = { 0 };
	json_object *o = NULL, *list;

	assert_int_equal(inst_list_json(fx->m, &o, f, &err), 0);
	list = member(o, "instances");
	for (size_t i = 0; i < json_object_array_length(list); i++)
		sbuf_addf(&seen, "%s ", fx_string(json_object_array_get_idx(list, i), "name"));
	sbuf_add(&seen, fx_string(o, "next") ? fx_string(o, "next") : "");
	assert_string_equal(seen.text, names);
	sbuf_done(&seen);
	json_object_put(o);
}

static void lists(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL, *one;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	expect_names(&fx, NULL, "");
	fx_create_done(&fx, &fx_b);
	fx_create_done(&fx, &fx_a);
	assert_true(fx_wait(&fx, fx_order(&fx, "b", INST_STOP, 0)));
	expect_names(&fx, NULL, "a b ");
	expect_names(&fx, &(struct inst_filter){ .state = "stopped" }, "b ");
	expect_names(&fx, &(struct inst_filter){ .state = "running", .after = "a" }, "");
	expect_names(&fx, &(struct inst_filter){ .limit = 1 }, "a a");
	expect_names(&fx, &(struct inst_filter){ .limit = 1, .after = "a" }, "b b");
	expect_names(&fx, &(struct inst_filter){ .limit = 1, .after = "b" }, "");
	expect_names(&fx, &(struct inst_filter){ .limit = 3 }, "a b ");
	expect_names(&fx, &(struct inst_filter){ .tag = "team" }, "");
	refused(inst_list_json(fx.m, &o, &(struct inst_filter){ .state = "asleep" }, &err), -EINVAL, &err,
		"\"asleep\" is no state of an instance; they are planned, provisioning, running");
	assert_int_equal(inst_list_json(fx.m, &o, &(struct inst_filter){ .brief = true, .state = "running" }, &err), 0);
	one = json_object_array_get_idx(member(o, "instances"), 0);
	assert_string_equal(fx_string(one, "name"), "a");
	assert_int_equal(json_object_array_length(member(one, "vfs")), 2);
	assert_true(json_object_get_int(member(one, "vcpus")) > 0);
	assert_int_equal(json_object_object_length(member(one, "tags")), 0);
	assert_int_equal(json_object_object_length(one), 13);
	json_object_put(o);
	fx_done(&fx);
}

static void store_in_use(void **state)
{
	struct error err = ERROR_INIT;
	struct inst_manager *second = NULL;
	struct inst_env env;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	env = (struct inst_env){ .store = fx.store, .act = fake_act(fx.machine) };
	refused(inst_manager_new(&second, &env, &err), -EBUSY, &err, fx.store);
	assert_null(second);
	assert_null(inst_manager_free(NULL));
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(taken),
		cmocka_unit_test(conflicts),
		cmocka_unit_test(queue_limit),
		cmocka_unit_test(shared_pf), cmocka_unit_test(shared_bits),
		cmocka_unit_test(shared_pf_fails),
		cmocka_unit_test(inherited_pf),
		cmocka_unit_test(domain_by_itself),
		cmocka_unit_test(look_again),
		cmocka_unit_test(damaged_rows),
		cmocka_unit_test(generations),
		cmocka_unit_test(states),
		cmocka_unit_test(operation_json),
		cmocka_unit_test(failed_json),
		cmocka_unit_test(instance_json),
		cmocka_unit_test(lists), cmocka_unit_test(store_in_use),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
