/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NVMe drives in bundles: only those that the host has given up, near the GPUs, never twice; and NVSwitches, which go
 * along with all GPUs where Fabric Manager leaves them whole, and else with nobody. */
#include "guest/guest.h"
#include "guest/layout.h"
#include "synth.h"

#define CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"

static struct host_function *fn_of(struct topo *t, const char *bdf)
{
	return (struct host_function *)topo_at(t, test_at(t, bdf))->fn; /* a test may change a machine */
}

/* xe9680; these drives, of the switches of GPUs 0, 1 and 4, are not the host's. */
static struct topo *with_drives(void)
{
	struct topo *t = test_topo_host("xe9680");

	fn_of(t, "0000:18:00.0")->driver = fn_of(t, "0000:3a:00.0")->driver = fn_of(t, "0000:9a:00.0")->driver = 0;
	return t;
}

/* Another IOMMU group is another graph. */
static struct topo *with_group(struct topo *t, const char *bdf, int group)
{
	struct inventory *inv = (struct inventory *)topo_inventory(t);
	struct error err = ERROR_INIT;
	struct topo *now;

	fn_of(t, bdf)->iommu_group = group;
	inv->refs++;
	assert_int_equal(topo_build(&now, inv, 1, &err), 0);
	topo_unref(t);
	return now;
}

