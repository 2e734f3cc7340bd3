/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The gate between two tenants: what keeps a function from the next one, and how it gets out again. */
#include "instance/fixture.h"
#include "plan/plan.h"

#define GPU "0000:19:00.0"
#define VF  "0000:1a:00.1"

static struct fake_fn *fn(struct fx *fx, const char *bdf)
{
	return fake_find(fx->machine, test_bdf(bdf));
}

/* The reason of the only one in quarantine; "" none. */
static const char *only_reason(struct fx *fx, char buf[300], const char *bdf)
{
	json_object *list = fx_quarantine(fx), *one = json_object_array_get_idx(list, 0);

	assert_true(json_object_array_length(list) < 2);
	buf[0] = '\0';
	if (one) {
		assert_string_equal(fx_string(one, "bdf"), bdf);
		assert_non_null(fx_string(one, "since"));
		(void)snprintf(buf, 300, "%s", fx_string(one, "reason"));
	}
	json_object_put(list);
	return buf;
}

static void expect_reason(struct fx *fx, const char *bdf, const char *text)
{
	char buf[300];

	if (!strstr(only_reason(fx, buf, bdf), text) || (!*text && *buf))
		fail_msg("\"%s\" is not \"%s\"", buf, text);
}

static void expect_sick(struct fx *fx, const char *bdf)
{
	struct error err = ERROR_INIT;
	struct plan_sick *sick = NULL;
	struct arena arena = { 0 };
	size_t n = 0;

	assert_int_equal(inst_quarantined(fx->m, &sick, &n, NULL, &arena, &err), 0);
	assert_int_equal(n, bdf ? 1 : 0);
	if (bdf)
		assert_true(bdf_eq(sick[0].bdf, test_bdf(bdf)) && *sick[0].reason);
	arena_done(&arena);
}

static bool release(struct fx *fx, const char *bdf)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (inst_quarantine_release(fx->m, &op, test_bdf(bdf), NULL, &err) < 0)
		fail_msg("%s", err.text);
	return fx_wait(fx, op);
}

static void open_guest(struct fx *fx, char **before, const struct fx_want *w)
{
	fx_new(fx);
	*before = fake_text(fx->machine);
	fx_open(fx);
	fx_create_done(fx, w);
}

static void clean_release(void **state)
{
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	struct plan_wear *wear = NULL;
	autofree char *before = NULL;
	size_t n = 0;
	struct fx fx;

	(void)state;
	open_guest(&fx, &before, &fx_a);
	assert_true(fn(&fx, GPU)->dirty);
	for (int i = 0; i < 2; i++) {
		assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
		assert_int_equal(fn(&fx, GPU)->resets, i + 1);
		fx_expect_machine(&fx, before);
		fx_expect_clean(&fx);
		expect_sick(&fx, NULL);
		fx_create_done(&fx, &fx_a);
	}
	assert_int_equal(inst_wear(fx.m, &wear, &n, &arena, &err), 0); /* GPU, its audio, two VFs */
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(wear[i].times, 3);
	arena_done(&arena);
	fx_done(&fx);
}

