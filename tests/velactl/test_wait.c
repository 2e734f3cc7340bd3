/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/progress.h"
#include "velactl/wait.h"

#include "api/method.h"
#include "fixture.h"
#include "velactl/ctl.h"

#define STEP(id, target, state) \
	"{\"id\":\"" id "\",\"target\":\"" target "\",\"from\":\"a\",\"to\":\"b\",\"state\":\"" state "\"}"
#define OP(kind, one, two) \
	"{\"id\":1,\"kind\":\"" kind "\",\"steps\":[" STEP("bind", "0000:19:00.0", one) "," STEP("domain", "g", two) "]}"

static void assert_told(struct ctl_progress *p, const char *op, const char *expected)
{
	struct ctl_out o = { 0 };
	json_object *doc = json_of(op);

	ctl_progress_write(p, &o, doc);
	assert_printed(&o, expected);
	json_object_put(doc);
}

static void steps_are_told_once(void **state)
{
	struct ctl_progress p = { 0 };

	(void)state;
	assert_told(&p, OP("create", "pending", "pending"), "");
	assert_told(&p, OP("create", "begun", "pending"), "");
	assert_told(&p, OP("create", "done", "begun"), "done      bind      0000:19:00.0  a -> b\n");
	assert_told(&p, OP("create", "done", "begun"), "");
	assert_told(&p, OP("create", "done", "done"), "done      domain    g             a -> b\n");
}

static void a_failed_create_takes_its_steps_back(void **state)
{
	struct ctl_progress p = { 0 };

	(void)state;
	assert_told(&p, OP("create", "done", "failed"),
		    "done      bind      0000:19:00.0  a -> b\nfailed    domain    g             a -> b\n");
	assert_told(&p, OP("create", "reverted", "reverted"),
		    "reverted  domain    g             b -> a\nreverted  bind      0000:19:00.0  b -> a\n");
	assert_told(&p, OP("create", "reverted", "reverted"), "");
}

static void a_delete_starts_with_steps_done(void **state)
{
	struct ctl_progress p = { 0 };

	(void)state;
	assert_told(&p, OP("delete", "done", "done"), "");
	assert_told(&p, OP("delete", "reverted", "done"), "reverted  bind      0000:19:00.0  b -> a\n");
	assert_told(&p, OP("delete", "reverted", "failed"), "failed    domain    g             a -> b\n");
	assert_told(&p, OP("delete", "reverted", "reverted"), "reverted  domain    g             b -> a\n");
}

/* The line that moves: as wide as the terminal less one, whatever is under way. */
static void the_last_line_moves(void **state)
{
	static const char op[] = "{\"progress\":{\"done\":5,\"total\":10},\"steps\":[" STEP("vfio", "x", "done") "," STEP("bind", "0000:19:00.0", "begun")
				 "," STEP("bind", "0000:3b:00.0", "begun") "]}";
	struct ctl_out wide = { .width = 60 }, narrow = { .width = 40 }, odd = { .width = 40 };
	json_object *doc = json_of(op), *nothing = json_of("{\"progress\":{\"done\":9,\"total\":3}}");

	(void)state;
	ctl_progress_line(&wide, doc, 3999);
	assert_printed(&wide, "\r##########.......... 5/10  3 s  bind 0000:19:00.0 and 1 ...");
	ctl_progress_line(&narrow, doc, 0);
	assert_printed(&narrow, "\r##########.......... 5/10  0 s  bind...");
	ctl_progress_line(&odd, nothing, 0);
	assert_printed(&odd, "\r.................... 9/3  0 s          ");
	json_object_put(doc);
	json_object_put(nothing);
}

static void operations_without_sense(void **state)
{
	struct ctl_progress p = { 0 };

	(void)state;
	assert_told(&p, "{}", "");
	assert_told(&p, "{\"steps\":[1,null,{\"state\":\"done\"}]}", "done" "      " "        " "  " "            " "  " " -> \n");
}

static void assert_result(const char *op, int code, const char *text)
{
	struct error err = ERROR_INIT;
	json_object *doc = json_of(op);

	assert_int_equal(ctl_op_result(doc, &err), code);
	assert_string_equal(err.text, text);
	json_object_put(doc);
}

