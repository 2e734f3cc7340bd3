/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/tree.h"

#include "fixture.h"

static void build(struct ctl_tree *tree, json_object *doc, unsigned show)
{
	struct error err = ERROR_INIT;

	if (ctl_tree_build(tree, doc, show, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < tree->n; i++) { /* what every reader of a tree relies on */
		const struct ctl_row *r = &tree->row[i];

		assert_true(r->parent < (int)i);
		assert_true(r->device && r->kind && r->id && r->link && r->numa && r->group && r->driver && r->owner);
	}
}

/* The devices of all rows, indented by depth. */
static void assert_rows(const struct ctl_tree *tree, const char *expected)
{
	struct sbuf text = { 0 };

	for (size_t i = 0; i < tree->n; i++) {
		for (int up = tree->row[i].parent; up >= 0; up = tree->row[up].parent)
			sbuf_add(&text, " ");
		sbuf_addf(&text, "%s\n", tree->row[i].device);
	}
	assert_string_equal(text.text ? text.text : "", expected);
	sbuf_done(&text);
}

static const struct ctl_row *row_of(const struct ctl_tree *tree, const char *device)
{
	for (size_t i = 0; i < tree->n; i++)
		if (strcmp(tree->row[i].device, device) == 0)
			return &tree->row[i];
	fail_msg("no row %s", device);
	return NULL;
}

#define PORT(bdf, kind, parent) \
	"{\"bdf\":\"0000:" bdf "\",\"kind\":\"" kind "\",\"parent\":" parent ",\"root_bus\":\"pci0000:10\"}"

/* Two root ports: a switch with a GPU and a NIC with three VFs; and nothing. */
#define HOST                                                                                                       \
	PORT("10:01.0", "root-port", "null") "," PORT("10:02.0", "root-port", "null") "," PORT("10:1f.0", "other", "null") \
	"," PORT("11:00.0", "usp", "\"0000:10:01.0\"") "," PORT("12:00.0", "dsp", "\"0000:11:00.0\"") ","          \
	PORT("12:01.0", "dsp", "\"0000:11:00.0\"") "," PORT("12:02.0", "dsp", "\"0000:11:00.0\"") ","              \
	"{\"bdf\":\"0000:13:00.0\",\"kind\":\"gpu\",\"id\":\"10de:2330\",\"parent\":\"0000:12:00.0\",\"numa_node\":1," \
	"\"iommu_group\":7,\"driver\":\"nvidia\",\"owner\":null},"                                                  \
	"{\"bdf\":\"0000:14:00.0\",\"kind\":\"nic\",\"parent\":\"0000:12:01.0\",\"numa_node\":null,\"driver\":null}"
#define VF(fn, driver, owner) \
	",{\"bdf\":\"0000:14:00." fn "\",\"kind\":\"vf\",\"parent\":\"0000:12:01.0\",\"pf\":\"0000:14:00.0\"," \
	"\"driver\":" driver ",\"owner\":" owner "}"
#define DOC(nodes) "{\"generation\":1,\"nodes\":[" nodes "],\"findings\":[]}"

static void dull_things_are_hidden(void **state)
{
	json_object *doc = json_of(DOC(HOST));
	struct ctl_tree tree;

	(void)state;
	build(&tree, doc, 0);
	assert_rows(&tree, "pci0000:10\n 0000:10:01.0\n  0000:11:00.0\n   0000:12:00.0\n    0000:13:00.0\n"
			   "   0000:12:01.0\n    0000:14:00.0\n");
	assert_int_equal(tree.hidden, 3);
	assert_string_equal(row_of(&tree, "0000:13:00.0")->numa, "1");
	assert_string_equal(row_of(&tree, "0000:13:00.0")->group, "7");
	assert_string_equal(row_of(&tree, "0000:13:00.0")->driver, "nvidia");
	assert_string_equal(row_of(&tree, "0000:13:00.0")->owner, "");
	assert_string_equal(row_of(&tree, "0000:14:00.0")->numa, "");
	assert_string_equal(row_of(&tree, "0000:14:00.0")->driver, "");
	ctl_tree_done(&tree);
	build(&tree, doc, CTL_SHOW_ALL);
	assert_int_equal(tree.n, 10);
	assert_int_equal(tree.hidden, 0);
	ctl_tree_done(&tree);
	json_object_put(doc);
}

static void vfs_are_one_row(void **state)
{
	json_object *doc = json_of(DOC(HOST VF("1", "\"mlx5_core\"", "null") VF("2", "\"vfio-pci\"", "\"instance train-1\"")
						VF("3", "\"mlx5_core\"", "null")));
	struct ctl_tree tree;

	(void)state;
	build(&tree, doc, 0);
	assert_string_equal(row_of(&tree, "3 VFs, 1 in use")->driver, "(mixed)");
	assert_string_equal(row_of(&tree, "3 VFs, 1 in use")->owner, "train-1");
	assert_string_equal(tree.row[row_of(&tree, "3 VFs, 1 in use")->parent].device, "0000:14:00.0");
	assert_int_equal(tree.hidden, 3);
	ctl_tree_done(&tree);
	build(&tree, doc, CTL_SHOW_VFS);
	assert_string_equal(row_of(&tree, "0000:14:00.2")->owner, "train-1");
	assert_int_equal(tree.hidden, 3);
	ctl_tree_done(&tree);
	build(&tree, doc, CTL_SHOW_ALL | CTL_SHOW_VFS);
	assert_rows(&tree, "pci0000:10\n 0000:10:01.0\n  0000:11:00.0\n   0000:12:00.0\n    0000:13:00.0\n"
			   "   0000:12:01.0\n    0000:14:00.0\n     0000:14:00.1\n     0000:14:00.2\n     0000:14:00.3\n"
			   "   0000:12:02.0\n 0000:10:02.0\n 0000:10:1f.0\n");
	ctl_tree_done(&tree);
	json_object_put(doc);
}

/* As many names as a person reads; a PF that is no NIC shows once its VFs have somebody. */
static void owners_of_folded_vfs(void **state)
{
	json_object *many = json_of(DOC(HOST VF("1", "null", "\"instance a\"") VF("2", "null", "\"instance b\"")
						VF("3", "null", "\"instance a\"") VF("4", "null", "\"instance c\"")
						VF("5", "null", "\"d\"") VF("6", "null", "\"instance e\"") VF("7", "null", "null")));
	json_object *other = json_of(DOC(PORT("10:1f.0", "other", "null")
		",{\"bdf\":\"0000:10:1f.1\",\"kind\":\"vf\",\"pf\":\"0000:10:1f.0\",\"owner\":\"instance a\"}"));
	struct ctl_tree tree;

	(void)state;
	build(&tree, many, 0);
	assert_string_equal(row_of(&tree, "7 VFs, 6 in use")->owner, "a, b, c, d, ...");
	ctl_tree_done(&tree);
	build(&tree, other, 0);
	assert_rows(&tree, "pci0000:10\n 0000:10:1f.0\n  1 VF, 1 in use\n");
	assert_int_equal(tree.hidden, 0);
	ctl_tree_done(&tree);
	json_object_put(many);
	json_object_put(other);
}

static void one_vf_and_mixed_drivers(void **state)
{
	json_object *one = json_of(DOC(HOST VF("1", "null", "null")));
	json_object *mixed = json_of(DOC(HOST VF("1", "null", "null") VF("2", "\"vfio-pci\"", "null")));
	struct ctl_tree tree;

	(void)state;
	build(&tree, one, 0);
	assert_string_equal(row_of(&tree, "1 VF")->driver, "");
	ctl_tree_done(&tree);
	build(&tree, mixed, 0);
	assert_string_equal(row_of(&tree, "2 VFs")->driver, "(mixed)");
	ctl_tree_done(&tree);
	json_object_put(one);
	json_object_put(mixed);
}

static void broken_documents_do_no_harm(void **state)
{
	static const char *const docs[] = {
		DOC(""), DOC("1,null,\"x\",[]"), DOC("{\"bdf\":7,\"kind\":[]}"),
		/* above itself, above each other, a parent that is not there, twice the same */
		DOC(PORT("01:00.0", "gpu", "\"0000:01:00.0\"")),
		DOC(PORT("01:00.0", "gpu", "\"0000:02:00.0\"") "," PORT("02:00.0", "gpu", "\"0000:01:00.0\"")),
		DOC(PORT("01:00.0", "gpu", "\"0000:0f:00.0\"")),
		DOC(PORT("01:00.0", "gpu", "null") "," PORT("01:00.0", "gpu", "null")),
	};
	struct error err = ERROR_INIT;
	struct ctl_tree tree;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(docs); i++) {
		json_object *doc = json_of(docs[i]);

		build(&tree, doc, 0);
		assert_in_range(tree.n, 0, 3);
		ctl_tree_done(&tree);
		build(&tree, doc, CTL_SHOW_ALL);
		ctl_tree_done(&tree);
		json_object_put(doc);
	}
	assert_int_equal(ctl_tree_build(&tree, NULL, 0, &err), -EPROTO);
}

