/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* fixture — plans on the machine of fake_act.h, a manager on a store in a temporary directory, and
 * looking at both. */

#include <ftw.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "base/log.h"
#include "instance/fake_act.h"
#include "base/cpuset.h"
#include "instance/instance.h"
#include "instance/store.h"
#include "support.h"

struct fx {
	struct fake         *machine;
	struct inst_manager *m; /* NULL: no daemon runs */
	char                 dir[64], store[80];
	unsigned             keep_ms, keep_seconds; /* as in inst_env */
	struct inst_release  release;
	struct inst_crash    crash;
	struct inst_deadlines deadlines;             /* likewise */
	unsigned             workers, stop_ms;
	struct host_root    *root;
	atomic_uint          changed; /* calls of inst_env.changed */
	atomic_uint          ended;   /* operations that have ended */
};

/* ---- plans ------------------------------------------------------------------------------------------ */

struct fx_want {
	const char *name;
	const char *gpu, *companion; /* NULL none */
	const char *pf;              /* NULL: no VFs */
	unsigned    first, nvfs;     /* VF indexes on it */
	const char *gdr;             /* NULL: off */
	const char *partition;       /* NULL none */
	bool        scrub;           /* the operator has a program */
	const char *disk;            /* what its step makes; with a seed; NULL: neither */
	bool        blocking;        /* does not mind Translation Blocking at FAKE_PORT_TB */
};

/* a and b share a PF and the ports above it, and nothing else; c has the GPU of a. */
static const struct fx_want fx_a = { "a", "0000:19:00.0", "0000:19:00.1", "0000:1a:00.0", 0, 2, .partition = "1" };
static const struct fx_want fx_b = { "b", "0000:3b:00.0", NULL, "0000:1a:00.0", 2, 1 };
static const struct fx_want fx_d = { "d", "0000:3b:00.0", NULL, "0000:3c:00.0", 0, 2 }; /* shares nothing with a but ports */
static const struct fx_want fx_c = { "c", "0000:19:00.0", NULL, NULL, 0, 0 };

static inline void fx_step(struct plan *p, enum plan_step_kind kind, const char *target, const char *from,
			   const char *to)
{
	struct plan_step *s = &p->step[p->nsteps++];

	*s = (struct plan_step){ .kind = kind, .bdf = BDF_NONE, .from = from, .to = to };
	s->target = arena_strdup(&p->arena, target);
	if (plan_step_of_function(kind))
		s->bdf = test_bdf(target);
}

static inline void fx_vfs(struct plan *p, const struct fx_want *w)
{
	for (unsigned i = 0; w->pf && i < w->nvfs; i++) {
		struct plan_vf *vf = &p->vf[p->nvfs++];

		vf->pf = test_bdf(w->pf);
		vf->index = (uint16_t)(w->first + i);
		assert_true(bdf_add(&vf->bdf, vf->pf, w->first + i + 1));
		vf->gpu = w->gpu ? test_bdf(w->gpu) : BDF_NONE;
		vf->path = TOPO_PIX;
	}
}

static inline void fx_lends(struct plan *p, bool scrub)
{
	static const enum plan_step_kind kinds[] = { PLAN_STEP_LEND, PLAN_STEP_SCRUB, PLAN_STEP_RESET };
	size_t n = p->nsteps;

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		for (size_t i = 0; i < n; i++)
			if (p->step[i].kind == PLAN_STEP_BIND && (k != 1 || scrub))
				fx_step(p, kinds[k], p->step[i].target, "as planned", "used");
}

