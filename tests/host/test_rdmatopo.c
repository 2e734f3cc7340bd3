/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Dumps of rdma_topo: what is in them is the host's, what is not stays unknown, bad ones are refused by place. */
#include "host/rdmatopo.h"
#include "host/text.h"
#include "support.h"

#define FILE_OF TEST_SOURCE "/tests/hosts/rdma-topo-direct-nic/rdma_topo.json"
#define CONFIG "eJxjYGBgAAAABAAB" /* four zeros */
#define MODALIAS "pci:v000015B3d00001023sv000015B3sd00000001bc02sc00i00"
#define REAL(bdf) "/sys/devices/pci0000:00/" bdf
#define ROW(real, config, modalias, more) \
	"{\"realpath\": \"" real "\", \"config\": \"" config "\", \"modalias\": \"" modalias "\"" more "}"

static struct text_host *converted(const char *text)
{
	struct error err = ERROR_INIT;
	struct text_host *t = NULL;

	if (rdmatopo_parse(&t, text, strlen(text), "test", &err) < 0)
		fail_msg("%s", err.text);
	return t;
}

static void one_function(void **state)
{
	struct text_host *t = converted("[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS,
		", \"iommu_group\": 7, \"numa_node\": -1, \"vpd\": \"eJwLdnUOcg0BAAYxAcc=\", \"new_member\": {\"a\": [1]}, "
		"\"subsystems\": {\"net\": [\"eth0\"], \"infiniband\": [\"mlx5_0\"], \"drm\": []}") "]");
	char *text = text_host_render(t);

	(void)state;
	assert_string_equal(text, TEXT_MAGIC_LINE
		"# from a dump of rdma_topo; what that does not hold is not known\n"
		"sys/bus/pci/devices/0000:00:01.0 -> ../../../devices/pci0000:00/0000:00:01.0\n"
		"sys/bus/pci/drivers/vfio-pci ! ENODATA\n"
		"sys/class/iommu ! ENODATA\n"
		"sys/devices/pci0000:00/0000:00:01.0/class\t0x020000\n"
		"sys/devices/pci0000:00/0000:00:01.0/config\tbytes 4\n"
		"sys/devices/pci0000:00/0000:00:01.0/device\t0x1023\n"
		"sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0/\n"
		"sys/devices/pci0000:00/0000:00:01.0/iommu_group -> ../../../kernel/iommu_groups/7\n"
		"sys/devices/pci0000:00/0000:00:01.0/modalias\t" MODALIAS "\n"
		"sys/devices/pci0000:00/0000:00:01.0/net/eth0/\n"
		"sys/devices/pci0000:00/0000:00:01.0/numa_node\t-1\n"
		"sys/devices/pci0000:00/0000:00:01.0/subsystem_device\t0x0001\n"
		"sys/devices/pci0000:00/0000:00:01.0/subsystem_vendor\t0x15b3\n"
		"sys/devices/pci0000:00/0000:00:01.0/vendor\t0x15b3\n"
		"sys/devices/virtual/misc/kvm ! ENODATA\n");
	free(text);
	text_host_free(t);
}

/* The fixture by value: its shape, registers, groups; and null for what it does not hold. */
static void the_fixture(void **state)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	const struct host_function *gpu, *nic, *port;
	struct topo *t;

	(void)state;
	assert_int_equal(host_root_open_text(&root, FILE_OF, &err), 0);
	t = test_topo_of(root);
	assert_int_equal(topo_inventory(t)->iommu, HOST_PRESENT); /* its groups say so; not how many units */
	assert_int_equal(topo_inventory(t)->iommu_units, -1);
	assert_int_equal(topo_inventory(t)->kvm, HOST_UNKNOWN);
	assert_int_equal(topo_inventory(t)->vfio_pci, HOST_UNKNOWN);
	assert_int_equal(topo_inventory(t)->virtual, HOST_UNKNOWN);
	host_root_close(root);
	assert_int_equal(topo_count(t), 56);
	gpu = topo_at(t, test_at(t, "0004:06:00.0"))->fn;
	nic = topo_at(t, test_at(t, "0005:03:00.0"))->fn;
	port = topo_at(t, test_at(t, "0002:00:00.0"))->fn;
	assert_int_equal(gpu->facts->kind, HOST_GPU);
	assert_true(bdf_eq(gpu->facts->parent, test_bdf("0004:05:00.0")));
	assert_int_equal(gpu->facts->numa_node, 1);
	assert_int_equal(gpu->iommu_group, 32);
	assert_int_equal(nic->facts->kind, HOST_NIC);
	assert_int_equal(nic->iommu_group, 36);
	assert_null(host_driver_of(topo_inventory(t), gpu)); /* nobody looked */
	assert_string_equal(topo_inventory(t)->kernel, "");
	assert_int_equal(topo_inventory(t)->nnodes, 0);
	assert_int_equal(port->facts->kind, HOST_ROOT_PORT);
	topo_unref(t);
}

