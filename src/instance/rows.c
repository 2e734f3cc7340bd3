/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SQL for instances, devices, steps and originals; operations are in op.c. Enums are stored by name, so
 * that a person with sqlite3(1) can read the file and a new state cannot renumber old ones. */
#include "instance/rows.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strtab.h"
#include "instance/quarantine.h"
#include "instance/state.h"
#include "instance/store.h"
#include "plan/acs.h"
#include "plan/settings.h"

#define STEP_COLUMNS "step.seq, step.kind, step.target, step.was, step.wanted, step.state"

static const char *const step_states[STEP_STATE_MAX_] = {
	[STEP_PENDING] = "pending",
	[STEP_BEGUN] = "begun",
	[STEP_DONE] = "done",
	[STEP_REVERTED] = "reverted",
	[STEP_FAILED] = "failed",
};

const char *step_state_text(enum step_state s)
{
	return strtab_text(step_states, STEP_STATE_MAX_, s);
}

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for rows of the store");
}

static int add_cells(struct store_tx *tx, const char *name, struct error *err)
{
	return store_exec(tx, STORE_CELLS("plan") " WHERE name = ?", ARGS(ARG_TEXT(name)), err);
}

int rows_instance_add(struct store_tx *tx, const struct rows_instance *in, struct error *err)
{
	int r = store_exec(tx, "INSERT INTO instance(name, uuid, state, created, request, plan, operation)"
			      " VALUES(?, ?, ?, ?, ?, ?, ?)",
			   ARGS(ARG_TEXT(in->name), ARG_TEXT(in->uuid), ARG_TEXT(inst_state_text(in->state)),
				ARG_INT(in->created), ARG_TEXT(in->request), ARG_TEXT(in->plan),
				ARG_INT(in->operation)),
			   err);
	return r < 0 ? r : add_cells(tx, in->name, err);
}

int rows_instance_plan(struct store_tx *tx, const char *name, const char *plan, struct error *err)
{
	int r = store_exec(tx, "UPDATE instance SET plan = ? WHERE name = ?", ARGS(ARG_TEXT(plan), ARG_TEXT(name)), err);

	if (r == 0)
		r = store_exec(tx, "DELETE FROM cell WHERE instance = ?", ARGS(ARG_TEXT(name)), err);
	return r < 0 ? r : add_cells(tx, name, err);
}

static int read_instance(struct rows_instance *ret, struct store_rows *q, struct arena *arena,
			 struct error *err)
{
	bool error = !store_null(q, 3);
	int state = inst_state_parse(store_text(q, 2));

	if (state < 0)
		return error_set(err, -EBADMSG, "the store has instance %s in the unknown state \"%s\"",
				 store_text(q, 0), store_text(q, 2));
	*ret = (struct rows_instance){
		.name = arena_strdup(arena, store_text(q, 0)),
		.uuid = arena_strdup(arena, store_text(q, 1)),
		.state = (enum inst_state)state,
		.error = error ? arena_strdup(arena, store_text(q, 3)) : NULL,
		.created = store_int(q, 4),
		.request = arena_strdup(arena, store_text(q, 5)),
		.plan = arena_strdup(arena, store_text(q, 6)),
		.operation = (uint64_t)store_int(q, 7),
		.generation = (uint64_t)store_int(q, 8),
		.domain = arena_strdup(arena, store_text(q, 9)),
		.boot = arena_strdup(arena, store_text(q, 10)),
	};
	if (!ret->name || !ret->uuid || !ret->domain || !ret->boot || (error && !ret->error) || !ret->request || !ret->plan)
		return no_memory(err);
	return 0;
}

static int find_instance(struct store_tx *tx, struct rows_instance **ret, const char *where, const char *name, struct arena *arena,
			 struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct rows_instance *in;
	int r;

	r = store_query(tx, &q, where, ARGS(ARG_TEXT(name)), err);
	if (r == 0)
		r = store_next(q, err);
	if (r <= 0) {
		if (r == 0)
			*ret = NULL;
		return r;
	}
	in = arena_alloc(arena, sizeof(*in));
	if (!in)
		return no_memory(err);
	r = read_instance(in, q, arena, err);
	if (r == 0)
		*ret = in;
	return r;
}

