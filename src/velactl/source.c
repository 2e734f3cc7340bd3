/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/source.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "check/check.h"
#include "guest/guest.h"
#include "host/dump.h"
#include "host/inventory.h"
#include "host/vpd.h"
#include "plan/acs.h"
#include "plan/capacity.h"
#include "plan/gang.h"
#include "plan/pool.h"
#include "plan/routes.h"
#include "topo/path.h"
#include "velactl/ctl.h"

static bool offline(const struct ctl *c)
{
	return c->args.root || c->args.host;
}

/* velad knows which QEMU is there. */
static int refuse_qemu(const struct ctl *c, struct error *err)
{
	return c->args.qemu && !offline(c) ? error_set(err, -EINVAL, "--qemu is for a host read with --host or --root") : 0;
}

static int ask(json_object **ret, struct ctl *c, const char *method, const char *path, json_object *body,
	       struct error *err)
{
	int r = ctl_remote(ret, c, method, path, body, err);

	if (r == -ECONNREFUSED)
		(void)snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text),
			       "; or read this machine without velad: --root /");
	return r;
}

/* Files that were named are no objects of velad: only "invalid" keeps its exit status. */
static int file_error(int r, struct error *err)
{
	if (r < 0 && r != -EINVAL && r != -ENOMEM)
		err->code = r = -EIO;
	return r;
}

static int open_root(struct host_root **ret, struct ctl *c, struct error *err)
{
	int r = c->args.host ? host_root_open_text(ret, c->args.host, err)
			     : host_root_open(ret, c->args.root ? c->args.root : "/", err);

	return file_error(r, err);
}

static int read_kinds(struct host_kinds *ret, struct ctl *c, struct error *err)
{
	int r = ctl_conf(c, err);

	return r < 0 ? r : host_kinds_load(ret, &c->conf, err);
}

int ctl_source_root(struct host_root **ret, struct host_kinds *kinds, struct ctl *c, struct error *err)
{
	int r = read_kinds(kinds, c, err);

	return r < 0 ? r : open_root(ret, c, err);
}

static int read_topo(struct topo **ret, struct ctl *c, struct error *err)
{
	auto_(host_inventory_free) struct inventory *inv = NULL;
	auto_(host_root_close) struct host_root *root = NULL;
	struct host_kinds kinds = { 0 };
	int r = ctl_source_root(&root, &kinds, c, err);

	if (r < 0)
		return r;
	r = host_inventory_read(&inv, root, &kinds, err);
	if (r < 0)
		return file_error(error_prefix(err, "%s", c->args.host ? c->args.host : c->args.root), err);
	r = topo_build(ret, inv, /* generation */ 1, err);
	if (r == 0)
		inv = NULL; /* the topology has it */
	return r;
}

static int rendered(json_object **ret, json_object *doc, struct error *err)
{
	if (!doc)
		return error_set(err, -ENOMEM, "no memory for the document");
	*ret = doc;
	return 0;
}

/* Of a document that velad has under path: with velad, its answer in *ret; else this host's topology in *t, to make it of. */
static int ask_or_read(json_object **ret, struct topo **t, struct ctl *c, const char *path, struct error *err)
{
	return offline(c) ? read_topo(t, c, err) : ask(ret, c, "GET", path, NULL, err);
}

int ctl_source_topology(json_object **ret, struct ctl *c, struct error *err)
{
	auto_(topo_unref) struct topo *t = NULL;
	int r = ask_or_read(ret, &t, c, "/v1/topology", err);

	return r < 0 || !t ? r : rendered(ret, topo_json(t), err);
}

int ctl_source_host(json_object **ret, struct ctl *c, struct error *err)
{
	auto_(topo_unref) struct topo *t = NULL;
	int r = ask_or_read(ret, &t, c, "/v1/host", err);

	return r < 0 || !t ? r : rendered(ret, topo_host_json(t), err);
}

