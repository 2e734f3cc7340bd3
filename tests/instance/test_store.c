/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The store: what is committed stays, what is not goes; files that are not its own are refused. */
#include "instance/store.h"

#include <fcntl.h>

#include "instance/fixture.h"
#include "instance/op.h"
#include "instance/rows.h"
#include "instance/sql.h"

static void commits_stay(void **state)
{
	struct error err = ERROR_INIT;
	struct store_tx *tx;
	struct store *s;
	uint64_t id = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	s = fx_open_store(&fx);
	tx = begin(s);
	assert_int_equal(op_add(tx, &id, OP_CREATE, "a", 5, &err), 0);
	assert_int_equal(id, 1);
	commit(tx);
	tx = begin(s);
	assert_int_equal(op_add(tx, &id, OP_CREATE, "b", 5, &err), 0);
	(void)store_end(tx); /* not committed */
	assert_int_equal(number(s, "SELECT count(*) FROM operation"), 1);
	(void)store_close(s);
	s = fx_open_store(&fx);
	assert_int_equal(number(s, "SELECT count(*) FROM operation WHERE instance = 'a'"), 1);
	assert_int_equal(number(s, "PRAGMA foreign_keys"), 1);
	assert_int_equal(number(s, "PRAGMA synchronous"), 2);
	assert_int_equal(number(s, "PRAGMA user_version"), 15);
	(void)store_close(s);
	fx_done(&fx);
}

/* A store of version 1 keeps what it has. */
static void older_version(void **state)
{
	struct rows_instance in = { .name = "a", .uuid = "u", .state = INST_PLANNED, .created = 5, .request = "{\"hugepages\": 9, \"exclusive\": true}",
				    .plan = "{\"bundle\": {\"cells\": [{\"host_node\": 6, \"memory\": 99, \"cpus\": \"0-3\"}]}}" };
	struct error err = ERROR_INIT;
	struct store_tx *tx;
	struct store *s;
	uint64_t id = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	s = fx_open_store(&fx);
	tx = begin(s);
	assert_int_equal(op_add(tx, &id, OP_CREATE, "a", 5, &err), 0);
	in.operation = id;
	assert_int_equal(rows_instance_add(tx, &in, &err), 0);
	commit(tx);
	(void)store_close(s);
	fx_by_hand(&fx, "DROP TABLE cell; DROP INDEX operation_open; DROP TRIGGER instance_made; DROP TRIGGER instance_changed; DROP TABLE foreign_device; ALTER TABLE device DROP COLUMN serial;"
		     " ALTER TABLE device DROP COLUMN pf; ALTER TABLE instance DROP COLUMN boot; ALTER TABLE instance DROP COLUMN domain; DROP TABLE finding; DROP TABLE quarantine; DROP TABLE wear; DROP TABLE request_key; DROP TABLE image; DROP TABLE crash;"
		     " ALTER TABLE operation DROP COLUMN grace; ALTER TABLE operation DROP COLUMN began;"
		     " ALTER TABLE operation DROP COLUMN took; ALTER TABLE operation DROP COLUMN tries; ALTER TABLE operation DROP COLUMN due; ALTER TABLE meta DROP COLUMN change;"
		     " ALTER TABLE instance DROP COLUMN generation; PRAGMA user_version = 1");
	s = fx_open_store(&fx);
	assert_int_equal(number(s, "SELECT count(*) FROM operation WHERE instance = 'a'"), 1);
	assert_int_equal(number(s, "SELECT count(*) FROM finding"), 0);
	assert_int_equal(number(s, "SELECT sum(node * 100 + memory + hugepages) FROM cell WHERE instance = 'a' AND cpus = '0-3' AND exclusive"), 708);
	assert_int_equal(number(s, "PRAGMA user_version"), 15);
	(void)store_close(s);
	fx_done(&fx);
}

static void one_owner(void **state)
{
	struct rows_instance in = { "a", "u", INST_PLANNED, NULL, 5, "{}", "{}", 1 };
	struct error err = ERROR_INIT;
	struct store_tx *tx;
	struct store *s;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	s = fx_open_store(&fx);
	tx = begin(s);
	assert_int_equal(rows_device_add(tx, test_bdf("0000:19:00.0"), "nobody", &err), -EIO); /* foreign key */
	assert_non_null(strstr(err.text, "FOREIGN KEY"));
	assert_int_equal(op_add(tx, &in.operation, OP_CREATE, "a", 5, &err), 0);
	assert_int_equal(rows_instance_add(tx, &in, &err), 0);
	in.name = "b";
	in.uuid = "v";
	assert_int_equal(rows_instance_add(tx, &in, &err), 0);
	assert_int_equal(rows_device_add(tx, test_bdf("0000:19:00.0"), "a", &err), 0);
	assert_int_equal(rows_device_add(tx, test_bdf("0000:19:00.0"), "b", &err), -EBUSY);
	assert_string_equal(err.text, "0000:19:00.0 is held by instance a");
	assert_int_equal(store_exec(tx, "INSERT INTO device VALUES(?, ?)", ARGS(ARG_TEXT("0000:19:00.0"), ARG_TEXT("b")),
				    &err), -EIO); /* the primary key alone holds as well */
	commit(tx);
	(void)store_close(s);
	fx_done(&fx);
}