#define SELECT_INSTANCE "SELECT name, uuid, state, error, created, request, plan, operation, generation, coalesce(domain, name), boot" \
			" FROM instance WHERE "

int rows_instance_find(struct store_tx *tx, struct rows_instance **ret, const char *name, struct arena *arena, struct error *err)
{
	return find_instance(tx, ret, SELECT_INSTANCE "name = ?", name, arena, err);
}

int rows_instance_of(struct store_tx *tx, struct rows_instance **ret, const char *domain, struct arena *arena, struct error *err)
{
	return find_instance(tx, ret, SELECT_INSTANCE "coalesce(domain, name) = ?", domain, arena, err);
}

int rows_instance_boot(struct store_tx *tx, const char *name, const char *boot, struct error *err)
{
	return store_exec(tx, "UPDATE instance SET boot = ? WHERE name = ?", ARGS(ARG_TEXT(boot), ARG_TEXT(name)), err);
}

int rows_instance_domain(struct store_tx *tx, const char *name, const char *domain, struct error *err)
{
	return store_exec(tx, "UPDATE instance SET domain = nullif(?, name) WHERE name = ?", ARGS(ARG_TEXT(domain), ARG_TEXT(name)), err);
}

/* The number of rows and then the rows come from one transaction: they agree. */
static int count(struct store_tx *tx, size_t *ret, const char *sql, const struct store_arg *args,
		 struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r;

	r = store_query(tx, &q, sql, args, err);
	if (r == 0)
		r = store_next(q, err);
	if (r > 0)
		*ret = (size_t)store_int(q, 0);
	return r < 0 ? r : 0;
}

bool rows_is_holder(const char *name)
{
	return strchr(name, ' ');
}

static int names_of(struct store_tx *tx, const char ***ret, size_t *n, const char *sql, const struct store_arg *args, struct arena *arena,
		    struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	const char **names;
	size_t max = 0, i = 0;
	int r;

	r = count(tx, &max, "SELECT count(*) FROM instance", NO_ARGS, err);
	if (r == 0)
		r = store_query(tx, &q, sql, args, err);
	if (r < 0)
		return r;
	names = arena_array(arena, max + 1, sizeof(*names));
	if (!names)
		return no_memory(err);
	while (i < max && (r = store_next(q, err)) > 0) {
		names[i] = arena_strdup(arena, store_text(q, 0));
		if (!names[i++])
			return no_memory(err);
	}
	if (r < 0)
		return r;
	*ret = names;
	*n = i;
	return 0;
}

int rows_instance_names(struct store_tx *tx, const char ***ret, size_t *n, const struct inst_filter *f, struct arena *arena,
			struct error *err)
{
	return names_of(tx, ret, n, "SELECT name FROM instance WHERE instr(name, ' ') = 0 AND (?1 IS NULL OR state = ?1)"
				       " AND (?2 IS NULL OR EXISTS (SELECT 1 FROM json_each(request, '$.tags')"
				       " WHERE key = ?2 AND (?3 IS NULL OR value = ?3)))"
				       " AND (?4 IS NULL OR name > ?4) ORDER BY name LIMIT ?5",
			   ARGS(ARG_TEXT(f->state), ARG_TEXT(f->tag), ARG_TEXT(f->value), ARG_TEXT(f->after),
				ARG_INT(f->limit ? (int64_t)f->limit : -1)), arena, err);
}

int rows_all_names(struct store_tx *tx, const char ***ret, size_t *n, struct arena *arena, struct error *err)
{
	return names_of(tx, ret, n, "SELECT name FROM instance ORDER BY name", NO_ARGS, arena, err);
}

int rows_holder_names(struct store_tx *tx, const char ***ret, size_t *n, const char *what, struct arena *arena, struct error *err)
{
	return names_of(tx, ret, n, "SELECT name FROM instance WHERE substr(name, 1, length(?1) + 1) = ?1 || ' ' ORDER BY operation DESC",
			ARGS(ARG_TEXT(what)), arena, err);
}

int rows_instance_error(struct store_tx *tx, const char *name, const char *error, struct error *err)
{
	return store_exec(tx, "UPDATE instance SET error = ? WHERE name = ?", ARGS(ARG_TEXT(error), ARG_TEXT(name)), err);
}