/* A reset that fails, and a device that comes back otherwise: kept from the next tenant, without a driver. */
static void sick(void **state)
{
	static const struct {
		const char *name, *reason;
	} t[] = {
		{ "dies", "it was not reset: it did not come back" },
		{ "narrows", "its link has 4 lanes, and had 16" },
		{ "changes", "its serial number is 1234, and was 48b02d0000000001" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		autofree char *before = NULL;
		struct fx fx;

		open_guest(&fx, &before, &fx_a);
		fn(&fx, GPU)->dies = i == 0;
		fn(&fx, GPU)->narrows = i == 1 ? 4 : 0;
		if (i == 2)
			(void)snprintf(fn(&fx, GPU)->serial, ACT_SERIAL_MAX, "1234");
		assert_true(fx_wait(&fx, fx_delete(&fx, "a"))); /* the rest is given back */
		fx_expect_state(&fx, "a", "");
		assert_int_equal(fx_taken(&fx), 0);
		expect_reason(&fx, GPU, t[i].reason);
		expect_sick(&fx, GPU);
		assert_string_equal(fn(&fx, GPU)->d.driver, "");
		assert_string_equal(fn(&fx, GPU)->d.override, "quarantine");
		if (i < 2) {
			assert_false(release(&fx, GPU)); /* it is as sick as before */
			expect_sick(&fx, GPU);
		}
		fx_close(&fx); /* it is not forgotten */
		fx_open(&fx);
		expect_sick(&fx, GPU);
		fn(&fx, GPU)->dies = fn(&fx, GPU)->w.dead = false; /* a power cycle */
		fn(&fx, GPU)->narrows = 16;
		assert_true(release(&fx, GPU));
		expect_sick(&fx, NULL);
		fx_expect_machine(&fx, before);
		fx_expect_clean(&fx);
		fx_done(&fx);
	}
}

/* What does not answer is never given, and is kept from the next request. */
static void dead_before(void **state)
{
	autofree char *before = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fn(&fx, GPU)->w.dead = true;
	fx_open(&fx);
	assert_false(fx_wait(&fx, fx_create(&fx, &fx_a)));
	expect_reason(&fx, GPU, "its config space reads as ff");
	assert_int_equal(fx_taken(&fx), 0);
	assert_false(release(&fx, GPU));
	fn(&fx, GPU)->w.dead = false;
	assert_true(release(&fx, GPU));
	fx_expect_machine(&fx, before);
	fx_done(&fx);
}

static void scrubbed(void **state)
{
	struct fx_want want = fx_a;
	autofree char *before = NULL;
	struct fx fx;

	(void)state;
	want.scrub = true;
	fx_new(&fx);
	before = fake_text(fx.machine);
	fx.release = (struct inst_release){ .scrub = "/usr/sbin/clear-memory", .scrub_seconds = 5 };
	fx_open(&fx);
	fx_create_done(&fx, &want);
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_int_equal(fn(&fx, GPU)->scrubs, 1);
	fx_expect_machine(&fx, before);
	fx_create_done(&fx, &want);
	fake_break(fx.machine, "scrub");
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	json_object *list = fx_quarantine(&fx);
	assert_int_equal(json_object_array_length(list), 4); /* each that it was to clear */
	assert_non_null(strstr(fx_string(json_object_array_get_idx(list, 0), "reason"), "it was not scrubbed: scrub is broken"));
	json_object_put(list);
	fake_break(fx.machine, "");
	assert_int_equal(fx_release_all(&fx), 4);
	assert_int_equal(fn(&fx, GPU)->scrubs, 2); /* also on the way out */
	fx_expect_machine(&fx, before);
	fx_expect_clean(&fx);
	fx_done(&fx);
}

/* What the kernel cannot reset is the guest's again after a stop; no other guest gets it, unless the operator says so. */
static void no_reset(void **state)
{
	(void)state;
	for (int allow = 0; allow < 2; allow++) {
		autofree char *before = NULL;
		struct fx fx;

		fx_new(&fx);
		before = fake_text(fx.machine);
		fx.release.unreset = allow;
		fx_open(&fx);
		fx_create_done(&fx, &fx_a);
		fn(&fx, GPU)->fixed = true;
		assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_STOP, 0)));
		expect_sick(&fx, NULL);
		assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_START, 0)));
		assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
		expect_sick(&fx, allow ? NULL : GPU);
		if (!allow) {
			expect_reason(&fx, GPU, "it was not reset: the kernel knows no way");
			assert_false(release(&fx, GPU));
			fn(&fx, GPU)->fixed = false;
			assert_true(release(&fx, GPU));
		}
		fx_expect_machine(&fx, before);
		if (!allow) /* else what the guest left is still in it */
			fx_expect_clean(&fx);
		fx_done(&fx);
	}
}

/* What cannot be set back, however often, holds up neither the guest's delete nor its other functions; released, all of it is as it was. */
static void stuck(void **state)
{
	static const struct fx_want alone = { "a", GPU, "0000:19:00.1", NULL, 0, 0, NULL, NULL, false };
	static const char *const call[] = { "driver_set", "driver_set", "vf_set", "devctl_set", "power_set" };
	unsigned kept = 0, stayed = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(call); i++) {
		autofree char *before = NULL;
		json_object *list;
		struct fx fx;

		open_guest(&fx, &before, i == 0 ? &alone : &fx_a);
		fake_break(fx.machine, call[i]);
		bool again = !fx_wait(&fx, fx_delete(&fx, "a"));

		if (again) { /* what is set of ports is the same call, and the second delete sets all back */
			assert_int_equal(fx_taken(&fx), 0);
			fx_expect_state(&fx, "a", "failed");
			fake_break(fx.machine, "");
			assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
			fake_break(fx.machine, call[i]);
		}
		fx_expect_state(&fx, "a", "");
		assert_int_equal(fx_taken(&fx), 0);
		list = fx_quarantine(&fx);
		for (size_t k = 0; k < json_object_array_length(list); k++, kept++) {
			json_object *q = json_object_array_get_idx(list, k);

			assert_non_null(strstr(fx_string(q, "reason"), "it is not given back as it was: "));
			stayed += !again && fn(&fx, fx_string(q, "bdf"));
			if (!again && release(&fx, fx_string(q, "bdf")) && fn(&fx, fx_string(q, "bdf")))
				fail_msg("%s is broken, and %s was released", call[i], fx_string(q, "bdf"));
		}
		json_object_put(list);
		fx_close(&fx);
		fx_open(&fx);
		fake_break(fx.machine, "");
		(void)fx_release_all(&fx);
		fx_expect_machine(&fx, before);
		fx_expect_clean(&fx);
		fx_done(&fx);
	}
	assert_true(kept >= 5 && stayed >= 2);
}

