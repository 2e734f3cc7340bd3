/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bundles whose NICs reach their GPUs directly: required, preferred, off; the acs steps; what others hold; and bundles
 * that would not be alone. */
#include "plan/acs.h"

#include "support.h"
#include "host/inventory.h"
#include "topo/gdr.h"

#define GPU	 "0000:4c:00.0" /* of xe9680, alone with NIC PF and an NVMe drive below one switch */
#define PF	 "0000:4d:00.0"
#define PORT	 "0000:4a:02.0" /* the NIC's */
#define GPU_PORT "0000:4a:01.0"

static struct host_facts *facts(struct topo *t, const char *bdf)
{
	return (struct host_facts *)topo_at(t, test_at(t, bdf))->fn->facts; /* a test may make a machine worse */
}

/* xe9680 with ATS on in every NIC's firmware, and a kernel that gives it to VFs. */
static struct topo *with_ats(void)
{
	struct topo *t = test_topo_host("xe9680");

	for (uint32_t i = 0; i < topo_count(t); i++)
		if (topo_at(t, i)->fn->facts->kind == HOST_NIC)
			((struct host_facts *)topo_at(t, i)->fn->facts)->cap.ats.known = HOST_PRESENT;
	((struct inventory *)topo_inventory(t))->kernel = "6.12.0";
	return t;
}

static struct plan *plan_of(struct topo *t, const char *json, const struct plan_taken *taken, const struct plan_acs_held *held)
{
	return test_plan_held(t, json, taken, taken ? 1 : 0, held, held ? 1 : 0);
}

static const struct plan_step *step_of(const struct plan *p, const char *target)
{
	for (size_t i = 0; i < p->nsteps; i++)
		if (p->step[i].kind == PLAN_STEP_ACS && strcmp(p->step[i].target, target) == 0)
			return &p->step[i];
	return NULL;
}

static size_t acs_steps(const struct plan *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->nsteps; i++)
		n += p->step[i].kind == PLAN_STEP_ACS;
	return n;
}

static size_t last_bind(const struct plan *p)
{
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < p->nsteps; i++)
		if (p->step[i].kind == PLAN_STEP_BIND)
			last = i;
	assert_true(last < p->nsteps);
	return last;
}

/* Notes on routes; those on settings are tests/plan/test_settings.c's. */
static size_t gdr_notes(const struct plan *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->nnotes; i++)
		n += strncmp(p->note[i].rule, "settings.", 9) != 0;
	return n;
}

static const struct plan_reason *reason_of(const struct plan *p, const char *rule, const char *device)
{
	for (size_t i = 0; i < p->nreasons; i++)
		if (strcmp(p->reason[i].rule, rule) == 0 && strcmp(p->reason[i].device, device) == 0)
			return &p->reason[i];
	fail_msg("no reason %s of %s", rule, device);
	return NULL;
}

#define ONE "\"gpus\":1,\"vfs_per_gpu\":1,\"require\":[\"" GPU "\"]"

static void required_is_direct(void **state)
{
	struct topo *t = with_ats();
	struct plan *p = plan_of(t, "{" ONE ",\"gdr\":\"required\"}", NULL, NULL);
	const struct plan_step *s = step_of(p, PORT);
	uint16_t *ctl = calloc(topo_count(t), sizeof(*ctl));
	struct topo_gdr g;

	(void)state;
	assert_true(p->fits);
	assert_int_equal(gdr_notes(p), 0);
	assert_int_equal(acs_steps(p), 1);
	assert_non_null(s);
	assert_string_equal(s->from, "0x1d");
	assert_string_equal(s->to, "0x5d");
	assert_true(bdf_eq(s->bdf, test_bdf(PORT)));
	assert_int_equal(s - p->step, p->nsteps - 2); /* after all binds and settings, before the guest */
	assert_true(last_bind(p) < (size_t)(s - p->step));
	assert_int_equal(p->step[p->nsteps - 1].kind, PLAN_STEP_DOMAIN);
	for (uint32_t i = 0; i < topo_count(t); i++)
		ctl[i] = i == test_at(t, PORT) ? 0x5d : topo_at(t, i)->fn->facts->cap.acs.ctl;
	topo_gdr(&g, t, ctl, topo_gdr_ats(t, test_at(t, PF)), test_at(t, PF), test_at(t, GPU));
	assert_int_equal(g.part[g.worst].verdict, TOPO_DIRECT);
	free(ctl);
	plan_free(p);
	topo_unref(t);
}

