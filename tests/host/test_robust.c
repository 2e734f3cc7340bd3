/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hosts that are broken in every way a file can be: each an unknown or a finding, never a guess or a crash. */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sbuf.h"
#include "support.h"

#define LINK(bdf) "sys/bus/pci/devices/" bdf " -> ../../../devices/pci0000:00/" bdf "\n"
#define AT(bdf, name, value) "sys/devices/pci0000:00/" bdf "/" name "\t" value "\n"
#define NIC(bdf) LINK(bdf) AT(bdf, "uevent", "PCI_CLASS=20000\\nPCI_ID=15B3:1021")
#define A "0000:00:01.0"

static const struct host_facts *first(const struct topo *t)
{
	return topo_at(t, 0)->fn->facts;
}

static unsigned findings(const struct topo *t, const char *id, const char *text)
{
	const struct inventory *inv = topo_inventory(t);
	unsigned n = 0;

	for (size_t i = 0; i < inv->nfindings; i++)
		n += strcmp(inv->finding[i].id, id) == 0 && strstr(inv->finding[i].text, text);
	return n;
}

static json_object *node_json(struct topo *t, json_object **doc)
{
	*doc = topo_json(t);
	return json_object_array_get_idx(json_object_object_get(*doc, "nodes"), 0);
}

static void ids_that_are_none(void **state)
{
	static const char *const uevent[] = { "", "PCI_CLASS=1000000\\nPCI_ID=0:0", "PCI_CLASS=\\nPCI_ID=10DE",
					      "PCI_CLASS=zz\\nPCI_ID=10DE:23301" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(uevent); i++) {
		char text[1024];
		json_object *doc, *node;
		struct topo *t;

		(void)snprintf(text, sizeof(text), TEXT_MAGIC_LINE LINK(A) AT(A, "uevent", "%s") AT(A, "class", "0x1000000"),
			       uevent[i]);
		t = test_topo_text(text);
		assert_int_equal(first(t)->class, HOST_CLASS_UNKNOWN);
		assert_int_equal(first(t)->kind, HOST_OTHER);
		assert_int_equal(findings(t, "pci.ids-unknown", ""), 1);
		node = node_json(t, &doc);
		assert_null(json_object_object_get(node, "id"));
		assert_null(json_object_object_get(node, "class"));
		assert_null(json_object_object_get(node, "bars"));
		assert_null(json_object_object_get(node, "revision"));
		json_object_put(doc);
		topo_unref(t);
	}
}

static void numbers_that_overflow(void **state)
{
	static const struct {
		const char *name, *value;
	} bad[] = { { "sriov_numvfs", "65536" }, { "sriov_numvfs", "-1" }, { "sriov_numvfs", "18446744073709551616" },
		    { "sriov_numvfs", "" }, { "d3cold_allowed", "2" }, { "current_link_width", "256" },
		    { "resource", "0x5000 0x4000 0x200" }, { "resource", "0x10000000000000000 0x1 0x200" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char text[1024];
		struct topo *t;

		(void)snprintf(text, sizeof(text), TEXT_MAGIC_LINE NIC(A) AT(A, "%s", "%s"), bad[i].name, bad[i].value);
		t = test_topo_text(text);
		assert_false(first(t)->numvfs_known || first(t)->bars_known);
		assert_int_equal(first(t)->d3cold_allowed, -1);
		assert_int_equal(first(t)->link_now.width, 0);
		assert_int_equal(findings(t, "pci.attr-unreadable", bad[i].name), 1);
		topo_unref(t);
	}
}

/* What the kernel says where it does not know: no finding, but unknown. */
static void words_for_unknown(void **state)
{
	static const unsigned width[] = { 0, 63, 255 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(width); i++) {
		char text[1024];
		json_object *doc, *power;
		struct topo *t;

		(void)snprintf(text, sizeof(text), TEXT_MAGIC_LINE NIC(A) AT(A, "current_link_speed", "Unknown")
			       AT(A, "current_link_width", "%u") AT(A, "power_state", "unknown"), width[i]);
		t = test_topo_text(text);
		assert_int_equal(first(t)->link_now.speed, 0);
		assert_int_equal(first(t)->link_now.width, 0);
		assert_null(first(t)->power_state);
		assert_int_equal(findings(t, "pci.attr-unreadable", ""), 0);
		power = json_object_object_get(node_json(t, &doc), "power");
		assert_true(json_object_object_get_ex(power, "state", NULL));
		assert_null(json_object_object_get(power, "state"));
		json_object_put(doc);
		topo_unref(t);
	}
}

static void what_sleeps_is_said(void **state)
{
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE NIC(A) AT(A, "power_state", "D3cold")
					AT(A, "power/runtime_status", "suspended") AT(A, "d3cold_allowed", "1")
					AT(A, "config", "bytes 64") " 000: ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff\n");

	(void)state;
	assert_string_equal(first(t)->power_state, "D3cold");
	assert_string_equal(first(t)->runtime_status, "suspended");
	assert_int_equal(first(t)->d3cold_allowed, 1);
	assert_int_equal(findings(t, "pci.config-dead", "sleeps in D3cold"), 1);
	topo_unref(t);
}

