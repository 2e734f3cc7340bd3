/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text hosts: dumps of all hosts come back the same, config space in part, what could not be read. */
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/dump.h"
#include "host/text.h"
#include "support.h"

static struct host_root *root_of(const char *text)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;

	if (host_root_parse_text(&root, text, strlen(text), "test", &err) < 0)
		fail_msg("%s", err.text);
	return root;
}

/* Both documents, without the cost of reading, which is not the host's. */
static char *documents(struct host_root *root)
{
	struct topo *t = test_topo_of(root);
	json_object *topo = topo_json(t), *host = topo_host_json(t);
	char *text = NULL;

	json_object_object_del(host, "cost");
	assert_true(asprintf(&text, "%s\n%s\n", json_object_to_json_string(topo), json_object_to_json_string(host)) > 0);
	json_object_put(topo);
	json_object_put(host);
	topo_unref(t);
	return text;
}

static void round_trip(const char *file)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL, *back;
	char *first, *second, *was, *is;

	if (host_root_open_text(&root, file, &err) < 0)
		fail_msg("%s", err.text);
	was = documents(root);
	first = test_dump(root);
	back = root_of(first);
	is = documents(back);
	second = test_dump(back);
	if (strcmp(was, is) != 0)
		fail_msg("%s: its dump is another host", file);
	if (strcmp(first, second) != 0)
		fail_msg("%s: the dump of its dump is another text", file);
	free(first);
	free(second);
	free(was);
	free(is);
	host_root_close(root);
	host_root_close(back);
}

static void dumps_of_all_hosts_round_trip(void **state)
{
	glob_t found = { 0 };

	(void)state;
	assert_int_equal(glob(TEST_SOURCE "/tests/hosts/*/sys.txt", 0, NULL, &found), 0);
	assert_int_equal(glob(TEST_SOURCE "/tests/hosts/*/rdma_topo.json", GLOB_APPEND, NULL, &found), 0);
	assert_true(found.gl_pathc >= 5);
	for (size_t i = 0; i < found.gl_pathc; i++)
		round_trip(found.gl_pathv[i]);
	globfree(&found);
}

#define FN "sys/devices/pci0000:00/0000:00:01.0"
#define LINK "sys/bus/pci/devices/0000:00:01.0 -> ../../../devices/pci0000:00/0000:00:01.0\n"

static char *render(const char *text)
{
	struct error err = ERROR_INIT;
	struct text_host *t = NULL;
	char *out;

	if (text_host_parse(&t, text, strlen(text), "test", &err) < 0)
		fail_msg("%s", err.text);
	out = text_host_render(t);
	text_host_free(t);
	return out;
}

/* Every kind of line, in the order and the spelling that a dump has. */
static void lines_come_back_the_same(void **state)
{
	static const char text[] = TEXT_MAGIC_LINE
		"# where it comes from\n"
		"a\tone\\ttwo\\nthree\\\\\n"
		"b/config\tbytes 40\n 000: 01 02\n 020: 00 00 00 00 00 00 00 ff\n"
		"c/config\tparts 64\n 000: 01 02 03 04 -- -- -- -- 00 00 00 00\n 020: 00 00 00 00\n"
		"d ! EACCES\n"
		"e -> ../f\n"
		"g/\n";
	/* written in full: trailing bytes of a row of "bytes" are there, of "parts" only what is known */
	static const char want[] = TEXT_MAGIC_LINE
		"# where it comes from\n"
		"a\tone\\ttwo\\nthree\\\\\n"
		"b/config\tbytes 40\n 000: 01 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n 020: 00 00 00 00 00 00 00 ff\n"
		"c/config\tparts 64\n 000: 01 02 03 04 -- -- -- -- 00 00 00 00\n 020: 00 00 00 00\n"
		"d ! EACCES\n"
		"e -> ../f\n"
		"g/\n";
	char *once = render(text), *twice = render(once);

	(void)state;
	assert_string_equal(once, want);
	assert_string_equal(twice, want);
	free(once);
	free(twice);
}