static void bad_dumps_are_refused_by_place(void **state)
{
	static const struct test_refusal cases[] = {
		{ "[", "test is no dump of rdma_topo: not JSON at byte 1" },
		{ "[1]", "test: function 0: it must be an object" },
		{ "[{}]", "test: function 0: realpath: it is missing" },
		{ "[{\"realpath\": null}]", "test: function 0: realpath: it is missing" },
		{ "[{\"realpath\": 1}]", "test: function 0: realpath: it must be a string" },
		{ "[{\"realpath\": \"/sys/bus\"}]", "test: function 0: realpath: it must be as" },
		{ "[{\"realpath\": \"/sys/devices/0000:00:01.0\"}]", "realpath: it must be as" },
		{ "[{\"realpath\": \"/sys/devices/pci0000:00/../0000:00:01.0\"}]", "realpath: it must be as" },
		{ "[{\"realpath\": \"/sys/devices/pci0000:00//0000:00:01.0\"}]", "realpath: it must be as" },
		{ "[{\"realpath\": \"/sys/devices/pci0000:00/nvme0\"}]", "realpath: it must be as" },
		{ "[{\"realpath\": \"/sys/devices/pci0000:00/0000:00:01.0\\n\"}]", "without control characters" },
		{ "[{\"realpath\": \"/sys/devices/pci0000:00/0000:00:01.0\"}]", "function 0 (0000:00:01.0): config: it is missing" },
		{ "[" ROW(REAL("0000:00:01.0"), "eJx!", MODALIAS, "") "]", "(0000:00:01.0): config: it must be base64" },
		{ "[" ROW(REAL("0000:00:01.0"), "eJxjY", MODALIAS, "") "]", "config: it must be base64" },
		{ "[" ROW(REAL("0000:00:01.0"), "AAAA", MODALIAS, "") "]", "config: it must be one zlib stream" },
		{ "[" ROW(REAL("0000:00:01.0"), "eJxjYGBgAAAABAABAAAA", MODALIAS, "") "]", "config: it must be one zlib stream" },
		/* 5000 bytes of zeros */
		{ "[" ROW(REAL("0000:00:01.0"), "eJztwTEBAAAAwqD1T20KP6AAAAAAgLcBE4gAAQ==", MODALIAS, "") "]",
		  "config: it must be one zlib stream" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, "usb:v1", "") "]", "modalias: it must be as" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS "x", "") "]", "modalias: it must be as" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, ", \"iommu_group\": -1") "]", "iommu_group: it must be a number" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, ", \"numa_node\": \"0\"") "]", "numa_node: it must be a number" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, ", \"numa_node\": 9999999999") "]", "numa_node: it must be a number" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, ", \"subsystems\": []") "]", "subsystems: it must be an object" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, ", \"subsystems\": {\"net\": [\"a/b\"]}") "]",
		  "subsystems: each must be an array of names" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, ", \"subsystems\": {\"..\": [\"a\"]}") "]",
		  "subsystems: each must be an array of names" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, "") ", "
		  ROW("/sys/devices/pci0000:01/0000:00:01.0", CONFIG, MODALIAS, "") "]",
		  "function 1 (0000:00:01.0): realpath: another function has this address" },
		{ "[" ROW(REAL("0000:00:01.0"), CONFIG, MODALIAS, ", \"config\": \"\"") "]", "a key stands twice" },
	};

	(void)state;
	test_refused(cases, ARRAY_SIZE(cases));
}

/* Null is what rdma_topo writes where there was no file: no group, no node. A copy of sysfs elsewhere will do. */
static void null_is_absent(void **state)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	const char *text = "[" ROW("/home/me/sys/devices/platform/x/pci0000:00/0000:00:01.0", CONFIG, MODALIAS,
				   ", \"iommu_group\": null, \"numa_node\": null, \"subsystems\": null") "]";
	char buf[HOST_PATH_MAX];

	(void)state;
	assert_int_equal(host_root_parse_text(&root, text, strlen(text), "test", &err), 0);
	assert_int_equal(host_link(root, buf, sizeof(buf), "sys/bus/pci/devices/0000:00:01.0"), 0);
	assert_string_equal(buf, "../../../devices/platform/x/pci0000:00/0000:00:01.0");
	assert_int_equal(host_link(root, buf, sizeof(buf), "sys/devices/platform/x/pci0000:00/0000:00:01.0/iommu_group"), -ENOENT);
	assert_int_equal(host_read(root, buf, sizeof(buf), "sys/devices/platform/x/pci0000:00/0000:00:01.0/numa_node"), -ENOENT);
	host_root_close(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_function),   cmocka_unit_test(the_fixture),
		cmocka_unit_test(null_is_absent), cmocka_unit_test(bad_dumps_are_refused_by_place),
	};

	return cmocka_run_group_tests_name("rdmatopo", tests, NULL, NULL);
}
