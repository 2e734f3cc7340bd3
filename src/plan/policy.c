/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What velad.conf says about plans, as values. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/conf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "plan/plan.h"
#include "plan/pool.h"

static bool is_about_nics(const char *key)
{
	static const char *const keys[] = { "vfs", "vfs_per_gpu", "max_path", "min_bandwidth", "spread", "rails", "gdr" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i], key) == 0)
			return true;
	return false;
}

/* "vcpus=16": a key of a request. */
static int add_key(struct json_out *o, char *word, bool nics, struct error *err)
{
	char *value = strchr(word, '=');
	uint64_t n;

	if (value)
		*value++ = '\0';
	if (!value || !*value || strcmp(word, "gpus") == 0 || strcmp(word, "name") == 0)
		return error_set(err, -EINVAL, "\"%.40s%s%.40s\" is not KEY=VALUE of a request, as vcpus=16", word, value ? "=" : "",
				 value ? value : "");
	if (!nics && is_about_nics(word))
		return 0;
	if (parse_uint(&n, value, 10, INT64_MAX) == 0)
		json_add_uint(o, word, n);
	else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
		json_add_bool(o, word, strcmp(value, "true") == 0);
	else
		json_add_string(o, word, value);
	return 0;
}

int plan_shape_request(struct plan_request *ret, const struct plan_policy *policy, size_t shape, bool nics, struct error *err)
{
	struct json_out o = json_out_new();
	auto_(json_object_put) json_object *doc = NULL;
	char text[PLAN_SHAPE_TEXT], *rest = text, *word;
	bool vfs = strstr(policy->shape_more[shape], "vfs=") != NULL;
	int r = 0;

	(void)snprintf(text, sizeof(text), "%s", policy->shape_more[shape]);
	json_add_uint(&o, "gpus", policy->shape[shape].size);
	json_add_uint(&o, "vcpus", policy->shape[shape].size);
	json_add_string(&o, "gdr", "off");
	if (nics && !vfs)
		json_add_uint(&o, "vfs_per_gpu", 1);
	if (nics)
		json_add_string(&o, "max_path", "PIX");
	while (r == 0 && (word = strsep(&rest, ",")))
		if (*word)
			r = add_key(&o, word, nics, err);
	doc = json_finish(&o);
	if (r == 0)
		r = doc ? plan_request_read(ret, doc, err) : error_set(err, -ENOMEM, "no memory for a shape");
	return r;
}

/* "4:10": one bundle of four GPUs for ten others; "4:10,vcpus=64" */
static int add_shape(struct plan_policy *p, char *word, struct error *err)
{
	char *more = strchr(word, ','), *colon;
	struct plan_request request;
	uint64_t size = 0, weight = 0;
	int r;

	if (more)
		*more++ = '\0';
	colon = strchr(word, ':');
	if (colon)
		*colon = '\0';
	if (!colon || parse_uint(&size, word, 10, PLAN_GPUS_MAX) < 0 || !size || parse_uint(&weight, colon + 1, 10, 1000) < 0)
		return error_set(err, -EINVAL, "[plan] shapes: \"%.20s%s%.20s\" is not GPUs:WEIGHT, 1 to %d and 0 to 1000", word,
				 colon ? ":" : "", colon ? colon + 1 : "", PLAN_GPUS_MAX);
	if (p->nshapes == SOLVE_SHAPES_MAX)
		return error_set(err, -EINVAL, "[plan] shapes: more than %d", SOLVE_SHAPES_MAX);
	for (size_t i = 0; i < p->nshapes; i++)
		if (p->shape[i].size == size)
			return error_set(err, -EINVAL, "[plan] shapes: %s GPUs stand there twice", word);
	p->shape[p->nshapes] = (struct solve_shape){ .size = (uint32_t)size, .weight = (uint32_t)weight };
	if (snprintf(p->shape_more[p->nshapes], PLAN_SHAPE_TEXT, "%s", more ? more : "") >= PLAN_SHAPE_TEXT)
		return error_set(err, -EINVAL, "[plan] shapes: what a shape asks for is longer than %d bytes", PLAN_SHAPE_TEXT - 1);
	r = plan_shape_request(&request, p, p->nshapes, /* nics= */ true, err);
	if (r < 0)
		return error_prefix(err, "[plan] shapes, %s GPUs", word);
	plan_request_done(&request);
	p->nshapes++;
	return 0;
}

/* ---- names -------------------------------------------------------------------------------------- */

