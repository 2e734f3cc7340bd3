/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon is killed, the power goes and the disk fails at every single write to the store, during a create, a
 * delete and the recovery after either; memory and files run out. Afterwards the store can be read, what was accepted
 * is there, the machine is as it was or the operation is finished.
 *
 * MEMORY_STEP=1, AGAIN_STEP=1: at every single allocation, every two writes (make chaos); else some of them.
 * MEMORY_FIRST: the first of these allocations, so that several runs of MEMORY_STEP=n share them, at 1 to n. */
#include <sys/resource.h>

#include "instance/cut.h"
#include "instance/fixture.h"

enum job { JOB_CREATE, JOB_DELETE, JOB_BATCH, JOB_RECOVER, JOB_MAX_ };

static const char *const jobs[] = { "create", "delete", "a batch" };

struct shared {
	struct cut cut;
	uint64_t   accepted, reserved; /* the operations that clients were promised; 0 none */
};

struct scene {
	struct fx      fx;
	struct shared *shared;
	char          *before;
	rlim_t         files; /* that a daemon may have open; 0: as many as it wants */
};

static void scene_new(struct scene *s)
{
	fx_new(&s->fx);
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(s->shared != MAP_FAILED);
	(void)snprintf(s->shared->cut.dir, sizeof(s->shared->cut.dir), "%s", s->fx.dir);
	s->before = fake_text(s->fx.machine);
}

static void scene_done(struct scene *s)
{
	free(s->before);
	(void)munmap(s->shared, sizeof(*s->shared));
	fx_done(&s->fx);
}

/* Until no operation is unfinished, or as often looked at; ids count from 1. */
static void wait_all(struct fx *fx, unsigned looks)
{
	for (uint64_t id = 1;; id++) {
		struct error err = ERROR_INIT;
		bool ended = false;

		while (!ended && looks) {
			unsigned count = fx->ended;
			json_object *o = NULL;

			if (inst_op_json(fx->m, &o, id, &err) < 0)
				return;
			ended = fx_string(o, "finished") != NULL;
			json_object_put(o);
			for (int k = 0; !ended && looks && fx->ended == count && k < 100; k++, looks--)
				fx_nap();
		}
		if (!ended)
			return;
	}
}

/* One that is made, one that is reserved, and one that is refused between them, committed together. */
static int batch(struct scene *s, uint64_t *op, const struct plan_request *a, const struct plan *plan, const struct plan_request *b,
		 const struct plan *other, struct error *err)
{
	struct error refused = ERROR_INIT;
	uint64_t no = 0, reserved = 0, failed = 0;
	int r, end;

	inst_batch_begin(s->fx.m);
	r = inst_create(s->fx.m, op, a, plan, "uuid-of-a", err);
	if (r == 0 && inst_create(s->fx.m, &no, a, plan, "uuid-of-another", &refused) == 0)
		abort();
	if (r == 0)
		r = inst_reserve(s->fx.m, &reserved, b, other, "uuid-of-b", err);
	end = inst_batch_end(s->fx.m, &failed, err);
	s->shared->reserved = r == 0 && end == 0 ? reserved : 0;
	return end < 0 ? end : r;
}

/* A daemon and its client, in a process of their own. */
static void live(struct scene *s, enum job job)
{
	struct inst_env env = { .store = s->fx.store, .act = fake_act(s->fx.machine), .changed = fx_changed, .ended = fx_ended,
				.self = &s->fx };
	struct error err = ERROR_INIT;
	auto_(plan_free) struct plan *plan = fx_plan(&fx_a);
	auto_(plan_free) struct plan *other = fx_plan(&fx_b);
	struct plan_request request = test_request("{\"name\": \"a\"}"), second = test_request("{\"name\": \"b\"}");
	uint64_t op = 0;
	int r;

	if (s->files && setrlimit(RLIMIT_NOFILE, &(struct rlimit){ s->files, s->files }) < 0)
		abort();
	cut_now = &s->shared->cut;
	r = inst_manager_new(&s->fx.m, &env, &err);
	if (r == 0) {
		if (job == JOB_CREATE)
			r = inst_create(s->fx.m, &op, &request, plan, "uuid-of-a", &err);
		else if (job == JOB_DELETE)
			r = inst_delete(s->fx.m, &op, "a", &err);
		else if (job == JOB_BATCH)
			r = batch(s, &op, &request, plan, &second, other, &err);
		s->shared->accepted = r == 0 ? op : 0;
	}
	if (r == 0) /* after a failure of the store velad tries again in five seconds; this one is stopped before */
		wait_all(&s->fx, s->shared->cut.how >= CUT_ERROR ? 500 : 100000);
	if (s->fx.m)
		fx_close(&s->fx);
	_exit(r == 0 ? 0 : 1);
}

