/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random histories: daemons that live one after the other on one machine and one store, clients that create, start, stop and delete,
 * and send a request again with its Idempotency-Key; calls that fail, guests that end by themselves, devices that are pulled,
 * plugged in, sick and well again, resets from outside; and each daemon may be killed at a call or at a write, or lose its
 * power. What must hold is checked at each daemon's start and at the end of all.
 *
 * HISTORY_SEEDS=n runs that many (make chaos: a hundred thousand), HISTORY_FIRST=n begins there, in HISTORY_JOBS processes (one for
 * each CPU). A history that fails is made as short as it can be and printed with its seed. */
#include "base/file.h"
#include "instance/cut.h"
#include "instance/fixture.h"
#include "instance/history.h"

#define CLIENTS 3

static struct tally {
	atomic_uint  next, failed; /* seeds; failed: 0 none */
	atomic_ulong histories, lives, ends[ENDS], accepted;
} *tally; /* in the memory of all processes that run histories */

struct client { /* who gives each request a key, and asks until there is an answer */
	unsigned keys; /* of its requests; the last is the one that it sends again */
	uint64_t op;   /* that it was promised; 0 not yet */
	bool     creates;
};

/* What a daemon's process leaves to the test. */
struct shared {
	struct cut cut;
	char       wrong[256]; /* what did not hold; "" nothing */
	uint64_t   accepted[2 * ACTIONS];
	size_t     naccepted;
	struct client client[CLIENTS];
};

struct scene {
	struct fx      fx;
	struct shared *shared;
	struct fake   *fresh; /* the machine as it was at first */
};

/* A store without anything in it, which most histories begin with: to make one takes a third of their time, and the early writes. */
static char  *blank;
static size_t nblank;

static const struct fx_want *const wants[] = { &fx_a, &fx_b, &fx_c };

/* ---- what must hold --------------------------------------------------------------------------------------- */

static void wrong(struct scene *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void wrong(struct scene *s, const char *fmt, ...)
{
	va_list ap;

	if (s->shared->wrong[0])
		return; /* the first is told */
	va_start(ap, fmt);
	(void)vsnprintf(s->shared->wrong, sizeof(s->shared->wrong), fmt, ap);
	va_end(ap);
}

/* It has failed, and waits for its next try: as long as there is a fault, that may be for ever. */
static bool waits(struct scene *s, uint64_t id)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	bool is = inst_op_json(s->fx.m, &o, id, &err) == 0 && fx_string(o, "next_try");

	json_object_put(o);
	return is;
}

static void wait_all(struct scene *s)
{
	for (uint64_t id = 1;; id++) {
		for (unsigned i = 0;; i++) {
			struct error err = ERROR_INIT;
			bool ended;

			if (inst_op_ended(s->fx.m, &ended, id, &err) < 0)
				return;
			if (ended || (i % 100 == 99 && waits(s, id)))
				break;
			if (i > 100000) {
				wrong(s, "operation %llu does not end", (unsigned long long)id);
				return;
			}
			fx_nap();
		}
	}
}

static const struct plan_taken *holder(const struct plan_taken *taken, size_t n, struct bdf fn)
{
	for (size_t i = 0; i < n; i++)
		if (bdf_eq(taken[i].bdf, fn))
			return &taken[i];
	return NULL;
}

/* Of the functions in quarantine; the one asked for is given back, if that can be. */
static size_t release(struct scene *s, size_t which)
{
	struct plan_sick *sick = NULL;
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	uint64_t op = 0;
	size_t n = 0;

	if (inst_quarantined(s->fx.m, &sick, &n, NULL, &arena, &err) == 0 && which < n &&
	    inst_quarantine_release(s->fx.m, &op, sick[which].bdf, NULL, &err) == 0)
		(void)fx_wait(&s->fx, op);
	arena_done(&arena);
	return n;
}