/* Who may not sleep by itself is not asked how deep; an answer that there is none of is not known. */
static void who_may_sleep(void **state)
{
	static const struct {
		const char *control, *is;
		int         d3cold;
	} cases[] = { { "on", "on", -1 }, { "auto", "auto", 0 }, { "perhaps", NULL, 0 }, { "", NULL, 0 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[1024];
		struct topo *t;

		(void)snprintf(text, sizeof(text), TEXT_MAGIC_LINE NIC(A) AT(A, "d3cold_allowed", "0") AT(A, "power/control", "%s"),
			       cases[i].control);
		t = test_topo_text(text);
		if (cases[i].is)
			assert_string_equal(first(t)->power_control, cases[i].is);
		else
			assert_null(first(t)->power_control);
		assert_int_equal(first(t)->d3cold_allowed, cases[i].d3cold);
		topo_unref(t);
	}
}

/* SR-IOV numbers with which no sum is possible: every VF keeps what its own links say. */
static void senseless_sriov(void **state)
{
	static const struct {
		unsigned total, offset, stride;
	} n[] = { { 0, 1, 1 }, { 2, 1, 0 }, { 2, 0, 1 }, { 2, 0xffff, 1 }, { 2, 1, 0xffff }, { 0xffff, 0xffff, 0xffff } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
		char text[4096];
		struct topo *t;

		(void)snprintf(text, sizeof(text), TEXT_MAGIC_LINE NIC(A) AT(A, "sriov_numvfs", "2") AT(A, "sriov_totalvfs", "%u")
			       AT(A, "sriov_offset", "%u") AT(A, "sriov_stride", "%u")
			       "sys/devices/pci0000:00/" A "/virtfn0 -> ../0000:00:01.1\n"
			       "sys/devices/pci0000:00/" A "/virtfn1 -> ../0000:00:01.2\n"
			       NIC("0000:00:01.1") "sys/devices/pci0000:00/0000:00:01.1/physfn -> ../" A "\n"
			       NIC("0000:00:01.2") "sys/devices/pci0000:00/0000:00:01.2/physfn -> ../" A "\n",
			       n[i].total, n[i].offset, n[i].stride);
		t = test_topo_text(text);
		for (uint32_t k = 1; k <= 2; k++) {
			assert_int_equal(topo_at(t, k)->fn->facts->kind, HOST_VF);
			assert_int_equal(topo_at(t, k)->fn->vf_index, k - 1);
		}
		assert_null(first(t)->vf_bar);
		topo_unref(t);
	}
}

/* A physfn that is no link may mean a VF. It is no NIC that VFs could be taken from. */
static void perhaps_a_vf(void **state)
{
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE NIC(A) AT(A, "physfn", "0000:00:00.0"));

	(void)state;
	assert_false(first(t)->is_vf);
	assert_int_equal(first(t)->kind, HOST_OTHER);
	assert_int_equal(findings(t, "pci.attr-unreadable", "physfn"), 1);
	topo_unref(t);
}

static void domains_above_ffff(void **state)
{
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE
		"sys/bus/pci/devices/10000:e0:01.0 -> ../../../devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0\n"
		"sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/uevent\tPCI_CLASS=60400\\nPCI_ID=8086:2030\n"
		"sys/bus/pci/devices/ffff0001:00:00.0 -> ../../../devices/pciffff0001:00/ffff0001:00:00.0\n"
		"sys/devices/pciffff0001:00/ffff0001:00:00.0/uevent\tPCI_CLASS=20000\\nPCI_ID=15B3:1016\n"
		"sys/bus/pci/devices/100000000:00:00.0 -> ../../../devices/pci0000:00/x\n");

	(void)state;
	assert_int_equal(topo_count(t), 2);
	assert_string_equal(first(t)->root_bus, "pci10000:e0");
	assert_true(bdf_is_none(first(t)->parent));
	assert_int_equal(topo_at(t, 1)->fn->bdf.domain, 0xffff0001);
	assert_int_equal(topo_at(t, 1)->fn->facts->kind, HOST_NIC);
	assert_int_equal(findings(t, "pci.name-unknown", "100000000:00:00.0"), 1);
	topo_unref(t);
}

