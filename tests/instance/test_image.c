/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Images, and guests with disks and seeds: what is in the way, who uses what, and a failure or an end of the process at each call. */
#include "instance/fixture.h"
#include "instance/image.h"

static const struct inst_image_request image = { "debian", "a file", "raw", NULL };
static const struct fx_want disked = { "a", "0000:19:00.0", NULL, NULL, 0, 0, .disk = "debian 10G" };

static int try_add(struct fx *fx, uint64_t *op, struct error *err)
{
	return inst_image_add(fx->m, op, &image, err);
}

static uint64_t add(struct fx *fx)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (try_add(fx, &op, &err) < 0)
		fail_msg("%s", err.text);
	return op;
}

static uint64_t drop(struct fx *fx)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (inst_image_delete(fx->m, &op, "debian", &err) < 0)
		fail_msg("%s", err.text);
	return op;
}

static json_object *shown(struct fx *fx)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	int r = inst_image_json(fx->m, &o, "debian", &err);

	if (r < 0)
		assert_int_equal(r, -ENOENT);
	return o;
}

static void expect_image(struct fx *fx, const char *state, size_t instances)
{
	auto_(json_object_put) json_object *o = shown(fx);

	if (!state) {
		assert_null(o);
		return;
	}
	assert_non_null(o);
	assert_string_equal(fx_string(o, "state"), state);
	assert_int_equal(json_object_array_length(json_object_object_get(o, "instances")), instances);
}

static void refused(int got, int wanted, const struct error *err, const char *text)
{
	assert_int_equal(got, wanted);
	assert_non_null(strstr(err->text, text));
}

static void used_and_unused(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	refused(fx_try_create(&fx, &disked, &op, &err), -ENOENT, &err, "there is no image debian");
	assert_true(fx_wait(&fx, add(&fx)));
	expect_image(&fx, "ready", 0);
	refused(try_add(&fx, &op, &err), -EEXIST, &err, "there is an image debian already");
	fx_create_done(&fx, &disked);
	expect_image(&fx, "ready", 1);
	refused(inst_image_delete(fx.m, &op, "debian", &err), -EBUSY, &err, "below the disk of instance a");
	fx_reopen(&fx); /* it is in the store */
	expect_image(&fx, "ready", 1);
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	expect_image(&fx, "ready", 0);
	assert_true(fx_wait(&fx, drop(&fx)));
	expect_image(&fx, NULL, 0);
	refused(inst_image_delete(fx.m, &op, "debian", &err), -ENOENT, &err, "there is no image debian");
	refused(inst_image_delete(fx.m, &op, "acs apply", &err), -ENOENT, &err, "there is no image");
	fx_done(&fx);
}

/* An image is no guest: not listed, not deleted as one, not touched by ACS holders. */
static void no_instance(void **state)
{
	struct error err = ERROR_INIT;
	json_object *list = NULL;
	uint64_t op = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	assert_true(fx_wait(&fx, add(&fx)));
	assert_int_equal(inst_list_json(fx.m, &list, NULL, &err), 0);
	assert_int_equal(json_object_array_length(json_object_object_get(list, "instances")), 0);
	json_object_put(list);
	refused(inst_delete(fx.m, &op, "image debian", &err), -ENOENT, &err, "there is no instance");
	assert_int_equal(inst_acs_restore(fx.m, &op, &err), 0);
	assert_true(fx_wait(&fx, op));
	expect_image(&fx, "ready", 0);
	fx_done(&fx);
}

/* What was checked when it was added is not there any more. */
static void image_changed(void **state)
{
	static const struct fx_want small = { "b", NULL, NULL, NULL, 0, 0, .disk = "debian 512K" };
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	assert_true(fx_wait(&fx, add(&fx)));
	fx.machine->file_mtime++;
	assert_false(fx_wait(&fx, fx_create(&fx, &disked)));
	fx.machine->file_mtime--;
	assert_false(fx_wait(&fx, fx_create(&fx, &small))); /* smaller than the image */
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_true(fx_wait(&fx, fx_delete(&fx, "b")));
	(void)snprintf(fx.machine->file[1], sizeof(fx.machine->file[1]), "a.disk"); /* somebody else's */
	assert_false(fx_wait(&fx, fx_create(&fx, &disked)));
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_string_equal(fx.machine->file[1], "a.disk");
	fx_done(&fx);
}

static char *file_called(struct fx *fx, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(fx->machine->file); i++)
		if (strcmp(fx->machine->file[i], name) == 0)
			return fx->machine->file[i];
	return NULL;
}

