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
		{ "{\"gpus\":1,\"exclusive\":true}", "exclusive, which is all GPUs of the host; leave out gpus" },
		{ "{\"exclusive\":true,\"exclude\":[\"01:00.0\"]}", "leave out gpus, models, exclude and numa_node" },
		{ "{\"exclusive\":true,\"vfs_per_gpu\":5}", "wants 80 VFs" },
		{ "{\"rails\":true,\"gpus\":1}", "request.rails is between GPUs and VFs" },
		{ "{\"min_bandwidth\":100,\"vfs\":1}", "request.min_bandwidth is between GPUs and VFs" },
		{ "{\"min_bandwidth\":\"100G\"}", "request.min_bandwidth must be a whole number" },
		{ "{\"spread\":\"pf\"}", "request.spread is of VFs" },
		{ "{\"spread\":\"nic\",\"vfs\":1}", "request.spread is \"nic\"; known is pf" },
		{ "{\"policy\":\"lax\"}", "request.policy is \"lax\"; known are strict, loose" },
		{ "{\"max_gpu_path\":\"NV2\",\"gpus\":2}", "request.max_gpu_path is \"NV2\"" },
		{ "{\"max_gpu_path\":\"PIX\",\"gpus\":1}", "request.max_gpu_path is between GPUs" },
		{ "{\"model\":\"10de:2330\"}", "request.model is of GPUs" },
		{ "{\"model\":\"H100 SXM\",\"gpus\":1}", "say a name of [models], such as h100, or vendor:device in hex" },
		{ "{\"model\":\"-h100\",\"gpus\":1}", "say a name of [models]" },
		{ "{\"shape\":\"pair\"}", "unknown key \"shape\"" }, /* where no configuration is at hand */
		{ "{\"nvme\":17}", "request.nvme" },
		{ "{\"gpus\":1,\"require\":[\"01:00.0\",\"02:00.0\"]}", "request.require names 2 devices, and gpus, VFs and nvme are 1" },
		{ "{\"cells\":4,\"vcpus\":4,\"hugepages\":\"1G\",\"memory\":\"2G\"}", "4 cells but 2 pages of memory" },
		{ "{\"gpus\":1,\"gpus\":2}", "a key stands twice" },
		{ "{\"model\":\"10de:23300\",\"gpus\":1}", "or vendor:device in hex" },
		{ "{\"model\":\"10de:2330\",\"models\":[\"10de:*\"],\"gpus\":1}", "both model and models" },
		{ "{\"models\":[\"10de:2330\"],\"gpus\":2}", "names 1 models for 2 GPUs" },
		{ "{\"models\":[1,2],\"gpus\":2}", "request.models is \"\"" },
		{ "{\"models\":\"10de:2330\",\"gpus\":1}", "must be an array of one model for each GPU" },
		{ "{\"models\":[\"10de:1\",\"10de:2\"],\"gpus\":2}", "or vendor:device in hex" },
		{ "{\"models\":[\"10de:0001\",\"10de:0002\",\"10de:0003\",\"10de:0004\",\"10de:0005\"],\"gpus\":5}", "more than 4 different models" },
		{ "{\"hugepages\":\"3M\",\"memory\":\"3G\"}", "request.hugepages must be a power of two" },
		{ "{\"hugepages\":\"1G\",\"memory\":\"1536M\"}", "that request.memory is a multiple of" },
		{ "{\"hugepages\":\"4K\"}", "request.hugepages" },
		{ "{\"cells\":2}", "2 cells but 1 vCPUs" },
		{ "{\"cells\":0}", "request.cells" },
		{ "{\"tenant\":\"A\"}", "request.tenant \"A\" must be lower-case" },
		{ "{\"vf\":{\"vlan\":1}}", "request.vf is of VFs, and it has none" },
		{ "{\"vfs\":1,\"vf\":{\"vlan\":4095}}", "request.vf.vlan" },
		{ "{\"vfs\":1,\"vf\":7}", "request.vf must be" },
		{ "{\"vfs\":2,\"vf\":[{\"vlan\":1}]}", "request.vf has 1 entries; say one for each VF" },
		{ "{\"vfs\":2,\"vf\":{\"mac\":\"02:00:00:00:00:01\"}}", "an address, and it is of several VFs; say an array" },
		{ "{\"vfs\":1,\"mtu\":67}", "request.mtu" },
		{ "{\"mtu\":9000}", "request.mtu is of the ports of its VFs" },
		{ "{\"pcie\":\"flat\"}", "request.pcie is \"flat\"; known are switches, root-ports" },
		{ "{\"firmware\":\"ovmf\"}", "request.firmware is \"ovmf\"; known are bios, uefi" },
		{ "{\"firmware\":\"bios\",\"secure_boot\":true}", "request.secure_boot is what only uefi can" },
		{ "{\"tpm\":\"yes\"}", "request.tpm" },
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

		if (json_parse(&o, bad[i].text, strlen(bad[i].text), JSON_BYTES_MAX, &err) == 0)
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

