/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl plan: does it fit, with what, and by which steps. That it does not fit is an answer, not an error. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/request.h"
#include "velactl/bundle.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/request.h"
#include "velactl/source.h"

static void write_summary(struct ctl_out *out, json_object *bundle)
{
	const char *worst = ctl_doc_text(bundle, "worst_path"), *gpu_path = ctl_doc_text(bundle, "gpu_path");
	size_t gpus = ctl_doc_count(ctl_doc_list(bundle, "gpus")), vfs = ctl_doc_count(ctl_doc_list(bundle, "vfs"));

	sbuf_addf(&out->text, "fits: %zu GPU%s, %zu VF%s", gpus, gpus == 1 ? "" : "s", vfs, vfs == 1 ? "" : "s");
	if (*worst)
		sbuf_addf(&out->text, "; worst GPU-VF path %.8s", worst);
	if (*gpu_path)
		sbuf_addf(&out->text, "; worst GPU-GPU path %.8s", gpu_path);
	sbuf_add(&out->text, "\n");
}

static void write_lease(struct ctl_out *out, json_object *lease)
{
	const char *id = ctl_doc_text(lease, "id");

	if (lease)
		sbuf_addf(&out->text, "\nheld until %.40s: velactl create NAME --plan %.40s, or velactl release %.40s\n",
			  ctl_doc_text(lease, "expires"), id, id);
}

/* Only velad can hold devices. */
static int add_seconds(struct ctl *c, json_object *body, struct error *err)
{
	json_object *n;

	if (!c->args.lease)
		return 0;
	if (c->args.root || c->args.host)
		return error_set(err, -EINVAL, "--lease asks velad to hold devices and cannot work with --%s",
				 c->args.root ? "root" : "host");
	n = json_object_new_uint64(c->args.lease);
	if (n && json_object_object_add(body, "lease_seconds", n) == 0)
		return 0;
	json_object_put(n);
	return error_set(err, -ENOMEM, "no memory for the request");
}

static const char *term_text(char buf[24], json_object *score, const char *key)
{
	if (strcmp(key, "bandwidth") == 0 && ctl_doc_get(score, key))
		(void)snprintf(buf, 24, "%lld Gb/s", (long long)(ctl_doc_int(score, key, 0) / 125000000));
	else if (ctl_doc_get(score, key))
		(void)snprintf(buf, 24, "%.20s", json_object_get_string(ctl_doc_get(score, key)));
	else
		(void)snprintf(buf, 24, "unknown");
	return buf;
}

/* "  GPU-NIC path  PIX  NODE": a term of the chosen and of the next best. */
static void write_term(struct ctl_out *out, const char *label, const char *key, json_object *chosen, json_object *next)
{
	char a[24], b[24];

	if (strcmp(key, "bandwidth") == 0 ? !ctl_doc_get(chosen, "path") : !ctl_doc_get(chosen, key))
		return;
	if (next)
		sbuf_addf(&out->text, "  %-30s %-9s %s\n", label, term_text(a, chosen, key), term_text(b, next, key));
	else
		sbuf_addf(&out->text, "  %-30s %s\n", label, term_text(a, chosen, key));
}

static void write_gpus(struct ctl_out *out, const char *title, json_object *score)
{
	json_object *gpus = ctl_doc_list(score, "gpus");

	sbuf_add(&out->text, title);
	for (size_t i = 0; i < ctl_doc_count(gpus); i++)
		sbuf_addf(&out->text, " %.16s", json_object_get_string(json_object_array_get_idx(gpus, i)));
	sbuf_add(&out->text, ctl_doc_count(gpus) ? "\n" : " no GPUs\n");
}

static void write_explain(struct ctl_out *out, json_object *explain)
{
	static const struct {
		const char *key, *label;
	} terms[] = {
		{ "path", "farthest GPU from its NIC" },
		{ "bandwidth", "narrowest GPU-NIC way" },
		{ "gpu_path", "farthest GPUs from each other" },
		{ "nodes", "NUMA nodes" },
		{ "sharing", "VFs on the fullest NIC port" },
		{ "leftover", "weight lost to later bundles" },
		{ "wear", "wear" },
	};
	json_object *chosen = ctl_doc_get(explain, "chosen"), *next = ctl_doc_get(explain, "next");
	const char *by = ctl_doc_text(explain, "decided_by");

	write_gpus(out, "chosen:   ", chosen);
	if (next)
		write_gpus(out, "next best:", next);
	for (size_t i = 0; i < ARRAY_SIZE(terms); i++)
		write_term(out, terms[i].label, terms[i].key, chosen, next);
	if (strcmp(by, "order") == 0)
		sbuf_add(&out->text, "  equal; the one with the lower addresses was taken\n");
	for (size_t i = 0; i < ARRAY_SIZE(terms); i++)
		if (strcmp(terms[i].key, by) == 0)
			sbuf_addf(&out->text, "  decided by: %s\n", terms[i].label);
	sbuf_add(&out->text, "\n");
}