/* True if the process was ended by what was armed. */
static bool run(struct scene *s, enum job job, const struct cut *how)
{
	int status;
	pid_t pid;

	strcpy(s->shared->cut.dir, s->fx.dir);
	s->shared->cut.how = how->how;
	s->shared->cut.at = how->at;
	s->shared->cut.error = how->error;
	s->shared->cut.seed = how->seed;
	s->shared->cut.calls = 0;
	s->shared->cut.fired = false;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		live(s, job);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	fake_reset_lock(s->fx.machine);
	if (WIFSIGNALED(status))
		assert_int_equal(WTERMSIG(status), SIGKILL);
	return WIFSIGNALED(status);
}

static void begin(struct scene *s, enum job job)
{
	scene_new(s);
	s->files = 0;
	if (job != JOB_DELETE)
		return;
	fx_open(&s->fx);
	fx_create_done(&s->fx, &fx_a);
	fx_close(&s->fx);
}

/* A daemon that lives brings all to a good end. told: the last one lived, and may have said that it could not. */
static void expect_good_end(struct scene *s, enum job job, uint64_t accepted, bool told)
{
	char buf[32];

	fx_open(&s->fx);
	wait_all(&s->fx, 100000);
	if (accepted)
		json_object_put(fx_op(&s->fx, accepted)); /* a promise outlives everything */
	(void)fx_state(&s->fx, buf, "a");
	if (job == JOB_DELETE && accepted && !told)
		assert_string_equal(buf, "");
	if (strcmp(buf, "failed") == 0 && !told && job != JOB_BATCH)
		assert_int_equal(fx_taken(&s->fx), 0);
	if (buf[0])
		assert_true(fx_wait(&s->fx, fx_delete(&s->fx, "a")));
	fx_expect_state(&s->fx, "a", "");
	if (s->shared->reserved) {
		json_object_put(fx_op(&s->fx, s->shared->reserved));
		fx_expect_state(&s->fx, "b", "stopped");
	}
	if (*fx_state(&s->fx, buf, "b"))
		assert_true(fx_wait(&s->fx, fx_delete(&s->fx, "b")));
	assert_int_equal(fx_taken(&s->fx), 0);
	fx_expect_machine(&s->fx, s->before);
	fx_close(&s->fx);
}

/* One end of the daemon at write k; with second: and another one at that write of the recovery. False once k is
 * beyond its writes. */
static bool cut_at(enum job job, const struct cut *how, unsigned second)
{
	struct scene s;
	bool ended;

	begin(&s, job);
	ended = run(&s, job, how);
	if (ended && how->how == CUT_POWER)
		fake_reboot(s.fx.machine);
	if (ended && second) {
		struct cut again = *how;

		again.at = second;
		if (run(&s, JOB_RECOVER, &again) && how->how == CUT_POWER)
			fake_reboot(s.fx.machine);
	}
	expect_good_end(&s, job, s.shared->accepted, false);
	scene_done(&s);
	return ended;
}

static unsigned number_of(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)atoi(text) : otherwise;
}

static unsigned everywhere(enum job job, enum cut_how how, uint32_t seed)
{
	static const char *const hows[] = { [CUT_KILL] = "killed", [CUT_KILL_HALF] = "killed in the middle", [CUT_POWER] = "without power" };
	unsigned k = 1;

	while (cut_at(job, &(struct cut){ .how = how, .at = k, .seed = seed ? seed + k : 0 }, 0))
		k++;
	print_message("# %s: %s at each of %u writes, seed %u\n", jobs[job], hows[how], k - 1, seed);
	return k;
}

static void killed(void **state)
{
	(void)state;
	for (int how = CUT_KILL; how <= CUT_KILL_HALF; how++) {
		assert_in_range(everywhere(JOB_CREATE, (enum cut_how)how, 0), 40, 2000);
		assert_in_range(everywhere(JOB_DELETE, (enum cut_how)how, 0), 20, 2000);
		assert_in_range(everywhere(JOB_BATCH, (enum cut_how)how, 0), 40, 2000);
	}
}

static void power_goes(void **state)
{
	(void)state;
	for (uint32_t seed = 0; seed < 3000; seed += 1000) {
		assert_in_range(everywhere(JOB_CREATE, CUT_POWER, seed), 40, 2000);
		assert_in_range(everywhere(JOB_DELETE, CUT_POWER, seed), 20, 2000);
		assert_in_range(everywhere(JOB_BATCH, CUT_POWER, seed), 40, 2000);
	}
}

static void again_during_recovery(void **state)
{
	unsigned step = number_of("AGAIN_STEP", 7), n = 0;

	(void)state;
	for (unsigned k = 10; k < 40; k += step)
		for (unsigned second = 1; second < 40; second += (step + 1) / 2, n += 2) {
			(void)cut_at(JOB_CREATE, &(struct cut){ .how = CUT_KILL, .at = k }, second);
			(void)cut_at(JOB_DELETE, &(struct cut){ .how = CUT_POWER, .at = k, .seed = k * second }, second);
		}
	print_message("# ended twice, at %u pairs of writes\n", n);
}