static void models_have_kinds(void **state)
{
	struct plan_request r = test_request("{\"gpus\":3,\"models\":[\"10de:2330\",\"10de:*\",\"10de:2330\"]}");
	struct plan_policy p = { 0 };

	(void)state;
	assert_int_equal(r.nmodels, 3);
	assert_true(r.model_kind[0] == 0 && r.model_kind[1] == 1 && r.model_kind[2] == 0);
	assert_true(plan_model_is(&p, &r.model[0], 0x10de, 0x2330) && !plan_model_is(&p, &r.model[0], 0x10de, 0x2331));
	assert_true(plan_model_is(&p, &r.model[1], 0x10de, 0x2331) && !plan_model_is(&p, &r.model[1], 0x1002, 0x2331));
	plan_request_done(&r);
	r = test_request("{\"gpus\":3,\"models\":[\"H100\",\"10de:2330\",\"h100\"]}");
	assert_true(r.model_kind[0] == 0 && r.model_kind[1] == 1 && r.model_kind[2] == 0);
	plan_request_done(&r);
}

static struct conf conf_of(const char *text)
{
	char path[] = "/tmp/velad-conf-XXXXXX";
	struct error err = ERROR_INIT;
	int fd = mkstemp(path);
	struct conf c;

	assert_true(fd >= 0 && dprintf(fd, "%s", text) == (int)strlen(text));
	(void)close(fd);
	if (conf_load(&c, path, &err) < 0)
		fail_msg("%s", err.text);
	(void)unlink(path);
	return c;
}

/* Names of [models]: those that are built in, in any case; the last line of a name counts. */
static void models_have_names(void **state)
{
	static const struct {
		const char *conf, *says;
	} bad[] = {
		{ "[models]\nx = 10de\n", "[models] x: \"10de\" is not vendor:device in hex" },
		{ "[models]\nx = 10de:2330 10de:zz\n", "\"10de:zz\" is not vendor:device" },
		{ "[shapes]\ns = 4\n", "[shapes] s" },
		{ "[shapes]\ns = {\"shape\": \"t\"}\n", "a shape of a shape" },
	};
	struct plan_request r = test_request("{\"gpus\":1,\"model\":\"H100\"}");
	struct conf c = conf_of("[models]\nH100 = 10de:2330 10de:2331\nother = 1002:74a1\nOTHER = 1002:74a5\n");
	struct error err = ERROR_INIT;
	struct plan_policy p;

	(void)state;
	assert_int_equal(plan_policy_load(&p, &c, &err), 0);
	assert_string_equal(r.model[0].name, "h100");
	assert_true(plan_model_known(&p, &r.model[0]));
	assert_true(plan_model_is(&p, &r.model[0], 0x10de, 0x2330) && plan_model_is(&p, &r.model[0], 0x10de, 0x2331));
	assert_false(plan_model_is(&p, &r.model[0], 0x10de, 0x2335));
	plan_request_done(&r);
	r = test_request("{\"gpus\":1,\"model\":\"Other\"}");
	assert_true(plan_model_is(&p, &r.model[0], 0x1002, 0x74a5) && !plan_model_is(&p, &r.model[0], 0x1002, 0x74a1));
	plan_request_done(&r);
	r = test_request("{\"gpus\":1,\"model\":\"h10\"}");
	assert_true(!plan_model_known(&p, &r.model[0]) && !plan_model_is(&p, &r.model[0], 0, 0));
	plan_request_done(&r);
	conf_done(&c);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = ERROR_INIT;
		c = conf_of(bad[i].conf);
		assert_int_equal(plan_policy_load(&p, &c, &err), -EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s says \"%s\"", bad[i].conf, err.text);
		conf_done(&c);
	}
}

