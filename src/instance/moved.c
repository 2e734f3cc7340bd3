/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of the bundle and of the rank map. What depends on the place, and was found out when it was planned, is not known any more. */
#include "instance/moved.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "instance/reconcile.h"
#include "instance/rows.h"
#include "instance/store.h"

#define PLANNED_AT "planned_at"

struct moves {
	const char                      *instance;
	const struct reconcile_decision *d;
	size_t                           n;
	bool                             any, failed;
};

static const struct reconcile_decision *move_of(const struct moves *m, const char *text)
{
	struct bdf bdf;

	for (size_t i = 0; i < m->n && text && bdf_parse(&bdf, text); i++)
		if (m->d[i].kind == RECONCILE_MOVE && strcmp(m->d[i].instance, m->instance) == 0 && bdf_eq(m->d[i].bdf, bdf))
			return &m->d[i];
	return NULL;
}

static const char *text_of(json_object *o, const char *key)
{
	json_object *v = json_object_object_get(o, key);

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

static void set(struct moves *m, json_object *o, const char *key, struct bdf bdf)
{
	char text[BDF_TEXT_MAX];
	json_object *v = json_object_new_string(bdf_text(text, bdf));

	m->failed = m->failed || !v || json_object_object_add(o, key, v) < 0;
}

/* "gpu" of a VF, "of" of a companion */
static void follow(struct moves *m, json_object *o, const char *key)
{
	const struct reconcile_decision *d = move_of(m, text_of(o, key));

	if (d)
		set(m, o, key, d->to);
}

static void forget(struct moves *m, json_object *o, const char *key)
{
	if (json_object_object_get_ex(o, key, NULL))
		m->failed = m->failed || json_object_object_add(o, key, NULL) < 0;
}

static void show_one(struct moves *m, json_object *o, bool of_bundle)
{
	static const char *const of_place[] = { "numa_node", "path", "slot", "switch", "rail", "module" };
	const struct reconcile_decision *d = move_of(m, text_of(o, "bdf"));

	follow(m, o, "gpu");
	follow(m, o, "of");
	if (!d)
		return;
	m->any = true;
	if (of_bundle && !text_of(o, PLANNED_AT))
		set(m, o, PLANNED_AT, d->bdf);
	set(m, o, "bdf", d->to);
	if (!bdf_is_none(d->pf) && text_of(o, "pf"))
		set(m, o, "pf", d->pf);
	for (size_t i = 0; i < ARRAY_SIZE(of_place); i++)
		forget(m, o, of_place[i]);
}

static void show_all(struct moves *m, json_object *of, bool of_bundle)
{
	static const char *const lists[] = { "gpus", "vfs", "companions", "extras" };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		json_object *list = json_object_object_get(of, lists[i]);

		for (size_t k = 0; json_object_is_type(list, json_type_array) && k < json_object_array_length(list); k++)
			show_one(m, json_object_array_get_idx(list, k), of_bundle);
	}
}

static int write_plan(struct store_tx *tx, const char *instance, json_object *plan, struct error *err)
{
	const char *text = json_text(plan);

	return !text ? error_set(err, -ENOMEM, "no memory for the plan of instance %s", instance) :
		       rows_instance_plan(tx, instance, text, err);
}

/* A plan that cannot be read is said to be damaged by who needs it. */
int moved_show(struct store_tx *tx, const char *instance, const struct reconcile_decision *d, size_t n, struct error *err)
{
	struct moves m = { .instance = instance, .d = d, .n = n };
	auto_(json_object_put) json_object *plan = NULL;
	struct rows_instance *in = NULL;
	struct error damaged = ERROR_INIT;
	json_object *bundle;
	struct arena arena = { 0 };
	int r = rows_instance_find(tx, &in, instance, &arena, err);

	if (r == 0 && in && json_parse(&plan, in->plan, strlen(in->plan), SIZE_MAX, &damaged) == 0) {
		bundle = json_object_object_get(plan, "bundle");
		show_all(&m, bundle, true);
		if (m.any) {
			forget(&m, bundle, "worst_path");
			forget(&m, bundle, "gpu_path");
		}
		show_all(&m, json_object_object_get(plan, "rank_map"), false);
		if (m.any)
			r = m.failed ? error_set(err, -ENOMEM, "no memory for the plan of instance %s", instance) :
				       write_plan(tx, instance, plan, err);
	}
	arena_done(&arena);
	return r;
}