static inline void fx_steps(struct plan *p, const struct fx_want *w)
{
	char text[BDF_TEXT_MAX];

	if (w->disk) {
		fx_step(p, PLAN_STEP_DISK, arena_printf(&p->arena, "%s.disk", w->name), "absent", w->disk);
		fx_step(p, PLAN_STEP_SEED, arena_printf(&p->arena, "%s.seed", w->name), "absent", "written");
		p->meta_data = p->vendor_data = arena_strdup(&p->arena, "text");
	}
	fx_step(p, PLAN_STEP_VFIO, "vfio-pci", "absent", "loaded");
	if (w->pf)
		fx_step(p, PLAN_STEP_VF_COUNT, w->pf, "0", "8");
	if (w->pf && w->gpu)
		fx_step(p, PLAN_STEP_POWER, FAKE_PORT, "auto,1", "on,0");
	if (w->gpu)
		fx_step(p, PLAN_STEP_BIND, w->gpu, strcmp(w->gpu, "0000:3b:00.0") ? "nvidia" : "(none)", "vfio-pci");
	if (w->companion)
		fx_step(p, PLAN_STEP_BIND, w->companion, "snd_hda_intel", "vfio-pci");
	for (size_t i = 0; i < p->nvfs; i++)
		fx_step(p, PLAN_STEP_BIND, bdf_text(text, p->vf[i].bdf), "(new)", "vfio-pci");
	for (size_t i = 0; i < p->nvfs; i++)
		fx_step(p, PLAN_STEP_VF, bdf_text(text, p->vf[i].bdf), "(new)", "mac=02:00:00:00:00:01 vlan=7 qos=2 trust=on");
	fx_lends(p, w->scrub);
	if (w->pf && w->gpu) {
		fx_step(p, PLAN_STEP_POWER, w->gpu, "auto,1", "on,0");
		fx_step(p, PLAN_STEP_DEVCTL, w->pf, "0x2820", "0x5830");
		fx_step(p, PLAN_STEP_ACS, FAKE_PORT, "0x1d", "0x5d");
		fx_step(p, PLAN_STEP_ACS, FAKE_PORT_TB, "0x1f", w->blocking ? "0x5f" : "0x5d");
	}
	if (w->partition)
		fx_step(p, PLAN_STEP_PARTITION, w->partition, "inactive", "active");
	fx_step(p, PLAN_STEP_DOMAIN, w->name, "absent", "running");
}

static inline char *fx_xml(struct plan *p)
{
	char *xml = arena_strdup(&p->arena, "<domain> ");

	for (size_t i = 0; i < p->nsteps; i++)
		if (p->step[i].kind == PLAN_STEP_BIND)
			xml = arena_printf(&p->arena, "%s%s ", xml, p->step[i].target);
	return arena_printf(&p->arena, "%s</domain>", xml);
}

static const struct cpuset fx_cpus = { { 0x10c } };

static inline struct plan *fx_plan(const struct fx_want *w)
{
	struct plan *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->generation = 3;
	p->fits = true;
	if (w->gpu)
		p->gpu[p->ngpus++] = test_bdf(w->gpu);
	fx_vfs(p, w);
	p->companion = arena_array(&p->arena, 1, sizeof(*p->companion));
	if (w->companion)
		p->companion[p->ncompanions++] = (struct plan_companion){ test_bdf(w->companion), test_bdf(w->gpu) };
	p->cell = arena_array(&p->arena, 1, sizeof(*p->cell));
	p->cell[p->ncells++] = (struct plan_cell){ .host_node = 0, .memory = 512u << 20, .vcpus = 1, .cpus = &fx_cpus };
	p->step = arena_array(&p->arena, 96, sizeof(*p->step));
	fx_steps(p, w);
	p->domain_xml = fx_xml(p);
	return p;
}

static inline void fx_nap(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = 200 * 1000 }, NULL);
}

/* ---- the daemon ------------------------------------------------------------------------------------- */

static inline void fx_changed(void *self)
{
	struct fx *fx = self;

	fx->changed++;
}

static inline void fx_ended(void *self)
{
	struct fx *fx = self;

	fx->ended++;
}

static inline void fx_open(struct fx *fx)
{
	struct inst_env env = { .store = fx->store, .act = fake_act(fx->machine), .changed = fx_changed, .ended = fx_ended, .self = fx,
				.root = fx->root, .deadlines = fx->deadlines, .workers = fx->workers, .stop_ms = fx->stop_ms, .release = fx->release, .crash = fx->crash,
				.keep_ms = fx->keep_ms, .keep_seconds = fx->keep_seconds };
	struct error err = ERROR_INIT;

	assert_null(fx->m);
	if (inst_manager_new(&fx->m, &env, &err) < 0)
		fail_msg("%s", err.text);
	/* what it found is looked at before the test goes on; unless the machine hangs or the store fails */
	for (int i = 0; i < 500 && !inst_adopted(fx->m); i++)
		fx_nap();
}

static inline void fx_close(struct fx *fx)
{
	fx->m = inst_manager_free(fx->m);
}