static void gpus_are_no_displays_of_cpus(void **state)
{
	struct host_kinds k = test_kinds();
	static const struct {
		struct host_id id;
		enum host_kind kind;
	} ids[] = {
		{ { 0x10de, 0x2330, 0x030200 }, HOST_GPU },   { { 0x10de, 0x2204, 0x030000 }, HOST_GPU },
		{ { 0x10de, 0x1aef, 0x040300 }, HOST_OTHER }, { { 0x10de, 0x22a3, 0x068000 }, HOST_NVSWITCH },
		{ { 0x1002, 0x74a1, 0x120000 }, HOST_GPU },   { { 0x1002, 0x74b5, 0x120000 }, HOST_GPU },
		{ { 0x1002, 0x740f, 0x038000 }, HOST_GPU },   { { 0x1002, 0x73a3, 0x030000 }, HOST_GPU },
		{ { 0x1002, 0x164e, 0x030000 }, HOST_OTHER }, /* the graphics of a Ryzen 7000 */
		{ { 0x8086, 0x56c0, 0x038000 }, HOST_GPU },   { { 0x8086, 0x4680, 0x030000 }, HOST_OTHER },
		{ { 0x1a03, 0x2000, 0x030000 }, HOST_OTHER }, { { 0x102b, 0x0536, 0x030000 }, HOST_OTHER },
		{ { 0x15b3, 0x1021, 0x020700 }, HOST_NIC },   { { 0x15b3, 0x2100, 0x020700 }, HOST_DATA_DIRECT },
		{ { 0x15b3, 0xc2d5, 0x080100 }, HOST_OTHER }, { { 0x14e4, 0x165f, 0x020000 }, HOST_OTHER },
		{ { 0x14e4, 0x1760, 0x020000 }, HOST_NIC },   { { 0x8086, 0x1593, 0x020000 }, HOST_NIC },
		{ { 0x1d0f, 0xefa1, 0x020000 }, HOST_NIC },   { { 0x1414, 0x00ba, 0x020000 }, HOST_NIC },
		{ { 0x1dd8, 0x1002, 0x020000 }, HOST_NIC },   { { 0x144d, 0xa80a, 0x010802 }, HOST_NVME },
		{ { 0x10de, 0x2330, HOST_CLASS_UNKNOWN }, HOST_OTHER },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (host_kinds_match(&k, ids[i].id) != ids[i].kind)
			fail_msg("%04x:%04x is %s", ids[i].id.vendor, ids[i].id.device,
				 host_kind_text(host_kinds_match(&k, ids[i].id)));
}

static void companions_stay_with_their_gpu(void **state)
{
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE
		LINK("0000:00:01.0") AT("0000:00:01.0", "uevent", "PCI_CLASS=30000\\nPCI_ID=10DE:2204")
		LINK("0000:00:01.1") AT("0000:00:01.1", "uevent", "PCI_CLASS=40300\\nPCI_ID=10DE:1AEF")
		LINK("0000:00:02.1") AT("0000:00:02.1", "uevent", "PCI_CLASS=40300\\nPCI_ID=10DE:1AEF"));
	const struct inventory *inv = topo_inventory(t);

	(void)state;
	assert_null(host_companion_of(inv, &inv->fn[0]));
	assert_ptr_equal(host_companion_of(inv, &inv->fn[1]), &inv->fn[0]);
	assert_null(host_companion_of(inv, &inv->fn[2]));
	topo_unref(t);
}

/* ---- directories -------------------------------------------------------------------------------- */

#define UEVENT "printf 'PCI_CLASS=20000\\nPCI_ID=15B3:1021\\n' >sys/devices/pci0000:00/" A "/uevent"

static void shell(const char *dir, const char *command)
{
	char cmd[2048];

	(void)snprintf(cmd, sizeof(cmd), "cd %s && %s", dir, command);
	assert_int_equal(system(cmd), 0);
}

