/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/args.h"

#include "base/conf.h"

static const struct conf none; /* no shapes */

#include "fixture.h"
#include "velactl/request.h"

/* parse("topo", "-m", NULL) */
static int parse(struct ctl_args *ret, struct error *err, ...)
{
	const char *argv[16] = { "velactl" };
	int argc = 1;
	va_list ap;

	va_start(ap, err);
	while (argc < 16 && (argv[argc] = va_arg(ap, const char *)))
		argc++;
	va_end(ap);
	*err = ERROR_INIT;
	return ctl_args_parse(ret, argc, (char *const *)(uintptr_t)argv, err);
}

#define PARSE(...) parse(&a, &err, __VA_ARGS__, (char *)NULL)

static void assert_refused(const char *expected, const char *one, const char *two)
{
	struct ctl_args a;
	struct error err;

	assert_int_equal(parse(&a, &err, one, two, (char *)NULL), -EINVAL);
	assert_string_equal(err.text, expected);
}

static void options_before_and_after_the_verb(void **state)
{
	struct ctl_args a;
	struct error err;

	(void)state;
	assert_int_equal(PARSE("-o", "json", "topo", "--host=x.txt", "-m", "--all"), 0);
	assert_true(a.json && a.matrix && a.all);
	assert_string_equal(a.host, "x.txt");
	assert_int_equal(a.nwords, 1);
	assert_string_equal(a.word[0], "topo");
	assert_int_equal(a.timeout, CTL_TIMEOUT_DEFAULT);
	assert_null(a.request);
	ctl_args_done(&a);

	assert_int_equal(PARSE("op", "-ojson", "wait", "--timeout", "7", "--", "-3"), 0);
	assert_int_equal(a.nwords, 3);
	assert_string_equal(a.word[2], "-3");
	assert_int_equal(a.timeout, 7);
	ctl_args_done(&a);

	assert_int_equal(PARSE("-o", "json", "-o", "text", "plan", "-f", "-"), 0); /* the last one counts */
	assert_false(a.json);
	assert_string_equal(a.file, "-");
	ctl_args_done(&a);
}

static void wrong_options_are_named(void **state)
{
	(void)state;
	assert_refused("unknown option --vfz; did you mean --vfs?", "--vfz", "1");
	assert_refused("unknown option --frobnicate; see velactl help", "--frobnicate", "1");
	assert_refused("unknown option -x; see velactl help", "-x", NULL);
	assert_refused("--gpus needs a value: --gpus N", "--gpus", NULL);
	assert_refused("--gpus: \"two\" is not a whole number", "--gpus", "two");
	assert_refused("--gpus: \"-1\" is not a whole number", "--gpus", "-1");
	assert_refused("--gpus: \"\" is not a whole number", "--gpus=", NULL);
	assert_refused("--memory: \"12Q\" is not a size; say 512M or 4G", "--memory", "12Q");
	assert_refused("--numa-node: \"0x1\" is not a whole number", "--numa-node", "0x1");
	assert_refused("--timeout: \"1.5\" is not a number of seconds", "--timeout", "1.5");
	assert_refused("--output: \"yaml\" is no format; say json or text", "-o", "yaml");
	assert_refused("--all takes no value, \"=yes\" follows it", "--all=yes", NULL);
	assert_refused("--all takes no value, \"m\" follows it", "-am", NULL);
	assert_refused("--root needs a DIR, it is empty", "--root=", NULL);
	assert_refused("--root and --host are two hosts; say one of them", "--root=/", "--host=x");
}

static void too_many_words(void **state)
{
	struct ctl_args a;
	struct error err;

	(void)state;
	assert_int_equal(PARSE("1", "2", "3", "4", "5", "6", "7", "8", "9"), -EINVAL);
	assert_string_equal(err.text, "too many words, at \"9\"");
}

static void options_belong_to_verbs(void **state)
{
	struct ctl_args a;
	struct error err;

	(void)state;
	assert_int_equal(PARSE("list", "--gpus", "1", "-o", "json"), 0);
	assert_int_equal(ctl_args_check(&a, "list", 0, &err), -EINVAL);
	assert_string_equal(err.text, "list has no option --gpus; see velactl help list");
	assert_int_equal(ctl_args_check(&a, "plan", CTL_REQUEST, &err), 0);
	ctl_args_done(&a);
	assert_int_equal(PARSE("list", "--root", "/"), 0);
	assert_int_equal(ctl_args_check(&a, "list", CTL_WAIT, &err), -EINVAL);
	assert_string_equal(err.text, "list asks velad and cannot work with --root");
	assert_int_equal(ctl_args_check(&a, "topo", CTL_READ, &err), 0);
	ctl_args_done(&a);
}