static struct plan *plan_in(struct plan_input in, const char *json)
{
	struct plan_request req = test_request(json);
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	in.request = &req;
	in.policy = (struct plan_policy)TEST_POLICY;
	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

static void has_extras(struct plan *p, const char *bdfs)
{
	struct sbuf text = { 0 };
	char bdf[BDF_TEXT_MAX];

	if (!p->fits)
		fail_msg("it does not fit: %s, %s", p->reason[0].rule, p->reason[0].observed);
	for (size_t i = 0; i < p->nextras; i++)
		sbuf_addf(&text, "%s%s", i ? " " : "", bdf_text(bdf, p->extra[i].bdf) + 5);
	assert_string_equal(text.text ? text.text : "", bdfs);
	sbuf_done(&text);
	plan_free(p);
}

static void refused_with(struct plan *p, const char *rule, const char *nearest)
{
	if (p->fits || !test_has_reason(p, rule))
		fail_msg("fits %d; not %s but %s", p->fits, rule, p->nreasons ? p->reason[p->nreasons - 1].rule : "-");
	assert_int_equal(p->nextras + p->nsteps, 0);
	if (nearest) {
		assert_string_equal(p->reason[p->nreasons - 1].rule, "nearest");
		assert_string_equal(p->reason[p->nreasons - 1].needed, nearest);
	}
	plan_free(p);
}

static void near_the_gpus(void **state)
{
	struct topo *t = with_drives();
	struct plan_input in = { .topo = t };

	(void)state;
	has_extras(plan_in(in, "{\"gpus\":1,\"nvme\":1,\"require\":[\"0000:3b:00.0\"]}"), "3a:00.0");
	has_extras(plan_in(in, "{\"gpus\":1,\"nvme\":1,\"numa_node\":1}"), "9a:00.0");
	has_extras(plan_in(in, "{\"gpus\":2,\"nvme\":2,\"vcpus\":2,\"require\":[\"0000:3b:00.0\",\"0000:9b:00.0\"]}"), "3a:00.0 9a:00.0");
	has_extras(plan_in(in, "{\"gpus\":1,\"nvme\":3,\"require\":[\"0000:19:00.0\"]}"), "18:00.0 3a:00.0 9a:00.0");
	has_extras(plan_in(in, "{\"nvme\":1}"), "18:00.0"); /* without a GPU */
	has_extras(plan_in(in, "{\"nvme\":1,\"numa_node\":1}"), "9a:00.0");
	has_extras(plan_in(in, "{\"nvme\":1,\"gpus\":1,\"exclude\":[\"0000:18:00.0\"]}"), "3a:00.0");
	has_extras(plan_in(in, "{\"nvme\":2,\"gpus\":1,\"require\":[\"0000:9a:00.0\"]}"), "18:00.0 9a:00.0");
	topo_unref(t);
}

static void only_what_the_host_gave_up(void **state)
{
	struct topo *t = with_drives();
	struct plan_taken taken = { .bdf = test_bdf("0000:18:00.0"), .owner = "instance a" };
	struct plan_sick sick = { test_bdf("0000:18:00.0"), "it did not come back" };
	struct plan_input in = { .topo = t };

	(void)state;
	refused_with(plan_in(in, "{\"nvme\":4}"), "nvme.host", "3 NVMe drives");
	refused_with(plan_in(in, "{\"nvme\":1,\"require\":[\"0000:4b:00.0\"]}"), "nvme.host", NULL);
	refused_with(plan_in(in, "{\"nvme\":1,\"gpus\":1,\"require\":[\"0000:9a:00.0\",\"0000:18:00.0\"]}"), "require.apart", NULL);
	fn_of(t, "0000:9a:00.0")->driver = HOST_DRIVER_UNKNOWN;
	refused_with(plan_in(in, "{\"nvme\":3}"), "device.driver-unknown", "2 NVMe drives");
	in.topo = t = with_group(t, "0000:3a:00.0", fn_of(t, "0000:3b:00.0")->iommu_group); /* with a GPU */
	refused_with(plan_in(in, "{\"nvme\":2}"), "group.shared", "1 NVMe drive");
	has_extras(plan_in(in, "{\"nvme\":1}"), "18:00.0");
	in.taken = &taken;
	in.ntaken = 1;
	refused_with(plan_in(in, "{\"nvme\":1}"), "device.taken", NULL);
	refused_with(plan_in((struct plan_input){ .topo = t, .sick = &sick, .nsick = 1 }, "{\"nvme\":1}"), "device.quarantined", NULL);
	topo_unref(t);
	t = test_topo_host("xe9680");
	refused_with(plan_in((struct plan_input){ .topo = t }, "{\"nvme\":1,\"gpus\":1}"), "nvme.count", NULL);
	topo_unref(t);
}

/* Another drive, where one would reach others untranslated. */
static void drives_do_not_leak(void **state)
{
	struct topo *t = with_drives();
	uint32_t port = topo_at(t, test_at(t, "0000:18:00.0"))->parent;

	(void)state;
	((struct host_facts *)topo_at(t, port)->fn->facts)->cap.acs.ctl = 0;
	has_extras(plan_in((struct plan_input){ .topo = t }, "{\"gpus\":1,\"nvme\":1,\"require\":[\"0000:19:00.0\"]}"), "3a:00.0");
	refused_with(plan_in((struct plan_input){ .topo = t }, "{\"gpus\":1,\"nvme\":3}"), "isolation.leak", "2 NVMe drives");
	topo_unref(t);
}

/* Bound, in the domain below the switch of its GPU, given back to what it had. */
static void is_in_the_guest(void **state)
{
	struct topo *t = with_drives();
	struct plan_request req = test_request("{\"gpus\":1,\"nvme\":1,\"vfs_per_gpu\":1,\"require\":[\"0000:3b:00.0\"]}");
	struct plan *p = plan_in((struct plan_input){ .topo = t }, "{\"gpus\":1,\"nvme\":1,\"vfs_per_gpu\":1,\"require\":[\"0000:3b:00.0\"]}");
	const struct guest_device *drive = NULL, *gpu = NULL;
	struct error err = ERROR_INIT;
	struct guest_layout l;
	bool bound = false;

	(void)state;
	assert_int_equal(p->nextras, 1);
	for (size_t i = 0; i < p->nsteps; i++)
		bound = bound || (p->step[i].kind == PLAN_STEP_BIND && bdf_eq(p->step[i].bdf, p->extra[0].bdf) &&
				  !strcmp(p->step[i].from, "(none)") && !strcmp(p->step[i].to, "vfio-pci"));
	assert_true(bound);
	assert_int_equal(guest_layout_build(&l, p, t, &err), 0);
	assert_int_equal(l.ndevices, 3);
	for (size_t i = 0; i < l.ndevices; i++) {
		if (bdf_eq(l.device[i].bdf, p->extra[0].bdf))
			drive = &l.device[i];
		if (bdf_eq(l.device[i].bdf, p->gpu[0]))
			gpu = &l.device[i];
	}
	assert_true(drive && gpu && drive->chain[0] == gpu->chain[0] && drive->cell == gpu->cell);
	guest_layout_done(&l);
	assert_int_equal(guest_plan_xml(p, &req, t, "kvm", NULL, &(struct guest_dirs){ "/var/log", "/var/lib", NULL }, &err), 0);
	assert_non_null(strstr(p->domain_xml, "bus=\"0x3a\" slot=\"0x00\" function=\"0x0\""));
	plan_request_done(&req);
	plan_free(p);
	topo_unref(t);
}

/* ---- NVSwitches --------------------------------------------------------------------------------- */

static struct topo *with_mode(const char *mode)
{
	char *text = test_host_text("xe9680"), *answer = strstr(text, "\nanswers/fmpm/partitions"), *end = strchr(answer + 1, '\n');
	struct topo *t;

