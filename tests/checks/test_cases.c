/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What users of other systems suffer from, and what doctor says of a host where it would happen. */
#include "fixture.h"

static void redirects_cleared(struct inventory *inv)
{
	struct host_function *port = (struct host_function *)host_function_find(inv, test_bdf("0000:4a:02.0")); /* as setpci does it */

	((struct host_facts *)port->facts)->cap.acs.ctl &= (uint16_t)~(0x04 | 0x08);
}

/* Case 21, NV-Kernels#20: groups are formed once; ACS control that was changed since then makes them lie. */
static void case_21_groups_are_stale(void **state)
{
	struct host as_booted = host_of(host_topo("xe9680", NULL, NULL, NULL), 0);
	struct host changed = host_of(host_topo("xe9680", NULL, NULL, redirects_cleared), 0);
	const struct check_finding *f = host_finds(&changed, "group.claims-more", "0000:4a:02.0");

	(void)state;
	assert_true(f && f->result == CHECK_FAIL && f->rule->severity == CHECK_ERROR);
	assert_true(host_finds(&as_booted, "group.claims-more", "")->result == CHECK_PASS);
	host_done(&changed);
	host_done(&as_booted);
}

/* Case 27, lf-edge/eve#5969: pcie_acs_override= makes groups that no hardware keeps apart. */
static void case_27_acs_override(void **state)
{
	struct host h = host_of(host_topo("xe9680", "intel_iommu=on", "intel_iommu=on pcie_acs_override=downstream,multifunction", NULL), 0);
	const struct check_finding *f = host_finds(&h, "boot.acs-override", "host");

	(void)state;
	assert_true(f && f->result == CHECK_FAIL && f->rule->severity == CHECK_ERROR);
	host_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_21_groups_are_stale),
		cmocka_unit_test(case_27_acs_override),
	};

	return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
