/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routes, the error table, and docs/openapi.json against both. */
#include "api/method.h"
#include "base/file.h"
#include "support.h"
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
	char param[API_PARAM_MAX], allow[64], longest[200];

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
	(void)snprintf(longest, sizeof(longest), "/v1/things/%0100d", 0);
	assert_null(api_route_find(routes, "GET", longest, param, allow));
}

/* Every code maps to a status and a name and back to an errno of the same name; the rest is internal. */
static void errors_are_complete(void **state)
{
	static const int codes[] = { -EINVAL, -E2BIG, -EPERM, -EACCES, -ENOENT, -EEXIST, -EBUSY, -ESTALE, -ENOSPC,
				     -ENODEV, -EREMOTEIO, -ETIMEDOUT };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		const struct api_error *e = api_error_of(codes[i]);

		assert_int_equal(e->code, codes[i]);
		assert_string_equal(api_error_named(e->name)->name, e->name);
		assert_true(e->status >= 400 && e->status < 600);
	}
	assert_string_equal(api_error_of(-ENOMEM)->name, "internal");
	assert_string_equal(api_error_of(-12345)->name, "internal");
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

/* Every member that a document has is in its schema, and every member the schema requires is there. */
static void check_members(json_object *api, const char *name, json_object *doc)
{
	json_object *s = json_object_object_get(json_object_object_get(api, "components"), "schemas");
	json_object *required = json_object_object_get(json_object_object_get(s, name), "required");

	json_object_object_foreach(doc, key, value) {
		(void)value;
		if (!json_object_object_get_ex(schema(api, name), key, NULL))
			fail_msg("the schema %s lacks \"%s\"", name, key);
	}
	for (size_t i = 0; i < json_object_array_length(required); i++) {
		const char *must = json_object_get_string(json_object_array_get_idx(required, i));

		if (!json_object_object_get_ex(doc, must, NULL))
			fail_msg("a %s lacks \"%s\"", name, must);
	}
}

static void openapi_has_the_documents(void **state)
{
	json_object *api = openapi();
	struct topo *t = test_topo_host("xe9680");
	json_object *topo = topo_json(t), *host = topo_host_json(t), *nodes = json_object_object_get(topo, "nodes");
	struct plan_request r = test_request("{\"name\":\"a\",\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}");
	json_object *request = plan_request_json(&r);
	struct plan *p = test_plan(t, "{\"gpus\":2,\"vfs_per_gpu\":1,\"vcpus\":2}", NULL, 0);
	json_object *plan = plan_json(p);

	(void)state;
	check_members(api, "Topology", topo);
	for (size_t i = 0; i < json_object_array_length(nodes); i++)
		check_members(api, "Node", json_object_array_get_idx(nodes, i));
	check_members(api, "Host", host);
	check_members(api, "Plan", plan);
	check_members(api, "Bundle", json_object_object_get(plan, "bundle"));
	check_members(api, "PlanStep", json_object_array_get_idx(json_object_object_get(plan, "steps"), 0));
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
		cmocka_unit_test(routes_match_exactly),       cmocka_unit_test(errors_are_complete),
		cmocka_unit_test(problems_have_their_members), cmocka_unit_test(openapi_has_the_routes),
		cmocka_unit_test(openapi_has_the_documents),
	};

	return cmocka_run_group_tests_name("method", tests, NULL, NULL);
}