/* The request that the flags make, as text. */
static void assert_request(struct ctl_args *a, const char *name, const char *expected)
{
	struct error err = ERROR_INIT;
	struct plan_request req;
	json_object *o = NULL;

	if (ctl_request_read(&o, &req, a, &none, name, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
			    expected);
	plan_request_done(&req);
	json_object_put(o);
	ctl_args_done(a);
}

static void flags_make_the_request(void **state)
{
	struct ctl_args a;
	struct error err;

	(void)state;
	assert_int_equal(PARSE("plan"), 0);
	assert_request(&a, NULL, "{}");
	assert_int_equal(PARSE("plan", "--gpus", "2", "--vfs-per-gpu=1", "--max-path", "PIX", "--memory", "1G"), 0);
	assert_request(&a, "train-1", "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"memory\":1073741824,\"name\":\"train-1\"}");
	assert_int_equal(PARSE("--vfs", "3", "--vcpus", "8", "--numa-node", "-1"), 0);
	assert_request(&a, NULL, "{\"vfs\":3,\"vcpus\":8,\"numa_node\":-1}");
	assert_int_equal(PARSE("--gpus", "1", "--gpus", "2"), 0);
	assert_request(&a, NULL, "{\"gpus\":2}");
	assert_int_equal(PARSE("--gpus=2", "--require", "0000:19:00.0", "--require", "3b:00.0", "--exclude=0000:4c:00.0"), 0);
	assert_request(&a, NULL, "{\"gpus\":2,\"require\":[\"0000:19:00.0\",\"3b:00.0\"],\"exclude\":[\"0000:4c:00.0\"]}");
	assert_int_equal(PARSE("--kernel", "/k", "--initrd=/i", "--cmdline", "console=ttyS0 quiet", "--disk", "/d"), 0);
	assert_request(&a, NULL, "{\"boot\":{\"kernel\":\"/k\",\"initrd\":\"/i\",\"cmdline\":\"console=ttyS0 quiet\",\"disk\":\"/d\"}}");
}

static void assert_no_request(struct ctl_args *a, const char *name, const char *expected)
{
	struct error err = ERROR_INIT;
	struct plan_request req;
	json_object *o = NULL;

	assert_true(ctl_request_read(&o, &req, a, &none, name, &err) < 0);
	assert_string_equal(err.text, expected);
	ctl_args_done(a);
}

static void requests_are_refused_in_the_words_typed(void **state)
{
	struct ctl_args a;
	struct error err;

	(void)state;
	assert_int_equal(PARSE("--gpus", "99"), 0);
	assert_no_request(&a, NULL, "--gpus is 99, allowed are 0 to 16");
	assert_int_equal(PARSE("--vfs-per-gpu=9", "--gpus=1"), 0);
	assert_no_request(&a, NULL, "--vfs-per-gpu is 9, allowed are 0 to 8");
	assert_int_equal(PARSE("--max-path", "NEAR"), 0);
	assert_no_request(&a, NULL, "--max-path is \"NEAR\"; known are PIX, PXB, PHB, NODE, SYS");
	assert_int_equal(PARSE("--kernel", "vmlinuz"), 0);
	assert_no_request(&a, NULL, "--kernel must be an absolute path on the host: \"vmlinuz\"");
	assert_int_equal(PARSE("--require", "gpu0"), 0);
	assert_no_request(&a, NULL, "--require has \"gpu0\", which is no PCI address; say 0000:4c:00.0");
	assert_int_equal(PARSE("plan"), 0);
	assert_no_request(&a, "Train", "NAME \"Train\" must be lower-case letters, digits and -, not starting with -");
	assert_int_equal(PARSE("--file", "x", "--gpus", "1"), 0);
	assert_no_request(&a, NULL, "--file and request flags together; say one of them");
	assert_int_equal(PARSE("--file", "/nonexistent/x"), 0);
	assert_no_request(&a, NULL, "cannot read /nonexistent/x: No such file or directory");
}

static void requests_from_a_file(void **state)
{
	char file[] = "/tmp/velactl-test-XXXXXX";
	int fd = mkstemp(file);
	struct ctl_args a;
	struct error err;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(dprintf(fd, "{\"name\":\"a\",\"gpus\":1}"), 21);
	assert_int_equal(PARSE("--file", file), 0);
	assert_request(&a, NULL, "{\"name\":\"a\",\"gpus\":1}");
	assert_int_equal(PARSE("--file", file), 0);
	assert_request(&a, "b", "{\"name\":\"b\",\"gpus\":1}");
	assert_int_equal(dprintf(fd, ","), 1);
	assert_int_equal(PARSE("--file", file), 0);
	assert_int_equal(ctl_request_read(&(json_object *){ NULL }, &(struct plan_request){ 0 }, &a, &none, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, file));
	ctl_args_done(&a);
	(void)close(fd);
	(void)unlink(file);
}

static void distances(void **state)
{
	(void)state;
	assert_int_equal(ctl_distance("topo", "topo"), 0);
	assert_int_equal(ctl_distance("toop", "topo"), 2);
	assert_int_equal(ctl_distance("", "abc"), 3);
	assert_int_equal(ctl_distance("lst", "list"), 1);
	assert_int_equal(ctl_distance("a word that is longer than a line", "a"), UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_before_and_after_the_verb), cmocka_unit_test(wrong_options_are_named),
		cmocka_unit_test(too_many_words),		     cmocka_unit_test(options_belong_to_verbs),
		cmocka_unit_test(flags_make_the_request),	     cmocka_unit_test(requests_are_refused_in_the_words_typed),
		cmocka_unit_test(requests_from_a_file),		     cmocka_unit_test(distances),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