static void results(void **state)
{
	(void)state;
	assert_result("{\"state\":\"succeeded\"}", 0, "");
	assert_result("{\"id\":9,\"kind\":\"create\",\"instance\":\"a\",\"state\":\"failed\",\"error\":{\"code\":\"hypervisor\","
		      "\"detail\":\"qemu said no\"}}",
		      -EREMOTEIO, "create of a failed (operation 9): qemu said no");
	assert_result("{\"id\":9,\"kind\":\"delete\",\"instance\":\"a\",\"state\":\"failed\",\"error\":null}", -EPROTO,
		      "delete of a failed (operation 9): velad does not say why");
}

/* velactl(1), EXIT STATUS: for every code that velad may send */
static void exit_statuses(void **state)
{
	static const struct {
		const char   *code;
		enum ctl_exit status;
	} expected[] = {
		{ "invalid", 2 }, { "too_large", 2 }, { "denied", 1 },     { "not_found", 3 },  { "exists", 4 },  { "busy", 4 },
		{ "stale_plan", 4 }, { "gone", 4 }, { "no_capacity", 5 }, { "method", 1 }, { "host", 1 }, { "hypervisor", 1 }, { "timeout", 8 }, { "internal", 1 },
		{ "cancelled", 1 }, { "changed", 4 }, { "key_reused", 4 }, { "limit", 1 }, { "not_decided", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_int_equal(ctl_exit_of(ctl_exit_errno(expected[i].code)), expected[i].status);
	for (size_t i = 0; i < api_error_count(); i++) { /* and none is missing above */
		bool found = false;

		for (size_t k = 0; k < ARRAY_SIZE(expected); k++)
			found = found || strcmp(expected[k].code, error_name(api_error_at(i)->code)) == 0;
		if (!found)
			fail_msg("no exit status for %s", error_name(api_error_at(i)->code));
	}
	assert_int_equal(ctl_exit_of(ctl_exit_errno("brand_new")), CTL_FAILED);
	assert_int_equal(ctl_exit_of(ctl_exit_errno("")), CTL_FAILED);
	assert_int_equal(ctl_exit_of(-ECONNREFUSED), CTL_UNREACHABLE);
	assert_int_equal(ctl_exit_of(-ENOMEM), CTL_FAILED);
}

static void assert_verb(const char *one, const char *two, const char *verb, const char *error)
{
	struct ctl_args a = { .word = { one, two }, .nwords = two ? 2 : one ? 1 : 0 };
	struct error err = ERROR_INIT;
	size_t words = 0;
	const struct ctl_verb *v = ctl_verb_find(&a, &words, &err);

	assert_string_equal(v ? v->name : "", verb);
	assert_string_equal(v ? "" : err.text, error);
	if (v)
		assert_int_equal(words, strchr(verb, ' ') ? 2 : 1);
}

static void verbs(void **state)
{
	(void)state;
	for (const struct ctl_verb *v = ctl_verbs; v->name; v++) {
		assert_non_null(v->run);
		assert_true(v->least <= v->most && v->most <= CTL_WORDS_MAX - 2);
	}
	assert_verb("topo", NULL, "topo", "");
	assert_verb("op", "wait", "op wait", "");
	assert_verb("op", NULL, "", "op what? say op list or op show or op wait or op cancel");
	assert_verb("op", "cancel", "op cancel", "");
	assert_verb("op", "stop", "", "op what? say op list or op show or op wait or op cancel");
	assert_verb("lst", NULL, "", "unknown verb \"lst\"; did you mean list? see velactl help");
	assert_verb("frobnicate", NULL, "", "unknown verb \"frobnicate\"; see velactl help");
	assert_verb("x", NULL, "", "unknown verb \"x\"; see velactl help");
	assert_verb(NULL, NULL, "", "which verb? see velactl help");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_are_told_once),	    cmocka_unit_test(a_failed_create_takes_its_steps_back),
		cmocka_unit_test(a_delete_starts_with_steps_done), cmocka_unit_test(operations_without_sense),
		cmocka_unit_test(the_last_line_moves),
		cmocka_unit_test(results),		    cmocka_unit_test(exit_statuses),
		cmocka_unit_test(verbs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