int rows_instance_operation(struct store_tx *tx, const char *name, uint64_t op, struct error *err)
{
	return store_exec(tx, "UPDATE instance SET operation = ? WHERE name = ?",
			  ARGS(ARG_INT(op), ARG_TEXT(name)), err);
}

#define SELECT_HOLDERS "SELECT bdf, 'instance ' || instance FROM device UNION ALL SELECT bdf, 'domain ' || domain FROM foreign_device"

int rows_device_add(struct store_tx *tx, struct bdf bdf, const char *name, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	char text[BDF_TEXT_MAX];
	int r;

	/* the plan has looked at them; meanwhile they may have changed */
	r = store_query(tx, &q, "SELECT 'held by instance ' || instance FROM device WHERE bdf = ?1"
				" UNION ALL SELECT 'held by domain ' || domain FROM foreign_device WHERE bdf = ?1"
				" UNION ALL SELECT 'in quarantine: ' || reason FROM quarantine WHERE bdf = ?1 AND NOT away",
			ARGS(ARG_TEXT(bdf_text(text, bdf))), err);
	if (r == 0)
		r = store_next(q, err);
	if (r < 0)
		return r;
	if (r > 0)
		return error_set(err, -EBUSY, "%s is %s", text, store_text(q, 0));
	r = store_exec(tx, "INSERT INTO device(bdf, instance) VALUES(?, ?)", ARGS(ARG_TEXT(text), ARG_TEXT(name)), err);
	return r < 0 ? r : wear_add(tx, bdf, err);
}

int rows_devices_identify(struct store_tx *tx, const char *name, struct error *err)
{
	return store_exec(tx, STORE_IDENTIFY " WHERE instance = ?", ARGS(ARG_TEXT(name)), err);
}

int rows_devices_drop(struct store_tx *tx, const char *name, struct error *err)
{
	return store_exec(tx, "DELETE FROM device WHERE instance = ?", ARGS(ARG_TEXT(name)), err);
}

int rows_devices(struct store_tx *tx, struct plan_taken **ret, size_t *n, struct arena *arena,
		 struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct plan_taken *taken;
	size_t max = 0, i = 0;
	int r;

	r = count(tx, &max, "SELECT (SELECT count(*) FROM device) + (SELECT count(*) FROM foreign_device)", NO_ARGS, err);
	if (r == 0)
		r = store_query(tx, &q, SELECT_HOLDERS " ORDER BY bdf", NO_ARGS, err);
	if (r < 0)
		return r;
	taken = arena_array(arena, max + 1, sizeof(*taken));
	if (!taken)
		return no_memory(err);
	for (; i < max && (r = store_next(q, err)) > 0; i++) {
		if (!bdf_parse(&taken[i].bdf, store_text(q, 0)))
			return error_set(err, -EBADMSG, "the store has a device \"%s\", which is no BDF", store_text(q, 0));
		taken[i].owner = arena_strdup(arena, store_text(q, 1));
		if (!taken[i].owner)
			return no_memory(err);
	}
	if (r < 0)
		return r;
	*ret = taken;
	*n = i;
	return 0;
}

int rows_step_add(struct store_tx *tx, const char *name, const struct rows_step *s, struct error *err)
{
	return store_exec(tx, "INSERT INTO step(instance, seq, kind, target, was, wanted, state)"
			      " VALUES(?, ?, ?, ?, ?, ?, ?)",
			  ARGS(ARG_TEXT(name), ARG_INT(s->seq), ARG_TEXT(plan_step_text(s->kind)),
			       ARG_TEXT(s->target), ARG_TEXT(s->from), ARG_TEXT(s->to),
			       ARG_TEXT(step_state_text(s->state))),
			  err);
}