/* The disk is full, or broken, at write k; the process lives. */
static bool disk_fails_at(enum job job, int error, unsigned k)
{
	struct scene s;
	bool fired;

	begin(&s, job);
	(void)run(&s, job, &(struct cut){ .how = CUT_ERROR, .at = k, .error = error });
	fired = s.shared->cut.fired;
	expect_good_end(&s, job, s.shared->accepted, fired);
	scene_done(&s);
	return fired;
}

static void disk_fails(void **state)
{
	static const int errors[] = { ENOSPC, EIO };

	(void)state;
	for (size_t e = 0; e < ARRAY_SIZE(errors); e++) {
		for (unsigned k = 1; disk_fails_at(JOB_CREATE, errors[e], k); k++)
			;
		for (unsigned k = 1; disk_fails_at(JOB_DELETE, errors[e], k); k++)
			;
		for (unsigned k = 1; disk_fails_at(JOB_BATCH, errors[e], k); k++)
			;
	}
}

/* Memory is short once, at allocation k: at every MEMORY_STEP-th from MEMORY_FIRST on, all with MEMORY_STEP=1. */
static void memory_fails(enum job job)
{
	unsigned step = number_of("MEMORY_STEP", 97), k = number_of("MEMORY_FIRST", 1), n = 0;
	bool fired = true;

	if (!cut_has_memory())
		skip();
	for (; fired; k += step, n++) {
		struct scene s;

		begin(&s, job);
		(void)run(&s, job, &(struct cut){ .how = CUT_MEMORY, .at = k });
		fired = s.shared->cut.fired;
		expect_good_end(&s, job, s.shared->accepted, fired);
		scene_done(&s);
	}
	assert_true(n > 5);
	print_message("# %s: %u allocations failed, of %u\n", jobs[job], n - 1, k - 2 * step);
}

static void memory_fails_in_create(void **state)
{
	(void)state;
	memory_fails(JOB_CREATE);
}

static void memory_fails_in_delete(void **state)
{
	(void)state;
	memory_fails(JOB_DELETE);
}

static void memory_fails_in_a_batch(void **state)
{
	(void)state;
	memory_fails(JOB_BATCH);
}

/* So few files may be open that the store cannot be; and then a few more. */
static void files_run_out(void **state)
{
	(void)state;
	for (rlim_t n = 3; n < 24; n++) {
		struct scene s;

		begin(&s, JOB_CREATE);
		s.files = n;
		(void)run(&s, JOB_CREATE, &(struct cut){ .how = CUT_COUNT });
		expect_good_end(&s, JOB_CREATE, s.shared->accepted, true);
		scene_done(&s);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(power_goes),		 cmocka_unit_test(disk_fails),		cmocka_unit_test(memory_fails_in_create),
	cmocka_unit_test(memory_fails_in_delete), cmocka_unit_test(killed),		cmocka_unit_test(again_during_recovery),
	cmocka_unit_test(files_run_out),	 cmocka_unit_test(memory_fails_in_a_batch),
};

/* One test in a process of its own, which says what it has to say into the file. */
static pid_t spawn(char *program, const char *name, FILE *out)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (dup2(fileno(out), STDOUT_FILENO) < 0 || dup2(fileno(out), STDERR_FILENO) < 0)
		_exit(127);
	(void)execv(program, (char *[]){ program, (char *)name, NULL });
	_exit(127);
}

static bool show(FILE *out, int status)
{
	char line[512];

	rewind(out);
	while (fgets(line, sizeof(line), out))
		(void)fputs(line, stdout);
	(void)fclose(out);
	return status == 0;
}

/* The longest first, as many at a time as there are CPUs: each waits for its processes most of the time. */
static int run_all(char *program)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pid_t pid[ARRAY_SIZE(tests)];
	FILE *out[ARRAY_SIZE(tests)];
	size_t next = 0, left = ARRAY_SIZE(tests);
	bool good = true;
	int status;

	while (left) {
		pid_t ended;

		for (; next < ARRAY_SIZE(tests) && (long)(next - (ARRAY_SIZE(tests) - left)) < cpus; next++) {
			out[next] = tmpfile();
			assert(out[next]);
			pid[next] = spawn(program, tests[next].name, out[next]);
			assert(pid[next] > 0);
		}
		ended = wait(&status);
		for (size_t i = 0; i < next; i++)
			if (pid[i] == ended) {
				good = show(out[i], status) && good;
				pid[i] = 0;
			}
		left--;
	}
	return !good;
}

/* test_cut [TEST] */
int main(int argc, char **argv)
{
	log_init((enum log_level)0); /* failures are what is tested here */
	if (argc < 2)
		return run_all(argv[0]);
	cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