/* An old operation goes, but for the one an instance names. */
static void operations_kept(void **state)
{
	struct rows_instance in = { "a", "u", INST_PLANNED, NULL, 5, "{}", "{}", 1 };
	struct op end = { .state = OP_SUCCEEDED, .finished = 6, .steps = "[]" };
	struct error err = ERROR_INIT;
	struct store_tx *tx;
	struct store *s;
	uint64_t n = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	s = fx_open_store(&fx);
	tx = begin(s);
	for (int i = 0; i < 1050; i++) {
		assert_int_equal(op_add(tx, &end.id, OP_CREATE, "a", 5, &err), 0);
		if (i != 2) /* the third never ends */
			assert_int_equal(op_finish(tx, &end, &err), 0);
		if (i == 0)
			assert_int_equal(rows_instance_add(tx, &in, &err), 0);
	}
	assert_int_equal(op_last(tx, &n, &err), 0);
	assert_int_equal(n, 1050);
	assert_int_equal(op_unfinished(tx, &n, &err), 0);
	assert_int_equal(n, 1);
	commit(tx);
	assert_int_equal(number(s, "SELECT count(*) FROM operation"), 1028); /* looked at by the 1024th */
	assert_int_equal(number(s, "SELECT count(*) FROM operation WHERE id IN (1, 3, 51, 1050)"), 4);
	(void)store_close(s);
	s = fx_open_store(&fx);
	tx = begin(s);
	assert_int_equal(op_add(tx, &n, OP_CREATE, "a", 5, &err), 0);
	assert_int_equal(n, 1051); /* a number comes once, though none has a place of its own that remembers it */
	commit(tx);
	(void)store_close(s);
	fx_done(&fx);
}

static void foreign_files(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = NULL;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	(void)store_close(fx_open_store(&fx));
	fx_by_hand(&fx, "PRAGMA user_version = 16");
	refused(&fx, -EPROTONOSUPPORT, "version 16 and this velad knows only 15");
	assert_int_equal(unlink(fx.store), 0);
	fx_by_hand(&fx, "CREATE TABLE shopping(item)");
	refused(&fx, -EBADMSG, "shopping");
	assert_int_equal(store_open(&s, "/nowhere/velad.db", &err), -EIO);
	assert_non_null(strstr(err.text, "cannot write the store /nowhere/velad.db"));
	fx_done(&fx);
}

static void overwrite(const struct fx *fx, off_t at)
{
	char junk[1024];
	int fd = open(fx->store, O_WRONLY | O_CLOEXEC);

	memset(junk, 0xa5, sizeof(junk));
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
	assert_int_equal(close(fd), 0);
}

static void damaged_files(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	(void)store_close(fx_open_store(&fx));
	overwrite(&fx, 2 * 4096); /* the pages of a table */
	refused(&fx, -EBADMSG, "damaged");
	overwrite(&fx, 0);
	refused(&fx, -EBADMSG, "damaged");
	fx_done(&fx);
}

/* Also within one process: the lock is the file's. */
static void one_daemon(void **state)
{
	struct store *s;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	s = fx_open_store(&fx);
	refused(&fx, -EBUSY, "another velad");
	(void)store_close(s);
	(void)store_close(fx_open_store(&fx));
	fx_done(&fx);
}

static void full_disk(void **state)
{
	struct error err = ERROR_INIT;
	struct store_tx *tx;
	char limit[64], *big;
	struct store *s;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	s = fx_open_store(&fx);
	(void)snprintf(limit, sizeof(limit), "PRAGMA max_page_count = %d", (int)number(s, "PRAGMA page_count"));
	(void)number(s, limit);
	big = calloc(1, 100001);
	assert_non_null(big);
	memset(big, 'x', 100000);
	tx = begin(s);
	assert_int_equal(store_exec(tx, "INSERT INTO original VALUES('bind', 'x', ?)", ARGS(ARG_TEXT(big)), &err), -EIO);
	assert_non_null(strstr(err.text, "is full"));
	assert_non_null(strstr(err.text, fx.store));
	(void)store_end(tx);
	free(big);
	assert_int_equal(number(s, "SELECT count(*) FROM original"), 0); /* and it goes on */
	(void)store_close(s);
	fx_done(&fx);
}

static void *count_up(void *arg)
{
	for (int i = 0; i < 200; i++) {
		struct store_tx *tx = begin(arg);
		struct error err = ERROR_INIT;

		assert_int_equal(store_exec(tx, "UPDATE meta SET generation = generation + 1", NO_ARGS, &err), 0);
		commit(tx);
	}
	return NULL;
}

static void threads(void **state)
{
	pthread_t t[4];
	struct store *s;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	s = fx_open_store(&fx);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, count_up, s), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	assert_int_equal(number(s, "SELECT generation FROM meta"), 800);
	(void)store_close(s);
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commits_stay),
		cmocka_unit_test(older_version),
		cmocka_unit_test(one_owner),
		cmocka_unit_test(operations_kept),
		cmocka_unit_test(foreign_files),
		cmocka_unit_test(damaged_files),
		cmocka_unit_test(one_daemon),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
