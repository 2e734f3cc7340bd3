/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What users of other systems suffer from when devices are chosen, each with its public report; those that other tests here are about have
 * their number in the name, too: 22 in test_place, 30, 31, 33, 35, 37 and 42 in test_choice, 38 and 39 in test_gang. */
#include "base/file.h"
#include "guest/guest.h"
#include "plan/acs.h"
#include "support.h"
#include "topo/gdr.h"

static bool of_rule(const struct plan *p, const char *rule, const char *device)
{
	for (size_t i = 0; i < p->nreasons; i++)
		if (strcmp(p->reason[i].rule, rule) == 0 && strcmp(p->reason[i].device, device) == 0)
			return true;
	return false;
}

/* Case 18, nccl#603: with the redirects of ACS and no ATS, peer-to-peer goes through the root complex, and jobs hang. */
static void case_18_redirected_is_refused(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct topo_gdr g;
	struct plan *p;

	(void)state;
	topo_gdr(&g, t, NULL, topo_gdr_ats(t, test_at(t, "0000:1a:00.0")), test_at(t, "0000:1a:00.0"), test_at(t, "0000:19:00.0"));
	assert_true(g.ats == HOST_ABSENT && g.part[g.worst].verdict == TOPO_REDIRECTED && g.part[TOPO_GDR_WRITE].rule == TOPO_RULE_RR);
	p = test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"gdr\":\"required\",\"require\":[\"0000:19:00.0\"]}", NULL, 0);
	assert_true(!p->fits && of_rule(p, "gdr.not-direct", "0000:19:00.0"));
	assert_string_equal(p->reason[p->nreasons - 1].needed, "gdr preferred");
	plan_free(p);
	topo_unref(t);
}

/* Case 20, NVIDIA/QEMU#7: a guest's kernel that has an IOMMU sets ACS of the emulated ports (pci_enable_acs() asks pci_acs_enable, which
 * IOMMU drivers set), and NCCL takes them for what stands between GPU and NIC. Guests have none, so no port is touched. */
static void case_20_no_iommu_in_guests(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan_request req = test_request("{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}");
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}", NULL, 0);
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(guest_plan_xml(p, &req, t, "kvm", NULL, &(struct guest_dirs){ "/var/log", "/var/lib", NULL }, &err), 0);
	assert_non_null(strstr(p->domain_xml, "pcie-switch-downstream-port"));
	assert_null(strstr(p->domain_xml, "<iommu"));
	assert_null(strstr(p->domain_xml, "acs"));
	plan_free(p);
	plan_request_done(&req);
	topo_unref(t);
}

static char *text_of(const char *host, size_t *len)
{
	char path[512], *text = NULL;

	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", host);
	assert_int_equal(file_read(&text, len, path, 16 << 20), 0);
	return text;
}

/* Case 25, harvester#10499: after a new kernel the groups have other numbers. Nothing that is kept has one. */
static void case_25_groups_are_no_names(void **state)
{
	static const char request[] = "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}";
	size_t len = 0;
	autofree char *text = text_of("xe9680", &len);
	struct topo *a = test_topo_text(text), *b;
	struct plan *p = test_plan(a, request, NULL, 0), *q;
	json_object *x, *y;
	unsigned n = 0;

	(void)state;
	for (char *at = text; (at = strstr(at, "kernel/iommu_groups/")); n++) {
		at += strlen("kernel/iommu_groups/");
		*at = *at == '1' ? '2' : *at == '2' ? '1' : *at; /* 1x and 2x change places */
	}
	assert_true(n > 20);
	b = test_topo_text(text);
	assert_int_not_equal(topo_at(a, test_at(a, "0000:19:00.0"))->fn->iommu_group, topo_at(b, test_at(b, "0000:19:00.0"))->fn->iommu_group);
	q = test_plan(b, request, NULL, 0);
	x = plan_json(p);
	y = plan_json(q);
	assert_true(p->fits && json_object_equal(x, y));
	assert_null(strstr(json_object_to_json_string(json_object_object_get(x, "steps")), "group"));
	json_object_put(x);
	json_object_put(y);
	plan_free(p);
	plan_free(q);
	topo_unref(a);
	topo_unref(b);
}

/* Case 28, DRA driver for SR-IOV: where a GB200's NIC is tells nothing of its way to GPU memory: its data-direct function (15b3:2100) is
 * below the GPU's switches. The rail is found by that, and so is what is direct; the group that both share is one guest's or nobody's. */