static void without_ats(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct plan *p = plan_of(t, "{" ONE ",\"gdr\":\"required\"}", NULL, NULL);
	const struct plan_reason *why = reason_of(p, "gdr.not-direct", GPU);

	(void)state;
	assert_false(p->fits);
	assert_int_equal(p->nsteps + p->ngpus + p->nvfs + gdr_notes(p), 0);
	assert_non_null(strstr(why->observed, "traffic with NIC " PF " is redirected: " PF " has no ATS capability"));
	assert_non_null(strstr(why->needed, "mlxconfig -d " PF " set ATS_ENABLED=true"));
	plan_free(p);
	p = plan_of(t, "{" ONE "}", NULL, NULL); /* preferred is the default */
	assert_true(p->fits);
	assert_int_equal(gdr_notes(p), 1);
	assert_string_equal(p->note[0].rule, "gdr.not-direct");
	assert_string_equal(p->note[0].device, GPU);
	assert_non_null(strstr(p->note[0].needed, "mlxconfig"));
	assert_int_equal(acs_steps(p), 0);
	plan_free(p);
	p = plan_of(t, "{" ONE ",\"gdr\":\"off\"}", NULL, NULL);
	assert_true(p->fits);
	assert_int_equal(gdr_notes(p), 0);
	plan_free(p);
	topo_unref(t);
}

static void off_sets_nothing(void **state)
{
	struct topo *t = with_ats();
	struct plan *p = plan_of(t, "{" ONE ",\"gdr\":\"off\"}", NULL, NULL);

	(void)state;
	assert_true(p->fits);
	assert_int_equal(acs_steps(p), 0);
	plan_free(p);
	p = plan_of(t, "{\"gpus\":1}", NULL, NULL); /* no VFs: no pairs */
	assert_int_equal(acs_steps(p) + gdr_notes(p), 0);
	plan_free(p);
	topo_unref(t);
}

/* What cannot be known is no direct path. */
static void unknown_is_not_direct(void **state)
{
	struct topo *t = with_ats();
	struct plan *p;

	(void)state;
	facts(t, PORT)->cap.acs.known = HOST_UNKNOWN;
	p = plan_of(t, "{" ONE ",\"max_path\":\"PIX\",\"gdr\":\"required\"}", NULL, NULL);
	assert_false(p->fits);
	assert_non_null(strstr(reason_of(p, "gdr.not-direct", GPU)->observed, "with NIC " PF " is unknown: at " PORT));
	assert_string_equal(reason_of(p, "gdr.not-direct", GPU)->needed, "read the host as root");
	plan_free(p);
	topo_unref(t);
}

/* The lab's host as it was seen on real kernels: whether its VFs get ATS hangs on the kernel, and on what the PF's own
 * DMA goes through. */
