/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's parts together, on a small machine made of files: generations, and starts that fail. */
#include <ftw.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "program.h"
#include "support.h"
#include "velad/current.h"
#include "velad/manager.h"
#include "velad/planner.h"
#include "velad/plans.h"
#include "velad/readers.h"

static char dir[] = "/tmp/velad-manager-XXXXXX";

static const char *at(const char *name)
{
	static char path[64][256]; /* more than one test holds at a time */
	static unsigned n;

	n = (n + 1) % 64;
	(void)snprintf(path[n], sizeof(path[n]), "%s/%s", dir, name);
	return path[n];
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void make_dir(const char *name)
{
	char *path = strdup(at(name));

	for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		(void)mkdir(path, 0755);
	}
	assert_int_equal(mkdir(path, 0755), 0);
	free(path);
}

/* A conventional function on a root bus, without config space. */
static void add_function(const char *bdf)
{
	char name[128], target[128];

	(void)snprintf(name, sizeof(name), "root/sys/devices/pci0000:00/%s", bdf);
	make_dir(name);
	(void)snprintf(name, sizeof(name), "root/sys/devices/pci0000:00/%s/vendor", bdf);
	put(name, "0x10de\n");
	(void)snprintf(name, sizeof(name), "root/sys/devices/pci0000:00/%s/class", bdf);
	put(name, "0x030200\n");
	(void)snprintf(name, sizeof(name), "root/sys/bus/pci/devices/%s", bdf);
	(void)snprintf(target, sizeof(target), "../../../devices/pci0000:00/%s", bdf);
	assert_int_equal(symlink(target, at(name)), 0);
}