int ctl_source_routes(json_object **ret, struct ctl *c, struct error *err)
{
	auto_(topo_unref) struct topo *t = NULL;
	int r = ask_or_read(ret, &t, c, "/v1/routes", err);

	return r < 0 || !t ? r : plan_routes_json(ret, t, err);
}

int ctl_source_acs(json_object **ret, struct ctl *c, struct error *err)
{
	auto_(plan_acs_free) struct plan_acs *plan = NULL;
	auto_(topo_unref) struct topo *t = NULL;
	int r = ask_or_read(ret, &t, c, c->args.exclusive ? "/v1/acs/exclusive" : "/v1/acs", err);

	if (r < 0 || !t)
		return r;
	r = plan_acs_all(&plan, t, c->args.exclusive, err);
	return r < 0 ? r : rendered(ret, plan_acs_json(plan, NULL), err);
}

int ctl_source_pool(json_object **ret, struct ctl *c, struct error *err)
{
	auto_(plan_pool_free) struct plan_pool *plan = NULL;
	auto_(topo_unref) struct topo *t = NULL;
	struct plan_pool_conf pool;
	struct plan_policy policy;
	struct plan_pool_in in = { .conf = &pool, .policy = &policy };
	int r = ask_or_read(ret, &t, c, "/v1/pool", err);

	if (r < 0 || !t)
		return r;
	in.topo = t;
	r = plan_pool_load(&pool, &c->conf, err);
	if (r == 0)
		r = plan_policy_load(&policy, &c->conf, err);
	if (r == 0)
		r = plan_pool_make(&plan, &in, err);
	return r < 0 ? r : rendered(ret, plan_pool_json(plan, &pool, NULL, NULL, 0), err);
}

int ctl_source_checks(json_object **ret, struct ctl *c, struct error *err)
{
	auto_(check_report_free) struct check_report *report = NULL;
	auto_(topo_unref) struct topo *t = NULL;
	struct check_input in = { .qemu = (unsigned)c->args.qemu };
	int r = refuse_qemu(c, err);

	if (r == 0)
		r = ask_or_read(ret, &t, c, "/v1/checks", err);
	if (r < 0 || !t)
		return r;
	in.topo = t;
	r = check_host(&report, &in, err);
	return r < 0 ? r : rendered(ret, check_json(report), err);
}

/* What lies between two functions; make is topo's or plan's. */
static int between(json_object **ret, struct ctl *c, const char *path, struct bdf from, struct bdf to,
		   int (*make)(json_object **, const struct topo *, struct bdf, struct bdf, struct error *), struct error *err)
{
	auto_(topo_unref) struct topo *t = NULL;
	char text[80], a[BDF_TEXT_MAX], b[BDF_TEXT_MAX];
	int r;

	(void)snprintf(text, sizeof(text), "%s/%s,%s", path, bdf_text(a, from), bdf_text(b, to));
	r = ask_or_read(ret, &t, c, text, err);
	return r < 0 || !t ? r : make(ret, t, from, to, err);
}

int ctl_source_path(json_object **ret, struct ctl *c, struct bdf a, struct bdf b, struct error *err)
{
	return between(ret, c, "/v1/topology/paths", a, b, topo_path_json, err);
}

int ctl_source_route(json_object **ret, struct ctl *c, struct bdf from, struct bdf to, struct error *err)
{
	return between(ret, c, "/v1/routes", from, to, plan_route_json, err);
}

int ctl_source_plan(json_object **ret, struct ctl *c, const struct plan_request *req, json_object *body,
		    struct error *err)
{
	auto_(plan_free) struct plan *plan = NULL;
	auto_(topo_unref) struct topo *t = NULL;
	struct plan_input in = { .request = req };
	struct guest_dirs dirs;
	int r;

