/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a request says about images, disks and cloud-init: read, refused by name, and written back; and the steps that come of it. */
#include "support.h"

#include "base/json.h"
#include "plan/request.h"

#define KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGNjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj me@here"

static int try_read(struct plan_request *r, const char *text, struct error *err)
{
	json_object *o = NULL;
	int e = json_parse(&o, text, strlen(text), JSON_BYTES_MAX, err);

	if (e < 0)
		fail_msg("%s: %s", text, err->text);
	e = plan_request_read(r, o, err);
	json_object_put(o);
	return e;
}

static void refused(const char *text, int code, const char *says)
{
	struct error err = ERROR_INIT;
	struct plan_request r;
	int e = try_read(&r, text, &err);

	if (e == 0)
		plan_request_done(&r);
	if (e != code || !strstr(err.text, says))
		fail_msg("%s: %d %s", text, e, err.text);
}

static void read_and_written_back(void **state)
{
	static const char text[] = "{\"name\":\"a\",\"image\":\"debian-13.1\",\"disk_size\":\"20G\",\"disks\":[{\"size\":\"1T\"},{\"size\":1048576}],"
				   "\"hostname\":\"n1.rack-7\",\"user_data\":\"#cloud-config\\npackages: [\\\"a\\\"]\\n\",\"ssh_keys\":[\"" KEY "\"],"
				   "\"network_config\":{\"version\":2,\"ethernets\":{\"a/b\":{\"dhcp4\":true}}},\"tags\":{\"z\":\"1\",\"a\":\"\"}}";
	struct plan_request r = test_request(text), again;
	json_object *o = plan_request_json(&r), *o2;
	const char *first = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);

	(void)state;
	assert_string_equal(r.seed.image, "debian-13.1");
	assert_int_equal(r.seed.disk_size, UINT64_C(20) << 30);
	assert_int_equal(r.seed.ndisks, 2);
	assert_int_equal(r.seed.disk[0], UINT64_C(1) << 40);
	assert_string_equal(r.seed.user_data, "#cloud-config\npackages: [\"a\"]\n");
	assert_string_equal(r.seed.network, "{\"version\":2,\"ethernets\":{\"a/b\":{\"dhcp4\":true}}}");
	assert_string_equal(r.seed.key[0], KEY);
	assert_int_equal(r.seed.ntags, 2);
	assert_string_equal(r.seed.tag[0].key, "a"); /* sorted */
	assert_true(plan_seed_wanted(&r.seed));
	again = test_request(first);
	o2 = plan_request_json(&again);
	assert_string_equal(json_object_to_json_string_ext(o2, JSON_C_TO_STRING_PLAIN), first);
	json_object_put(o2);
	json_object_put(o);
	plan_request_done(&again);
	plan_request_done(&r);
}

