/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Plans as JSON (docs/openapi.json). */
#include <json-c/json.h>

#include "base/cpuset.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "host/inventory.h"
#include "plan/plan.h"

static void add_reason_text(struct json_out *o, const struct plan_reason *r)
{
	struct arena a = { 0 };

	json_add_string(o, "text", arena_printf(&a, "%s%s%s; needed: %s", r->device, *r->device ? ": " : "",
						r->observed, r->needed));
	arena_done(&a);
}

json_object *plan_reasons_json(const struct plan_reason *reason, size_t n)
{
	json_object *a = json_object_new_array();
	struct json_out all = { .obj = a, .failed = !a };

	for (size_t i = 0; i < n; i++) {
		struct json_out r = json_out_new();

		json_add_string(&r, "rule", reason[i].rule);
		json_add_string(&r, "device", reason[i].device);
		json_add_string(&r, "observed", reason[i].observed);
		json_add_string(&r, "needed", reason[i].needed);
		add_reason_text(&r, &reason[i]);
		json_append_out(&all, a, &r);
	}
	return json_finish(&all);
}

static void add_gpus(struct json_out *o, const struct plan *p)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < p->ngpus; i++) {
		struct json_out g = json_out_new();

		json_add_bdf(&g, "bdf", p->gpu[i]);
		if (p->gpu_node[i] < 0)
			json_add_string(&g, "numa_node", NULL);
		else
			json_add_int(&g, "numa_node", p->gpu_node[i]);
		json_append_out(o, a, &g);
	}
	json_add(o, "gpus", a);
}

static void add_vfs(struct json_out *o, const struct plan *p)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < p->nvfs; i++) {
		const struct plan_vf *vf = &p->vf[i];
		struct json_out v = json_out_new();

		json_add_bdf(&v, "bdf", vf->bdf);
		json_add_bdf(&v, "pf", vf->pf);
		json_add_uint(&v, "index", vf->index);
		json_add_bdf(&v, "gpu", vf->gpu);
		json_add_string(&v, "path", bdf_is_none(vf->gpu) ? NULL : topo_class_text(vf->path));
		json_add_bool(&v, "exists", vf->exists);
		json_add_made(&v, "settings", plan_vf_json(&vf->set));
		json_append_out(o, a, &v);
	}
	json_add(o, "vfs", a);
}

/* "0-3,8"; null: all of the node */
static void add_cpus(struct json_out *o, const struct cpuset *cpus)
{
	struct sbuf list = { 0 };
	autofree char *text = NULL;

	if (cpus)
		cpuset_write(&list, cpus);
	text = sbuf_steal(&list);
	o->failed = o->failed || !text;
	json_add_string(o, "cpus", cpus ? text : NULL);
	sbuf_done(&list);
}

static void add_rest(struct json_out *o, const struct plan *p)
{
	json_object *companions = json_object_new_array(), *extras = json_object_new_array(), *cells = json_object_new_array();

	for (size_t i = 0; i < p->ncompanions; i++) {
		struct json_out c = json_out_new();

		json_add_bdf(&c, "bdf", p->companion[i].bdf);
		json_add_bdf(&c, "of", p->companion[i].of);
		json_append_out(o, companions, &c);
	}
	for (size_t i = 0; i < p->ncells; i++) {
		struct json_out c = json_out_new();

		json_add_int(&c, "host_node", p->cell[i].host_node);
		json_add_uint(&c, "memory", p->cell[i].memory);
		json_add_uint(&c, "vcpus", p->cell[i].vcpus);
		add_cpus(&c, p->cell[i].cpus);
		json_append_out(o, cells, &c);
	}
	for (size_t i = 0; i < p->nextras; i++) {
		const struct plan_extra *e = &p->extra[i];
		struct json_out x = json_out_new();

		json_add_bdf(&x, "bdf", e->bdf);
		json_add_string(&x, "kind", host_kind_text(e->nvswitch ? HOST_NVSWITCH : HOST_NVME));
		if (e->numa_node < 0)
			json_add_string(&x, "numa_node", NULL);
		else
			json_add_int(&x, "numa_node", e->numa_node);
		json_append_out(o, extras, &x);
	}
	json_add(o, "companions", companions);
	json_add(o, "extras", extras);
	json_add(o, "cells", cells);
}