/* A function that nobody holds, and that is not in quarantine, is as it was; a guest runs only where its instance says so. */
static void check_now(struct scene *s)
{
	struct fake *m = s->fx.machine;
	struct plan_taken *taken = NULL;
	struct error err = ERROR_INIT;
	struct plan_sick *sick = NULL;
	struct arena arena = { 0 };
	char text[BDF_TEXT_MAX], state[32];
	size_t n = 0, nsick = 0;

	if (inst_quarantined(s->fx.m, &sick, &nsick, NULL, &arena, &err) < 0 || inst_taken(s->fx.m, &taken, &n, &arena, &err) < 0)
		wrong(s, "%s", err.text);
	for (size_t i = 0; i < m->nfns; i++) {
		const struct fake_fn *now = &m->fn[i], *was = &s->fresh->fn[i];
		bool set_aside = false;

		for (size_t k = 0; k < nsick; k++)
			set_aside = set_aside || bdf_eq(sick[k].bdf, now->bdf);
		if (set_aside || !now->there || holder(taken, n, now->bdf))
			continue;
		if (now->dirty)
			wrong(s, "nobody holds %s, and it has what a guest left in it", bdf_text(text, now->bdf));
		if (now->pf >= 0 ? strcmp(now->d.driver, "vfio-pci") == 0 :
				   strcmp(now->d.driver, was->d.driver) != 0 || strcmp(now->d.override, was->d.override) != 0)
			wrong(s, "nobody holds %s, and it has driver \"%s\", override \"%s\"", bdf_text(text, now->bdf), now->d.driver,
			      now->d.override);
	}
	for (size_t i = 0; i < FAKE_DOMAINS; i++)
		if (m->domain[i].state == ACT_DOMAIN_RUNNING && !fx_state(&s->fx, state, m->domain[i].name)[0])
			wrong(s, "guest %s runs, and there is no such instance", m->domain[i].name);
	if (m->violations)
		wrong(s, "a function was taken from a running guest");
	arena_done(&arena);
}

/* ---- a daemon's life -------------------------------------------------------------------------------------- */

static void accept(struct scene *s, int r, const uint64_t *op)
{
	if (r == 0 && s->shared->naccepted < ARRAY_SIZE(s->shared->accepted))
		s->shared->accepted[s->shared->naccepted++] = *op;
}

/* Does a guest run with it? The test only asks. */
static bool in_use(struct fake *m, struct bdf fn)
{
	bool is = fake_in_use(m, fn);

	m->violations -= is;
	return is;
}

/* What a guest has is not pulled: that is the kernel's fight. What is plugged in is new: it has the host's driver. */
static void plug(struct scene *s, bool in)
{
	struct fake *m = s->fx.machine;
	struct fake_fn *fn = &m->fn[2];

	(void)pthread_mutex_lock(&m->lock);
	if (in_use(m, fn->bdf))
		(void)in;
	else if (!in)
		fn->there = false;
	else if (!fn->there)
		*fn = s->fresh->fn[2];
	(void)pthread_mutex_unlock(&m->lock);
}

/* Somebody writes into "reset" of a GPU in sysfs, or libvirt does: its words are as at first, a guest's ATS is not. */
static void reset_outside(struct scene *s, unsigned x)
{
	struct fake *m = s->fx.machine;
	struct fake_fn *fn = &m->fn[x & 2];

	(void)pthread_mutex_lock(&m->lock);
	memcpy(fn->w.now, s->fresh->fn[x & 2].w.now, sizeof(fn->w.now));
	(void)pthread_mutex_unlock(&m->lock);
	inst_machine_changed(s->fx.m);
}

/* A GPU that reads as ff, does not come back from its next reset, or does so with fewer lanes. */
static void make_sick(struct scene *s, unsigned x)
{
	struct fake *m = s->fx.machine;
	struct fake_fn *fn = &m->fn[x & 2];

	(void)pthread_mutex_lock(&m->lock);
	if (x % 3 == 0)
		fn->w.dead = true;
	else if (x % 3 == 1)
		fn->dies = true;
	else
		fn->narrows = 8;
	(void)pthread_mutex_unlock(&m->lock);
}

