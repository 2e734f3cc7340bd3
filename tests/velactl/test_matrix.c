/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/matrix.h"

#include "fixture.h"

#define SMALL                                                                                                    \
	"{\"nodes\":[{\"bdf\":\"0000:01:00.0\",\"kind\":\"nic\",\"id\":\"15b3:1021\",\"driver\":\"mlx5_core\"},"  \
	"{\"bdf\":\"0000:02:00.0\",\"kind\":\"gpu\",\"id\":\"10de:2330\",\"driver\":null}],\"matrix\":{"           \
	"\"devices\":[\"0000:01:00.0\",\"0000:02:00.0\"],\"rows\":[[\"X\",\"NODE\"],[\"NODE\",\"X\"]],"            \
	"\"cpus\":[\"0-3\",\"\"],\"numa\":[0,null]}}"

static void render(struct ctl_out *o, json_object *doc, unsigned width)
{
	struct error err = ERROR_INIT;

	*o = (struct ctl_out){ .width = width };
	if (ctl_matrix_write(o, doc, true, NULL, &err) < 0)
		fail_msg("%s", err.text);
}

static void gpus_come_first(void **state)
{
	json_object *doc = json_of(SMALL);
	struct ctl_out o;

	(void)state;
	render(&o, doc, 0);
	assert_printed(&o, "      GPU0  NIC0  CPU Affinity  NUMA\n"
			   "GPU0  X     NODE\n"
			   "NIC0  NODE  X     0-3           0\n"
			   "\n"
			   "LABEL  DEVICE        DRIVER     NAME\n"
			   "GPU0   0000:02:00.0             10de:2330\n"
			   "NIC0   0000:01:00.0  mlx5_core  15b3:1021\n"
			   "\n"
			   "X     the same function\n"
			   "PIX   at most one PCIe switch between the two\n"
			   "PXB   several PCIe switches, no root complex\n"
			   "PHB   through one PCIe host bridge, that is the CPU\n"
			   "NODE  between host bridges of one NUMA node\n"
			   "SYS   between NUMA nodes, over the CPU interconnect\n");
	json_object_put(doc);
}

/* Every cell of the document is in its place, whatever the width. */
static void assert_whole(const char *text, json_object *doc)
{
	json_object *matrix = json_object_object_get(doc, "matrix");
	size_t n = json_object_array_length(json_object_object_get(matrix, "devices")), cells = 0, classes = 0;

	(void)n;
	for (const char *p = text; *p; p += strcspn(p, " \n"), p += strspn(p, " \n"))
		if (strncmp(p, "PIX ", 4) == 0 || strncmp(p, "PIX\n", 4) == 0)
			cells++;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (strcmp(json_object_get_string(json_object_array_get_idx(
					   json_object_array_get_idx(json_object_object_get(matrix, "rows"), i), j)), "PIX") == 0)
				classes++;
	assert_true(classes > 0);
	assert_int_equal(cells, classes + 1); /* and the legend's */
}

static void wide_hosts_are_split(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	json_object *doc = topo_json(t);
	struct ctl_out o;

	(void)state;
	for (unsigned width = 40; width < 240; width += 8) {
		render(&o, doc, width);
		assert_true(longest_line(o.text.text) <= width);
		assert_whole(o.text.text, doc);
		assert_non_null(strstr(o.text.text, "GPU7   0000:db:00.0"));
		assert_non_null(strstr(o.text.text, "NVSW3  0000:86:00.0"));
		sbuf_done(&o.text);
	}
	json_object_put(doc);
	topo_unref(t);
}

/* Where the matrix is split, who is near which CPUs and rails is told once, in the list. */
static void split_or_whole(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	json_object *doc = topo_json(t);
	struct error err = ERROR_INIT;
	struct ctl_out o = { .width = 100 };

	(void)state;
	assert_int_equal(ctl_matrix_write(&o, doc, false, NULL, &err), 0);
	assert_null(strstr(o.text.text, "NVSW"));
	assert_null(strstr(o.text.text, "CPU Affinity"));
	assert_non_null(strstr(o.text.text, "LABEL  DEVICE        RAIL  NUMA  "));
	assert_non_null(strstr(o.text.text, "GPU7   0000:db:00.0     7     1  "));
	sbuf_done(&o.text);
	o = (struct ctl_out){ .width = 0 };
	assert_int_equal(ctl_matrix_write(&o, doc, false, NULL, &err), 0);
	assert_non_null(strstr(o.text.text, "NVME7  Rail  CPU Affinity"));
	assert_non_null(strstr(o.text.text, "LABEL  DEVICE        DRIVER"));
	sbuf_done(&o.text);
	json_object_put(doc);
	topo_unref(t);
}

static void long_cpu_lists_are_cut(void **state)
{
	json_object *doc = json_of(SMALL);
	struct sbuf cpus = { 0 };
	struct ctl_out o;

	(void)state;
	for (int i = 0; i < 128; i += 2) /* Dell's way to number CPUs */
		sbuf_addf(&cpus, "%s%d", i ? "," : "", i);
	json_object_array_put_idx(json_object_object_get(json_object_object_get(doc, "matrix"), "cpus"), 0,
				  json_object_new_string(cpus.text));
	render(&o, doc, 80);
	assert_int_equal(longest_line(o.text.text), 80);
	assert_non_null(strstr(o.text.text, "0,2,4,6,8,10"));
	assert_non_null(strstr(o.text.text, "...  "));
	assert_non_null(strstr(o.text.text, "NUMA\n"));
	sbuf_done(&o.text);
	render(&o, doc, 0);
	assert_non_null(strstr(o.text.text, cpus.text));
	sbuf_done(&o.text);
	sbuf_done(&cpus);
	json_object_put(doc);
}

static void broken_documents_do_no_harm(void **state)
{
	static const char *const docs[] = {
		"{\"matrix\":{\"devices\":[1,null,\"x\"],\"rows\":[]}}",
		"{\"matrix\":{\"devices\":[\"x\"],\"rows\":[[\"X\",\"Y\"],3],\"cpus\":7}}",
	};
	struct error err = ERROR_INIT;
	json_object *empty = json_of("{}"), *none = json_of("{\"matrix\":{\"devices\":[],\"rows\":[]}}");
	struct ctl_out o = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(docs); i++) {
		json_object *doc = json_of(docs[i]);

		render(&o, doc, 80);
		assert_non_null(strstr(o.text.text, "DEV0"));
		sbuf_done(&o.text);
		json_object_put(doc);
	}
	assert_int_equal(ctl_matrix_write(&o, empty, false, NULL, &err), -EPROTO);
	render(&o, none, 80);
	assert_printed(&o, "no GPUs, NICs or NVMe drives\n");
	json_object_put(empty);
	json_object_put(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpus_come_first),	  cmocka_unit_test(wide_hosts_are_split), cmocka_unit_test(split_or_whole),
		cmocka_unit_test(long_cpu_lists_are_cut), cmocka_unit_test(broken_documents_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
