/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A store of each older version becomes one of this version: whole, wherever it is interrupted, or not at all. */
#include "instance/cut.h"
#include "instance/sql.h"
#include "instance/store_schema.h"

/* What a store of version n can have. */
static void make_version(struct fx *fx, size_t n)
{
	static const struct {
		size_t since;
		const char *sql;
	} rows[] = {
		{ 1, "INSERT INTO operation(id, kind, instance, state, created, finished) VALUES(7, 'create', 'a', 'succeeded', 5, 6);"
		     "INSERT INTO instance(name, uuid, state, created, request, plan, operation) VALUES('a', 'u', 'running', 5, '{}', '{}', 7);"
		     "INSERT INTO device(bdf, instance) VALUES('0000:19:00.0', 'a');"
		     "INSERT INTO step(instance, seq, kind, target, was, wanted, old, state) VALUES('a', 0, 'bind', '0000:19:00.0', 'w', 'v', 'o', 'done');"
		     "INSERT INTO original VALUES('bind', '0000:19:00.0', 'o')" },
		{ 2, "INSERT INTO finding VALUES('a', 'rule', 'd', 't', 1, 2, 3)" },
		{ 3, "INSERT INTO request_key VALUES(0, 'key', 'digest', 7, 5)" },
		{ 5, "INSERT INTO image VALUES('a', 'raw', 1, 2, 3, 'x')" },
		{ 6, "INSERT INTO crash VALUES('a', 5)" },
		{ 12, "UPDATE operation SET grace = 1, began = 2, took = 3, tries = 4, due = 5" },
		{ 10, "UPDATE instance SET boot = 'b', domain = 'd'" },
	};

	(void)unlink(fx->store);
	for (size_t i = 0; i < n; i++)
		fx_by_hand(fx, store_schemas[i]);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].since <= n)
			fx_by_hand(fx, rows[i].sql);
}

/* Of each older version nothing is lost, and what refers to something does so as before. */
static void every_version(void **state)
{
	struct error err = ERROR_INIT;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	for (int n = 1; n < STORE_VERSION; n++) {
		struct store_tx *tx;
		struct store *s;

		make_version(&fx, (size_t)n);
		s = fx_open_store(&fx);
		assert_int_equal(number(s, "PRAGMA user_version"), STORE_VERSION);
		assert_int_equal(number(s, "PRAGMA foreign_keys"), 1);
		assert_int_equal(number(s, "SELECT count(*) FROM operation WHERE id = 7 AND kind = 'create' AND created = 5 AND finished = 6"), 1);
		assert_int_equal(number(s, "SELECT count(*) FROM instance WHERE uuid = 'u' AND state = 'running' AND operation = 7"), 1);
		assert_int_equal(number(s, "SELECT count(*) FROM step WHERE was = 'w' AND wanted = 'v' AND old = 'o' AND state = 'done'"), 1);
		assert_int_equal(number(s, "SELECT sum(times) IS NOT NULL FROM finding"), n >= 2);
		assert_int_equal(number(s, "SELECT count(*) FROM request_key WHERE operation = 7"), n >= 3);
		assert_int_equal(number(s, "SELECT count(*) FROM image"), n >= 5);
		assert_int_equal(number(s, "SELECT count(*) FROM crash"), n >= 6);
		assert_int_equal(number(s, "SELECT count(*) FROM instance WHERE boot = 'b' AND domain = 'd'"), n >= 10);
		assert_int_equal(number(s, "SELECT count(*) FROM operation WHERE grace = 1 AND began = 2 AND took = 3 AND tries = 4 AND due = 5"), n >= 12);
		tx = begin(s);
		assert_int_equal(store_exec(tx, "DELETE FROM operation", NO_ARGS, &err), -EIO); /* somebody's */
		(void)store_end(tx);
		tx = begin(s);
		assert_int_equal(store_exec(tx, "INSERT INTO finding VALUES('a', 'new', '', '', 1, 1, 1)", NO_ARGS, &err), 0);
		commit(tx);
		assert_int_equal(number(s, "SELECT generation = (SELECT change FROM meta) AND generation > 0 FROM instance"), 1);
		tx = begin(s);
		assert_int_equal(store_exec(tx, "DELETE FROM instance", NO_ARGS, &err), 0);
		commit(tx);
		assert_int_equal(number(s, "SELECT (SELECT count(*) FROM step) + (SELECT count(*) FROM device) + (SELECT count(*) FROM finding)"
					   " + (SELECT count(*) FROM cell)"), 0);
		(void)store_close(s);
	}
	fx_done(&fx);
}

