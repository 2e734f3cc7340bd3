/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A plan is the same with what earlier ones left behind as without, whatever differs between them: the host, who has what, and what is asked for. */
#include "plan/memo.h"

#include "plan/solve.h"
#include "synth.h"

static const char *const requests[] = {
	"{\"vcpus\": 2}", "{\"gpus\": 1}", "{\"gpus\": 2, \"vfs_per_gpu\": 1}", "{\"gpus\": 4, \"vfs\": 2}", "{\"vfs\": 2}",
	"{\"gpus\": 3, \"vfs_per_gpu\": 2, \"max_path\": \"PIX\"}", "{\"gpus\": 8}", "{\"gpus\": 2, \"require\": [\"0000:19:00.0\"]}",
};

static char *text_of(struct plan_input *in)
{
	struct error err = ERROR_INIT;
	struct plan *p = NULL;
	json_object *o;
	char *text;

	if (plan_make(&p, in, &err) < 0)
		fail_msg("%s", err.text);
	o = plan_json(p);
	text = strdup(json_object_to_json_string(o));
	json_object_put(o);
	plan_free(p);
	return text;
}

static void the_same_plan(void **state)
{
	const struct synth invented = { .nodes = 2, .bridges = 1, .switches = 2, .gpus = 2, .nics = 1, .total_vfs = 8, .free_mib = 65536, .seed = 5 };
	char *text = synth_text(&invented);
	struct topo *host[] = { test_topo_host("xe9680"), test_topo_host("cascade"), test_topo_text(text) };
	struct plan_memo *memo = plan_memo_new();
	struct plan_request req[ARRAY_SIZE(requests)];
	uint64_t seed = 42;

	(void)state;
	free(text);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		req[i] = test_request(requests[i]);
	for (unsigned k = 0; k < 400; k++) {
		struct topo *t = host[synth_random(&seed, 6) % ARRAY_SIZE(host)];
		struct plan_taken taken[8];
		struct plan_wear wear[2];
		struct plan_input in = { .topo = t, .request = &req[synth_random(&seed, ARRAY_SIZE(req))], .taken = taken, .wear = wear,
					 .policy = TEST_POLICY };
		char *bare, *with;

		for (uint32_t i = 0; i < topo_count(t) && in.ntaken < ARRAY_SIZE(taken); i++)
			if (topo_at(t, i)->fn->facts->kind == HOST_GPU && synth_random(&seed, 5) == 0)
				taken[in.ntaken++] = (struct plan_taken){ topo_at(t, i)->fn->bdf, "instance x" };
		for (uint32_t i = 0; i < topo_count(t) && in.nwear < ARRAY_SIZE(wear) && k % 3 == 0; i++)
			if (topo_at(t, i)->fn->facts->kind == HOST_GPU && synth_random(&seed, 4) == 0)
				wear[in.nwear++] = (struct plan_wear){ topo_at(t, i)->fn->bdf, synth_random(&seed, 3) };
		bare = text_of(&in);
		in.memo = memo;
		with = text_of(&in);
		assert_string_equal(bare, with);
		free(bare);
		free(with);
	}
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		plan_request_done(&req[i]);
	for (size_t i = 0; i < ARRAY_SIZE(host); i++)
		topo_unref(host[i]);
	plan_memo_free(memo);
}

static struct solve_host *new_host(uint8_t path)
{
	struct solve_host *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	h->ngpus = h->nnics = h->nnodes = 2;
	h->path[1][0] = path;
	h->nshapes = 1;
	h->shape[0] = (struct solve_shape){ .size = 1, .weight = 1 };
	return h;
}

/* While one plan has it, another of another host takes nothing away from it. */
static void lent_to_several(void **state)
{
	struct plan_memo *m = plan_memo_new();
	struct solve_host *a = new_host(1), *b = new_host(1), *c = new_host(2), *d = new_host(2);
	bool lent[4];

	(void)state;
	assert_int_equal(memo_prepare(m, &a, &lent[0]), 0);
	assert_int_equal(memo_prepare(m, &b, &lent[1]), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(memo_prepare(m, &c, &lent[2]), 0);
	assert_true(lent[0] && lent[1] && !lent[2]);
	assert_int_equal(a->path[1][0], 1);
	assert_non_null(a->cap[0]);
	memo_done(m, c, lent[2]);
	memo_done(m, a, lent[0]);
	memo_done(m, b, lent[1]);
	assert_int_equal(memo_prepare(m, &d, &lent[3]), 0);
	assert_true(lent[3]);
	assert_int_equal(d->path[1][0], 2);
	memo_done(m, d, lent[3]);
	plan_memo_free(m);
	a = new_host(1);
	assert_int_equal(memo_prepare(NULL, &a, &lent[0]), 0);
	assert_false(lent[0]);
	memo_done(NULL, a, lent[0]);
	memo_done(NULL, NULL, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_same_plan), cmocka_unit_test(lent_to_several) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