/* The disk that a guest had when it was stopped is the one that it has when it is started; one that is gone is not made anew. */
static void started_again(void **state)
{
	struct fx fx;
	char *disk;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	assert_true(fx_wait(&fx, add(&fx)));
	fx_create_done(&fx, &disked);
	fake_pause(fx.machine, "disk_make"); /* would never end */
	for (int i = 0; i < 2; i++) {
		assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_STOP, 0)));
		fx_reopen(&fx);
		assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_START, 0)));
	}
	assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_STOP, 0)));
	disk = file_called(&fx, "a.disk");
	assert_non_null(disk);
	disk[0] = '-';
	assert_false(fx_wait(&fx, fx_order(&fx, "a", INST_START, 0)));
	assert_null(file_called(&fx, "a.disk"));
	disk[0] = 'a';
	assert_true(fx_wait(&fx, fx_order(&fx, "a", INST_START, 0)));
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	assert_null(file_called(&fx, "a.disk"));
	fx_done(&fx);
}

/* ---- faults at every call ---------------------------------------------------------------------------- */

/* False once k is beyond its calls. */
static bool add_fails_at(enum fake_when when, unsigned k)
{
	autofree char *before = NULL;
	struct fx fx;
	bool fired;

	fx_new(&fx);
	before = fake_text(fx.machine);
	fx_open(&fx);
	fake_arm(fx.machine, FAKE_FAIL, when, k, false);
	fired = !fx_wait(&fx, add(&fx));
	expect_image(&fx, fired ? "failed" : "ready", 0);
	fake_disarm(fx.machine);
	if (fired)
		fx_expect_machine(&fx, before);
	assert_true(fx_wait(&fx, drop(&fx)));
	fx_expect_machine(&fx, before);
	expect_image(&fx, NULL, 0);
	fx_done(&fx);
	return fired;
}

static bool create_fails_at(enum fake_when when, unsigned k)
{
	autofree char *before = NULL;
	struct fx fx;
	bool failed;

	fx_new(&fx);
	fx_open(&fx);
	assert_true(fx_wait(&fx, add(&fx)));
	before = fake_text(fx.machine);
	fake_arm(fx.machine, FAKE_FAIL, when, k, false);
	failed = !fx_wait(&fx, fx_create(&fx, &disked));
	if (!failed)
		fx_await_call(&fx, "domain");
	fake_disarm(fx.machine);
	if (failed)
		fx_expect_machine(&fx, before);
	expect_image(&fx, "ready", failed ? 0 : 1);
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	fx_expect_machine(&fx, before);
	fx_done(&fx);
	return failed;
}

static void each_call_fails(void **state)
{
	unsigned adds = 0, creates = 0;

	(void)state;
	for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
		for (unsigned k = 1; k <= 4; k++)
			adds += add_fails_at((enum fake_when)when, k);
		for (unsigned k = 1; k <= 16; k++)
			creates += create_fails_at((enum fake_when)when, k);
	}
	assert_int_equal(adds, 2 + 1 + 2); /* file, image_make; a look has no middle */
	assert_in_range(creates, 20, 48);
}

/* The process ends at call k of an add; the next one undoes it. */
static void add_crashes(void **state)
{
	(void)state;
	for (unsigned k = 1; k <= 2; k++) {
		for (int when = 0; when < FAKE_WHEN_MAX_; when++) {
			autofree char *before = NULL;
			int status = 0;
			struct fx fx;
			pid_t pid;

			fx_new(&fx);
			before = fake_text(fx.machine);
			pid = fork();
			assert_true(pid >= 0);
			if (pid == 0) {
				fx_open(&fx);
				fake_arm(fx.machine, FAKE_CRASHES, (enum fake_when)when, k, false);
				(void)fx_wait(&fx, add(&fx));
				_exit(0);
			}
			assert_int_equal(waitpid(pid, &status, 0), pid);
			fake_reset_lock(fx.machine);
			fake_disarm(fx.machine);
			fx_open(&fx);
			for (int i = 0; i < 100000; i++) {
				auto_(json_object_put) json_object *o = shown(&fx);

				if (o && strcmp(fx_string(o, "state"), "adding") != 0)
					break;
				fx_nap();
			}
			expect_image(&fx, WEXITSTATUS(status) == FAKE_CRASH ? "failed" : "ready", 0);
			assert_true(fx_wait(&fx, drop(&fx)));
			fx_expect_machine(&fx, before);
			fx_done(&fx);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(used_and_unused), cmocka_unit_test(no_instance), cmocka_unit_test(image_changed), cmocka_unit_test(started_again),
		cmocka_unit_test(each_call_fails), cmocka_unit_test(add_crashes),
	};

	log_init(0);
	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