static void case_28_data_direct_is_the_way(void **state)
{
	struct topo *t = test_topo_host("gb200-oci-4gpu");
	uint32_t gpu = test_at(t, "0008:06:00.0"), nic = test_at(t, "0000:03:00.0"), dma = test_at(t, "0008:03:00.0");
	const struct plan_acs_want want[] = { { topo_at(t, dma)->fn->bdf, topo_at(t, gpu)->fn->bdf }, { topo_at(t, nic)->fn->bdf, topo_at(t, gpu)->fn->bdf } };
	struct plan_acs *acs = NULL;
	struct error err = ERROR_INIT;
	struct plan *p;

	(void)state;
	assert_true(topo_at(t, dma)->fn->facts->vendor == 0x15b3 && topo_at(t, dma)->fn->facts->device == 0x2100);
	assert_true(topo_gdr_by(topo_at(t, dma)->fn->facts->kind) && topo_path(t, gpu, dma) == TOPO_PXB && topo_path(t, gpu, nic) == TOPO_NODE);
	assert_true(topo_at(t, gpu)->rail >= 0 && topo_at(t, gpu)->rail == topo_at(t, nic)->rail);
	assert_int_equal(plan_acs_make(&acs, t, NULL, want, 2, &err), 0);
	assert_true(acs->pair[0].state == PLAN_ACS_DIRECT && acs->pair[1].state != PLAN_ACS_DIRECT);
	plan_acs_free(acs);
	p = test_plan(t, "{\"gpus\":1,\"require\":[\"0008:06:00.0\"]}", NULL, 0);
	assert_true(!p->fits && of_rule(p, "group.shared", "0008:06:00.0"));
	plan_free(p);
	topo_unref(t);
}

/* Case 29, dra-driver-nvidia-gpu#213: a distance can be asked for, and each VF is within it or none is given. */
static void case_29_distance_is_kept(void **state)
{
	struct topo *t = test_topo_host("l40s-4u"); /* four of eight GPUs have a NIC below their switch */
	struct plan *p = test_plan(t, "{\"gpus\":4,\"vfs_per_gpu\":1,\"vcpus\":4,\"max_path\":\"PIX\"}", NULL, 0);

	(void)state;
	assert_true(p->fits && p->nvfs == 4);
	for (size_t i = 0; i < p->nvfs; i++)
		assert_true(p->vf[i].path == TOPO_PIX &&
			    topo_path(t, topo_find(t, p->vf[i].gpu), topo_find(t, p->vf[i].pf)) == TOPO_PIX);
	plan_free(p);
	p = test_plan(t, "{\"gpus\":5,\"vfs_per_gpu\":1,\"vcpus\":5,\"max_path\":\"PIX\"}", NULL, 0);
	assert_false(p->fits);
	assert_true(test_has_reason(p, "path.too-far") && test_has_reason(p, "nearest"));
	plan_free(p);
	p = test_plan(t, "{\"gpus\":5,\"vfs_per_gpu\":1,\"vcpus\":5,\"max_path\":\"NODE\"}", NULL, 0);
	assert_true(p->fits && p->worst_path == TOPO_NODE);
	plan_free(p);
	topo_unref(t);
}

/* Case 36, nccl-tests#260: of four guests with two GPUs each one had the NVSwitches. Where they are shared out nobody has them, also not who
 * has all GPUs. */
static void case_36_no_switch_for_a_tenant(void **state)
{
	static const char *const requests[] = { "{\"gpus\":2,\"vcpus\":2}", "{\"gpus\":8,\"vcpus\":8,\"memory\":\"2G\"}",
						"{\"exclusive\":true,\"vcpus\":8,\"memory\":\"2G\"}" };
	struct topo *t = test_topo_host("xe9680");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct plan_request req = test_request(requests[i]);
		struct plan_input in = { .topo = t, .request = &req, .policy = TEST_POLICY };
		struct error err = ERROR_INIT;
		struct plan *p = NULL;

		in.policy.boards.shared = 1;
		assert_int_equal(plan_make(&p, &in, &err), 0);
		assert_true(p->fits && p->nextras == 0);
		for (size_t k = 0; k < p->nsteps; k++) {
			uint32_t at = plan_step_of_function(p->step[k].kind) ? topo_find(t, p->step[k].bdf) : TOPO_NONE;

			assert_true(at == TOPO_NONE || topo_at(t, at)->fn->facts->kind != HOST_NVSWITCH);
		}
		plan_free(p);
		plan_request_done(&req);
	}
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_18_redirected_is_refused), cmocka_unit_test(case_20_no_iommu_in_guests), cmocka_unit_test(case_25_groups_are_no_names),
		cmocka_unit_test(case_28_data_direct_is_the_way), cmocka_unit_test(case_29_distance_is_kept), cmocka_unit_test(case_36_no_switch_for_a_tenant),
	};

	return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
