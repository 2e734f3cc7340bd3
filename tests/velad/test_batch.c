/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests that come at the same time share a commit: the whole daemon in this process, on a small machine made of files, its clients'
 * sockets beside it. Nobody is answered before the disk has it, one that is refused takes no other with it, and of a commit that fails all get
 * the error, and nothing is kept. */
#include <ftw.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "program.h"
#include "support.h"
#include "velad/manager.h"

#define CLIENTS 8
#define MANY    20 /* more than a batch */

static char dir[] = "/tmp/velad-batch-XXXXXX";
static struct manager *m;

/* ---- the disk, and what is sent ----------------------------------------------------------------------- */

static unsigned syncs, early, accepted;
static unsigned syncs_at_first; /* as many as there were when the requests were sent */
static bool broken;             /* the disk is full */

static int sync_it(void)
{
	errno = ENOSPC;
	syncs += !broken;
	return broken ? -1 : 0;
}

int fdatasync(int fd)
{
	(void)fd;
	return sync_it();
}

int fsync(int fd)
{
	(void)fd;
	return sync_it();
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
	errno = ENOSPC;
	return broken ? -1 : syscall(SYS_pwrite64, fd, data, n, at);
}

/* libmicrohttpd's */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	static const char ok[] = "HTTP/1.1 202";

	if (msg->msg_iovlen && msg->msg_iov[0].iov_len > sizeof(ok) && memcmp(msg->msg_iov[0].iov_base, ok, sizeof(ok) - 1) == 0) {
		accepted++;
		early += syncs == syncs_at_first;
	}
	return syscall(SYS_sendmsg, fd, msg, flags);
}

/* ---- the machine -------------------------------------------------------------------------------------- */

static const char *at(const char *name)
{
	static char path[16][256];
	static unsigned n;

	n = (n + 1) % ARRAY_SIZE(path);
	(void)snprintf(path[n], sizeof(path[n]), "%s/%s", dir, name);
	return path[n];
}

static void make_dir(const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s", at(name));
	for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		(void)mkdir(path, 0755);
	}
	assert_int_equal(mkdir(path, 0755), 0);
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void turn(void)
{
	assert_true(sd_event_run(m->event, 20000) >= 0);
}

/* Memory for four guests of a GiB, and no functions. */
static int start(void **state)
{
	struct manager_options o = { .root = at("root"), .conf = TEST_SOURCE "/conf/velad.conf", .store = at("velad.db"), .socket = at("sock"),
				     .listen_fd = -1, .libvirt = "test:///default", .libvirt_program = program("velad-libvirt") };
	struct error err = ERROR_INIT;
	int r = -EAGAIN;

	(void)state;
	assert_non_null(mkdtemp(dir));
	o.root = at("root"), o.store = at("velad.db"), o.socket = at("sock");
	make_dir("root/sys/bus/pci/devices");
	make_dir("root/sys/devices/system/node/node0");
	put("root/sys/devices/system/node/node0/cpulist", "0-63\n");
	put("root/sys/devices/system/node/node0/distance", "10\n");
	put("root/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 16777216 kB\nNode 0 MemFree: 16777216 kB\n");
	if (manager_new(&m, &o, &err) < 0)
		fail_msg("%s", err.text);
	for (int i = 0; i < 1000 && r == -EAGAIN; i++) {
		turn();
		err = ERROR_INIT;
		r = manager_libvirt(m, &err);
	}
	if (r < 0)
		fail_msg("%s", err.text);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	m = manager_free(m);
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- clients ------------------------------------------------------------------------------------------ */

struct client {
	int  fd;
	char answer[8192];
	size_t n;
	int  status; /* 0: none yet */
};

static struct client client[MANY];

static void take(struct client *c)
{
	const char *body, *length;
	ssize_t got = recv(c->fd, c->answer + c->n, sizeof(c->answer) - 1 - c->n, MSG_DONTWAIT);

	c->n += got > 0 ? (size_t)got : 0;
	c->answer[c->n] = '\0';
	body = strstr(c->answer, "\r\n\r\n");
	length = strstr(c->answer, "Content-Length: ");
	if (body && length && strlen(body + 4) >= strtoul(length + 16, NULL, 10))
		c->status = atoi(c->answer + strlen("HTTP/1.1 "));
}

static void ask(struct client *c, const char *method, const char *path, const char *key, const char *body)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: v\r\n%s%s%sContent-Length: %zu\r\n\r\n%s", method, path, key ? "Idempotency-Key: " : "",
			 key ? key : "", key ? "\r\n" : "", strlen(body), body);

	c->n = 0;
	c->status = 0;
	assert_int_equal(send(c->fd, text, (size_t)n, MSG_NOSIGNAL), n);
}

static void reserve(struct client *c, const char *name, const char *memory, const char *more, const char *key)
{
	char body[512];

	(void)snprintf(body, sizeof(body), "{\"name\": \"%s\", \"vcpus\": 1, \"memory\": \"%s\", \"start\": false%s}", name, memory, more);
	ask(c, "POST", "/v1/instances", key, body);
}

