/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which file a thread reads, and files that are not read any more. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "host/progress.h"
#include "tree.h"

#define DEVICE "sys/devices/pci0000:00/0000:00:01.0/"
#define OTHER  "sys/devices/pci0000:00/0000:00:02.0/"

static struct tree tree = { .dir = "/tmp/velad-progress-XXXXXX" };
static struct host_root *root;

static int start(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	if (!mkdtemp(tree.dir))
		return -1;
	tree_put(&tree, DEVICE "driver_override", "(null)\n");
	tree_put(&tree, DEVICE "sriov_numvfs", "7\n");
	tree_put(&tree, DEVICE "vendor", "0x15b3\n");
	tree_put(&tree, DEVICE "config", "0123456789abcdef");
	tree_put(&tree, OTHER "driver_override", "vfio-pci\n");
	return host_root_open(&root, tree.dir, &err);
}

static int stop(void **state)
{
	(void)state;
	host_root_close(root);
	tree_free(&tree);
	return 0;
}

static int read_file(const char *path)
{
	char text[64];

	return host_read(root, text, sizeof(text), "%s", path);
}

static int read_again(const char *path)
{
	char text[64];

	return host_read_again(root, text, sizeof(text), "%s", path);
}

static int read_bytes(const char *path)
{
	uint8_t bytes[64];
	size_t len;

	return host_read_bytes(root, bytes, sizeof(bytes), &len, "%s", path);
}

static int read_config(const char *path)
{
	struct host_config c;
	int r = host_config_open(&c, root, "%s", path);

	if (r == 0)
		host_config_close(&c);
	return r;
}

/* Those that want the lock of their device go together, those of another device, and others, do not. */
static void what_wants_the_lock_goes_together(void **state)
{
	(void)state;
	assert_int_equal(host_avoid(root, DEVICE "sriov_numvfs"), 0);
	assert_int_equal(read_file(DEVICE "sriov_numvfs"), -ETIMEDOUT);
	assert_int_equal(read_file(DEVICE "driver_override"), -ETIMEDOUT);
	assert_int_equal(read_file(OTHER "driver_override"), 0);
	assert_int_equal(read_file(DEVICE "vendor"), 0);
	host_forgive(root, OTHER "sriov_numvfs"); /* was not avoided */
	assert_int_equal(read_file(DEVICE "driver_override"), -ETIMEDOUT);
	host_forgive(root, DEVICE "sriov_numvfs");
	assert_int_equal(read_file(DEVICE "sriov_numvfs"), 0);
	assert_int_equal(read_file(DEVICE "driver_override"), 0);
}

static void any_file_can_be_avoided_however_it_is_read(void **state)
{
	static int (*const how[])(const char *) = { read_file, read_again, read_bytes, read_config };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(how); i++)
		assert_int_equal(how[i](DEVICE "config"), 0);
	assert_int_equal(host_avoid(root, DEVICE "config"), 0);
	assert_int_equal(host_avoid(root, DEVICE "vendor"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(how); i++)
		assert_int_equal(how[i](DEVICE "config"), -ETIMEDOUT);
	assert_int_equal(read_file(DEVICE "driver_override"), 0);
	host_forgive(root, DEVICE "config");
	for (size_t i = 0; i < ARRAY_SIZE(how); i++)
		assert_int_equal(how[i](DEVICE "config"), 0);
	assert_int_equal(read_file(DEVICE "vendor"), -ETIMEDOUT);
	host_forgive(root, DEVICE "vendor");
}

struct thread {
	pthread_t            thread;
	struct host_progress progress;
	int (*how)(const char *path);
	const char          *path;
	int                  r;
};

static void *read_it(void *self)
{
	struct thread *t = self;

	host_progress_here(&t->progress);
	t->r = t->how(t->path);
	return NULL;
}

static void nap(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* A FIFO nobody writes to: its reader waits, and says where; another one is not told of it, and nobody waits for a lock that it has. */
static void it_is_said_what_is_read(void **state)
{
	static int (*const how[])(const char *) = { read_file, read_again, read_bytes };
	const char *fifo = tree_path(&tree, "sys/kernel/hangs");
	char path[HOST_PATH_MAX] = "";

	(void)state;
	tree_put(&tree, "sys/kernel/other", "1\n");
	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		struct thread t = { .how = how[i], .path = "sys/kernel/hangs" };

		assert_int_equal(mkfifo(fifo, 0600), 0);
		host_progress_init(&t.progress);
		assert_int_equal(host_progress_get(&t.progress, path), 0);
		assert_string_equal(path, "");
		assert_int_equal(pthread_create(&t.thread, NULL, read_it, &t), 0);
		while (host_progress_get(&t.progress, path) == 0)
			nap();
		assert_string_equal(path, "sys/kernel/hangs");
		assert_int_equal(read_again("sys/kernel/other"), 0);
		assert_int_equal(host_progress_get(&t.progress, path), 1);
		while (pthread_tryjoin_np(t.thread, NULL) != 0) {
			test_feed(fifo);
			nap();
		}
		assert_int_equal(host_progress_get(&t.progress, path) > 0, 1);
		assert_string_equal(path, "");
		host_progress_done(&t.progress);
		assert_int_equal(unlink(fifo), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_wants_the_lock_goes_together),
		cmocka_unit_test(any_file_can_be_avoided_however_it_is_read),
		cmocka_unit_test(it_is_said_what_is_read),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
