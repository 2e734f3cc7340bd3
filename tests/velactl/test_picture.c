/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/picture.h"
#include "velactl/tree.h"

#include "fixture.h"
#include "synth.h"
#include "velactl/dot.h"
#include "velactl/svg.h"

static json_object *doc_of(struct topo *t)
{
	json_object *doc = topo_json(t);

	assert_non_null(doc);
	topo_unref(t);
	return doc;
}

static struct ctl_picture picture_of(json_object *doc, unsigned show)
{
	struct error err = ERROR_INIT;
	struct ctl_picture p;

	if (ctl_picture_build(&p, doc, show, NULL, &err) < 0 || ctl_layout(&p, &err) < 0)
		fail_msg("%s", err.text);
	return p;
}

static bool overlap(const struct ctl_box *a, const struct ctl_box *b)
{
	return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

static void assert_drawable(const struct ctl_picture *p)
{
	for (int i = 0; i < p->n; i++) {
		const struct ctl_box *b = &p->box[i], *up = b->parent < 0 ? NULL : &p->box[b->parent];
		int text_end = b->y + CTL_PAD / 2 + (int)b->nlines * CTL_LINE;

		assert_true(b->parent < i && b->w > 2 * CTL_PAD && text_end <= b->y + b->h);
		for (int c = b->first; c >= 0; c = p->box[c].next)
			assert_true(p->box[c].parent == i && p->box[c].y >= text_end);
		if (!up)
			continue;
		assert_true(b->x >= up->x + CTL_PAD && b->x + b->w <= up->x + up->w - CTL_PAD);
		assert_true(b->y > up->y && b->y + b->h < up->y + up->h);
		for (int k = b->next; k >= 0; k = p->box[k].next)
			assert_false(overlap(b, &p->box[k]));
	}
	for (size_t i = 0; i < p->nchips; i++)
		assert_true(p->chip[i].x >= CTL_PAD && p->chip[i].x + CTL_SWATCH < p->box[0].w);
}

static void check_doc(json_object *doc)
{
	for (int all = 0; all < 2; all++) {
		struct ctl_picture p = picture_of(doc, all);

		assert_drawable(&p);
		ctl_picture_done(&p);
	}
	json_object_put(doc);
}

static int count(const struct ctl_picture *p, enum ctl_box_kind kind)
{
	int n = 0;

	for (int i = 0; i < p->n; i++)
		n += p->box[i].kind == kind;
	return n;
}

static const struct ctl_box *box_of(const struct ctl_picture *p, const char *title)
{
	for (int i = 0; i < p->n; i++)
		if (p->box[i].nlines && strcmp(p->box[i].line[0].left, title) == 0)
			return &p->box[i];
	fail_msg("no box %s", title);
	return NULL;
}

static bool says(const struct ctl_box *b, const char *text, enum ctl_tone tone)
{
	for (unsigned i = 0; i < b->nlines; i++)
		if (strcmp(b->line[i].left, text) == 0 && b->line[i].tone == tone)
			return true;
	return false;
}

static void real_hosts(void **state)
{
	json_object *doc = doc_of(test_topo_host("xe9680"));
	struct ctl_picture p = picture_of(doc, 0);

	(void)state;
	assert_int_equal(count(&p, CTL_BOX_NODE), 2);
	assert_int_equal(count(&p, CTL_BOX_GPU), 8);
	assert_int_equal(count(&p, CTL_BOX_SWITCH), 9);
	assert_int_equal(count(&p, CTL_BOX_PORT), 0);
	assert_string_equal(box_of(&p, "GPU7")->line[0].right, "0000:db:00.0");
	assert_in_range(p.box[0].w * 100 / p.box[0].h, 150, 200); /* 16:9 is 177 */
	ctl_picture_done(&p);
	check_doc(doc);
	check_doc(doc_of(test_topo_host("lab")));
	check_doc(doc_of(test_topo_host("xe9680-iommu-off")));
}

static void invented_hosts(void **state)
{
	static const struct synth hosts[] = {
		{ .nodes = 1, .bridges = 1, .switches = 1, .gpus = 1 },
		{ .nodes = 2, .bridges = 2, .switches = 2, .gpus = 2, .nics = 1, .cascade = true, .total_vfs = 8 },
		{ .nodes = 2, .bridges = 1, .switches = 3, .gpus = 1, .nics = 1, .cascade = true, .total_vfs = 2, .seed = 5 },
		{ .nodes = 4, .bridges = 2, .switches = 2, .gpus = 2, .nics = 2, .total_vfs = 8, .seed = 7 },
		{ .nodes = 8, .bridges = 1, .switches = 1, .gpus = 4, .nics = 4, .total_vfs = 4, .seed = 3 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		char *text = synth_text(&hosts[i]);

		assert_non_null(text);
		check_doc(doc_of(test_topo_text(text)));
		free(text);
	}
}

static void a_cascade_is_a_switch_in_a_switch(void **state)
{
	const struct synth host = { .nodes = 1, .bridges = 1, .switches = 2, .gpus = 1, .cascade = true };
	char *text = synth_text(&host);
	json_object *doc = doc_of(test_topo_text(text));
	struct ctl_picture p = picture_of(doc, 0);
	const struct ctl_box *far = box_of(&p, "GPU1");

	(void)state;
	assert_int_equal(p.box[far->parent].kind, CTL_BOX_SWITCH);
	assert_int_equal(p.box[p.box[far->parent].parent].kind, CTL_BOX_SWITCH);
	ctl_picture_done(&p);
	json_object_put(doc);
	free(text);
}

#define GPU(bdf, more) "{\"bdf\":\"" bdf "\",\"kind\":\"gpu\",\"root_bus\":\"pci0000:10\"" more "}"
#define LINK(speed, width) \
	",\"link\":{\"speed\":\"" speed "\",\"width\":" width ",\"max_speed\":\"32.0 GT/s\",\"max_width\":16}"
#define DOC(nodes) "{\"nodes\":[" nodes "],\"findings\":[]}"

static void what_is_wrong_is_marked(void **state)
{
	json_object *doc = json_of(DOC(GPU("0000:10:01.0", ",\"numa_node\":1" LINK("32.0 GT/s", "16")) "," GPU(
		"0000:10:02.0", LINK("8.0 GT/s", "16") ",\"owner\":\"instance train-1\"") "," GPU("0000:10:03.0", ",\"numa_node\":0")));
	struct ctl_picture p = picture_of(doc, 0);

	(void)state;
	assert_false(box_of(&p, "GPU0")->slow);
	assert_true(box_of(&p, "GPU1")->slow);
	assert_true(says(box_of(&p, "GPU1"), "8GT/s x16 (of 32GT/s)", CTL_WARN));
	assert_true(says(box_of(&p, "GPU1"), "NUMA node not known", CTL_WARN));
	assert_true(says(box_of(&p, "GPU1"), "used by train-1", CTL_OWNER));
	assert_true(says(box_of(&p, "GPU2"), "on NUMA node 0", CTL_WARN));
	assert_drawable(&p);
	ctl_picture_done(&p);
	json_object_put(doc);
	doc = json_of(DOC(GPU("0000:10:01.0", "")));
	p = picture_of(doc, 0);
	assert_true(says(box_of(&p, "NUMA node not known"), "NUMA node not known", CTL_WARN));
	assert_false(says(box_of(&p, "GPU0"), "NUMA node not known", CTL_WARN)); /* once is enough */
	ctl_picture_done(&p);
	json_object_put(doc);
}

static void vfs_are_a_line_or_boxes(void **state)
{
	const struct synth host = { .nodes = 1, .bridges = 1, .switches = 1, .nics = 8, .total_vfs = 4, .seed = 1 };
	char *text = synth_text(&host);
	json_object *doc = doc_of(test_topo_text(text));
	struct ctl_picture few = picture_of(doc, 0), all = picture_of(doc, CTL_SHOW_VFS);
	int lines = 0;

	(void)state;
	for (int i = 0; i < few.n; i++)
		lines += says(&few.box[i], "1 VF", CTL_PLAIN) || says(&few.box[i], "2 VFs", CTL_PLAIN);
	assert_int_equal(count(&few, CTL_BOX_VF), 0);
	assert_true(lines > 0);
	assert_true(count(&all, CTL_BOX_VF) >= lines);
	ctl_picture_done(&few);
	ctl_picture_done(&all);
	json_object_put(doc);
	free(text);
}

static void hostile_text_stays_text(void **state)
{
	json_object *doc = json_of(DOC(GPU("a\\\"b\\\\N\\n&lt;<g>\\u001b[31m\\ufffe\\u0085", ",\"driver\":\"]]>'\\\\\"")));
	struct error err = ERROR_INIT;
	struct ctl_picture p;
	struct sbuf dot = { 0 };
	char *svg = NULL;

	(void)state;
	assert_int_equal(json_object_object_add(json_object_array_get_idx(json_object_object_get(doc, "nodes"), 0), "owner",
						json_object_new_string("\xc0\xaf\xed\xa0\x80\xff\xf8")), 0);
	assert_int_equal(ctl_picture_build(&p, doc, 0, NULL, &err), 0);
	ctl_dot_write(&dot, &p);
	assert_int_equal(ctl_layout(&p, &err), 0);
	assert_int_equal(ctl_svg_write(&svg, &p, &err), 0);
	assert_non_null(strstr(svg, "&amp;lt;&lt;g&gt;?[31m"));
	assert_non_null(strstr(svg, "used by ???????"));
	assert_null(strchr(svg, '\033'));
	assert_non_null(strstr(dot.text, "a\\\"b\\\\N?&amp;lt;<g>?[31m"));
	free(svg);
	sbuf_done(&dot);
	ctl_picture_done(&p);
	json_object_put(doc);
}

static void no_topology(void **state)
{
	json_object *doc = json_of("{\"nodes\":7}");
	struct error err = ERROR_INIT;
	struct ctl_picture p;

	(void)state;
	assert_int_equal(ctl_picture_build(&p, doc, 0, NULL, &err), -EPROTO);
	json_object_put(doc);
	doc = json_of(DOC(""));
	p = picture_of(doc, 0);
	assert_int_equal(p.n, 1);
	assert_string_equal(p.box[0].line[0].left, "no GPUs, NICs or NVMe drives");
	ctl_picture_done(&p);
	json_object_put(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_hosts),
		cmocka_unit_test(invented_hosts),
		cmocka_unit_test(a_cascade_is_a_switch_in_a_switch),
		cmocka_unit_test(what_is_wrong_is_marked),
		cmocka_unit_test(vfs_are_a_line_or_boxes),
		cmocka_unit_test(hostile_text_stays_text),
		cmocka_unit_test(no_topology),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
