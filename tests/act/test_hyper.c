/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velad-libvirt as velad sees it: killed, stopped, gone, while calls are under way. Its hypervisor is libvirt's test driver, which
 * begins anew with each of its processes. */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "act/hyper.h"
#include "base/arena.h"
#include "base/clock.h"
#include "program.h"

static struct act_hyper *start(const char *path, unsigned ms)
{
	const struct act_hypervisor env = { .program = path, .uri = "test:///default", .images = { "velad-test", "/nonexistent/images", "/" },
					    .look_ms = ms, .start_ms = ms, .stop_ms = ms };
	struct error err = ERROR_INIT;
	struct act_hyper *h = NULL;

	assert_int_equal(act_hyper_new(&h, &env, &err), 0);
	return h;
}

static int call(struct act_hyper *h, enum hyper_verb verb, struct error *err)
{
	const struct hyper_call c = { .verb = verb, .name = "a", .xml = "<domain/>" };
	struct arena arena = { 0 };
	struct hyper_answer a;
	int r;

	*err = ERROR_INIT;
	r = act_hyper_call(h, &a, &c, &arena, err);
	arena_done(&arena);
	return r;
}

/* The one child of a process; 0: it has none. */
static pid_t child_of(pid_t pid)
{
	char path[64];
	FILE *f;
	int child = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%d", &child) != 1)
		child = 0;
	if (f)
		(void)fclose(f);
	return child;
}

static pid_t guardian; /* of the working half */

static pid_t worker(void)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	pid_t pid = 0;

	for (int i = 0; i < 2000 && !pid; i++) {
		pid = child_of(guardian);
		if (!pid)
			(void)nanosleep(&nap, NULL);
	}
	assert_true(pid > 0);
	return pid;
}

/* The children of a test are those of earlier tests, which have ended, and the last one. */
static struct act_hyper *start_it(unsigned ms)
{
	char path[64], line[256] = "";
	struct act_hyper *h;
	struct error err;
	FILE *f;