	r = refuse_qemu(c, err);
	if (r < 0 || !offline(c))
		return r < 0 ? r : ask(ret, c, "POST", "/v1/plans", body, err);
	r = read_topo(&t, c, err);
	if (r < 0)
		return r;
	in.topo = t;
	r = plan_policy_load(&in.policy, &c->conf, err);
	if (r == 0)
		r = plan_make(&plan, &in, err);
	dirs = (struct guest_dirs){ .console = c->conf.console_dir, .images = c->conf.images_dir, .qemu = (unsigned)c->args.qemu };
	if (r == 0 && plan->fits)
		r = guest_plan_xml(plan, req, t, NULL, NULL, &dirs, err);
	return r < 0 ? r : rendered(ret, plan_json(plan), err);
}

static int gang_of(json_object **ret, struct ctl *c, const struct topo *t, const struct plan_request *const *request, size_t n,
		   struct error *err)
{
	auto_(plan_gang_free) struct plan_gang *gang = NULL;
	const struct guest_dirs dirs = { .console = c->conf.console_dir, .images = c->conf.images_dir, .qemu = (unsigned)c->args.qemu };
	struct plan_input in = { .topo = t };
	int r = plan_policy_load(&in.policy, &c->conf, err);

	if (r == 0)
		r = plan_gang_make(&gang, &in, request, n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (gang->plan[i]->fits)
			r = guest_plan_xml(gang->plan[i], request[i], t, NULL, NULL, &dirs, err);
		gang->fits = gang->fits && gang->plan[i]->fits;
	}
	return r < 0 ? r : rendered(ret, plan_gang_json(gang), err);
}

int ctl_source_gang(json_object **ret, struct ctl *c, json_object *body, struct error *err)
{
	json_object *list = json_object_object_get(body, "bundles");
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0, read = 0;
	const struct plan_request *request[PLAN_GANG_MAX];
	struct plan_request r_of[PLAN_GANG_MAX];
	auto_(topo_unref) struct topo *t = NULL;
	int r = refuse_qemu(c, err);

	if (r < 0 || !offline(c))
		return r < 0 ? r : ask(ret, c, "POST", "/v1/plans", body, err);
	if (n < 1 || n > PLAN_GANG_MAX)
		return error_set(err, -EINVAL, "bundles must be a list of 1 to %d requests", PLAN_GANG_MAX);
	for (; read < n && r == 0; read += r == 0) {
		request[read] = &r_of[read];
		r = plan_request_read_shaped(&r_of[read], json_object_array_get_idx(list, read), &c->conf, err);
		if (r < 0)
			(void)error_prefix(err, "bundle %zu", read);
	}
	if (r == 0)
		r = read_topo(&t, c, err);
	if (r == 0)
		r = gang_of(ret, c, t, request, n, err);
	for (size_t i = 0; i < read; i++)
		plan_request_done(&r_of[i]);
	return r;
}

int ctl_source_capacity(json_object **ret, struct ctl *c, struct error *err)
{
	auto_(topo_unref) struct topo *t = NULL;
	struct plan_input in = { 0 };
	int r = ask_or_read(ret, &t, c, "/v1/capacity", err);

	if (r < 0 || !t)
		return r;
	in.topo = t;
	r = plan_policy_load(&in.policy, &c->conf, err);
	return r < 0 ? r : plan_capacity_json(ret, &in, err);
}

int ctl_source_dump(char **ret, struct ctl *c, struct anonymize_counts *hidden, struct error *err)
{
	auto_(host_root_close) struct host_root *root = NULL;
	struct host_kinds kinds = { 0 };
	int r = ctl_source_root(&root, &kinds, c, err);

	return r < 0 ? r : file_error(host_dump(ret, root, &kinds, hidden, err), err);
}

int ctl_source_vpd(struct vpd *ret, struct ctl *c, struct bdf bdf, struct arena *arena, struct error *err)
{
	auto_(host_root_close) struct host_root *root = NULL;
	int r = open_root(&root, c, err);

	return r < 0 ? r : file_error(host_vpd_read(ret, root, bdf, arena, err), err);
}
