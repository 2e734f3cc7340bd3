/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Leases by themselves: whose they are, how many, and when they end. */
#include "support.h"
#include "plan/plan.h"
#include "velad/lease.h"

#define SECOND 1000000

/* A plan with GPU 0000:NN:00.0, its audio function and one VF. */
static struct lease_bundle bundle(unsigned bus)
{
	struct plan *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->fits = true;
	p->gpu[p->ngpus++] = (struct bdf){ .bus = (uint8_t)bus };
	p->vf[p->nvfs++] = (struct plan_vf){ .bdf = { .bus = (uint8_t)bus, .devfn = 8 } };
	p->cell = arena_array(&p->arena, 1, sizeof(*p->cell));
	p->cell[p->ncells++] = (struct plan_cell){ .memory = 1u << 30, .vcpus = 2 };
	p->exclusive = true;
	p->companion = arena_array(&p->arena, 1, sizeof(*p->companion));
	p->companion[p->ncompanions++] = (struct plan_companion){ .bdf = { .bus = (uint8_t)bus, .devfn = 1 } };
	return (struct lease_bundle){ .request = json_object_new_object(), .plan = p };
}

static int try_add(struct leases *l, struct lease **ret, uid_t uid, uint64_t now, unsigned seconds, unsigned bus, struct error *err)
{
	struct lease_bundle b = bundle(bus);
	int r = leases_add(l, ret, uid, now, seconds, &b, 1, err);

	json_object_put(b.request);
	plan_free(b.plan);
	return r;
}

static struct lease *add(struct leases *l, uid_t uid, uint64_t now, unsigned seconds, unsigned bus)
{
	struct error err = ERROR_INIT;
	struct lease *lease = NULL;

	if (try_add(l, &lease, uid, now, seconds, bus, &err) < 0)
		fail_msg("%s", err.text);
	return lease;
}

static size_t taken(struct leases *l, uint64_t now, const struct lease *except, size_t which)
{
	const struct plan_taken first = { .bdf = { .bus = 1 }, .owner = "instance a" };
	const struct plan_room room = { .owner = "instance a" };
	struct plan_input in = { .taken = &first, .ntaken = 1, .room = &room, .nrooms = 1 };
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };

	assert_int_equal(leases_hold(l, now, except, which, &in, &arena, &err), 0);
	assert_string_equal(in.taken[0].owner, "instance a"); /* what instances hold stays */
	assert_string_equal(in.room[0].owner, "instance a");
	for (size_t i = 1; i < in.ntaken; i++)
		assert_int_equal(strncmp(in.taken[i].owner, "lease ", 6), 0);
	for (size_t i = 1; i < in.nrooms; i++) {
		assert_string_equal(in.room[i].owner, in.taken[3 * i].owner);
		assert_true(in.room[i].memory == 1u << 30 && in.room[i].exclusive && !in.room[i].backed);
	}
	assert_int_equal(3 * (in.nrooms - 1), in.ntaken - 1); /* each bundle has a cell */
	arena_done(&arena);
	return in.ntaken - 1;
}

static int find(struct leases *l, const char *id, uid_t uid, uint64_t now)
{
	struct error err = ERROR_INIT;
	struct lease *found = NULL;
	int r = leases_find(l, &found, id, uid, now, &err);

	if (r == 0)
		assert_string_equal(found->id, id);
	return r;
}

static void they_end(void **state)
{
	struct leases l = { 0 };
	struct lease *a = add(&l, 7, 0, 10, 2), *b = add(&l, 7, 0, 20, 3);
	char first[LEASE_ID_MAX];

	(void)state;
	(void)snprintf(first, sizeof(first), "%s", a->id);
	assert_string_not_equal(first, b->id);
	assert_int_equal(taken(&l, 0, NULL, 0), 6);
	assert_int_equal(taken(&l, 10 * SECOND - 1, NULL, 0), 6);
	assert_int_equal(taken(&l, 10 * SECOND, NULL, 0), 3);
	assert_int_equal(find(&l, first, 7, 10 * SECOND), -ENOENT);
	assert_int_equal(taken(&l, 20 * SECOND, b, 0), 0); /* the one that is being used stays until that is done */
	assert_int_equal(l.n, 1);
	leases_use(&l, b, 0);
	assert_int_equal(l.n, 0);
	leases_done(&l);
}

static void whose_they_are(void **state)
{
	struct leases l = { 0 };
	struct lease *a = add(&l, 7, 0, 10, 2);
	json_object *of_8 = leases_json(&l, 8, 0), *of_root = leases_json(&l, 0, 0);

	(void)state;
	assert_int_equal(find(&l, a->id, 7, 0), 0);
	assert_int_equal(find(&l, a->id, 0, 0), 0);
	assert_int_equal(find(&l, a->id, 8, 0), -ENOENT);
	assert_int_equal(find(&l, "", 7, 0), -ENOENT);
	assert_int_equal(json_object_array_length(json_object_object_get(of_8, "leases")), 0);
	assert_int_equal(json_object_array_length(json_object_object_get(of_root, "leases")), 1);
	json_object_put(of_8);
	json_object_put(of_root);
	leases_done(&l);
}

static void how_many(void **state)
{
	struct error err = ERROR_INIT;
	struct leases l = { 0 };
	struct lease *lease = NULL;
	unsigned n = 0;

	(void)state;
	for (; n < LEASES_UID_MAX; n++)
		(void)add(&l, 1, 0, 10 + n, n);
	assert_int_equal(try_add(&l, &lease, 1, 0, 10, 99, &err), -EBUSY);
	assert_non_null(strstr(err.text, "uid 1 has 16 leases"));
	for (; n < LEASES_MAX; n++)
		(void)add(&l, n, 0, 100, n);
	err = ERROR_INIT;
	assert_int_equal(try_add(&l, &lease, 1000, 0, 10, 99, &err), -EBUSY);
	assert_non_null(strstr(err.text, "this host has 64 leases"));
	err = ERROR_INIT;
	assert_int_equal(try_add(&l, &lease, (uid_t)-1, 0, 10, 99, &err), -EPERM);
	assert_int_equal(l.n, LEASES_MAX);
	(void)add(&l, 1, 10 * SECOND, 10, 99); /* one has ended */
	leases_done(&l);
	assert_int_equal(l.n, 0);
}

static void bundles_are_used_one_by_one(void **state)
{
	struct lease_bundle b[2] = { bundle(2), bundle(3) };
	struct error err = ERROR_INIT;
	struct leases l = { 0 };
	struct lease *lease = NULL;
	json_object *doc, *list;

	(void)state;
	assert_int_equal(leases_add(&l, &lease, 7, 0, 10, b, 2, &err), 0);
	assert_null(b[0].plan);
	assert_null(b[1].request);
	assert_int_equal(taken(&l, 0, NULL, 0), 6);
	assert_int_equal(taken(&l, 0, lease, 1), 3);
	leases_use(&l, lease, 0);
	doc = lease_json(lease);
	list = json_object_object_get(doc, "bundles");
	assert_true(json_object_get_boolean(json_object_object_get(json_object_array_get_idx(list, 0), "used")));
	assert_string_equal(json_object_get_string(json_object_array_get_idx(
				    json_object_object_get(json_object_array_get_idx(list, 1), "gpus"), 0)), "0000:03:00.0");
	json_object_put(doc);
	assert_int_equal(taken(&l, 0, NULL, 0), 3);
	leases_use(&l, lease, 1);
	assert_int_equal(l.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_end),
		cmocka_unit_test(whose_they_are),
		cmocka_unit_test(how_many),
		cmocka_unit_test(bundles_are_used_one_by_one),
	};

	return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