/* A create fails, and all that follows: what it had is in quarantine, and it still has a port. What was released is the next guest's,
 * and free after that one. */
static void next_guest(void **state)
{
	unsigned lent = 0;

	(void)state;
	for (unsigned k = 1, taken = 0; k < 40; k++, taken = 0) {
		autofree char *before = NULL;
		struct fx fx;

		fx_new(&fx);
		before = fake_text(fx.machine);
		fx_open(&fx);
		fake_arm(fx.machine, FAKE_FAIL, FAKE_BEFORE, k, true);
		(void)fx_wait(&fx, fx_create(&fx, &fx_a));
		fake_disarm(fx.machine);
		(void)fx_release_all(&fx);
		taken = fx_taken(&fx);
		if (!taken) {
			lent += fn(&fx, GPU)->resets > 0;
			fx_create_done(&fx, &fx_c);
			assert_true(fx_wait(&fx, fx_delete(&fx, "c")));
			assert_string_equal(fn(&fx, GPU)->d.driver, "nvidia");
			assert_string_equal(fn(&fx, GPU)->d.override, "");
		}
		assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
		(void)fx_release_all(&fx);
		fx_expect_machine(&fx, before);
		fx_done(&fx);
	}
	assert_true(lent > 5);
}

/* By hand: what an instance has stays with it, and is not given back to be lent again. */
static void by_hand(void **state)
{
	struct error err = ERROR_INIT;
	autofree char *before = NULL;
	uint64_t op = 0;
	struct fx fx;

	(void)state;
	open_guest(&fx, &before, &fx_a);
	assert_int_equal(inst_quarantine_add(fx.m, test_bdf(GPU), "Xid 79 last night", NULL, &err), 0);
	assert_int_equal(inst_quarantine_add(fx.m, test_bdf(GPU), "again", NULL, &err), -EEXIST);
	assert_non_null(strstr(err.text, "Xid 79 last night"));
	err = ERROR_INIT;
	assert_int_equal(inst_quarantine_release(fx.m, &op, test_bdf(GPU), NULL, &err), -EBUSY);
	assert_non_null(strstr(err.text, "held by instance a"));
	err = ERROR_INIT;
	assert_int_equal(inst_quarantine_release(fx.m, &op, test_bdf(VF), NULL, &err), -ENOENT);
	fx_expect_state(&fx, "a", "running");
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	expect_reason(&fx, GPU, "Xid 79 last night");
	err = ERROR_INIT; /* a plan that was made before */
	assert_int_equal(fx_try_create(&fx, &fx_c, &op, &err), -EBUSY);
	assert_non_null(strstr(err.text, GPU " is in quarantine: Xid 79 last night"));
	assert_true(fn(&fx, GPU)->dirty); /* nobody touched it since */
	assert_true(release(&fx, GPU));
	fx_expect_machine(&fx, before);
	fx_expect_clean(&fx);
	fx_done(&fx);
}

/* A VF that is sick goes with its PF's VFs; its place stays in quarantine. */
static void sick_vf(void **state)
{
	autofree char *before = NULL;
	struct fx fx;

	(void)state;
	open_guest(&fx, &before, &fx_a);
	fn(&fx, VF)->dies = true;
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	fx_expect_machine(&fx, before);
	expect_sick(&fx, VF);
	assert_true(release(&fx, VF)); /* it is gone, and what it had */
	expect_sick(&fx, NULL);
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clean_release), cmocka_unit_test(sick),	cmocka_unit_test(dead_before),
		cmocka_unit_test(scrubbed),	 cmocka_unit_test(by_hand), cmocka_unit_test(sick_vf),
		cmocka_unit_test(no_reset),	 cmocka_unit_test(stuck),	cmocka_unit_test(next_guest),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
