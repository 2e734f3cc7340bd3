/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances and operations as JSON, as docs/openapi.json has them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "instance/jobs.h"
#include "instance/manager.h"
#include "instance/store.h"

#define PLAN_BYTES_MAX (16 * 1024 * 1024) /* our own text: far above any plan */

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for an answer");
}

static void add_took(struct json_out *o, const char *key, const struct span *span)
{
	if (span->took > 0)
		json_add_int(o, key, span->took);
	else
		json_add(o, key, NULL);
}

static struct json_object *steps_json(const struct rows_step *step, size_t n, bool backwards, bool spans)
{
	json_object *list = json_object_new_array();
	struct json_out all = { .obj = list, .failed = !list };

	for (size_t i = 0; i < n; i++) {
		const struct rows_step *s = &step[backwards ? n - 1 - i : i];
		struct json_out one = json_out_new();

		json_add_string(&one, "id", plan_step_text(s->kind));
		json_add_string(&one, "target", s->target);
		json_add_string(&one, "from", s->from);
		json_add_string(&one, "to", s->to);
		json_add_string(&one, "state", step_state_text(s->state));
		if (spans) {
			json_add_moment(&one, "started", s->span.began);
			add_took(&one, "duration_us", &s->span);
			add_took(&one, "undo_us", &s->undo);
			if (s->span.limit)
				json_add_uint(&one, "deadline_ms", s->span.limit);
			else
				json_add(&one, "deadline_ms", NULL);
		}
		json_append_out(&all, list, &one);
	}
	return json_finish(&all);
}

struct json_object *json_steps(const struct rows_step *step, size_t n, bool backwards)
{
	return steps_json(step, n, backwards, true);
}

static void add_findings(struct json_out *o, const struct rows_finding *f, size_t n)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		struct json_out one = json_out_new();
		struct arena a = { 0 };

		json_add_string(&one, "rule", f[i].rule);
		json_add_string(&one, "device", f[i].device);
		json_add_string(&one, "text", arena_printf(&a, "%s: %s", f[i].device, f[i].text));
		json_add_time(&one, "first", f[i].first);
		json_add_time(&one, "last", f[i].last);
		json_add_int(&one, "times", f[i].times);
		json_append_out(o, list, &one);
		arena_done(&a);
	}
	json_add(o, "findings", list);
}

static void add_steps(struct json_out *o, json_object *steps)
{
	if (steps)
		json_add(o, "steps", steps);
	else
		o->failed = true;
}

static int parse_own(json_object **ret, const char *text, const char *what, struct error *err)
{
	int r = json_parse(ret, text, strlen(text), PLAN_BYTES_MAX, err);

	return r < 0 ? error_prefix(err, "the store has a damaged %s", what) : 0;
}

int json_plan_xml(char **ret, const char *plan, struct error *err)
{
	auto_(json_object_put) json_object *obj = NULL;
	json_object *xml = NULL;
	int r = parse_own(&obj, plan, "plan", err);

	if (r < 0)
		return r;
	if (!json_object_object_get_ex(obj, "domain_xml", &xml) || !json_object_is_type(xml, json_type_string))
		return error_set(err, -EBADMSG, "the store has a plan without domain XML");
	*ret = strdup(json_object_get_string(xml));
	return *ret ? 0 : no_memory(err);
}

/* What is seen of each function of the guest, into the bundle's objects. */
static void add_seen(struct inst_manager *m, struct json_out *o, json_object *bundle, const char *key)
{
	json_object *list = json_object_object_get(bundle, key);

	for (size_t i = 0; json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++) {
		struct json_out one = { .obj = json_object_array_get_idx(list, i) };
		const char *text = json_object_get_string(json_object_object_get(one.obj, "bdf"));
		struct bdf bdf = BDF_NONE;

		json_add_string(&one, "ats", inst_ats_text(text && bdf_parse(&bdf, text) ? keep_seen(m, bdf) : INST_ATS_UNKNOWN));
		o->failed |= one.failed;
	}
}

static int add_plan(struct inst_manager *m, struct json_out *o, const struct rows_instance *in, struct error *err)
{
	static const struct {
		const char *key, *of; /* of the plan */
	} keys[] = { { "bundle", "bundle" }, { "topology_generation", "generation" }, { "notes", "notes" } };
	auto_(json_object_put) json_object *request = NULL, *plan = NULL;
	int r;

	r = parse_own(&request, in->request, "request", err);
	if (r == 0)
		r = parse_own(&plan, in->plan, "plan", err);
	if (r < 0)
		return r;
	json_add(o, "request", steal(request));
	if (in->state == INST_RUNNING || in->state == INST_DEGRADED) {
		add_seen(m, o, json_object_object_get(plan, "bundle"), "gpus");
		add_seen(m, o, json_object_object_get(plan, "bundle"), "vfs");
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		json_object *v = NULL;

		/* those of older velads have no notes */
		if (!json_object_object_get_ex(plan, keys[i].of, &v) && strcmp(keys[i].of, "notes") == 0)
			json_add(o, keys[i].key, json_object_new_array());
		else
			json_add(o, keys[i].key, json_object_get(v));
	}
	return 0;
}

