/* SPDX-License-Identifier: GPL-2.0-or-later */
/* docs/checks.md is the tables of src/check, byte for byte; with VELAD_UPDATE=1 it is written anew. And no finding of
 * any room is without a rule. */
#include <dirent.h>

#include "check/check.h"
#include "fixture.h"

#define DOC TEST_SOURCE "/docs/checks.md"

static const char head[] =
	"<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n"
	"<!-- Made from the tables of src/check: VELAD_UPDATE=1 build/tests/checks/test_docs. Do not edit. -->\n"
	"# Checks\n\n"
	"What `velactl doctor` and `GET /v1/checks` look at. An *error* means that a guest cannot have its devices, that tenants are not apart, or\n"
	"that GPUDirect RDMA is not direct in a guest; a *warning* that something works worse or is about to break. What cannot be told, mostly\n"
	"because only root can read it, is *unknown*: never ok. `velactl doctor` ends with 100 if an error was found, with 101 if none was, but one\n"
	"could not be told; else with 0. Ids are stable.\n";

static int by_id(const void *a, const void *b)
{
	return strcmp((*(const struct check_rule *const *)a)->id, (*(const struct check_rule *const *)b)->id);
}

static char *rendered(void)
{
	const struct check_rule *sorted[256];
	struct sbuf b = { 0 };
	const char *theme = "";

	assert_true(check_rule_count() <= ARRAY_SIZE(sorted));
	for (size_t i = 0; i < check_rule_count(); i++)
		sorted[i] = check_rule_at(i);
	qsort(sorted, check_rule_count(), sizeof(*sorted), by_id);
	sbuf_add(&b, head);
	for (size_t i = 0; i < check_rule_count(); i++) {
		const struct check_rule *r = sorted[i];
		size_t len = strcspn(r->id, ".");

		if (strncmp(theme, r->id, len + 1) != 0)
			sbuf_addf(&b, "\n## %.*s\n", (int)len, r->id);
		theme = r->id;
		sbuf_addf(&b, "\n### `%s` (%s): %s\n\n%s\n\n- needed: %s\n- fix: %s\n- source: %s\n", r->id, check_severity_text(r->severity), r->title,
			  r->why, r->needed, r->fix, r->source);
	}
	return sbuf_steal(&b);
}

static void document_is_the_table(void **state)
{
	char *text = rendered(), *file = NULL;
	size_t len = 0;

	(void)state;
	assert_non_null(text);
	if (getenv("VELAD_UPDATE")) {
		FILE *f = fopen(DOC, "w");

		assert_non_null(f);
		assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
	}
	assert_int_equal(file_read(&file, &len, DOC, 1 << 20), 0);
	if (strcmp(text, file) != 0)
		fail_msg("docs/checks.md is not what the tables say: VELAD_UPDATE=1 build/tests/checks/test_docs");
	free(file);
	free(text);
}

static void ids_are_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < check_rule_count(); i++)
		if (check_rule_find(check_rule_at(i)->id) != check_rule_at(i))
			fail_msg("two rules %s", check_rule_at(i)->id);
	assert_null(check_rule_find("no.such-check"));
}

/* Ids in the calls of host_finding_add(): the first literal of the form "theme.name" behind it. */
static size_t check_calls(const char *file, const char *text)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, "host_finding_add("));) {
		const char *end = strstr(p += strlen("host_finding_add("), ";\n"), *q = strchr(p, '"');

		for (; q && q < end; q = strchr(q, '"')) {
			char id[48];

			(void)snprintf(id, sizeof(id), "%.*s", (int)strcspn(q + 1, "\""), q + 1);
			q += strlen(id) + 2;
			if (!strchr(id, '.') || strchr(id, ' ') || strchr(id, '%'))
				break;
			n++;
			if (!check_rule_find(id))
				fail_msg("%s: the finding %s has no rule in src/check", file, id);
		}
	}
	return n;
}

static void every_finding_has_a_rule(void **state)
{
	static const char *const rooms[] = { "host", "topo" };
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		char path[512];
		struct dirent *e;
		DIR *d;

		(void)snprintf(path, sizeof(path), TEST_SOURCE "/src/%s", rooms[i]);
		d = opendir(path);
		assert_non_null(d);
		while ((e = readdir(d))) {
			char *text = NULL;
			size_t len = 0;

			if (e->d_name[0] == '.')
				continue;
			(void)snprintf(path, sizeof(path), TEST_SOURCE "/src/%s/%.200s", rooms[i], e->d_name);
			assert_int_equal(file_read(&text, &len, path, 1 << 20), 0);
			n += check_calls(path, text);
			free(text);
		}
		closedir(d);
	}
	assert_true(n >= 35); /* so many there are */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(document_is_the_table),
		cmocka_unit_test(ids_are_unique),
		cmocka_unit_test(every_finding_has_a_rule),
	};

	return cmocka_run_group_tests_name("docs", tests, NULL, NULL);
}