/* From a row that begins with STEP_COLUMNS. */
static int read_step(struct rows_step *ret, struct store_rows *q, struct arena *arena, struct error *err)
{
	int kind = plan_step_parse(store_text(q, 1));
	int state = strtab_find(step_states, STEP_STATE_MAX_, store_text(q, 5));

	if (kind < 0 || state < 0)
		return error_set(err, -EBADMSG, "the store has a step %s of %s in state %s, which is unknown",
				 store_text(q, 1), store_text(q, 2), store_text(q, 5));
	*ret = (struct rows_step){
		.seq = store_int(q, 0),
		.kind = (enum plan_step_kind)kind,
		.target = arena_strdup(arena, store_text(q, 2)),
		.bdf = BDF_NONE,
		.from = arena_strdup(arena, store_text(q, 3)),
		.to = arena_strdup(arena, store_text(q, 4)),
		.state = (enum step_state)state,
	};
	if (!ret->target || !ret->from || !ret->to)
		return no_memory(err);
	if (plan_step_of_function(ret->kind) && !bdf_parse(&ret->bdf, ret->target))
		return error_set(err, -EBADMSG, "the store has a step %s of \"%s\", which is no BDF",
				 store_text(q, 1), ret->target);
	return 0;
}

int rows_steps(struct store_tx *tx, struct rows_step **ret, size_t *n, const char *name,
	       struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	struct rows_step *steps;
	size_t max = 0, i = 0;
	int r;

	r = count(tx, &max, "SELECT count(*) FROM step WHERE instance = ?", ARGS(ARG_TEXT(name)), err);
	if (r == 0)
		r = store_query(tx, &q, "SELECT " STEP_COLUMNS " FROM step WHERE instance = ? ORDER BY seq",
				ARGS(ARG_TEXT(name)), err);
	if (r < 0)
		return r;
	steps = arena_array(arena, max + 1, sizeof(*steps));
	if (!steps)
		return no_memory(err);
	for (; i < max && (r = store_next(q, err)) > 0; i++) {
		int bad = read_step(&steps[i], q, arena, err);

		if (bad < 0)
			return bad;
	}
	if (r < 0)
		return r;
	*ret = steps;
	*n = i;
	return 0;
}

int rows_step_set(struct store_tx *tx, const char *name, int64_t seq, enum step_state state,
		  const char *old, struct error *err)
{
	return store_exec(tx, "UPDATE step SET state = ?, old = coalesce(?, old) WHERE instance = ? AND seq = ?",
			  ARGS(ARG_TEXT(step_state_text(state)), ARG_TEXT(old), ARG_TEXT(name), ARG_INT(seq)),
			  err);
}

#define OTHERS " FROM step JOIN instance ON instance.name = step.instance" \
	       " WHERE step.kind = ? AND step.target = ? AND instance.name <> ? AND " ROWS_STEP_HOLDS

int rows_step_others(struct store_tx *tx, const char ***ret, size_t *n, const char *name, const struct rows_step *s,
		     struct arena *arena, struct error *err)
{
	const struct store_arg *args = ARGS(ARG_TEXT(plan_step_text(s->kind)), ARG_TEXT(s->target), ARG_TEXT(name));
	auto_(store_query_free) struct store_rows *q = NULL;
	size_t max = 0, i = 0;
	const char **to;
	int r = count(tx, &max, "SELECT count(*)" OTHERS, args, err);

	if (r == 0)
		r = store_query(tx, &q, "SELECT step.wanted" OTHERS, args, err);
	if (r < 0)
		return r;
	to = arena_array(arena, max, sizeof(*to));
	if (!to)
		return no_memory(err);
	for (; i < max && (r = store_next(q, err)) > 0; i++) {
		to[i] = arena_strdup(arena, store_text(q, 0));
		if (!to[i])
			return no_memory(err);
	}
	*ret = to;
	*n = i;
	return r < 0 ? r : 0;
}

int rows_steps_unkept(struct store_tx *tx, bool *ret, const char *name, const struct rows_step *step, size_t n, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	int r = store_query(tx, &q, "SELECT seq FROM step WHERE instance = ? AND NOT EXISTS(SELECT 1 FROM original WHERE original.kind = step.kind"
				    " AND original.target = step.target)", ARGS(ARG_TEXT(name)), err);

	for (size_t i = 0; i < n; i++)
		ret[i] = false;
	while (r == 0 && (r = store_next(q, err)) > 0) {
		for (size_t i = 0; i < n; i++)
			ret[i] = ret[i] || step[i].seq == store_int(q, 0);
		r = 0;
	}
	return r;
}

