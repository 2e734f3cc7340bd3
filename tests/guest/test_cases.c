/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What guests of other systems suffered from, on the hosts where it happened: the request, and what its guest has to be. Each test names
 * the public report, and has its number in our collection of them; 56 to 59 are in tests/hostsim/test_vf.sh, 80 in test_api.sh. */
#include "guest/guest.h"

#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "guest/layout.h"
#include "support.h"
#include "topo/gdr.h"

struct guest {
	struct topo        *topo;
	struct plan        *plan;
	struct guest_layout layout;
	char               *xml, *nccl; /* owned */
};

static void guest_init(struct guest *g, const char *host, const char *request)
{
	struct guest_env env = { .name = "g", .uuid = "5c2f5f0e-7a0e-4a52-9d5e-0a4c5b6d7e8f", .type = "kvm" };
	struct plan_request r;
	struct error err = ERROR_INIT;
	json_object *o = json_tokener_parse(request);

	assert_non_null(o);
	*g = (struct guest){ .topo = test_topo_host(host) };
	g->plan = test_plan(g->topo, request, NULL, 0);
	assert_true(g->plan->fits);
	assert_int_equal(plan_request_read(&r, o, &err), 0);
	if (guest_layout_build(&g->layout, g->plan, g->topo, &err) < 0 || guest_domain_xml(&g->xml, g->plan, &r, g->topo, &env, &err) < 0 ||
	    (g->plan->ngpus && guest_nccl_xml(&g->nccl, g->plan, g->topo, &err) < 0))
		fail_msg("%s", err.text);
	plan_request_done(&r);
	json_object_put(o);
}

static void guest_done(struct guest *g)
{
	free(g->xml);
	free(g->nccl);
	guest_layout_done(&g->layout);
	plan_free(g->plan);
	topo_unref(g->topo);
}

static const struct guest_device *device(const struct guest *g, struct bdf bdf)
{
	for (size_t i = 0; i < g->layout.ndevices; i++)
		if (bdf_eq(g->layout.device[i].bdf, bdf))
			return &g->layout.device[i];
	fail_msg("the guest lacks a device");
	return NULL;
}

