/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tools everything stands on: each with the values that break careless ones. */
#include "base/utf8.h"
#include "base/cpuset.h"
#include "base/parse.h"
#include "base/sbuf.h"
#include "support.h"

static void bdfs(void **state)
{
	static const char *const bad[] = { "", "0", "0000:00:00", "0000:00:00.8", "0000:00:20.0", "000:00:00.0",
					   "0000:00:00.0 ", " 0000:00:00.0", "0000:0g:00.0", "0000:00:00.00", "00:00.0.0",
					   "100000000:00:00.0", "0000:000:00.0", "0000::00.0" };
	char text[BDF_TEXT_MAX];
	struct bdf b, c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (bdf_parse(&b, bad[i]))
			fail_msg("\"%s\" was taken for a BDF", bad[i]);
	assert_true(bdf_parse(&b, "0000:AF:1f.7"));
	assert_string_equal(bdf_text(text, b), "0000:af:1f.7");
	assert_true(bdf_parse(&b, "af:1f.7"));
	assert_string_equal(bdf_text(text, b), "0000:af:1f.7");
	assert_true(bdf_parse(&b, "10000:e0:06.0"));
	assert_string_equal(bdf_text(text, b), "10000:e0:06.0");
	assert_true(bdf_parse(&b, "0000:25:00.0"));
	assert_true(bdf_add(&c, b, 128));
	assert_string_equal(bdf_text(text, c), "0000:25:10.0");
	assert_true(bdf_parse(&b, "0000:ff:1f.7"));
	assert_false(bdf_add(&c, b, 1));
	assert_string_equal(bdf_text(text, BDF_NONE), "-");
}

static void numbers(void **state)
{
	char text[SIZE_TEXT_MAX];
	uint64_t u = 7;
	int64_t i = 7;

	(void)state;
	assert_int_equal(parse_uint(&u, "18446744073709551615", 10, UINT64_MAX), 0);
	assert_true(u == UINT64_MAX);
	assert_int_equal(parse_uint(&u, "18446744073709551616", 10, UINT64_MAX), -ERANGE);
	assert_int_equal(parse_uint(&u, "", 10, 10), -EINVAL);
	assert_int_equal(parse_uint(&u, "+1", 10, 10), -EINVAL);
	assert_int_equal(parse_uint(&u, "1 ", 10, 10), -EINVAL);
	assert_int_equal(parse_uint(&u, "0x", 16, 10), -EINVAL);
	assert_int_equal(parse_uint(&u, "0xff", 16, 0xff), 0);
	assert_int_equal(parse_uint(&u, "11", 10, 10), -ERANGE);
	assert_int_equal(parse_int(&i, "-1", -1, 5), 0);
	assert_int_equal(i, -1);
	assert_int_equal(parse_int(&i, "--1", -9, 5), -EINVAL);
	assert_int_equal(parse_size(&u, "512M"), 0);
	assert_true(u == 512u << 20);
	assert_int_equal(parse_size(&u, "2GiB"), 0);
	assert_int_equal(parse_size(&u, "12Q"), -EINVAL);
	assert_int_equal(parse_size(&u, "M"), -EINVAL);
	assert_int_equal(parse_size(&u, "99999999999T"), -ERANGE);
	assert_string_equal(size_text(text, 512u << 20), "512M");
	assert_string_equal(size_text(text, 1537 * 1024), "1537K");
	assert_string_equal(size_text(text, 0), "0");
}

static void cpusets(void **state)
{
	static const char *const same[] = { "", "0", "0-3", "0-3,8", "0,2,4-6,8191" };
	static const char *const bad[] = { "-", "1-", "3-1", "1,", ",1", "8192", "1 2", "a" };
	struct cpuset s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		struct sbuf out = { 0 };

		assert_int_equal(cpuset_parse(&s, same[i]), 0);
		cpuset_write(&out, &s);
		assert_string_equal(out.text ? out.text : "", same[i]);
		sbuf_done(&out);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(cpuset_parse(&s, bad[i]), -EINVAL);
	assert_int_equal(cpuset_parse(&s, "0-3,60-67"), 0);
	assert_int_equal(cpuset_count(&s), 12);
	assert_int_equal(cpuset_next(&s, 3), 60);
	assert_int_equal(cpuset_next(&s, 67), -1);
}

static void errors_grow_and_are_cut(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(error_set(&err, -EIO, "cannot read %s", "x"), -EIO);
	assert_int_equal(error_prefix(&err, "step %d", 3), -EIO);
	assert_string_equal(err.text, "step 3: cannot read x");
	for (int i = 0; i < 200; i++)
		error_prefix(&err, "again");
	assert_true(strlen(err.text) < sizeof(err.text));
}

static int parse(json_object **o, const char *text, struct error *err)
{
	*err = ERROR_INIT;
	return json_parse(o, text, strlen(text), 1000, err);
}

static void json_is_strict(void **state)
{
	static const char *const bad[] = {
		"", "{", "{}x", "{} {}", "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"b\":1}}", "{'a':1}", "{\"a\":'b'}", "{/*\"*/\"a\":1}", "{\"a\":1}//x", "{\"a\":1,}", "nul",
		"[1,]", "{\"a\":NaN}", "\"\xff\"", "[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "{\"a\":1}\xc2",
	};
	struct error err;
	json_object *o = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(&o, bad[i], &err) >= 0)
			fail_msg("case %zu was taken for JSON: %s", i, bad[i]);
	assert_int_equal(parse(&o, " {\"a\":\"\\\":\", \"b\":[{\"a\":1},{\"a\":2}]} \n", &err), 0);
	json_object_put(o);
	assert_int_equal(parse(&o, "12", &err), 0);
	json_object_put(o);
}

