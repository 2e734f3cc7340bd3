/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which things of which instances are to be kept, from the store: ports by the steps that are done, functions by the
 * bundles. Made anew only when something was committed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "instance/manager.h"
#include "instance/store.h"

#define PLAN_BYTES_MAX (16 * 1024 * 1024) /* our own text: far above any plan */

struct list {
	struct arena arena;
	struct arena rows; /* of one instance: most of it is what is not kept */
	struct kept *at;
	size_t       n, size;
};

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for what is to be kept");
}

static struct kept *add(struct list *l, const struct rows_instance *in, enum kept_kind kind, const char *device)
{
	struct kept *k;

	if (l->n == l->size) {
		size_t size = l->size ? 2 * l->size : 32;
		struct kept *grown = arena_array(&l->arena, size, sizeof(*grown));

		if (!grown)
			return NULL;
		if (l->n)
			memcpy(grown, l->at, l->n * sizeof(*grown));
		l->at = grown;
		l->size = size;
	}
	k = &l->at[l->n];
	*k = (struct kept){ .instance = arena_strdup(&l->arena, in->name), .state = in->state, .kind = kind,
			    .error = in->error ? arena_strdup(&l->arena, in->error) : "", .device = arena_strdup(&l->arena, device) };
	if (!k->instance || !k->error || !k->device || !bdf_parse(&k->bdf, device))
		return NULL;
	l->n++;
	return k;
}

static bool keep_texts(struct list *l, struct rows_step *step)
{
	step->target = arena_strdup(&l->arena, step->target);
	step->from = arena_strdup(&l->arena, step->from);
	step->to = arena_strdup(&l->arena, step->to);
	return step->target && step->from && step->to;
}

static int add_ports(struct store_tx *tx, struct list *l, const struct rows_instance *in, struct error *err)
{
	struct rows_step *step = NULL;
	size_t n = 0;
	int r = rows_steps(tx, &step, &n, in->name, &l->rows, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct kept *k;

		if (step[i].kind != PLAN_STEP_ACS || step[i].state != STEP_DONE)
			continue;
		k = add(l, in, KEPT_PORT, step[i].target);
		if (!k || !keep_texts(l, &step[i]))
			return no_memory(err);
		k->step = step[i];
	}
	return r;
}

static const char *text_of(json_object *o, const char *key)
{
	json_object *v = NULL;

	return json_object_object_get_ex(o, key, &v) && v ? json_object_get_string(v) : "";
}

static size_t length(json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

static int add_functions(struct list *l, const struct rows_instance *in, json_object *bundle, const char *key,
			 enum kept_kind kind, bool required, struct error *err)
{
	json_object *list = json_object_object_get(bundle, key);

	for (size_t i = 0; i < length(list); i++) {
		struct kept *k = add(l, in, kind, text_of(json_object_array_get_idx(list, i), "bdf"));

		if (!k)
			return no_memory(err);
		k->required = required && kind == KEPT_NIC;
	}
	return 0;
}

/* GPUs and NICs that are to reach each other. */
static int add_bundle(struct list *l, const struct rows_instance *in, struct error *err)
{
	auto_(json_object_put) json_object *request = NULL, *plan = NULL;
	json_object *bundle;
	const char *gdr;
	int r = json_parse(&request, in->request, strlen(in->request), PLAN_BYTES_MAX, err);

	if (r == 0)
		r = json_parse(&plan, in->plan, strlen(in->plan), PLAN_BYTES_MAX, err);
	if (r < 0)
		return error_prefix(err, "the store has a damaged instance %s", in->name);
	gdr = text_of(request, "gdr");
	bundle = json_object_object_get(plan, "bundle");
	if (strcmp(gdr, "off") == 0 || !length(json_object_object_get(bundle, "gpus")) ||
	    !length(json_object_object_get(bundle, "vfs")))
		return 0;
	r = add_functions(l, in, bundle, "vfs", KEPT_NIC, strcmp(gdr, "required") == 0, err);
	return r < 0 ? r : add_functions(l, in, bundle, "gpus", KEPT_GPU, false, err);
}

static int gather_one(struct store_tx *tx, struct list *l, const char *name, struct error *err)
{
	struct rows_instance *in = NULL;
	int r = rows_instance_find(tx, &in, name, &l->rows, err);

	if (r < 0 || !in || (in->state != INST_RUNNING && in->state != INST_DEGRADED))
		return r;
	r = add_ports(tx, l, in, err);
	return r < 0 ? r : add_bundle(l, in, err);
}

static int gather(struct inst_manager *m, struct list *l, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena names = { 0 };
	const char **name;
	size_t n = 0;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = rows_all_names(tx, &name, &n, &names, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = gather_one(tx, l, name[i], err);
		arena_done(&l->rows);
	}
	arena_done(&names);
	return r;
}

/* What was seen of the same thing of the same guest: one that was stopped meanwhile is another. */
static void take_over(struct list *l, const struct keep *old)
{
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < old->n; k++) {
			struct kept *to = &l->at[i];
			const struct kept *from = &old->at[k];

			if (to->kind == from->kind && bdf_eq(to->bdf, from->bdf) && strcmp(to->instance, from->instance) == 0) {
				to->ats = from->ats;
				to->looked = from->looked;
				to->told = from->told;
				to->r = from->r;
				to->err = from->err;
				to->aer = from->aer;
			}
		}
}

static void share(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		for (l->at[i].first = 0; !bdf_eq(l->at[l->at[i].first].bdf, l->at[i].bdf);)
			l->at[i].first++;
}

static void count(struct inst_manager *m)
{
	struct keep *k = &m->keep;
	unsigned ports = 0;

	for (size_t i = 0; i < k->n; i++)
		ports += k->at[i].kind == KEPT_PORT;
	(void)pthread_mutex_lock(&m->lock);
	k->nports = ports;
	k->nothers = (unsigned)k->n - ports;
	(void)pthread_cond_signal(&k->cond); /* it may have to look more often now */
	(void)pthread_mutex_unlock(&m->lock);
}

int keep_list(struct inst_manager *m, struct error *err)
{
	struct keep *k = &m->keep;
	uint64_t commits = store_commits(m->store); /* before the store is read: what comes later is seen the next time */
	struct list l = { 0 };
	int r;

	if (k->listed && commits == k->commits)
		return 0;
	r = gather(m, &l, err);
	if (r < 0) {
		arena_done(&l.arena);
		return r;
	}
	take_over(&l, k);
	share(&l);
	arena_done(&k->arena);
	k->arena = l.arena;
	k->at = l.at;
	k->n = l.n;
	k->commits = commits;
	k->listed = true;
	count(m);
	return 0;
}