static int write_plan(struct ctl *c, json_object *plan, struct error *err)
{
	json_object *steps = ctl_doc_list(plan, "steps");
	int r;

	if (!ctl_doc_bool(plan, "fits")) {
		(void)ctl_reasons_write(&c->out, "does not fit:\n", ctl_doc_list(plan, "reasons"));
		return 0;
	}
	write_summary(&c->out, ctl_doc_get(plan, "bundle"));
	(void)ctl_reasons_write(&c->out, "", ctl_doc_list(plan, "reasons"));
	sbuf_add(&c->out.text, "\n");
	if (ctl_reasons_write(&c->out, "not as preferred:\n", ctl_doc_list(plan, "notes")))
		sbuf_add(&c->out.text, "\n");
	if (c->args.explain)
		write_explain(&c->out, ctl_doc_get(plan, "explain"));
	r = ctl_bundle_write(&c->out, ctl_doc_get(plan, "bundle"), /* planned= */ true, err);
	if (r < 0)
		return r;
	sbuf_add(&c->out.text, "\n");
	r = ctl_steps_write(&c->out, steps, err);
	write_lease(&c->out, ctl_doc_get(plan, "lease"));
	return r;
}

static int write_xml(struct ctl *c, json_object *plan, const char *key, const char *what, struct error *err)
{
	const char *xml = ctl_doc_text(plan, key);
	size_t n = strlen(xml);

	if (!n)
		return error_set(err, -ENOENT, "the plan has no %s", what);
	sbuf_add(&c->out.text, xml);
	if (xml[n - 1] != '\n')
		sbuf_add(&c->out.text, "\n");
	return 0;
}

/* ---- several bundles ------------------------------------------------------------------------------ */

static int write_gang(struct ctl *c, json_object *gang, struct error *err)
{
	json_object *plans = ctl_doc_list(gang, "plans");
	int r = 0;

	if (ctl_reasons_write(&c->out, "does not fit:\n", ctl_doc_list(gang, "reasons")))
		sbuf_add(&c->out.text, "\n");
	for (size_t i = 0; i < ctl_doc_count(plans) && r == 0; i++) {
		json_object *plan = json_object_array_get_idx(plans, i);

		if (!ctl_doc_bool(gang, "fits") && ctl_doc_bool(plan, "fits"))
			continue; /* it would fit by itself */
		sbuf_addf(&c->out.text, "%sbundle %zu ", i ? "\n" : "", i);
		r = write_plan(c, plan, err);
	}
	write_lease(&c->out, ctl_doc_get(gang, "lease"));
	return r;
}

static enum ctl_exit plan_gang(struct ctl *c, json_object *body, const char *name)
{
	auto_(json_object_put) json_object *gang = NULL;
	struct error err = ERROR_INIT;
	int r = add_seconds(c, body, &err);

	if (name || c->args.xml || c->args.nccl)
		r = error_set(&err, -EINVAL, "a file with several bundles goes without NAME, --xml and --nccl");
	if (r == 0)
		r = ctl_source_gang(&gang, c, body, &err);
	if (r == 0 && c->args.json)
		ctl_out_json(&c->out, gang);
	else if (r == 0)
		r = write_gang(c, gang, &err);
	if (r < 0)
		return ctl_fail(c, &err);
	return ctl_doc_bool(gang, "fits") ? CTL_OK : CTL_NO_CAPACITY;
}

/* ---- the verb -------------------------------------------------------------------------------------- */

enum ctl_exit ctl_plan(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *body = NULL;
	auto_(json_object_put) json_object *plan = NULL;
	struct error err = ERROR_INIT;
	struct plan_request req;
	bool fits;
	int r;

	if (c->args.file && !c->args.request && ctl_request_file(&body, c->args.file, &err) < 0)
		return ctl_fail(c, &err);
	if (json_object_is_type(body, json_type_object) && json_object_object_get_ex(body, "bundles", NULL))
		return plan_gang(c, body, n ? arg[0] : NULL);
	if (ctl_conf(c, &err) < 0 || ctl_request_read(&body, &req, &c->args, &c->conf, n ? arg[0] : NULL, &err) < 0)
		return ctl_fail(c, &err);
	r = add_seconds(c, body, &err);
	if (r == 0)
		r = ctl_source_plan(&plan, c, &req, body, &err);
	plan_request_done(&req);
	if (r < 0)
		return ctl_fail(c, &err);
	fits = ctl_doc_bool(plan, "fits");
	if (c->args.json)
		ctl_out_json(&c->out, plan);
	else if (c->args.xml && fits)
		r = write_xml(c, plan, "domain_xml", "domain XML", &err);
	else if (c->args.nccl && fits)
		r = write_xml(c, plan, "nccl_topology", "topology for NCCL: it has no GPUs", &err);
	else
		r = write_plan(c, plan, &err);
	if (r < 0)
		return ctl_fail(c, &err);
	return fits ? CTL_OK : CTL_NO_CAPACITY;
}
