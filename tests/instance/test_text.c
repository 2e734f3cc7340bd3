/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text that is kept of an instance is always what its document says now. */
#include "instance/text.h"

#include "instance/fixture.h"
#include "instance/manager.h"
#include "instance/store.h"

/* The state that the text says; "" if there is no instance. Equal to the document made anew. */
static void expect(struct fx *fx, const char *name, const char *state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	struct inst_text is;
	int r = inst_text(fx->m, &is, name, &err);

	if (!*state) {
		assert_int_equal(r, -ENOENT);
		assert_non_null(strstr(err.text, name));
		return;
	}
	assert_int_equal(r, 0);
	assert_int_equal(inst_json(fx->m, &o, name, &err), 0);
	assert_string_equal(is.text, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	assert_string_equal(fx_string(o, "state"), state);
	assert_int_equal(json_object_get_uint64(json_object_object_get(o, "generation")), is.generation);
	json_object_put(o);
}

static void expect_list(struct fx *fx)
{
	struct error err = ERROR_INIT;

	for (int brief = 0; brief < 2; brief++) {
		const struct inst_filter f = { .brief = brief };
		json_object *o = NULL;
		const char *text = NULL;

		assert_int_equal(inst_list_text(fx->m, &text, brief, &err), 0);
		assert_int_equal(inst_list_json(fx->m, &o, &f, &err), 0);
		assert_string_equal(text, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(o);
	}
}

static void it_follows_what_changes(void **state)
{
	struct inst_text first, again, other;
	struct error err = ERROR_INIT;
	bool kept = false;
	struct fx fx;
	uint64_t op;

	(void)state;
	fx_new(&fx);
	fake_pause(fx.machine, "domain_start");
	fx_open(&fx);
	expect(&fx, "a", "");
	expect_list(&fx);
	op = fx_create(&fx, &fx_a);
	fx_await_call(&fx, "domain_start");
	expect(&fx, "a", "provisioning");
	fake_pause(fx.machine, "");
	assert_true(fx_wait(&fx, op));
	expect(&fx, "a", "running");
	fx_create_done(&fx, &fx_b);
	expect(&fx, "b", "running");
	expect(&fx, "a", "running");
	expect_list(&fx);
	for (int i = 0; i < 1000 && !kept; i++) { /* as soon as nothing else is committed meanwhile */
		uint64_t commits = store_commits(fx.m->store);

		assert_int_equal(inst_text(fx.m, &first, "a", &err), 0);
		assert_int_equal(inst_text(fx.m, &again, "a", &err), 0);
		kept = commits == store_commits(fx.m->store);
		assert_true(!kept || (first.text == again.text && first.number == again.number));
		fx_nap();
	}
	assert_true(kept);
	assert_int_equal(inst_text(fx.m, &other, "b", &err), 0);
	assert_int_not_equal(other.number, again.number);
	fx.m->keep.looks++;
	assert_int_equal(inst_text(fx.m, &again, "a", &err), 0); /* made anew: nobody takes it for the one before */
	assert_true(again.number != first.number && again.number != other.number && again.number != 0);
	expect(&fx, "a", "running");
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	expect(&fx, "a", "");
	expect(&fx, "b", "running");
	expect_list(&fx);
	fx_done(&fx);
}

/* Names that there are not, and more than are kept, take no room. */
static void it_is_bounded(void **state)
{
	struct fx fx;
	char name[100];

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	fx_create_done(&fx, &fx_a);
	expect(&fx, "a", "running");
	for (unsigned i = 0; i < 2 * TEXTS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "none-%u", i);
		expect(&fx, name, "");
	}
	assert_int_equal(fx.m->texts.n, 1);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	expect(&fx, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "");
	while (fx.m->texts.n < TEXTS_MAX) /* as if there were so many: the next one makes room */
		fx.m->texts.at[fx.m->texts.n++] = (struct text){ .name = "other", .text = strdup("{}") };
	fx_create_done(&fx, &fx_b);
	expect(&fx, "b", "running");
	assert_int_equal(fx.m->texts.n, 1);
	expect(&fx, "a", "running");
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_follows_what_changes),
		cmocka_unit_test(it_is_bounded),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