static void add_bundle(struct json_out *o, const struct plan *p)
{
	struct json_out b;

	if (!p->fits) {
		json_add_string(o, "bundle", NULL);
		return;
	}
	b = json_out_new();
	add_gpus(&b, p);
	add_vfs(&b, p);
	add_rest(&b, p);
	if (p->partitioned)
		json_add_uint(&b, "partition", p->partition);
	else
		json_add(&b, "partition", NULL);
	json_add_string(&b, "worst_path", p->nvfs && p->ngpus ? topo_class_text(p->worst_path) : NULL);
	json_add_string(&b, "gpu_path", p->ngpus > 1 ? topo_class_text(p->gpu_path) : NULL);
	json_add_out(o, "bundle", &b);
}

void plan_step_append(struct json_out *o, json_object *array, const struct plan_step *step)
{
	struct json_out s = json_out_new();

	json_add_string(&s, "id", plan_step_text(step->kind));
	json_add_string(&s, "target", step->target);
	json_add_string(&s, "from", step->from);
	json_add_string(&s, "to", step->to);
	json_append_out(o, array, &s);
}

static void add_steps(struct json_out *o, const struct plan *p)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < p->nsteps; i++)
		plan_step_append(o, a, &p->step[i]);
	json_add(o, "steps", a);
}

/* null: not of interest without VFs, or without a second GPU */
static struct json_out score_json(const struct plan *p, const struct plan_score *s)
{
	const uint32_t *t = s->score.term;
	struct json_out o = json_out_new();
	json_object *gpus = json_object_new_array();
	bool pairs = p->nvfs && p->ngpus;
	char text[BDF_TEXT_MAX];

	for (size_t i = 0; i < s->ngpus; i++)
		json_append(&o, gpus, json_object_new_string(bdf_text(text, s->gpu[i])));
	json_add_made(&o, "gpus", gpus);
	json_add_string(&o, "path", pairs ? topo_class_text((enum topo_class)t[SCORE_PATH]) : NULL);
	if (s->bandwidth)
		json_add_uint(&o, "bandwidth", s->bandwidth);
	else
		json_add(&o, "bandwidth", NULL);
	json_add_string(&o, "gpu_path", p->ngpus > 1 ? topo_class_text((enum topo_class)t[SCORE_GPU_PATH]) : NULL);
	json_add_uint(&o, "nodes", t[SCORE_NODES]);
	json_add_uint(&o, "sharing", t[SCORE_SHARING]);
	json_add_uint(&o, "leftover", t[SCORE_LEFTOVER]);
	json_add_uint(&o, "wear", t[SCORE_WEAR]);
	return o;
}

static void add_explain(struct json_out *o, const struct plan *p)
{
	static const char *const decides[SCORE_TERMS + 1] = { "path", "bandwidth", "gpu_path", "nodes", "sharing", "leftover", "wear", "order" };
	struct json_out e, child;

	if (!p->fits) {
		json_add_string(o, "explain", NULL);
		return;
	}
	e = json_out_new();
	child = score_json(p, &p->chosen);
	json_add_out(&e, "chosen", &child);
	if (p->next.known) {
		child = score_json(p, &p->next);
		json_add_out(&e, "next", &child);
	} else {
		json_add_string(&e, "next", NULL);
	}
	json_add_string(&e, "decided_by", p->next.known ? decides[score_differ(&p->chosen.score, &p->next.score)] : NULL);
	json_add_out(o, "explain", &e);
}

json_object *plan_json(const struct plan *p)
{
	struct json_out o = json_out_new();
	json_object *reasons = plan_reasons_json(p->reason, p->nreasons), *notes = plan_reasons_json(p->note, p->nnotes);

	o.failed = o.failed || !reasons || !notes;
	json_add_bool(&o, "fits", p->fits);
	json_add_uint(&o, "generation", p->generation);
	json_add(&o, "reasons", reasons);
	json_add(&o, "notes", notes);
	add_bundle(&o, p);
	add_explain(&o, p);
	add_steps(&o, p);
	json_add_string(&o, "domain_xml", p->domain_xml);
	json_add_string(&o, "nccl_topology", p->nccl_xml);
	if (p->rank_map)
		json_add(&o, "rank_map", json_object_get(p->rank_map));
	if (p->vendor_data) {
		struct json_out seed = json_out_new();

		json_add_string(&seed, "meta_data", p->meta_data);
		json_add_string(&seed, "vendor_data", p->vendor_data);
		json_add_out(&o, "seed", &seed);
	}
	return json_finish(&o);
}
