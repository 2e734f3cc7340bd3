/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a refusal says is nearest, and what explain says is next best, taken at its word: it is made so, and planned. */
#include "host/inventory.h"
#include "synth.h"

struct asked {
	struct topo      *t;
	char              json[300];
	struct plan_taken taken[32];
	size_t            ntaken;
	struct plan_sick  sick[4];
	size_t            nsick;
	struct plan_room  room[4];
	size_t            nrooms;
};

static struct plan *plan_of(const struct asked *a, const char *json)
{
	struct plan_request req = test_request(json);
	struct plan_input in = { .topo = a->t, .request = &req, .taken = a->taken, .ntaken = a->ntaken, .sick = a->sick, .nsick = a->nsick,
				 .room = a->room, .nrooms = a->nrooms, .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

static bool would_fit(const struct asked *a, const char *json)
{
	auto_(plan_free) struct plan *p = plan_of(a, json);

	return p->fits;
}

static void drop(struct asked *a, size_t i)
{
	a->taken[i] = a->taken[--a->ntaken];
}

/* The GPU is free; or one of the port's VFs, any one that helps. */
static bool fits_without(const struct asked *was, const char *device)
{
	struct bdf at = test_bdf(device);
	bool fits = false;

	for (size_t i = 0; i < was->ntaken && !fits; i++) {
		const struct host_function *fn = host_function_find(topo_inventory(was->t), was->taken[i].bdf);
		struct asked a = *was;

		if (!fn || !(bdf_eq(fn->bdf, at) || (fn->facts->is_vf && bdf_eq(fn->facts->pf, at))))
			continue;
		drop(&a, i);
		fits = would_fit(&a, a.json);
	}
	for (size_t i = 0; i < was->nsick && !fits; i++) {
		struct asked a = *was;

		if (!bdf_eq(a.sick[i].bdf, at))
			continue;
		a.sick[i] = a.sick[--a.nsick];
		fits = would_fit(&a, a.json);
	}
	return fits;
}

/* One thing that is needed, into the request. */
static void obey(json_object *o, const char *needed)
{
	char key[20], word[20];
	uint64_t n;

	if (sscanf(needed, "%" SCNu64 " GPU", &n) == 1)
		json_object_object_add(o, "gpus", json_object_new_int64((int64_t)n));
	else if (sscanf(needed, "cells %" SCNu64, &n) == 1)
		json_object_object_add(o, "cells", json_object_new_int64((int64_t)n));
	else if (sscanf(needed, "no %19s", key) == 1)
		json_object_object_del(o, key);
	else if (sscanf(needed, "%19s %19s", key, word) == 2 && json_object_object_get_ex(o, key, NULL))
		json_object_object_add(o, key, json_object_new_string(word));
	else
		fail_msg("nobody has looked at \"%s\"", needed);
}

static bool is_true(const struct asked *a, const struct plan_reason *r)
{
	json_object *o = json_tokener_parse(a->json);
	const char *second = strstr(r->needed, " and ");
	bool fits;

	if (!*r->device)
		obey(o, r->needed);
	if (second && !*r->device)
		obey(o, second + strlen(" and "));
	fits = *r->device ? fits_without(a, r->device) : would_fit(a, json_object_to_json_string(o));
	json_object_put(o);
	return fits;
}

/* Ports are open at random, devices somebody's. */
static void make_asked(struct asked *a, uint64_t seed)
{
	static const char *const owner[] = { "instance a", "instance b", "lease c" };
	struct synth s = { .nodes = 1 + seed % 2, .bridges = 1, .switches = 2, .gpus = 2, .nics = 1, .total_vfs = 4, .free_mib = 8192, .seed = seed };
	autofree char *text = synth_text(&s);
	uint64_t r = seed * 7919;

	*a = (struct asked){ .t = test_topo_text(text) };
	for (uint32_t i = 0; i < topo_count(a->t); i++) {
		struct host_function *fn = (struct host_function *)topo_at(a->t, i)->fn; /* a test may make a machine worse */
		struct host_facts *f = (struct host_facts *)fn->facts;

		if (host_kind_is_bridge(f->kind) && synth_random(&r, 4) == 0)
			f->cap.acs.ctl = 0;
		if ((f->kind == HOST_GPU || f->kind == HOST_VF) && a->ntaken < ARRAY_SIZE(a->taken) && synth_random(&r, 3) == 0)
			a->taken[a->ntaken++] = (struct plan_taken){ fn->bdf, owner[synth_random(&r, 3)] };
		else if ((f->kind == HOST_GPU || f->kind == HOST_NIC) && a->nsick < ARRAY_SIZE(a->sick) && synth_random(&r, 8) == 0)
			a->sick[a->nsick++] = (struct plan_sick){ fn->bdf, "its reset failed" };
		if ((f->kind == HOST_GPU || f->kind == HOST_VF) && synth_random(&r, 2))
			fn->driver = 0;
	}
	(void)snprintf(a->json, sizeof(a->json), "{\"gpus\":%u,\"vfs_per_gpu\":%u,\"vcpus\":4%s%s}", 1 + synth_random(&r, 4), 1 + synth_random(&r, 2),
		       synth_random(&r, 2) ? ",\"max_path\":\"PIX\"" : "", synth_random(&r, 3) ? "" : ",\"numa_node\":0");
}

static bool next_is_true(const struct asked *a, const struct plan *p)
{
	json_object *o = json_tokener_parse(a->json), *list = json_object_new_array();
	char text[BDF_TEXT_MAX];
	bool fits;

	for (size_t i = 0; i < p->next.ngpus; i++)
		json_object_array_add(list, json_object_new_string(bdf_text(text, p->next.gpu[i])));
	json_object_object_add(o, "require", list);
	fits = would_fit(a, json_object_to_json_string(o));
	json_object_put(o);
	return fits;
}

static void what_is_said_is_so(void **state)
{
	unsigned devices = 0, limits = 0, next = 0, refused = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 600; seed++) {
		struct asked a;
		struct plan *p;

		make_asked(&a, seed);
		p = plan_of(&a, a.json);
		for (size_t i = 0; i < p->nreasons && !p->fits; i++) {
			const struct plan_reason *r = &p->reason[i];

			if (strcmp(r->rule, "nearest") != 0)
				continue;
			if (!strstr(r->observed, "gave back") && !is_true(&a, r))
				fail_msg("seed %u: %s: %s %s; needed: %s", (unsigned)seed, a.json, r->device, r->observed, r->needed);
			devices += *r->device != '\0';
			limits += *r->device == '\0';
		}
		if (p->fits && p->next.known && !next_is_true(&a, p))
			fail_msg("seed %u: %s: the next best is none", (unsigned)seed, a.json);
		next += p->fits && p->next.known;
		refused += !p->fits;
		plan_free(p);
		topo_unref(a.t);
	}
	print_message("# %u refused: %u devices, %u limits and numbers; %u next best\n", refused, devices, limits, next);
	assert_true(devices > 50 && limits > 50 && next > 50);
}

static const struct plan_reason *last(const struct plan *p)
{
	assert_true(!p->fits && p->nreasons);
	assert_string_equal(p->reason[p->nreasons - 1].rule, "nearest");
	return &p->reason[p->nreasons - 1];
}

/* No device would do: it is CPUs that somebody has. */
static void memory_and_cpus_name_the_owner(void **state)
{
	struct asked a = { .t = test_topo_host("xe9680"), .nrooms = 2 };
	const struct host_node *n = topo_inventory(a.t)->node;
	struct plan *p;

	(void)state;
	a.room[0] = (struct plan_room){ .node = 0, .memory = 64u << 20, .cpus = &n[0].cpus, .owner = "instance busy", .backed = true };
	a.room[1] = (struct plan_room){ .node = 1, .memory = 64u << 20, .cpus = NULL, .owner = "instance other", .backed = true };
	p = plan_of(&a, "{\"gpus\":1,\"numa_node\":0,\"vcpus\":2}");
	assert_true(test_has_reason(p, "cpus.short"));
	assert_string_equal(last(p)->needed, "instance busy deleted or released");
	plan_free(p);
	p = plan_of(&a, "{\"gpus\":5,\"vcpus\":8}"); /* of both nodes, and both are busy */
	assert_true(!p->fits && !test_has_reason(p, "nearest"));
	plan_free(p);
	topo_unref(a.t);
}

/* A port above three devices is named once, and it is the port. */
static void a_quarantined_port_is_named(void **state)
{
	struct asked a = { .t = test_topo_host("xe9680"), .nsick = 1 };
	uint32_t up = topo_at(a.t, test_at(a.t, "0000:4c:00.0"))->parent;
	char port[BDF_TEXT_MAX];
	struct plan *p;

	(void)state;
	a.sick[0] = (struct plan_sick){ topo_at(a.t, up)->fn->bdf, "it lost its link" };
	p = plan_of(&a, "{\"gpus\":4,\"numa_node\":0,\"vcpus\":4}");
	assert_string_equal(last(p)->device, bdf_text(port, a.sick[0].bdf));
	plan_free(p);
	topo_unref(a.t);
}

/* Two things at once are in the way. */
static void two_limits(void **state)
{
	struct asked a = { .t = test_topo_host("xe9680") };
	struct plan *p = plan_of(&a, "{\"gpus\":4,\"vfs_per_gpu\":1,\"vcpus\":4,\"max_gpu_path\":\"PIX\",\"min_bandwidth\":4000}");

	(void)state;
	assert_string_equal(last(p)->needed, "max_gpu_path NODE and min_bandwidth 504");
	plan_free(p);
	topo_unref(a.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_is_so),
		cmocka_unit_test(memory_and_cpus_name_the_owner),
		cmocka_unit_test(a_quarantined_port_is_named),
		cmocka_unit_test(two_limits),
	};

	return cmocka_run_group_tests_name("nearest", tests, NULL, NULL);
}
