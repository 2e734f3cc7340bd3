/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How VFs are found: by their PF's numbers where the PF's own links agree with them, else by physfn. */
#include "base/sbuf.h"
#include "support.h"

#define DEVICES "sys/devices/pci0000:00/"
#define ROW     "0x0 0x0 0x0"
#define PF      "0000:00:02.0"
#define VFS     3

struct host {
	bool     config, physfn, virtfn;
	unsigned offset, stride; /* in config; the VFs are at 00:02.2, 00:02.3, 00:02.4 */
	unsigned device;         /* of the VFs' uevent */
	const char *rows;        /* the PF's VF BARs */
};

static void write_pf(struct sbuf *out, const struct host *h)
{
	sbuf_add(out, TEXT_MAGIC_LINE "sys/bus/pci/devices/" PF " -> ../../../devices/pci0000:00/" PF "\n"
		 DEVICES PF "/uevent\tDRIVER=mlx5_core\\nPCI_CLASS=20000\\nPCI_ID=15B3:1021\n"
		 DEVICES PF "/numa_node\t1\n" DEVICES PF "/sriov_numvfs\t3\n" DEVICES PF "/sriov_totalvfs\t3\n");
	sbuf_addf(out, DEVICES PF "/resource\t0x1000 0x1fff 0x200\\n" ROW "\\n" ROW "\\n" ROW "\\n" ROW "\\n" ROW "\\n" ROW
		  "\\n%s\\n" ROW "\\n" ROW "\\n" ROW "\\n" ROW "\\n" ROW "\n", h->rows ? h->rows : ROW);
	for (unsigned n = 0; h->virtfn && n < VFS; n++)
		sbuf_addf(out, DEVICES PF "/virtfn%u -> ../0000:00:02.%u\n", n, n + 2);
	if (!h->config)
		return;
	sbuf_add(out, DEVICES PF "/config\tbytes 4096\n 000: b3 15 21 10 06 00 10 00 00 00 00 02 00 00 00 00\n"
		 " 030: 00 00 00 00 60 00 00 00 00 00 00 00 00 00 00 00\n"
		 " 060: 10 00 02 00 00 00 00 10 00 00 00 00 05 01 00 00\n"
		 " 100: 10 00 01 00 00 00 00 00 19 00 00 00 03 00 03 00\n");
	sbuf_addf(out, " 110: 03 00 00 00 %02x 00 %02x 00 00 00 1e 10 00 00 00 00\n", h->offset, h->stride);
}

static struct topo *build(const struct host *h)
{
	struct sbuf out = { 0 };
	struct topo *t;

	write_pf(&out, h);
	for (unsigned n = 0; n < VFS; n++) {
		char dir[64];

		(void)snprintf(dir, sizeof(dir), DEVICES "0000:00:02.%u", n + 2);
		sbuf_addf(&out, "sys/bus/pci/devices/0000:00:02.%u -> ../../../devices/pci0000:00/0000:00:02.%u\n", n + 2, n + 2);
		sbuf_addf(&out, "%s/uevent\tPCI_CLASS=20000\\nPCI_ID=15B3:%04X\n", dir, h->device ? h->device : 0x101e);
		sbuf_addf(&out, "%s/iommu_group -> ../../../kernel/iommu_groups/%u\n", dir, n + 40);
		sbuf_addf(&out, "%s/numa_node\t0\n%s/resource\t0x%x000 0x%xfff 0x200\n", dir, dir, n + 9, n + 9);
		if (h->physfn)
			sbuf_addf(&out, "%s/physfn -> ../" PF "\n", dir);
	}
	t = test_topo_text(out.text);
	sbuf_done(&out);
	return t;
}