static inline struct store *fx_open_store(const struct fx *fx)
{
	struct error err = ERROR_INIT;
	struct store *s = NULL;

	if (store_open(&s, fx->store, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

/* With SQLite itself, as somebody else would; a daemon that runs ends before, and another begins. */
static inline void fx_by_hand(struct fx *fx, const char *sql)
{
	bool runs = fx->m;
	sqlite3 *db;

	fx_close(fx);
	assert_int_equal(sqlite3_open(fx->store, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	if (runs)
		fx_open(fx);
}

static inline void fx_new(struct fx *fx)
{
	*fx = (struct fx){ .machine = fake_new(), .dir = "/dev/shm/velad-test.XXXXXX" };
	if (!mkdtemp(fx->dir)) { /* memory is kinder to thousands of commits */
		(void)snprintf(fx->dir, sizeof(fx->dir), "%s/velad-test.XXXXXX", P_tmpdir);
		assert_non_null(mkdtemp(fx->dir));
	}
	(void)snprintf(fx->store, sizeof(fx->store), "%s/velad.db", fx->dir);
}

static inline int fx_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static inline void fx_done(struct fx *fx)
{
	fx_close(fx);
	assert_int_equal(nftw(fx->dir, fx_unlink, 4, FTW_DEPTH | FTW_PHYS), 0);
	fake_free(fx->machine);
}

static inline int fx_try_create(struct fx *fx, const struct fx_want *w, uint64_t *op, struct error *err)
{
	auto_(plan_free) struct plan *p = fx_plan(w);
	struct plan_request req;
	char json[128], uuid[40];
	int r;

	(void)snprintf(json, sizeof(json), w->gdr ? "{\"name\": \"%s\", \"gpus\": 1, \"vfs\": 1, \"gdr\": \"%s\"}" : "{\"name\": \"%s\"}",
		       w->name, w->gdr);
	(void)snprintf(uuid, sizeof(uuid), "uuid-of-%s", w->name);
	req = test_request(json);
	r = inst_create(fx->m, op, &req, p, uuid, err);
	plan_request_done(&req);
	return r;
}

static inline uint64_t fx_create(struct fx *fx, const struct fx_want *w)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (fx_try_create(fx, w, &op, &err) < 0)
		fail_msg("%s", err.text);
	return op;
}

static inline uint64_t fx_delete(struct fx *fx, const char *name)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (inst_delete(fx->m, &op, name, &err) < 0)
		fail_msg("%s", err.text);
	return op;
}

static inline uint64_t fx_order(struct fx *fx, const char *name, enum inst_order order, unsigned grace)
{
	struct error err = ERROR_INIT;
	uint64_t op = 0;

	if (inst_order(fx->m, &op, name, order, grace, &err) < 0)
		fail_msg("%s", err.text);
	return op;
}

/* ---- looking ---------------------------------------------------------------------------------------- */

static inline const char *fx_string(json_object *o, const char *key)
{
	json_object *v = NULL;

	assert_true(json_object_object_get_ex(o, key, &v));
	return v ? json_object_get_string(v) : NULL;
}

static inline json_object *fx_op(struct fx *fx, uint64_t id)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;

	if (inst_op_json(fx->m, &o, id, &err) < 0)
		fail_msg("%s", err.text);
	return o;
}

/* Waits for the end of an operation; true if it succeeded. */
static inline bool fx_wait(struct fx *fx, uint64_t id)
{
	for (int i = 0; i < 100000;) {
		unsigned ended = fx->ended; /* to look at the store each time would take most of the time of these tests */
		json_object *o = fx_op(fx, id);
		const char *state = fx_string(o, "state");
		bool good = strcmp(state, "succeeded") == 0, bad = strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;

		json_object_put(o);
		if (good || bad)
			return good;
		for (int k = 0; fx->ended == ended && k < 100; k++, i++)
			fx_nap();
	}
	fail_msg("operation %llu does not end", (unsigned long long)id);
	return false;
}

/* The state of an instance; "" if there is none. */
static inline const char *fx_state(struct fx *fx, char buf[32], const char *name)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;
	int r = inst_json(fx->m, &o, name, &err);

	buf[0] = '\0';
	if (r == 0) {
		(void)snprintf(buf, 32, "%s", fx_string(o, "state"));
		json_object_put(o);
	} else {
		assert_int_equal(r, -ENOENT);
		assert_non_null(strstr(err.text, name));
	}
	return buf;
}

static inline void fx_expect_state(struct fx *fx, const char *name, const char *state)
{
	char buf[32];

	assert_string_equal(fx_state(fx, buf, name), state);
}

static inline void fx_await_state(struct fx *fx, const char *name, const char *state)
{
	char buf[32];

	for (int i = 0; i < 100000 && strcmp(fx_state(fx, buf, name), state) != 0; i++)
		fx_nap();
	fx_expect_state(fx, name, state);
}

/* Until the last operation of an instance is of this kind and waits for its next try; what the last one came to. The caller frees. */
static inline char *fx_await_tries(struct fx *fx, const char *name, const char *kind)
{
	for (int i = 0; i < 100000; i++) {
		const struct inst_op_filter newest = { .instance = name, .limit = 1 };
		struct error err = ERROR_INIT;
		json_object *o = NULL, *op, *e = NULL;
		char *said = NULL;

		assert_int_equal(inst_op_list_json(fx->m, &o, &newest, &err), 0);
		op = json_object_array_get_idx(json_object_object_get(o, "operations"), 0);
		if (strcmp(fx_string(op, "kind"), kind) == 0 && fx_string(op, "next_try") && json_object_object_get_ex(op, "error", &e) && e) {
			assert_true(json_object_get_int(json_object_object_get(op, "tries")) > 0);
			said = strdup(fx_string(e, "detail"));
		}
		json_object_put(o);
		if (said)
			return said;
		fx_nap();
	}
	fail_msg("no operation %s of %s is tried again", kind, name);
	return NULL;
}

static inline void fx_await_call(struct fx *fx, const char *call)
{
	for (int i = 0; i < 100000 && !fake_last_is(fx->machine, call); i++)
		fx_nap();
	assert_true(fake_last_is(fx->machine, call));
}

static inline void fx_await_hang(struct fx *fx)
{
	unsigned n = 0;

	for (int i = 0; i < 100000 && n == 0; i++) {
		(void)pthread_mutex_lock(&fx->machine->lock);
		n = fx->machine->hangs;
		(void)pthread_mutex_unlock(&fx->machine->lock);
		fx_nap();
	}
	assert_int_equal(n, 1);
}

/* The worker looks once at a guest that it created; after that it is idle. */
static inline void fx_create_done(struct fx *fx, const struct fx_want *w)
{
	assert_true(fx_wait(fx, fx_create(fx, w)));
	fx_await_call(fx, "domain");
}

/* A daemon that found instances and has looked at them: it makes no more calls by itself. */
static inline void fx_reopen(struct fx *fx)
{
	fx_close(fx);
	fx_open(fx);
	for (int i = 0; i < 100000 && !inst_adopted(fx->m); i++)
		fx_nap();
	assert_true(inst_adopted(fx->m));
}

static inline size_t fx_taken(struct fx *fx)
{
	struct plan_taken *taken;
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	size_t n = 0;

	assert_int_equal(inst_taken(fx->m, &taken, &n, &arena, &err), 0);
	arena_done(&arena);
	return n;
}

/* No function keeps what a tenant left in it. */
static inline void fx_expect_clean(struct fx *fx)
{
	for (size_t i = 0; i < fx->machine->nfns; i++)
		assert_false(fx->machine->fn[i].there && fx->machine->fn[i].dirty);
}

static inline void fx_expect_machine(struct fx *fx, const char *before)
{
	autofree char *now = fake_text(fx->machine);

	assert_string_equal(now, before);
	assert_int_equal(fx->machine->violations, 0);
}

/* The functions in quarantine; the caller puts it. */
static inline json_object *fx_quarantine(struct fx *fx)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL, *list;

	if (inst_quarantine_json(fx->m, &o, NULL, &err) < 0)
		fail_msg("%s", err.text);
	list = json_object_get(json_object_object_get(o, "quarantine"));
	json_object_put(o);
	return list;
}

/* Gives all of them back; how many there were. */
static inline size_t fx_release_all(struct fx *fx)
{
	json_object *list = fx_quarantine(fx);
	size_t n = json_object_array_length(list);

	for (size_t i = 0; i < n; i++) {
		const char *bdf = fx_string(json_object_array_get_idx(list, i), "bdf");
		struct error err = ERROR_INIT;
		uint64_t op = 0;

		if (inst_quarantine_release(fx->m, &op, test_bdf(bdf), NULL, &err) == -ENOENT)
			continue; /* a port that answers again */
		if (err.code || !fx_wait(fx, op))
			fail_msg("%s: %s", bdf, err.text);
	}
	json_object_put(list);
	list = fx_quarantine(fx);
	assert_int_equal(json_object_array_length(list), 0);
	json_object_put(list);
	return n;
}
