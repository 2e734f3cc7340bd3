/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What comes out of the sockets: over socket pairs, and from the kernel that the test runs on. */
#include "host/watch.h"

#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/change.h"
#include "support.h"

#define DEV "/devices/pci0000:15/0000:1a:00.0"

struct pair {
	struct host_watch  *w;
	int                 to[HOST_WATCH_FDS]; /* the other ends */
	struct host_changes c;
};

static int start(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));
	int fd[HOST_WATCH_FDS];

	for (int i = 0; i < HOST_WATCH_FDS; i++) {
		int both[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both), 0);
		p->to[i] = both[0], fd[i] = both[1];
	}
	p->w = host_watch_of(fd[0], fd[1]);
	*state = p;
	return p->w ? 0 : -1;
}

static int stop(void **state)
{
	struct pair *p = *state;

	host_changes_done(&p->c);
	host_watch_close(p->w);
	(void)close(p->to[0]), (void)close(p->to[1]);
	free(p);
	return 0;
}

static void give(struct pair *p, enum host_watch_source to, const void *bytes, size_t len)
{
	assert_int_equal(send(p->to[to], bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL), (ssize_t)len);
}

static void give_event(struct pair *p, const char *action, const char *path)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s@%s%cACTION=%s%cDEVPATH=%s%cSUBSYSTEM=pci", action, path, 0, action, 0, path, 0);

	give(p, HOST_WATCH_UEVENT, text, (size_t)n + 1);
}

static void take(struct pair *p)
{
	assert_int_equal(host_watch_read(p->w, &p->c), 0);
}

static void a_burst_is_one_set(void **state)
{
	struct pair *p = *state;
	char path[64];

	take(p);
	assert_false(host_changes_any(&p->c));
	for (unsigned n = 0; n < 100; n++) {
		(void)snprintf(path, sizeof(path), "/devices/pci0000:15/0000:1a:%02x.%u", n % 20 / 8, n % 20 % 8);
		give_event(p, n == 50 ? "add" : "change", path);
	}
	take(p);
	assert_false(p->c.lost);
	assert_int_equal(p->c.n, 20);
	for (size_t i = 1; i < p->c.n; i++)
		assert_true(bdf_cmp(p->c.at[i - 1].bdf, p->c.at[i].bdf) < 0);
	for (size_t i = 0; i < p->c.n; i++)
		assert_int_equal(p->c.at[i].what, i == 10 ? HOST_CHANGE_ANEW : HOST_CHANGE_STATE); /* once new, a later event does not make it old */
}

static void losses_are_seen(void **state)
{
	static const char bad[] = "ENOBUFS";
	struct pair *p = *state;
	char *big = calloc(1, 64 * 1024);

	give(p, HOST_WATCH_UEVENT, bad, sizeof(bad));
	give_event(p, "bind", DEV); /* what comes after it still counts */
	take(p);
	assert_true(p->c.lost);
	assert_int_equal(p->c.n, 1);
	host_changes_done(&p->c);
	give(p, HOST_WATCH_UEVENT, big, 64 * 1024); /* does not fit */
	take(p);
	assert_true(p->c.lost);
	free(big);
}

static void an_end_is_an_error(void **state)
{
	struct pair *p = *state;

	give_event(p, "bind", DEV);
	(void)shutdown(p->to[0], SHUT_RDWR);
	assert_int_equal(host_watch_read(p->w, &p->c), -ENOTCONN);
	assert_true(p->c.lost);
	assert_int_equal(p->c.n, 1);
}

static void give_link(struct pair *p, int type, const char *parent, bool cut)
{
	struct nl_msg *m = nlmsg_alloc_simple(type, 0);
	struct ifinfomsg info = { .ifi_index = 7 };

	assert_int_equal(nlmsg_append(m, &info, sizeof(info), NLMSG_ALIGNTO), 0);
	assert_int_equal(nla_put_string(m, IFLA_IFNAME, "eth0"), 0);
	if (parent)
		assert_int_equal(nla_put_string(m, IFLA_PARENT_DEV_NAME, parent), 0);
	give(p, HOST_WATCH_LINK, nlmsg_hdr(m), nlmsg_hdr(m)->nlmsg_len - (cut ? 8 : 0));
	nlmsg_free(m);
}

static void links_name_their_function(void **state)
{
	struct pair *p = *state;

	give_link(p, RTM_NEWLINK, "0000:1a:00.0", false);
	give_link(p, RTM_DELLINK, "0000:1a:00.1", false);
	give_link(p, RTM_NEWLINK, NULL, false);               /* a bridge, a tap */
	give_link(p, RTM_NEWLINK, "virtio0", false);          /* a parent that is no PCI function */
	give_link(p, RTM_NEWADDR, "0000:1a:00.2", false);     /* no link message */
	take(p);
	assert_false(p->c.lost);
	assert_int_equal(p->c.n, 2);
	assert_true(bdf_eq(p->c.at[0].bdf, test_bdf("0000:1a:00.0")));
	assert_int_equal(p->c.at[0].what, HOST_CHANGE_NET);
	give_link(p, RTM_NEWLINK, "0000:1a:00.0", true);
	take(p);
	assert_true(p->c.lost);
}

/* ---- this kernel -------------------------------------------------------------------------------------- */