/* Three VFs of the PF, numbered, on its node, each with its group; BARs at `first`, 4 KiB apart. */
static void expect_vfs(struct topo *t, uint64_t first)
{
	assert_int_equal(topo_count(t), 1 + VFS);
	for (unsigned n = 0; n < VFS; n++) {
		const struct host_function *vf = topo_at(t, n + 1)->fn;

		assert_true(vf->facts->is_vf);
		assert_int_equal(vf->facts->kind, HOST_VF);
		assert_true(bdf_eq(vf->facts->pf, topo_at(t, 0)->fn->bdf));
		assert_int_equal(vf->vf_index, n);
		assert_int_equal(vf->facts->numa_node, 1);
		assert_int_equal(vf->iommu_group, n + 40);
		assert_int_equal(host_bar_of(vf, 0).start, first + n * 0x1000);
		assert_int_equal(host_bar_of(vf, 0).size, 0x1000);
		assert_string_equal(vf->facts->root_bus, "pci0000:00");
		assert_false(vf->facts->cap.readable);
	}
	topo_unref(t);
}

/* physfn is not asked for: the PF's links and numbers are enough, and its rows have the BARs. */
static void found_by_numbers(void **state)
{
	(void)state;
	expect_vfs(build(&(struct host){ .config = true, .virtfn = true, .offset = 2, .stride = 1,
					 .rows = "0x50000 0x52fff 0x200" }), 0x50000);
}

/* Rows that three VFs cannot share evenly are not believed: each VF's own `resource` counts. */
static void odd_rows_are_not_shared_out(void **state)
{
	(void)state;
	expect_vfs(build(&(struct host){ .config = true, .virtfn = true, .offset = 2, .stride = 1,
					 .rows = "0x50000 0x52ffe 0x200" }), 0x9000);
}

static void wrong_numbers_fall_back_to_physfn(void **state)
{
	static const unsigned wrong[][2] = { { 1, 1 }, { 2, 2 }, { 2, 0 }, { 0, 0 }, { 0xff, 0xff } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		expect_vfs(build(&(struct host){ .config = true, .virtfn = true, .physfn = true, .offset = wrong[i][0],
						 .stride = wrong[i][1] }), 0x9000);
}

/* No links of the PF at all: physfn says whose, the numbers say which. */
static void physfn_without_virtfn(void **state)
{
	(void)state;
	expect_vfs(build(&(struct host){ .config = true, .physfn = true, .offset = 2, .stride = 1 }), 0x9000);
}

static void pf_without_config(void **state)
{
	(void)state;
	expect_vfs(build(&(struct host){ .virtfn = true, .physfn = true }), 0x9000);
}

/* The numbers lead to functions that are no VFs of this PF: other ids, no physfn. They stay what they are. */
static void others_are_not_taken_for_vfs(void **state)
{
	struct topo *t = build(&(struct host){ .config = true, .virtfn = true, .offset = 2, .stride = 1, .device = 0x9999 });

	(void)state;
	for (unsigned n = 0; n < VFS; n++) {
		assert_false(topo_at(t, n + 1)->fn->facts->is_vf);
		assert_int_equal(topo_at(t, n + 1)->fn->facts->device, 0x9999);
		assert_int_equal(topo_at(t, n + 1)->fn->facts->numa_node, 0);
	}
	topo_unref(t);
}

/* Whose VF it is is known, which is not: said, not guessed. */
static void unnumbered_vf_is_a_finding(void **state)
{
	struct topo *t = build(&(struct host){ .physfn = true });
	const struct inventory *inv = topo_inventory(t);
	unsigned said = 0;

	(void)state;
	for (size_t i = 0; i < inv->nfindings; i++)
		said += strcmp(inv->finding[i].id, "pci.vf-index-unknown") == 0;
	assert_int_equal(said, VFS);
	assert_int_equal(topo_at(t, 1)->fn->vf_index, HOST_VF_UNNUMBERED);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_by_numbers),           cmocka_unit_test(odd_rows_are_not_shared_out),
		cmocka_unit_test(physfn_without_virtfn),      cmocka_unit_test(wrong_numbers_fall_back_to_physfn),
		cmocka_unit_test(pf_without_config),          cmocka_unit_test(others_are_not_taken_for_vfs),
		cmocka_unit_test(unnumbered_vf_is_a_finding),
	};

	return cmocka_run_group_tests_name("vf", tests, NULL, NULL);
}