static void wait_for(struct client *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (int k = 0; !c[i].status; k++) {
			assert_true(k < 1000);
			turn();
			take(&c[i]);
		}
}

static void connect_all(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", at("sock"));
	for (size_t i = 0; i < ARRAY_SIZE(client); i++) {
		client[i].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(client[i].fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
		ask(&client[i], "GET", "/v1/host", NULL, "");
	}
	wait_for(client, ARRAY_SIZE(client));
	for (int i = 0; i < 5; i++) /* what the start has left to do */
		turn();
	syncs_at_first = syncs;
	early = accepted = 0;
}

static void close_all(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(client); i++)
		(void)close(client[i].fd);
	for (int i = 0; i < 5; i++)
		turn();
}

static void expect_status(const struct client *c, int status, const char *word)
{
	if (c->status != status || !strstr(c->answer, word))
		fail_msg("%d and \"%s\" are not in: %s", status, word, c->answer);
}

/* Of the one request that is under way. */
static void expect(const char *method, const char *path, int status, const char *word)
{
	ask(client, method, path, NULL, "");
	wait_for(client, 1);
	expect_status(client, status, word);
}

static void expect_instances(const char *const *names)
{
	json_object *o, *list;
	size_t n = 0;

	expect("GET", "/v1/instances?view=brief", 200, "instances");
	o = json_tokener_parse(strstr(client->answer, "\r\n\r\n") + 4);
	list = json_object_object_get(o, "instances");
	for (; names[n]; n++)
		if (n >= json_object_array_length(list) ||
		    strcmp(json_object_get_string(json_object_object_get(json_object_array_get_idx(list, n), "name")), names[n]) != 0)
			fail_msg("%s is not in its place: %s", names[n], client->answer);
	assert_int_equal(json_object_array_length(list), n);
	json_object_put(o);
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(,) NULL })

/* ---- tests -------------------------------------------------------------------------------------------- */

static const char *name_of(size_t i)
{
	static char name[MANY][8];

	(void)snprintf(name[i], sizeof(name[i]), "r%zu", i);
	return name[i];
}

static void one_sync_for_all(void **state)
{
	char path[64];

	(void)state;
	connect_all();
	for (size_t i = 0; i < CLIENTS; i++)
		reserve(&client[i], name_of(i), "64M", "", NULL);
	wait_for(client, CLIENTS);
	for (size_t i = 0; i < CLIENTS; i++)
		expect_status(&client[i], 202, "\"succeeded\"");
	assert_int_equal(accepted, CLIENTS);
	assert_int_equal(early, 0);
	assert_int_equal(syncs, syncs_at_first + 1);
	syncs_at_first = syncs;
	accepted = 0;
	for (size_t i = 0; i < CLIENTS; i++) {
		(void)snprintf(path, sizeof(path), "/v1/instances/%s", name_of(i));
		ask(&client[i], "DELETE", path, NULL, "");
	}
	wait_for(client, CLIENTS);
	assert_int_equal(accepted, CLIENTS);
	assert_int_equal(early, 0);
	assert_int_equal(syncs, syncs_at_first + 1);
	expect_instances(NAMES());
	close_all();
}

/* The others get their turn, and are no less durable. */
static void more_than_a_batch(void **state)
{
	char path[64];

	(void)state;
	connect_all();
	for (size_t i = 0; i < MANY; i++)
		reserve(&client[i], name_of(i), "64M", "", NULL);
	wait_for(client, MANY);
	for (size_t i = 0; i < MANY; i++)
		expect_status(&client[i], 202, "\"succeeded\"");
	assert_int_equal(accepted, MANY);
	assert_int_equal(early, 0);
	assert_int_equal(syncs, syncs_at_first + 2);
	for (size_t i = 0; i < MANY; i++) {
		(void)snprintf(path, sizeof(path), "/v1/instances/%s", name_of(i));
		ask(&client[i], "DELETE", path, NULL, "");
	}
	wait_for(client, MANY);
	expect_instances(NAMES());
	close_all();
}

/* Each sees what those before it have, though that is in no file yet. */
static void one_refused_takes_no_other_along(void **state)
{
	(void)state;
	connect_all();
	reserve(&client[0], "a", "8G", "", NULL);
	reserve(&client[1], "a", "64M", "", NULL);
	reserve(&client[2], "b", "12G", "", NULL);
	reserve(&client[3], "c", "64M", ", \"nonsense\": 1", NULL);
	reserve(&client[4], "d", "64M", "", "key-1");
	reserve(&client[5], "d", "64M", "", "key-1");
	reserve(&client[6], "e", "64M", "", "key-1");
	ask(&client[7], "DELETE", "/v1/instances/nobody", NULL, "");
	wait_for(client, CLIENTS);
	assert_int_equal(syncs, syncs_at_first + 1);
	assert_int_equal(early, 0);
	/* they are handled as they came, but who comes first is not said */
	assert_int_equal((client[0].status == 202) + (client[1].status == 202), 1);
	assert_int_equal((client[0].status == 409) + (client[1].status == 409), 1);
	expect_status(&client[3], 400, "nonsense");
	assert_int_equal((client[4].status == 202) + (client[5].status == 202) + (client[6].status == 202), client[6].status == 202 ? 1 : 2);
	expect_status(&client[7], 404, "nobody");
	if (client[0].status == 202)
		assert_true(client[2].status != 202);
	expect("DELETE", "/v1/instances/a", 202, "succeeded");
	close_all();
}