/* The parts of one instance, as the store has them. */
struct parts {
	struct rows_instance *in;
	struct rows_step     *step;
	struct rows_finding  *finding;
	size_t                n, nfindings;
};

/* What is run on functions that come back. */
static void add_scrub(const struct inst_manager *m, struct json_out *o)
{
	json_add_string(o, "scrub", m->env.release.scrub ? m->env.release.scrub : "not configured");
}

static int fill_instance(struct inst_manager *m, struct json_out *o, const struct parts *p, struct error *err)
{
	const struct rows_instance *in = p->in;
	int r;

	json_add_string(o, "name", in->name);
	json_add_string(o, "uuid", in->uuid);
	json_add_string(o, "state", inst_state_text(in->state));
	json_add_string(o, "error", in->error);
	json_add_time(o, "created", in->created);
	json_add_uint(o, "generation", in->generation);
	add_scrub(m, o);
	r = add_plan(m, o, in, err);
	json_add_uint(o, "operation", in->operation);
	add_steps(o, steps_json(p->step, p->n, false, false));
	add_findings(o, p->finding, p->nfindings);
	return r;
}

/* Hands o over as *ret, unless r says that it was not filled. */
static int finish(json_object **ret, struct json_out *o, int r, struct error *err)
{
	json_object *obj;

	if (r < 0)
		o->failed = true;
	obj = json_finish(o);
	if (r < 0)
		return r;
	if (!obj)
		return no_memory(err);
	*ret = obj;
	return 0;
}

int json_instance(struct inst_manager *m, struct store_tx *tx, json_object **ret, const char *name, struct arena *arena, struct error *err)
{
	struct parts p = { 0 };
	struct json_out o;
	int r;

	r = rows_instance_find(tx, &p.in, name, arena, err);
	if (r == 0 && (!p.in || rows_is_holder(name)))
		return error_set(err, -ENOENT, "there is no instance %s", name);
	if (r == 0)
		r = rows_steps(tx, &p.step, &p.n, name, arena, err);
	if (r == 0)
		r = rows_findings(tx, &p.finding, &p.nfindings, name, arena, err);
	if (r < 0)
		return r;
	o = json_out_new();
	r = fill_instance(m, &o, &p, err);
	return finish(ret, &o, r, err);
}

int inst_json(struct inst_manager *m, struct json_object **ret, const char *name, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	int r;

	r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = json_instance(m, tx, ret, name, &arena, err);
	arena_done(&arena);
	return r;
}

/* The plan of an instance, as it is stored; the caller puts it. */
/* request NULL: not wanted */
static int stored_plan(struct inst_manager *m, json_object **ret, json_object **request, const char *name, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct rows_instance *in = NULL;
	struct arena arena = { 0 };
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = rows_instance_find(tx, &in, name, &arena, err);
	if (r == 0 && (!in || rows_is_holder(name)))
		r = error_set(err, -ENOENT, "there is no instance %s", name);
	if (r == 0)
		r = parse_own(ret, in->plan, "plan", err);
	if (r == 0 && request)
		r = parse_own(request, in->request, "request", err);
	arena_done(&arena);
	return r;
}

int inst_nccl_json(struct inst_manager *m, struct json_object **ret, const char *name, struct error *err)
{
	auto_(json_object_put) json_object *plan = NULL;
	struct json_out o;
	json_object *xml;
	int r = stored_plan(m, &plan, NULL, name, err);

	if (r < 0)
		return r;
	if (!json_object_object_get_ex(plan, "nccl_topology", &xml) || !xml)
		return error_set(err, -ENOENT, "instance %s has no GPUs, and so no topology for NCCL", name);
	o = json_out_new();
	json_add_string(&o, "name", name);
	json_add(&o, "xml", json_object_get(xml));
	return finish(ret, &o, 0, err);
}