struct sample {
	char    *name;
	uint64_t n, size;
	int64_t  i;
	bool     flag;
};

static void json_fields(void **state)
{
	static const struct json_field fields[] = {
		{ "name", JSON_STRING, offsetof(struct sample, name), .required = true, .min = 1, .max = 4 },
		{ "n", JSON_UINT, offsetof(struct sample, n), .min = 1, .max = 9 },
		{ "size", JSON_SIZE, offsetof(struct sample, size) },
		{ "i", JSON_INT, offsetof(struct sample, i), .min = -1, .max = 5 },
		{ "flag", JSON_BOOL, offsetof(struct sample, flag) },
		{ 0 },
	};
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "{}", "lacks the key \"name\"" },
		{ "{\"name\":\"a\",\"x\":1}", "unknown key \"x\"" },
		{ "{\"name\":1}", "must be a string" },
		{ "{\"name\":\"abcde\"}", "1 to 4 bytes" },
		{ "{\"name\":\"a\\n\"}", "control character" },
		{ "{\"name\":\"a\\u0000\"}", "control character" },
		{ "{\"name\":\"a\",\"n\":0}", "allowed are 1 to 9" },
		{ "{\"name\":\"a\",\"n\":10}", "allowed are 1 to 9" },
		{ "{\"name\":\"a\",\"n\":-1}", "negative" },
		{ "{\"name\":\"a\",\"n\":1.5}", "whole number" },
		{ "{\"name\":\"a\",\"n\":99999999999999999999}", "allowed are" },
		{ "{\"name\":\"a\",\"n\":\"1\"}", "whole number" },
		{ "{\"name\":\"a\",\"size\":\"12Q\"}", "not a size" },
		{ "{\"name\":\"a\",\"i\":-2}", "allowed are -1 to 5" },
		{ "{\"name\":\"a\",\"flag\":1}", "true or false" },
		{ "[]", "must be a JSON object" },
	};
	struct arena arena = { 0 };
	struct sample s = { 0 };
	struct error err;
	json_object *o = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (parse(&o, bad[i].text, &err) < 0) {
			/* json-c from 0.17 on refuses a number that does not fit by itself */
			assert_non_null(strstr(bad[i].text, "99999999999999999999"));
			continue;
		}
		assert_int_equal(json_read(&s, fields, o, "thing", &arena, &err), -EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s says \"%s\", not \"%s\"", bad[i].text, err.text, bad[i].says);
		json_object_put(o);
	}
	assert_int_equal(parse(&o, "{\"name\":\"ab\",\"n\":9,\"size\":\"2G\",\"i\":-1,\"flag\":true}", &err), 0);
	assert_int_equal(json_read(&s, fields, o, "thing", &arena, &err), 0);
	json_object_put(o);
	assert_string_equal(s.name, "ab");
	assert_true(s.n == 9 && s.size == UINT64_C(2) << 30 && s.i == -1 && s.flag);
	arena_done(&arena);
}

static int load_text(const char *text, struct conf *c, struct error *err)
{
	char file[] = "/tmp/velad-conf-XXXXXX";
	int fd = mkstemp(file), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
	*err = ERROR_INIT;
	r = conf_load(c, file, err);
	assert_int_equal(unlink(file), 0);
	return r;
}

static void configuration(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "[nonsense]\na = b\n", "unknown section \"nonsense\"" },
		{ "[daemon]\nsokcet = /x\n", "unknown key \"sokcet\"" },
		{ "[daemon]\nsocket = x\n", "absolute path" },
		{ "[plan]\nvfs_per_pf = 0\n", "must be 1 to 256" },
		{ "[daemon]\nkeep_seconds = 0\n", "must be 1 to 3600" },
		{ "[daemon]\nkeep_milliseconds = 20\n", "must be 50 to 60000" },
		{ "[plan]\nmemory_reserve = lots\n", "not a size" },
		{ "just words\n", ":1: neither" },
	};
	struct error err;
	struct conf c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(load_text(bad[i].text, &c, &err), -EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s says \"%s\", not \"%s\"", bad[i].text, err.text, bad[i].says);
	}
	assert_int_equal(load_text("[plan]\nvfs_per_pf = 3\n", &c, &err), 0);
	assert_int_equal(c.vfs_per_pf, 3);
	assert_string_equal(c.libvirt_uri, "qemu:///system");
	assert_true(c.nkinds > 5); /* the built-in [kinds] stay */
	conf_done(&c);
	assert_int_equal(load_text("[kinds]\ngpu = 1:2:0302\ngpu =\n", &c, &err), 0);
	assert_int_equal(c.nkinds, 2);
	assert_string_equal(c.kind[1].value, "");
	conf_done(&c);
	err = ERROR_INIT;
	assert_int_equal(conf_load(&c, "/nonexistent/velad.conf", &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/velad.conf"));
}

static void utf8(void **state)
{
	static const char *const good[] = { "", "flr bus", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2\xa0" };
	static const char *const bad[] = { "\t", "a\x7f", "\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc2\x85", "\xe2\x82" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(utf8_printable(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(utf8_printable(bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8), cmocka_unit_test(bdfs),           cmocka_unit_test(numbers),
		cmocka_unit_test(cpusets),        cmocka_unit_test(errors_grow_and_are_cut),
		cmocka_unit_test(json_is_strict), cmocka_unit_test(json_fields),
		cmocka_unit_test(configuration),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