/* A row that refers to none, which SQLite itself would not have let in, is found while tables are made anew, and nothing is. */
static void dangling_row(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	make_version(&fx, STORE_VERSION - 1);
	fx_by_hand(&fx, "DELETE FROM instance"); /* foreign keys are off there */
	refused(&fx, -EBADMSG, "refers to one that is not there");
	fx_by_hand(&fx, "DELETE FROM step; DELETE FROM device; DELETE FROM finding; DELETE FROM image; DELETE FROM crash; DELETE FROM cell");
	(void)store_close(fx_open_store(&fx));
	fx_done(&fx);
}

/* ---- interrupted ------------------------------------------------------------------------------------------ */

struct file {
	char   bytes[1 << 18];
	size_t len;
};

static void read_file(struct file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, f->bytes, sizeof(f->bytes));

	assert_in_range(n, 1, sizeof(f->bytes) - 1);
	f->len = (size_t)n;
	assert_int_equal(close(fd), 0);
}

static void write_file(const struct file *f, const struct fx *fx)
{
	char log[100];
	int fd = open(fx->store, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, f->bytes, f->len), f->len);
	assert_int_equal(close(fd), 0);
	(void)snprintf(log, sizeof(log), "%s-wal", fx->store);
	(void)unlink(log);
}

/* Whether it happened: the process that opened the store was ended, or could not. */
static bool cut_open(struct cut *shared, const struct cut *how, const struct fx *fx)
{
	int status;
	pid_t pid;

	*shared = *how;
	(void)snprintf(shared->dir, sizeof(shared->dir), "%s", fx->dir);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct error err = ERROR_INIT;
		struct store *s = NULL;

		cut_now = shared;
		_exit(store_open(&s, fx->store, &err) < 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		assert_int_equal(WTERMSIG(status), SIGKILL);
	else if (WEXITSTATUS(status))
		assert_true(shared->fired);
	return shared->fired;
}

static unsigned cut_everywhere(const struct file *old, struct cut *shared, const struct fx *fx, struct cut how, unsigned step)
{
	unsigned n = 0;

	for (how.at = 1;; how.at += step, n++) {
		struct store *s;
		bool fired;

		write_file(old, fx);
		fired = cut_open(shared, &how, fx);
		s = fx_open_store(fx);
		assert_int_equal(number(s, "PRAGMA user_version"), STORE_VERSION);
		assert_int_equal(number(s, "SELECT count(*) FROM instance WHERE uuid = 'u' AND state = 'running' AND operation = 7"), 1);
		assert_int_equal(number(s, "SELECT count(*) FROM step WHERE was = 'w' AND wanted = 'v' AND old = 'o' AND state = 'done'"), 1);
		assert_int_equal(number(s, "SELECT count(*) FROM finding WHERE rule = 'rule'"), 1);
		assert_int_equal(number(s, "SELECT count(*) FROM request_key WHERE operation = 7"), 1);
		(void)store_close(s);
		if (!fired)
			return n;
	}
}

static void whole_or_not_at_all(void **state)
{
	static const struct cut hows[] = { { .how = CUT_KILL }, { .how = CUT_KILL_HALF }, { .how = CUT_POWER }, { .how = CUT_POWER, .seed = 1000 },
					   { .how = CUT_ERROR, .error = ENOSPC }, { .how = CUT_ERROR, .error = EIO } };
	static const int versions[] = { 3, STORE_VERSION - 1 };
	static struct file old;
	struct cut *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned writes = 0, memory = 0;
	struct fx fx;

	(void)state;
	assert_true(shared != MAP_FAILED);
	fx_new(&fx);
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		make_version(&fx, (size_t)versions[v]);
		read_file(&old, fx.store);
		for (size_t i = 0; i < ARRAY_SIZE(hows); i++)
			writes += cut_everywhere(&old, shared, &fx, hows[i], 1);
		if (cut_has_memory())
			memory += cut_everywhere(&old, shared, &fx, (struct cut){ .how = CUT_MEMORY }, 97);
	}
	print_message("# %u times at a write, %u at an allocation\n", writes, memory);
	assert_in_range(writes, 200, 20000);
	fx_done(&fx);
	(void)munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version),
		cmocka_unit_test(dangling_row),
		cmocka_unit_test(whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
