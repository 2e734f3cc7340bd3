/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Transactions that share a commit: all of them are in the file once it returned, or none is; one that fails takes no other with it; whoever
 * else comes commits first. The daemon is killed, the power goes, the disk and memory fail at each point of it. */
#include "instance/cut.h"
#include "instance/fixture.h"
#include "instance/manager.h"
#include "instance/op.h"
#include "instance/rows.h"
#include "instance/store.h"

#define WRITES 4 /* of a group */

struct shared {
	struct cut cut;
	bool       whole; /* the end said that all is kept */
	bool       kept[WRITES]; /* so said each transaction's own end */
};

struct scene {
	struct fx      fx;
	struct shared *shared;
	struct store  *s;
};

static void scene_new(struct scene *s)
{
	fx_new(&s->fx);
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(s->shared != MAP_FAILED);
	(void)snprintf(s->shared->cut.dir, sizeof(s->shared->cut.dir), "%s", s->fx.dir);
	s->s = fx_open_store(&s->fx);
	s->shared->cut.how = CUT_ERROR; /* armed, and never reached: it counts */
	s->shared->cut.at = UINT32_MAX;
	s->shared->cut.error = ENOSPC;
	cut_now = &s->shared->cut;
}

static void scene_done(struct scene *s)
{
	cut_now = NULL;
	(void)store_close(s->s);
	fx_done(&s->fx);
	(void)munmap(s->shared, sizeof(*s->shared));
}

static int try_write(struct store *s, const char *name, bool keep, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, s, err);

	if (r == 0)
		r = store_exec(tx, "INSERT INTO original VALUES('bind', ?, '')", ARGS(ARG_TEXT(name)), err);
	return r == 0 && keep ? store_commit_later(tx, err) : r;
}

static void write_later(struct store *s, const char *name)
{
	struct error err = ERROR_INIT;

	if (try_write(s, name, true, &err) != 1)
		fail_msg("%s", err.text);
}

/* " a b", by name */
static const char *names(struct store *s)
{
	static char text[256];
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL;
	struct error err = ERROR_INIT;

	if (store_begin(&tx, s, &err) < 0 || store_query(tx, &q, "SELECT target FROM original ORDER BY target", NO_ARGS, &err) < 0)
		fail_msg("%s", err.text);
	text[0] = '\0';
	while (store_next(q, &err) > 0)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", store_text(q, 0));
	return text;
}

static void expect_file(struct scene *s, const char *what)
{
	cut_now = NULL;
	(void)store_close(s->s);
	s->s = fx_open_store(&s->fx);
	assert_string_equal(names(s->s), what);
	cut_now = &s->shared->cut;
}

/* The next write to the file fails, once. */
static void break_disk(struct scene *s)
{
	s->shared->cut.at = s->shared->cut.calls + 1;
}

static void one_sync_for_all(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t failed = 7, before;
	struct scene s;
	unsigned calls;

	(void)state;
	scene_new(&s);
	store_group_begin(s.s);
	before = store_commits(s.s);
	calls = s.shared->cut.calls;
	write_later(s.s, "a");
	assert_true(store_commits(s.s) > before); /* for what was read before */
	assert_int_equal(try_write(s.s, "b", false, &err), 0);
	write_later(s.s, "c");
	assert_int_equal(try_write(s.s, "a", true, &err), -EIO); /* it is there: to this thread */
	assert_string_equal(names(s.s), " a c");
	before = store_commits(s.s);
	assert_int_equal(s.shared->cut.calls, calls); /* to the file nothing was written */
	assert_int_equal(store_group_end(s.s, &failed, &err), 0);
	assert_int_equal(failed, 0);
	assert_true(store_commits(s.s) > before);
	assert_true(s.shared->cut.calls > calls);
	assert_int_equal(s.shared->cut.syncs, 1);
	assert_int_equal(try_write(s.s, "d", true, &err), 0); /* at once, without a group */
	assert_int_equal(s.shared->cut.syncs, 2);
	expect_file(&s, " a c d");
	scene_done(&s);
}

static void an_empty_group_costs_nothing(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t failed = 7;
	struct scene s;

	(void)state;
	scene_new(&s);
	store_group_begin(s.s);
	assert_string_equal(names(s.s), "");
	assert_int_equal(try_write(s.s, "b", false, &err), 0);
	assert_int_equal(store_group_end(s.s, &failed, &err), 0);
	assert_int_equal(failed, 0);
	assert_int_equal(s.shared->cut.calls, 0);
	scene_done(&s);
}

