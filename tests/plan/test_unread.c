/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Real hosts as somebody sees them who is not root: sysfs whole, config space 64 bytes. Nothing is direct then, nothing
 * is planned, and who requires direct paths is refused and told why. */
#include "plan/acs.h"
#include "plan/routes.h"

#include "support.h"
#include "topo/isolation.h"

/* The text of a host with every config space cut to what pci_read_config() gives without CAP_SYS_ADMIN. */
static char *cut(const char *name)
{
	char path[256], line[1 << 16], *text = NULL;
	size_t size = 0, spaces = 0;
	bool drop = false;
	FILE *in, *out = open_memstream(&text, &size);

	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", name);
	in = fopen(path, "r");
	assert_true(in && out);
	while (fgets(line, sizeof(line), in)) {
		char *bytes = strstr(line, "/config\tbytes ");

		drop = *line == ' ' && strtoul(line, NULL, 16) >= 64;
		spaces += bytes != NULL;
		if (bytes)
			(void)strcpy(bytes + strlen("/config\tbytes "), "64\n");
		if (!drop)
			(void)fputs(line, out);
	}
	(void)fclose(in);
	(void)fclose(out);
	assert_true(spaces > 50);
	return text;
}

static struct topo *unread(const char *name)
{
	char *text = cut(name);
	struct topo *t = test_topo_text(text);

	free(text);
	return t;
}

static const char *member(json_object *o, const char *key)
{
	return json_object_get_string(json_object_object_get(o, key));
}

static void nothing_is_direct(struct topo *t)
{
	struct error err = ERROR_INIT;
	json_object *doc = NULL, *routes, *pairs;

	assert_int_equal(plan_routes_json(&doc, t, &err), 0);
	pairs = json_object_object_get(doc, "pairs");
	routes = json_object_object_get(doc, "routes");
	assert_true(json_object_array_length(pairs) >= 16);
	for (size_t i = 0; i < json_object_array_length(pairs); i++) {
		assert_string_equal(member(json_object_array_get_idx(pairs, i), "verdict"), "unknown");
		assert_string_equal(member(json_object_array_get_idx(pairs, i), "planned"), "unknown");
	}
	for (size_t i = 0; i < json_object_array_length(routes); i++) {
		json_object *r = json_object_array_get_idx(routes, i);

		assert_string_equal(member(r, "verdict"), "unknown");
		assert_string_equal(member(r, "rule"), "unread");
		assert_null(member(r, "through"));
		assert_null(member(r, "bandwidth"));
	}
	json_object_put(doc);
}

static void nothing_is_planned(struct topo *t)
{
	auto_(plan_acs_free) struct plan_acs *p = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(plan_acs_all(&p, t, false, &err), 0);
	assert_true(p->npairs >= 8 && p->nwrites == 0 && !*p->boot);
	for (size_t i = 0; i < p->npairs; i++) {
		assert_int_equal(p->pair[i].state, PLAN_ACS_UNKNOWN);
		assert_non_null(strstr(p->pair[i].why, "read as root"));
		assert_string_equal(p->pair[i].fix, "read the host as root");
	}
}

/* Of no pair of functions is isolation proven, and none is said to leak for certain. */
static void nothing_is_isolated(struct topo *t, const char *gpu)
{
	static struct topo_leak leak[4096];
	uint32_t set = test_at(t, gpu);
	size_t n = topo_leaks(leak, 4096, t, NULL, &set, 1);

	assert_true(n >= 50 && n < 4096);
	for (size_t i = 0; i < n; i++)
		assert_false(leak[i].certain);
}

static void required_is_refused(struct topo *t)
{
	struct plan *p = test_plan(t, "{\"gpus\":1,\"vfs_per_gpu\":1,\"gdr\":\"required\"}", NULL, 0);
	bool said = false;

	assert_false(p->fits);
	for (size_t i = 0; i < p->nreasons; i++)
		said = said || (strcmp(p->reason[i].rule, "gdr.not-direct") == 0 && strstr(p->reason[i].observed, "is unknown") &&
				strcmp(p->reason[i].needed, "read the host as root") == 0);
	assert_true(said);
	assert_int_equal(p->nsteps, 0);
	plan_free(p);
}

static void hosts(void **state)
{
	static const struct {
		const char *name, *gpu;
	} host[] = { { "xe9680", "0000:4c:00.0" }, { "hgx-b200-8gpu", "0000:17:00.0" }, { "dgx-a100", "0000:07:00.0" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(host); i++) {
		struct topo *t = unread(host[i].name);

		nothing_is_direct(t);
		nothing_is_planned(t);
		nothing_is_isolated(t, host[i].gpu);
		required_is_refused(t);
		topo_unref(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(hosts) };

	return cmocka_run_group_tests_name("unread", tests, NULL, NULL);
}
