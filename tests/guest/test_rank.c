/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rank map on the XE9680: sorted by switch, counted as the guest counts; and what the tenant has names nothing. */
#include "guest/guest.h"

#include "support.h"

static json_object *map_of_topo(const char *request, struct topo *t)
{
	struct plan *p = test_plan(t, request, NULL, 0);
	struct error err = ERROR_INIT;
	json_object *map = NULL;

	assert_true(p->fits);
	if (guest_rank_json(&map, p, t, &err) < 0)
		fail_msg("%s", err.text);
	plan_free(p);
	topo_unref(t);
	return map;
}

static json_object *map_of(const char *request, const char *host)
{
	return map_of_topo(request, test_topo_host(host));
}

static json_object *at(json_object *o, const char *list, size_t i)
{
	json_object *a = json_object_object_get(o, list);

	assert_true(json_object_is_type(a, json_type_array) && i < json_object_array_length(a));
	return json_object_array_get_idx(a, i);
}

static const char *text(json_object *o, const char *key)
{
	json_object *v = NULL;

	assert_true(json_object_object_get_ex(o, key, &v));
	return v ? json_object_get_string(v) : "null";
}

static void pairs(void **state)
{
	json_object *map = map_of("{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}", "xe9680"), *tenant, *gpu, *vf;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		gpu = at(map, "gpus", i);
		vf = at(map, "vfs", i);
		assert_string_equal(text(gpu, "bdf"), i ? "0000:3b:00.0" : "0000:19:00.0");
		assert_string_equal(text(gpu, "index"), i ? "1" : "0");
		assert_string_equal(text(vf, "bdf"), i ? "0000:3c:00.1" : "0000:1a:00.1");
		assert_string_equal(text(vf, "gpu"), i ? "1" : "0");
		assert_string_equal(text(gpu, "switch"), i ? "0000:38:00.0" : "0000:16:00.0");
		assert_string_equal(text(vf, "switch"), text(gpu, "switch"));
		assert_string_equal(text(gpu, "numa_node"), "0");
		assert_string_equal(text(vf, "rail"), text(gpu, "rail"));
		assert_true(strcmp(text(vf, "port"), "null") != 0);
	}
	assert_true(strcmp(text(at(map, "gpus", 0), "guest_bdf"), text(at(map, "gpus", 1), "guest_bdf")) < 0);
	tenant = json_object_object_get(map, "tenant");
	assert_string_equal(text(at(tenant, "gpus", 0), "switch"), "0");
	assert_string_equal(text(at(tenant, "vfs", 0), "switch"), "0");
	assert_string_equal(text(at(tenant, "gpus", 1), "switch"), "1");
	assert_string_equal(text(at(tenant, "vfs", 1), "gpu"), "1");
	for (const char *const *no = (const char *const[]){ "0000:19:", "0000:3b:", "0000:1a:", "0000:16:", "ens", "mlx5", NULL }; *no; no++)
		if (strstr(json_object_to_json_string(tenant), *no))
			fail_msg("the tenant's map has %s", *no);
	json_object_put(map);
}

/* Where on the board a GPU is (NVML's module id, which is no PCI order) and in which slot, and where its NIC is plugged in. */
static void places(void **state)
{
	char *host = test_host_text("xe9680"), *more = NULL;
	json_object *map, *neighbour, *tenant;

	(void)state;
	assert_true(asprintf(&more, "%ssys/bus/pci/slots/37/address\t0000:19:00\n", host) > 0);
	map = map_of_topo("{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}", test_topo_text(more));
	assert_string_equal(text(at(map, "gpus", 0), "module"), "2");
	assert_string_equal(text(at(map, "gpus", 1), "module"), "4");
	assert_string_equal(text(at(map, "gpus", 0), "slot"), "37");
	assert_string_equal(text(at(map, "gpus", 1), "slot"), "null");
	neighbour = json_object_object_get(at(map, "vfs", 1), "neighbour");
	assert_string_equal(text(at(map, "vfs", 1), "port"), "enp60s0np0");
	assert_string_equal(text(neighbour, "name"), "leaf-03");
	assert_string_equal(text(neighbour, "port"), "Ethernet1/1");
	tenant = json_object_object_get(map, "tenant");
	assert_null(strstr(json_object_to_json_string(tenant), "leaf"));
	assert_null(strstr(json_object_to_json_string(tenant), "module"));
	json_object_put(map);
	free(more);
	free(host);
}

/* The same plan gives the same text. */
static void stable(void **state)
{
	static const char request[] = "{\"gpus\":8,\"vfs_per_gpu\":1,\"vcpus\":16,\"memory\":\"16G\"}";
	json_object *a = map_of(request, "xe9680"), *b = map_of(request, "xe9680");
	const char *last = "";

	(void)state;
	assert_string_equal(json_object_to_json_string(a), json_object_to_json_string(b));
	for (size_t i = 0; i < 8; i++) {
		const char *here = text(at(a, "gpus", i), "switch");

		assert_true(strcmp(last, here) <= 0); /* by switch */
		last = here;
	}
	json_object_put(a);
	json_object_put(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(pairs), cmocka_unit_test(places), cmocka_unit_test(stable) };

	return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
