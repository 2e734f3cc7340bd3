/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rank map of an instance: what the plan has, with the serial numbers of the cards that were lent, and where the host is. */
#include "instance/fixture.h"

static const char *host_of(char ret[33], const char *tenant)
{
	(void)snprintf(ret, 33, "host of %s", tenant);
	return ret;
}

static const struct inst_where where = { .rack = "r12", .host = "gpu-07", .tenant_host = host_of };

static void create(struct fx *fx, const struct fx_want *w, const char *map)
{
	auto_(plan_free) struct plan *p = fx_plan(w);
	struct plan_request req = test_request("{\"name\": \"b\", \"tenant\": \"acme\"}");
	struct error err = ERROR_INIT;
	uint64_t op;

	p->rank_map = map ? json_tokener_parse(map) : NULL;
	if (inst_create(fx->m, &op, &req, p, "uuid-of-b", &err) < 0)
		fail_msg("%s", err.text);
	assert_true(fx_wait(fx, op));
	plan_request_done(&req);
}

static const char *text(json_object *o, const char *list, const char *key)
{
	json_object *a = NULL, *v = NULL;

	assert_true(json_object_object_get_ex(o, list, &a) && json_object_array_length(a) == 1);
	assert_true(json_object_object_get_ex(json_object_array_get_idx(a, 0), key, &v));
	return v ? json_object_get_string(v) : "null";
}

static void serial_numbers(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL, *tenant;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	(void)snprintf(fake_find(fx.machine, test_bdf("0000:3b:00.0"))->serial, ACT_SERIAL_MAX, "48b02d0000001234");
	create(&fx, &fx_b, "{\"gpus\": [{\"index\": 0, \"bdf\": \"0000:3b:00.0\"}], \"vfs\": [{\"index\": 0, \"bdf\": \"0000:77:00.0\"}],"
			   " \"tenant\": {\"gpus\": [{\"index\": 0}], \"vfs\": []}}");
	assert_int_equal(inst_rank_json(fx.m, &o, "b", &where, &err), 0);
	assert_string_equal(fx_string(o, "name"), "b");
	assert_string_equal(fx_string(o, "rack"), "r12");
	assert_string_equal(fx_string(o, "host"), "gpu-07");
	assert_string_equal(text(o, "gpus", "serial"), "48b02d0000001234");
	assert_string_equal(text(o, "vfs", "serial"), "null"); /* nothing was seen of it */
	tenant = json_object_object_get(o, "tenant");
	assert_null(fx_string(tenant, "rack"));
	assert_string_equal(fx_string(tenant, "host"), "host of acme");
	if (strstr(json_object_to_json_string(tenant), "48b02d") || strstr(json_object_to_json_string(tenant), "gpu-07"))
		fail_msg("the tenant's part names the host's things");
	json_object_put(o);
	fx_done(&fx);
}

static void without_a_map(void **state)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	create(&fx, &fx_b, NULL);
	assert_int_equal(inst_rank_json(fx.m, &o, "b", &where, &err), -ENOENT);
	assert_int_equal(inst_rank_json(fx.m, &o, "nobody", &where, &err), -ENOENT);
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(serial_numbers), cmocka_unit_test(without_a_map) };

	return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
