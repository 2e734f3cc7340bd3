/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routes, the error table, and docs/openapi.json against both. */
#include "api/method.h"
#include "base/file.h"
#include "check/check.h"
#include "plan/acs.h"
#include "plan/capacity.h"
#include "plan/gang.h"
#include "plan/routes.h"
#include "support.h"
#include "topo/path.h"
#include "velad/methods.h"

static int nothing(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self;
	(void)req;
	(void)res;
	(void)err;
	return 0;
}

static void routes_match_exactly(void **state)
{
	static const struct api_route routes[] = {
		{ "GET", "/v1/things", nothing },
		{ "GET", "/v1/things/{name}", nothing },
		{ "DELETE", "/v1/things/{name}", nothing },
		{ "POST", "/v1/things/{name}/start", nothing },
		{ 0 },
	};
	static const char *const none[] = { "", "/", "/v1/thing", "/v1/things/", "/v1/things/a/", "/v1/things/a/b",
					    "/v1/things//start", "v1/things" };
	char param[API_PARAM_MAX], allow[64], longest[API_PARAM_MAX + 40];

	(void)state;
	assert_ptr_equal(api_route_find(routes, "GET", "/v1/things", param, allow), &routes[0]);
	assert_ptr_equal(api_route_find(routes, "DELETE", "/v1/things/a-1", param, allow), &routes[2]);
	assert_string_equal(param, "a-1");
	assert_ptr_equal(api_route_find(routes, "POST", "/v1/things/x/start", param, allow), &routes[3]);
	assert_null(api_route_find(routes, "PUT", "/v1/things/a", param, allow));
	assert_string_equal(allow, "GET, DELETE");
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		assert_null(api_route_find(routes, "GET", none[i], param, allow));
		assert_string_equal(allow, "");
	}
	(void)snprintf(longest, sizeof(longest), "/v1/things/%0*d", API_PARAM_MAX, 0);
	assert_null(api_route_find(routes, "GET", longest, param, allow));
}

/* A parameter is decoded once; what is not printable ASCII after that is no name. */
static void parameters_are_decoded(void **state)
{
	static const struct api_route routes[] = { { "GET", "/v1/things/{name}", nothing }, { 0 } };
	static const struct {
		const char *path, *param; /* NULL: no route */
	} cases[] = {
		{ "/v1/things/a%2db", "a-b" },   { "/v1/things/%61", "a" },      { "/v1/things/a%2Fb", "a/b" },
		{ "/v1/things/%2561", "%61" },   { "/v1/things/a%00", NULL },    { "/v1/things/a%00b", NULL },
		{ "/v1/things/%", NULL },        { "/v1/things/%4", NULL },      { "/v1/things/%zz", NULL },
		{ "/v1/things/%0x", NULL },      { "/v1/things/%+1", NULL },     { "/v1/things/a%0a", NULL },
		{ "/v1/things/%20", NULL },      { "/v1/things/%7f", NULL },     { "/v1/things/%ff", NULL },
		{ "/v1/things/\xff", NULL },     { "/v1/things/%c3%a9", NULL },
	};
	char param[API_PARAM_MAX], allow[64], path[16 + 3 * API_PARAM_MAX] = "/v1/things/";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct api_route *r = api_route_find(routes, "GET", cases[i].path, param, allow);

		if ((r != NULL) != (cases[i].param != NULL) || (r && strcmp(param, cases[i].param) != 0))
			fail_msg("%s: %s", cases[i].path, r ? param : "no route");
	}
	for (size_t i = 0; i < API_PARAM_MAX - 1; i++)
		strcat(path, "%61");
	assert_non_null(api_route_find(routes, "GET", path, param, allow));
	assert_int_equal(strlen(param), API_PARAM_MAX - 1);
	strcat(path, "%61");
	assert_null(api_route_find(routes, "GET", path, param, allow));
}

/* Every code maps to a status and a name and back to an errno of the same name; the rest is internal. */
static void errors_are_complete(void **state)
{
	static const int codes[] = { -EINVAL, -E2BIG, -EPERM, -EACCES, -ENOENT, -EEXIST, -EBUSY, -ESTALE, -EIDRM, -ENOSPC,
				     -ENODEV, -EREMOTEIO, -ETIMEDOUT, -ECANCELED, -EREMCHG, -EKEYREJECTED, -EUSERS };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		const struct api_error *e = api_error_of(codes[i]);

		assert_int_equal(e->code, codes[i]);
		assert_string_equal(error_name(api_error_named(error_name(e->code))->code), error_name(e->code));
		assert_true(e->status >= 400 && e->status < 600);
	}
	assert_string_equal(error_name(api_error_of(-ENOMEM)->code), "internal");
	assert_string_equal(error_name(-12345), "internal");
	assert_null(api_error_named("nonsense"));
}

