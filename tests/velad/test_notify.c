/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The service manager hears of velad, by a path or an abstract name, and the watchdog is kept quiet. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "support.h"
#include "velad/notify.h"

static int listen_at(const char *name, size_t len)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timeval wait = { .tv_sec = 5 };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, name, len);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)), 0);
	return fd;
}

static void expect(int fd, const char *text)
{
	char got[128] = "";

	assert_true(recv(fd, got, sizeof(got) - 1, 0) > 0);
	assert_string_equal(got, text);
}

static void nobody_wants_to_know(void **state)
{
	struct error err = ERROR_INIT;
	struct notify n;

	(void)state;
	(void)unsetenv("NOTIFY_SOCKET");
	assert_int_equal(notify_open(&n, NULL, &err), 0);
	notify_send(&n, "READY=1");
	notify_done(&n);
}

static void it_is_told(void **state)
{
	char path[] = "/tmp/notify.XXXXXX", name[64];
	struct error err = ERROR_INIT;
	struct notify n;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(path));
	(void)snprintf(name, sizeof(name), "%s/sock", path);
	fd = listen_at(name, strlen(name));
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	assert_int_equal(notify_open(&n, NULL, &err), 0);
	notify_send(&n, "READY=1\nSTATUS=2 PCI functions");
	expect(fd, "READY=1\nSTATUS=2 PCI functions");
	notify_done(&n);
	(void)close(fd);
	assert_int_equal(notify_open(&n, NULL, &err), -ECONNREFUSED); /* nobody is there any more */
	notify_done(&n);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(rmdir(path), 0);
	err = ERROR_INIT;
	assert_int_equal(setenv("NOTIFY_SOCKET", "vsock:2:1", 1), 0);
	assert_int_equal(notify_open(&n, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "vsock:2:1"));
}

static void the_watchdog_is_kept_quiet(void **state)
{
	sd_event *event = NULL;
	struct error err = ERROR_INIT;
	struct notify n;
	char name[64];
	int fd;

	(void)state;
	(void)snprintf(name, sizeof(name), "@velad-notify-%d", (int)getpid());
	*name = '\0';
	fd = listen_at(name, 1 + strlen(name + 1));
	*name = '@';
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	assert_int_equal(setenv("WATCHDOG_USEC", "200000", 1), 0);
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(notify_open(&n, event, &err), 0);
	assert_non_null(n.watchdog);
	for (unsigned i = 0; i < 3; i++) { /* at once, and each tenth of a second */
		assert_true(sd_event_run(event, 5000000) > 0);
		expect(fd, "WATCHDOG=1");
	}
	notify_done(&n);
	sd_event_unref(event);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_wants_to_know),
		cmocka_unit_test(it_is_told),
		cmocka_unit_test(the_watchdog_is_kept_quiet),
	};

	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