/* What cannot wait takes along what was left open. */
static void a_commit_is_of_all(void **state)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct error err = ERROR_INIT;
	uint64_t failed;
	struct scene s;

	(void)state;
	scene_new(&s);
	store_group_begin(s.s);
	write_later(s.s, "a");
	assert_int_equal(store_begin(&tx, s.s, &err), 0);
	assert_int_equal(store_exec(tx, "INSERT INTO original VALUES('bind', 'b', '')", NO_ARGS, &err), 0);
	assert_int_equal(store_commit(tx, &err), 0);
	assert_int_equal(s.shared->cut.syncs, 1);
	tx = store_end(tx);
	write_later(s.s, "c");
	assert_int_equal(store_group_commit(s.s, &err), 0);
	assert_int_equal(s.shared->cut.syncs, 2);
	assert_int_equal(store_group_end(s.s, &failed, &err), 0);
	assert_int_equal(s.shared->cut.syncs, 2);
	expect_file(&s, " a b c");
	scene_done(&s);
}

static void nothing_is_kept_of_one_that_fails(void **state)
{
	struct error err = ERROR_INIT, again = ERROR_INIT;
	uint64_t failed = 0, first, before;
	struct scene s;

	(void)state;
	scene_new(&s);
	store_group_begin(s.s);
	write_later(s.s, "a");
	first = store_group(s.s);
	assert_int_equal(store_group_commit(s.s, &err), 0);
	write_later(s.s, "b");
	write_later(s.s, "c");
	assert_true(store_group(s.s) != first);
	before = store_commits(s.s);
	break_disk(&s);
	assert_int_equal(store_group_end(s.s, &failed, &err), -EIO);
	assert_non_null(strstr(err.text, "is full"));
	assert_int_equal(failed, store_group(s.s));
	assert_true(store_commits(s.s) > before); /* what was read of it is not so */
	assert_string_equal(names(s.s), " a");
	store_group_begin(s.s);
	write_later(s.s, "d");
	break_disk(&s);
	assert_int_equal(store_group_commit(s.s, &err), -EIO);
	assert_int_equal(try_write(s.s, "e", true, &again), -EIO); /* and none after it, until the end */
	assert_string_equal(again.text, err.text);
	assert_int_equal(store_group_end(s.s, &failed, &again), -EIO);
	assert_int_equal(failed, store_group(s.s));
	assert_int_equal(try_write(s.s, "f", true, &err), 0);
	expect_file(&s, " a f");
	scene_done(&s);
}

static void write_lazily(struct store *s, const char *name, bool keep)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct error err = ERROR_INIT;

	if (store_begin_lazy(&tx, s, &err) < 0 ||
	    store_exec(tx, "INSERT INTO original VALUES('bind', ?, '')", ARGS(ARG_TEXT(name)), &err) < 0 || (keep && store_commit(tx, &err) < 0))
		fail_msg("%s", err.text);
}

/* It waits for no disk, and is safe with the next that does; after it, and after one that is not kept, all wait again. */
static void a_lazy_one_waits_for_nothing(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t failed;
	struct scene s;
	unsigned calls;

	(void)state;
	scene_new(&s);
	calls = s.shared->cut.calls;
	write_lazily(s.s, "a", true);
	assert_true(s.shared->cut.calls > calls);
	assert_int_equal(s.shared->cut.syncs, 0);
	assert_int_equal(try_write(s.s, "b", true, &err), 0);
	assert_int_equal(s.shared->cut.syncs, 1);
	write_lazily(s.s, "lost", false);
	assert_int_equal(try_write(s.s, "c", true, &err), 0);
	assert_int_equal(s.shared->cut.syncs, 2);
	write_lazily(s.s, "d", true);
	store_group_begin(s.s);
	write_later(s.s, "e");
	write_lazily(s.s, "f", true); /* takes along what was left open, and that must not be lost */
	assert_int_equal(s.shared->cut.syncs, 3);
	assert_int_equal(store_group_end(s.s, &failed, &err), 0);
	assert_int_equal(s.shared->cut.syncs, 3);
	break_disk(&s);
	assert_int_equal(try_write(s.s, "no", true, &err), -EIO);
	expect_file(&s, " a b c d e f");
	scene_done(&s);
}

struct other {
	struct store *s;
	bool          keep;
	unsigned      syncs; /* when its transaction was open */
	int           r;
	struct error  err;
};