static int start(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	make_dir("root/sys/bus/pci/devices");
	add_function("0000:00:01.0");
	make_dir("root/sys/devices/system/node/node0");
	put("root/sys/devices/system/node/node0/cpulist", "0-7\n");
	put("root/sys/devices/system/node/node0/distance", "10\n");
	put("root/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 4194304 kB\nNode 0 MemFree: 4194304 kB\n");
	put("bad.conf", "[daemon]\nno_such_key = 1\n");
	put("bad-kind.conf", "[kinds]\ngpu = nonsense\n");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int stop(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct manager_options options(void)
{
	return (struct manager_options){ .root = at("root"), .conf = TEST_SOURCE "/conf/velad.conf",
					 .store = at("velad.db"), .socket = at("sock"), .listen_fd = -1,
					 .libvirt = "test:///default", .libvirt_program = program("velad-libvirt") };
}

static struct manager *new_manager(const struct manager_options *o)
{
	struct error err = ERROR_INIT;
	struct manager *m = NULL;

	if (manager_new(&m, o, &err) < 0)
		fail_msg("%s", err.text);
	return m;
}

/* Each fails at another point of the construction, so each takes another half of it apart. */
static void bad_starts_are_explained(void **state)
{
	struct {
		struct manager_options o;
		const char            *says;
	} cases[6];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cases[i].o = options();
	cases[0].o.conf = "/nonexistent/velad.conf", cases[0].says = "/nonexistent/velad.conf";
	cases[1].o.conf = at("bad.conf"), cases[1].says = "no_such_key";
	cases[2].o.conf = at("bad-kind.conf"), cases[2].says = "bad-kind.conf";
	cases[3].o.root = "/nonexistent", cases[3].says = "/nonexistent";
	cases[4].o.store = "/nonexistent/velad.db", cases[4].says = "/nonexistent/velad.db";
	cases[5].o.socket = "/nonexistent/sock", cases[5].says = "/nonexistent/sock";
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		struct manager *m = NULL;

		assert_true(manager_new(&m, &cases[i].o, &err) < 0);
		assert_null(m);
		if (!strstr(err.text, cases[i].says))
			fail_msg("case %zu: %s", i, err.text);
	}
}

/* Asked again as long as it takes, as a request is. */
static int try_rescan(struct manager *m, struct error *err)
{
	uint64_t mark = 0;
	int r;

	while ((r = current_catch_up(m->now, CURRENT_ALL, &mark, err)) == CURRENT_WAIT)
		assert_true(sd_event_run(m->event, UINT64_MAX) >= 0);
	return r;
}

static void rescan(struct manager *m)
{
	struct error err = ERROR_INIT;

	if (try_rescan(m, &err) < 0)
		fail_msg("%s", err.text);
}

static void generations_grow_with_changes_only(void **state)
{
	struct manager_options o = options();
	struct manager *m = new_manager(&o);
	uint64_t first = topo_generation(current_topo(m->now));

	(void)state;
	rescan(m);
	assert_int_equal(topo_generation(current_topo(m->now)), first);
	add_function("0000:00:02.0");
	rescan(m);
	assert_int_equal(topo_generation(current_topo(m->now)), first + 1);
	assert_int_equal(topo_count(current_topo(m->now)), 2);
	rescan(m);
	assert_int_equal(topo_generation(current_topo(m->now)), first + 1);
	manager_free(m);
	m = new_manager(&o); /* what a plan of the earlier daemon was made from is not known any more */
	assert_int_equal(topo_generation(current_topo(m->now)), first + 2);
	manager_free(m);
}

/* GET /v1/changes/{since}: each generation since then, and nothing older than this life. */
static void changes_are_kept(void **state)
{
	struct manager_options o = options();
	struct manager *m = new_manager(&o);
	uint64_t first = topo_generation(current_topo(m->now));
	struct error err = ERROR_INIT;
	json_object *doc, *changes, *item;

	(void)state;
	add_function("0000:00:03.0");
	rescan(m);
	assert_int_equal(current_changes(m->now, &doc, first, &err), 0);
	assert_int_equal(json_object_get_uint64(json_object_object_get(doc, "generation")), first + 1);
	changes = json_object_object_get(doc, "changes");
	assert_int_equal(json_object_array_length(changes), 1);
	item = json_object_array_get_idx(json_object_object_get(json_object_array_get_idx(changes, 0), "items"), 0);
	assert_string_equal(json_object_get_string(json_object_object_get(item, "bdf")), "0000:00:03.0");
	assert_string_equal(json_object_get_string(json_object_object_get(item, "what")), "added");
	json_object_put(doc);
	assert_int_equal(current_changes(m->now, &doc, first + 1, &err), 0);
	assert_int_equal(json_object_array_length(json_object_object_get(doc, "changes")), 0);
	json_object_put(doc);
	assert_int_equal(current_changes(m->now, &doc, first - 1, &err), -EIDRM);
	assert_int_equal(current_changes(m->now, &doc, first + 2, &err), -EIDRM);
	manager_free(m);
}

/* ---- one reading for several plans -------------------------------------------------------------------- */

static uint64_t free_memory(struct manager *m)
{
	return topo_inventory(current_topo(m->now))->node[0].mem_free >> 10;
}

static void set_free(unsigned kib)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "Node 0 MemTotal: 4194304 kB\nNode 0 MemFree: %u kB\n", kib);
	put("root/sys/devices/system/node/node0/meminfo", text);
}

static uint64_t now(void)
{
	const struct timespec nap = { .tv_nsec = 20000 };
	uint64_t t = clock_usec(CLOCK_MONOTONIC);

	(void)nanosleep(&nap, NULL); /* what comes next is later */
	return t;
}

