/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether NICs' requests will be translated in guests: one machine in the states that decide it, and kernels' names. */
#include "topo/ats.h"

#include <linux/pci_regs.h>

#include "support.h"
#include "topo/gdr.h"

#define PF  "0000:4d:00.0" /* of xe9680, a ConnectX-7 */
#define IGB "0000:25:00.0" /* of lab */

static void kernels(void **state)
{
	static const struct {
		const char *release;
		enum host_known at; /* from 6.12 on */
	} cases[] = {
		{ "6.12.0", HOST_PRESENT },
		{ "6.12.57+deb13-amd64", HOST_PRESENT },
		{ "6.14.0-1007-nvidia-64k", HOST_PRESENT },
		{ "7.0.0-rc1", HOST_PRESENT },
		{ "6.12.0-55.9.1.el10_0.x86_64", HOST_PRESENT },
		{ "6.1.192", HOST_ABSENT },
		{ "6.1.0-28-amd64", HOST_ABSENT },
		{ "6.1.0-28-cloud-arm64", HOST_ABSENT },
		{ "6.9.7+bpo-amd64", HOST_ABSENT },
		{ "6.11.0-rc3+", HOST_ABSENT },
		{ "5.4", HOST_ABSENT },
		{ "6.8.0-1013-nvidia", HOST_UNKNOWN },
		{ "6.8.0-45-generic", HOST_UNKNOWN },
		{ "5.14.0-503.el9", HOST_UNKNOWN },
		{ "5.14.0-427.42.1.el9_4.x86_64", HOST_UNKNOWN },
		{ "5.14.21-150400.24.108-default", HOST_UNKNOWN },
		{ "6.8.12-4-pve", HOST_UNKNOWN },
		{ "amd64", HOST_UNKNOWN },
		{ "", HOST_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (host_kernel_since(cases[i].release, 6, 12) != cases[i].at)
			fail_msg("\"%s\" is %s", cases[i].release, host_known_text(host_kernel_since(cases[i].release, 6, 12)));
	assert_int_equal(host_kernel_since("6.11.0-rc3", 6, 11), HOST_PRESENT);
}

/* A machine whose NIC can do it, and one thing that is otherwise. */
struct machine {
	const char *kernel, *domain;   /* of PF's group; NULL: not known */
	int         passthrough;       /* of the command line; -1 nothing */
	uint16_t    ctl;               /* ATS control of the PF */
};

static struct topo *machine(const struct machine *m)
{
	struct topo *t = test_topo_host("xe9680");
	struct host_facts *pf = (struct host_facts *)topo_at(t, test_at(t, PF))->fn->facts;
	struct inventory *inv = (struct inventory *)topo_inventory(t);

	pf->cap.ats = (struct pcicap_ats){ .known = HOST_PRESENT, .ctl = m->ctl };
	pf->dma_domain = m->domain;
	inv->kernel = m->kernel;
	inv->system.boot.passthrough = m->passthrough;
	return t;
}

static void judge(const struct topo *t, bool vf, enum topo_ats_state state, const char *rule, const char *observed, const char *fix)
{
	struct arena arena = { 0 };
	struct topo_ats a;

	assert_int_equal(topo_ats(&a, t, test_at(t, PF), vf, &arena), 0);
	if (a.state != state || strcmp(a.rule, rule) != 0 || !strstr(a.observed, observed) || !strstr(a.fix, fix))
		fail_msg("%d, %s: %s; needed: %s; fix: %s", (int)a.state, a.rule, a.observed, a.needed, a.fix);
	assert_true((*a.observed && *a.needed && *a.fix) == (state != TOPO_ATS_OK));
	arena_done(&arena);
}

static void vf_needs_stu(void **state)
{
	static const struct {
		struct machine m;
		enum topo_ats_state state;
		const char *rule, *observed;
	} cases[] = {
		{ { "6.1.192", "identity", 1, 0 }, TOPO_ATS_NO, "ats.identity", "(its IOMMU group is of type identity), so kernel 6.1.192 does not" },
		{ { "6.1.192", "DMA-FQ", 0, PCI_ATS_CTRL_ENABLE }, TOPO_ATS_OK, "", "" },
		{ { "6.1.192", "identity", 0, 0 }, TOPO_ATS_NO, "ats.identity", "type identity" }, /* the file counts, not the argument */
		{ { "6.1.192", "DMA-FQ", 1, PCI_ATS_CTRL_ENABLE }, TOPO_ATS_OK, "", "" },
		{ { "6.1.192", "identity", 1, PCI_ATS_CTRL_ENABLE }, TOPO_ATS_OK, "", "" }, /* it is set: AMD's driver did so */
		{ { "6.1.192", NULL, 1, 0 }, TOPO_ATS_NO, "ats.identity", "(iommu=pt)" },
		{ { "6.1.192", NULL, 0, 0 }, TOPO_ATS_OK, "", "" },
		{ { "6.1.192", NULL, -1, 0 }, TOPO_ATS_UNKNOWN, "ats.identity", "is not known, and if not, kernel 6.1.192 does not" },
		{ { "6.12.48+deb13-amd64", "identity", 1, 0 }, TOPO_ATS_OK, "", "" },
		{ { "6.12.48+deb13-amd64", NULL, -1, 0 }, TOPO_ATS_OK, "", "" },
		{ { "5.14.0-503.el9", "identity", 1, 0 }, TOPO_ATS_UNKNOWN, "ats.identity", "kernel 5.14.0-503.el9 may not" },
		{ { "5.14.0-503.el9", "DMA", 1, PCI_ATS_CTRL_ENABLE }, TOPO_ATS_OK, "", "" },
		{ { "", "identity", 1, 0 }, TOPO_ATS_UNKNOWN, "ats.identity", "kernel ? may not" },
		{ { "6.12.48", "DMA-FQ", 0, 0 }, TOPO_ATS_UNKNOWN, "ats.platform", "ATSR" },
		{ { "6.1.192", "DMA", 0, 0 }, TOPO_ATS_UNKNOWN, "ats.platform", "has not enabled its ATS" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct topo *t = machine(&cases[i].m);

		judge(t, true, cases[i].state, cases[i].rule, cases[i].observed, "");
		judge(t, false, TOPO_ATS_OK, "", "", ""); /* the PF itself gets its ATS, and STU, when a guest gets it */
		topo_unref(t);
	}
}

static void fixes(void **state)
{
	struct topo *t = machine(&(struct machine){ "6.1.192", "identity", 1, 0 });
	struct host_facts *pf = (struct host_facts *)topo_at(t, test_at(t, PF))->fn->facts;
	struct inventory *inv = (struct inventory *)topo_inventory(t);
	const char *cmdline = inv->cmdline;

	(void)state;
	judge(t, true, TOPO_ATS_NO, "ats.identity", "", "iommu=nopt");
	inv->cmdline = "";
	judge(t, false, TOPO_ATS_UNKNOWN, "ats.unread", "command line", "");
	inv->cmdline = cmdline;
	inv->iommu = HOST_UNKNOWN;
	judge(t, false, TOPO_ATS_UNKNOWN, "ats.unread", "IOMMU", "");
	inv->iommu = HOST_ABSENT;
	judge(t, false, TOPO_ATS_NO, "ats.iommu-off", "IOMMU is off", "VT-d");
	inv->system.boot.no_ats = true;
	judge(t, false, TOPO_ATS_NO, "ats.noats", "pci=noats", "take noats out");
	pf->cap.ats.known = HOST_UNKNOWN;
	judge(t, true, TOPO_ATS_UNKNOWN, "ats.unread", "cannot be read", "as root");
	pf->cap.ats.known = HOST_ABSENT;
	judge(t, true, TOPO_ATS_NO, "ats.absent", PF " has no ATS capability", "mlxconfig -d " PF " set ATS_ENABLED=true, then reboot the host");
	pf->vendor = 0x8086;
	judge(t, true, TOPO_ATS_NO, "ats.absent", PF " has no ATS capability", "its vendor's tool");
	pf->cap.pcie = HOST_ABSENT;
	judge(t, true, TOPO_ATS_NO, "ats.absent", "conventional PCI", "another NIC");
	topo_unref(t);
}

/* From files to answer: the lab's host as it was seen on two kernels, and a VF judged by its PF. */
static void from_files(void **state)
{
	static const struct {
		const char *kernel, *type;
		enum topo_ats_state state;
	} cases[] = {
		{ "6.12.118+deb13-amd64", "identity", TOPO_ATS_OK },
		{ "6.1.0-38-amd64", "identity", TOPO_ATS_NO },
		{ "6.1.0-38-amd64", "something new", TOPO_ATS_NO }, /* then iommu=pt of the command line counts */
		{ "6.1.0-38-amd64", "DMA-FQ", TOPO_ATS_UNKNOWN }, /* Enable- of the PF is in the text */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = test_text_with(test_host_text("lab"), "proc/sys/kernel/osrelease", cases[i].kernel), path[64];
		struct topo *t = test_topo_text(text);
		struct arena arena = { 0 };
		struct topo_ats a;

		(void)snprintf(path, sizeof(path), "sys/kernel/iommu_groups/%d/type", topo_at(t, test_at(t, IGB))->fn->iommu_group);
		text = test_text_with(text, path, cases[i].type);
		topo_unref(t);
		t = test_topo_text(text);
		assert_int_equal(topo_ats(&a, t, test_at(t, IGB), true, &arena), 0);
		if (a.state != cases[i].state)
			fail_msg("case %zu is %d: %s", i, (int)a.state, a.observed);
		arena_done(&arena);
		topo_unref(t);
		free(text);
	}
}

/* With Direct Translated P2P on everywhere only ATS decides, and a capability alone is no answer. */
static void routes_hang_on_it(void **state)
{
	static const struct {
		const char *host, *nic, *gpu;
		enum host_known ats;
		enum topo_verdict verdict;
	} cases[] = {
		{ "hgx-b200-8gpu", "0000:18:00.0", "0000:17:00.0", HOST_PRESENT, TOPO_DIRECT },
		{ "l40s-4u", "0000:3f:00.0", "0000:3d:00.0", HOST_UNKNOWN, TOPO_UNDECIDED }, /* an old kernel, perhaps mended, and iommu=pt */
		{ "egress", "0000:14:00.0", "0000:13:00.0", HOST_UNKNOWN, TOPO_UNDECIDED },  /* not on though it might */
		{ "xe9680", "0000:1a:00.0", "0000:19:00.0", HOST_ABSENT, TOPO_REDIRECTED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct topo *t = test_topo_host(cases[i].host);
		uint32_t nic = test_at(t, cases[i].nic), gpu = test_at(t, cases[i].gpu);
		uint16_t *ctl = calloc(topo_count(t), sizeof(*ctl));
		struct topo_gdr g;

		for (uint32_t k = 0; k < topo_count(t); k++)
			ctl[k] = topo_at(t, k)->fn->facts->cap.acs.ctl | (topo_at(t, k)->fn->facts->cap.acs.cap & TOPO_ACS_DT);
		assert_int_equal(topo_ats_known(t, nic), cases[i].ats);
		topo_gdr(&g, t, ctl, topo_ats_known(t, nic), nic, gpu);
		if (g.part[TOPO_GDR_WRITE].verdict != cases[i].verdict)
			fail_msg("%s: %s", cases[i].host, topo_verdict_text(g.part[TOPO_GDR_WRITE].verdict));
		assert_true(i == 3 || topo_gdr_ats(t, nic) == HOST_PRESENT);
		free(ctl);
		topo_unref(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels), cmocka_unit_test(vf_needs_stu), cmocka_unit_test(fixes), cmocka_unit_test(from_files),
		cmocka_unit_test(routes_hang_on_it),
	};

	return cmocka_run_group_tests_name("ats", tests, NULL, NULL);
}