static void refused_by_name(void **state)
{
	(void)state;
	refused("{\"image\":\"Debian\"}", -EINVAL, "request.image \"Debian\" must be");
	refused("{\"image\":\".x\"}", -EINVAL, "request.image");
	refused("{\"image\":\"a/b\"}", -EINVAL, "request.image");
	refused("{\"image\":\"a\",\"boot\":{\"disk\":\"/x\"}}", -EINVAL, "both boot.disk and image");
	refused("{\"disk_size\":\"1G\"}", -EINVAL, "request.disk_size is of the disk that begins as an image");
	refused("{\"image\":\"a\",\"disk_size\":1000}", -EINVAL, "request.disk_size must be whole MiB");
	refused("{\"disks\":[]}", -EINVAL, "request.disks must be a list of 1 to 6");
	refused("{\"disks\":[{\"size\":\"1G\",\"image\":\"a\"}]}", -EINVAL, "request.disks has an unknown key \"image\"");
	refused("{\"disks\":[{}]}", -EINVAL, "request.disks lacks the key \"size\"");
	refused("{\"hostname\":\"a..b\"}", -EINVAL, "request.hostname \"a..b\"");
	refused("{\"hostname\":\"-a\"}", -EINVAL, "request.hostname");
	refused("{\"hostname\":\"a-.b\"}", -EINVAL, "request.hostname");
	refused("{\"hostname\":\"\"}", -EINVAL, "request.hostname");
	refused("{\"hostname\":\"a_b\"}", -EINVAL, "request.hostname");
	refused("{\"user_data\":\"packages: [a]\"}", -EINVAL, "by which cloud-init knows no format");
	refused("{\"user_data\":7}", -EINVAL, "request.user_data must be a string");
	refused("{\"user_data\":\"#!/bin/sh\\n\\u0000\"}", -EINVAL, "request.user_data must be a string without NUL");
	refused("{\"ssh_keys\":[]}", -EINVAL, "request.ssh_keys must be a list");
	refused("{\"ssh_keys\":[\"" KEY "\\nssh-rsa AAAA\"]}", -EINVAL, "request.ssh_keys[0]");
	refused("{\"ssh_keys\":[\"" KEY "\",\"-----BEGIN OPENSSH PRIVATE KEY-----\"]}", -EINVAL, "request.ssh_keys[1]");
	refused("{\"ssh_keys\":[\"ssh-dss AAAAB3NzaC1kc3MAAACBAGNjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj\"]}", -EINVAL, "no public key");
	refused("{\"ssh_keys\":[\"ssh-ed25519 AAAA\"]}", -EINVAL, "no public key");
	refused("{\"tags\":{\"a b\":\"c\"}}", -EINVAL, "request.tags has the key \"a b\"");
	refused("{\"tags\":{\"a\":1}}", -EINVAL, "request.tags.a must be a string");
	refused("{\"tags\":{\"a\":\"\\u001b[2J\"}}", -EINVAL, "request.tags.a");
	refused("{\"network_config\":{\"ethernets\":{}}}", -EINVAL, "request.network_config must be an object with \"version\"");
	refused("{\"network_config\":{\"version\":3}}", -EINVAL, "request.network_config");
	refused("{\"network_config\":\"version: 2\"}", -EINVAL, "request.network_config");
}

static void too_large(void **state)
{
	char text[PLAN_USER_DATA_MAX + 100];

	(void)state;
	(void)snprintf(text, sizeof(text), "{\"user_data\":\"#!%*s\"}", PLAN_USER_DATA_MAX, "");
	refused(text, -E2BIG, "request.user_data has");
	(void)snprintf(text, sizeof(text), "{\"network_config\":{\"version\":1,\"x\":\"%*s\"}}", PLAN_NETWORK_MAX, "");
	refused(text, -E2BIG, "request.network_config has");
}

static void steps_of(const char *request, const char *wanted)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan *p = test_plan(t, request, NULL, 0);
	char text[512] = "";

	assert_true(p->fits);
	for (size_t i = 0, n = 0; i < p->nsteps; i++)
		if (p->step[i].kind == PLAN_STEP_DISK || p->step[i].kind == PLAN_STEP_SEED) {
			assert_int_equal(i, n++); /* before all others */
			(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %s %s; ", plan_step_text(p->step[i].kind),
				       p->step[i].target, p->step[i].to);
		}
	assert_string_equal(text, wanted);
	plan_free(p);
	topo_unref(t);
}

static void its_steps(void **state)
{
	(void)state;
	steps_of("{\"name\":\"a\",\"gpus\":1}", "");
	steps_of("{\"name\":\"a\",\"gpus\":1,\"tags\":{\"a\":\"b\"}}", "");
	steps_of("{\"name\":\"a\",\"gpus\":1,\"image\":\"d\"}", "disk a.disk d; seed a.seed written; ");
	steps_of("{\"name\":\"a\",\"gpus\":1,\"image\":\"d\",\"disk_size\":\"20G\",\"disks\":[{\"size\":\"1500M\"},{\"size\":\"2T\"}]}",
		 "disk a.disk d 20G; disk a.data0 1500M; disk a.data1 2T; seed a.seed written; ");
	steps_of("{\"name\":\"a\",\"hostname\":\"b\"}", "seed a.seed written; ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_and_written_back), cmocka_unit_test(refused_by_name), cmocka_unit_test(too_large), cmocka_unit_test(its_steps),
	};

	return cmocka_run_group_tests_name("seed", tests, NULL, NULL);
}