static void orphans_hang_below_their_host_bridge(void **state)
{
	json_object *doc = json_of(DOC(PORT("01:00.0", "gpu", "\"0000:0f:00.0\"") ",{\"bdf\":\"0000:02:00.0\",\"kind\":\"vf\","
					"\"pf\":\"0000:0e:00.0\",\"root_bus\":null}"));
	struct ctl_tree tree;

	(void)state;
	build(&tree, doc, 0);
	assert_rows(&tree, "pci0000:10\n 0000:01:00.0\n(unknown)\n 0000:02:00.0\n");
	ctl_tree_done(&tree);
	json_object_put(doc);
}

#define LINK(speed, width, max_speed, max_width) \
	"{\"speed\":" speed ",\"width\":" width ",\"max_speed\":" max_speed ",\"max_width\":" max_width "}"
#define NO_WIDTH(up) "{\"speed\":\"2.5 GT/s\",\"width\":null,\"max_speed\":null,\"max_width\":16,\"up\":" up "}"

static void links_say_when_they_are_slow(void **state)
{
	static const struct {
		const char *link, *other, *text;
		bool        slow;
	} cases[] = {
		{ LINK("\"32.0 GT/s\"", "16", "\"32.0 GT/s\"", "16"), NULL, "32GT/s x16", false },
		{ LINK("\"2.5 GT/s\"", "1", "\"2.5 GT/s\"", "1"), NULL, "2.5GT/s x1", false },
		{ LINK("\"8.0 GT/s\"", "4", "\"32.0 GT/s\"", "16"), NULL, "8GT/s x4 (of 32GT/s x16)", true },
		{ LINK("\"32.0 GT/s\"", "8", "\"32.0 GT/s\"", "16"), NULL, "32GT/s x8 (of x16)", true },
		{ LINK("\"16.0 GT/s\"", "16", "\"32.0 GT/s\"", "16"), NULL, "16GT/s x16 (of 32GT/s)", true },
		/* the other end cannot do more */
		{ LINK("\"16.0 GT/s\"", "4", "\"32.0 GT/s\"", "16"), LINK("\"16.0 GT/s\"", "4", "\"16.0 GT/s\"", "4"),
		  "16GT/s x4", false },
		{ LINK("\"8.0 GT/s\"", "4", "\"32.0 GT/s\"", "16"), LINK("\"8.0 GT/s\"", "4", "\"16.0 GT/s\"", "4"),
		  "8GT/s x4 (of 16GT/s)", true },
		{ LINK("null", "4", "null", "null"), NULL, "? x4", false },
		{ LINK("null", "null", "\"16.0 GT/s\"", "8"), NULL, "?", false },
		{ NO_WIDTH("false"), NULL, "down", false },
		{ NO_WIDTH("true"), NULL, "?", false },
		{ NO_WIDTH("null"), NULL, "?", false },
		{ LINK("null", "null", "null", "null"), NULL, "", false },
		{ "null", NULL, "", false },
	};
	struct arena a = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_object *link = json_of(cases[i].link), *other = cases[i].other ? json_of(cases[i].other) : NULL;
		bool slow = !cases[i].slow;

		assert_string_equal(ctl_link_text(&a, link, other, &slow), cases[i].text);
		assert_int_equal(slow, cases[i].slow);
		json_object_put(link);
		json_object_put(other);
	}
	arena_done(&a);
}

static void the_h100_host(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	json_object *doc = topo_json(t);
	struct ctl_tree tree;
	size_t slow = 0;

	(void)state;
	build(&tree, doc, 0);
	assert_string_equal(row_of(&tree, "0000:19:00.0")->link, "32GT/s x16");
	assert_string_equal(tree.row[row_of(&tree, "0000:19:00.0")->parent].device, "0000:17:01.0");
	for (size_t i = 0; i < tree.n; i++)
		slow += tree.row[i].slow;
	assert_int_equal(slow, 0); /* its NVMe drives are slower than their slots, and that is no fault */
	ctl_tree_done(&tree);
	build(&tree, doc, CTL_SHOW_ALL);
	assert_true(tree.n > topo_count(t));
	ctl_tree_done(&tree);
	json_object_put(doc);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dull_things_are_hidden),	cmocka_unit_test(vfs_are_one_row), cmocka_unit_test(owners_of_folded_vfs),
		cmocka_unit_test(one_vf_and_mixed_drivers),	cmocka_unit_test(broken_documents_do_no_harm),
		cmocka_unit_test(orphans_hang_below_their_host_bridge), cmocka_unit_test(links_say_when_they_are_slow),
		cmocka_unit_test(the_h100_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
