/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading hosts: fixtures in directories, kinds, broken input. */
#include <sys/stat.h>
#include <unistd.h>

#include "host/dump.h"
#include "host/text.h"
#include "support.h"

static char *dump_of(struct host_root *root)
{
	char *text = test_dump(root);

	host_root_close(root);
	return text;
}

/* A directory and the text host that it was unpacked from are one host. */
static void directory_equals_text(void **state)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	char dir[] = "/tmp/velad-test-XXXXXX", cmd[512], *from_dir, *from_text;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(cmd, sizeof(cmd), TEST_SOURCE "/tests/hosts/unpack " TEST_SOURCE
		       "/tests/hosts/xe9680/sys.txt %s/host", dir);
	assert_int_equal(system(cmd), 0);
	(void)snprintf(cmd, sizeof(cmd), "%s/host", dir);
	assert_int_equal(host_root_open(&root, cmd, &err), 0);
	from_dir = dump_of(root);
	assert_int_equal(host_root_open_text(&root, TEST_SOURCE "/tests/hosts/xe9680/sys.txt", &err), 0);
	from_text = dump_of(root);
	/* the directory does not know where it comes from */
	assert_string_equal(strstr(from_dir, "\nproc/"), strstr(from_text, "\nproc/"));
	free(from_dir);
	free(from_text);
	(void)snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	assert_int_equal(system(cmd), 0);
}