static void problems_have_their_members(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o, *v;

	(void)state;
	(void)error_set(&err, -ENOENT, "there is no \"x\"\n");
	o = api_problem(&err, NULL);
	assert_string_equal(json_object_get_string(json_object_object_get(o, "code")), "not_found");
	assert_int_equal(json_object_get_int(json_object_object_get(o, "status")), 404);
	assert_string_equal(json_object_get_string(json_object_object_get(o, "detail")), "there is no \"x\"\n");
	assert_true(json_object_object_get_ex(o, "reasons", &v));
	assert_int_equal(json_object_array_length(v), 0);
	json_object_put(o);
}

/* What a client sent may be quoted in a text, and texts are cut: the document is UTF-8 all the same. */
static void problems_are_utf8(void **state)
{
	static const struct {
		const char *text, *detail;
	} cases[] = {
		{ "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "cut \xc3", "cut ?" },
		{ "cut \xf0\x9f\x98", "cut ???" },
		{ "\xff\xfe", "??" },
		{ "\x80", "?" },
		{ "overlong \xc0\x80", "overlong ??" },
		{ "surrogate \xed\xa0\x80", "surrogate ???" },
		{ "beyond \xf4\x90\x80\x80", "beyond ????" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		json_object *o;

		(void)error_set(&err, -EINVAL, "%s", cases[i].text);
		o = api_problem(&err, NULL);
		assert_string_equal(json_object_get_string(json_object_object_get(o, "detail")), cases[i].detail);
		json_object_put(o);
	}
}

static int query(struct api_request *req, const char *name, const char *value, struct error *err)
{
	static const struct api_route route = { "GET", "/x", NULL, .query = { "wait", "state" } };

	*err = ERROR_INIT;
	return api_query_set(req, &route, name, value, err);
}

static void queries_are_named(void **state)
{
	struct api_request req = { 0 };
	struct error err;
	char longest[API_PARAM_MAX + 1];

	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[API_PARAM_MAX] = '\0';
	assert_int_equal(query(&req, "state", "a%20b", &err), -EINVAL); /* a blank is no part of any value */
	assert_int_equal(query(&req, "state", "%72unning", &err), 0);
	assert_string_equal(req.query[1], "running");
	assert_int_equal(query(&req, "state", "failed", &err), -EINVAL);
	assert_string_equal(err.text, "the query parameter \"state\" is there twice");
	assert_int_equal(query(&req, "wait", NULL, &err), -EINVAL);
	assert_int_equal(query(&req, "wait", longest, &err), -EINVAL);
	assert_int_equal(query(&req, "wait", longest + 1, &err), 0);
	assert_int_equal(query(&req, "Wait", "1", &err), -EINVAL);
	assert_string_equal(err.text, "this path takes no query parameter \"Wait\"; it takes wait, state");
}

/* RFC 9110 13.1.1 and 8.8.3 */
static void if_match_compares_strongly(void **state)
{
	static const struct {
		const char *header;
		bool        lets;
	} cases[] = {
		{ NULL, true },		{ "\"7\"", true },	   { "*", true },	 { "\"6\", \"7\"", true },
		{ "\"6\",\"8\"", false }, { "W/\"7\"", false }, { "7", false },	 { "\"77\"", false },
		{ "\"\"", false },	{ "\"7", false },   { "", false },	 { "W/\"6\" , \"7\"", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct api_request req = { .if_match = cases[i].header };
		struct error err = ERROR_INIT;

		if ((api_if_match(&req, "7", "the generation", &err) == 0) != cases[i].lets)
			fail_msg("If-Match: %s", cases[i].header);
		assert_int_equal(err.code, cases[i].lets ? 0 : -EREMCHG);
	}
}

static json_object *openapi(void)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	char *text = NULL;
	size_t len = 0;

	assert_int_equal(file_read(&text, &len, TEST_SOURCE "/docs/openapi.json", 1 << 20), 0);
	o = json_tokener_parse(text);
	assert_non_null(o);
	free(text);
	(void)err;
	return o;
}

/* What a method takes beside its path is in the document, and nothing else is. */
static void check_parameters(const struct api_route *r, json_object *method)
{
	json_object *list = json_object_object_get(method, "parameters");
	size_t documented = 0, queries = 0;
	bool key = false, match = false;

	while (queries < API_QUERY_MAX && r->query[queries])
		queries++;
	for (size_t i = 0; i < (list ? json_object_array_length(list) : 0); i++) {
		json_object *p = json_object_array_get_idx(list, i);
		const char *name = json_object_get_string(json_object_object_get(p, "name"));
		const char *in = json_object_get_string(json_object_object_get(p, "in"));

		for (size_t q = 0; strcmp(in, "query") == 0 && q < queries; q++)
			documented += strcmp(r->query[q], name) == 0;
		key = key || strcmp(name, "Idempotency-Key") == 0;
		match = match || strcmp(name, "If-Match") == 0;
	}
	if (documented != queries || key != r->keyed || match != r->matched)
		fail_msg("docs/openapi.json has other parameters than %s %s", r->method, r->path);
}

static void openapi_has_the_codes(void **state)
{
	json_object *o = openapi(), *s = json_object_object_get(json_object_object_get(o, "components"), "schemas");
	json_object *codes = json_object_object_get(
		json_object_object_get(json_object_object_get(json_object_object_get(s, "Problem"), "properties"), "code"), "enum");

	(void)state;
	for (size_t i = 0; i < api_error_count(); i++) {
		const char *name = error_name(api_error_at(i)->code);
		bool found = false;

		for (size_t k = 0; k < json_object_array_length(codes); k++)
			found = found || strcmp(json_object_get_string(json_object_array_get_idx(codes, k)), name) == 0;
		if (!found)
			fail_msg("docs/openapi.json lacks the code %s", name);
	}
	json_object_put(o);
}

/* Each route of the daemon is in the document, each method of the document is a route. */
static void openapi_has_the_routes(void **state)
{
	json_object *o = openapi(), *paths = json_object_object_get(o, "paths");
	size_t routes = 0, methods = 0;

	(void)state;
	for (const struct api_route *r = velad_routes; r->method; r++, routes++) {
		json_object *p = json_object_object_get(paths, r->path);
		char lower[16] = { 0 };

		for (size_t i = 0; r->method[i] && i < sizeof(lower) - 1; i++)
			lower[i] = (char)(r->method[i] | 0x20);
		if (!p || !json_object_object_get(p, lower))
			fail_msg("docs/openapi.json lacks %s %s", r->method, r->path);
		check_parameters(r, json_object_object_get(p, lower));
	}
	json_object_object_foreach(paths, path, p) {
		(void)path;
		methods += (size_t)json_object_object_length(p);
	}
	assert_int_equal(routes, methods);
	json_object_put(o);
}

static json_object *schema(json_object *o, const char *name)
{
	json_object *s = json_object_object_get(json_object_object_get(o, "components"), "schemas");

	return json_object_object_get(json_object_object_get(s, name), "properties");
}

/* Where a schema says oneOf, its first; where it refers to another, that. */
static json_object *resolved(json_object *api, json_object *s)
{
	json_object *of;

	if (json_object_object_get_ex(s, "oneOf", &of))
		s = json_object_array_get_idx(of, 0);
	if (json_object_object_get_ex(s, "$ref", &of))
		s = json_object_object_get(json_object_object_get(json_object_object_get(api, "components"), "schemas"),
					   strrchr(json_object_get_string(of), '/') + 1);
	return s;
}

/* Every member that a document has is in its schema, and every member the schema requires is there; so in what
 * it holds, where the schema goes that deep. */
static void check_value(json_object *api, json_object *s, const char *name, json_object *doc)
{
	json_object *properties, *required, *sub;

	s = resolved(api, s);
	if (json_object_is_type(doc, json_type_array) && json_object_object_get_ex(s, "items", &sub))
		for (size_t i = 0; i < json_object_array_length(doc); i++)
			check_value(api, sub, name, json_object_array_get_idx(doc, i));
	if (!json_object_is_type(doc, json_type_object) || !json_object_object_get_ex(s, "properties", &properties))
		return;
	json_object_object_foreach(doc, key, value) {
		if (!json_object_object_get_ex(properties, key, &sub))
			fail_msg("the schema %s lacks \"%s\"", name, key);
		check_value(api, sub, key, value);
	}
	required = json_object_object_get(s, "required");
	for (size_t i = 0; required && i < json_object_array_length(required); i++) {
		const char *must = json_object_get_string(json_object_array_get_idx(required, i));

		if (!json_object_object_get_ex(doc, must, NULL))
			fail_msg("a %s lacks \"%s\"", name, must);
	}
}

static void check_members(json_object *api, const char *name, json_object *doc)
{
	json_object *s = json_object_object_get(json_object_object_get(api, "components"), "schemas");

	check_value(api, json_object_object_get(s, name), name, doc);
}

static void check_items(json_object *api, const char *name, json_object *doc, const char *key)
{
	json_object *list = json_object_object_get(doc, key);

	assert_true(json_object_array_length(list) > 0);
	for (size_t i = 0; i < json_object_array_length(list); i++)
		check_members(api, name, json_object_array_get_idx(list, i));
}

static void check_routes(json_object *api, struct topo *t)
{
	json_object *all = NULL, *acs;
	struct error err = ERROR_INIT;
	struct plan_acs *plan = NULL;

	assert_int_equal(plan_routes_json(&all, t, &err), 0);
	check_members(api, "Routes", all);
	check_items(api, "RoutePair", all, "pairs");
	check_items(api, "RouteEntry", all, "routes");
	json_object_put(all);
	assert_int_equal(plan_route_json(&all, t, test_bdf("0000:1a:00.0"), test_bdf("0000:19:00.0"), &err), 0);
	check_members(api, "Route", all);
	check_items(api, "RoutePort", json_object_array_get_idx(json_object_object_get(all, "routes"), 0), "ports");
	json_object_put(all);
	assert_int_equal(plan_acs_all(&plan, t, true, &err), 0);
	acs = plan_acs_json(plan, NULL);
	check_members(api, "AcsPlan", acs);
	check_items(api, "AcsPair", acs, "pairs");
	check_items(api, "AcsBootPort", acs, "boot_ports");
	json_object_put(acs);
	plan_acs_free(plan);
}

static void check_checks(json_object *api, struct topo *t)
{
	struct check_input in = { .topo = t };
	struct check_report *report = NULL;
	struct error err = ERROR_INIT;
	json_object *doc;

	assert_int_equal(check_host(&report, &in, &err), 0);
	doc = check_json(report);
	check_members(api, "Checks", doc);
	check_items(api, "Check", doc, "checks");
	json_object_put(doc);
	check_report_free(report);
}

static void check_gangs(json_object *api, struct topo *t)
{
	struct plan_request r = test_request("{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}");
	const struct plan_request *both[] = { &r, &r };
	struct plan_input in = { .topo = t, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	struct plan_gang *gang = NULL;
	json_object *doc;

	assert_int_equal(plan_gang_make(&gang, &in, both, 2, &err), 0);
	doc = plan_gang_json(gang);
	check_members(api, "Gang", doc);
	check_items(api, "Plan", doc, "plans");
	json_object_put(doc);
	plan_gang_free(gang);
	plan_request_done(&r);
	assert_int_equal(plan_capacity_json(&doc, &in, &err), 0);
	check_members(api, "Capacity", doc);
	check_items(api, "CapacityShape", doc, "shapes");
	json_object_put(doc);
}

static void openapi_has_the_documents(void **state)
{
	json_object *api = openapi();
	struct topo *t = test_topo_host("xe9680");
	json_object *topo = topo_json(t), *host = topo_host_json(t), *nodes = json_object_object_get(topo, "nodes");
	struct plan_request r = test_request("{\"name\":\"a\",\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}");
	json_object *request = plan_request_json(&r);
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}", NULL, 0);
	json_object *plan = plan_json(p), *gpus = json_object_object_get(topo, "gpus"), *path = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	check_members(api, "Topology", topo);
	for (size_t i = 0; i < json_object_array_length(gpus); i++)
		check_members(api, "Gpu", json_object_array_get_idx(gpus, i));
	assert_int_equal(topo_path_json(&path, t, test_bdf("0000:4c:00.0"), test_bdf("0000:bb:00.0"), &err), 0);
	check_members(api, "Path", path);
	json_object_put(path);
	for (size_t i = 0; i < json_object_array_length(nodes); i++)
		check_members(api, "Node", json_object_array_get_idx(nodes, i));
	check_members(api, "Host", host);
	check_members(api, "Plan", plan);
	check_members(api, "Bundle", json_object_object_get(plan, "bundle"));
	check_members(api, "PlanStep", json_object_array_get_idx(json_object_object_get(plan, "steps"), 0));
	check_routes(api, t);
	check_checks(api, t);
	check_gangs(api, t);
	json_object_object_foreach(request, key, value) {
		(void)value;
		if (!json_object_object_get_ex(schema(api, "Request"), key, NULL))
			fail_msg("the schema Request lacks \"%s\"", key);
	}
	json_object_put(plan);
	plan_free(p);
	json_object_put(request);
	plan_request_done(&r);
	json_object_put(host);
	json_object_put(topo);
	topo_unref(t);
	json_object_put(api);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(routes_match_exactly),       cmocka_unit_test(parameters_are_decoded),
		cmocka_unit_test(errors_are_complete),        cmocka_unit_test(problems_have_their_members),
		cmocka_unit_test(problems_are_utf8),          cmocka_unit_test(openapi_has_the_routes),
		cmocka_unit_test(openapi_has_the_codes),
		cmocka_unit_test(queries_are_named), cmocka_unit_test(if_match_compares_strongly),
		cmocka_unit_test(openapi_has_the_documents),
	};

	return cmocka_run_group_tests_name("method", tests, NULL, NULL);
}
