/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is given back are pages of files, which come back by themselves, and nothing that this process has written. */
#include <json-c/json.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "support.h"

static long kib(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long n = -1;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
			n = atol(line + strlen(key) + 1);
	(void)fclose(f);
	assert_in_range(n, 0, 1 << 30);
	return n;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

/* Of several libraries, by tables of theirs that the dynamic linker has relocated. */
static bool works(void)
{
	json_object *o = json_tokener_parse("{\"a\": [1, 2.5, \"\\u00e4\"]}");
	int n[] = { 5, 3, 4 };
	char text[64];
	bool ok = o && strcmp(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), "{\"a\":[1,2.5,\"ä\"]}") == 0;

	json_object_put(o);
	qsort(n, 3, sizeof(*n), by_number);
	(void)snprintf(text, sizeof(text), "%d %.3f %s", n[0], 2.0 / 3, strerror(ENOENT));
	return ok && strcmp(text, "3 0.667 No such file or directory") == 0;
}

static int written = 1, *relocated = &written; /* in pages that are private */

static void pages_of_files_go_and_come_back(void **state)
{
	static const char constant[] = "in a page of a file";
	long before, anonymous;

	(void)state;
	written = 2;
	assert_true(works());
	before = kib("RssFile");
	anonymous = kib("RssAnon");
	memory_give_back();
	assert_true(kib("RssFile") < before - 256);
	assert_true(kib("RssAnon") >= anonymous / 2);
	assert_int_equal(*relocated, 2);
	assert_string_equal(constant, "in a page of a file");
	assert_true(works());
	assert_true(kib("RssFile") <= before);
}

static atomic_bool stop;
static atomic_uint rounds, failures;

static void *work(void *self)
{
	while (!stop) {
		failures += !works();
		rounds++;
	}
	return self;
}

static void others_go_on_meanwhile(void **state)
{
	pthread_t thread[3];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(thread_start(&thread[i], work, NULL), 0);
	for (unsigned i = 0; i < 100 || rounds < 1000; i++)
		memory_give_back();
	stop = true;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_of_files_go_and_come_back),
		cmocka_unit_test(others_go_on_meanwhile),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
