/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A velad-helper that is there and does not answer: whoever opens files waits once, and not for ever. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "act/remote.h"
#include "base/clock.h"
#include "base/error.h"
#include "support.h"

struct helper {
	char               dir[32];
	struct sockaddr_un address;
	int                listening;
	pthread_t          thread;
	unsigned           answers;
	atomic_uint        late_ms;
	atomic_uint        asked; /* answers: the first so many calls are, each with /dev/null */
	atomic_uint        greeted; /* connections */
	atomic_uint        patience; /* calls of a connection, which is closed then; 0: it is not */
};

static void answer(int on)
{
	struct wire_answer a = { .version = WIRE_VERSION };
	struct iovec part = { &a, sizeof(a) };
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	(void)sendmsg(on, &msg, MSG_NOSIGNAL); /* who waits no longer is gone */
	(void)close(fd);
}

static void *serve(void *arg)
{
	struct helper *h = arg;
	struct wire_call call;
	int on;

	while ((on = accept4(h->listening, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		unsigned calls = 0;

		h->greeted++;
		while ((!h->patience || calls++ < h->patience) && recv(on, &call, sizeof(call), 0) > 0)
			if (h->asked++ < h->answers) {
				(void)usleep(h->late_ms * 1000);
				answer(on);
			}
		(void)close(on);
	}
	return NULL;
}

static struct act_remote *helper_start(struct helper *h, unsigned answers)
{
	struct act_remote *r = NULL;
	struct error err = ERROR_INIT;

	*h = (struct helper){ .dir = "/tmp/velad-remote-XXXXXX", .answers = answers, .address.sun_family = AF_UNIX };
	assert_non_null(mkdtemp(h->dir));
	(void)snprintf(h->address.sun_path, sizeof(h->address.sun_path), "%s/socket", h->dir);
	h->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(h->listening, (struct sockaddr *)&h->address, sizeof(h->address)), 0);
	assert_int_equal(listen(h->listening, 4), 0);
	assert_int_equal(pthread_create(&h->thread, NULL, serve, h), 0);
	assert_int_equal(act_remote_new(&r, h->address.sun_path, &err), 0);
	return r;
}

static void helper_stop(struct helper *h, struct act_remote *r)
{
	(void)act_remote_free(r);
	(void)shutdown(h->listening, SHUT_RDWR);
	assert_int_equal(pthread_join(h->thread, NULL), 0);
	(void)close(h->listening);
	(void)unlink(h->address.sun_path);
	(void)rmdir(h->dir);
}

static int open_config(struct act_remote *r, uint64_t *ms, struct error *err)
{
	struct wire_call c = wire_call(WIRE_OPEN, test_bdf("0000:17:00.0"));
	uint64_t began = clock_ms();
	int fd;

	*err = ERROR_INIT;
	c.number = WIRE_CONFIG;
	fd = act_remote_fd(r, &c, err);
	*ms = clock_ms() - began;
	return fd;
}

static void silent(void **state)
{
	struct helper h;
	struct act_remote *r = helper_start(&h, 2);
	struct error err;
	uint64_t ms, all = clock_ms();

	(void)state;
	for (int i = 0; i < 2; i++) {
		int fd = open_config(r, &ms, &err);

		assert_true(fd >= 0);
		(void)close(fd);
	}
	assert_int_equal(open_config(r, &ms, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "velad-helper has not answered open for 2 s"));
	assert_true(ms >= 1900);
	all = clock_ms();
	for (int i = 0; i < 2000; i++) { /* all functions of a big host */
		assert_int_equal(open_config(r, &ms, &err), -ETIMEDOUT);
		assert_non_null(strstr(err.text, "is asked again in a while"));
	}
	assert_true(clock_ms() - all < 2000);
	assert_int_equal(act_remote_open(r, "sys/bus/pci/devices/0000:17:00.0/config"), -ETIMEDOUT);
	assert_int_equal(h.asked, 3);
	helper_stop(&h, r);
}

static void *step(void *arg)
{
	struct error err;
	uint64_t ms;
	int fd = open_config(arg, &ms, &err);

	assert_true(fd >= 0);
	(void)close(fd);
	return NULL;
}

/* One that may have to be started first is given time. Later the loop gives up on one that is slow; a step waits, also while
 * the loop does not ask. */
static void slow(void **state)
{
	struct helper h;
	struct act_remote *r = helper_start(&h, 3);
	struct error err;
	pthread_t thread;
	uint64_t ms;
	int fd;

	(void)state;
	h.late_ms = 2500;
	fd = open_config(r, &ms, &err);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(open_config(r, &ms, &err), -ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, step, r), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(open_config(r, &ms, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "is asked again in a while"));
	helper_stop(&h, r);
}

/* Calls of steps one after the other share a connection; one that the helper has closed meanwhile is no failure. */
static void shared(void **state)
{
	struct helper h;
	struct act_remote *r = helper_start(&h, 100);
	struct wire_call c = wire_call(WIRE_VFIO_LOAD, test_bdf("0000:17:00.0"));
	struct error err = ERROR_INIT;

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(act_remote_call(r, NULL, &c, &err), 0);
	assert_int_equal(h.greeted, 1);
	h.patience = 1; /* of this one: the next call is its last */
	for (int i = 0; i < 5; i++)
		assert_int_equal(act_remote_call(r, NULL, &c, &err), 0);
	assert_int_equal(h.asked, 15);
	assert_in_range(h.greeted, 4, 5); /* the first may have been between two calls when it was told */
	assert_int_equal(act_remote_away(r, &err), 0);
	helper_stop(&h, r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(silent), cmocka_unit_test(slow), cmocka_unit_test(shared) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