/* Of both: what was wrong is over. */
static void make_well(struct scene *s)
{
	struct fake *m = s->fx.machine;

	(void)pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i <= 2; i++) {
		m->fn[i].w.dead = m->fn[i].dies = false;
		m->fn[i].narrows = 0;
		m->fn[i].width = s->fresh->fn[i].width;
	}
	(void)pthread_mutex_unlock(&m->lock);
}

/* A client's next request, or the last one again, which it may have had no answer to. */
static void keyed(struct scene *s, unsigned x)
{
	struct client *c = &s->shared->client[x % CLIENTS];
	const struct fx_want *want = wants[x % CLIENTS];
	struct error err = ERROR_INIT;
	struct inst_key key = { .uid = x % CLIENTS };
	uint64_t op = 0;
	char text[32];
	bool again = c->keys && x & 1;
	int r;

	if (!again)
		*c = (struct client){ .keys = c->keys + 1, .creates = x & 2 };
	(void)snprintf(text, sizeof(text), "%u", c->keys);
	key.text = text;
	key.digest = c->creates ? "create" : "delete";
	r = inst_key_find(s->fx.m, &op, &key, &err);
	if (c->op && op != c->op)
		wrong(s, "client %u: its key %s began operation %llu, and now is of %llu: %s", key.uid, text,
		      (unsigned long long)c->op, (unsigned long long)op, err.text);
	if (op || r < 0) {
		c->op = op;
		return;
	}
	inst_key_use(s->fx.m, &key);
	r = c->creates ? fx_try_create(&s->fx, want, &op, &err) : inst_delete(s->fx.m, &op, want->name, &err);
	inst_key_use(s->fx.m, NULL);
	accept(s, r, &op);
	if (r == 0)
		c->op = op;
}

static void power_off(struct scene *s, const char *name)
{
	struct fake *m = s->fx.machine;
	struct fake_domain *d;
	bool was = false;

	(void)pthread_mutex_lock(&m->lock);
	d = fake_domain_find(m, name);
	if (d && d->state == ACT_DOMAIN_RUNNING) {
		d->state = ACT_DOMAIN_SHUTOFF;
		fake_ats(m, d->xml, false);
		was = true;
	}
	(void)pthread_mutex_unlock(&m->lock);
	if (was)
		inst_domain_changed(s->fx.m, name, ACT_DOMAIN_SHUTOFF);
}

static void act(struct scene *s, const struct action *a, bool armed)
{
	const struct fx_want *want = wants[a->x % ARRAY_SIZE(wants)];
	struct fake *m = s->fx.machine;
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	switch (a->kind) {
	case CREATE:
		accept(s, fx_try_create(&s->fx, want, &op, &err), &op);
		break;
	case DELETE:
		accept(s, inst_delete(s->fx.m, &op, want->name, &err), &op);
		break;
	case WAIT:
		wait_all(s);
		break;
	case ORDER:
		accept(s, inst_order(s->fx.m, &op, want->name, (enum inst_order)(a->x % INST_ORDER_MAX_), 0, &err), &op);
		break;
	case RELEASE:
		(void)release(s, 0);
		break;
	case FAIL:
	case FAIL_ON:
		if (!armed)
			fake_arm(m, FAKE_FAIL, (enum fake_when)(a->x % FAKE_WHEN_MAX_), 1 + a->x, a->kind == FAIL_ON);
		break;
	case WORK_AGAIN:
		if (!armed)
			fake_disarm(m);
		break;
	case POWER_OFF:
		power_off(s, want->name);
		break;
	case FORGET:
		fake_port_is(m, 0, 0x1d);
		inst_machine_changed(s->fx.m);
		break;
	case PULL:
	case PLUG:
		plug(s, a->kind == PLUG);
		break;
	case RESET:
		reset_outside(s, a->x);
		break;
	case SICK:
	case WELL:
		a->kind == SICK ? make_sick(s, a->x) : make_well(s);
		break;
	case KEYED:
		keyed(s, a->x);
		break;
	case KINDS:
		break;
	}
}