static void set_serial(json_object *list, const char *bdf, const char *serial)
{
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *e = json_object_array_get_idx(list, i), *at = NULL;

		(void)json_object_object_get_ex(e, "bdf", &at);
		if (!bdf || (at && strcmp(json_object_get_string(at), bdf) == 0)) /* without memory it is unknown */
			(void)json_object_object_add(e, "serial", serial ? json_object_new_string(serial) : NULL);
	}
}

/* As they were when the functions were lent: the second word of that (gate.c, look_text()); "-" there is none. */
static int add_serials(struct inst_manager *m, json_object *gpus, json_object *vfs, const char *name, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_begin(&tx, m->store, err);

	set_serial(gpus, NULL, NULL);
	set_serial(vfs, NULL, NULL);
	if (r == 0)
		r = store_query(tx, &q, "SELECT step.target, original.value FROM step JOIN original USING (kind, target)"
					" WHERE step.instance = ? AND step.kind = 'lend'", ARGS(ARG_TEXT(name)), err);
	while (r == 0 && (r = store_next(q, err)) > 0) {
		char serial[VPD_SERIAL_MAX];

		if (sscanf(store_text(q, 1), "%*s %55s", serial) == 1 && strcmp(serial, "-") != 0) {
			set_serial(gpus, store_text(q, 0), serial);
			set_serial(vfs, store_text(q, 0), serial);
		}
		r = 0;
	}
	return r;
}

static void add_members(struct json_out *o, json_object *from, const char *const *key)
{
	json_object *member;

	for (; *key; key++)
		if (json_object_object_get_ex(from, *key, &member))
			json_add(o, *key, json_object_get(member));
}

/* Where it is changes nothing of the plan: the host is asked now. */
static void add_tenant(struct json_out *o, json_object *map, const struct inst_where *where, const char *tenant)
{
	struct json_out view = json_out_new();
	json_object *stored = NULL;
	char id[33];

	(void)json_object_object_get_ex(map, "tenant", &stored);
	json_add_string(&view, "rack", where->tenant_rack);
	json_add_string(&view, "host", where->tenant_host(id, tenant));
	add_members(&view, stored, (const char *const[]){ "gpus", "vfs", NULL });
	json_add_out(o, "tenant", &view);
}

int inst_rank_json(struct inst_manager *m, struct json_object **ret, const char *name, const struct inst_where *where,
		   struct error *err)
{
	auto_(json_object_put) json_object *plan = NULL, *request = NULL;
	json_object *map, *tenant = NULL, *gpus = NULL, *vfs = NULL;
	struct json_out o;
	int r = stored_plan(m, &plan, &request, name, err);

	if (r < 0)
		return r;
	if (!json_object_object_get_ex(plan, "rank_map", &map) || !map)
		return error_set(err, -ENOENT, "instance %s was made by a velad that had no rank maps", name);
	if (json_object_object_get_ex(map, "gpus", &gpus) && json_object_object_get_ex(map, "vfs", &vfs))
		r = add_serials(m, gpus, vfs, name, err);
	if (r < 0)
		return r;
	(void)json_object_object_get_ex(request, "tenant", &tenant);
	o = json_out_new();
	json_add_string(&o, "name", name);
	json_add_string(&o, "rack", where->rack);
	json_add_string(&o, "host", where->host);
	add_members(&o, map, (const char *const[]){ "gpus", "vfs", NULL });
	add_tenant(&o, map, where, tenant ? json_object_get_string(tenant) : "");
	return finish(ret, &o, 0, err);
}

/* Of one that runs: further than the store's. NULL: it does not run, or no memory. */
static json_object *live_steps(struct inst_manager *m, const struct op *op)
{
	json_object *steps = NULL;
	const struct job *j;

	(void)pthread_mutex_lock(&m->lock);
	j = pool_find(m, op->id);
	if (j)
		steps = json_steps(j->steps.step, j->steps.n, job_kinds[op->kind].backwards);
	(void)pthread_mutex_unlock(&m->lock);
	return steps;
}

/* A finished operation has its steps with it: the instance may be gone. */
static int op_steps(struct inst_manager *m, struct store_tx *tx, json_object **ret, const struct op *op, struct arena *arena,
		    struct error *err)
{
	struct rows_step *step = NULL;
	size_t n = 0;
	int r;

	if (op->steps)
		return parse_own(ret, op->steps, "operation", err);
	*ret = live_steps(m, op);
	if (*ret)
		return 0;
	r = rows_steps(tx, &step, &n, op->instance, arena, err);
	if (r < 0)
		return r;
	*ret = json_steps(step, n, job_kinds[op->kind].backwards);
	return *ret ? 0 : no_memory(err);
}

