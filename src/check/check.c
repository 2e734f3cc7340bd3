/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs the tables. A rule that has nothing to say does not apply; what passed is counted and said once. */
#include "check/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/strtab.h"
#include "check/rule.h"

static const struct check_rule *const tables[] = {
	check_iommu_rules,    check_group_rules, check_boot_rules, check_acs_rules,   check_ats_rules,
	check_settings_rules, check_device_rules, check_nic_rules, check_guest_rules, check_found_rules,
};

/* ---- what rules say ------------------------------------------------------------------------------------- */

static struct check_finding *add(struct check_run *run, enum check_result result, struct bdf bdf)
{
	struct check_report *r = run->report;
	struct check_finding *f;

	run->said = true;
	if (r->n == r->size) {
		size_t size = r->size ? r->size * 2 : 128;

		f = arena_array(&r->arena, size, sizeof(*f));
		if (!f) {
			run->oom = true;
			return NULL;
		}
		if (r->n)
			memcpy(f, r->finding, r->n * sizeof(*f));
		r->finding = f;
		r->size = size;
	}
	f = &r->finding[r->n++];
	*f = (struct check_finding){ run->rule, result, bdf, "", "", "" };
	return f;
}

static const char *vtext(struct check_run *run, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

static const char *vtext(struct check_run *run, const char *fmt, va_list ap)
{
	const char *text = arena_vprintf(&run->report->arena, fmt, ap);

	run->oom = run->oom || !text;
	return text ? text : "";
}

struct check_finding *check_fail(struct check_run *run, struct bdf bdf, const char *fmt, ...)
{
	struct check_finding *f = add(run, CHECK_FAIL, bdf);
	va_list ap;

	if (!f)
		return NULL;
	va_start(ap, fmt);
	f->observed = vtext(run, fmt, ap);
	va_end(ap);
	f->needed = run->rule->needed;
	f->fix = run->rule->fix;
	return f;
}

void check_unknown(struct check_run *run, struct bdf bdf, const char *fix, const char *fmt, ...)
{
	struct check_finding *f = add(run, CHECK_UNKNOWN, bdf);
	va_list ap;

	if (!f)
		return;
	va_start(ap, fmt);
	f->observed = vtext(run, fmt, ap);
	va_end(ap);
	f->needed = run->rule->needed;
	f->fix = fix;
}

void check_pass(struct check_run *run, const char *fmt, ...)
{
	va_list ap;

	run->said = true;
	if (run->passed++)
		return;
	va_start(ap, fmt);
	run->passed_as = vtext(run, fmt, ap);
	va_end(ap);
}

void check_fix(struct check_run *run, struct check_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (f)
		f->fix = vtext(run, fmt, ap);
	va_end(ap);
}

void check_needed(struct check_run *run, struct check_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (f)
		f->needed = vtext(run, fmt, ap);
	va_end(ap);
}

/* ---- running them --------------------------------------------------------------------------------------- */

/* Of a rule that failed or is unknown somewhere, what passed elsewhere is not said. */
static int run_rule(struct check_run *run, const struct check_rule *rule)
{
	size_t before = run->report->n;
	struct check_finding *f;

	run->rule = rule;
	run->passed = 0;
	run->passed_as = "";
	run->said = false;
	rule->run(run);
	if (run->report->n > before || run->oom)
		return run->oom ? -ENOMEM : 0;
	f = add(run, run->said ? CHECK_PASS : CHECK_NOT_APPLICABLE, BDF_NONE);
	if (f && run->passed > 1)
		f->observed = arena_printf(&run->report->arena, "%s (and %zu more)", run->passed_as, run->passed - 1);
	else if (f)
		f->observed = run->passed_as;
	return f && f->observed ? 0 : -ENOMEM;
}

/* What failed first, errors before the rest; what is unknown stands behind failures as grave as it might be. */
static unsigned rank(const struct check_finding *f)
{
	if (f->result > CHECK_UNKNOWN)
		return 100 + f->result;
	return f->rule->severity * 2 + (f->result == CHECK_UNKNOWN);
}

static int compare(const void *a, const void *b)
{
	const struct check_finding *x = a, *y = b;
	int r = (rank(x) > rank(y)) - (rank(x) < rank(y));

	if (r == 0)
		r = strcmp(x->rule->id, y->rule->id);
	if (r == 0)
		r = bdf_cmp(x->component, y->component);
	return r ? r : strcmp(x->observed, y->observed);
}

int check_host(struct check_report **ret, const struct check_input *in, struct error *err)
{
	auto_(check_report_free) struct check_report *report = calloc(1, sizeof(*report));
	struct check_run run = { .report = report, .in = in, .t = in->topo, .inv = topo_inventory(in->topo) };
	struct plan_settings_finding *settings = NULL;
	int r;

	if (!report)
		return error_set(err, -ENOMEM, "no memory for the checks");
	r = plan_acs_all(&report->acs, in->topo, false, err);
	if (r < 0)
		return r;
	run.acs = report->acs;
	r = plan_settings_check(&settings, &run.nsettings, in->topo, NULL, 0, &report->arena);
	run.settings = settings;
	for (size_t i = 0; r == 0 && i < check_rule_count(); i++)
		r = run_rule(&run, check_rule_at(i));
	if (r < 0)
		return error_set(err, r, "no memory for the checks");
	qsort(report->finding, report->n, sizeof(*report->finding), compare);
	*ret = steal(report);
	return 0;
}

struct check_report *check_report_free(struct check_report *r)
{
	if (r) {
		plan_acs_free(r->acs);
		arena_done(&r->arena);
		free(r);
	}
	return NULL;
}

/* ---- the tables ----------------------------------------------------------------------------------------- */

static size_t table_length(const struct check_rule *table)
{
	size_t n = 0;

	while (table[n].id)
		n++;
	return n;
}

size_t check_rule_count(void)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		n += table_length(tables[i]);
	return n;
}

const struct check_rule *check_rule_at(size_t i)
{
	size_t k = 0;

	for (; i >= table_length(tables[k]); k++)
		i -= table_length(tables[k]);
	return &tables[k][i];
}

const struct check_rule *check_rule_find(const char *id)
{
	for (size_t i = 0; i < check_rule_count(); i++)
		if (strcmp(check_rule_at(i)->id, id) == 0)
			return check_rule_at(i);
	return NULL;
}

const char *check_severity_text(enum check_severity s)
{
	static const char *const text[CHECK_SEVERITIES] = { "error", "warning", "info" };

	return strtab_text(text, CHECK_SEVERITIES, (int)s);
}

const char *check_result_text(enum check_result r)
{
	static const char *const text[CHECK_RESULTS] = { "fail", "unknown", "pass", "not-applicable" };

	return strtab_text(text, CHECK_RESULTS, (int)r);
}
