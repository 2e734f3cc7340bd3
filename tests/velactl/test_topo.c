/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fixture.h"
#include "synth.h"
#include "velactl/ctl.h"
#include "velactl/dot.h"
#include "velactl/matrix.h"
#include "velactl/picture.h"
#include "velactl/svg.h"
#include "velactl/tree.h"

static void assert_findings(const char *doc, const char *expected)
{
	struct ctl_out o = { .width = 60 };
	json_object *json = json_of(doc);

	ctl_findings_write(&o, json);
	assert_printed(&o, expected);
	json_object_put(json);
}

static void findings(void **state)
{
	(void)state;
	assert_findings("{}", "");
	assert_findings("{\"findings\":[]}", "");
	assert_findings("{\"findings\":[{\"id\":\"pci.config-dead\",\"component\":\"0000:19:00.0\",\"text\":\"its config space "
			"reads as ff; reset\\u001b[2J or power-cycle it\"}]}",
			"\n! pci.config-dead 0000:19:00.0: its config space reads as\n    ff; reset?[2J or power-cycle it\n");
	assert_findings("{\"findings\":[3,null]}", "\n!  : \n!  : \n");
}

static void many_alike_are_counted(void **state)
{
	struct ctl_out o = { 0 };
	struct sbuf doc = { 0 };
	json_object *json;

	(void)state;
	sbuf_add(&doc, "{\"findings\":[");
	for (int i = 0; i < 100; i++)
		sbuf_addf(&doc, "{\"id\":\"%s\",\"component\":\"c%d\",\"text\":\"t\"},", i % 10 ? "many" : "ten", i);
	sbuf_add(&doc, "{\"id\":\"one\",\"component\":\"host\",\"text\":\"last\"}]}");
	json = json_of(doc.text);
	ctl_findings_write(&o, json);
	assert_non_null(strstr(o.text.text, "! many on 82 more (-o json has all)\n"));
	assert_non_null(strstr(o.text.text, "! ten on 2 more (-o json has all)\n"));
	assert_non_null(strstr(o.text.text, "! one host: last\n"));
	assert_null(strstr(o.text.text, "c9: t")); /* the ninth of many */
	assert_non_null(strstr(o.text.text, "c8: t"));
	sbuf_done(&o.text);
	sbuf_done(&doc);
	json_object_put(json);
}

/* All pictures of a document, as one text. */
static char *pictures(json_object *doc)
{
	struct ctl_out o = { .width = 100 };
	struct error err = ERROR_INIT;

	for (unsigned show = 0; show <= (CTL_SHOW_ALL | CTL_SHOW_VFS); show++) {
		struct ctl_picture p;
		char *svg = NULL;

		assert_int_equal(ctl_picture_build(&p, doc, show, NULL, &err), 0);
		ctl_dot_write(&o.text, &p);
		assert_int_equal(ctl_layout(&p, &err), 0);
		assert_int_equal(ctl_svg_write(&svg, &p, &err), 0);
		sbuf_add(&o.text, svg);
		free(svg);
		ctl_picture_done(&p);
	}
	assert_int_equal(ctl_matrix_write(&o, doc, true, NULL, &err), 0);
	ctl_findings_write(&o, doc);
	return sbuf_steal(&o.text);
}

/* What -o json prints is all that there is to know: read back, it gives the same pictures and the same document. */
static void json_goes_round(struct topo *t)
{
	struct error err = ERROR_INIT;
	json_object *doc = topo_json(t), *back = NULL;
	char *before = pictures(doc), *after;
	struct ctl_out o = { 0 };

	ctl_out_json(&o, doc);
	if (json_parse(&back, o.text.text, o.text.len, 1 << 24, &err) < 0)
		fail_msg("%s", err.text);
	after = pictures(back);
	assert_string_equal(before, after);
	assert_true(strlen(before) > 4000);
	assert_true(json_object_equal(doc, back));
	free(before);
	free(after);
	sbuf_done(&o.text);
	json_object_put(doc);
	json_object_put(back);
	topo_unref(t);
}

static void round_trips(void **state)
{
	static const char *const hosts[] = { "xe9680", "xe9680-iommu-off", "lab", "consumer-no-acs" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
		json_goes_round(test_topo_host(hosts[i]));
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct synth s = { .nodes = 2, .bridges = 2, .switches = 2, .gpus = 2, .nics = 2, .cascade = seed % 2, .total_vfs = 4, .seed = seed };
		char *text = synth_text(&s);

		json_goes_round(test_topo_text(text));
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(findings),
		cmocka_unit_test(many_alike_are_counted),
		cmocka_unit_test(round_trips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