static void add_error(struct json_out *o, const struct op *op)
{
	struct json_out e;

	if (op->state != OP_FAILED && op->state != OP_CANCELLED && (op->finished || !op->tries)) {
		json_add(o, "error", NULL);
		return;
	}
	e = json_out_new();
	json_add_string(&e, "code", error_name(op->code));
	json_add_string(&e, "detail", op->detail);
	json_add_out(o, "error", &e);
}

/* How many steps are where the operation wants them, and how many there are. */
static void add_progress(struct json_out *o, json_object *steps, enum op_kind kind)
{
	const char *goal = step_state_text(job_kinds[kind].backwards ? STEP_REVERTED : STEP_DONE);
	size_t n = json_object_array_length(steps), done = 0;
	struct json_out p = json_out_new();

	for (size_t i = 0; i < n; i++) {
		json_object *state = json_object_object_get(json_object_array_get_idx(steps, i), "state");

		done += state && strcmp(json_object_get_string(state), goal) == 0;
	}
	json_add_uint(&p, "done", done);
	json_add_uint(&p, "total", n);
	json_add_out(o, "progress", &p);
}

static int op_json(struct inst_manager *m, struct store_tx *tx, json_object **ret, const struct op *op, bool with_steps,
		   struct arena *arena, struct error *err)
{
	json_object *steps = NULL;
	struct json_out o;
	int r = op_steps(m, tx, &steps, op, arena, err);

	if (r < 0)
		return r;
	o = json_out_new();
	json_add_uint(&o, "id", op->id);
	json_add_string(&o, "kind", op_kind_text(op->kind));
	json_add_string(&o, "instance", strpbrk(op->instance, " :") ? NULL : op->instance); /* a holder, or a BDF */
	json_add_string(&o, "state", op_state_text(op->state));
	json_add_time(&o, "created", op->created);
	json_add_moment(&o, "started", op->span.began);
	json_add_time(&o, "finished", op->finished);
	add_took(&o, "duration_us", &op->span);
	add_error(&o, op);
	json_add_uint(&o, "tries", op->tries);
	json_add_moment(&o, "next_try", op->finished ? 0 : op->due);
	add_progress(&o, steps, op->kind);
	if (with_steps) {
		add_scrub(m, &o);
		add_steps(&o, json_object_get(steps));
	}
	json_object_put(steps);
	return finish(ret, &o, 0, err);
}

static int find_op(struct store_tx *tx, struct op **ret, uint64_t id, struct arena *arena, struct error *err)
{
	struct op *op = NULL;
	int r = id > INT64_MAX ? 0 : op_find(tx, &op, id, arena, err);

	if (r == 0 && !op)
		r = error_set(err, -ENOENT, "there is no operation %llu (any more: old ones are dropped)", (unsigned long long)id);
	*ret = op;
	return r;
}

int inst_op_ended(struct inst_manager *m, bool *ret, uint64_t id, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	struct op *op;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = find_op(tx, &op, id, &arena, err);
	if (r == 0)
		*ret = op->finished;
	arena_done(&arena);
	return r;
}

static int op_list_json(struct inst_manager *m, struct store_tx *tx, json_object **ret, const struct op_filter *f,
			struct arena *arena, struct error *err)
{
	json_object *list = json_object_new_array();
	struct json_out o = json_out_new();
	struct op *op = NULL;
	size_t n = 0;
	int r = op_list(tx, &op, &n, f, arena, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		json_object *one = NULL;

		r = op_json(m, tx, &one, &op[i], false, arena, err);
		json_append(&o, list, one);
	}
	o.failed = o.failed || !list;
	json_add(&o, "operations", list);
	if (n == f->limit)
		json_add_uint(&o, "next", op[n - 1].id);
	else
		json_add(&o, "next", NULL);
	return finish(ret, &o, r, err);
}

int inst_op_list_json(struct inst_manager *m, struct json_object **ret, const struct inst_op_filter *f, struct error *err)
{
	const struct op_filter filter = { .instance = f->instance, .state = f->state, .limit = f->limit,
					  .before = f->before && f->before < INT64_MAX ? f->before : INT64_MAX };
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	int r;

	if (f->state && !op_state_known(f->state))
		return error_set(err, -EINVAL, "\"%.40s\" is no state of an operation; they are " OP_STATES, f->state);
	r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = op_list_json(m, tx, ret, &filter, &arena, err);
	arena_done(&arena);
	return r;
}

int inst_op_json(struct inst_manager *m, struct json_object **ret, uint64_t op, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	struct op *found;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = find_op(tx, &found, op, &arena, err);
	if (r == 0)
		r = op_json(m, tx, ret, found, true, &arena, err);
	arena_done(&arena);
	return r;
}