static void catch_up(struct manager *m, uint64_t came, uint64_t news)
{
	struct error err = ERROR_INIT;
	uint64_t mark = 0;
	int r;

	while ((r = current_catch_up_for(m->now, came, news, &mark, &err)) == CURRENT_WAIT)
		assert_true(sd_event_run(m->event, UINT64_MAX) >= 0);
	if (r < 0)
		fail_msg("%s", err.text);
	(void)now();
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

/* Who came before it began, gets it; not who came later, nor when something was heard of, or an operation has ended since. */
static void a_reading_is_shared(void **state)
{
	static const char event[] = "change@/devices/pci0000:00/0000:00:01.0\0ACTION=change\0DEVPATH=/devices/pci0000:00/0000:00:01.0\0SUBSYSTEM=pci\0PCI_SLOT_NAME=0000:00:01.0";
	struct manager_options o = options();
	int fd = listen_at(at("uevents")), heard;
	uint64_t a, b;
	struct manager *m;

	(void)state;
	o.uevents = at("uevents");
	m = new_manager(&o);
	heard = accept(fd, NULL, NULL);
	assert_true(heard >= 0);
	a = now();
	b = now();
	set_free(1000001);
	catch_up(m, a, 7);
	assert_int_equal(free_memory(m), 1000001);
	set_free(1000002);
	catch_up(m, b, 7);
	assert_int_equal(free_memory(m), 1000001);
	catch_up(m, b, 8);
	assert_int_equal(free_memory(m), 1000002);
	set_free(1000003);
	catch_up(m, now(), 8);
	assert_int_equal(free_memory(m), 1000003);
	b = now();
	set_free(1000004);
	catch_up(m, b, 8);
	set_free(1000005);
	assert_int_equal(send(heard, event, sizeof(event), MSG_NOSIGNAL), sizeof(event));
	catch_up(m, b, 8);
	assert_int_equal(free_memory(m), 1000005);
	manager_free(m);
	o.uevents = NULL; /* nobody tells of anything: all is read for each */
	m = new_manager(&o);
	a = now();
	b = now();
	catch_up(m, a, 7);
	set_free(4194304);
	catch_up(m, b, 7);
	assert_int_equal(free_memory(m), 4194304);
	manager_free(m);
	(void)close(heard);
	(void)close(fd);
}

/* A host that cannot be read is no missing object: GET /v1/host must not say 404. */
static void unreadable_hosts_are_host_errors(void **state)
{
	struct manager_options o = options();
	struct manager *m = new_manager(&o);
	struct error err = ERROR_INIT;
	char *pci = strdup(at("root/sys/bus/pci")), *away = strdup(at("away"));
	uint64_t before = topo_generation(current_topo(m->now));

	(void)state;
	assert_int_equal(rename(pci, away), 0);
	assert_int_equal(try_rescan(m, &err), -ENODEV);
	assert_non_null(strstr(err.text, "reading the host: "));
	assert_int_equal(topo_generation(current_topo(m->now)), before); /* the last one stays */
	assert_int_equal(rename(away, pci), 0);
	rescan(m);
	assert_int_equal(topo_generation(current_topo(m->now)), before);
	manager_free(m);
	free(pci);
	free(away);
}

/* ---- what does not return ----------------------------------------------------------------------------- */

#define MEMINFO "root/sys/devices/system/node/node0/meminfo"

static void copy_conf(const char *name, const char *line, const char *instead)
{
	FILE *from = fopen(TEST_SOURCE "/conf/velad.conf", "r"), *to = fopen(at(name), "w");
	char text[4096];
	bool done = false;

	assert_non_null(from);
	assert_non_null(to);
	while (fgets(text, sizeof(text), from)) {
		done = done || strcmp(text, line) == 0;
		assert_true(fputs(strcmp(text, line) == 0 ? instead : text, to) >= 0);
	}
	assert_true(done);
	(void)fclose(from);
	assert_int_equal(fclose(to), 0);
}

/* A file that is a FIFO nobody writes to: the loop does not wait for it, after a second it is done without, and when it has returned it is read. */
static void a_file_that_hangs_holds_up_nobody(void **state)
{
	struct manager_options o = options();
	char *fifo = strdup(at("fifo"));
	struct error err = ERROR_INIT;
	uint64_t mark = 0, began, longest = 0, t;
	struct manager *m;
	int r, waited = 0;

	(void)state;
	copy_conf("look.conf", "look = 10\n", "look = 1\n");
	o.conf = at("look.conf");
	m = new_manager(&o);
	assert_int_equal(unlink(at(MEMINFO)), 0);
	assert_int_equal(mkfifo(at(MEMINFO), 0600), 0);
	began = clock_usec(CLOCK_MONOTONIC);
	for (;; waited++) {
		t = clock_usec(CLOCK_MONOTONIC);
		r = current_catch_up(m->now, CURRENT_PLAN, &mark, &err);
		t = clock_usec(CLOCK_MONOTONIC) - t;
		longest = t > longest ? t : longest;
		if (r != CURRENT_WAIT)
			break;
		assert_true(sd_event_run(m->event, 10000) >= 0);
	}
	assert_int_equal(r, 0);
	assert_true(waited > 0);
	assert_true(longest < 500000);
	assert_in_range((clock_usec(CLOCK_MONOTONIC) - began) / 1000, 1000, 10000);
	assert_non_null(current_stuck(m->now, 0));
	assert_string_equal(current_stuck(m->now, 0)->path, MEMINFO + strlen("root/"));
	assert_true(bdf_is_none(current_stuck(m->now, 0)->bdf));
	assert_null(current_stuck(m->now, 1));
	assert_false(topo_inventory(current_topo(m->now))->node[0].memory_known);
	mark = 0;
	assert_int_not_equal(current_catch_up(m->now, CURRENT_PLAN, &mark, &err), -ENODEV); /* others are read by the next thread */
	assert_int_equal(rename(at(MEMINFO), fifo), 0);
	set_free(1000006);
	while (current_stuck(m->now, 0)) {
		test_feed(fifo);
		assert_true(sd_event_run(m->event, 10000) >= 0);
	}
	rescan(m);
	assert_int_equal(free_memory(m), 1000006);
	set_free(4194304);
	manager_free(m);
	assert_int_equal(unlink(fifo), 0);
	free(fifo);
}

/* ---- plans ------------------------------------------------------------------------------------------ */

static int post_plan(struct manager *m, uint64_t id, const char *body, struct api_response *res)
{
	static uint64_t mark[2048]; /* of each request */
	struct api_request req = { .id = id, .uid = 1000, .body = body, .body_len = strlen(body), .mark = &mark[id % ARRAY_SIZE(mark)] };
	struct error err = ERROR_INIT;
	int r = plans_post(m, &req, res, &err);

	if (r < 0 && r != -EUSERS)
		fail_msg("%s", err.text);
	return r;
}

/* Until this request's plan is made, as the server would. */
static void post_to_the_end(struct manager *m, uint64_t id, const char *body, struct api_response *res)
{
	int r;

	while ((r = post_plan(m, id, body, res)) == API_WAIT)
		assert_true(sd_event_run(m->event, 10000000) > 0);
	assert_int_equal(r, 0);
}

static bool fits(const struct api_response *res)
{
	return json_object_get_boolean(json_object_object_get(res->body, "fits"));
}

#define DRY   "{\"vcpus\": 1, \"memory\": \"64M\"}"
#define MOST  "{\"vcpus\": 1, \"memory\": \"3G\", \"lease_seconds\": 60}" /* of 4 */
#define GANG  "{\"bundles\": [" DRY ", " DRY "]}"

/* It is not the loop that plans: until the thread has told it, a request waits, and others are answered. */
static void a_plan_holds_up_nobody(void **state)
{
	struct manager_options o = options();
	struct manager *m = new_manager(&o);
	struct api_response res = { 0 }, list = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(post_plan(m, 1, DRY, &res), API_WAIT);
	assert_true(res.wait > 0);
	assert_int_equal(post_plan(m, 2, GANG, &res), API_WAIT);
	assert_int_equal(post_plan(m, 1, DRY, &res), API_WAIT);
	assert_int_equal(plans_list(m, &(struct api_request){ .uid = 1000 }, &list, &err), 0);
	json_object_put(list.body);
	post_to_the_end(m, 2, GANG, &res);
	assert_int_equal(json_object_array_length(json_object_object_get(res.body, "plans")), 2);
	assert_true(fits(&res));
	json_object_put(res.body);
	post_to_the_end(m, 1, DRY, &res);
	assert_true(fits(&res));
	json_object_put(res.body);
	manager_free(m);
}

/* Of two that are planned side by side only one gets what there is once. */
static void two_leases_are_not_of_the_same(void **state)
{
	struct manager_options o = options();
	struct manager *m = new_manager(&o);
	struct api_response a = { 0 }, b = { 0 }, last = { 0 };

	(void)state;
	assert_int_equal(post_plan(m, 1, MOST, &a), API_WAIT);
	assert_int_equal(post_plan(m, 2, MOST, &b), API_WAIT);
	post_to_the_end(m, 3, DRY, &last); /* the last in the queue: both are planned, and nobody has them */
	json_object_put(last.body);
	post_to_the_end(m, 1, MOST, &a);
	post_to_the_end(m, 2, MOST, &b);
	assert_true(fits(&a));
	assert_int_equal(a.status, 201);
	assert_false(fits(&b));
	assert_string_equal(b.location, "");
	assert_int_equal(m->leases.n, 1);
	json_object_put(a.body);
	json_object_put(b.body);
	manager_free(m);
}

/* Clients that do not wait for their plans keep others of the same user from it for a while, and cost nothing else. */
static void who_goes_leaves_little(void **state)
{
	struct manager_options o = options();
	struct manager *m = new_manager(&o);
	struct api_response res = { 0 };
	unsigned n = 0;

	(void)state;
	while (n < 1000 && post_plan(m, 10 + n, DRY, &res) == API_WAIT)
		n++;
	assert_in_range(n, 16, 64);
	manager_free(m); /* one of them is being made */
}

/* Its first answer. */
static int await_libvirt(struct manager *m, struct error *err)
{
	const struct timespec nap = { .tv_nsec = 10000000 };
	int r = -EAGAIN;

	for (int i = 0; i < 1000 && r == -EAGAIN; i++) {
		*err = ERROR_INIT;
		r = manager_libvirt(m, err);
		(void)nanosleep(&nap, NULL);
	}
	return r;
}

/* libvirt may come later; until then everything but creating works. */
static void libvirt_may_be_absent(void **state)
{
	struct manager_options o = options();
	struct error err = ERROR_INIT;
	struct manager *m;

	(void)state;
	o.libvirt = "qemu+unix:///system?socket=/nonexistent/libvirt-sock";
	m = new_manager(&o);
	assert_int_equal(await_libvirt(m, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "systemctl start libvirtd"));
	assert_non_null(strstr(err.text, "/nonexistent/libvirt-sock"));
	manager_free(m);
	o.libvirt_program = "/nonexistent/velad-libvirt";
	m = new_manager(&o);
	assert_int_equal(await_libvirt(m, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "cannot start /nonexistent/velad-libvirt, which talks to libvirt: No such file"));
	assert_non_null(strstr(err.text, "install it beside velad, and restart velad"));
	manager_free(m);
	o = options();
	m = new_manager(&o);
	assert_int_equal(await_libvirt(m, &err), 0);
	assert_string_equal(m->offer.type, "test");
	manager_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_starts_are_explained),
		cmocka_unit_test(generations_grow_with_changes_only),
		cmocka_unit_test(changes_are_kept),
		cmocka_unit_test(a_reading_is_shared),
		cmocka_unit_test(unreadable_hosts_are_host_errors),
		cmocka_unit_test(a_file_that_hangs_holds_up_nobody),
		cmocka_unit_test(a_plan_holds_up_nobody),
		cmocka_unit_test(two_leases_are_not_of_the_same),
		cmocka_unit_test(who_goes_leaves_little),
		cmocka_unit_test(libvirt_may_be_absent),
	};

	return cmocka_run_group_tests_name("manager", tests, start, stop);
}