/* Each file and link of a function is a directory, each in turn; then each is a link into nothing. */
static void wrong_types(void **state)
{
	static const char *const names[] = { "uevent", "numa_node", "power_state", "config", "driver_override", "resource",
					     "reset_method", "physfn", "iommu_group" };
	struct error err = ERROR_INIT;
	char dir[] = "/tmp/velad-test-XXXXXX", path[256];

	(void)state;
	assert_non_null(mkdtemp(dir));
	shell(dir, "mkdir -p sys/bus/pci/devices sys/devices/pci0000:00/" A " && "
	      "ln -s ../../../devices/pci0000:00/" A " sys/bus/pci/devices/ && " UEVENT);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(names); i++) {
		const char *name = names[i / 2];
		struct host_root *root = NULL;
		struct topo *t;
		bool gone = i % 2; /* a link into nothing is no file: as if it were not there */

		(void)snprintf(path, sizeof(path), "%s/sys/devices/pci0000:00/" A "/%s", dir, name);
		(void)unlink(path);
		assert_int_equal(gone ? symlink("nothing", path) : mkdir(path, 0755), 0);
		assert_int_equal(host_root_open(&root, dir, &err), 0);
		t = test_topo_of(root);
		host_root_close(root);
		assert_int_equal(topo_count(t), 1);
		assert_int_equal(topo_at(t, 0)->fn->iommu_group, -1);
		assert_int_equal(first(t)->numa_node, -1);
		assert_false(first(t)->bars_known || first(t)->cap.readable || first(t)->is_vf);
		if (!gone || strcmp(name, "physfn") == 0 || strcmp(name, "iommu_group") == 0)
			assert_true(findings(t, strcmp(name, "config") == 0 ? "pci.config-unreadable" :
					     strcmp(name, "numa_node") == 0 ? "pci.numa-unreadable" :
					     strcmp(name, "iommu_group") == 0 ? "pci.group-unreadable" :
					     "pci.attr-unreadable", "") > 0);
		if (!gone && strcmp(name, "reset_method") == 0)
			assert_null(first(t)->reset_methods);
		topo_unref(t);
		assert_int_equal(gone ? unlink(path) : rmdir(path), 0);
		if (strcmp(name, "uevent") == 0)
			shell(dir, UEVENT);
	}
	(void)snprintf(path, sizeof(path), "rm -r %s", dir);
	shell("/", path);
}

/* As many functions as one domain can have, each its own driver up to the limit: it ends, in bounded memory. */
static void a_domain_full_of_functions(void **state)
{
	struct sbuf text = { 0 };
	struct timespec from, to;
	struct topo *t;

	(void)state;
	sbuf_add(&text, TEXT_MAGIC_LINE);
	for (unsigned i = 0; i < 65536; i++) {
		char bdf[16];

		(void)snprintf(bdf, sizeof(bdf), "0000:%02x:%02x.%x", i >> 8, i >> 3 & 31, i & 7);
		sbuf_addf(&text, "sys/bus/pci/devices/%s -> ../../../devices/pci0000:00/%s\n"
			  "sys/devices/pci0000:00/%s/uevent\tDRIVER=d%u\\nPCI_CLASS=88000\\nPCI_ID=8086:3250\n", bdf, bdf, bdf,
			  i % 4000);
	}
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	t = test_topo_text(text.text);
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	assert_int_equal(topo_count(t), 65536);
	assert_true(topo_inventory(t)->nfindings <= 4096);
	print_message("65536 functions: %ld ms\n", (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
	assert_true(to.tv_sec - from.tv_sec < 60); /* sanitizers and valgrind included */
	topo_unref(t);
	sbuf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_that_are_none),	 cmocka_unit_test(numbers_that_overflow),
		cmocka_unit_test(words_for_unknown),	 cmocka_unit_test(what_sleeps_is_said),
		cmocka_unit_test(senseless_sriov),	 cmocka_unit_test(perhaps_a_vf),
		cmocka_unit_test(domains_above_ffff),	 cmocka_unit_test(gpus_are_no_displays_of_cpus),
		cmocka_unit_test(wrong_types),		 cmocka_unit_test(companions_stay_with_their_gpu),
		cmocka_unit_test(a_domain_full_of_functions), cmocka_unit_test(who_may_sleep),
	};

	return cmocka_run_group_tests_name("robust", tests, NULL, NULL);
}
