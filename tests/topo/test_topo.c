/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The topology of real machines: kinds, parents, path classes; and hostile trees. */
#include "base/file.h"
#include "support.h"

static unsigned count(const struct topo *t, enum host_kind k)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++)
		n += topo_at(t, i)->fn->facts->kind == k;
	return n;
}

static void xe9680_has_its_parts(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	const struct host_function *gpu = topo_at(t, test_at(t, "0000:4c:00.0"))->fn;
	const struct host_function *dsp = topo_at(t, test_at(t, "0000:4a:01.0"))->fn;

	(void)state;
	assert_int_equal(topo_count(t), 102);
	assert_int_equal(count(t, HOST_GPU), 8);
	assert_int_equal(count(t, HOST_NIC), 12); /* 8 ConnectX-7 and 2 dual-port ConnectX-6 Dx */
	assert_int_equal(count(t, HOST_NVSWITCH), 4);
	assert_int_equal(count(t, HOST_NVME), 8);
	assert_int_equal(count(t, HOST_USP), 9);
	assert_int_equal(gpu->facts->numa_node, 0);
	assert_string_equal(host_driver_of(topo_inventory(t), gpu), "nvidia");
	assert_int_equal(gpu->facts->link_now.speed, 5);
	assert_int_equal(gpu->facts->link_now.width, 16);
	assert_int_equal(gpu->facts->cap.sriov.total, 32);
	assert_int_equal(gpu->facts->cap.ats.known, HOST_ABSENT);
	assert_true(gpu->iommu_group >= 0);
	assert_int_equal(dsp->facts->cap.acs.cap, 0x5f);
	assert_int_equal(dsp->facts->cap.acs.ctl, 0x1d);
	assert_true(bdf_eq(gpu->facts->parent, dsp->bdf));
	assert_int_equal(topo_inventory(t)->nfindings, 0);
	topo_unref(t);
}

static void xe9680_without_iommu_has_no_groups(void **state)
{
	struct topo *t = test_topo_host("xe9680-iommu-off");

	(void)state;
	for (uint32_t i = 0; i < topo_count(t); i++)
		assert_int_equal(topo_at(t, i)->fn->iommu_group, -1);
	assert_int_equal(topo_inventory(t)->iommu, HOST_ABSENT);
	assert_int_equal(topo_inventory(t)->iommu_units, 0);
	topo_unref(t);
}

static void expect_groups(const struct topo *t)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		int group = topo_at(t, i)->fn->iommu_group;
		uint32_t k = topo_at(t, i)->group_first;

		for (uint32_t o = 0; group >= 0 && o < topo_count(t); o++)
			if (topo_at(t, o)->fn->iommu_group == group) {
				assert_int_equal(k, o);
				k = topo_at(t, k)->group_next;
			}
		assert_int_equal(k, TOPO_NONE);
	}
}

static void groups_have_their_functions(void **state)
{
	static const char *const hosts[] = { "xe9680", "xe9680-iommu-off", "consumer-no-acs", "hpe-gen9-sriov", "lab" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		struct topo *t = test_topo_host(hosts[i]);

		expect_groups(t);
		topo_unref(t);
	}
}

static void path_classes(void **state)
{
	static const struct {
		const char     *a, *b;
		enum topo_class want;
	} cases[] = {
		{ "0000:4c:00.0", "0000:4c:00.0", TOPO_SELF },
		{ "0000:4c:00.0", "0000:4d:00.0", TOPO_PIX },  /* GPU and ConnectX-7 of one PEX switch */
		{ "0000:1b:00.0", "0000:1b:00.1", TOPO_PIX },  /* two functions of one device */
		{ "0000:4a:01.0", "0000:4c:00.0", TOPO_PIX },  /* a port and what is below it */
		{ "0000:4c:00.0", "0000:5d:00.0", TOPO_NODE }, /* two host bridges of node 0 */
		{ "0000:4c:00.0", "0000:9b:00.0", TOPO_SYS },
		{ "0000:01:00.0", "0000:02:00.0", TOPO_PHB },  /* two root ports of one host bridge */
	};
	struct topo *t = test_topo_host("xe9680");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t a = test_at(t, cases[i].a), b = test_at(t, cases[i].b);

		assert_string_equal(topo_class_text(topo_path(t, a, b)), topo_class_text(cases[i].want));
		assert_int_equal(topo_path(t, b, a), cases[i].want);
	}
	topo_unref(t);
}