/* The controller of that model above; 0: none. */
static unsigned above(const struct guest *g, struct bdf bdf, enum guest_model model)
{
	unsigned at = device(g, bdf)->at.bus;

	while (at && g->layout.controller[at - 1].model != model)
		at = g->layout.controller[at - 1].at.bus;
	return at;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

/* nccl 1464, 949; kata-containers 7967: a GPU and its VF lost their switch in the guest, and with it GPUDirect. */
static void case_1_2_9_gpu_and_vf_share_a_switch(void **state)
{
	struct guest g;

	(void)state;
	guest_init(&g, "xe9680", "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}");
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(above(&g, g.plan->vf[i].gpu, GUEST_USP), above(&g, g.plan->vf[i].bdf, GUEST_USP));
	assert_true(above(&g, g.plan->gpu[0], GUEST_USP) && above(&g, g.plan->gpu[1], GUEST_USP));
	assert_int_not_equal(above(&g, g.plan->gpu[0], GUEST_USP), above(&g, g.plan->gpu[1], GUEST_USP));
	assert_int_equal(count(g.xml, "<hostdev "), 4); /* no more than was asked for: nova 2098496 */
	guest_done(&g);
}

/* nccl 949: half the bandwidth, for ACS turned its requests away. That host has no ATS, and whoever asks learns it. */
static void case_2_redirected_is_said(void **state)
{
	struct guest g;
	size_t said = 0;

	(void)state;
	guest_init(&g, "xe9680", "{\"gpus\":2,\"vfs_per_gpu\":1,\"max_path\":\"PIX\",\"vcpus\":2}");
	for (size_t i = 0; i < g.plan->nnotes; i++)
		if (strcmp(g.plan->note[i].rule, "gdr.not-direct") == 0) {
			assert_non_null(strstr(g.plan->note[i].observed, "is redirected"));
			assert_non_null(strstr(g.plan->note[i].needed, "ATS_ENABLED=true"));
			said++;
		}
	assert_int_equal(said, 2);
	guest_done(&g);
}

/* nccl-tests 380: more than two NICs, and nobody said which pair went where. All pairs have a verdict, and the port that gave it. */
static void case_3_every_pair_has_a_verdict(void **state)
{
	struct guest g;

	(void)state;
	guest_init(&g, "xe9680", "{\"gpus\":8,\"vfs_per_gpu\":1,\"vcpus\":8,\"memory\":2147483648}");
	assert_int_equal(g.plan->ngpus, 8);
	for (size_t i = 0; i < g.plan->nvfs; i++)
		for (size_t k = 0; k < 8; k++) {
			struct topo_gdr gdr;
			const struct topo_route *r;

			topo_gdr(&gdr, g.topo, NULL, topo_gdr_ats(g.topo, topo_find(g.topo, g.plan->vf[i].pf)), topo_find(g.topo, g.plan->vf[i].pf), topo_find(g.topo, g.plan->gpu[k]));
			r = &gdr.part[gdr.worst];
			assert_int_equal(gdr.ats, HOST_ABSENT);
			assert_true(r->verdict == TOPO_REDIRECTED || r->verdict == TOPO_UNDECIDED);
			assert_true(r->decided != TOPO_NONE && r->nports > 0);
		}
	guest_done(&g);
}

/* nccl-tests 201: GPU and NIC that no switch joins. Whoever insists gets them, and hears what it costs; at PIX they are refused. */
static void case_4_far_pairs_are_said(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan *p = test_plan(t, "{\"gpus\":1,\"vfs\":1,\"vcpus\":2,\"require\":[\"0000:19:00.0\",\"0000:9c:00.1\"]}", NULL, 0);
	bool said = false;

	(void)state;
	assert_true(p->fits);
	assert_int_equal(p->vf[0].path, TOPO_SYS);
	for (size_t i = 0; i < p->nnotes; i++)
		said |= strcmp(p->note[i].rule, "gdr.not-direct") == 0 && strcmp(p->note[i].device, "0000:19:00.0") == 0;
	assert_true(said);
	plan_free(p);
	p = test_plan(t, "{\"gpus\":1,\"vfs\":1,\"vcpus\":2,\"max_path\":\"PIX\",\"require\":[\"0000:19:00.0\",\"0000:9c:00.1\"]}", NULL, 0);
	assert_false(p->fits);
	assert_true(p->nreasons > 0);
	plan_free(p);
	topo_unref(t);
}

/* nccl 1843, 977: a host's dump in the guest. Of the file each function is the guest's own, and each switch that is not is on no bus. */
static void case_6_7_nccl_has_the_guests_addresses(void **state)
{
	struct guest g;
	size_t found = 0;

	(void)state;
	guest_init(&g, "xe9680", "{\"gpus\":4,\"vfs_per_gpu\":1,\"vcpus\":4}");
	for (size_t i = 0; i < g.layout.ndevices; i++) {
		char name[BDF_TEXT_MAX], mark[BDF_TEXT_MAX + 16];

		(void)snprintf(mark, sizeof(mark), "busid=\"%s\"", bdf_text(name, guest_bdf(&g.layout, g.layout.device[i].at)));
		assert_int_equal(count(g.nccl, mark), 1);
		found++;
	}
	assert_int_equal(found, 8);
	assert_int_equal(count(g.nccl, "<pci "), found + count(g.nccl, "class=\"0x060400\""));
	guest_done(&g);
}

/* nccl 811: addresses in the guest changed, and the file did not. It is made from the same numbers as the domain, so with another bundle,
 * where the second GPU is at another address, it has that one. */
static void case_8_nccl_follows_the_addresses(void **state)
{
	struct guest one, more;
	char a[BDF_TEXT_MAX], b[BDF_TEXT_MAX];

	(void)state;
	guest_init(&one, "xe9680", "{\"gpus\":1,\"vfs_per_gpu\":1,\"vcpus\":2,\"require\":[\"0000:3b:00.0\"]}");
	guest_init(&more, "xe9680", "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2,\"require\":[\"0000:19:00.0\",\"0000:3b:00.0\"]}");
	(void)bdf_text(a, guest_bdf(&one.layout, device(&one, test_bdf("0000:3b:00.0"))->at));
	(void)bdf_text(b, guest_bdf(&more.layout, device(&more, test_bdf("0000:3b:00.0"))->at));
	assert_string_not_equal(a, b);
	assert_non_null(strstr(one.nccl, a));
	assert_non_null(strstr(more.nccl, b));
	assert_null(strstr(more.nccl, a));
	guest_done(&one);
	guest_done(&more);
}

/* kata-containers 12905: a GPU and its audio function came to two buses of the guest. They are one device there, too. */
static void case_11_functions_stay_together(void **state)
{
	const struct guest_device *gpu, *audio;
	struct guest g;

	(void)state;
	guest_init(&g, "workstation-epyc-starship-2gpu", "{\"gpus\":1,\"gdr\":\"off\",\"vcpus\":2,\"require\":[\"0000:41:00.0\"]}");
	gpu = device(&g, test_bdf("0000:41:00.0"));
	audio = device(&g, test_bdf("0000:41:00.1"));
	assert_int_equal(gpu->at.bus, audio->at.bus);
	assert_int_equal(gpu->at.slot, audio->at.slot);
	assert_true(gpu->at.function == 0 && gpu->multifunction && audio->at.function == 1 && !audio->multifunction);
	assert_int_equal(g.layout.ndevices, 2);
	guest_done(&g);
}

/* kubevirt 19103: grouped by NUMA node, a GPU and a NIC of two roots looked near. They share a cell and no expander, and no switch. */
static void case_13_roots_are_apart(void **state)
{
	static const char near[] = "{\"gpus\":1,\"vfs\":1,\"vcpus\":2,\"max_path\":\"PXB\",\"require\":[\"0000:19:00.0\",\"0000:3c:00.1\"]}";
	unsigned gpu, vf;
	struct plan *p;
	struct guest g;

	(void)state;
	guest_init(&g, "xe9680", "{\"gpus\":1,\"vfs\":1,\"vcpus\":2,\"require\":[\"0000:19:00.0\",\"0000:3c:00.1\"]}");
	gpu = above(&g, g.plan->gpu[0], GUEST_PXB);
	vf = above(&g, g.plan->vf[0].bdf, GUEST_PXB);
	assert_int_equal(g.plan->vf[0].path, TOPO_NODE);
	assert_true(gpu && vf && gpu != vf);
	assert_int_equal(g.layout.controller[gpu - 1].cell, g.layout.controller[vf - 1].cell);
	assert_int_equal(g.plan->ncells, 1);
	assert_int_not_equal(above(&g, g.plan->gpu[0], GUEST_USP), above(&g, g.plan->vf[0].bdf, GUEST_USP));
	p = test_plan(g.topo, near, NULL, 0);
	assert_false(p->fits);
	plan_free(p);
	guest_done(&g);
}

/* kubevirt 13926: numa_node -1. OpenNebula 7408: the wrong one. Each GPU is below an expander of the cell that its own node backs. */
static void case_12_15_nodes_are_the_hosts(void **state)
{
	struct guest g;

	(void)state;
	guest_init(&g, "xe9680", "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2,\"require\":[\"0000:19:00.0\",\"0000:9b:00.0\"]}");
	assert_int_equal(g.plan->ncells, 2);
	for (size_t i = 0; i < 2; i++) {
		unsigned pxb = above(&g, g.plan->gpu[i], GUEST_PXB);

		assert_int_not_equal(pxb, 0);
		assert_int_equal(g.plan->cell[g.layout.controller[pxb - 1].cell].host_node, g.plan->gpu_node[i]);
	}
	assert_int_not_equal(g.plan->gpu_node[0], g.plan->gpu_node[1]);
	guest_done(&g);
}

/* kubevirt 17886: a device whose address was given lost its place without a word. Nobody gives one here. */
static void case_17_addresses_are_not_asked_for(void **state)
{
	static const char *const requests[] = { "{\"gpus\":1,\"guest_address\":\"0000:05:00.0\"}", "{\"gpus\":1,\"x-no-mmap\":true}",
						"{\"gpus\":1,\"iommufd\":true}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		json_object *o = json_tokener_parse(requests[i]);
		struct error err = ERROR_INIT;
		struct plan_request r;

		assert_int_equal(plan_request_read(&r, o, &err), -EINVAL);
		assert_non_null(strstr(err.text, i == 0 ? "guest_address" : i == 1 ? "x-no-mmap" : "iommufd"));
		json_object_put(o);
	}
}

/* lxd 15872, 14380, 14381: BARs of 256 GiB, and a window that was left as it is: eight take 8 TiB, told to libvirt and to OVMF. */
static void case_78_big_bars_have_a_window(void **state)
{
	struct guest g;

	(void)state;
	guest_init(&g, "hgx-b200-8gpu", "{\"gpus\":8,\"vcpus\":8,\"memory\":2147483648,\"firmware\":\"uefi\"}");
	assert_int_equal(g.layout.mmio64 >> 40, 8); /* eight of 256 GiB and more, rounded, twice */
	assert_non_null(strstr(g.xml, "<pcihole64 unit=\"KiB\">8589934592</pcihole64>"));
	assert_non_null(strstr(g.xml, "opt/ovmf/X-PciMmio64Mb,string=8388608"));
	assert_non_null(strstr(g.xml, "<maxphysaddr mode=\"passthrough\"/>"));
	guest_done(&g);
}

/* The same on a CPU that has no room for them: refused with the numbers, and fewer fit. */
static void case_78_big_bars_without_room(void **state)
{
	char *text = test_host_text("hgx-b200-8gpu"), *bits = strstr(text, "52 bits physical");
	struct plan_request r = test_request("{\"gpus\":8,\"vcpus\":8,\"memory\":2147483648}");
	struct guest_dirs dirs = { .console = "/c", .images = "/i" };
	struct error err = ERROR_INIT;
	struct topo *t;
	struct plan *p;

	(void)state;
	assert_non_null(bits);
	memcpy(bits, "43", 2);
	t = test_topo_text(text);
	p = test_plan(t, "{\"gpus\":8,\"vcpus\":8,\"memory\":2147483648}", NULL, 0);
	assert_true(p->fits);
	assert_int_equal(guest_plan_xml(p, &r, t, "kvm", NULL, &dirs, &err), 0);
	assert_false(p->fits);
	assert_string_equal(p->reason[0].observed, "BARs of the devices take a window of 8192 GiB of addresses, beside 2 GiB of memory: 44 bits, and "
						   "guests have 43 here, as the CPU has");
	plan_free(p);
	p = test_plan(t, "{\"gpus\":2,\"vcpus\":8}", NULL, 0);
	assert_int_equal(guest_plan_xml(p, &r, t, "kvm", NULL, &dirs, &err), 0);
	assert_true(p->fits && p->domain_xml);
	plan_free(p);
	plan_request_done(&r);
	topo_unref(t);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_1_2_9_gpu_and_vf_share_a_switch),
		cmocka_unit_test(case_2_redirected_is_said),
		cmocka_unit_test(case_3_every_pair_has_a_verdict),
		cmocka_unit_test(case_4_far_pairs_are_said),
		cmocka_unit_test(case_6_7_nccl_has_the_guests_addresses),
		cmocka_unit_test(case_8_nccl_follows_the_addresses),
		cmocka_unit_test(case_11_functions_stay_together),
		cmocka_unit_test(case_13_roots_are_apart),
		cmocka_unit_test(case_12_15_nodes_are_the_hosts),
		cmocka_unit_test(case_17_addresses_are_not_asked_for),
		cmocka_unit_test(case_78_big_bars_have_a_window),
		cmocka_unit_test(case_78_big_bars_without_room),
	};

	return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