	h = start(program("velad-libvirt"), ms);
	assert_int_equal(call(h, HYPER_DOMAIN, &err), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	(void)fclose(f);
	for (char *save, *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
		guardian = atoi(word);
	assert_true(worker() > 0);
	return h;
}

static void absent(void **state)
{
	struct act_hyper *h = start("/nonexistent/velad-libvirt", 5000);
	struct error err;
	struct act_offer offer;

	(void)state;
	assert_int_equal(call(h, HYPER_DOMAIN, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "cannot start /nonexistent/velad-libvirt, which talks to libvirt: No such file"));
	err = ERROR_INIT;
	assert_int_equal(act_hyper_offer(h, &offer, &err), -EREMOTEIO);
	act_hyper_free(h);
}

static void killed_between_calls(void **state)
{
	struct act_hyper *h = start_it(60000);
	struct error err;

	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(kill(worker(), SIGKILL), 0);
		assert_int_equal(call(h, HYPER_DOMAIN, &err), 0); /* by the next one, at the latest the second time */
	}
	act_hyper_free(h);
}

struct asked {
	struct act_hyper *h;
	enum hyper_verb   verb;
	pthread_t         thread;
	struct error      err;
	int               r;
};

static void *ask(void *self)
{
	struct asked *a = self;

	a->r = call(a->h, a->verb, &a->err);
	return NULL;
}

static void begin(struct asked *a, struct act_hyper *h, enum hyper_verb verb)
{
	*a = (struct asked){ .h = h, .verb = verb };
	assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
}

static void end(struct asked *a)
{
	assert_int_equal(pthread_join(a->thread, NULL), 0);
}

/* It is sure that they are under way: a process that is stopped does nothing. */
static void killed_within_a_call(void **state)
{
	const struct timespec nap = { .tv_nsec = 200000000 };
	struct act_hyper *h = start_it(60000);
	pid_t pid = worker();
	struct asked look, change;

	(void)state;
	assert_int_equal(kill(pid, SIGSTOP), 0);
	begin(&look, h, HYPER_DOMAIN);
	begin(&change, h, HYPER_START);
	(void)nanosleep(&nap, NULL);
	assert_int_equal(kill(pid, SIGKILL), 0);
	end(&look);
	end(&change);
	assert_int_equal(look.r, 0); /* asked again */
	assert_int_equal(change.r, -EREMOTEIO);
	if (!strstr(change.err.text, "unknown") && !strstr(change.err.text, "cannot define")) /* or it was still to be read */
		fail_msg("%s", change.err.text);
	act_hyper_free(h);
}

static void stopped(void **state)
{
	struct act_hyper *h = start_it(500);
	uint64_t start_ms = clock_ms();
	pid_t pid = worker();
	struct asked one, two;
	struct error err;

	(void)state;
	assert_int_equal(kill(pid, SIGSTOP), 0);
	begin(&one, h, HYPER_DOMAIN);
	begin(&two, h, HYPER_STOP);
	end(&one);
	end(&two);
	assert_true(one.r == -ETIMEDOUT || two.r == -ETIMEDOUT); /* the other one may have been cut off, and asked again */
	assert_non_null(strstr(one.r < 0 ? one.err.text : two.err.text, "libvirt has not answered"));
	assert_true(clock_ms() - start_ms < 9000); /* both were overdue: nobody had to be waited for */
	assert_int_equal(call(h, HYPER_DOMAIN, &err), 0);
	for (int i = 0; i < 2000 && worker() == pid; i++) /* nobody waits for the end of one that hangs */
		(void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	assert_int_not_equal(worker(), pid);
	act_hyper_free(h);
}

static void guardian_is_gone(void **state)
{
	struct act_hyper *h = start_it(60000);
	pid_t pid = worker();
	struct error err;
	int r = 0;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* what it leaves behind is this process's child then */
	assert_int_equal(kill(guardian, SIGKILL), 0);
	for (int i = 0; i < 2000 && r == 0; i++)
		r = call(h, HYPER_DOMAIN, &err);
	assert_int_equal(r, -EREMOTEIO);
	if (strstr(err.text, "unknown")) /* the very call that it ended in */
		assert_int_equal(call(h, HYPER_DOMAIN, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "systemctl restart velad"));
	act_hyper_free(h);
	r = -1;
	for (int i = 0; i < 2000 && r < 0; i++) { /* nothing is left of it */
		r = waitpid(pid, NULL, WNOHANG);
		if (r <= 0)
			(void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
		r = r > 0 ? 0 : -1;
	}
	assert_int_equal(r, 0);
}

/* ---- documents ------------------------------------------------------------------------------------------ */

static void answers(void **state)
{
	static const struct bdf device[] = { { .bus = 0x17 }, { .domain = 1, .bus = 0x18, .devfn = 9 } };
	struct act_guest guest = { .name = "g\n\"", .uuid = "5c1f8a2e-6b1d-4f0e-9d65-0e6f6a9f7c11", .state = ACT_DOMAIN_RUNNING, .ours = true,
				   .known = true, .device = device, .n = 2 };
	struct hyper_event event = { "e", ACT_DOMAIN_CHANGED };
	const struct hyper_answer a = { .domain = ACT_DOMAIN_CRASHED, .file = { true, 1LL << 40, -1 }, .changed = true, .type = "kvm", .qemu = 7002000, .lacks = 6,
					.event = &event, .nevents = 1, .guest = &guest, .nguests = 1 };
	auto_(json_object_put) json_object *doc = hyper_answer_json(&a);
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	struct hyper_answer b;

	(void)state;
	assert_int_equal(hyper_answer_read(&b, doc, &arena, &err), 0);
	assert_int_equal(b.domain, a.domain);
	assert_true(b.file.there && b.file.size == a.file.size && b.file.mtime == -1 && b.changed && b.qemu == a.qemu && b.lacks == a.lacks);
	assert_string_equal(b.type, "kvm");
	assert_null(b.problem);
	assert_true(b.nevents == 1 && b.event[0].state == ACT_DOMAIN_CHANGED && b.nguests == 1);
	assert_string_equal(b.guest[0].name, guest.name);
	assert_string_equal(b.guest[0].uuid, guest.uuid);
	assert_true(b.guest[0].ours && b.guest[0].known && b.guest[0].n == 2 && bdf_eq(b.guest[0].device[1], device[1]));
	(void)json_object_object_add(doc, "domain", json_object_new_int(9));
	assert_int_equal(hyper_answer_read(&b, doc, &arena, &err), -EPROTO);
	arena_done(&arena);
}

static void calls(void **state)
{
	const struct hyper_call c = { .verb = HYPER_DISK, .name = "a.disk", .disk = { .size = UINT64_MAX, .image = "i", .format = "raw" } };
	auto_(json_object_put) json_object *doc = hyper_call_json(&c);
	struct error err = ERROR_INIT;
	struct hyper_call b;

	(void)state;
	assert_int_equal(hyper_call_read(&b, doc, &err), 0);
	assert_true(b.verb == HYPER_DISK && b.disk.size == UINT64_MAX && !b.xml);
	assert_string_equal(b.disk.name, "a.disk");
	assert_string_equal(b.disk.image, "i");
	json_object_object_del(doc, "name");
	assert_int_equal(hyper_call_read(&b, doc, &err), -EPROTO);
	(void)json_object_object_add(doc, "verb", json_object_new_string("nothing"));
	assert_int_equal(hyper_call_read(&b, doc, &err), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(absent), cmocka_unit_test(killed_between_calls), cmocka_unit_test(killed_within_a_call), cmocka_unit_test(stopped),
		cmocka_unit_test(guardian_is_gone), cmocka_unit_test(answers), cmocka_unit_test(calls),
	};

	return cmocka_run_group_tests_name("hyper", tests, NULL, NULL);
}