static char lease[17];

static void take_lease(void)
{
	const char *id;

	ask(client, "POST", "/v1/plans", NULL, "{\"vcpus\": 1, \"memory\": \"64M\", \"lease_seconds\": 60}");
	wait_for(client, 1);
	expect_status(client, 201, "lease");
	id = strstr(client->answer, "Location: /v1/plans/");
	assert_non_null(id);
	(void)snprintf(lease, sizeof(lease), "%.16s", id + strlen("Location: /v1/plans/"));
}

static void all_get_the_error(void **state)
{
	char body[128], path[64];

	(void)state;
	connect_all();
	for (size_t i = 0; i < 6; i++) { /* what the last test left */
		(void)snprintf(path, sizeof(path), "/v1/instances/%c", (int)('a' + i));
		ask(client, "DELETE", path, NULL, "");
		wait_for(client, 1);
	}
	reserve(client, "old", "64M", "", NULL);
	wait_for(client, 1);
	expect_status(client, 202, "succeeded");
	take_lease();
	expect_instances(NAMES("old"));
	broken = true;
	accepted = 0;
	for (size_t i = 0; i < CLIENTS - 2; i++)
		reserve(&client[i], name_of(i), "64M", "", i == 0 ? "key-2" : NULL);
	ask(&client[CLIENTS - 2], "DELETE", "/v1/instances/old", NULL, "");
	(void)snprintf(body, sizeof(body), "{\"name\": \"leased\", \"start\": false, \"plan\": \"%s\"}", lease);
	ask(&client[CLIENTS - 1], "POST", "/v1/instances", NULL, body);
	wait_for(client, CLIENTS);
	for (size_t i = 0; i < CLIENTS; i++)
		expect_status(&client[i], 500, "is full");
	assert_int_equal(accepted, 0);
	expect_instances(NAMES("old")); /* while the disk is full, too */
	expect("GET", "/v1/instances/old", 200, "\"stopped\"");
	expect("GET", "/v1/instances/r0", 404, "r0");
	broken = false;
	expect_instances(NAMES("old"));
	(void)snprintf(path, sizeof(path), "/v1/plans/%s", lease);
	expect("GET", path, 200, "\"used\":false");
	for (size_t i = 0; i < CLIENTS - 2; i++) /* the key is free, and so are the names */
		reserve(&client[i], name_of(i), "64M", "", i == 0 ? "key-2" : NULL);
	wait_for(client, CLIENTS - 2);
	for (size_t i = 0; i < CLIENTS - 2; i++)
		expect_status(&client[i], 202, "succeeded");
	expect_instances(NAMES("old", "r0", "r1", "r2", "r3", "r4", "r5"));
	close_all();
}

/* It is used up by a commit that has succeeded, whatever becomes of those after it. */
static void a_lease_is_used_once(void **state)
{
	char body[128];

	(void)state;
	connect_all();
	take_lease();
	for (size_t i = 0; i < 4; i++) {
		(void)snprintf(body, sizeof(body), "{\"name\": \"l%zu\", \"start\": false, \"plan\": \"%s\"}", i, lease);
		ask(&client[i], "POST", "/v1/instances", NULL, body);
	}
	wait_for(client, 4);
	assert_int_equal((client[0].status == 202) + (client[1].status == 202) + (client[2].status == 202) + (client[3].status == 202), 1);
	close_all();
}

/* A client that goes is no reason for the others to wait; what it asked for is done. */
static void who_goes_holds_up_nobody(void **state)
{
	(void)state;
	connect_all();
	reserve(&client[0], "gone", "64M", "", NULL);
	reserve(&client[1], "stays", "64M", "", NULL);
	(void)close(client[0].fd);
	wait_for(&client[1], 1);
	expect_status(&client[1], 202, "succeeded");
	client[0] = client[2];
	client[2].fd = -1;
	expect("GET", "/v1/instances/stays", 200, "stays");
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_sync_for_all),
		cmocka_unit_test(more_than_a_batch),
		cmocka_unit_test(one_refused_takes_no_other_along),
		cmocka_unit_test(all_get_the_error),
		cmocka_unit_test(a_lease_is_used_once),
		cmocka_unit_test(who_goes_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