/* A shape's keys are the request's; one that both have is a contradiction. */
static void shapes_have_names(void **state)
{
	static const struct {
		const char *text, *says; /* NULL: it is right */
	} cases[] = {
		{ "{\"shape\":\"pair\",\"memory\":\"2G\"}", NULL },
		{ "{\"shape\":\"pair\",\"gpus\":2}", "request has gpus, and so has its shape pair" },
		{ "{\"shape\":\"pear\"}", "request.shape is \"pear\"; [shapes] of velad.conf has pair, odd" },
		{ "{\"shape\":2}", "request.shape must be a name" },
		{ "{\"shape\":\"odd\"}", "unknown key \"gpu\"" },
	};
	struct conf c = conf_of("[shapes]\npair = {\"gpus\": 2, \"vfs_per_gpu\": 1, \"max_path\": \"PIX\"}\nodd = {\"gpu\": 1}\n");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		struct plan_request r = { 0 };
		json_object *o = NULL;
		int e;

		assert_int_equal(json_parse(&o, cases[i].text, strlen(cases[i].text), JSON_BYTES_MAX, &err), 0);
		e = plan_request_read_shaped(&r, o, &c, &err);
		assert_int_equal(e, cases[i].says ? -EINVAL : 0);
		if (cases[i].says && !strstr(err.text, cases[i].says))
			fail_msg("%s says \"%s\"", cases[i].text, err.text);
		if (e == 0) {
			assert_true(r.gpus == 2 && r.vfs_per_gpu == 1 && r.max_path == TOPO_PIX && r.memory == 2u << 30);
			assert_int_equal(r.gdr, PLAN_GDR_PREFERRED);
			plan_request_done(&r);
		}
		json_object_put(o);
	}
	conf_done(&c);
}

static void wishes_round_trip(void **state)
{
	struct plan_request a = test_request(
		"{\"gpus\":2,\"vfs_per_gpu\":1,\"max_gpu_path\":\"PXB\",\"min_bandwidth\":400,\"policy\":\"loose\",\"spread\":\"pf\",\"rails\":true,"
		"\"models\":[\"10de:2330\",\"h100\"],\"nvme\":2,\"hugepages\":\"1G\",\"memory\":\"4G\",\"cells\":2,\"vcpus\":4,\"tenant\":\"blue\","
		"\"vf\":[{\"vlan\":5,\"trust\":true},{\"mac\":\"02:00:00:00:00:01\"}],\"mtu\":4200,\"pcie\":\"root-ports\",\"secure_boot\":true,\"tpm\":true}");
	struct plan_request e = test_request("{\"exclusive\":true,\"model\":\"10de:*\"}");
	json_object *ja = plan_request_json(&a), *jb, *je = plan_request_json(&e);
	struct plan_request b = test_request(json_object_to_json_string(ja));

	(void)state;
	jb = plan_request_json(&b);
	assert_string_equal(json_object_to_json_string(ja), json_object_to_json_string(jb));
	assert_true(b.max_gpu_path == TOPO_PXB && b.min_bandwidth == 400 && b.loose && b.spread_pf && b.rails && b.nmodels == 2);
	assert_true(b.hugepages == 1u << 30 && b.cells == 2);
	assert_true(b.nvf_sets == 2 && b.vf[0].value[PLAN_VF_VLAN] == 5 && b.vf[1].value[PLAN_VF_MAC] == 0x020000000001);
	assert_true(b.mtu == 4200 && b.root_ports && b.uefi && b.secure_boot && b.tpm);
	assert_string_equal(b.tenant, "blue");
	assert_non_null(strstr(json_object_to_json_string(je), "\"exclusive\": true"));
	assert_non_null(strstr(json_object_to_json_string(je), "\"model\": \"10de:*\""));
	json_object_put(ja);
	json_object_put(jb);
	json_object_put(je);
	plan_request_done(&a);
	plan_request_done(&b);
	plan_request_done(&e);
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
		cmocka_unit_test(models_have_kinds),
		cmocka_unit_test(wishes_round_trip),
		cmocka_unit_test(models_have_names),
		cmocka_unit_test(shapes_have_names),
	};

	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