static void *another(void *arg)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct other *o = arg;

	o->r = store_begin(&tx, o->s, &o->err);
	o->syncs = cut_now->syncs;
	if (o->r == 0)
		o->r = store_exec(tx, "INSERT INTO original VALUES('bind', 'other', '')", NO_ARGS, &o->err);
	if (o->r == 0 && o->keep)
		o->r = store_commit(tx, &o->err);
	return NULL;
}

static void meanwhile(struct other *o)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, another, o), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
}

/* Nobody sees what is not in the file, and what somebody else rolls back is his own. */
static void others_commit_first(void **state)
{
	struct error err = ERROR_INIT;
	struct other o = { 0 };
	uint64_t failed;
	struct scene s;

	(void)state;
	scene_new(&s);
	o.s = s.s;
	store_group_begin(s.s);
	write_later(s.s, "a");
	assert_int_equal(s.shared->cut.syncs, 0);
	meanwhile(&o);
	assert_int_equal(o.r, 0);
	assert_int_equal(o.syncs, 1);
	assert_string_equal(names(s.s), " a");
	write_later(s.s, "b");
	o.keep = true;
	meanwhile(&o);
	assert_int_equal(o.r, 0);
	assert_int_equal(o.syncs, 2);
	assert_int_equal(s.shared->cut.syncs, 3);
	write_later(s.s, "c");
	assert_int_equal(store_group_end(s.s, &failed, &err), 0);
	assert_int_equal(s.shared->cut.syncs, 4);
	expect_file(&s, " a b c other");
	scene_done(&s);
}

/* And is not told of what is not his. */
static void others_go_on_where_it_fails(void **state)
{
	struct other o = { .keep = true };
	struct error err = ERROR_INIT;
	uint64_t failed = 0;
	struct scene s;

	(void)state;
	scene_new(&s);
	o.s = s.s;
	store_group_begin(s.s);
	write_later(s.s, "a");
	break_disk(&s);
	meanwhile(&o);
	assert_int_equal(o.r, 0);
	assert_int_equal(try_write(s.s, "b", true, &err), -EIO);
	assert_non_null(strstr(err.text, "is full"));
	assert_int_equal(store_group_end(s.s, &failed, &err), -EIO);
	assert_int_equal(failed, store_group(s.s));
	expect_file(&s, " other");
	scene_done(&s);
}

/* As SQLite does where it cannot keep half of a transaction (sqlite.org/lang_transaction.html). */
static void it_may_be_rolled_back_within(void **state)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct error err = ERROR_INIT;
	uint64_t failed = 0;
	struct scene s;

	(void)state;
	scene_new(&s);
	store_group_begin(s.s);
	write_later(s.s, "a");
	assert_int_equal(store_begin(&tx, s.s, &err), 0);
	assert_int_equal(store_exec(tx, "ROLLBACK", NO_ARGS, &err), 0);
	assert_true(store_commit_later(tx, &err) < 0);
	tx = store_end(tx);
	assert_int_equal(store_group_end(s.s, &failed, &err), -EIO);
	assert_int_equal(failed, store_group(s.s));
	store_group_begin(s.s); /* the first of a group */
	assert_int_equal(store_begin(&tx, s.s, &err), 0);
	assert_int_equal(store_exec(tx, "ROLLBACK", NO_ARGS, &err), 0);
	assert_true(store_commit_later(tx, &err) < 0);
	tx = store_end(tx);
	write_later(s.s, "b");
	assert_int_equal(store_group_end(s.s, &failed, &err), 0);
	expect_file(&s, " b");
	scene_done(&s);
}

/* ---- at each point ---------------------------------------------------------------------------------- */

/* In a process of its own: a group of which one fails on purpose, as a request does. */
static void live(struct scene *s)
{
	struct error err = ERROR_INIT;
	uint64_t failed = 0;
	char name[] = "a";

	s->s = fx_open_store(&s->fx);
	cut_now = &s->shared->cut;
	store_group_begin(s->s);
	for (int i = 0; i < WRITES; i++, name[0]++) {
		err = ERROR_INIT;
		s->shared->kept[i] = try_write(s->s, name, i != 1, &err) == 1;
	}
	err = ERROR_INIT;
	s->shared->whole = store_group_end(s->s, &failed, &err) == 0;
	(void)store_close(s->s);
	_exit(0);
}