static bool poke(const char *file)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, "change", 6) == 6;

	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* The first PCI function here; false: there is none, or it does not let us make an event. */
static bool poke_function(char name[64])
{
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	struct host_names names = { 0 };
	struct host_root *root = NULL;
	char file[128];
	bool ok = false;

	if (host_root_open(&root, "/", &err) == 0 && host_list(root, &names, &arena, "sys/bus/pci/devices") == 0 && names.n) {
		(void)snprintf(name, 64, "%.60s", names.name[0]);
		(void)snprintf(file, sizeof(file), "/sys/bus/pci/devices/%.60s/uevent", name);
		ok = poke(file);
	}
	host_root_close(root);
	arena_done(&arena);
	return ok;
}

static void the_kernel_here(void **state)
{
	struct error err = ERROR_INIT;
	struct host_changes c = { 0 };
	struct host_watch *w = NULL;
	char name[64];

	(void)state;
	if (host_watch_open(&w, NULL, NULL, &err) < 0) {
		print_message("# not tested: %s\n", err.text);
		skip();
	}
	assert_true(host_watch_fd(w, HOST_WATCH_UEVENT) >= 0 && host_watch_fd(w, HOST_WATCH_LINK) >= 0);
	if (!poke("/sys/devices/virtual/net/lo/uevent")) {
		print_message("# not tested: this kernel takes no write to an uevent file (needs root)\n");
		host_watch_close(w);
		skip();
	}
	assert_int_equal(host_watch_read(w, &c), 0); /* it is there already: no waiting */
	assert_false(c.lost);
	if (poke_function(name)) {
		struct host_change *found = NULL;

		assert_int_equal(host_watch_read(w, &c), 0);
		for (size_t i = 0; i < c.n; i++)
			found = bdf_eq(c.at[i].bdf, test_bdf(name)) ? &c.at[i] : found;
		assert_non_null(found);
	} else {
		print_message("# only in part: no PCI function here lets us make an event\n");
	}
	host_changes_done(&c);
	host_watch_close(w);
}

/* A process may send to the kernel's group if it is root: it is not believed. */
static void other_senders_are_ignored(void **state)
{
	static const char text[] = "bind@" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci";
	struct sockaddr_nl to = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	struct error err = ERROR_INIT;
	struct host_changes c = { 0 };
	struct host_watch *w = NULL;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
	struct pollfd seen = { .events = POLLIN };

	(void)state;
	if (fd < 0 || host_watch_open(&w, NULL, NULL, &err) < 0 ||
	    sendto(fd, text, sizeof(text), 0, (struct sockaddr *)&to, sizeof(to)) < 0) {
		print_message("# not tested: cannot send to the kernel's group (needs root): %s\n", strerror(errno));
		host_watch_close(w);
		skip();
	}
	seen.fd = host_watch_fd(w, HOST_WATCH_UEVENT);
	assert_int_equal(poll(&seen, 1, 1000), 1); /* it did come */
	assert_int_equal(host_watch_read(w, &c), 0);
	for (size_t i = 0; i < c.n; i++)
		assert_false(bdf_eq(c.at[i].bdf, test_bdf("0000:1a:00.0")));
	host_changes_done(&c);
	host_watch_close(w);
	(void)close(fd);
}

static void a_missing_socket_is_named(void **state)
{
	struct error err = ERROR_INIT;
	struct host_watch *w = NULL;

	(void)state;
	assert_int_equal(host_watch_open(&w, NULL, "/nonexistent/uevents", &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/uevents"));
	assert_null(w);
}

static struct host_changes changes(const char *bdf, unsigned what)
{
	struct host_changes c = { 0 };

	host_changes_add(&c, test_bdf("0000:1a:00.0"), HOST_CHANGE_STATE);
	host_changes_add(&c, test_bdf(bdf), what);
	host_changes_add(&c, test_bdf("0000:40:00.0"), HOST_CHANGE_NET);
	return c;
}

static void one_set_covers_another(void **state)
{
	struct host_changes all = changes("0000:2a:00.0", HOST_CHANGE_ANEW), none = { 0 }, other = changes("0000:2a:00.1", HOST_CHANGE_STATE);
	struct host_changes less = changes("0000:2a:00.0", HOST_CHANGE_STATE), lost = { .lost = true };

	(void)state;
	assert_true(host_changes_cover(&all, &all));
	assert_true(host_changes_cover(&all, &less));
	assert_false(host_changes_cover(&less, &all)); /* the state is not all of it */
	assert_false(host_changes_cover(&all, &other));
	assert_true(host_changes_cover(&all, &none));
	assert_false(host_changes_cover(&none, &all));
	assert_true(host_changes_cover(&lost, &all)); /* everything */
	assert_false(host_changes_cover(&all, &lost));
	host_changes_done(&all);
	host_changes_done(&less);
	host_changes_done(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_burst_is_one_set, start, stop),
		cmocka_unit_test_setup_teardown(losses_are_seen, start, stop),
		cmocka_unit_test_setup_teardown(an_end_is_an_error, start, stop),
		cmocka_unit_test_setup_teardown(links_name_their_function, start, stop),
		cmocka_unit_test(the_kernel_here),
		cmocka_unit_test(other_senders_are_ignored),
		cmocka_unit_test(a_missing_socket_is_named),
		cmocka_unit_test(one_set_covers_another),
	};

	return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
