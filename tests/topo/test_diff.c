/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What differs between two topologies: nothing, one member, a function, a finding, the host. */
#include "topo/diff.h"

#include "base/file.h"
#include "base/sbuf.h"
#include "support.h"

static __attribute__((noinline)) char *host_text(void) /* gcc 12 takes the text for its pointer, inlined */
{
	char *text;
	size_t len;

	assert_int_equal(file_read(&text, &len, TEST_SOURCE "/tests/hosts/xe9680/sys.txt", 1u << 26), 0);
	return text;
}

/* The host with `from` replaced by `to`, which must be there. */
static struct topo *with(const char *from, const char *to)
{
	char *text = host_text(), *at = strstr(text, from), *changed;
	struct sbuf b = { 0 };
	struct topo *t;

	assert_non_null(at);
	sbuf_add_bytes(&b, text, (size_t)(at - text));
	sbuf_add(&b, to);
	sbuf_add(&b, at + strlen(from));
	changed = sbuf_steal(&b);
	t = test_topo_text(changed);
	free(text);
	free(changed);
	return t;
}

/* Takes both; the difference as text, a line each: "BDF KIND WHAT FIELD OLD NEW". */
static void expect(struct topo *a, struct topo *b, const char *wanted)
{
	json_object *items = topo_diff(a, b);
	struct sbuf out = { 0 };

	assert_non_null(items);
	for (size_t i = 0; i < json_object_array_length(items); i++) {
		static const char *const keys[] = { "bdf", "kind", "what", "field", "old", "new" };
		json_object *item = json_object_array_get_idx(items, i);

		assert_int_equal(json_object_object_length(item), ARRAY_SIZE(keys));
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
			json_object *v = json_object_object_get(item, keys[k]);

			sbuf_addf(&out, "%s%s", k ? " " : "", v ? json_object_get_string(v) : "-");
		}
		sbuf_add(&out, "\n");
	}
	assert_string_equal(out.text ? out.text : "", wanted);
	sbuf_done(&out);
	json_object_put(items);
	topo_unref(a);
	topo_unref(b);
}

#define GPU "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0/"

static void nothing(void **state)
{
	struct topo *t = test_topo_host("xe9680");

	(void)state;
	topo_number(t, 7); /* the number is no difference */
	expect(t, test_topo_host("xe9680"), "");
}

static void members(void **state)
{
	(void)state;
	expect(test_topo_host("xe9680"), with(GPU "uevent\tDRIVER=nvidia\\n", GPU "uevent\t"),
	       "0000:19:00.0 gpu changed driver nvidia -\n");
	expect(with(GPU "uevent\tDRIVER=nvidia\\n", GPU "uevent\t"), test_topo_host("xe9680"),
	       "0000:19:00.0 gpu changed driver - nvidia\n");
	expect(test_topo_host("xe9680"), with(GPU "numa_node\t0", GPU "numa_node\t-1"),
	       "0000:19:00.0 gpu changed numa_node 0 -\n");
	expect(test_topo_host("xe9680"), with("0000:1a:00.0/sriov_totalvfs\t16", "0000:1a:00.0/sriov_totalvfs\t8"),
	       "0000:1a:00.0 nic changed sriov.total 16 8\n");
}

#define NIC "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/"

static void interfaces(void **state)
{
	(void)state;
	expect(test_topo_host("xe9680"), with(NIC "net/enp26s0np0/carrier\t1", NIC "net/enp26s0np0/carrier\t0"),
	       "0000:1a:00.0 nic changed netdevs.enp26s0np0.carrier true false\n");
	expect(test_topo_host("xe9680"), with(NIC "infiniband/mlx5_0/ports/1/state\t4: ACTIVE",
					      NIC "infiniband/mlx5_0/ports/1/state\t1: DOWN"),
	       "0000:1a:00.0 nic changed rdma.mlx5_0.ports.port1.state ACTIVE DOWN\n");
}

static void functions(void **state)
{
	(void)state;
	expect(test_topo_host("xe9680"), with("sys/bus/pci/devices/0000:19:00.0 -> ", "sys/bus/pci/removed -> "),
	       "0000:19:00.0 gpu removed - - -\n");
	expect(with("sys/bus/pci/devices/0000:19:00.0 -> ", "sys/bus/pci/removed -> "), test_topo_host("xe9680"),
	       "0000:19:00.0 gpu added - - -\n");
}

static void findings_and_nodes(void **state)
{
	(void)state;
	expect(test_topo_host("xe9680"), with(GPU "numa_node\t0", GPU "numa_node\tx"),
	       "0000:19:00.0 gpu changed numa_node 0 -\n"
	       "0000:19:00.0 - changed finding.pci.numa-unreadable - [ \"its numa_node is no number\" ]\n");
	expect(test_topo_host("xe9680"), with("sys/devices/system/node/node1/distance\t21 10", "sys/devices/system/node/node1/distance\t31 10"),
	       "- - changed node1.distance [ 21, 10 ] [ 31, 10 ]\n");
}

/* A driver that is unknown in both differs in nothing; one that becomes known does. */
static void unknown_drivers(void **state)
{
	static const char text[] = TEXT_MAGIC_LINE "sys/bus/pci/devices/0000:00:01.0 -> ../../../devices/pci0000:00/0000:00:01.0\n"
				   "sys/devices/pci0000:00/0000:00:01.0/vendor\t0x10de\n"
				   "sys/devices/pci0000:00/0000:00:01.0/device\t0x2330\n"
				   "sys/devices/pci0000:00/0000:00:01.0/class\t0x030200\n";
	struct topo *t = test_topo_text(text), *known;
	char *more = NULL;

	(void)state;
	expect(topo_ref(t), topo_ref(t), "");
	assert_true(asprintf(&more, "%ssys/devices/pci0000:00/0000:00:01.0/driver -> ../../../bus/pci/drivers/nvidia\n", text) > 0);
	known = test_topo_text(more);
	expect(t, known, "0000:00:01.0 gpu changed driver - nvidia\n");
	free(more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),
		cmocka_unit_test(members),
		cmocka_unit_test(interfaces),
		cmocka_unit_test(functions),
		cmocka_unit_test(unknown_drivers),
		cmocka_unit_test(findings_and_nodes),
	};

	return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