static void kernel_and_domain(void **state)
{
	static const struct {
		const char *kernel, *type;
		uint16_t    ctl; /* ATS control of the PF: Enable, where its DMA is translated */
		bool        fits;
		const char *rule, *says;
	} cases[] = {
		{ "6.12.118+deb13-amd64", "identity", 0, true, NULL, NULL },
		{ "6.1.0-38-amd64", "DMA-FQ", 0x8000, true, NULL, NULL },
		{ "6.1.0-38-amd64", "identity", 0, false, "ats.identity", "is redirected: the DMA of PF 0000:25:00.0 is not translated" },
		{ "5.14.0-503.el9.x86_64", "identity", 0, false, "ats.identity", "is unknown: the DMA of PF 0000:25:00.0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = test_text_with(test_host_text("lab"), "proc/sys/kernel/osrelease", cases[i].kernel);
		struct topo *t = test_topo_text(text);
		struct host_facts *pf = facts(t, "0000:25:00.0");
		struct plan *p;

		pf->dma_domain = cases[i].type;
		pf->cap.ats.ctl = cases[i].ctl;
		p = plan_of(t, "{\"gpus\":2,\"vfs\":1,\"numa_node\":0,\"max_path\":\"PIX\",\"gdr\":\"required\"}", NULL, NULL);
		assert_int_equal(p->fits, cases[i].fits);
		assert_int_equal(gdr_notes(p), 0);
		if (cases[i].rule) {
			assert_non_null(strstr(reason_of(p, cases[i].rule, "0000:23:00.0")->observed, cases[i].says));
			assert_non_null(strstr(reason_of(p, cases[i].rule, "0000:24:00.0")->needed, "iommu=nopt"));
			assert_int_equal(p->nsteps, 0);
		}
		plan_free(p);
		p = plan_of(t, "{\"gpus\":2,\"vfs\":1,\"numa_node\":0,\"max_path\":\"PIX\"}", NULL, NULL);
		assert_true(p->fits);
		assert_int_equal(p->nnotes, cases[i].rule ? 2 : 0); /* for each GPU */
		assert_int_equal(acs_steps(p), 1); /* the switch may do its part */
		if (cases[i].rule)
			assert_string_equal(p->note[0].rule, cases[i].rule);
		plan_free(p);
		topo_unref(t);
		free(text);
	}
}

/* Where nothing turns untranslated requests away, ATS has no part. */
static void direct_without_ats(void **state)
{
	struct topo *t = with_ats();
	struct plan *p;

	(void)state;
	((struct inventory *)topo_inventory(t))->system.boot.no_ats = true;
	p = plan_of(t, "{" ONE ",\"gdr\":\"required\"}", NULL, NULL);
	assert_false(p->fits);
	assert_non_null(strstr(reason_of(p, "ats.noats", GPU)->needed, "take noats out"));
	plan_free(p);
	for (uint32_t i = 0; i < topo_count(t); i++) /* nobody else is below that switch */
		if (topo_path(t, i, test_at(t, GPU)) == TOPO_PIX && i != test_at(t, PF))
			((struct host_function *)topo_at(t, i)->fn)->driver = 0;
	facts(t, PORT)->cap.acs.ctl = facts(t, GPU_PORT)->cap.acs.ctl = 0;
	p = plan_of(t, "{" ONE ",\"max_path\":\"PIX\"}", NULL, NULL);
	for (size_t i = 0; i < p->nreasons; i++)
		assert_string_equal(p->reason[i].rule, "isolation.leak");
	assert_int_equal(gdr_notes(p), 0);
	plan_free(p);
	topo_unref(t);
}

/* Other GPUs are taken where the first one's NIC cannot do it; preferred takes it, and says so. */
static void required_chooses_others(void **state)
{
	struct topo *t = with_ats();
	struct plan *p;

	(void)state;
	facts(t, PF)->cap.ats.known = HOST_ABSENT;
	p = plan_of(t, "{\"gpus\":4,\"vfs_per_gpu\":1,\"numa_node\":0,\"max_path\":\"PIX\"}", NULL, NULL);
	assert_true(p->fits);
	assert_int_equal(gdr_notes(p), 1);
	assert_int_equal(acs_steps(p), 3); /* the other pairs' */
	plan_free(p);
	p = plan_of(t, "{\"gpus\":3,\"vfs_per_gpu\":1,\"gdr\":\"required\",\"numa_node\":0}", NULL, NULL);
	assert_true(p->fits && p->nnotes == 0 && acs_steps(p) == 3);
	for (size_t i = 0; i < p->ngpus; i++)
		assert_false(bdf_eq(p->gpu[i], test_bdf(GPU)));
	plan_free(p);
	p = plan_of(t, "{\"gpus\":8,\"vfs_per_gpu\":1,\"vcpus\":2,\"gdr\":\"required\"}", NULL, NULL);
	assert_false(p->fits);
	(void)reason_of(p, "gdr.not-direct", GPU);
	plan_free(p);
	topo_unref(t);
}

/* A GPU and a VF of another switch, both asked for by name: the reason says what is between them. */
static void required_by_name(void **state)
{
	struct topo *t = with_ats();
	struct plan *p = plan_of(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"gdr\":\"required\",\"require\":[\"" GPU "\",\"0000:3c:00.1\"]}", NULL, NULL);

	(void)state;
	assert_false(p->fits);
	assert_non_null(strstr(reason_of(p, "gdr.not-direct", GPU)->observed,
			       "with NIC 0000:3c:00.0 is redirected: they are below different root ports"));
	plan_free(p);
	topo_unref(t);
}

/* Whole bundles with `vfs`: a GPU without a VF of its own is judged with the nearest. */
static void gpu_without_own_vf(void **state)
{
	struct topo *t = test_topo_host("lab");
	struct plan *p = plan_of(t, "{\"gpus\":2,\"vfs\":1,\"numa_node\":0,\"max_path\":\"PIX\",\"gdr\":\"required\"}", NULL, NULL);

	(void)state;
	assert_true(p->fits && p->ngpus == 2 && p->nvfs == 1);
	assert_int_equal(acs_steps(p), 1);
	plan_free(p);
	facts(t, "0000:22:02.0")->cap.acs.known = HOST_UNKNOWN;
	p = plan_of(t, "{\"gpus\":2,\"vfs\":1,\"numa_node\":0,\"max_path\":\"PIX\"}", NULL, NULL);
	assert_true(p->fits);
	assert_int_equal(gdr_notes(p), 2); /* one for each GPU */
	plan_free(p);
	topo_unref(t);
}

/* A second bundle at a port that is set already holds it, too: or it would lose its route when the first goes. */
static void held_ports(void **state)
{
	struct plan_acs_held held = { .port = test_bdf(PORT), .was = 0 };
	struct topo *t = with_ats();
	const struct plan_step *s;
	struct plan *p;

	(void)state;
	facts(t, PORT)->cap.acs.ctl = 0x5d;
	p = plan_of(t, "{" ONE "}", NULL, &held);
	s = step_of(p, PORT);
	assert_non_null(s);
	assert_string_equal(s->from, "0x5d");
	assert_string_equal(s->to, "0x5d");
	plan_free(p);
	p = plan_of(t, "{" ONE "}", NULL, NULL); /* by somebody else: held as well, against resets */
	assert_non_null(step_of(p, PORT));
	plan_free(p);
	/* TB: clear by nature needs no step; cleared by another instance does */
	facts(t, GPU_PORT)->cap.acs.ctl = 0x1d;
	facts(t, PORT)->cap.acs.ctl = 0x1f;
	p = plan_of(t, "{" ONE ",\"gdr\":\"required\"}", NULL, NULL);
	assert_string_equal(step_of(p, PORT)->from, "0x1f");
	assert_string_equal(step_of(p, PORT)->to, "0x5d");
	assert_int_equal(acs_steps(p), 1);
	plan_free(p);
	topo_unref(t);
}

static void leaks_refuse(void **state)
{
	struct plan_taken taken = { test_bdf("0000:3b:00.0"), "instance b" };
	struct topo *t = with_ats();
	const struct plan_reason *why;
	struct plan *p;

	(void)state;
	p = plan_of(t, "{" ONE "}", &taken, NULL);
	assert_true(p->fits);
	plan_free(p);
	facts(t, GPU_PORT)->cap.acs.ctl = 0; /* folklore: the GPU reaches its siblings untranslated */
	p = plan_of(t, "{" ONE ",\"gdr\":\"off\"}", &taken, NULL);
	assert_false(p->fits);
	assert_int_equal(p->nsteps + p->ngpus, 0);
	why = reason_of(p, "isolation.leak", GPU);
	assert_non_null(strstr(why->observed, "a request of " GPU " for "));
	assert_non_null(strstr(why->observed, "and the host has "));
	assert_non_null(strstr(why->observed, "at " GPU_PORT " it "));
	plan_free(p);
	topo_unref(t);
}

/* Another instance has a NIC of the same switch, and its port is open. */
static void leaks_to_instances(void **state)
{
	struct topo *t = with_ats();
	struct plan_taken taken = { test_bdf(PF), "instance b" };
	const struct plan_reason *why;
	struct plan *p;

	(void)state;
	for (uint32_t i = 0; i < topo_count(t); i++) /* nobody but instance b uses anything else below that switch */
		if (topo_path(t, i, test_at(t, GPU)) == TOPO_PIX && i != test_at(t, PF))
			((struct host_function *)topo_at(t, i)->fn)->driver = 0;
	facts(t, PORT)->cap.acs.ctl = 0; /* theirs: they reach us */
	p = plan_of(t, "{\"gpus\":1,\"require\":[\"" GPU "\"]}", &taken, NULL);
	assert_false(p->fits);
	why = reason_of(p, "isolation.leak", GPU);
	assert_non_null(strstr(why->observed, "a request of " PF " for " GPU " does not pass the IOMMU, and instance b has " PF ": at "
					      PORT));
	plan_free(p);
	taken.bdf = test_bdf("0000:bb:00.0"); /* far away: then nobody is at the far end */
	((struct host_function *)topo_at(t, test_at(t, PF))->fn)->driver = 0;
	p = plan_of(t, "{\"gpus\":1,\"require\":[\"" GPU "\"]}", &taken, NULL);
	assert_true(p->fits);
	plan_free(p);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(required_is_direct),	cmocka_unit_test(without_ats),
		cmocka_unit_test(off_sets_nothing),	cmocka_unit_test(unknown_is_not_direct),
		cmocka_unit_test(required_by_name), cmocka_unit_test(required_chooses_others), cmocka_unit_test(gpu_without_own_vf),
		cmocka_unit_test(held_ports),		cmocka_unit_test(leaks_refuse),
		cmocka_unit_test(leaks_to_instances),	cmocka_unit_test(kernel_and_domain),
		cmocka_unit_test(direct_without_ats),
	};

	return cmocka_run_group_tests_name("gdr", tests, NULL, NULL);
}