int rows_original_keep(struct store_tx *tx, const struct rows_step *s, const char *value, struct error *err)
{
	return store_exec(tx, "INSERT INTO original(kind, target, value) VALUES(?, ?, ?) ON CONFLICT DO NOTHING",
			  ARGS(ARG_TEXT(plan_step_text(s->kind)), ARG_TEXT(s->target), ARG_TEXT(value)), err);
}

int rows_original_find(struct store_tx *tx, const char **ret, const struct rows_step *s,
		       struct arena *arena, struct error *err)
{
	auto_(store_query_free) struct store_rows *q = NULL;
	const char *value = NULL;
	int r;

	r = store_query(tx, &q, "SELECT value FROM original WHERE kind = ? AND target = ?",
			ARGS(ARG_TEXT(plan_step_text(s->kind)), ARG_TEXT(s->target)), err);
	if (r == 0)
		r = store_next(q, err);
	if (r < 0)
		return r;
	if (r > 0) {
		value = arena_strdup(arena, store_text(q, 0));
		if (!value)
			return no_memory(err);
	}
	*ret = value;
	return 0;
}

int rows_originals_acs(struct store_tx *tx, struct plan_acs_held **ret, size_t *n, struct arena *arena, struct error *err)
{
	const char *kind = plan_step_text(PLAN_STEP_ACS);
	auto_(store_query_free) struct store_rows *q = NULL;
	struct plan_acs_held *held;
	size_t max = 0, i = 0;
	uint64_t was;
	int r;

	r = count(tx, &max, "SELECT count(*) FROM original WHERE kind = ?", ARGS(ARG_TEXT(kind)), err);
	if (r == 0)
		r = store_query(tx, &q, "SELECT target, value FROM original WHERE kind = ? ORDER BY target",
				ARGS(ARG_TEXT(kind)), err);
	if (r < 0)
		return r;
	held = arena_array(arena, max, sizeof(*held));
	if (!held)
		return no_memory(err);
	for (; i < max && (r = store_next(q, err)) > 0; i++) {
		if (!bdf_parse(&held[i].port, store_text(q, 0)) || parse_uint(&was, store_text(q, 1), 16, UINT16_MAX) < 0)
			return error_set(err, -EBADMSG, "the store has \"%s\" as original ACS control of \"%s\"", store_text(q, 1),
					 store_text(q, 0));
		held[i].was = (uint16_t)was;
	}
	*ret = held;
	*n = i;
	return r < 0 ? r : 0;
}

int rows_originals_settings(struct store_tx *tx, struct plan_settings_held **ret, size_t *n, struct arena *arena,
			    struct error *err)
{
#define SETTINGS " FROM original WHERE (kind = ? OR kind = ? OR kind = ?)" /* IN would make a table of the three */
	const struct store_arg *args = ARGS(ARG_TEXT(plan_step_text(PLAN_STEP_POWER)), ARG_TEXT(plan_step_text(PLAN_STEP_DEVCTL)),
					    ARG_TEXT(plan_step_text(PLAN_STEP_DEVCTL2)));
	auto_(store_query_free) struct store_rows *q = NULL;
	struct plan_settings_held *held;
	size_t max = 0, i = 0;
	int r;

	r = count(tx, &max, "SELECT count(*)" SETTINGS, args, err);
	if (r == 0)
		r = store_query(tx, &q, "SELECT kind, target" SETTINGS " ORDER BY kind, target", args, err);
	if (r < 0)
		return r;
	held = arena_array(arena, max, sizeof(*held));
	if (!held)
		return no_memory(err);
	for (; i < max && (r = store_next(q, err)) > 0; i++) {
		held[i].kind = (enum plan_step_kind)plan_step_parse(store_text(q, 0)); /* one of three */
		if (!bdf_parse(&held[i].bdf, store_text(q, 1)))
			return error_set(err, -EBADMSG, "the store has an original %s of \"%s\", which is no BDF", store_text(q, 0),
					 store_text(q, 1));
	}
	*ret = held;
	*n = i;
	return r < 0 ? r : 0;
}

int rows_original_drop(struct store_tx *tx, const struct rows_step *s, struct error *err)
{
	return store_exec(tx, "DELETE FROM original WHERE kind = ? AND target = ?",
			  ARGS(ARG_TEXT(plan_step_text(s->kind)), ARG_TEXT(s->target)), err);
}