#define DEV(chain, bdf, extra)                                                          \
	"sys/bus/pci/devices/" bdf " -> ../../../devices/" chain bdf "\n"               \
	"sys/devices/" chain bdf "/uevent\tPCI_CLASS=60400\\nPCI_ID=1234:5678\n" extra

static void hostile_trees_end(void **state)
{
	/* 02 says it is below 01, 01 says it is below 02; 03's parent is not there */
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE
		DEV("pci0000:00/0000:02:00.0/", "0000:01:00.0", "")
		DEV("pci0000:00/0000:01:00.0/", "0000:02:00.0", "")
		DEV("pci0000:00/0000:09:00.0/", "0000:03:00.0", ""));
	const struct inventory *inv = topo_inventory(t);
	bool loop = false, missing = false;

	(void)state;
	for (size_t i = 0; i < inv->nfindings; i++) {
		loop = loop || strcmp(inv->finding[i].id, "topo.parent-loop") == 0;
		missing = missing || strcmp(inv->finding[i].id, "topo.parent-missing") == 0;
	}
	assert_true(loop && missing);
	assert_int_equal(topo_count(t), 3);
	topo_unref(t);
}

/* Intel's host bridge 8086:2f00: its PCIe capability says root port, its header is of type 0. */
static void a_port_has_a_bridge_header(void **state)
{
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE
		DEV("pci0000:00/", "0000:00:00.0", "sys/devices/pci0000:00/0000:00:00.0/config\tbytes 256\n"
			" 000: 86 80 00 2f 00 00 10 00 02 00 00 06\n 030: 00 00 00 00 40\n 040: 10 00 42 00\n")
		DEV("pci0000:00/0000:00:00.0/", "0000:01:00.0", "")
		DEV("pci0000:00/", "0000:00:01.0", "sys/devices/pci0000:00/0000:00:01.0/config\tbytes 256\n"
			" 000: 86 80 02 2f 00 00 10 00 02 00 04 06 00 00 01\n 030: 00 00 00 00 40\n 040: 10 00 42 00\n")
		DEV("pci0000:00/0000:00:01.0/", "0000:02:00.0", ""));
	const struct inventory *inv = topo_inventory(t);
	const struct topo_node *bridge = topo_at(t, test_at(t, "0000:00:00.0"));
	unsigned found = 0;

	(void)state;
	assert_int_equal(bridge->fn->facts->cap.type, PCICAP_ROOT_PORT);
	assert_int_equal(bridge->fn->facts->kind, HOST_OTHER);
	assert_int_equal(bridge->first_child, TOPO_NONE);
	assert_int_equal(topo_at(t, test_at(t, "0000:01:00.0"))->parent, TOPO_NONE);
	assert_int_equal(topo_at(t, test_at(t, "0000:00:01.0"))->fn->facts->kind, HOST_ROOT_PORT);
	assert_int_equal(topo_at(t, test_at(t, "0000:02:00.0"))->parent, test_at(t, "0000:00:01.0"));
	for (size_t i = 0; i < inv->nfindings; i++)
		found += strcmp(inv->finding[i].id, "topo.parent-no-bridge") == 0 &&
			 bdf_eq(inv->finding[i].bdf, test_bdf("0000:01:00.0"));
	assert_int_equal(found, 1);
	topo_unref(t);
}