/* A link of a fixture that points out of it stays inside. */
static void root_cannot_be_left(void **state)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	char dir[] = "/tmp/velad-test-XXXXXX", path[128], buf[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/out", dir);
	assert_int_equal(symlink("../../../../etc/hostname", path), 0);
	assert_int_equal(host_root_open(&root, dir, &err), 0);
	assert_int_equal(host_read(root, buf, sizeof(buf), "out"), -ENOENT);
	assert_int_equal(host_read(root, buf, sizeof(buf), "../../etc/hostname"), -ENOENT);
	assert_int_equal(host_link(root, buf, sizeof(buf), "out"), 0);
	host_root_close(root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void bad_text_is_refused_by_line(void **state)
{
	static const struct test_refusal cases[] = {
		{ "", "first line" },
		{ "hello\n", "first line" },
		{ TEXT_MAGIC_LINE "a/b\n", "test:2: neither" },
		{ TEXT_MAGIC_LINE "/a\tx\n", "test:2: the path" },
		{ TEXT_MAGIC_LINE "a/../b\tx\n", "test:2: the path" },
		{ TEXT_MAGIC_LINE "a//b\tx\n", "test:2: the path" },
		{ TEXT_MAGIC_LINE "a\t\\x\n", "test:2: unknown escape" },
		{ TEXT_MAGIC_LINE "a\tx\na\ty\n", "has a twice" },
		{ TEXT_MAGIC_LINE " 000: 00\n", "test:2: a row of bytes without" },
		{ TEXT_MAGIC_LINE "a/config\tbytes 9999\n", "test:2: bytes SIZE" },
		{ TEXT_MAGIC_LINE "a/config\tbytes 16\n 000: 0\n", "test:3: a byte" },
		{ TEXT_MAGIC_LINE "a/config\tbytes 16\n 010: 00\n", "test:3: the row goes beyond" },
		{ TEXT_MAGIC_LINE "a/config\tbytes 64\n 010: 00\n 010: 00\n", "test:4: the offset" },
		{ TEXT_MAGIC_LINE "a/config\tbytes 64\n 001: 00\n", "test:3: the offset" },
	};

	(void)state;
	test_refused(cases, ARRAY_SIZE(cases));
}

/* A directory is written only where nothing shows it; "a-b" sorts between "a" and what is in it. */
static void directories_show_by_their_entries(void **state)
{
	static const struct text_entry entries[] = {
		{ .path = "a", .type = TEXT_DIR },      { .path = "a/c", .type = TEXT_FILE, .value = "1" },
		{ .path = "a-b", .type = TEXT_DIR },    { .path = "a-b/x", .type = TEXT_FILE, .value = "2" },
		{ .path = "empty", .type = TEXT_DIR },
	};
	struct text_host *t = text_host_new();
	char *text;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		assert_int_equal(text_host_add(t, &entries[i]), 0);
	text = text_host_render(t);
	assert_string_equal(text, TEXT_MAGIC_LINE "a-b/x\t2\na/c\t1\nempty/\n");
	free(text);
	text_host_free(t);
}

static void kinds_are_patterns(void **state)
{
	struct error err = ERROR_INIT;
	struct host_kinds k = { 0 };

	(void)state;
	assert_int_equal(host_kinds_add(&k, "gpu", "10de:*:0302  1002:74a1:120000", &err), 0);
	assert_int_equal(k.n, 2);
	assert_int_equal(host_kinds_match(&k, (struct host_id){ 0x10de, 0x2330, 0x030200 }), HOST_GPU);
	assert_int_equal(host_kinds_match(&k, (struct host_id){ 0x10de, 0x22a3, 0x068000 }), HOST_OTHER);
	assert_int_equal(host_kinds_match(&k, (struct host_id){ 0x1002, 0x74a1, 0x120000 }), HOST_GPU);
	assert_int_equal(host_kinds_match(&k, (struct host_id){ 0x1002, 0x74a1, 0x120001 }), HOST_OTHER);
	assert_int_equal(host_kinds_add(&k, "gpu", "", &err), 0);
	assert_int_equal(k.n, 0);
	assert_int_equal(host_kinds_add(&k, "gpu", "10de:0302", &err), -EINVAL);
	assert_non_null(strstr(err.text, "10de:0302"));
	assert_int_equal(host_kinds_add(&k, "gpu", "10de:12345:0302", &err), -EINVAL);
	assert_int_equal(host_kinds_add(&k, "dsp", "10de:*:0302", &err), -EINVAL);
}

#define FN(bdf, attrs) \
	"sys/bus/pci/devices/" bdf " -> ../../../devices/pci0000:00/" bdf "\n" attrs
#define AT(bdf, name, value) "sys/devices/pci0000:00/" bdf "/" name "\t" value "\n"

/* Missing files, names that are no functions, ids of ffff: unknown and findings, never a guess. */
static void broken_functions_stay_unknown(void **state)
{
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE
		FN("0000:00:01.0", "")
		FN("0000:00:02.0", AT("0000:00:02.0", "numa_node", "banana") AT("0000:00:02.0", "config", "bytes 4096")
		   " 000: ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff\n")
		FN("0000:00:03.0", AT("0000:00:03.0", "uevent", "PCI_ID=10DE:2330\\nPCI_CLASS=30200\\nDRIVER=nvidia")
		   AT("0000:00:03.0", "current_link_speed", "Unknown") AT("0000:00:03.0", "max_link_speed", "32.0 GT/s PCIe")
		   AT("0000:00:03.0", "current_link_width", "0") AT("0000:00:03.0", "max_link_width", "16"))
		"sys/bus/pci/devices/nonsense -> ../../../devices/x\n"
		"sys/bus/pci/devices/0000:00:04.0 -> /etc/passwd\n");
	const struct host_function *fn = topo_at(t, 0)->fn;
	const struct inventory *inv = topo_inventory(t);
	unsigned seen = 0;

	(void)state;
	assert_int_equal(topo_count(t), 4);
	assert_int_equal(fn->facts->numa_node, -1);
	assert_int_equal(fn->iommu_group, -1);
	assert_int_equal(fn->facts->cap.acs.known, HOST_UNKNOWN);
	assert_int_equal(topo_at(t, 1)->fn->facts->numa_node, -1);
	fn = topo_at(t, 2)->fn;
	assert_int_equal(fn->facts->kind, HOST_GPU);
	assert_string_equal(host_driver_of(topo_inventory(t), fn), "nvidia");
	assert_int_equal(fn->facts->link_now.speed, 0);
	assert_int_equal(fn->facts->link_cap.speed, 5);
	assert_int_equal(fn->facts->link_cap.width, 16);
	for (size_t i = 0; i < inv->nfindings; i++) {
		static const char *const ids[] = { "pci.config-unreadable", "pci.numa-unreadable", "pci.name-unknown",
						   "pci.place-unknown" };

		for (size_t k = 0; k < ARRAY_SIZE(ids); k++)
			seen |= strcmp(inv->finding[i].id, ids[k]) == 0 ? 1u << k : 0;
	}
	assert_int_equal(seen, 15);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directory_equals_text),
		cmocka_unit_test(root_cannot_be_left),    cmocka_unit_test(bad_text_is_refused_by_line),
		cmocka_unit_test(directories_show_by_their_entries),
		cmocka_unit_test(kinds_are_patterns),     cmocka_unit_test(broken_functions_stay_unknown),
	};

	return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