static void expect_what_was_said(struct scene *s, bool died)
{
	char all[16] = "", name[3] = " a";

	for (int i = 0; i < WRITES; i++, name[1]++)
		if (s->shared->kept[i])
			(void)strcat(all, name);
	s->s = fx_open_store(&s->fx);
	if (s->shared->whole)
		assert_string_equal(names(s->s), all);
	else if (names(s->s)[0] && (!died || strcmp(names(s->s), all) != 0))
		fail_msg("there is \"%s\" of \"%s\"", names(s->s), all);
	(void)store_close(s->s);
	s->s = NULL;
}

static bool run(enum cut_how how, unsigned k)
{
	struct scene s;
	bool fired;
	int status;
	pid_t pid;

	scene_new(&s);
	cut_now = NULL;
	s.s = store_close(s.s);
	s.shared->cut = (struct cut){ .how = how, .at = k, .seed = k, .error = ENOSPC };
	(void)snprintf(s.shared->cut.dir, sizeof(s.shared->cut.dir), "%s", s.fx.dir);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		live(&s);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	fired = s.shared->cut.fired || WIFSIGNALED(status);
	if (!WIFSIGNALED(status))
		assert_int_equal(status, 0);
	expect_what_was_said(&s, WIFSIGNALED(status));
	scene_done(&s);
	return fired;
}

static void all_or_none(void **state)
{
	static const enum cut_how hows[] = { CUT_KILL, CUT_KILL_HALF, CUT_POWER, CUT_ERROR };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hows); i++) {
		unsigned k = 1;

		while (run(hows[i], k))
			k++;
		assert_in_range(k, 6, 200);
	}
}

static void memory_fails(void **state)
{
	unsigned k = 1, n = 0;

	(void)state;
	if (!cut_has_memory())
		skip();
	for (; n < 20; k += 3)
		n = run(CUT_MEMORY, k) ? 0 : n + 1;
	assert_in_range(k, 100, 5000);
}

static unsigned retry_in(struct fx *fx)
{
	unsigned s;

	(void)pthread_mutex_lock(&fx->m->lock);
	s = fx->m->pool.retry.ms / 1000;
	(void)pthread_mutex_unlock(&fx->m->lock);
	return s;
}

/* The disk is full for a while: however many threads see it, and however often something wakes them, that is one failure, and five seconds
 * are over. */
static void a_failure_counts_once(void **state)
{
	struct cut cut = { .how = CUT_ERROR, .at = UINT32_MAX, .error = ENOSPC, .lasts = true };
	struct error err = ERROR_INIT;
	struct store_tx *tx = NULL;
	struct op *op = NULL;
	struct arena arena = { 0 };
	struct fx fx;
	uint64_t id;

	(void)state;
	fx_new(&fx);
	strcpy(cut.dir, fx.dir);
	cut_now = &cut;
	fx_close(&fx);
	fx.workers = 8;
	fx_open(&fx);
	assert_int_equal(store_begin(&tx, fx.m->store, &err), 0);
	assert_int_equal(op_add(tx, &id, OP_DELETE, "nobody", 1, &err), 0);
	assert_int_equal(store_commit(tx, &err), 0);
	cut.at = cut.calls + 1;
	tx = store_end(tx);
	for (int i = 0; i < 100 || !retry_in(&fx); i++) {
		pool_wake(fx.m, POOL_QUEUE);
		fx_nap();
	}
	assert_int_equal(retry_in(&fx), 5);
	assert_true(cut.fired);
	cut_now = NULL;
	pool_wake(fx.m, POOL_QUEUE);
	for (int i = 0; i < 1000 && !(op && op->finished && retry_in(&fx) == 0); i++) {
		fx_nap();
		assert_int_equal(store_begin(&tx, fx.m->store, &err), 0);
		assert_int_equal(op_find(tx, &op, id, &arena, &err), 0);
		tx = store_end(tx);
	}
	assert_true(op && op->finished);
	assert_string_equal(op->detail, "the store lost its instance");
	assert_int_equal(retry_in(&fx), 0);
	arena_done(&arena);
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_sync_for_all),
		cmocka_unit_test(a_lazy_one_waits_for_nothing),
		cmocka_unit_test(an_empty_group_costs_nothing),
		cmocka_unit_test(a_commit_is_of_all),
		cmocka_unit_test(nothing_is_kept_of_one_that_fails),
		cmocka_unit_test(others_commit_first),
		cmocka_unit_test(others_go_on_where_it_fails),
		cmocka_unit_test(it_may_be_rolled_back_within),
		cmocka_unit_test(all_or_none),
		cmocka_unit_test(memory_fails),
		cmocka_unit_test(a_failure_counts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