static void unknown_numa_is_unknown(void **state)
{
	struct topo *t = test_topo_text(TEXT_MAGIC_LINE
		DEV("pci0000:00/", "0000:00:01.0", "")
		DEV("pci0000:40/", "0000:40:01.0", "")
		"sys/devices/system/node/node0/cpulist\t0\n"
		"sys/devices/system/node/node1/cpulist\t1\n");
	struct topo *one = test_topo_text(TEXT_MAGIC_LINE
		DEV("pci0000:00/", "0000:00:01.0", "")
		DEV("pci0000:40/", "0000:40:01.0", "")
		"sys/devices/system/node/node0/cpulist\t0-1\n");

	(void)state;
	assert_int_equal(topo_path(t, 0, 1), TOPO_UNKNOWN);
	assert_int_equal(topo_path(one, 0, 1), TOPO_NODE);
	topo_unref(t);
	topo_unref(one);
}

/* What an ordinary user can read: no config space beyond its header. The path classes are the same. */
static void paths_without_config(void **state)
{
	static const char *const hosts[] = { "xe9680", "lab" };

	(void)state;
	for (size_t h = 0; h < ARRAY_SIZE(hosts); h++) {
		char path[300], *text = NULL, *out;
		struct topo *full = test_topo_host(hosts[h]), *bare;
		size_t len = 0, n = 0;

		(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", hosts[h]);
		assert_int_equal(file_read(&text, &len, path, 1 << 24), 0);
		out = calloc(1, len + 1);
		for (char *line, *rest = text; (line = strsep(&rest, "\n"));)
			if (*line != ' ' && !strstr(line, "/config\t"))
				n += (size_t)sprintf(out + n, "%s\n", line);
		bare = test_topo_text(out);
		for (uint32_t a = 0; a < topo_count(full); a++)
			for (uint32_t b = 0; b < topo_count(full); b++)
				if (topo_path(full, a, b) != topo_path(bare, a, b))
					fail_msg("%s: node %u to %u is %s, without config %s", hosts[h], a, b,
						 topo_class_text(topo_path(full, a, b)), topo_class_text(topo_path(bare, a, b)));
		assert_int_equal(topo_at(bare, test_at(bare, hosts[h][0] == 'l' ? "0000:22:00.0" : "0000:17:01.0"))->fn->facts->cap.acs.known,
				 HOST_UNKNOWN);
		free(out);
		free(text);
		topo_unref(full);
		topo_unref(bare);
	}
}

static void json_has_the_contract(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	json_object *o = topo_json(t), *nodes, *n, *v, *m;
	static const char *const keys[] = { "bdf", "kind", "parent", "numa_node", "iommu_group", "driver" };

	(void)state;
	assert_non_null(o);
	assert_true(json_object_object_get_ex(o, "generation", &v));
	assert_true(json_object_object_get_ex(o, "nodes", &nodes));
	assert_int_equal(json_object_array_length(nodes), 102);
	n = json_object_array_get_idx(nodes, test_at(t, "0000:4c:00.0"));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_true(json_object_object_get_ex(n, keys[i], &v));
	json_object_object_get_ex(n, "kind", &v);
	assert_string_equal(json_object_get_string(v), "gpu");
	assert_true(json_object_object_get_ex(o, "matrix", &m));
	json_object_object_get_ex(m, "devices", &v);
	assert_int_equal(json_object_array_length(v), 32);
	json_object_put(o);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xe9680_has_its_parts),   cmocka_unit_test(xe9680_without_iommu_has_no_groups),
		cmocka_unit_test(groups_have_their_functions),
		cmocka_unit_test(path_classes),           cmocka_unit_test(hostile_trees_end),
		cmocka_unit_test(a_port_has_a_bridge_header),
		cmocka_unit_test(unknown_numa_is_unknown), cmocka_unit_test(json_has_the_contract),
		cmocka_unit_test(paths_without_config),
	};

	return cmocka_run_group_tests_name("topo", tests, NULL, NULL);
}
