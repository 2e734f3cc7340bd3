/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The documents of the checks (docs/openapi.json). */
#include <json-c/json.h>

#include "base/json.h"
#include "check/check.h"

static void add_text(struct json_out *o, const char *key, const char *text)
{
	json_add_string(o, key, *text ? text : NULL);
}

static void add_finding(struct json_out *o, json_object *array, const struct check_finding *f)
{
	struct json_out item = json_out_new();
	char text[BDF_TEXT_MAX];

	json_add_string(&item, "id", f->rule->id);
	json_add_string(&item, "severity", check_severity_text(f->rule->severity));
	json_add_string(&item, "result", check_result_text(f->result));
	json_add_string(&item, "component", bdf_is_none(f->component) ? "host" : bdf_text(text, f->component));
	json_add_string(&item, "title", f->rule->title);
	add_text(&item, "observed", f->observed);
	add_text(&item, "needed", f->needed);
	add_text(&item, "fix", f->fix);
	json_append_out(o, array, &item);
}

/* Findings by what they are: failures by severity. */
static struct json_out counts(const struct check_report *r)
{
	size_t failed[CHECK_SEVERITIES] = { 0 }, by[CHECK_RESULTS] = { 0 };
	struct json_out o = json_out_new();

	for (size_t i = 0; i < r->n; i++) {
		by[r->finding[i].result]++;
		failed[r->finding[i].rule->severity] += r->finding[i].result == CHECK_FAIL;
	}
	json_add_uint(&o, "error", failed[CHECK_ERROR]);
	json_add_uint(&o, "warning", failed[CHECK_WARNING]);
	json_add_uint(&o, "info", failed[CHECK_INFO]);
	json_add_uint(&o, "unknown", by[CHECK_UNKNOWN]);
	json_add_uint(&o, "pass", by[CHECK_PASS]);
	json_add_uint(&o, "not_applicable", by[CHECK_NOT_APPLICABLE]);
	return o;
}

json_object *check_json(const struct check_report *r)
{
	struct json_out o = json_out_new(), sums = counts(r);
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < r->n; i++)
		add_finding(&o, array, &r->finding[i]);
	json_add_made(&o, "checks", array);
	json_add_out(&o, "counts", &sums);
	return json_finish(&o);
}

json_object *check_rule_json(const struct check_rule *rule)
{
	struct json_out o = json_out_new();

	json_add_string(&o, "id", rule->id);
	json_add_string(&o, "severity", check_severity_text(rule->severity));
	json_add_string(&o, "title", rule->title);
	json_add_string(&o, "why", rule->why);
	json_add_string(&o, "source", rule->source);
	json_add_string(&o, "needed", rule->needed);
	json_add_string(&o, "fix", rule->fix);
	return json_finish(&o);
}