static void live(struct scene *s, const struct life *life)
{
	struct inst_env env = { .store = s->fx.store, .act = fake_act(s->fx.machine), .changed = fx_changed, .ended = fx_ended,
				.self = &s->fx };
	bool armed = life->end == CRASH_AT_CALL;
	struct error err = ERROR_INIT;

	if (armed)
		fake_arm(s->fx.machine, FAKE_CRASHES, (enum fake_when)(life->at % FAKE_WHEN_MAX_), life->at, false);
	cut_now = &s->shared->cut;
	if (inst_manager_new(&s->fx.m, &env, &err) < 0) {
		wrong(s, "the store cannot be opened: %s", err.text);
		_exit(0);
	}
	wait_all(s);
	check_now(s);
	for (size_t i = 0; i < ACTIONS; i++)
		if (!life->action[i].out)
			act(s, &life->action[i], armed);
	if (!armed)
		fake_disarm(s->fx.machine);
	wait_all(s);
	fx_close(&s->fx);
	_exit(0);
}

static void run_life(struct scene *s, const struct life *life)
{
	static const enum cut_how how[ENDS] = { CUT_COUNT, CUT_COUNT, CUT_KILL, CUT_POWER };
	bool killed;
	int status;
	pid_t pid;

	(void)snprintf(s->shared->cut.dir, sizeof(s->shared->cut.dir), "%s", s->fx.dir);
	s->shared->cut.how = how[life->end];
	s->shared->cut.at = how[life->end] == CUT_COUNT ? 0 : life->at;
	s->shared->cut.seed = life->at & 1 ? life->at : 0;
	s->shared->cut.calls = 0;
	s->shared->naccepted = 0;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		live(s, life);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	fake_reset_lock(s->fx.machine);
	fake_disarm(s->fx.machine);
	killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	tally->lives++;
	tally->accepted += s->shared->naccepted;
	if (killed || (WIFEXITED(status) && WEXITSTATUS(status) == FAKE_CRASH))
		tally->ends[life->end]++;
	if (killed && life->end == POWER_LOST)
		fake_reboot(s->fx.machine);
	if (!killed && !(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == FAKE_CRASH)))
		wrong(s, "the daemon ended with status 0x%x", (unsigned)status);
}

static void expect_accepted(struct scene *s)
{
	for (size_t i = 0; i < s->shared->naccepted; i++) {
		struct error err = ERROR_INIT;
		json_object *o = NULL;

		if (inst_op_json(s->fx.m, &o, s->shared->accepted[i], &err) < 0)
			wrong(s, "accepted operation: %s", err.text);
		json_object_put(o);
	}
}

/* What is in quarantine may hold up a delete, which says so; later: nothing is there any more. */
static void delete_all(struct scene *s, bool later)
{
	char state[32];

	for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
		json_object *o = NULL, *why = NULL;
		uint64_t op;

		if (!fx_state(&s->fx, state, wants[i]->name)[0])
			continue;
		op = fx_delete(&s->fx, wants[i]->name);
		if (fx_wait(&s->fx, op))
			continue;
		o = fx_op(&s->fx, op);
		if (json_pointer_get(o, "/error/detail", &why) < 0 || later || !strstr(json_object_get_string(why), "delete it again"))
			wrong(s, "instance %s cannot be deleted: %s", wants[i]->name, json_object_get_string(why));
		json_object_put(o);
	}
}

/* A daemon that meets no fault: it is told to delete all, and then all is as it was. */
static void expect_end(struct scene *s)
{
	autofree char *was = fake_text(s->fresh), *now = NULL;
	size_t n;

	plug(s, true);
	make_well(s);
	fx_open(&s->fx);
	wait_all(s);
	expect_accepted(s);
	check_now(s);
	delete_all(s, release(s, SIZE_MAX) == 0);
	for (n = release(s, SIZE_MAX); n; n--)
		(void)release(s, 0);
	if (release(s, SIZE_MAX))
		wrong(s, "a function cannot be given back from quarantine");
	delete_all(s, true);
	fx_close(&s->fx);
	now = fake_text(s->fx.machine);
	if (strcmp(was, now) != 0) {
		size_t at = strspn(now, ""), line = 0;

		while (was[at] && was[at] == now[at]) {
			line = now[at] == '\n' ? at + 1 : line;
			at++;
		}
		wrong(s, "in the end the machine has \"%.*s\"", (int)strcspn(now + line, "\n"), now + line);
	}
}

