/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Isolation of bundles, and IOMMU groups that say more or less than the ACS bits of today. */
#include "topo/isolation.h"

#include "support.h"

/* tests/hosts/xe9680 with ACS control of one port as `ctl`, and one GPU and its NIC of one group if `merged`. */
static struct topo *tampered(const char *port, uint16_t ctl, bool merged)
{
	struct host_kinds kinds = test_kinds();
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct inventory *inv = NULL;
	struct topo *t = NULL;

	assert_int_equal(host_root_open_text(&root, TEST_SOURCE "/tests/hosts/xe9680/sys.txt", &err), 0);
	assert_int_equal(host_inventory_read(&inv, root, &kinds, &err), 0);
	if (port)
		((struct host_facts *)host_function_find(inv, test_bdf(port))->facts)->cap.acs.ctl = ctl;
	if (merged)
		((struct host_function *)host_function_find(inv, test_bdf("0000:1a:00.0")))->iommu_group =
			host_function_find(inv, test_bdf("0000:19:00.0"))->iommu_group;
	assert_int_equal(topo_build(&t, inv, 1, &err), 0);
	host_root_close(root);
	return t;
}

static const struct host_finding *finding(const struct topo *t, const char *id)
{
	const struct inventory *inv = topo_inventory(t);

	for (size_t i = 0; i < inv->nfindings; i++)
		if (strcmp(inv->finding[i].id, id) == 0)
			return &inv->finding[i];
	return NULL;
}

static size_t leaks_of(const struct topo *t, struct topo_leak *leak, size_t most)
{
	uint32_t bundle[] = { test_at(t, "0000:19:00.0"), test_at(t, "0000:1a:00.0") };

	return topo_leaks(leak, most, t, NULL, bundle, ARRAY_SIZE(bundle));
}

static void as_linux_sets_it_up_nothing_leaks(void **state)
{
	struct topo *t = tampered(NULL, 0, false);

	(void)state;
	assert_int_equal(leaks_of(t, NULL, 0), 0);
	assert_null(finding(t, "group.claims-more"));
	assert_null(finding(t, "group.coarse"));
	topo_unref(t);
}

/* Folklore's setpci ...=0 on the GPU's port: its requests reach the NVMe drive, the NIC of another tenant, and so on. */
static void a_cleared_port_leaks(void **state)
{
	struct topo *t = tampered("0000:17:01.0", 0, false);
	const struct host_finding *f = finding(t, "group.claims-more");
	struct topo_leak leak[8];
	size_t n = leaks_of(t, leak, ARRAY_SIZE(leak));

	(void)state;
	assert_true(n >= 3 && n <= ARRAY_SIZE(leak)); /* NVMe, two functions of the ConnectX-6, the switch's endpoint */
	for (size_t i = 0; i < n; i++) {
		assert_true(leak[i].certain);
		assert_int_equal(leak[i].from, test_at(t, "0000:19:00.0")); /* the others' requests are still turned away */
		assert_int_equal(leak[i].decided, test_at(t, "0000:17:01.0"));
		assert_int_equal(leak[i].rule, TOPO_RULE_PLAIN);
	}
	assert_non_null(f);
	assert_true(bdf_eq(f->bdf, test_bdf("0000:17:01.0")));
	assert_non_null(strstr(f->text, "0000:19:00.0"));
	topo_unref(t);
}

/* Direct Translated P2P lets nothing untranslated through. */
static void direct_translated_leaks_nothing(void **state)
{
	struct topo *t = tampered("0000:17:02.0", 0x5d, false);

	(void)state;
	assert_int_equal(leaks_of(t, NULL, 0), 0);
	assert_null(finding(t, "group.claims-more"));
	topo_unref(t);
}

/* Without Upstream Forwarding in the root port, nobody can say what becomes of what the switch sends up. */
static void unknown_is_no_isolation(void **state)
{
	struct topo *t = tampered("0000:15:01.0", 0x0d, false);
	struct topo_leak leak[32];
	size_t n = leaks_of(t, leak, ARRAY_SIZE(leak));

	(void)state;
	assert_true(n > 0 && n <= ARRAY_SIZE(leak));
	for (size_t i = 0; i < n; i++)
		assert_false(leak[i].certain);
	assert_null(finding(t, "group.claims-more")); /* that is said only of what is certain */
	topo_unref(t);
}