	memmove(answer, end, strlen(end) + 1); /* Fabric Manager is not asked */
	text = test_text_with(text, CONFIG, mode);
	t = test_topo_text(text);
	free(text);
	return t;
}

static struct plan *plan_with(const struct topo *t, const char *json, const struct plan_sick *sick)
{
	struct plan_request req = test_request(json);
	struct plan_input in = { .topo = t, .request = &req, .sick = sick, .nsick = sick != NULL, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	in.policy.boards.shared = 0; /* as the host says */
	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

/* nccl-tests#260: NVSwitches are one guest's, or nobody's. */
static void switches_go_with_the_host(void **state)
{
	static const char all[] = "{\"exclusive\":true,\"vcpus\":8,\"memory\":\"8G\"}", eight[] = "{\"gpus\":8,\"vcpus\":8,\"memory\":\"8G\"}";
	struct plan_sick sick = { test_bdf("0000:08:00.0"), "it is lame" };
	struct topo *whole = with_mode("FABRIC_MODE=0"), *shared = with_mode("FABRIC_MODE=2");
	struct plan *p;
	unsigned n = 0;

	(void)state;
	p = plan_with(whole, all, NULL);
	assert_true(p->fits && p->ngpus == 8 && p->nextras == 4);
	for (size_t i = 0; i < p->nextras; i++)
		assert_true(p->extra[i].nvswitch && topo_at(whole, topo_find(whole, p->extra[i].bdf))->fn->facts->kind == HOST_NVSWITCH);
	for (size_t i = 0; i < p->nsteps; i++)
		for (size_t e = 0; e < p->nextras; e++)
			n += p->step[i].kind == PLAN_STEP_BIND && bdf_eq(p->step[i].bdf, p->extra[e].bdf);
	assert_int_equal(n, 4);
	sick.bdf = p->extra[1].bdf;
	plan_free(p);
	has_extras(plan_with(whole, eight, NULL), ""); /* others may come */
	refused_with(plan_with(whole, all, &sick), "nvswitch.missing", NULL);
	refused_with(plan_with(whole, all, &sick), "device.quarantined", NULL);
	p = plan_with(shared, all, NULL);
	assert_int_equal(p->nextras, 0); /* Fabric Manager has them */
	plan_free(p);
	topo_unref(whole);
	topo_unref(shared);
}

static void nobody_asks_for_a_switch(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	char json[128], name[BDF_TEXT_MAX];
	uint32_t i = 0;

	(void)state;
	while (topo_at(t, i)->fn->facts->kind != HOST_NVSWITCH)
		i++;
	(void)snprintf(json, sizeof(json), "{\"gpus\":1,\"require\":[\"%s\"]}", bdf_text(name, topo_at(t, i)->fn->bdf));
	refused_with(plan_with(t, json, NULL), "device.kind", NULL);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(near_the_gpus),	 cmocka_unit_test(only_what_the_host_gave_up), cmocka_unit_test(drives_do_not_leak),
		cmocka_unit_test(is_in_the_guest),	 cmocka_unit_test(switches_go_with_the_host),
		cmocka_unit_test(nobody_asks_for_a_switch),
	};

	return cmocka_run_group_tests_name("extras", tests, NULL, NULL);
}
