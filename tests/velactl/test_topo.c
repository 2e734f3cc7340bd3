/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fixture.h"
#include "velactl/ctl.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(findings),
		cmocka_unit_test(many_alike_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
