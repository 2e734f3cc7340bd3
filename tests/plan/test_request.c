/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests: defaults, every refusal with its key named, and the round trip. */
#include "support.h"

static void refusals_name_the_key(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "[]", "request must be a JSON object" },
		{ "{\"gpu\":1}", "unknown key \"gpu\"" },
		{ "{\"gpus\":17}", "request.gpus" },
		{ "{\"gpus\":-1}", "request.gpus is negative" },
		{ "{\"gpus\":\"2\"}", "request.gpus must be a whole number" },
		{ "{\"gpus\":2,\"vfs\":1,\"vfs_per_gpu\":1}", "both vfs_per_gpu and vfs" },
		{ "{\"vfs_per_gpu\":1}", "no gpus" },
		{ "{\"gpus\":16,\"vfs_per_gpu\":8}", "wants 128 VFs" },
		{ "{\"max_path\":\"X\"}", "PIX, PXB, PHB, NODE, SYS" },
		{ "{\"max_path\":\"pix\"}", "request.max_path is \"pix\"" },
		{ "{\"gdr\":\"yes\"}", "request.gdr is \"yes\"; known are required, preferred, off" },
		{ "{\"gdr\":\"\"}", "request.gdr" },
		{ "{\"gdr\":\"required\"}", "request.gdr is required" },
		{ "{\"gpus\":1,\"gdr\":\"required\"}", "request.gdr is required" },
		{ "{\"vcpus\":0}", "request.vcpus" },
		{ "{\"memory\":\"1M\"}", "request.memory" },
		{ "{\"memory\":\"12Q\"}", "request.memory is not a size" },
		{ "{\"memory\":536870913}", "whole MiB" },
		{ "{\"numa_node\":-2}", "request.numa_node" },
		{ "{\"name\":\"Train\"}", "lower-case" },
		{ "{\"name\":\"-a\"}", "lower-case" },
		{ "{\"name\":\"a/b\"}", "lower-case" },
		{ "{\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}", "40 bytes" },
		{ "{\"require\":\"0000:01:00.0\"}", "request.require must be an array" },
		{ "{\"require\":[\"x\"]}", "\"x\", which is no PCI address" },
		{ "{\"require\":[1]}", "no PCI address" },
		{ "{\"require\":[\"0000:01:00.0\",\"01:00.0\"]}", "names 01:00.0 twice" },
		{ "{\"require\":[\"01:00.0\"],\"exclude\":[\"01:00.0\"]}", "both requires and excludes 0000:01:00.0" },
		{ "{\"boot\":{\"kernel\":\"vmlinuz\"}}", "request.boot.kernel must be an absolute path" },
		{ "{\"boot\":{\"initrd\":\"/i\"}}", "no kernel" },
		{ "{\"boot\":{\"kernel\":\"/k\",\"x\":1}}", "boot has an unknown key \"x\"" },
		{ "{\"boot\":{\"kernel\":\"/k\\n\"}}", "control character" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct plan_request r;
		json_object *o = NULL;

		assert_int_equal(json_parse(&o, bad[i].text, strlen(bad[i].text), JSON_BYTES_MAX, &err), 0);
		assert_int_equal(plan_request_read(&r, o, &err), -EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s says \"%s\", not \"%s\"", bad[i].text, err.text, bad[i].says);
		json_object_put(o);
	}
}

static void defaults(void **state)
{
	struct plan_request r = test_request("{}");

	(void)state;
	assert_true(r.vcpus == 1 && r.memory == 512u << 20 && r.gpus == 0 && r.numa_node == -1);
	assert_int_equal(r.max_path, TOPO_SYS);
	assert_string_equal(r.name, "");
	assert_int_equal(r.gdr, PLAN_GDR_OFF);
	plan_request_done(&r);
	r = test_request("{\"gpus\":1,\"vfs\":1}");
	assert_int_equal(r.gdr, PLAN_GDR_PREFERRED);
	plan_request_done(&r);
}

static void round_trip(void **state)
{
	struct plan_request a = test_request(
		"{\"name\":\"train-1\",\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"gdr\":\"required\",\"vcpus\":4,\"memory\":\"2G\","
		"\"numa_node\":1,\"require\":[\"4c:00.0\"],\"exclude\":[\"0000:4d:00.0\"],"
		"\"boot\":{\"kernel\":\"/k\",\"initrd\":\"/i\",\"cmdline\":\"a=\\\"b\\\"\",\"disk\":\"/d.qcow2\"}}");
	json_object *ja = plan_request_json(&a), *jb;
	struct plan_request b = test_request(json_object_to_json_string(ja));

	(void)state;
	jb = plan_request_json(&b);
	assert_string_equal(json_object_to_json_string(ja), json_object_to_json_string(jb));
	assert_string_equal(b.cmdline, "a=\"b\"");
	assert_int_equal(b.gdr, PLAN_GDR_REQUIRED);
	json_object_put(ja);
	json_object_put(jb);
	plan_request_done(&a);
	plan_request_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals_name_the_key),
		cmocka_unit_test(defaults),
		cmocka_unit_test(round_trip),
	};

	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