static const struct plan_named_model *model_named(const struct plan_policy *p, const char *name)
{
	for (size_t i = 0; i < p->nnamed_models; i++)
		if (strcasecmp(p->named_model[i].name, name) == 0)
			return &p->named_model[i];
	return NULL;
}

bool plan_model_known(const struct plan_policy *p, const struct plan_model *m)
{
	return !*m->name || model_named(p, m->name);
}

bool plan_model_is(const struct plan_policy *p, const struct plan_model *m, uint16_t vendor, uint16_t device)
{
	const struct plan_named_model *named = *m->name ? model_named(p, m->name) : NULL;

	for (size_t i = 0; named && i < named->n; i++)
		if (named->id[i].vendor == vendor && named->id[i].device == device)
			return true;
	return !*m->name && !((m->vendor ^ vendor) & m->vendor_mask) && !((m->device ^ device) & m->device_mask);
}

static int add_id(struct plan_named_model *m, const struct conf_line *line, const char *word, struct error *err)
{
	const char *colon = strchr(word, ':');
	uint64_t vendor = 0, device = 0;
	char left[8] = "";

	if (colon && colon - word < (ptrdiff_t)sizeof(left))
		memcpy(left, word, (size_t)(colon - word));
	if (!colon || parse_uint(&vendor, left, 16, UINT16_MAX) < 0 || parse_uint(&device, colon + 1, 16, UINT16_MAX) < 0)
		return error_set(err, -EINVAL, "%s: \"%.40s\" is not vendor:device in hex, such as 10de:2330", line->where, word);
	if (m->n == ARRAY_SIZE(m->id))
		return error_set(err, -EINVAL, "%s: more than %zu models", line->where, ARRAY_SIZE(m->id));
	m->id[m->n].vendor = (uint16_t)vendor;
	m->id[m->n++].device = (uint16_t)device;
	return 0;
}

/* Of lines with one name the last counts. */
static int load_model(struct plan_policy *p, const struct conf_line *line, struct error *err)
{
	struct plan_named_model *m = (struct plan_named_model *)model_named(p, line->key);
	autofree char *text = strdup(line->value);
	char *rest = text, *word;
	int r = text ? 0 : error_set(err, -ENOMEM, "no memory for the configuration");

	if (!m && p->nnamed_models == PLAN_NAMED_MAX)
		return error_set(err, -EINVAL, "%s: more than %d names", line->where, PLAN_NAMED_MAX);
	if (strlen(line->key) >= PLAN_WORD_MAX)
		return error_set(err, -EINVAL, "%s: a name has at most %d characters", line->where, PLAN_WORD_MAX - 1);
	m = m ? m : &p->named_model[p->nnamed_models++];
	*m = (struct plan_named_model){ 0 };
	memcpy(m->name, line->key, strlen(line->key));
	while (r == 0 && (word = strsep(&rest, " \t")))
		if (*word)
			r = add_id(m, line, word, err);
	return r;
}

int plan_policy_load(struct plan_policy *ret, const struct conf *conf, struct error *err)
{
	struct plan_policy p = {
		.vfs_per_pf = (uint16_t)conf->vfs_per_pf,
		.memory_reserve = conf->memory_reserve,
		.host_cores = (unsigned)conf->host_cores,
		.link_percent = (unsigned)conf->link_percent,
		.scrub = strcmp(conf->scrub, "none") != 0,
	};
	autofree char *text = strdup(conf->shapes);
	struct plan_pool_conf pool = { 0 };
	char *rest = text, *word;
	int r = text ? plan_boards_load(&p.boards, conf, err) : error_set(err, -ENOMEM, "no memory for the configuration");

	p.cpus_shared = strcmp(conf->cpus, "shared") == 0;
	if (!p.cpus_shared && strcmp(conf->cpus, "exclusive") != 0)
		return error_set(err, -EINVAL, "[plan] cpus: \"%.40s\" is neither exclusive nor shared", conf->cpus);
	while (r == 0 && (word = strsep(&rest, " \t")))
		if (*word)
			r = add_shape(&p, word, err);
	for (size_t i = 0; i < conf->nmodels && r == 0; i++)
		r = load_model(&p, &conf->model[i], err);
	if (r == 0)
		r = plan_pool_load(&pool, conf, err);
	if (!pool.on_demand)
		p.vfs_per_pf = 0;
	if (r == 0)
		r = plan_shapes_check(conf, err);
	if (r == 0)
		*ret = p;
	return r;
}