static void a_group_from_other_bits_is_coarse(void **state)
{
	struct topo *t = tampered(NULL, 0, true);
	const struct host_finding *f = finding(t, "group.coarse");

	(void)state;
	assert_non_null(f);
	assert_true(bdf_eq(f->bdf, test_bdf("0000:19:00.0")));
	topo_unref(t);
}

/* A vector that leaves out one peer: Request Redirect is on, and a request for that peer goes straight across. */
static void egress_control_opens(void **state)
{
	struct topo *t = test_topo_host("egress");
	const struct inventory *inv = topo_inventory(t);
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < inv->nfindings; i++) {
		if (strcmp(inv->finding[i].id, "group.claims-more") != 0)
			continue;
		assert_true(bdf_eq(inv->finding[i].bdf, test_bdf(n == 0 ? "0000:12:00.0" : "0000:12:02.0")));
		assert_non_null(strstr(inv->finding[i].text, n == 0 ? "0000:13:00.0 (IOMMU group 5) for 0000:15:00.0 (group 4)" : "0000:14:00.0"));
		assert_non_null(strstr(inv->finding[i].text, "does not name that peer"));
		n++;
	}
	assert_int_equal(n, 2);
	topo_unref(t);
}

/* One by one, as the routes say; VFs, of which one stands for its neighbours, among them. */
static size_t by_routes(struct topo_leak *leak, const struct topo *t, uint32_t m, size_t *vfs)
{
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct topo_node *node = topo_at(t, i);

		if (host_kind_is_bridge(node->fn->facts->kind) || node->parent == TOPO_NONE || i == m)
			continue;
		*vfs += i > 0 && node->fn->facts->is_vf && topo_at(t, i - 1)->fn->facts == node->fn->facts;
		for (int back = 0; back < 2; back++) {
			uint32_t from = back ? i : m, to = back ? m : i;
			struct topo_route r;

			topo_route(&r, t, NULL, from, to, (struct topo_tlp){ .type = TOPO_WRITE });
			if (r.verdict == TOPO_DIRECT || (r.verdict == TOPO_UNDECIDED && !r.iommu))
				leak[n++] = (struct topo_leak){ from, to, r.verdict == TOPO_DIRECT, r.rule, r.decided };
		}
	}
	return n;
}

static void each_vf_leaks_as_its_route_says(void **state)
{
	static const char *const hosts[] = { "hpe-gen9-sriov", "xe9680", "consumer-no-acs", "egress", "ibm-vpc-gx3d-h100-guest", "lab" };
	static struct topo_leak want[4096], have[4096];
	size_t vfs = 0, leaks = 0;

	(void)state;
	for (size_t h = 0; h < ARRAY_SIZE(hosts); h++) {
		struct topo *t = test_topo_host(hosts[h]);

		for (uint32_t m = 0; m < topo_count(t); m++) {
			size_t n = by_routes(want, t, m, &vfs);

			assert_int_equal(topo_leaks(have, ARRAY_SIZE(have), t, NULL, &m, 1), n);
			leaks += n;
			for (size_t i = 0; i < n; i++) {
				assert_int_equal(have[i].from, want[i].from);
				assert_int_equal(have[i].to, want[i].to);
				assert_int_equal(have[i].certain, want[i].certain);
				assert_int_equal(have[i].rule, want[i].rule);
				assert_int_equal(have[i].decided, want[i].decided);
			}
		}
		topo_unref(t);
	}
	assert_true(vfs > 0 && leaks > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_linux_sets_it_up_nothing_leaks), cmocka_unit_test(a_cleared_port_leaks),
		cmocka_unit_test(direct_translated_leaks_nothing),   cmocka_unit_test(unknown_is_no_isolation),
		cmocka_unit_test(a_group_from_other_bits_is_coarse),
		cmocka_unit_test(egress_control_opens),              cmocka_unit_test(each_vf_leaks_as_its_route_says),
	};

	return cmocka_run_group_tests_name("isolation", tests, NULL, NULL);
}