static void blank_make(void)
{
	struct fx fx;

	fx_new(&fx);
	fx_open(&fx);
	fx_close(&fx);
	assert_int_equal(file_read(&blank, &nblank, fx.store, 1u << 20), 0);
	fx_done(&fx);
}

static void blank_put(const char *path)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(blank, 1, nblank, f), nblank);
	assert_int_equal(fclose(f), 0);
}

/* True if all held. */
static bool run_history(const struct history *h, bool tell)
{
	struct scene s = { .fresh = fake_new() };
	bool good;

	fx_new(&s.fx);
	if (!h->bare)
		blank_put(s.fx.store);
	s.shared = mmap(NULL, sizeof(*s.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(s.shared != MAP_FAILED);
	for (size_t l = 0; l < LIVES && !s.shared->wrong[0]; l++)
		if (!h->life[l].out)
			run_life(&s, &h->life[l]);
	if (!s.shared->wrong[0])
		expect_end(&s);
	good = !s.shared->wrong[0];
	if (!good && tell)
		print_error("%s\n", s.shared->wrong);
	(void)munmap(s.shared, sizeof(*s.shared));
	fake_free(s.fresh);
	fx_done(&s.fx);
	return good;
}

/* Leaves out one thing after the other as long as it still fails. Threads make some failures rare: three tries each. */
static bool still_fails(const struct history *h)
{
	for (int i = 0; i < 3; i++)
		if (!run_history(h, false))
			return true;
	return false;
}

static void shorten(struct history *h)
{
	for (size_t l = 0; l < LIVES; l++) {
		h->life[l].out = true;
		if (still_fails(h))
			continue;
		h->life[l].out = false;
		for (size_t i = 0; i < ACTIONS; i++) {
			h->life[l].action[i].out = true;
			h->life[l].action[i].out = still_fails(h);
		}
	}
}

static unsigned number(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static const uint32_t found[] = { 7762, 19292 }; /* what has failed once, and comes last */
/* Takes the next seed until there are no more, or one has failed anywhere. */
static void run_seeds(unsigned first, unsigned n)
{
	unsigned i, none = 0;

	while (!tally->failed && (i = tally->next++) < n + ARRAY_SIZE(found)) {
		uint32_t seed = i < n ? first + i : found[i - n];
		struct history h;

		history_make(&h, seed, seed % 8 == 0 || i >= n);
		tally->histories++;
		if (run_history(&h, true) || !atomic_compare_exchange_strong(&tally->failed, &none, seed))
			continue; /* the first that fails is told */
		shorten(&h);
		history_print(&h);
		(void)run_history(&h, true);
	}
}

static void histories(void **state)
{
	unsigned first = number("HISTORY_FIRST", 1), n = number("HISTORY_SEEDS", 300);
	unsigned jobs = number("HISTORY_JOBS", (unsigned)sysconf(_SC_NPROCESSORS_ONLN));
	time_t start = time(NULL);
	int status;

	(void)state;
	blank_make();
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(tally != MAP_FAILED);
	(void)fflush(NULL);
	for (unsigned i = 0; i < jobs; i++)
		if (fork() == 0) {
			run_seeds(first, n);
			exit(0); /* not _exit(2): a sanitizer looks for leaks */
		}
	for (unsigned i = 0; i < jobs; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	print_message("# %lu histories in %ld s: %lu daemons, of which %lu died at a call, %lu were killed at a write, %lu lost power; %lu operations\n",
		      tally->histories, (long)(time(NULL) - start), tally->lives, tally->ends[CRASH_AT_CALL], tally->ends[KILLED_AT_WRITE],
		      tally->ends[POWER_LOST], tally->accepted);
	free(blank);
	if (tally->failed)
		fail_msg("seed %u", tally->failed);
	assert_int_equal(tally->histories, n + ARRAY_SIZE(found));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(histories) };

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
