/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A worker's jobs: beside the loop, one after the other, awaited, and ended. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support.h"
#include "velad/worker.h"

struct job {
	int      go;      /* eventfd: the job ends when it is written to */
	unsigned through, done;
	sd_event *event;
};

static void work(void *self)
{
	struct job *j = self;
	eventfd_t n;

	if (eventfd_read(j->go, &n) < 0)
		abort(); /* cmocka's asserts are for the thread of the test */
	j->through++;
}

static void done(void *self)
{
	struct job *j = self;

	j->done++;
	(void)sd_event_exit(j->event, 0);
}

static struct worker *start(struct job *j)
{
	struct error err = ERROR_INIT;
	struct worker *w = NULL;

	*j = (struct job){ .go = eventfd(0, EFD_CLOEXEC) };
	assert_true(j->go >= 0);
	assert_int_equal(sd_event_new(&j->event), 0);
	if (worker_new(&w, j->event, &(struct worker_does){ "that is tested", SANDBOX_PLANNER, SECCOMP_OFF, work, done, j }, &err) < 0)
		fail_msg("%s", err.text);
	return w;
}

static void end(struct job *j, struct worker *w)
{
	assert_null(worker_free(w));
	sd_event_unref(j->event);
	(void)close(j->go);
}

static int on_defer(sd_event_source *source, void *self)
{
	(void)source;
	++*(unsigned *)self;
	return 0;
}

/* A job that does not end holds up nothing: the loop goes round as often as it likes. */
static void the_loop_goes_on(void **state)
{
	sd_event_source *defer = NULL;
	unsigned rounds = 0;
	struct job j;
	struct worker *w = start(&j);

	(void)state;
	assert_false(worker_busy(w));
	assert_true(sd_event_add_defer(j.event, &defer, on_defer, &rounds) >= 0);
	assert_true(sd_event_source_set_enabled(defer, SD_EVENT_ON) >= 0);
	worker_start(w);
	while (rounds < 1000)
		assert_true(sd_event_run(j.event, 0) >= 0);
	assert_true(worker_busy(w));
	assert_int_equal(j.done, 0);
	sd_event_source_unref(defer);
	assert_int_equal(eventfd_write(j.go, 1), 0);
	assert_int_equal(sd_event_loop(j.event), 0);
	assert_int_equal(j.through, 1);
	assert_int_equal(j.done, 1);
	assert_false(worker_busy(w));
	end(&j, w);
}

/* Who awaits it has it before done is called; and done is not called while the next one is under way. */
static void it_is_awaited(void **state)
{
	struct job j;
	struct worker *w = start(&j);

	(void)state;
	for (unsigned i = 1; i <= 100; i++) {
		assert_int_equal(eventfd_write(j.go, 1), 0);
		worker_start(w);
		assert_true(worker_await_for(w, 60000000));
		assert_int_equal(j.through, i);
		assert_false(worker_busy(w));
	}
	assert_int_equal(j.done, 0);
	worker_start(w); /* it hangs */
	assert_false(worker_await_for(w, 0));
	assert_false(worker_await_for(w, 20000));
	for (unsigned i = 0; i < 3; i++)
		assert_true(sd_event_run(j.event, 0) >= 0);
	assert_int_equal(j.done, 0);
	assert_int_equal(eventfd_write(j.go, 1), 0);
	assert_int_equal(sd_event_loop(j.event), 0);
	assert_int_equal(j.through, 101);
	assert_int_equal(j.done, 1);
	end(&j, w);
}

/* The job that is under way is waited for, and nobody is told of it. */
static void it_ends_with_its_job(void **state)
{
	struct job j;
	struct worker *w = start(&j);

	(void)state;
	assert_int_equal(eventfd_write(j.go, 1), 0);
	worker_start(w);
	assert_true(worker_await_for(w, 60000000));
	end(&j, w);
	assert_int_equal(j.through, 1);
	assert_int_equal(j.done, 0);
	assert_null(worker_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_loop_goes_on), cmocka_unit_test(it_is_awaited), cmocka_unit_test(it_ends_with_its_job),
	};

	return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