/* What was not read is no zero: it is beyond what this reader can read. */
static void unread_dwords_are_unknown(void **state)
{
	struct host_root *root = root_of(TEXT_MAGIC_LINE "a/config\tparts 128\n"
					 " 000: 86 80 01 00 -- -- -- -- 00 00 00 00\n 040: 10 00 00 00\n");
	struct host_config c;
	uint32_t v = 1;

	(void)state;
	assert_int_equal(host_config_open(&c, root, "a/config"), 0);
	assert_int_equal(host_config_read(&c, 0, 1, &v), 0);
	assert_int_equal(v, 0x00018086);
	assert_int_equal(host_config_read(&c, 4, 1, &v), -ENODATA);
	assert_int_equal(host_config_read(&c, 8, 1, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(host_config_read(&c, 12, 1, &v), -ENODATA);
	assert_int_equal(host_config_read(&c, 0x40, 1, &v), 0);
	assert_int_equal(v, 0x10);
	assert_int_equal(host_config_read(&c, 0x60, 1, &v), -ENODATA);
	assert_int_equal(host_config_read(&c, 0x80, 1, &v), -ENODATA);
	host_config_close(&c);
	host_root_close(root);
}

/* An error is a fact of the host: it is kept, said at the top, and read again as the same error. */
static void errors_are_kept(void **state)
{
	struct host_root *root = root_of(TEXT_MAGIC_LINE LINK FN "/config ! EIO\n" FN "/numa_node ! EACCES\n"
					 FN "/uevent\tPCI_CLASS=30200\\nPCI_ID=10DE:2330\\nPCI_SUBSYS_ID=10DE:16C1\n"
					 "sys/devices/system/node ! EPERM\n");
	char *text = test_dump(root), buf[16];
	struct host_names names;
	struct arena arena = { 0 };

	(void)state;
	assert_int_equal(host_read(root, buf, sizeof(buf), FN "/numa_node"), -EACCES);
	assert_int_equal(host_link(root, buf, sizeof(buf), FN "/numa_node"), -EACCES);
	assert_int_equal(host_list(root, &names, &arena, "sys/devices/system/node"), -EPERM);
	assert_non_null(strstr(text, "\n" FN "/config ! EIO\n"));
	assert_non_null(strstr(text, "\n" FN "/numa_node ! EACCES\n"));
	assert_non_null(strstr(text, "\nsys/devices/system/node ! EPERM\n"));
	assert_non_null(strstr(text, "\n# not read: 3 files, links or directories;"));
	arena_done(&arena);
	free(text);
	host_root_close(root);
}

/* A dump of this host leads to the same documents, with this text in them. */
static void dump_says(const char *all, const char *needle)
{
	struct host_root *root = root_of(all), *back;
	char *text = test_dump(root), *was = documents(root), *is;

	back = root_of(text);
	is = documents(back);
	assert_string_equal(was, is);
	assert_non_null(strstr(is, needle));
	free(text), free(was), free(is);
	host_root_close(root);
	host_root_close(back);
}

/* What is too long for its reader is so for the reader of the dump (found by fuzz_text). */
static void what_is_cut_stays_cut(void **state)
{
	char all[1024];

	(void)state;
	(void)snprintf(all, sizeof(all), TEXT_MAGIC_LINE LINK FN "/uevent\tPCI_CLASS=30200\\nPCI_ID=10DE:2330\n" FN
		       "/reset_method\t%0600d\n", 7);
	dump_says(all, "cannot use its reset_method: File too large");
}

/* A file or a directory where a link should be (found by fuzz_text). */
static void what_is_no_link_is_kept(void **state)
{
	(void)state;
	dump_says(TEXT_MAGIC_LINE LINK FN "/driver\tmlx5_core\n", "cannot use its driver");
	dump_says(TEXT_MAGIC_LINE LINK FN "/driver/\n", "cannot use its driver");
	dump_says(TEXT_MAGIC_LINE LINK FN "/driver/x\ty\n", "cannot use its driver");
}

static void put(const char *dir, const char *path, const void *bytes, size_t n)
{
	char name[512];
	FILE *f;

	(void)snprintf(name, sizeof(name), "%s/%s", dir, path);
	f = fopen(name, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* Files that a directory lists count, also those that nobody reads: here a name that is no function. */
static void listed_files_are_kept(void **state)
{
	struct host_root *root = root_of(TEXT_MAGIC_LINE LINK "sys/bus/pci/devices/README\tsecret\n"), *back;
	char *text = test_dump(root), *was = documents(root), *is, buf[16];

	(void)state;
	assert_non_null(strstr(text, "\nsys/bus/pci/devices/README ! ENODATA\n"));
	assert_null(strstr(text, "secret"));
	assert_null(strstr(text, "# not read"));
	back = root_of(text);
	is = documents(back);
	assert_string_equal(was, is);
	assert_non_null(strstr(is, "README"));
	assert_int_equal(host_read(back, buf, sizeof(buf), "sys/bus/pci/devices/README"), -ENODATA);
	free(text), free(was), free(is);
	host_root_close(root);
	host_root_close(back);
}

/* A directory as a user without rights sees it: config space ends after its header. VPD and VFs' are left alone. */
static void a_dump_says_what_it_lacks(void **state)
{
	uint8_t config[256] = { 0x86, 0x80, 1, 0, 6, 0, 0x10, 0, 1, 0, 0x04, 0x06, [0x0e] = 1, [0x34] = 0x60,
				[0x60] = 0x05, 0, 0x77 };
	char dir[] = "/tmp/velad-test-XXXXXX", cmd[512], *text;
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(cmd, sizeof(cmd), "cd %s && mkdir -p sys/bus/pci/devices " FN " && ln -s "
		       "../../../devices/pci0000:00/0000:00:01.0 sys/bus/pci/devices/", dir);
	assert_int_equal(system(cmd), 0);
	put(dir, FN "/vpd", "SECRET", 6);
	put(dir, FN "/config", config, 64);
	assert_int_equal(host_root_open(&root, dir, &err), 0);
	text = test_dump(root);
	assert_non_null(strstr(text, "\n" FN "/config\tparts 64\n 000: 86 80 01 00 06 00 10 00 01 00 04 06 00 00 01 00\n"));
	assert_non_null(strstr(text, "\n# not read: capabilities of 1 of 1 functions:"));
	assert_null(strstr(text, "SECRET"));
	free(text);

	put(dir, FN "/config", config, 256); /* as root: the header and the capability's first dword, not its rest */
	text = test_dump(root);
	assert_non_null(strstr(text, "/config\tparts 256\n"));
	assert_non_null(strstr(text, "\n 060: 05 00 77 00\n"));
	assert_null(strstr(text, "not read"));
	free(text);
	host_root_close(root);
	(void)snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	assert_int_equal(system(cmd), 0);
}

/* Readings of one config space are put together, and the last of two files counts. */
static void twice_recorded(void **state)
{
	uint8_t one[8] = { 1, 2, 3, 4 }, two[8] = { 0, 0, 0, 0, 5, 6, 7, 8 }, first = 1, second = 2;
	const struct text_entry entry[] = {
		{ .path = "a/config", .type = TEXT_BYTES, .bytes = one, .len = 8, .known = &first },
		{ .path = "b", .type = TEXT_FILE, .value = "old" },
		{ .path = "a/config", .type = TEXT_BYTES, .bytes = two, .len = 8, .known = &second },
		{ .path = "b", .type = TEXT_FILE, .value = "new" },
		{ .path = "bad\nline", .type = TEXT_FILE, .value = "x" }, /* what the format cannot say */
		{ .path = "c -> d", .type = TEXT_DIR },
		{ .path = "e", .type = TEXT_LINK, .value = "f\ng" },
		{ .path = "# h", .type = TEXT_FILE, .value = "x" },
	};
	struct text_host *t = text_host_new();
	char *text;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(entry); i++)
		assert_int_equal(text_host_add(t, &entry[i]), 0);
	text = text_host_render(t);
	assert_string_equal(text, TEXT_MAGIC_LINE "a/config\tparts 8\n 000: 01 02 03 04 05 06 07 08\nb\tnew\n");
	free(text);
	text_host_free(t);
}

static void bad_parts_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "a/config\tparts 6\n", "test:2: parts SIZE must be a multiple of 4" },
		{ "a/config\tparts 4100\n", "test:2: bytes SIZE" },
		{ "a/config\tparts 16\n 000: 01 --\n", "test:3: of each four bytes" },
		{ "a/config\tparts 16\n 000: 01 02 03 04 05\n", "test:3: of each four bytes" },
		{ "a/config\tparts 16\n 000: 01 02 -- 04\n", "test:3: of each four bytes" },
		{ "a/config\tbytes 16\n 000: -- -- -- --\n", "test:3: a byte" },
		{ "a/config\tparts 16\n 000: -\n", "test:3: a byte" },
		{ "a ! \n", "test:2: after \" ! \"" },
		{ "a ! EWHAT\n", "test:2: after \" ! \"" },
		{ "a/ ! EIO\n", "test:2: the path" },
		{ "a -> \n", "test:2: neither" },
		{ "a -> ../b\tx\n", "test:2: a path cannot have" },
		{ "a ! b/c\tx\n", "test:2: a path cannot have" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		struct text_host *t = NULL;
		char *text = NULL;

		assert_true(asprintf(&text, TEXT_MAGIC_LINE "%s", cases[i].text) > 0);
		assert_int_equal(text_host_parse(&t, text, strlen(text), "test", &err), -EINVAL);
		if (!strstr(err.text, cases[i].says))
			fail_msg("case %zu says \"%s\", not \"%s\"", i, err.text, cases[i].says);
		free(text);
	}
}

/* 131,072 functions' config space is the limit: a small file must not ask for more. */
static void config_space_is_limited(void **state)
{
	struct error err = ERROR_INIT;
	struct text_host *t = NULL;
	size_t size = 5u << 20, n = 0;
	char *text = malloc(size);

	(void)state;
	assert_non_null(text);
	n += (size_t)snprintf(text, size, TEXT_MAGIC_LINE);
	for (unsigned i = 0; i <= 131072; i++)
		n += (size_t)snprintf(text + n, size - n, "%u/config\tbytes 1\n", i);
	assert_int_equal(text_host_parse(&t, text, n, "test", &err), -EINVAL);
	assert_string_equal(err.text, "test:131074: more config space than 131,072 functions have");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dumps_of_all_hosts_round_trip), cmocka_unit_test(lines_come_back_the_same),
		cmocka_unit_test(unread_dwords_are_unknown),     cmocka_unit_test(errors_are_kept),
		cmocka_unit_test(listed_files_are_kept), cmocka_unit_test(what_is_no_link_is_kept), cmocka_unit_test(what_is_cut_stays_cut),
		cmocka_unit_test(a_dump_says_what_it_lacks),     cmocka_unit_test(twice_recorded),
		cmocka_unit_test(bad_parts_are_refused),         cmocka_unit_test(config_space_is_limited),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
